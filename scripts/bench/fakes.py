"""A `ComputeExecutor` whose attempts are done at once, and a supervisor on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kandev_sched.domain.agents import ExecutorKind
from kandev_sched.domain.host import MachineHost
from kandev_sched.domain.settings import Settings
from kandev_sched.launch.executor import (
    AttemptRef,
    AttemptRefs,
    AttemptResult,
    AttemptState,
    ComputeExecutor,
    Ending,
    LaunchSpec,
    Observation,
)
from kandev_sched.store.shared import open_shared
from kandev_sched.store.wake import poke
from kandev_sched.supervisor.supervisor import Supervisor

BENCH_SETTINGS = Settings(max_sessions=64, drain_s=0)


def _done() -> Observation:
    now = time.time_ns() // 1_000_000
    result = AttemptResult(
        ending=Ending.EXITED,
        exit_code=0,
        signal=None,
        started_at=now,
        finished_at=now,
        structured=None,
        output_tail="",
        error=None,
        stdout_bytes=0,
        stderr_bytes=0,
        stray_count=0,
    )
    return Observation(state=AttemptState.DONE, result=result)


class NoOpExecutor:
    """Every attempt has ended well by the time that it is asked for; `on_submit` hears of each launch."""

    def __init__(self, on_submit: Callable[[LaunchSpec], None] | None = None) -> None:
        self._on_submit = on_submit
        self._known: set[AttemptRef] = set()

    def submit(self, spec: LaunchSpec) -> None:
        if self._on_submit is not None:
            self._on_submit(spec)
        self._known.add(AttemptRef(run_id=spec.run_id, attempt=spec.attempt))
        if spec.wake_path is not None:
            poke(spec.wake_path)  # as the shim does when its result is durable

    def poll(self, ref: AttemptRef) -> Observation:
        return _done() if ref in self._known else Observation(state=AttemptState.UNBORN)

    def read(self, ref: AttemptRef, stream: str, offset: int, limit: int) -> bytes:  # noqa: ARG002
        return b""

    def cancel(self, ref: AttemptRef) -> None:
        """There is nothing to end."""

    def fence(self, ref: AttemptRef) -> Observation:
        return self.poll(ref)

    def end_strays(self, ref: AttemptRef) -> int:  # noqa: ARG002
        return 0

    def list(self) -> AttemptRefs:
        return sorted(self._known, key=lambda ref: ref.run_id)

    def forget(self, run_id: str) -> None:
        self._known = {ref for ref in self._known if ref.run_id != run_id}


@contextmanager
def supervised(folder: Path, executor: ComputeExecutor) -> Iterator[Supervisor]:
    """A real supervisor with its loops running, on a fresh database."""
    host = MachineHost()
    supervisor = Supervisor(
        open_db=lambda on_work: open_shared(
            str(folder / "sched.db"), host=host, create=True, on_work=on_work
        ),
        executors={ExecutorKind.LOCAL: executor},
        settings=BENCH_SETTINGS,
        host=host,
    )
    supervisor.start()
    try:
        yield supervisor
    finally:
        supervisor.stop()
