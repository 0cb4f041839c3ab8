"""`sched project …`."""

from __future__ import annotations

from typing import Annotated

import typer

from kandev_sched.domain.workspaces import Project
from kandev_sched.interfaces.cli import common, completion
from kandev_sched.interfaces.cli.common import invocation
from kandev_sched.operations.views import row_of, rows_of
from kandev_sched.operations.workspaces import AddProject, add_project, list_projects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.store.db import Tx

app = typer.Typer(help="Groups of tasks.", rich_markup_mode=None, add_completion=False)
COLUMNS = ("name", "executor", "id")


@app.command("add")
def add(
    context: typer.Context,
    name: common.NewName,
    executor: Annotated[
        str | None,
        typer.Option("--executor", help="For agents that have none.", autocompletion=completion.executors),
    ] = None,
) -> None:
    """Add a project."""
    here = invocation(context)
    asked = AddProject(workspace=here.workspace, name=name, executor=executor)

    def work(tx: Tx) -> tuple[Project, dict[str, object]]:
        project = add_project(tx, asked)
        return project, row_of(tx, project)

    project, row = here.write(work)
    here.tell(f"Project {project.name} ({project.id}) is added", row)


@app.command("list")
def list_(context: typer.Context) -> None:
    """List the projects."""
    here = invocation(context)
    rows = here.read(lambda reader: rows_of(reader, list_projects(reader, workspace=here.workspace)))
    here.show_list(rows, COLUMNS, empty="there are no projects yet; `sched project add` makes one")
