"""Calendars."""

from __future__ import annotations

from kandev_sched.domain.calendars import Calendar
from kandev_sched.store.sql import Sql, Statement, insert_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.store.db import Reader, Tx

_ADD = insert_of("calendars", Calendar)


def add(tx: Tx, calendar: Calendar) -> None:
    """Insert a calendar."""
    tx.insert(_ADD, calendar)


_OF_WORKSPACE = Sql("SELECT * FROM calendars WHERE workspace_id = :workspace_id ORDER BY name", Calendar)


def of_workspace(reader: Reader, workspace_id: str) -> list[Calendar]:
    """The calendars of a workspace, by name."""
    return reader.all(_OF_WORKSPACE, workspace_id=workspace_id)


_SET = Statement(
    "UPDATE calendars SET zone = :zone, dates = :dates, quiet_hours = :quiet_hours, windows = :windows,"
    " updated_at = :now WHERE id = :id"
)


def save(tx: Tx, calendar: Calendar) -> None:
    """Write a changed calendar."""
    tx.run(
        _SET,
        id=calendar.id,
        zone=calendar.zone,
        dates=calendar.dates,
        quiet_hours=calendar.quiet_hours,
        windows=calendar.windows,
        now=tx.now,
    )


_DELETE = Statement("DELETE FROM calendars WHERE id = :id")


def delete(tx: Tx, calendar_id: str) -> None:
    """Delete a calendar that no trigger names."""
    tx.run(_DELETE, id=calendar_id)


_USERS = Statement(
    "SELECT t.id FROM triggers t, json_each(t.calendar_ids) c WHERE t.workspace_id = :workspace_id"
    " AND c.value = :calendar_id LIMIT 10"
)


def triggers_with(reader: Reader, calendar: Calendar) -> list[str]:
    """Triggers that name the calendar (the first ten)."""
    rows = reader.rows(_USERS, workspace_id=calendar.workspace_id, calendar_id=calendar.id)
    return [row[0] for row in rows]
