"""`sched routine history|diff|rollback|backfill`: what a routine was, and what it should have done."""

from __future__ import annotations

from typing import Annotated

import typer

from kandev_sched.domain.errors import NotFound
from kandev_sched.domain.host import MachineHost
from kandev_sched.domain.record import as_dict
from kandev_sched.domain.routines import ConcurrencyPolicy, Routine
from kandev_sched.interfaces.cli import common
from kandev_sched.interfaces.cli.common import invocation
from kandev_sched.interfaces.cli.values import choice, instant_of
from kandev_sched.operations import lookup, resources, routines
from kandev_sched.operations.backfill import Backfill, backfill, backfill_slots
from kandev_sched.operations.views import routine_row, rows_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.domain.revisions import Revision
    from kandev_sched.domain.routines import RoutineRun
    from kandev_sched.interfaces.cli.invocation import Invocation
    from kandev_sched.store.db import Reader, Tx

HISTORY_COLUMNS = ("number", "created_at", "changed")
DIFF_COLUMNS = ("key", "before", "after")
SLOT_COLUMNS = ("at", "trigger_id", "is_fired")
RUN_COLUMNS = ("id", "status", "scheduled_for_at", "reason")

Number = Annotated[int | None, typer.Option(metavar="N", help="A revision's number.")]


def named(reader: Reader, here: Invocation, routine: str) -> Routine:
    """The routine that was named."""
    return lookup.the_routine(reader, lookup.the_workspace(reader, here.workspace), routine)


def history(context: typer.Context, routine: common.RoutineName) -> None:
    """List the revisions of the routine's definition, oldest first, with what each changed."""
    here = invocation(context)
    rows = here.read(lambda reader: resources.revision_rows(reader, named(reader, here, routine).id))
    here.show_list(rows, HISTORY_COLUMNS, empty=f"{routine} has no revisions")


def diff(
    context: typer.Context,
    routine: common.RoutineName,
    from_: Annotated[int | None, typer.Option("--from", metavar="N", help="Default: the one before.")] = None,
    to: Annotated[int | None, typer.Option("--to", metavar="N", help="Default: the present one.")] = None,
) -> None:
    """Show what differs between two revisions."""
    here = invocation(context)
    before, after = here.read(lambda reader: _two(reader, here, routine, from_, to))
    changes = resources.changes_between(before, after)
    if here.is_json:
        here.show({"from": before.number, "to": after.number, "changes": changes})
        return
    rows = [{"key": key, "before": pair[0], "after": pair[1]} for key, pair in changes.items()]
    here.show_list(rows, DIFF_COLUMNS, empty=f"revisions {before.number} and {after.number} do not differ")


def _two(
    reader: Reader, here: Invocation, routine: str, from_: int | None, to: int | None
) -> tuple[Revision, Revision]:
    found = named(reader, here, routine)
    last = found.generation if to is None else to
    first = max(last - 1, 1) if from_ is None else from_
    if found.generation == 1 and from_ is None and to is None:
        raise NotFound(f"routine {found.name} has only one revision", hint="nothing was changed yet")
    return resources.the_revision(reader, found.id, first), resources.the_revision(reader, found.id, last)


def rollback(
    context: typer.Context,
    routine: common.RoutineName,
    to: Annotated[int, typer.Option("--to", metavar="N", help="The revision that shall hold again.")],
) -> None:
    """Give the routine the definition of an earlier revision, as a new one."""
    here = invocation(context)

    def work(tx: Tx) -> tuple[Routine, dict[str, object]]:
        changed = routines.roll_back(tx, named(tx, here, routine), to)
        return changed, routine_row(tx, changed)

    changed, row = here.write(work)
    here.tell(f"Routine {changed.name} is as in revision {to}; this is revision {changed.generation}", row)


def backfill_command(
    context: typer.Context,
    *,
    routine: common.RoutineName,
    from_: Annotated[str, typer.Option("--from", metavar="INSTANT", help="The first slot's instant.")],
    to: Annotated[str, typer.Option("--to", metavar="INSTANT", help="Slots before this.")],
    concurrency: Annotated[
        str | None,
        typer.Option("--concurrency", metavar="|".join(ConcurrencyPolicy), help="For these fires."),
    ] = None,
    dry_run: common.DryRun = False,
) -> None:
    """Fire the slots of a past range; those that have fired already are left alone."""
    here = invocation(context)
    asked = Backfill(
        workspace=here.workspace,
        routine=routine,
        from_at=instant_of(from_, option="--from"),
        until_at=instant_of(to, option="--to"),
        concurrency=choice(ConcurrencyPolicy, concurrency, option="--concurrency"),
    )
    if dry_run:
        slots = here.read(lambda reader: backfill_slots(reader, asked, now=MachineHost().now()))
        here.show_list(map(as_dict, slots), SLOT_COLUMNS, empty="there are no slots in that range")
        return
    window_s = here.config.settings.coalesce_window_s

    def work(tx: Tx) -> tuple[list[RoutineRun], list[dict[str, object]]]:
        made = backfill(tx, asked, window_s=window_s)
        return made, rows_of(tx, made)

    _, rows = here.write(work)
    here.show_list(rows, RUN_COLUMNS, empty="every slot of that range has fired already")
