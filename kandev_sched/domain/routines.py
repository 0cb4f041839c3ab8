"""Routines (a template with triggers) and routine runs (one record for each firing)."""

from __future__ import annotations

from enum import StrEnum

from kandev_sched.domain.record import Record


class RoutineStatus(StrEnum):
    """A paused routine does not fire; an archived one is gone for good."""

    ACTIVE = "active"
    PAUSED = "paused"
    ARCHIVED = "archived"


class ConcurrencyPolicy(StrEnum):
    """What a fire does while an earlier one of the same fingerprint is active (S0 Concurrency policy)."""

    COALESCE_IF_ACTIVE = "coalesce_if_active"
    SKIP_IF_ACTIVE = "skip_if_active"
    ALWAYS_ENQUEUE = "always_enqueue"
    CANCEL_ACTIVE = "cancel_active"


class CatchUpPolicy(StrEnum):
    """Which of several due slots fire (S0 Catch-up policy, S1 misfires)."""

    ENQUEUE_MISSED_WITH_CAP = "enqueue_missed_with_cap"
    SKIP_MISSED = "skip_missed"
    FIRE_ONCE = "fire_once"


class VariableType(StrEnum):
    """The types of S0."""

    TEXT = "text"
    NUMBER = "number"
    BOOLEAN = "boolean"
    SELECT = "select"


class Variable(Record):
    """A declared template variable; `default` is kept as the text that is inserted."""

    name: str
    type: VariableType = VariableType.TEXT
    default: str | None = None
    required: bool = False
    options: tuple[str, ...] = ()


class Routine(Record):
    """Heavy when it has a task title (a fresh task each fire), lightweight otherwise."""

    id: str
    workspace_id: str
    namespace: str = "default"
    name: str
    description: str = ""
    agent_id: str
    status: RoutineStatus = RoutineStatus.ACTIVE
    concurrency_policy: ConcurrencyPolicy = ConcurrencyPolicy.COALESCE_IF_ACTIVE
    catch_up_policy: CatchUpPolicy = CatchUpPolicy.ENQUEUE_MISSED_WITH_CAP
    catch_up_max: int = 25
    misfire_grace_s: int = 60
    task_title: str | None = None
    task_description: str | None = None
    variables: tuple[Variable, ...] = ()
    generation: int = 1
    created_at: int
    updated_at: int
    archived_at: int | None = None
    catch_up_max_age_s: int | None = None
    status_note: str | None = None


class FireSource(StrEnum):
    """What made a routine fire."""

    CRON = "cron"
    WEBHOOK = "webhook"
    MANUAL = "manual"


class RoutineRunStatus(StrEnum):
    """A lightweight one stays `received` until its request ends."""

    RECEIVED = "received"
    TASK_CREATED = "task_created"
    DONE = "done"
    SKIPPED = "skipped"
    COALESCED = "coalesced"
    FAILED = "failed"
    CANCELLED = "cancelled"
    MISSED = "missed"
    DENIED = "denied"
    EXCLUDED = "excluded"


class RoutineRun(Record):
    """The occurrence: what fired, when it should have, and what became of it."""

    id: str
    workspace_id: str
    routine_id: str
    trigger_id: str | None = None
    source: FireSource
    status: RoutineRunStatus = RoutineRunStatus.RECEIVED
    reason: str | None = None
    scheduled_for_at: int | None = None
    fired_at: int
    trigger_payload: dict[str, str]
    linked_task_id: str | None = None
    wakeup_id: str | None = None
    coalesced_into_run_id: str | None = None
    dispatch_fingerprint: str = ""
    idempotency_key: str | None = None
    generation: int
    missed_count: int = 0
    missed_first_at: int | None = None
    missed_last_at: int | None = None
    finished_at: int | None = None
    trigger_generation: int | None = None
    principal_id: str | None = None
