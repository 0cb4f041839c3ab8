"""Cron: crontab(5) expressions, read strictly and answered in one time zone.

The text is read by our own parser, because every library takes more than crontab(5) or reads it otherwise
(`5-5` as the whole field, `22-2`, `L`, a random `R`). Going forward, croniter walks over *naive* minutes of a
canonical text made from the parsed fields; given zones, it fires in gaps and twice in repeated hours. Going
backwards and counting is calendar arithmetic on bit masks: a span of 50 years costs no loop over its slots.

A slot is a wall-clock minute that matches. It fires at its first occurrence in the zone, or never when the
zone skips it. So the slots after an instant depend on the instant alone, never on when one asks.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from calendar import monthrange
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import groupby, islice

from kandev_sched.domain.errors import Invalid
from kandev_sched.domain.record import Record
from kandev_sched.policy import zones

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from croniter import croniter

MAX_LENGTH = 512
_MINUTE = timedelta(minutes=1)
_TICK = timedelta(microseconds=1)
# croniter cannot look beyond year 9999, and the widest gap between two matching days is 40 years.
_LAST_SURE_YEAR = 9999 - 41

_MONTHS = "January February March April May June July August September October November December".split()  # noqa: SIM905
_WEEKDAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
_LONGEST = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_SIX_WEEKS = sum(1 << 7 * week for week in range(6))


class _Field(Record):
    """`names[i]` is a spelling of low + i. A value is the bit value % modulo, which makes 7 a Sunday."""

    name: str
    low: int
    high: int
    modulo: int
    names: tuple[str, ...] = ()


_FIELDS = (
    _Field(name="minute", low=0, high=59, modulo=60),
    _Field(name="hour", low=0, high=23, modulo=24),
    _Field(name="day-of-month", low=1, high=31, modulo=32),
    _Field(name="month", low=1, high=12, modulo=13, names=tuple(m[:3].upper() for m in _MONTHS)),
    _Field(name="day-of-week", low=0, high=7, modulo=7, names=tuple(d[:3].upper() for d in _WEEKDAYS)),
)
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


class Cron(Record):
    """A parsed expression that fires some day. Made by `parse`; from `minutes` on, bit masks."""

    text: str
    zone: str
    minutes: int
    hours: int
    days: int
    months: int
    weekdays: int  # Sunday is bit 0
    both: bool  # a day must suit both day fields; else one of the two is enough

    def next_after(self, instant: datetime) -> datetime | None:
        """The first slot after the instant, in UTC; None at the end of the calendar."""
        return next(self._slots(instant, zones.LAST), None)

    def slots_between(self, after: datetime, until: datetime, limit: int) -> list[datetime]:
        """The oldest `limit` slots with after < slot <= until, oldest first."""
        return list(islice(self._slots(after, until), max(limit, 0)))

    def latest_slots(self, after: datetime, until: datetime, limit: int) -> list[datetime]:
        """The newest `limit` slots with after < slot <= until, oldest first; the span costs nothing."""
        zone = zones.zone(self.zone)
        walls = self._walls_back(zones.reached(after, zone), zones.reached(until, zone))
        slots = (slot for wall in walls if (slot := zones.instant_of(wall, zone)))
        return list(islice(slots, max(limit, 0)))[::-1]

    def count_between(self, after: datetime, until: datetime) -> int:
        """Exactly how many slots there are with after < slot <= until, without visiting them."""
        zone = zones.zone(self.zone)
        walls = self._count_walls(zones.reached(after, zone), zones.reached(until, zone))
        return walls - sum(self._count_walls(*gap) for gap in zones.gaps_between(after, until, zone))

    def skipped_between(self, after: datetime, until: datetime, limit: int) -> list[datetime]:
        """The oldest `limit` matching wall times that a gap with after < gap <= until swallowed; naive."""
        gaps = zones.gaps_between(after, until, zones.zone(self.zone))
        walls = (wall for gap in gaps for wall in reversed(list(self._walls_back(*gap))))
        return list(islice(walls, max(limit, 0)))

    def explain(self) -> str:
        """The schedule as an English sentence."""
        times, days = _times_said(self.minutes, self.hours), _days_said(self)
        months = f", in {_listed(_bits(self.months), lambda m: _MONTHS[m - 1])} only"
        said = times if "every" in times and days == " every day" else times + days
        said += months * (self.months.bit_count() < 12)
        return f"{said[0].upper()}{said[1:]}, {self.zone} time."

    def _slots(self, after: datetime, until: datetime) -> Iterator[datetime]:
        from croniter import croniter

        zone = zones.zone(self.zone)
        low, high = zones.reached(after, zone), zones.reached(until, zone)
        walls = croniter(_canonical(self), _minute_of(low), ret_type=datetime, day_or=not self.both)
        while low < high and (wall := _next_wall(walls)) and wall <= high:
            if slot := zones.instant_of(wall, zone):
                yield slot
            else:  # past the gap in one step: a skipped day has 1440 minutes
                walls.set_current(_minute_of(zones.gap_at(wall, zone).new_wall - _TICK), force=True)

    def _walls_back(self, low: datetime, high: datetime) -> Iterator[datetime]:
        """The matching walls with low < wall <= high, newest first."""
        minutes = _minutes_of_day(self.minutes, self.hours)
        for month in range(_month_number(high), _month_number(low) - 1, -1):
            for day in reversed(_bits(self._days_of(month))):
                midnight = datetime(month // 12, month % 12 + 1, day)  # noqa: DTZ001 (walls are naive)
                for minute in reversed(minutes if midnight <= high else ()):
                    wall = midnight + minute * _MINUTE
                    if wall <= low:
                        return
                    if wall <= high:
                        yield wall

    def _count_walls(self, low: datetime, high: datetime) -> int:
        """How many matching walls there are with low < wall <= high."""
        if low >= high:
            return 0
        first, last = _month_number(low), _month_number(high)
        days = sum(self._days_of(month).bit_count() for month in range(first, last))
        months = days * len(_minutes_of_day(self.minutes, self.hours))
        return months + self._count_of_month(high) - self._count_of_month(low)

    def _count_of_month(self, wall: datetime) -> int:
        """How many matching walls the month of this one has, up to and with it."""
        minutes, days = _minutes_of_day(self.minutes, self.hours), self._days_of(_month_number(wall))
        whole_days = (days & (1 << wall.day) - 1).bit_count()
        today = bisect_right(minutes, wall.hour * 60 + wall.minute) if days >> wall.day & 1 else 0
        return whole_days * len(minutes) + today

    def _days_of(self, month: int) -> int:
        """The mask of the matching days of a month, numbered through from year 0."""
        year, index = divmod(month, 12)
        if not self.months >> index + 1 & 1:
            return 0
        monday_based, length = monthrange(year, index + 1)
        weekdays = self.weekdays * _SIX_WEEKS >> (monday_based + 1) % 7 << 1
        days = self.days & weekdays if self.both else self.days | weekdays
        return days & (2 << length) - 2


def parse(text: object, zone: str) -> Cron:
    """Read an expression; every refusal is an `Invalid` that names what is wrong and what would be right."""
    if not isinstance(text, str):
        raise Invalid(f"a cron expression is text, not {text!r:.60}", hint=_FIVE)
    return _parse(text, zone)


@lru_cache(maxsize=1024)
def _parse(text: str, zone: str) -> Cron:
    text = _plain(text)
    parts = _parts(text)
    minutes, hours, days, months, weekdays = map(_mask, _FIELDS, parts)
    both = "*" in (parts[2][0], parts[4][0])
    # Under OR some day of the week always comes; with both it falls on each date sooner or later.
    if both and not any(months >> i & 1 and days & (2 << n) - 2 for i, n in enumerate(_LONGEST, 1)):
        hint = "February has at most 29 days; April, June, September and November have 30"
        raise Invalid(f"cron expression {text!r:.60} never fires: no such date exists", hint=hint)
    sets = {"minutes": minutes, "hours": hours, "days": days, "months": months, "weekdays": weekdays}
    return Cron(text=text, zone=zones.zone(zone).key, both=both, **sets)


def _plain(text: str) -> str:
    """The text without outer blanks: printable ASCII on one line."""
    if len(text) > MAX_LENGTH:
        message = f"the cron expression has {len(text)} characters, {MAX_LENGTH} are allowed"
        raise Invalid(message, hint="write ranges and steps, such as 0-30 or */5, for long lists")
    for char in text:
        if not (" " <= char <= "~" or char == "\t"):
            hint = "use ASCII characters on one line, with blanks between the fields"
            raise Invalid(f"the cron expression contains the character {char!a}", hint=hint)
    return text.strip(" \t")


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


def _mask(field: _Field, text: str) -> int:
    values = {value % field.modulo for item in text.split(",") for value in _values(field, item)}
    return sum(1 << value for value in values)


def _values(field: _Field, item: str) -> range:
    """The values of one item of a list: `*`, N or N-M, with or without a step."""
    match = _ITEM.fullmatch(item)
    if match is None or _is_quartz(field, item):
        raise _unreadable(field, item)
    start, end, step = match.groups()
    if step is not None and not int(step):
        raise _in_field(field, item, "has a step of zero", "a step is 1 or more")
    low = field.low if start is None else _number(field, start)
    high = _end(field, low, end, open_ended=start is None or step is not None)
    if low > high:
        hint = f"write its two sides apart: {_two_sides(field, match)}"
        raise _in_field(field, item, "is a range that runs backwards", hint)
    return range(low, high + 1, int(step or 1))


def _end(field: _Field, low: int, end: str | None, *, open_ended: bool) -> int:
    """The last value of an item; `N/step` runs to the field's end."""
    is_weekday = field.modulo == 7
    if end is None:
        top = max(low, 6) if is_weekday else field.high
        return top if open_ended else low
    high = _number(field, end)
    return 7 if is_weekday and high == 0 < low else high  # FRI-SUN


