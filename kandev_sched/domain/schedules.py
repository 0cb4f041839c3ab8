"""Triggers: a trigger owns *when* a routine fires."""

from __future__ import annotations

from enum import StrEnum

from kandev_sched.domain.record import Record


class TriggerKind(StrEnum):
    """What makes a trigger fire."""

    SCHEDULE = "schedule"
    MANUAL = "manual"


class Syntax(StrEnum):
    """The language of a schedule's expression."""

    CRON = "cron"
    QUARTZ = "quartz"
    INTERVAL = "interval"
    ONCE = "once"


class OnGap(StrEnum):
    """What becomes of a slot whose wall time the clock skips."""

    SKIP = "skip"
    SHIFT = "shift"  # to the first instant after the gap


class OnRepeat(StrEnum):
    """How often a slot fires whose wall time the clock shows twice."""

    FIRST = "first"
    BOTH = "both"


class Trigger(Record):
    """`next_run_at` is a projection of the definition; None while the trigger is not armed.

    `start_at`: nothing fires before it, and an interval counts from it. `input` is what the agent is given.
    `principal_id` is the execution scope: on whose behalf it fires.
    """

    id: str
    routine_id: str
    workspace_id: str
    kind: TriggerKind
    syntax: Syntax | None = None
    expression: str | None = None
    zone: str = "UTC"
    enabled: bool = True
    next_run_at: int | None = None
    last_fired_at: int | None = None
    last_error: str | None = None
    generation: int = 1
    created_at: int
    updated_at: int
    start_at: int | None = None
    end_at: int | None = None
    max_fires: int | None = None
    fire_count: int = 0
    on_gap: OnGap = OnGap.SKIP
    on_repeat: OnRepeat = OnRepeat.FIRST
    spread_s: int = 0
    calendar_ids: tuple[str, ...] = ()
    input: dict[str, object] = {}  # noqa: RUF012 - records never change
    principal_id: str | None = None
    observed_generation: int = 0
    last_success_at: int | None = None
