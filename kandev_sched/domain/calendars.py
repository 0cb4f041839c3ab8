"""Calendars: when nothing shall fire: holidays, weekly quiet hours, maintenance windows."""

from __future__ import annotations

from kandev_sched.domain.record import Record


class QuietHours(Record):
    """Each week, on these days (0 = Monday) from one minute of the day to another, wall time of the calendar.

    When `until_minute` is not after `from_minute` the span ends on the next day.
    """

    days: tuple[int, ...]
    from_minute: int
    until_minute: int


class Window(Record):
    """Once, from an instant to another (the second not included)."""

    from_at: int
    until_at: int
    note: str = ""


class Calendar(Record):
    """A slot inside any of its dates (`2026-12-25`), quiet hours or windows is recorded as excluded."""

    id: str
    workspace_id: str
    name: str
    zone: str = "UTC"
    dates: tuple[str, ...] = ()
    quiet_hours: tuple[QuietHours, ...] = ()
    windows: tuple[Window, ...] = ()
    created_at: int
    updated_at: int
