"""Explain: what a queued run waits for, in one sentence, with the time when that may change."""

from __future__ import annotations

from kandev_sched.domain.agents import AgentStatus
from kandev_sched.domain.instant import rfc3339
from kandev_sched.domain.record import Record
from kandev_sched.domain.runs import RunStatus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.domain.agents import Agent
    from kandev_sched.domain.runs import Run
    from kandev_sched.domain.workspaces import Workspace


class Surroundings(Record):
    """What the claim looks at, besides the run."""

    agent: Agent
    workspace: Workspace
    holder_run_id: str | None
    claimed_count: int
    max_sessions: int
    older_run_id: str | None
    is_supervised: bool
    now: int


class Waiting(Record):
    """Why a queued run does not run, and when that may change (None: when somebody acts)."""

    sentence: str
    until: int | None = None
    is_held_by_person: bool = False


def waiting(run: Run, around: Surroundings) -> Waiting | None:
    """None when the run is not queued. The first thing that stops the claim is named."""
    if run.status is not RunStatus.QUEUED:
        return None
    return _held(around) or _timed(run, around) or _busy(around) or _ready(run, around)


def _held(around: Surroundings) -> Waiting | None:
    agent, workspace = around.agent, around.workspace
    if not workspace.enabled:
        return Waiting(sentence=f"held: workspace {workspace.name} is disabled", is_held_by_person=True)
    if workspace.paused_at is not None:
        since = rfc3339(workspace.paused_at)
        return Waiting(
            sentence=f"held: workspace {workspace.name} is paused since {since}", is_held_by_person=True
        )
    if agent.status in (AgentStatus.PAUSED, AgentStatus.STOPPED):
        why = f" ({agent.status_reason})" if agent.status_reason else ""
        return Waiting(sentence=f"held: agent {agent.name} is {agent.status}{why}", is_held_by_person=True)
    return None


def _timed(run: Run, around: Surroundings) -> Waiting | None:
    if run.scheduled_retry_at is not None and run.scheduled_retry_at > around.now:
        at = rfc3339(run.scheduled_retry_at)
        return Waiting(
            sentence=f"waiting: retry {run.retry_count} at {at}, after: {run.error or 'a failure'}",
            until=run.scheduled_retry_at,
        )
    if run.eligible_at > around.now:
        what = "its coalescing window" if run.window_open else "its time"
        return Waiting(sentence=f"waiting: {what} ends at {rfc3339(run.eligible_at)}", until=run.eligible_at)
    if around.agent.ready_at > around.now:
        at = rfc3339(around.agent.ready_at)
        return Waiting(
            sentence=f"waiting: agent {around.agent.name} cools down until {at}", until=around.agent.ready_at
        )
    return None


def _busy(around: Surroundings) -> Waiting | None:
    agent = around.agent
    if around.holder_run_id is not None:
        return Waiting(sentence=f"waiting: task held by run {around.holder_run_id}")
    if agent.claimed_count >= agent.max_concurrent_sessions:
        sessions = f"{agent.claimed_count} of {agent.max_concurrent_sessions} sessions"
        return Waiting(sentence=f"waiting: agent {agent.name} is working ({sessions})")
    if around.claimed_count >= around.max_sessions:
        return Waiting(sentence=f"waiting: all {around.max_sessions} sessions of the supervisor are taken")
    return None


def _ready(run: Run, around: Surroundings) -> Waiting:
    if not around.is_supervised:
        return Waiting(sentence="waiting: no supervisor is running; start one with `sched serve`")
    if around.older_run_id is not None and around.older_run_id != run.id:
        return Waiting(sentence=f"waiting: run {around.older_run_id} of the same agent is older")
    return Waiting(sentence="ready: it is claimed next", until=around.now)
