"""policy.admission: the guard, staleness, idle skip."""

from __future__ import annotations

import pytest
from builders import NOW, a_request, a_task, an_agent

from kandev_sched.domain.agents import AgentStatus
from kandev_sched.domain.tasks import TaskState
from kandev_sched.domain.wakeups import Capacity, WakeupSource
from kandev_sched.policy.admission import Guard, guard, may_skip_idle, staleness


@pytest.mark.parametrize(
    ("status", "is_open", "verdict"),
    [
        (AgentStatus.IDLE, True, Guard.PROCEED),
        (AgentStatus.WORKING, True, Guard.PROCEED),
        (AgentStatus.PAUSED, True, Guard.HOLD),
        (AgentStatus.STOPPED, True, Guard.HOLD),
        (AgentStatus.ARCHIVED, True, Guard.GONE),
        (AgentStatus.IDLE, False, Guard.HOLD),
        (AgentStatus.WORKING, False, Guard.HOLD),
        (AgentStatus.PAUSED, False, Guard.HOLD),
        (AgentStatus.ARCHIVED, False, Guard.GONE),
    ],
)
def test_the_guard(status: AgentStatus, is_open: bool, verdict: Guard) -> None:
    """S0 pipeline step 2, behaviour §2 Un-claim."""
    assert guard(an_agent(status=status), is_workspace_open=is_open) is verdict


@pytest.mark.parametrize("state", list(TaskState))
@pytest.mark.parametrize("archived", [False, True])
@pytest.mark.parametrize("source", [WakeupSource.USER, WakeupSource.APPROVAL_RESOLVED])
def test_a_closed_task_makes_stale_what_is_not_about_its_end(
    state: TaskState, archived: bool, source: WakeupSource
) -> None:
    """S0 Staleness check: DONE, CANCELLED, ARCHIVED → task_terminal."""
    request = a_request(source, task_id="task_1")
    task = a_task(state=state, archived_at=NOW if archived else None)
    is_closed = archived or state in (TaskState.DONE, TaskState.CANCELLED)
    is_stale = is_closed and source is WakeupSource.USER
    assert staleness(request, task, ()) == ("task_terminal" if is_stale else None)


@pytest.mark.parametrize(
    ("capacity", "assignee", "has", "reason"),
    [
        (Capacity.ASSIGNEE, "ag_1", (), None),
        (Capacity.ASSIGNEE, "ag_2", (), "assignee_changed"),
        (Capacity.ASSIGNEE, None, (Capacity.REVIEWER,), "assignee_changed"),
        (Capacity.REVIEWER, "ag_2", (Capacity.REVIEWER,), None),
        (Capacity.REVIEWER, "ag_1", (), "review_participant_changed"),
        (Capacity.REVIEWER, "ag_1", (Capacity.APPROVER,), "review_participant_changed"),
        (Capacity.APPROVER, "ag_2", (Capacity.APPROVER,), None),
        (Capacity.APPROVER, "ag_2", (Capacity.REVIEWER,), "review_participant_changed"),
        (Capacity.MENTIONED, "ag_2", (), None),
        (Capacity.COORDINATOR, "ag_2", (), None),
        (Capacity.NONE, None, (), None),
    ],
)
def test_staleness_is_judged_by_what_the_agent_is_asked_as(
    capacity: Capacity, assignee: str | None, has: tuple[Capacity, ...], reason: str | None
) -> None:
    """behaviour §2 Stale wakeups."""
    request = a_request(task_id="task_1", capacity=capacity)
    assert staleness(request, a_task(assignee_agent_id=assignee), has) == reason


def test_a_task_that_does_not_exist_comes_first_and_the_end_of_it_before_its_assignee() -> None:
    """S0 Staleness check: each condition produces a distinct cancel reason."""
    request = a_request(task_id="task_1", capacity=Capacity.ASSIGNEE)
    assert staleness(request, None, ()) == "task_not_found"
    assert staleness(request, a_task(state=TaskState.DONE), ()) == "task_terminal"


def test_what_carries_no_task_is_never_stale() -> None:
    """S0 Staleness check: runs on every wakeup that carries a task_id."""
    assert staleness(a_request(), None, ()) is None


@pytest.mark.parametrize(
    ("skips", "periodic", "may"),
    [
        (True, (True,), True),
        (True, (True, True), True),
        (True, (True, False), False),
        (True, (False,), False),
        (False, (True,), False),
    ],
)
def test_only_periodic_requests_of_an_agent_that_wants_it_may_be_skipped(
    skips: bool, periodic: tuple[bool, ...], may: bool
) -> None:
    """S0 Idle wakeup skip, skip conditions (all must hold)."""
    requests = [a_request(periodic=p) for p in periodic]
    assert may_skip_idle(an_agent(skip_idle_wakeups=skips), requests) is may
