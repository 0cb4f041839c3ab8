"""`sched next`."""

from __future__ import annotations

from typing import Annotated

import typer

from kandev_sched.domain.host import MachineHost
from kandev_sched.domain.instant import SECOND_MS
from kandev_sched.interfaces.cli import common, completion
from kandev_sched.interfaces.cli.triggers import COMING_COLUMNS
from kandev_sched.interfaces.cli.values import limit
from kandev_sched.interfaces.times import seconds_of
from kandev_sched.operations.triggers import coming_fires

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def next(
    context: typer.Context,
    within: Annotated[str, typer.Option("--in", metavar="24h", help="How far to look.")] = "24h",
    routine: Annotated[
        str | None, typer.Option("--routine", help="Of one routine.", autocompletion=completion.routines)
    ] = None,
    n: common.Limit = 20,
) -> None:
    """Show the coming fires of all triggers, skipped slots included, in time order."""
    here, at_most, now = common.invocation(context), limit(n), MachineHost().now()
    until = now + seconds_of(within, option="--in") * SECOND_MS
    fires = here.read(
        lambda reader: coming_fires(
            reader, workspace=here.workspace, now=now, until=until, routine=routine, limit=at_most
        )
    )
    here.show_list(map(common.plain_row, fires), COMING_COLUMNS, empty=f"nothing fires within {within}")
