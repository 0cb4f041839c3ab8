"""`sched trigger …`."""

from __future__ import annotations

from typing import Annotated

import typer

from kandev_sched.domain.errors import Invalid
from kandev_sched.domain.host import MachineHost
from kandev_sched.domain.schedules import Trigger
from kandev_sched.interfaces.cli import common, completion, when
from kandev_sched.interfaces.cli.common import invocation
from kandev_sched.interfaces.cli.schedules import announce
from kandev_sched.interfaces.cli.values import instant_of, limit
from kandev_sched.operations import lookup, triggers
from kandev_sched.operations.listing import list_triggers
from kandev_sched.operations.resources import trigger_resource
from kandev_sched.operations.schedules import Schedule
from kandev_sched.operations.triggers import AddTrigger, SetTrigger
from kandev_sched.operations.views import row_of, rows_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from kandev_sched.interfaces.cli.invocation import Invocation
    from kandev_sched.store.db import Reader, Tx

app = typer.Typer(help="When a routine fires.", rich_markup_mode=None, add_completion=False)
COLUMNS = (
    *("id", "routine", "expression", "zone", "next_run_at", "last_fired_at", "last_success_at", "last_error"),
    "enabled",
)
COMING_COLUMNS = ("at", "routine", "expression", "zone", "skipped_reason")


@app.command("add")
@when.with_schedule
def add(
    context: typer.Context,
    *,
    routine: common.RoutineName,
    schedule: Schedule,
    manual: Annotated[bool, typer.Option("--manual", help="Only by hand.")] = False,
) -> None:
    """Add a trigger to a routine: a schedule, or by hand."""
    here = invocation(context)
    asked_for = when.new_schedule(schedule)
    if manual is (asked_for is not None):
        hint = "add --cron '0 9 * * *'"
        raise Invalid("a trigger needs a schedule or --manual, and not both", hint=hint)
    asked = AddTrigger(workspace=here.workspace, routine=routine, schedule=asked_for)
    trigger = _changed(here, "added", lambda tx: triggers.add_trigger(tx, asked))
    announce(here, trigger, is_zone_default=schedule.zone is None)


def _changed(here: Invocation, what: str, change: Callable[[Tx], Trigger]) -> Trigger:
    def work(tx: Tx) -> tuple[Trigger, dict[str, object]]:
        trigger = change(tx)
        return trigger, row_of(tx, trigger)

    trigger, row = here.write(work)
    here.tell(f"Trigger {trigger.id} of routine {row['routine']} is {what}", row)
    return trigger


@app.command("list")
def list_(
    context: typer.Context,
    routine: Annotated[str | None, typer.Option("--routine", autocompletion=completion.routines)] = None,
) -> None:
    """List the triggers, of one routine or of all."""
    here = invocation(context)
    rows = here.read(
        lambda reader: rows_of(reader, list_triggers(reader, workspace=here.workspace, routine=routine))
    )
    here.show_list(rows, COLUMNS, empty="there are no triggers yet; `sched trigger add` makes one")


@app.command("show")
def show(context: typer.Context, trigger: common.TriggerId) -> None:
    """Show one trigger."""
    here = invocation(context)

    def whole(reader: Reader) -> dict[str, object]:
        found = _named(reader, here, trigger)
        return {**row_of(reader, found), **trigger_resource(reader, found)}

    here.show(here.read(whole))


def _named(reader: Reader, here: Invocation, trigger: str) -> Trigger:
    return lookup.the_trigger(reader, lookup.the_workspace(reader, here.workspace), trigger)


@app.command("set")
@when.with_schedule
def set_(
    context: typer.Context,
    *,
    trigger: common.TriggerId,
    schedule: Schedule,
    if_match: when.IfMatch = None,
) -> None:
    """Change the schedule or its zone; nothing fires before the next new slot."""
    here = invocation(context)
    asked = SetTrigger(workspace=here.workspace, trigger=trigger, schedule=schedule, if_match=if_match)
    changed = _changed(here, "changed", lambda tx: triggers.set_trigger(tx, asked))
    announce(here, changed, is_zone_default=False)


@app.command("enable")
def enable(context: typer.Context, trigger: common.TriggerId, if_match: when.IfMatch = None) -> None:
    """Let it fire again, from now on, on behalf of who says so."""
    _switch(invocation(context), trigger, is_on=True, if_match=if_match)


@app.command("disable")
def disable(context: typer.Context, trigger: common.TriggerId, if_match: when.IfMatch = None) -> None:
    """Let it fire no more until it is enabled."""
    _switch(invocation(context), trigger, is_on=False, if_match=if_match)


def _switch(here: Invocation, trigger: str, *, is_on: bool, if_match: str | None) -> None:
    asked = SetTrigger(workspace=here.workspace, trigger=trigger, enabled=is_on, if_match=if_match)
    _changed(here, "enabled" if is_on else "disabled", lambda tx: triggers.set_trigger(tx, asked))


@app.command("delete")
def delete(
    context: typer.Context, trigger: common.TriggerId, dry_run: common.DryRun = False, yes: common.Yes = False
) -> None:
    """Delete a trigger; what it fired stays."""
    here = invocation(context)
    found = here.read(lambda reader: _named(reader, here, trigger))
    if dry_run:
        row = here.read(lambda reader: row_of(reader, found))
        here.tell(f"Trigger {found.id} would be deleted", {**row, "dry_run": True})
        return
    common.confirm(f"Delete trigger {found.id} ({found.expression or found.kind})?", is_sure=yes)
    _changed(here, "deleted", lambda tx: _delete(tx, _named(tx, here, found.id)))


def _delete(tx: Tx, trigger: Trigger) -> Trigger:
    triggers.delete_trigger(tx, trigger)
    return trigger


@app.command("next")
def next_(
    context: typer.Context,
    trigger: common.TriggerId,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="INSTANT", help="From then on; default: from now on.")
    ] = None,
    n: common.Limit = 5,
) -> None:
    """Show the coming slots of one trigger, those that do not fire included, with the reason."""
    here, at_most = invocation(context), limit(n)
    after = MachineHost().now() if from_ is None else instant_of(from_, option="--from")
    fires = here.read(
        lambda reader: triggers.next_fires(reader, _named(reader, here, trigger), now=after, limit=at_most)
    )
    here.show_list(map(common.plain_row, fires), COMING_COLUMNS, empty=f"{trigger} does not fire by itself")
