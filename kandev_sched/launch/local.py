"""LocalExecutor: agents on this machine, each under its own shim.

Rule kept here: nothing in memory is needed to know an attempt. A directory that another process wrote is
polled, read, cancelled and fenced like one's own; only the children that must be reaped are remembered.
State: result → done; lock held → running; lock free → lost; no lock yet → unborn.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from pathlib import Path
from threading import Lock

from kandev_sched.domain.errors import Conflict, Invalid
from kandev_sched.domain.record import as_dict, field_names
from kandev_sched.launch import rundir, strays
from kandev_sched.launch.command import agent_environment
from kandev_sched.launch.executor import (
    AttemptRef,
    AttemptRefs,
    AttemptResult,
    AttemptState,
    Ending,
    LaunchSpec,
    Observation,
    Stream,
)
from kandev_sched.launch.rundir import RunDir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

STRUCTURED_BYTES = 1024 * 1024  # more than this is no report
SHIM_EXIT_MS = 200  # from the result to the shim's exit; normally one or two

_IMPORT_ROOT = str(Path(__file__).parents[2])
_START = (
    "import sys; sys.path.append(sys.argv[1]); from kandev_sched.launch.shim import main; main(sys.argv[2])"
)
_RUNNING = Observation(state=AttemptState.RUNNING)
_MEASURED = set(field_names(AttemptResult)) - {"structured", "note"}  # found by the shim, as it wrote them


class LocalExecutor:
    """A `ComputeExecutor`. Safe to use from several threads."""

    def __init__(self, root: Path, python: str = sys.executable) -> None:
        self._root, self._python = root.absolute(), python
        self._lock = Lock()
        self._shims: dict[AttemptRef, int] = {}  # our children, not yet reaped
        self._gone: set[AttemptRef] = set()  # whose shim came from us and has exited, or never started

    def submit(self, spec: LaunchSpec) -> None:
        ref = AttemptRef(run_id=spec.run_id, attempt=spec.attempt)
        run_dir = self._dir(ref)
        run_dir.create()
        with self._lock:
            self._reap()
            if ref not in self._shims and not run_dir.has(rundir.LOCK) and not run_dir.has(rundir.RESULT):
                _write_spec(run_dir, spec)
                self._spawn(ref, run_dir)

    def poll(self, ref: AttemptRef) -> Observation:
        run_dir = self._dir(ref)
        with self._lock:
            self._reap()
            observation = self._observe(ref, run_dir)
            if observation.state is AttemptState.DONE:
                self._await_exit(ref)
                self._gone.discard(ref)
        return observation

    def read(self, ref: AttemptRef, stream: str, offset: int, limit: int) -> bytes:
        if stream not in list[str](Stream):
            raise Invalid(f"There is no output stream {stream!r}.", hint="Use stdout or stderr.")
        fd = rundir.open_regular(self._dir(ref).file(stream))
        if fd is None:
            return b""
        try:
            return os.pread(fd, limit, offset)
        finally:
            os.close(fd)

    def cancel(self, ref: AttemptRef) -> None:
        run_dir = self._dir(ref)
        run_dir.create()
        if not run_dir.has(rundir.CANCEL):
            run_dir.put(rundir.CANCEL, b"")
        rundir.poke(run_dir.file(rundir.CONTROL))

    def fence(self, ref: AttemptRef) -> Observation:
        run_dir = self._dir(ref)
        run_dir.create()
        lock = run_dir.seize()
        if lock is None:
            return _known_result(run_dir) or _RUNNING
        try:
            known = _known_result(run_dir)
            if known is None:
                run_dir.put_json(rundir.RESULT, _revocation(run_dir))
        finally:
            os.close(lock)
        return known or self.poll(ref)

    def end_strays(self, ref: AttemptRef) -> int:
        """None of a living shim's processes is a stray."""
        run_dir = self._dir(ref)
        if run_dir.lock_state() == rundir.HELD:
            return 0
        return strays.end(ref.run_id, ref.attempt, _agent_of(run_dir))

    def list(self) -> AttemptRefs:
        paths = self._root.glob("[!.]*/*")
        found = [(p.parent.name, int(p.name)) for p in paths if p.name.isdecimal()]
        return [AttemptRef(run_id=run_id, attempt=attempt) for run_id, attempt in sorted(found)]

    def forget(self, run_id: str) -> None:
        from shutil import rmtree

        mine = [ref for ref in self.list() if ref.run_id == run_id]
        if any(self._dir(ref).lock_state() == rundir.HELD for ref in mine):
            raise Conflict(f"Run {run_id} is still running.", hint="Cancel it first.")
        with self._lock:
            self._gone.difference_update(mine)
        if mine:
            rmtree(self._root / run_id)

    # --- shims ----------------------------------------------------------------------------------

    def _dir(self, ref: AttemptRef) -> RunDir:
        if not ref.run_id or ref.run_id.startswith(".") or "/" in ref.run_id or "\0" in ref.run_id:
            raise Invalid(f"{ref.run_id!r} cannot be the id of a run.")
        return RunDir(f"{self._root}/{ref.run_id}/{ref.attempt}")

    def _spawn(self, ref: AttemptRef, run_dir: RunDir) -> None:
        """Start a shim that outlives us: own session, no descriptor of ours, no directory held."""
        import subprocess

        self._gone.discard(ref)
        linker = {k: v for k, v in os.environ.items() if k == "LD_LIBRARY_PATH"}  # some Pythons need it
        command = [self._python, "-I", "-S", "-c", _START, _IMPORT_ROOT, run_dir.path]
        with open(run_dir.file(rundir.SHIM_ERR), "ab", opener=_private) as errors:
            try:
                shim = subprocess.Popen(
                    command, cwd="/", env=agent_environment(os.environ, linker, {}),
                    start_new_session=True, close_fds=True,
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
                )  # fmt: skip
            except OSError as error:
                errors.write(f"The shim could not be started: {error}\n".encode("utf-8", "replace"))
                self._gone.add(ref)
                return
        self._shims[ref] = shim.pid
        shim.returncode = 0  # Popen shall neither reap it behind our back nor warn that it still runs

    def _reap(self) -> None:
        """Leave no zombie. Called with the lock held."""
        for ref, pid in tuple(self._shims.items()):
            try:
                ended = os.waitpid(pid, os.WNOHANG)[0] != 0
            except ChildProcessError:
                ended = True  # someone in this process waits for every child
            if ended:
                del self._shims[ref]
                self._gone.add(ref)

    def _await_exit(self, ref: AttemptRef) -> None:
        """The result stands, so the shim is about to exit; perhaps nobody polls again to reap it."""
        pid = self._shims.get(ref)
        if pid is not None:
            fd = os.pidfd_open(pid)
            waiting = select.poll()
            waiting.register(fd, select.POLLIN)
            waiting.poll(SHIM_EXIT_MS)
            os.close(fd)
            self._reap()

    def _observe(self, ref: AttemptRef, run_dir: RunDir) -> Observation:
        known = _known_result(run_dir)
        if known is not None:
            return known
        lock = run_dir.lock_state()
        if lock == rundir.HELD:
            return _RUNNING
        # The result comes before the lock is dropped: look again, now that the lock is known to be free.
        unborn = lock == rundir.ABSENT and ref not in self._gone
        state = AttemptState.UNBORN if unborn else AttemptState.LOST
        return _known_result(run_dir) or Observation(state=state)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _write_spec(run_dir: RunDir, spec: LaunchSpec) -> None:
    """spec.json last. Whole, but not durable: what a power cut takes is unborn, and written again."""
    run_dir.put(rundir.PROMPT, spec.prompt.encode("utf-8", "replace"), durable=False)
    run_dir.put(rundir.WAKEUPS, spec.wakeups_json.encode("utf-8", "replace"), durable=False)
    prompt_file = run_dir.file(rundir.PROMPT)
    told = {
        "SCHED_RUN_ID": spec.run_id,
        "SCHED_ATTEMPT": str(spec.attempt),
        "SCHED_PROMPT_FILE": prompt_file,
        "SCHED_WAKEUPS_FILE": run_dir.file(rundir.WAKEUPS),
        "SCHED_RESULT_FILE": run_dir.file(rundir.AGENT_RESULT),
    }
    fields = as_dict(spec)
    del fields["prompt"], fields["wakeups_json"]
    fields["argv"] = [word.replace("{prompt_file}", prompt_file) for word in spec.argv]
    fields["env"] = {**spec.env, **told}
    run_dir.put_json(rundir.SPEC, fields, durable=False)


