"""Shim: one small process per attempt. It owns the agent, its output, its limits and its result.

Rules kept here: the lock is held from before the agent starts until the result is durable; the agent is
started at most once; when the result stands, no process of the attempt is left; nothing is polled faster
than every TICK_S; supervisors may come and go. Stdlib only, started by `local.py` without site-packages.

Read `main`, then `Shim.run`: start, watch, clear, drain, result.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import time

from kandev_sched.launch import command, rundir, strays
from kandev_sched.launch.output import Output, Tail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

TICK_S = 2.0  # reaps adopted orphans, and finds a cancel file whose byte was lost
SETTLE_S = 0.25  # for what ends by itself right after the agent
LEFTOVER_GRACE_S = 2.0  # for what the agent left behind, between SIGTERM and SIGKILL
GIVE_UP_S = 10.0  # what survives SIGKILL so long (another user's) is reported and not awaited
DRAIN_S = 1.0  # for a pipe that a stranger to the attempt keeps open
TAIL_BYTES = 8192  # of output in the result
RESULT_ROOM = 512 * 1024  # > 6 bytes of JSON for each byte of LINE_BYTES and TAIL_BYTES
ERROR_CHARS = 1000

_PR_SET_CHILD_SUBREAPER = 36
_MOST_WATCHED = 200


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def signal_group(group: int, signum: int) -> None:
    try:
        os.killpg(group, signum)
    except (ProcessLookupError, PermissionError):
        return  # all gone; or all another user's, and then not ours to end


class Agent:
    """The main process. It is our child, so its pid stays its own until it is reaped."""

    def __init__(self, pid: int) -> None:
        self.pid, self.starttime = pid, strays.starttime(pid)
        self.pidfd = os.pidfd_open(pid)
        self.started_at = now_ms()
        self.status: int | None = None

    def outcome(self) -> tuple[int | None, int | None]:
        """(exit code, signal), one of which is None."""
        assert self.status is not None
        code = os.waitstatus_to_exitcode(self.status)
        return (code, None) if code >= 0 else (None, -code)


class Shim:
    """The life of one attempt, from the lock to the result."""

    def __init__(self, run_dir: rundir.RunDir, spec: dict[str, Any]) -> None:
        self.dir, self.spec = run_dir, spec
        self.result = rundir.Reserved(run_dir, rundir.RESULT, RESULT_ROOM)
        self.control = run_dir.open_control()
        self.agent: Agent | None = None
        self.terminal = Tail(TAIL_BYTES)
        self.outputs: dict[str, Output] = {}
        self.ending, self.error = "exited", ""
        self.notes: list[str] = []
        self.strays: set[tuple[int, int]] = set()
        self.kill_at = self.last_output = self.started = time.monotonic()
        self.poller = select.poll()
        self.handlers: dict[int, Callable[[], None]] = {}
        self.on(self.control, self.hear)

    def run(self) -> None:
        """Everything between birth and result."""
        self.prepare()
        self.hear_cancel()
        if self.ending == "exited":
            self.start()
        if self.agent is not None:
            self.watch(self.agent)
            self.clear(self.agent)
            self.drain()
        self.finish()

    # --- start ----------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Hangups and Ctrl-C are not for us; SIGTERM is a cancel; orphans of the agent come to us."""
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # inherited "ignore" would lose exit statuses
        signal.signal(signal.SIGTERM, self.on_sigterm)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
        # A power cut must not make a started attempt look unborn.
        rundir.fsync_directory(self.dir.path)

    def start(self) -> None:
        try:
            self.agent = Agent(self.spawn())
        except command.LaunchFailed as failure:
            self.ending, self.error = "launch_failed", str(failure)
            return
        self.started = self.last_output = time.monotonic()
        self.on(self.agent.pidfd, lambda: None)  # only wakes us: `watch` reaps
        self.sign(self.agent)
        self.event("started", pid=self.agent.pid)

    def spawn(self) -> int:
        """Start the agent: stdin is the prompt, stdout and stderr come to us."""
        argv, env, cwd = self.spec["argv"], self.spec["env"], self.spec["cwd"]
        program = command.enter_and_find(argv, env, cwd)
        stdin = os.open(self.dir.file(rundir.PROMPT), os.O_RDONLY | os.O_CLOEXEC)
        ends = (stdin, self.make_output(rundir.STDOUT), self.make_output(rundir.STDERR))
        try:
            return command.spawn(program, argv, env, ends)
        finally:
            for end in ends:
                os.close(end)
            os.chdir("/")  # holds no file system busy

    def make_output(self, name: str) -> int:
        """A pipe whose reading end feeds the file; returns the end for the agent."""
        ours, theirs = os.pipe()
        os.set_blocking(ours, False)
        output = Output(ours, self.dir.file(name), self.spec["output_cap_bytes"], self.terminal)
        self.outputs[name] = output
        self.on(ours, lambda: self.pump(output))
        return theirs

    def sign(self, agent: Agent) -> None:
        """Say who we are, for readers and for the search for strays."""
        me = os.getpid()
        who = {"pid": me, "starttime": strays.starttime(me), "boot_id": strays.boot_id(),
               "agent_pid": agent.pid, "agent_starttime": agent.starttime,
               "started_at": agent.started_at}  # fmt: skip
        try:
            self.dir.put_json(rundir.SHIM, who, durable=False)
        except OSError as error:  # the run goes on without: strays are found by their mark too
            self.notes.append(f"shim.json could not be written: {error.strerror}.")

    # --- events ---------------------------------------------------------------------------------

    def on(self, fd: int, handler: Callable[[], None]) -> None:
        self.handlers[fd] = handler
        self.poller.register(fd, select.POLLIN)

    def off(self, fd: int) -> None:
        del self.handlers[fd]
        self.poller.unregister(fd)

    def wait(self, until: float) -> None:
        """Sleep until a pipe, the control FIFO or a process has something to say, or the time is up."""
        timeout = max(0.0, until - time.monotonic())
        for fd, _ in self.poller.poll(timeout * 1000):
            if handler := self.handlers.get(fd):  # an earlier handler may have closed it
                handler()

    def pump(self, output: Output) -> None:
        pipe = output.pipe
        if output.read():
            self.last_output = time.monotonic()
        elif pipe is not None:
            self.off(pipe)
            output.close()

    def on_sigterm(self, *_: object) -> None:
        try:
            os.write(self.control, b"t")
        except BlockingIOError:
            return  # 64 KiB of requests wait to be heard

    def hear(self) -> None:
        if b"t" in os.read(self.control, 4096):
            self.begin_ending("cancelled", "The shim was terminated (SIGTERM).")
        self.hear_cancel()

    def hear_cancel(self) -> None:
        """The file is the request; the byte in the FIFO only says that it is there."""
        if self.dir.has(rundir.CANCEL):
            self.begin_ending("cancelled", "The run was cancelled.")

    def reap(self) -> bool:
        """Collect the agent and every orphan that came to us; True when no child is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if self.agent is not None and pid == self.agent.pid:
                self.agent.status = status

    # --- watch ----------------------------------------------------------------------------------

    def watch(self, agent: Agent) -> None:
        """Until the main process is gone."""
        while agent.status is None:
            self.hear_cancel()
            self.check_limits()
            if self.ending != "exited" and time.monotonic() >= self.kill_at:
                self.signal_all(signal.SIGKILL, agent)
                self.kill_at = time.monotonic() + 1
            self.wait(self.next_look())
            self.reap()
        self.off(agent.pidfd)
        os.close(agent.pidfd)

    def limits(self) -> list[tuple[float, str, str]]:
        """When which limit is reached, by a clock that stands still while the machine sleeps."""
        run_s, idle_s = self.spec["max_run_s"], self.spec["idle_output_s"]
        limits = []
        if run_s is not None:
            text = f"The run was ended after {run_s} s (max_run_s)."
            limits.append((self.started + run_s, "timed_out", text))
        if idle_s is not None:
            text = f"The run was ended after {idle_s} s without output (idle_output_s)."
            limits.append((self.last_output + idle_s, "idle_timed_out", text))
        return limits

    def next_look(self) -> float:
        tick = time.monotonic() + TICK_S
        if self.ending != "exited":
            return min(tick, self.kill_at)
        return min([tick, *(at for at, _, _ in self.limits())])

    def check_limits(self) -> None:
        for at, ending, text in self.limits():
            if time.monotonic() >= at:
                self.begin_ending(ending, text)

    def begin_ending(self, ending: str, error: str) -> None:
        """The first reason counts, and only while the agent has not ended by itself."""
        self.reap()
        if self.ending != "exited" or (self.agent is not None and self.agent.status is not None):
            return
        self.ending, self.error = ending, error
        self.kill_at = time.monotonic() + self.spec["grace_s"]
        if self.agent is not None:
            self.event("ending", reason=ending)
            self.signal_all(signal.SIGTERM, self.agent)

    def signal_all(self, signum: int, agent: Agent) -> None:
        """The group at once, then whoever left it. SIGCONT lets a stopped process hear SIGTERM.

        Only before the agent is reaped: until then its pid cannot name another group.
        """
        signal_group(agent.pid, signum)
        signal_group(agent.pid, signal.SIGCONT)
        self.signal_each([p for p in self.left() if p.group != agent.pid], signum, agent)

    def signal_each(self, targets: list[strays.Process], signum: int, agent: Agent) -> None:
        for target in targets:
            hit = strays.send(target, signum)
            strays.send(target, signal.SIGCONT)
            if hit and target.group != agent.pid:
                self.strays.add(target.identity)

    def left(self) -> list[strays.Process]:
        """The processes of this attempt that live, wherever they went."""
        me = strays.process(os.getpid())
        return strays.find(self.spec["run_id"], self.spec["attempt"], [me] if me else ())

    # --- clear, drain, finish -------------------------------------------------------------------

    def clear(self, agent: Agent) -> None:
        """End whatever outlived the main process: SIGTERM, a grace, then SIGKILL until nothing is left."""
        left = self.left()
        if left:
            self.ask(left, agent)
            left = self.left()
        give_up_at = time.monotonic() + GIVE_UP_S
        # Neither a mark nor a child: all descendants come to us, so none that just forked is missed.
        while left or not self.reap():
            if time.monotonic() > give_up_at:
                pids = ", ".join(str(p.pid) for p in left)
                self.notes.append(f"Processes could not be ended: {pids}.")
                return
            self.signal_each(left, signal.SIGKILL, agent)
            # Without `left`, a child is between living and dead, or was born while we looked.
            self.wait_for(left, time.monotonic() + 1) if left else self.wait(time.monotonic() + 0.01)
            left = self.left()

    def ask(self, left: list[strays.Process], agent: Agent) -> None:
        """SIGTERM, if they had none, and time to end; first a moment for a `tee` with the last line."""
        if self.ending != "exited":
            self.wait_for(left, self.kill_at)
            return
        self.wait_for(left, time.monotonic() + SETTLE_S)
        if left := self.left():
            self.event("left_behind", pids=[p.pid for p in left])
            self.signal_each(left, signal.SIGTERM, agent)
            self.wait_for(left, time.monotonic() + min(self.spec["grace_s"], LEFTOVER_GRACE_S))

    def wait_for(self, targets: list[strays.Process], until: float) -> None:
        """Until all of them have ended or the time is up; their output still flows."""
        waiting: set[int] = set()
        for target in targets[:_MOST_WATCHED]:
            if (fd := strays.open_pidfd(target)) is not None:
                waiting.add(fd)
                self.on(fd, lambda fd=fd: self.ended(fd, waiting))  # type: ignore[misc]
        while waiting and time.monotonic() < until:
            self.wait(until)
            self.reap()
        for fd in tuple(waiting):
            self.ended(fd, waiting)

    def ended(self, fd: int, waiting: set[int]) -> None:
        self.off(fd)
        os.close(fd)
        waiting.discard(fd)

    def drain(self) -> None:
        """What is still in the pipes. All writers are gone, unless a stranger was handed an end."""
        until = time.monotonic() + DRAIN_S
        while any(o.pipe is not None for o in self.outputs.values()) and time.monotonic() < until:
            self.wait(until)

    def finish(self) -> None:
        """The result, durable, in the room that was kept for it; what it is read with goes to disk first."""
        self.event("finished", ending=self.ending)
        for name in (rundir.STDOUT, rundir.STDERR, rundir.AGENT_RESULT):
            rundir.sync_file(self.dir.file(name))
        self.result.commit(rundir.encode(self.report()))

    def report(self) -> dict[str, Any]:
        agent, seen = self.agent, {name: output.seen for name, output in self.outputs.items()}
        for name, output in self.outputs.items():
            if output.trouble is not None:
                self.notes.append(f"Only {output.kept} bytes of {name} were kept: {output.trouble}.")
        stdout = self.outputs.get(rundir.STDOUT)
        code, signum = agent.outcome() if agent else (None, None)
        return {
            "ending": self.ending,
            "exit_code": code,
            "signal": signum,
            "started_at": agent.started_at if agent else None,
            "finished_at": now_ms(),
            "output_tail": self.terminal.text(),
            "last_line": stdout.last_line() if stdout else None,
            "stdout_cut": stdout is not None and stdout.kept < stdout.seen,
            "error": self.error[:ERROR_CHARS] or None,
            "stdout_bytes": seen.get(rundir.STDOUT, 0),
            "stderr_bytes": seen.get(rundir.STDERR, 0),
            "stray_count": len(self.strays),
            "note": " ".join(self.notes)[:ERROR_CHARS] or None,
        }

    def event(self, name: str, **facts: object) -> None:
        try:
            self.dir.append_event({"at": now_ms(), "event": name, **facts})
        except OSError:
            return  # a full disk: the trace is for people, the result does not need it


def main(path: str) -> None:
    """Be born, or leave at once: another shim has or had this attempt, or it was revoked or forgotten."""
    run_dir = rundir.RunDir(path)
    try:
        lock = run_dir.be_born()
    except FileNotFoundError:
        return
    spec = run_dir.get_json(rundir.SPEC)
    if lock is None or spec is None or run_dir.has(rundir.RESULT):
        return
    Shim(run_dir, spec).run()
    os.close(lock)
    if spec["wake_path"] is not None:
        rundir.poke(spec["wake_path"])
    os._exit(0)  # nothing is left to do, and a tidy interpreter shutdown takes milliseconds
