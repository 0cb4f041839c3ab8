"""`sched fire`, with `--wait`."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from kandev_sched.domain.errors import Conflict, Invalid
from kandev_sched.interfaces.cli import asking, common
from kandev_sched.interfaces.times import seconds_or_none

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def fire(
    context: typer.Context,
    *,
    routine: common.RoutineName,
    var: Annotated[
        list[str] | None, typer.Option("--var", metavar="NAME=VALUE", help="Value of a variable; repeatable.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="Asking again with the same key returns the first fire.")
    ] = None,
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Follow to the end, retries included; 0 only if it succeeded, else 7."),
    ] = False,
    timeout: Annotated[
        str | None, typer.Option("--timeout", metavar="10m", help="How long to wait; then 7.")
    ] = None,
) -> int:
    """Fire a routine by hand. It runs when a supervisor serves this database."""
    here = common.invocation(context)
    words = asking.FireWords(routine=routine, variables=tuple(var or ()), key=key)
    patience_s = seconds_or_none(timeout, option="--timeout")
    if not wait:
        if patience_s is not None:
            raise Invalid("--timeout was given without --wait", hint="add --wait")
        asking.fire(here, words)
        return 0
    if "SCHED_RUN_ID" in os.environ:
        raise Conflict("--wait was given inside a run, which would wait for itself", hint="leave --wait out")
    from kandev_sched.interfaces.cli.waiting import fire_and_wait

    return fire_and_wait(here, words, patience_s=patience_s)
