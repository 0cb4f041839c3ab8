"""The supervisor as others see it."""

from __future__ import annotations

from enum import StrEnum

from kandev_sched.domain.record import Record


class SupervisorPhase(StrEnum):
    """stopped → recovering → running → stopping → stopped."""

    STOPPED = "stopped"
    RECOVERING = "recovering"
    RUNNING = "running"
    STOPPING = "stopping"


class SupervisorState(Record):
    """The row that a supervisor keeps of itself. `seen_at`: the highest instant that it ever saw."""

    pid: int | None = None
    state: SupervisorPhase
    started_at: int | None = None
    seen_at: int


class LoopState(Record):
    """One loop's last tick."""

    name: str
    last_tick_at: int
    tick_count: int
    last_error: str | None = None
