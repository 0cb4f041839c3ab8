"""Calendars: add, change, delete. A slot inside one is recorded as excluded."""

from __future__ import annotations

from kandev_sched.domain.calendars import Calendar, QuietHours, Window
from kandev_sched.domain.errors import Conflict, Invalid, NotFound
from kandev_sched.domain.record import Record
from kandev_sched.domain.workspaces import Workspace
from kandev_sched.operations import lookup
from kandev_sched.policy import naming, once, zones
from kandev_sched.policy.exclusion import parse_date, parse_quiet_hours
from kandev_sched.policy.timing import millis
from kandev_sched.store import calendars
from kandev_sched.store.db import Reader, Tx

DATES_LIMIT = 10_000


class AddCalendar(Record):
    """`dates` like 2026-12-25, `quiet` like 'MON-FRI 22:00-07:00', `windows` like FROM/UNTIL with offsets."""

    workspace: str = lookup.DEFAULT_WORKSPACE
    name: str
    zone: str = "UTC"
    dates: tuple[str, ...] = ()
    quiet: tuple[str, ...] = ()
    windows: tuple[str, ...] = ()


def add_calendar(tx: Tx, command: AddCalendar) -> Calendar:
    """Raises Invalid for what cannot be read, Conflict when the name is taken."""
    workspace = lookup.workspace_for_writing(tx, command.workspace)
    name = naming.checked_name("calendar", command.name)
    if any(calendar.name == name for calendar in calendars.of_workspace(tx, workspace.id)):
        raise Conflict(f"there is a calendar {name!r} already", hint="choose another name, or `calendar set`")
    calendar = Calendar(
        id=tx.new_id("cal"),
        workspace_id=workspace.id,
        name=name,
        zone=zones.zone(command.zone).key,
        dates=_dates(command.dates),
        quiet_hours=_quiet(command.quiet),
        windows=_windows(command.windows),
        created_at=tx.now,
        updated_at=tx.now,
    )
    if not (calendar.dates or calendar.quiet_hours or calendar.windows):
        raise Invalid(
            f"the calendar {name!r} excludes nothing", hint="give --date, --dates-file, --quiet or --window"
        )
    calendars.add(tx, calendar)
    return calendar


class SetCalendar(Record):
    """Replace what is given, leave the rest."""

    workspace: str = lookup.DEFAULT_WORKSPACE
    calendar: str
    zone: str | None = None
    dates: tuple[str, ...] | None = None
    quiet: tuple[str, ...] | None = None
    windows: tuple[str, ...] | None = None


def set_calendar(tx: Tx, command: SetCalendar) -> Calendar:
    """Raises NotFound, Invalid."""
    workspace = lookup.workspace_for_writing(tx, command.workspace)
    calendar = the_calendar(tx, workspace, command.calendar)
    if command.zone is not None:
        calendar = calendar.replace(zone=zones.zone(command.zone).key)
    if command.dates is not None:
        calendar = calendar.replace(dates=_dates(command.dates))
    if command.quiet is not None:
        calendar = calendar.replace(quiet_hours=_quiet(command.quiet))
    if command.windows is not None:
        calendar = calendar.replace(windows=_windows(command.windows))
    calendars.save(tx, calendar)
    return calendar.replace(updated_at=tx.now)


def delete_calendar(tx: Tx, calendar: Calendar) -> None:
    """Raises Conflict while a trigger names it."""
    users = calendars.triggers_with(tx, calendar)
    if users:
        raise Conflict(
            f"calendar {calendar.name} is used by {', '.join(users)}", hint="change those triggers first"
        )
    calendars.delete(tx, calendar.id)


def the_calendar(reader: Reader, workspace: Workspace, text: str) -> Calendar:
    """A calendar of the workspace, by name or id. Raises NotFound."""
    known = calendars.of_workspace(reader, workspace.id)
    found = next((calendar for calendar in known if text in (calendar.name, calendar.id)), None)
    if found is None:
        hint = naming.suggestion(text, [calendar.name for calendar in known], kind="calendar")
        raise NotFound(f"there is no calendar {text!r:.60} in workspace {workspace.name}", hint=hint)
    return found


def list_calendars(reader: Reader, *, workspace: str) -> list[Calendar]:
    """The calendars of a workspace, by name."""
    return calendars.of_workspace(reader, lookup.the_workspace(reader, workspace).id)


def dates_of_text(text: str) -> tuple[str, ...]:
    """The dates of a file: one a line, blanks and `#` comments left out. Raises Invalid naming the line."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        content = line.partition("#")[0].strip()
        if content:
            try:
                found.append(parse_date(content))
            except Invalid as error:
                raise Invalid(f"line {number}: {error.message}", hint=error.hint) from None
    return tuple(found)


def _dates(texts: tuple[str, ...]) -> tuple[str, ...]:
    if len(texts) > DATES_LIMIT:
        raise Invalid(f"{len(texts)} dates were given", hint=f"at most {DATES_LIMIT} are allowed")
    return tuple(sorted({parse_date(text) for text in texts}))


def _quiet(texts: tuple[str, ...]) -> tuple[QuietHours, ...]:
    return tuple(parse_quiet_hours(text) for text in texts)


def _windows(texts: tuple[str, ...]) -> tuple[Window, ...]:
    return tuple(_window(text) for text in texts)


def _window(text: str) -> Window:
    begin, slash, end = text.partition("/")
    if not slash:
        raise Invalid(
            f"{text!r:.80} is no window", hint="write FROM/UNTIL, both like 2026-12-24T18:00:00+01:00"
        )
    from_at, until_at = (millis(once.parse(part).at) for part in (begin, end))
    if until_at <= from_at:
        raise Invalid(f"the window {text!r:.80} ends before it begins", hint="write FROM/UNTIL")
    return Window(from_at=from_at, until_at=until_at)
