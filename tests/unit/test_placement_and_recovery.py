"""policy.placement: who and where. policy.recovery: what to do about a claimed run."""

from __future__ import annotations

import itertools

import pytest
from builders import a_project, a_task, a_workspace, an_agent

from kandev_sched.policy import placement
from kandev_sched.policy.recovery import STARTING_LIMIT_MS, Next, next_for


@pytest.mark.parametrize("set_", list(itertools.product([False, True], repeat=4)))
def test_the_executor_is_the_first_that_is_set(set_: tuple[bool, bool, bool, bool]) -> None:
    """S0 Executor resolution: task override → agent preference → project → workspace default."""
    names = [
        name if is_set else None
        for name, is_set in zip(("task", "agent", "project", "workspace"), set_, strict=True)
    ]
    found = placement.executor_id(
        task=a_task(executor_id=names[0]),
        agent=an_agent(executor_id=names[1]),
        project=a_project(executor_id=names[2]),
        workspace=a_workspace(default_executor_id=names[3]),
    )
    assert found == next((name for name in names if name), None)


def test_without_task_and_project_it_is_the_agent_then_the_workspace() -> None:
    """S0 Executor resolution: taskless runs."""
    workspace = a_workspace(default_executor_id="workspace")
    assert (
        placement.executor_id(task=None, agent=an_agent(), project=None, workspace=workspace) == "workspace"
    )
    agent = an_agent(executor_id="agent")
    assert placement.executor_id(task=None, agent=agent, project=None, workspace=workspace) == "agent"


@pytest.mark.parametrize(
    ("agent", "workspace", "found"), [("a", "w", "a"), ("a", None, "a"), (None, "w", "w"), (None, None, None)]
)
def test_the_profile_is_the_agents_else_the_workspaces(
    agent: str | None, workspace: str | None, found: str | None
) -> None:
    """behaviour §5: profile agent → workspace default."""
    profile_id = placement.profile_id(
        agent=an_agent(profile_id=agent), workspace=a_workspace(default_profile_id=workspace)
    )
    assert profile_id == found


@pytest.mark.parametrize(
    ("state", "is_restart", "launched_ago_ms", "next_"),
    [
        ("done", False, 0, Next.SETTLE),
        ("done", True, None, Next.SETTLE),
        ("running", False, 0, Next.ATTACH),
        ("running", True, None, Next.ATTACH),
        ("running", False, 10**12, Next.ATTACH),
        ("lost", False, 0, Next.FENCE),
        ("lost", True, None, Next.FENCE),
        ("unborn", False, 0, Next.WAIT),
        ("unborn", False, STARTING_LIMIT_MS - 1, Next.WAIT),
        ("unborn", False, STARTING_LIMIT_MS, Next.FENCE),
        ("unborn", False, None, Next.FENCE),
        ("unborn", True, 0, Next.FENCE),
        ("unborn", True, None, Next.FENCE),
    ],
)
def test_what_follows_from_what_is_seen(
    state: str, is_restart: bool, launched_ago_ms: int | None, next_: Next
) -> None:
    """behaviour §6 Lost and found: a live run is never ended because of its age."""
    assert next_for(state=state, is_restart=is_restart, launched_ago_ms=launched_ago_ms) is next_
