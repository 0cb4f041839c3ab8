"""Exclusion: whether a slot lies inside a calendar, and the sentence that says why."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kandev_sched.domain.calendars import Calendar, QuietHours
from kandev_sched.domain.errors import Invalid
from kandev_sched.domain.instant import rfc3339
from kandev_sched.policy import zones

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_DAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_DAY_MINUTES = 24 * 60


def excluded_by(calendars: Iterable[Calendar], slot_at: int) -> str | None:
    """Why the slot must not fire, in one sentence, or None."""
    for calendar in calendars:
        why = _why(calendar, slot_at)
        if why is not None:
            return f"calendar {calendar.name}: {why}"
    return None


def _why(calendar: Calendar, slot_at: int) -> str | None:
    for window in calendar.windows:
        if window.from_at <= slot_at < window.until_at:
            note = f" ({window.note})" if window.note else ""
            return f"inside the window {rfc3339(window.from_at)} to {rfc3339(window.until_at)}{note}"
    utc = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=slot_at)
    wall = utc.astimezone(zones.zone(calendar.zone))
    if wall.date().isoformat() in calendar.dates:
        return f"{wall.date().isoformat()} is excluded"
    quiet = next((hours for hours in calendar.quiet_hours if _is_quiet(hours, wall)), None)
    return None if quiet is None else f"quiet hours {spell(quiet)}"


def _is_quiet(hours: QuietHours, wall: datetime) -> bool:
    minute, day = wall.hour * 60 + wall.minute, wall.weekday()
    if hours.from_minute < hours.until_minute:
        return day in hours.days and hours.from_minute <= minute < hours.until_minute
    began_today = day in hours.days and minute >= hours.from_minute
    began_yesterday = (day - 1) % 7 in hours.days and minute < hours.until_minute
    return began_today or began_yesterday


def spell(hours: QuietHours) -> str:
    """`MON,TUE 22:00-07:00`."""
    days = ",".join(_DAYS[day] for day in hours.days)
    return f"{days} {_clock(hours.from_minute)}-{_clock(hours.until_minute)}"


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def parse_quiet_hours(text: str) -> QuietHours:
    """`MON-FRI 22:00-07:00`, `SAT,SUN 00:00-24:00`. Raises Invalid."""
    days, _, hours = text.strip().upper().partition(" ")
    begin, dash, end = hours.strip().partition("-")
    if not dash:
        raise _not_quiet_hours(text)
    return QuietHours(
        days=tuple(sorted({day for part in days.split(",") for day in _days(part, text)})),
        from_minute=_minute(begin, text),
        until_minute=_minute(end, text),
    )


def _days(part: str, text: str) -> list[int]:
    first, _, last = part.partition("-")
    if first not in _DAYS or (last or first) not in _DAYS:
        raise _not_quiet_hours(text)
    begin, end = _DAYS.index(first), _DAYS.index(last or first)
    return [day % 7 for day in range(begin, end + (7 if end < begin else 0) + 1)]


def _minute(clock: str, text: str) -> int:
    hour, colon, minute = clock.partition(":")
    if not (
        colon and len(hour) == len(minute) == 2 and (hour + minute).isascii() and (hour + minute).isdigit()
    ):
        raise _not_quiet_hours(text)
    total = int(hour) * 60 + int(minute)
    if int(minute) > 59 or total > _DAY_MINUTES:
        raise _not_quiet_hours(text)
    return total


def _not_quiet_hours(text: str) -> Invalid:
    return Invalid(f"{text!r:.60} are no quiet hours", hint="write them like 'MON-FRI 22:00-07:00'")


def parse_date(text: str) -> str:
    """A date of the calendar, `2026-12-25`. Raises Invalid."""
    try:
        parsed = datetime.strptime(text.strip(), "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise Invalid(f"{text.strip()!r:.60} is not a date", hint="write it like 2026-12-25") from None
    return parsed.date().isoformat()
