"""`sched task …`."""

from __future__ import annotations

from typing import Annotated

import typer

from kandev_sched.domain.tasks import Task, TaskState
from kandev_sched.interfaces.cli import common, completion
from kandev_sched.interfaces.cli.common import invocation
from kandev_sched.operations import lookup, tasks
from kandev_sched.operations.tasks import AddTask
from kandev_sched.operations.views import row_of, rows_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from kandev_sched.interfaces.cli.invocation import Invocation
    from kandev_sched.store.db import Reader, Tx

app = typer.Typer(help="What agents work on.", rich_markup_mode=None, add_completion=False)
COLUMNS = ("id", "title", "state", "assignee", "project", "created_at")


@app.command("add")
def add(
    context: typer.Context,
    *,
    title: Annotated[str, typer.Argument(metavar="TITLE")],
    agent: Annotated[
        str | None, typer.Option("--agent", help="Who does it.", autocompletion=completion.agents)
    ] = None,
    project: Annotated[str | None, typer.Option("--project", autocompletion=completion.projects)] = None,
    parent: Annotated[
        str | None, typer.Option("--parent", metavar="TASK", autocompletion=completion.tasks)
    ] = None,
    description: Annotated[str, typer.Option("--description", metavar="D")] = "",
) -> None:
    """Add a task."""
    here = invocation(context)
    asked = AddTask(
        workspace=here.workspace,
        title=title,
        description=description,
        agent=agent,
        project=project,
        parent=parent,
    )
    _changed(here, "added", lambda tx: tasks.add_task(tx, asked))


def _changed(here: Invocation, what: str, change: Callable[[Tx], Task]) -> None:
    def work(tx: Tx) -> tuple[Task, dict[str, object]]:
        task = change(tx)
        return task, row_of(tx, task)

    task, row = here.write(work)
    here.tell(f"Task {task.id} ({task.title}) is {what}", row)


@app.command("list")
def list_(
    context: typer.Context,
    *,
    archived: Annotated[bool, typer.Option("--archived", help="Archived ones too.")] = False,
) -> None:
    """List the tasks, oldest first."""
    here = invocation(context)
    rows = here.read(
        lambda reader: rows_of(reader, tasks.list_tasks(reader, workspace=here.workspace, archived=archived))
    )
    here.show_list(rows, COLUMNS, empty="there are no tasks yet; `sched task add` makes one")


@app.command("show")
def show(context: typer.Context, task: common.TaskId) -> None:
    """Show one task."""
    here = invocation(context)
    here.show(here.read(lambda reader: row_of(reader, _named(reader, here, task))))


def _named(reader: Reader, here: Invocation, task: str) -> Task:
    return lookup.the_task(reader, lookup.the_workspace(reader, here.workspace), task)


@app.command("assign")
def assign(context: typer.Context, task: common.TaskId, agent: common.AgentName) -> None:
    """Give a task to an agent."""
    here = invocation(context)

    def change(tx: Tx) -> Task:
        workspace = lookup.the_workspace(tx, here.workspace)
        return tasks.assign_task(tx, _named(tx, here, task), lookup.the_agent(tx, workspace, agent).id)

    _changed(here, f"assigned to {agent}", change)


@app.command("move")
def move(
    context: typer.Context,
    *,
    task: common.TaskId,
    state: Annotated[TaskState, typer.Argument(metavar="STATE", case_sensitive=False)],
) -> None:
    """Move a task to another state: TODO, IN_PROGRESS, IN_REVIEW, BLOCKED, DONE, CANCELLED."""
    here = invocation(context)
    _changed(here, f"moved to {state}", lambda tx: tasks.move_task(tx, _named(tx, here, task), state))
