"""What the supervisor notes of itself: who it is, its loops, and the highest instant ever seen."""

from __future__ import annotations

from kandev_sched.domain.supervision import LoopState, SupervisorState
from kandev_sched.store.sql import Sql, Statement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.domain.supervision import SupervisorPhase
    from kandev_sched.store.db import Reader, Tx

_SET = Statement(
    "INSERT INTO supervisor (id, pid, state, started_at, seen_at) VALUES (1, :pid, :state, :now, :now)"
    " ON CONFLICT (id) DO UPDATE SET pid = :pid, state = :state,"
    " started_at = CASE WHEN :state = 'recovering' THEN :now ELSE started_at END,"
    " seen_at = max(seen_at, :now)"
)


def set_phase(tx: Tx, phase: SupervisorPhase, *, pid: int | None) -> None:
    """Record what the supervisor does now."""
    tx.run(_SET, state=phase, pid=pid, now=tx.now)


_STATE = Sql("SELECT pid, state, started_at, seen_at FROM supervisor WHERE id = 1", SupervisorState)


def state(reader: Reader) -> SupervisorState | None:
    """What the last supervisor noted; whether it lives is told by its lock, not by this row."""
    return reader.one(_STATE)


_SEEN = Statement("UPDATE supervisor SET seen_at = :now WHERE id = 1")


def set_seen(tx: Tx) -> None:
    """Move the high-water mark of the clock."""
    tx.run(_SEEN, now=tx.now)


_LOOP = Statement(
    "INSERT INTO loops (name, last_tick_at, tick_count, last_error) VALUES (:name, :at, :count, :error)"
    " ON CONFLICT (name) DO UPDATE SET last_tick_at = :at, tick_count = :count, last_error = :error"
)


def set_loop(tx: Tx, *, name: str, at: int, count: int, error: str | None) -> None:
    """Record the last tick of a loop."""
    tx.run(_LOOP, name=name, at=at, count=count, error=error)


_LOOPS = Sql("SELECT * FROM loops ORDER BY name", LoopState)


def loops(reader: Reader) -> list[LoopState]:
    """The loops and their last ticks."""
    return reader.all(_LOOPS)