def _number(field: _Field, text: str) -> int:
    if text.isdigit():
        if field.low <= int(text) <= field.high:
            return int(text)
        raise _in_field(field, text, "is out of range", f"it takes {field.low} to {field.high}")
    name = text.upper()
    if name in field.names:
        return field.low + field.names.index(name)
    hint = f"it takes {', '.join(field.names) or 'only numbers'}"
    raise _in_field(field, text, "is no name that it knows", hint)


def _is_quartz(field: _Field, item: str) -> bool:
    return "?" in item or (field.name.startswith("day") and bool(_QUARTZ_ITEM.fullmatch(item)))


def _unreadable(field: _Field, item: str) -> Invalid:
    if _is_quartz(field, item):
        return _in_field(field, item, "is not cron", _QUARTZ)
    if not item:
        return Invalid(f"the list in the {field.name} field has an empty item", hint="write it as 1,3,5")
    hint = f"it takes *, numbers {field.low} to {field.high}, ranges 1-5, lists 1,3,5 and steps */2 or 1-5/2"
    return _in_field(field, item, "cannot be read", hint)


def _in_field(field: _Field, item: str, why: str, hint: str) -> Invalid:
    return Invalid(f"{item!r:.60} in the {field.name} field {why}", hint=hint)


def _two_sides(field: _Field, match: re.Match[str]) -> str:
    """How to write a range like 22-2: as 22-23,0-2."""
    start, end, step = match.groups()
    last = field.names[-1] if start.isalpha() else str(field.modulo - 1)
    first = field.names[0] if end.isalpha() else str(field.low)
    left = "" if start == "7" else f"{start}-{last}"  # a Sunday, with which the right side begins
    sides = ",".join(filter(None, (left, f"{first}-{end}")))
    return f"{sides}, each with its own step" if step else sides


