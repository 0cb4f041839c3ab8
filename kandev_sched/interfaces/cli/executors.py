"""`sched executor …`."""

from __future__ import annotations

from typing import Annotated

import typer

from kandev_sched.interfaces.cli import completion
from kandev_sched.interfaces.cli.common import invocation
from kandev_sched.operations import lookup
from kandev_sched.operations.views import row_of, rows_of
from kandev_sched.operations.workspaces import list_executors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.store.db import Reader

app = typer.Typer(help="Where agent programs run.", rich_markup_mode=None, add_completion=False)
COLUMNS = ("name", "kind", "id")


@app.command("list")
def list_(context: typer.Context) -> None:
    """List the executors."""
    here = invocation(context)
    rows = here.read(lambda reader: rows_of(reader, list_executors(reader, workspace=here.workspace)))
    here.show_list(rows, COLUMNS, empty="there are no executors yet; `sched init` makes one")


@app.command("show")
def show(
    context: typer.Context,
    executor: Annotated[str, typer.Argument(metavar="EXECUTOR", autocompletion=completion.executors)],
) -> None:
    """Show one executor."""
    here = invocation(context)

    def work(reader: Reader) -> dict[str, object]:
        workspace = lookup.the_workspace(reader, here.workspace)
        return row_of(reader, lookup.the_executor(reader, workspace, executor))

    here.show(here.read(work))
