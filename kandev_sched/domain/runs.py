"""Runs (what happened), the steps they pass, and the sessions they open."""

from __future__ import annotations

from enum import StrEnum

from kandev_sched.domain.record import Record


class RunStatus(StrEnum):
    """A run in a terminal status never changes (I8)."""

    QUEUED = "queued"
    CLAIMED = "claimed"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Reason(StrEnum):
    """Promoted only from periodic to event, never back (I7)."""

    PERIODIC = "periodic"
    EVENT = "event"


class Lane(StrEnum):
    """Where the claim finds a queued run; kept by the store, never older than the last claim."""

    LATER = "later"
    BLOCKED = "blocked"
    CLAIMABLE = "claimable"


class Run(Record):
    """The execution of a list of wakeup requests in one scope: one task, or none."""

    id: str
    workspace_id: str
    agent_id: str
    task_id: str | None = None
    routine_id: str | None = None
    reason: Reason
    source: str
    status: RunStatus = RunStatus.QUEUED
    coalesced_count: int = 1
    attempt: int = 0
    retry_count: int = 0
    lost_count: int = 0
    requested_at: int
    eligible_at: int
    window_open: bool = False
    claimed_at: int | None = None
    prompted_at: int | None = None
    started_at: int | None = None
    finished_at: int | None = None
    scheduled_retry_at: int | None = None
    cancel_requested_at: int | None = None
    cancel_reason: str | None = None
    outcome: str | None = None
    error: str | None = None
    exit_code: int | None = None
    cost_cents: int | None = None
    result: dict[str, object] | None = None
    profile_id: str | None = None
    executor_id: str | None = None
    provider_account: str | None = None
    session_id: str | None = None
    follow_up_of: str | None = None
    retry_of: str | None = None
    principal_id: str | None = None
    lane: Lane = Lane.LATER


class StepName(StrEnum):
    """The twelve steps of S0's pipeline, in order."""

    CLAIM = "claim"
    GUARD = "guard"
    STALENESS = "staleness"
    IDLE_SKIP = "idle_skip"
    CHECKOUT = "checkout"
    BUDGET = "budget"
    CONTEXT = "context"
    EXECUTOR = "executor"
    EXECUTION_AGENT = "execution_agent"
    SESSION = "session"
    LAUNCH = "launch"
    FINISH = "finish"


class RunStep(Record):
    """One line of a run's trace."""

    run_id: str
    attempt: int
    position: int
    name: StepName
    verdict: str
    detail: str | None = None
    started_at: int
    duration_ms: float


class SessionState(StrEnum):
    """S0's states of a task session, and its end."""

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    WAITING_FOR_INPUT = "WAITING_FOR_INPUT"
    ENDED = "ENDED"


class Session(Record):
    """One agent session of one attempt."""

    id: str
    workspace_id: str
    agent_id: str
    task_id: str | None = None
    run_id: str
    attempt: int
    state: SessionState = SessionState.STARTING
    created_at: int
    ended_at: int | None = None
