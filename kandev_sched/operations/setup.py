"""`sched init`: the first workspace, and a demonstration that needs nothing installed."""

from __future__ import annotations

from kandev_sched.operations import lookup
from kandev_sched.operations.agents import AddAgent, add_agent
from kandev_sched.operations.routines import AddRoutine, add_routine
from kandev_sched.operations.schedules import Schedule
from kandev_sched.store import agents, routines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.domain.workspaces import Workspace
    from kandev_sched.store.db import Tx

DEMO_AGENT = "demo"
_COMMAND = ("sh", "-c", 'echo "Hello from the demo agent. This is what I was told:"; echo; cat')


def first_workspace(tx: Tx) -> Workspace:
    """The default workspace, made if there is none."""
    return lookup.workspace_for_writing(tx, lookup.DEFAULT_WORKSPACE)


def demonstrate(tx: Tx) -> Workspace:
    """An agent that repeats what it is told, a routine for each minute and one by hand; twice is harmless."""
    workspace = first_workspace(tx)
    if agents.by_name(tx, workspace_id=workspace.id, name=DEMO_AGENT) is None:
        # skip_idle off: it has no tasks, and would never be woken by its schedule.
        add_agent(
            tx, AddAgent(name=DEMO_AGENT, argv=_COMMAND, cwd="/", env={}, cooldown_s=0, skip_idle=False)
        )
    _add_routine(tx, workspace, AddRoutine(
        name="demo-minute", agent=DEMO_AGENT, description="Say hello, once a minute.",
        schedule=Schedule(cron="* * * * *"),
    ))  # fmt: skip
    _add_routine(tx, workspace, AddRoutine(
        name="demo-by-hand", agent=DEMO_AGENT, description="Say hello when asked to.",
    ))  # fmt: skip
    return workspace


def _add_routine(tx: Tx, workspace: Workspace, command: AddRoutine) -> None:
    if routines.by_name(tx, workspace_id=workspace.id, name=command.name) is None:
        add_routine(tx, command)
