"""`sched calendar …`."""

from __future__ import annotations

from typing import Annotated

import typer

from kandev_sched.domain.calendars import Calendar
from kandev_sched.domain.errors import Invalid
from kandev_sched.interfaces.cli import common, completion
from kandev_sched.interfaces.cli.common import invocation
from kandev_sched.operations import calendars, lookup
from kandev_sched.operations.calendars import AddCalendar, SetCalendar, list_calendars
from kandev_sched.operations.views import row_of, rows_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from kandev_sched.interfaces.cli.invocation import Invocation
    from kandev_sched.store.db import Reader, Tx

app = typer.Typer(help="When nothing shall fire.", rich_markup_mode=None, add_completion=False)
COLUMNS = ("name", "zone", "dates", "quiet_hours", "windows", "id")

CalendarName = Annotated[str, typer.Argument(metavar="CALENDAR", autocompletion=completion.calendars)]
Dates = Annotated[
    list[str] | None, typer.Option("--date", metavar="2026-12-25", help="A day to leave out; repeatable.")
]
DatesFile = Annotated[
    str | None, typer.Option("--dates-file", metavar="FILE", help="Days to leave out, one a line.")
]
Quiet = Annotated[
    list[str] | None,
    typer.Option("--quiet-hours", metavar="'MON-FRI 22:00-07:00'", help="Each week; repeatable."),
]
Windows = Annotated[
    list[str] | None,
    typer.Option("--window", metavar="FROM/UNTIL", help="Once, from an instant to another; repeatable."),
]


@app.command("add")
def add(
    context: typer.Context,
    *,
    name: common.NewName,
    tz: common.Zone = None,
    date: Dates = None,
    dates_file: DatesFile = None,
    quiet_hours: Quiet = None,
    window: Windows = None,
) -> None:
    """Add a calendar; `--calendar` of a trigger names it."""
    here = invocation(context)
    asked = AddCalendar(
        workspace=here.workspace,
        name=name,
        zone=tz or "UTC",
        dates=_dates(date, dates_file) or (),
        quiet=tuple(quiet_hours or ()),
        windows=tuple(window or ()),
    )
    _changed(here, "added", lambda tx: calendars.add_calendar(tx, asked))


def _dates(given: list[str] | None, path: str | None) -> tuple[str, ...] | None:
    if path is None:
        return tuple(given) if given else None
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise Invalid(f"the file {path!r:.200} cannot be read: {why}", hint="check --dates-file") from None
    return (*(given or ()), *calendars.dates_of_text(text))


def _changed(here: Invocation, what: str, change: Callable[[Tx], Calendar]) -> None:
    def work(tx: Tx) -> tuple[Calendar, dict[str, object]]:
        calendar = change(tx)
        return calendar, row_of(tx, calendar)

    calendar, row = here.write(work)
    here.tell(f"Calendar {calendar.name} ({calendar.id}) is {what}", row)


@app.command("list")
def list_(context: typer.Context) -> None:
    """List the calendars."""
    here = invocation(context)
    rows = here.read(lambda reader: rows_of(reader, list_calendars(reader, workspace=here.workspace)))
    here.show_list(rows, COLUMNS, empty="there are no calendars yet; `sched calendar add` makes one")


@app.command("show")
def show(context: typer.Context, calendar: CalendarName) -> None:
    """Show one calendar."""
    here = invocation(context)
    here.show(here.read(lambda reader: row_of(reader, _named(reader, here, calendar))))


def _named(reader: Reader, here: Invocation, calendar: str) -> Calendar:
    return calendars.the_calendar(reader, lookup.the_workspace(reader, here.workspace), calendar)


@app.command("set")
def set_(
    context: typer.Context,
    *,
    calendar: CalendarName,
    tz: common.Zone = None,
    date: Dates = None,
    dates_file: DatesFile = None,
    quiet_hours: Quiet = None,
    window: Windows = None,
) -> None:
    """Replace what is given, leave the rest."""
    here = invocation(context)
    asked = SetCalendar(
        workspace=here.workspace,
        calendar=calendar,
        zone=tz,
        dates=_dates(date, dates_file),
        quiet=tuple(quiet_hours) if quiet_hours else None,
        windows=tuple(window) if window else None,
    )
    _changed(here, "changed", lambda tx: calendars.set_calendar(tx, asked))


@app.command("delete")
def delete(
    context: typer.Context, calendar: CalendarName, dry_run: common.DryRun = False, yes: common.Yes = False
) -> None:
    """Delete a calendar that no trigger names."""
    here = invocation(context)
    found = here.read(lambda reader: _named(reader, here, calendar))
    if dry_run:
        row = here.read(lambda reader: row_of(reader, found))
        here.tell(f"Calendar {found.name} would be deleted", {**row, "dry_run": True})
        return
    common.confirm(f"Delete calendar {found.name}?", is_sure=yes)
    _changed(here, "deleted", lambda tx: _delete(tx, _named(tx, here, found.id)))


def _delete(tx: Tx, calendar: Calendar) -> Calendar:
    calendars.delete_calendar(tx, calendar)
    return calendar
