"""Admission: may a claimed run go on? The guard (step 2), staleness (step 3) and idle skip (step 4)."""

from __future__ import annotations

from enum import StrEnum

from kandev_sched.domain.agents import AgentStatus
from kandev_sched.domain.tasks import is_closed
from kandev_sched.domain.wakeups import Capacity, WakeupSource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from kandev_sched.domain.agents import Agent
    from kandev_sched.domain.tasks import Task
    from kandev_sched.domain.wakeups import WakeupRequest

ABOUT_THE_END = frozenset({WakeupSource.APPROVAL_RESOLVED})


class Guard(StrEnum):
    """What the agent's status says to a run that was claimed for it."""

    PROCEED = "proceed"
    HOLD = "hold"
    GONE = "agent_gone"


def guard(agent: Agent, *, is_workspace_open: bool) -> Guard:
    """Paused or stopped: keep the queue. Archived: its requests are cancelled (behaviour.md §2 Un-claim)."""
    match agent.status:
        case AgentStatus.ARCHIVED:
            return Guard.GONE
        case AgentStatus.PAUSED | AgentStatus.STOPPED:
            return Guard.HOLD
        case AgentStatus.IDLE | AgentStatus.WORKING:
            return Guard.PROCEED if is_workspace_open else Guard.HOLD


def staleness(request: WakeupRequest, task: Task | None, capacities: Iterable[Capacity]) -> str | None:
    """The cancel reason of a request whose task scope no longer holds, or None (S0 Staleness check).

    `capacities`: as what the agent takes part in the task now. Judged per request, by what it asks.
    """
    if request.task_id is None:
        return None
    if task is None:
        return "task_not_found"
    if is_closed(task) and request.source not in ABOUT_THE_END:
        return "task_terminal"
    match request.capacity:
        case Capacity.ASSIGNEE if task.assignee_agent_id != request.agent_id:
            return "assignee_changed"
        case Capacity.REVIEWER | Capacity.APPROVER if request.capacity not in capacities:
            return "review_participant_changed"
    return None


def may_skip_idle(agent: Agent, requests: Iterable[WakeupRequest]) -> bool:
    """S0 Idle wakeup skip, what needs no count: periodic requests only, and the agent's wish."""
    return agent.skip_idle_wakeups and all(request.periodic for request in requests)
