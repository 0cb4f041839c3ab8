"""Trace: the line that each step leaves in `run_steps` (name, verdict, duration).

Lines become durable with the transaction of their steps; those of a transaction that was rolled back by a
`Stop` are written by the settling one. A transaction may run twice, so uncommitted lines can be dropped.
"""

from __future__ import annotations

from kandev_sched.domain.runs import RunStep, StepName
from kandev_sched.store import attempts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

    from kandev_sched.domain.host import Host
    from kandev_sched.domain.runs import Run
    from kandev_sched.store.db import Tx

_POSITIONS = {name: position for position, name in enumerate(StepName, 1)}


class Trace:
    """The lines of one attempt of one run."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._lines: list[_Line] = []
        self._durable_count = 0

    def step(self, name: StepName) -> _Line:
        """A context manager around one step."""
        line = _Line(name, self._host)
        self._lines.append(line)
        return line

    def rewind(self) -> None:
        """Forget the lines that are not durable: their transaction runs again."""
        del self._lines[self._durable_count :]

    def forget(self, name: StepName) -> None:
        """Drop a step's line that is not durable: its transaction runs again."""
        self._lines = [line for line in self._lines if line.name is not name]

    def write(self, tx: Tx, run: Run) -> None:
        """Insert the lines that are not durable yet."""
        attempts.add_steps(tx, [line.record(run) for line in self._lines[self._durable_count :]])

    def mark_durable(self) -> None:
        """The transaction of the last `write` has committed."""
        self._durable_count = len(self._lines)


class _Line:
    """One step's line; `note` tells more than "ok"."""

    def __init__(self, name: StepName, host: Host) -> None:
        self.name = name
        self._host = host
        self._verdict = "ok"
        self._detail: str | None = None

    def note(self, verdict: str, detail: str | None = None) -> None:
        """Say what the step found."""
        self._verdict, self._detail = verdict, detail

    def __enter__(self) -> _Line:
        self._started_at = self._host.now()
        self._began = self._host.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._duration_ms = (self._host.monotonic() - self._began) * 1000
        if error is not None and self._verdict == "ok":
            self.note("stop", str(error) or type(error).__name__)

    def record(self, run: Run) -> RunStep:
        """The line as a row."""
        return RunStep(
            run_id=run.id,
            attempt=run.attempt,
            position=_POSITIONS[self.name],
            name=self.name,
            verdict=self._verdict,
            detail=self._detail,
            started_at=self._started_at,
            duration_ms=round(self._duration_ms, 3),
        )
