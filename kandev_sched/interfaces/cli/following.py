"""Following what changes: the database through its data version, the files of a run by looking."""

from __future__ import annotations

import time

from kandev_sched.domain.runs import RunStatus
from kandev_sched.launch.executor import AttemptRef
from kandev_sched.operations import lookup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from typing import TypeVar

    from kandev_sched.domain.runs import Run
    from kandev_sched.interfaces.cli.invocation import Invocation
    from kandev_sched.launch.executor import ComputeExecutor, Stream
    from kandev_sched.store.db import Reader

    T = TypeVar("T")

LOOK_EVERY_S = 0.05
CHUNK_BYTES = 1 << 16
_OVER = frozenset({RunStatus.FINISHED, RunStatus.FAILED, RunStatus.CANCELLED})


def states(here: Invocation, question: Callable[[Reader], T], *, until: float | None) -> Generator[T]:
    """The answer now, and again after each change of the database; ends at `until` (monotonic)."""
    db = here.open()
    try:
        version = None
        while True:
            seen = db.data_version()
            if seen != version:
                version = seen
                yield db.read(question)
            if until is not None and time.monotonic() >= until:
                return
            time.sleep(LOOK_EVERY_S)
    finally:
        db.close()


def output_of(here: Invocation, run: Run, stream: Stream, *, follow: bool) -> Iterator[bytes]:
    """What the agent of the run's last attempt wrote; with `follow` until the run is over."""
    files, offset = here.run_files(), 0
    ref = AttemptRef(run_id=run.id, attempt=run.attempt)
    while True:
        is_over = not follow or run.status in _OVER  # asked before reading: what came before it is read
        for chunk in _rest_of(files, ref, stream, offset):
            offset += len(chunk)
            yield chunk
        if is_over:
            return
        time.sleep(LOOK_EVERY_S)
        run = _again(here, run)
        if run.attempt != ref.attempt:
            ref, offset = AttemptRef(run_id=run.id, attempt=run.attempt), 0


def _again(here: Invocation, run: Run) -> Run:
    return here.read(lambda reader: lookup.the_run(reader, run.id))


def _rest_of(files: ComputeExecutor, ref: AttemptRef, stream: Stream, offset: int) -> Iterator[bytes]:
    while chunk := files.read(ref, stream, offset, CHUNK_BYTES):
        offset += len(chunk)
        yield chunk
