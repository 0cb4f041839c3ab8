"""The files of a run's last attempt: what the agent was given, and what it wrote."""

from __future__ import annotations

from kandev_sched.domain.record import Record
from kandev_sched.launch import rundir
from kandev_sched.launch.executor import AttemptRef, Stream
from kandev_sched.launch.rundir import RunDir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.domain.runs import Run
    from kandev_sched.launch.executor import ComputeExecutor

TAIL_BYTES = 4096
CHUNK_BYTES = 1 << 20


class AttemptTexts(Record):
    """None: there is no such file (not started yet, or pruned)."""

    prompt: str | None
    output_tail: str | None


def attempt_texts(files: ComputeExecutor, run: Run, *, root: str) -> AttemptTexts:
    """The prompt and the end of the output of a run's last attempt; `root`: where all runs have files."""
    ref = AttemptRef(run_id=run.id, attempt=run.attempt)
    result = files.poll(ref).result if run.attempt else None
    tail = result.output_tail if result is not None else _tail(files, ref)
    return AttemptTexts(prompt=_prompt(RunDir(f"{root}/{run.id}/{run.attempt}")), output_tail=tail or None)


def _prompt(run_dir: RunDir) -> str | None:
    fd = rundir.open_regular(run_dir.file(rundir.PROMPT))
    if fd is None:
        return None
    with open(fd, "rb") as file:
        return file.read().decode("utf-8", "replace")


def _tail(files: ComputeExecutor, ref: AttemptRef) -> str:
    """The end of what a living agent has written so far."""
    offset, last = 0, b""
    while chunk := files.read(ref, Stream.STDOUT, offset, CHUNK_BYTES):
        offset += len(chunk)
        last = (last + chunk)[-TAIL_BYTES:]
    return last.decode("utf-8", "replace")
