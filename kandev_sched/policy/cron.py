"""Cron: crontab(5) expressions, read strictly and answered in one time zone.

The text is read by our own parser, because every library takes more than crontab(5) or reads it otherwise
(`5-5` as the whole field, `22-2`, `L`, a random `R`). Going forward, croniter walks over the *naive* days of
a canonical text made from the parsed fields; given zones, it fires in gaps and twice in repeated hours. Going
backwards and counting is calendar arithmetic on bit masks (`walls`); zones are the business of `wallclock`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from threading import get_ident

from kandev_sched.domain.errors import Invalid
from kandev_sched.domain.record import Record
from kandev_sched.domain.schedules import OnGap, OnRepeat
from kandev_sched.policy import zones
from kandev_sched.policy.fields import (
    MONTH_NAMES,
    WEEKDAY_NAMES,
    WEEKDAYS,
    Field,
    in_field,
    no_step,
    number,
    plain,
    unreadable,
)
from kandev_sched.policy.tzfile import DAY
from kandev_sched.policy.wallclock import WallClock
from kandev_sched.policy.walls import Clock, Walls, bits
from kandev_sched.policy.words import counted, listed, months_said, sentence, times_said

TYPE_CHECKING = False
if TYPE_CHECKING:
    from croniter import croniter

# croniter cannot look beyond year 9999, and the widest gap between two matching days is 40 years.
_LAST_SURE_DAY = zones.second_of(zones.LAST) // DAY - 41 * 366

_LONGEST = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_SIX_WEEKS = sum(1 << 7 * week for week in range(6))

_FIELDS = (
    Field(name="minute", low=0, high=59),
    Field(name="hour", low=0, high=23),
    Field(name="day-of-month", low=1, high=31),
    Field(name="month", low=1, high=12, names=MONTH_NAMES),
    Field(name="day-of-week", low=0, high=7, names=WEEKDAY_NAMES),
)
_WEEKDAY = _FIELDS[4]
_MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_ITEM = re.compile(r"(?:\*|([0-9]+|[A-Za-z]+)(?:-([0-9]+|[A-Za-z]+))?)(?:/([0-9]+))?")
_QUARTZ_ITEM = re.compile(r".*[?#].*|LW?|L-?[0-9]+W?|LW-[0-9]+|(?:[0-9]+|[A-Z]{3})L|[0-9]+W", re.IGNORECASE)
_QUARTZ_FIELD = re.compile(
    r"[0-9*?][0-9A-Z*?#,/-]*|L[W0-9-]*|[A-Z]{3}(?:[-,#/L][0-9A-Z#,/-]*)?", re.IGNORECASE
)
_ZONE_PREFIX = re.compile(r"(?:CRON_)?TZ=([^ \t]*)[ \t]*(.*)", re.IGNORECASE)
_EVERY = re.compile(r"@every[ \t]+((?:[0-9]+h)?(?:[0-9]+m)?(?:[0-9]+s)?)", re.IGNORECASE)

_FIVE = "write five fields: minute hour day-of-month month day-of-week, such as '0 9 * * 1-5'"
_QUARTZ = "that is quartz syntax: use --quartz, where seconds come first, such as '0 0 9 L * ?'"


class Days(Record):
    """The days of the month and of the week that match; Sunday is bit 0."""

    dates: int
    weekdays: int
    both: bool  # a day must suit both; else one of the two is enough

    def __hash__(self) -> int:  # asked for at each step of a count: the fields alone, without their names
        return hash((self.dates, self.weekdays, self.both))

    def mask(self, first: int, length: int) -> int:
        """Bit n is day n, of a month of that length whose first day is that weekday."""
        weekdays = self.weekdays * _SIX_WEEKS >> first << 1
        days = self.dates & weekdays if self.both else self.dates | weekdays
        return days & (2 << length) - 2


class Cron(WallClock):
    """A parsed expression that fires some day. Made by `parse`."""

    day_text: str  # its days, as croniter is given them

    def explain(self) -> str:
        """The schedule as an English sentence."""
        times, days = times_said(self.walls.clock), _days_said(self._days)
        said = sentence(times, days, months_said(self.walls.months), self.zone)
        return said + self._policies_said()

    @property
    def _days(self) -> Days:
        assert isinstance(self.walls.days, Days)
        return self.walls.days

    def _first(self, wall: int) -> int | None:
        day, time = divmod(wall, DAY)
        found = _first_day(self.day_text, self._days.both, day)
        if found == day:
            if (today := self.walls.clock.first(time)) is not None:
                return day * DAY + today
            found = _first_day(self.day_text, self._days.both, day + 1)
        return None if found is None else found * DAY + self.walls.clock.opening


@lru_cache(maxsize=1 << 14)
def _first_day(day_text: str, both: bool, day: int) -> int | None:
    """The first matching day at or after this one.

    Remembered, because a scheduler asks all its triggers for the days that come next, again and again.
    """
    days = _walker(get_ident(), day_text, both)
    days.set_current(day * DAY - 1)
    try:
        return int(days.get_next()) // DAY
    except (ValueError, OverflowError):
        if day < _LAST_SURE_DAY:
            raise
        return None


@lru_cache(maxsize=1024)
def _walker(_thread: int, day_text: str, both: bool) -> croniter[float]:
    """croniter keeps its place, so each thread has its own; making one takes longer than many steps."""
    from croniter import croniter

    return croniter(day_text, 0.0, ret_type=float, day_or=not both)


def parse(
    text: object, zone: str, *, on_gap: OnGap = OnGap.SKIP, on_repeat: OnRepeat = OnRepeat.FIRST
) -> Cron:
    """Read an expression; every refusal is an `Invalid` that names what is wrong and what would be right."""
    if not isinstance(text, str):
        raise Invalid(f"a cron expression is text, not {text!r:.60}", hint=_FIVE)
    return _parse(text, zone, on_gap, on_repeat)


@lru_cache(maxsize=1024)
def _parse(text: str, zone: str, on_gap: OnGap, on_repeat: OnRepeat) -> Cron:
    text = plain(text, language="cron")
    parts = _parts(text)
    minutes, hours, dates, months, weekdays = map(_mask, _FIELDS, parts)
    both = "*" in (parts[2][0], parts[4][0])
    # Under OR some day of the week always comes; with both it falls on each date sooner or later.
    if both and not any(months >> i & 1 and dates & (2 << n) - 2 for i, n in enumerate(_LONGEST, 1)):
        hint = "February has at most 29 days; April, June, September and November have 30"
        raise Invalid(f"cron expression {text!r:.60} never fires: no such date exists", hint=hint)
    days = Days(dates=dates, weekdays=weekdays, both=both)
    walls = Walls(clock=Clock(hours=hours, minutes=minutes), days=days, months=months >> 1)
    return Cron(
        text=text,
        zone=zones.zone(zone).key,
        walls=walls,
        on_gap=on_gap,
        on_repeat=on_repeat,
        day_text=_day_text(days, months),
    )


def _parts(text: str) -> list[str]:
    """The five fields; a macro stands for its own."""
    if text.startswith("@"):
        return _macro(text).split()
    if prefix := _ZONE_PREFIX.fullmatch(text):
        hint = f"give the zone apart: --tz {prefix[1] or 'UTC'} with {prefix[2]!r:.60}"
        raise Invalid(f"cron expression {text!r:.60} carries a time zone", hint=hint)
    parts = text.split()
    if len(parts) != len(_FIELDS):
        raise _miscounted(text, parts)
    return parts


def _miscounted(text: str, parts: list[str]) -> Invalid:
    if len(parts) < len(_FIELDS):
        hint = f"did you mean @{text}?" if f"@{text}" in _MACROS else _FIVE
        count = {0: "no fields", 1: "one field"}.get(len(parts), f"{len(parts)} fields")
        return Invalid(f"cron expression {text!r:.60} has {count}, not five", hint=hint)
    if len(parts) <= 7 and all(map(_QUARTZ_FIELD.fullmatch, parts)):
        hint = "six or seven fields, seconds first, are quartz syntax: use --quartz"
        return Invalid(f"cron expression {text!r:.60} has {len(parts)} fields, not five", hint=hint)
    hint = "give the schedule alone, without blanks inside a field, a command or a comment"
    return Invalid(f"{' '.join(parts[5:])!r:.60} follows the five fields of the cron expression", hint=hint)


def _macro(text: str) -> str:
    name, *rest = text.lower().split()
    if name in _MACROS and not rest:
        return _MACROS[name]
    if name == "@every":
        every = _EVERY.fullmatch(text)
        duration = f"PT{every[1].upper()}" if every and every[1] else "with an ISO-8601 duration such as PT5M"
        raise Invalid(f"{text!r:.60} is an interval, not a cron expression", hint=f"use --every {duration}")
    if name == "@reboot":
        hint = "use a manual trigger, and fire it when the machine has started"
        raise Invalid(f"{text!r:.60} names no time, so it has no next run", hint=hint)
    hint = f"known are {', '.join(_MACROS)}, each alone"
    raise Invalid(f"{text!r:.60} is not a cron macro", hint=hint)


def _mask(field: Field, text: str) -> int:
    values = {value for item in text.split(",") for value in _values(field, item)}
    return sum(1 << value for value in ({value % 7 for value in values} if field is _WEEKDAY else values))


def _values(field: Field, item: str) -> range:
    """The values of one item of a list: `*`, N or N-M, with or without a step."""
    match = _ITEM.fullmatch(item)
    if match is None or _is_quartz(field, item):
        raise _refused(field, item)
    start, end, step = match.groups()
    if step is not None and not int(step):
        raise no_step(field, item)
    low = field.low if start is None else number(field, start)
    high = _end(field, low, end, open_ended=start is None or step is not None)
    if low > high:
        hint = f"write its two sides apart: {_two_sides(field, match)}"
        raise in_field(field, item, "is a range that runs backwards", hint)
    return range(low, high + 1, int(step or 1))


def _end(field: Field, low: int, end: str | None, *, open_ended: bool) -> int:
    """The last value of an item; `N/step` runs to the field's end. 7 is a second name of Sunday, 0."""
    if end is None:
        top = max(low, 6) if field is _WEEKDAY else field.high
        return top if open_ended else low
    high = number(field, end)
    return 7 if field is _WEEKDAY and high == 0 < low else high  # FRI-SUN


