"""The payload of each wakeup source, strict: `decode` refuses unknown fields and wrong types by path."""

from __future__ import annotations

from kandev_sched.domain.plain import from_plain
from kandev_sched.domain.record import Record
from kandev_sched.domain.wakeups import WakeupSource


class RoutinePayload(Record):
    """A routine fired. `missed_*` are set on the newest slot of a catch-up; `input` is the trigger's own."""

    routine_id: str
    variables: dict[str, str]
    missed_ticks: int | None = None
    missed_since: str | None = None
    input: dict[str, object] | None = None


class CommentPayload(Record):
    """Someone commented on a task of the agent, or named the agent in a comment."""

    task_id: str
    comment_id: str


class AgentErrorPayload(Record):
    """A sub-agent failed for good; its coordinator hears of it."""

    failed_agent_id: str
    failed_session_id: str | None = None
    run_id: str | None = None
    error: str


class SelfPayload(Record):
    """The agent asked to be woken."""

    reason: str
    payload: dict[str, object] | None = None


class UserPayload(Record):
    """A person asked for the agent."""

    user_id: str
    context: dict[str, object] | None = None


class TaskAssignedPayload(Record):
    """A task became the agent's."""

    task_id: str


class TaskBlockersResolvedPayload(Record):
    """All blockers of a task are settled."""

    task_id: str
    resolved_blocker_ids: tuple[str, ...]


class TaskChildrenCompletedPayload(Record):
    """All children of a task have ended."""

    task_id: str


class ApprovalResolvedPayload(Record):
    """An approval that the agent asked for was decided."""

    approval_id: str
    status: str
    decision_note: str


class BudgetAlertPayload(Record):
    """A sub-agent crossed a budget threshold."""

    agent_instance_id: str
    budget_pct: float


Payload = (
    RoutinePayload
    | CommentPayload
    | AgentErrorPayload
    | SelfPayload
    | UserPayload
    | TaskAssignedPayload
    | TaskBlockersResolvedPayload
    | TaskChildrenCompletedPayload
    | ApprovalResolvedPayload
    | BudgetAlertPayload
)

PAYLOADS: dict[WakeupSource, type[Record]] = {
    WakeupSource.ROUTINE: RoutinePayload,
    WakeupSource.COMMENT: CommentPayload,
    WakeupSource.AGENT_ERROR: AgentErrorPayload,
    WakeupSource.SELF: SelfPayload,
    WakeupSource.USER: UserPayload,
    WakeupSource.TASK_ASSIGNED: TaskAssignedPayload,
    WakeupSource.TASK_BLOCKERS_RESOLVED: TaskBlockersResolvedPayload,
    WakeupSource.TASK_CHILDREN_COMPLETED: TaskChildrenCompletedPayload,
    WakeupSource.APPROVAL_RESOLVED: ApprovalResolvedPayload,
    WakeupSource.BUDGET_ALERT: BudgetAlertPayload,
}


def decode(source: WakeupSource, plain: object) -> Payload:
    """The payload of a request of `source`. Raises Invalid with the path that is wrong."""
    payload: Payload = from_plain(PAYLOADS[source], plain, "payload")
    return payload