def _agent_of(run_dir: RunDir) -> list[strays.Process]:
    """The main process that a dead shim left behind, if it is still that process of this boot."""
    who = run_dir.get_json(rundir.SHIM)
    if who is None or who.get("boot_id") != strays.boot_id():
        return []
    agent = strays.process(int(who["agent_pid"]))
    return [agent] if agent is not None and agent.starttime == who["agent_starttime"] else []


# --- results ------------------------------------------------------------------------------------


def _revocation(run_dir: RunDir) -> dict[str, Any]:
    who = run_dir.get_json(rundir.SHIM) or {}
    return {
        **dict.fromkeys(_MEASURED, None),
        "ending": Ending.REVOKED,
        "started_at": who.get("started_at"),
        "finished_at": time.time_ns() // 1_000_000,
        "error": "The attempt was lost or never started, and was revoked.",
        "output_tail": "",
        "stdout_bytes": _size(run_dir.file(rundir.STDOUT)),
        "stderr_bytes": _size(run_dir.file(rundir.STDERR)),
        "stray_count": 0,
    }


def _size(path: str) -> int:
    return os.stat(path).st_size if os.path.exists(path) else 0


def _known_result(run_dir: RunDir) -> Observation | None:
    """Done, if there is a result that can be understood."""
    report = run_dir.get_json(rundir.RESULT)
    if report is None or not report.keys() >= _MEASURED or report["ending"] not in list[str](Ending):
        return None  # none, or the agent wrote rubbish into our file
    structured, remark = _structured(run_dir, report)
    notes = [text for text in (report.get("note"), remark) if text]
    result = AttemptResult(
        ending=Ending(report["ending"]),
        structured=structured,
        note=" ".join(notes) or None,
        exit_code=report["exit_code"],
        signal=report["signal"],
        started_at=report["started_at"],
        finished_at=report["finished_at"],
        output_tail=report["output_tail"],
        error=report["error"],
        stdout_bytes=report["stdout_bytes"],
        stderr_bytes=report["stderr_bytes"],
        stray_count=report["stray_count"],
    )
    return Observation(state=AttemptState.DONE, result=result)


