"""Wakeup requests: a wakeup owns *why* an agent is woken.

Ten sources, each with its own payload; `status` is S0's word for where the request stands, `ending` says
in which of the four ways it ended (I1).
"""

from __future__ import annotations

from enum import StrEnum

from kandev_sched.domain.record import Record


class WakeupSource(StrEnum):
    """S0 Wakeup sources."""

    ROUTINE = "routine"
    COMMENT = "comment"
    AGENT_ERROR = "agent_error"
    SELF = "self"
    USER = "user"
    TASK_ASSIGNED = "task_assigned"
    TASK_BLOCKERS_RESOLVED = "task_blockers_resolved"
    TASK_CHILDREN_COMPLETED = "task_children_completed"
    APPROVAL_RESOLVED = "approval_resolved"
    BUDGET_ALERT = "budget_alert"


# Bursts of these land in one run; for the other sources a person is waiting (behaviour.md §2).
WINDOWED_SOURCES = frozenset(
    {
        WakeupSource.COMMENT,
        WakeupSource.TASK_BLOCKERS_RESOLVED,
        WakeupSource.TASK_CHILDREN_COMPLETED,
        WakeupSource.AGENT_ERROR,
        WakeupSource.BUDGET_ALERT,
    }
)


class Capacity(StrEnum):
    """As what the agent is asked; staleness is judged by it."""

    ASSIGNEE = "assignee"
    REVIEWER = "reviewer"
    APPROVER = "approver"
    MENTIONED = "mentioned"
    COORDINATOR = "coordinator"
    NONE = "none"


class WakeupStatus(StrEnum):
    """Where a request stands; a `coalesced` one stays so when its run ends."""

    QUEUED = "queued"
    CLAIMED = "claimed"
    COALESCED = "coalesced"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


class Ending(StrEnum):
    """The four ways in which a request ends (I1)."""

    DELIVERED = "delivered"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    FAILED = "failed"


class WakeupRequest(Record):
    """One durable "wake this agent up", reachable through its run until it ends."""

    id: str
    workspace_id: str
    agent_id: str
    source: WakeupSource
    payload: dict[str, object]
    periodic: bool = False
    capacity: Capacity = Capacity.NONE
    task_id: str | None = None
    routine_id: str | None = None
    routine_run_id: str | None = None
    idempotency_key: str | None = None
    status: WakeupStatus = WakeupStatus.QUEUED
    ending: Ending | None = None
    reason: str | None = None
    run_id: str | None = None
    requested_at: int
    scheduled_for_at: int | None = None
    delivered_at: int | None = None
    delivered_attempt: int | None = None
    held_by: str | None = None
    finished_at: int | None = None