def _is_quartz(field: Field, item: str) -> bool:
    return "?" in item or (field.name.startswith("day") and bool(_QUARTZ_ITEM.fullmatch(item)))


def _refused(field: Field, item: str) -> Invalid:
    if _is_quartz(field, item):
        return in_field(field, item, "is not cron", _QUARTZ)
    hint = f"it takes *, numbers {field.low} to {field.high}, ranges 1-5, lists 1,3,5 and steps */2 or 1-5/2"
    return unreadable(field, item, hint)


def _two_sides(field: Field, match: re.Match[str]) -> str:
    """How to write a range like 22-2: as 22-23,0-2."""
    start, end, step = match.groups()
    top = 6 if field is _WEEKDAY else field.high
    last = field.names[-1] if start.isalpha() else str(top)
    first = field.names[0] if end.isalpha() else str(field.low)
    left = "" if start == "7" else f"{start}-{last}"  # a Sunday, with which the right side begins
    sides = ",".join(filter(None, (left, f"{first}-{end}")))
    return f"{sides}, each with its own step" if step else sides


def _day_text(days: Days, months: int) -> str:
    """Midnight of each day, in explicit lists: croniter has one reading of them only."""
    sized = ((days.dates, 31), (months, 12), (days.weekdays, 7))
    dates, in_months, weekdays = (
        "*" if mask.bit_count() == n else ",".join(map(str, bits(mask))) for mask, n in sized
    )
    if not days.both and "*" in (dates, weekdays):  # one of two suffices, and one admits every day
        dates = weekdays = "*"
    return f"0 0 {dates} {in_months} {weekdays}"


def _days_said(days: Days) -> str:
    all_dates, all_weekdays = days.dates.bit_count() == 31, days.weekdays.bit_count() == 7
    if (all_dates and all_weekdays) or (not days.both and (all_dates or all_weekdays)):
        return " every day"
    dates = f"{counted('day', days.dates)} of the month"
    monday_first = [day for day in range(1, 8) if days.weekdays >> day % 7 & 1]
    weekdays = listed(monday_first, lambda day: WEEKDAYS[day % 7])
    if all_dates:
        return f" on {weekdays}"
    if all_weekdays:
        return f" on {dates}"
    return f" on {dates} if it is {weekdays}" if days.both else f" on {dates}, and also on {weekdays}"