def _structured(run_dir: RunDir, report: dict[str, Any]) -> tuple[dict[str, Any] | None, str | None]:
    """What the agent reported: its result file, else the last line of stdout; and a remark on rubbish."""
    remark = None
    if run_dir.has(rundir.AGENT_RESULT):
        value, remark = _result_file(run_dir.file(rundir.AGENT_RESULT))
        if value is not None:
            return value, None
    line = report.get("last_line") if report.get("stdout_cut") else _last_line(run_dir.file(rundir.STDOUT))
    return _json_object(line or ""), remark


def _result_file(path: str) -> tuple[dict[str, Any] | None, str | None]:
    fd = rundir.open_regular(path)
    if fd is None:
        return None, "SCHED_RESULT_FILE was ignored: it is not a plain file."
    with open(fd, "rb") as file:
        data = file.read(STRUCTURED_BYTES + 1)
    if len(data) > STRUCTURED_BYTES:
        return None, f"SCHED_RESULT_FILE was ignored: it is larger than {STRUCTURED_BYTES} bytes."
    value = _json_object(data.decode("utf-8", "replace"))
    return value, None if value is not None else "SCHED_RESULT_FILE was ignored: it holds no JSON object."


def _json_object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text) if text.lstrip().startswith("{") else None
        if "\\u" in text:  # an escape can spell half a character, which no database can keep
            value = json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None  # a line that only looks like JSON is ordinary output
    return value if isinstance(value, dict) else None


def _last_line(path: str) -> str | None:
    """The last line of a file that is not blank; None when it is longer than a report may be."""
    fd = rundir.open_regular(path)
    if fd is None:
        return None
    with open(fd, "rb") as file:
        start = max(0, file.seek(0, os.SEEK_END) - STRUCTURED_BYTES)
        file.seek(start)
        _, newline, line = file.read().rstrip().rpartition(b"\n")
    return line.decode("utf-8", "replace") if newline or start == 0 else None