@lru_cache(maxsize=1024)
def _canonical(cron: Cron) -> str:
    """Explicit lists, of which croniter has one reading only. Under OR a full day field admits every day."""
    sized = ((cron.minutes, 60), (cron.hours, 24), (cron.days, 31), (cron.months, 12), (cron.weekdays, 7))
    fields = ["*" if mask.bit_count() == n else ",".join(map(str, _bits(mask))) for mask, n in sized]
    if not cron.both and "*" in (fields[2], fields[4]):
        fields[2] = fields[4] = "*"
    return " ".join(fields)


def _next_wall(walls: croniter[datetime]) -> datetime | None:
    try:
        return walls.get_next()
    except (ValueError, OverflowError):
        if walls.get_current().year < _LAST_SURE_YEAR:
            raise
        return None


@lru_cache(maxsize=256)
def _minutes_of_day(minutes: int, hours: int) -> tuple[int, ...]:
    return tuple(hour * 60 + minute for hour in _bits(hours) for minute in _bits(minutes))


def _bits(mask: int) -> list[int]:
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def _minute_of(wall: datetime) -> datetime:
    return wall.replace(second=0, microsecond=0)


def _month_number(wall: datetime) -> int:
    return wall.year * 12 + wall.month - 1


def _times_said(minutes: int, hours: int) -> str:
    every_hour = hours.bit_count() == 24
    if minutes.bit_count() * hours.bit_count() <= 6:
        return f"at {_joined([f'{m // 60:02}:{m % 60:02}' for m in _minutes_of_day(minutes, hours)])}"
    step = 60 // minutes.bit_count()
    if _bits(minutes) == list(range(0, 60, step)) and (step < 60 or every_hour):
        said = {1: "every minute", 60: "every hour"}.get(step, f"every {step} minutes")
        return said if every_hour else f"{said} in {_counted('hour', hours)}"
    return f"at {_counted('minute', minutes)} of {'every hour' if every_hour else _counted('hour', hours)}"


def _counted(noun: str, mask: int) -> str:
    return f"{noun}{'s' * (mask.bit_count() > 1)} {_listed(_bits(mask), str)}"


def _days_said(cron: Cron) -> str:
    all_days, all_weekdays = cron.days.bit_count() == 31, cron.weekdays.bit_count() == 7
    if (all_days and all_weekdays) or (not cron.both and (all_days or all_weekdays)):
        return " every day"
    dates = f"{_counted('day', cron.days)} of the month"
    monday_first = [day for day in range(1, 8) if cron.weekdays >> day % 7 & 1]
    weekdays = _listed(monday_first, lambda day: _WEEKDAYS[day % 7])
    if all_days:
        return f" on {weekdays}"
    if all_weekdays:
        return f" on {dates}"
    return f" on {dates} if it is {weekdays}" if cron.both else f" on {dates}, and also on {weekdays}"


def _listed(numbers: list[int], name: Callable[[int], str]) -> str:
    """Such as: 1, 3 to 5 and 9."""
    texts: list[str] = []
    for _, pairs in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        run = [name(number) for _, number in pairs]
        texts += [f"{run[0]} to {run[-1]}"] if len(run) > 2 else run
    return _joined(texts)


def _joined(texts: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))
