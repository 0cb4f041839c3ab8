"""`sched cron …`."""

from __future__ import annotations

from typing import Annotated

import typer

from kandev_sched.domain.host import MachineHost
from kandev_sched.domain.record import as_dict
from kandev_sched.interfaces.cli import common
from kandev_sched.interfaces.cli.common import invocation
from kandev_sched.interfaces.cli.schedules import COMING, lines_of
from kandev_sched.interfaces.cli.values import limit
from kandev_sched.operations.forecast import forecast

app = typer.Typer(help="Explain a cron expression.", rich_markup_mode=None, add_completion=False)


@app.callback()
def cron() -> None:
    """Explain a cron expression."""


@app.command("explain")
def explain(
    context: typer.Context,
    expression: Annotated[str, typer.Argument(metavar="'EXPR'")],
    tz: common.Zone = None,
    n: common.Limit = COMING,
) -> None:
    """Say in English when an expression fires, with its next fires."""
    here = invocation(context)
    found = forecast(expression, tz or "UTC", now=MachineHost().now(), limit=limit(n))
    if here.is_json:
        here.show(as_dict(found))
    else:
        here.answer("\n".join([f"{found.sentence}.", *lines_of(here, found)]), None)
