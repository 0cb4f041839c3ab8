"""Who and where: resolution of the execution agent (profile) and of the executor (S0 Executor resolution)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.domain.agents import Agent
    from kandev_sched.domain.tasks import Task
    from kandev_sched.domain.workspaces import Project, Workspace


def executor_id(
    *, task: Task | None, agent: Agent, project: Project | None, workspace: Workspace
) -> str | None:
    """Task override → agent preference → project → workspace default; None is the local machine."""
    return (
        (task.executor_id if task else None)
        or agent.executor_id
        or (project.executor_id if project else None)
        or workspace.default_executor_id
    )


def profile_id(*, agent: Agent, workspace: Workspace) -> str | None:
    """The agent's profile → the workspace's default."""
    return agent.profile_id or workspace.default_profile_id
