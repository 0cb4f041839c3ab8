"""An oracle for cron and Quartz that shares no code with the product: it looks at a clock each UTC minute.

Slow and plain on purpose. Expressions are read as predicates ("is 14 in this field?", "is this date the last
Friday?"), clocks come from `zoneinfo`; what repeats or is missing is seen by walking, not known beforehand.
Only legal expressions are understood. All offsets of the walked years are whole minutes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import tzdata

FILES = Path(tzdata.__file__).parent / "zoneinfo"
MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
MINUTE = 60
HOUR = 3600


@cache
def clock_of(name: str) -> ZoneInfo:
    """The zone, from the tzdata package and not from the machine."""
    with (FILES / name).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


# ---- expressions ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Meaning:
    """What an expression says about a day, a minute of the day and a second."""

    text: str
    day: Callable[[date], bool]
    times: frozenset[int]  # minutes of the day
    seconds: tuple[int, ...]


def meaning_of(text: str) -> Meaning:
    """Five fields are cron, more are Quartz."""
    fields = MACROS.get(text, text).upper().split()
    return quartz(text, *fields) if len(fields) > 5 else cron(text, *fields)


def cron(text: str, minute: str, hour: str, dates: str, month: str, weekday: str) -> Meaning:
    def day(at: date) -> bool:
        in_dates = inside(dates, at.day, 1, 31)
        in_days = any(at.isoweekday() % 7 in weekdays(item) for item in weekday.split(","))
        both = dates[0] == "*" or weekday[0] == "*"
        suits = in_dates and in_days if both else in_dates or in_days
        return suits and inside(month, at.month, 1, 12, MONTHS)

    return Meaning(text, lru_cache(maxsize=None)(day), times(minute, hour), (0,))


def weekdays(item: str) -> set[int]:
    """An item of cron's day-of-week, where Sunday is 0 and also 7."""
    body, _, step = item.partition("/")
    first, _, last = body.partition("-")
    start = 0 if first == "*" else spelled(first, 0, DAYS)
    end = spelled(last, 0, DAYS) if last else max(start, 6) if step or first == "*" else start
    return {day % 7 for day in range(start, (end or 7 * (start > 0)) + 1, int(step or 1))}


def quartz(text: str, *fields: str) -> Meaning:
    second, minute, hour, dates, month, weekday = fields[:6]
    year = fields[6] if len(fields) == 7 else "*"

    def day(at: date) -> bool:
        suits = in_week(weekday, at) if dates == "?" else any(is_date(item, at) for item in dates.split(","))
        return suits and inside(month, at.month, 1, 12, MONTHS) and inside(year, at.year, 1970, 2199)

    seconds = tuple(s for s in range(60) if inside(second, s, 0, 59))
    return Meaning(text, lru_cache(maxsize=None)(day), times(minute, hour), seconds)


def times(minute: str, hour: str) -> frozenset[int]:
    hours = [h for h in range(24) if inside(hour, h, 0, 23)]
    return frozenset(60 * h + m for h in hours for m in range(60) if inside(minute, m, 0, 59))


def inside(text: str, value: int, low: int, high: int, names: list[str] | None = None) -> bool:
    """Whether a list of *, N, N-M with steps has the value; a range may wrap around."""
    return any(in_item(item, value, low, high, names or []) for item in text.split(","))


def in_item(item: str, value: int, low: int, high: int, names: list[str]) -> bool:
    body, _, step = item.partition("/")
    first, _, last = body.partition("-")
    if first in ("", "*"):
        return (value - low) % int(step or 1) == 0
    start = spelled(first, low, names)
    end = spelled(last, low, names) if last else high if step else start
    width = high - low + 1
    distance = (value - start) % width
    return distance <= (end - start) % width and distance % int(step or 1) == 0


def spelled(text: str, low: int, names: list[str]) -> int:
    return names.index(text) + low if text in names else int(text)


def is_date(item: str, at: date) -> bool:
    """One item of Quartz's day-of-month."""
    last = month_end(at)
    if item.startswith("LW"):
        return at.day == max(near(last).day - int(item[3:] or 0), 1)
    if item.startswith("L"):
        back = int(item[2:].removesuffix("W") or 0)
        if back >= last.day:
            return False
        there = last - timedelta(back)
        return at == (near(there) if item.endswith("W") else there)
    if item.endswith("W"):
        return at == near(at.replace(day=min(int(item[:-1]), last.day)))
    return in_item(item, at.day, 1, 31, [])


def in_week(text: str, at: date) -> bool:
    """Quartz's day-of-week."""
    if text == "L":
        return at.isoweekday() == 6
    if text.endswith("L"):
        return in_week(text[:-1], at) and (at + timedelta(7)).month != at.month
    if "#" in text:
        weekday, count = text.split("#")
        return in_week(weekday, at) and 7 * int(count) - 6 <= at.day <= 7 * int(count)
    return inside(text, at.isoweekday() % 7 + 1, 1, 7, DAYS)


def month_end(at: date) -> date:
    while (at + timedelta(1)).month == at.month:
        at += timedelta(1)
    return at


def near(at: date) -> date:
    """The weekday of the same month that is nearest, looked for on both sides."""
    around = (at + timedelta(n) for n in (0, -1, 1, -2, 2))
    return next(day for day in around if day.isoweekday() < 6 and day.month == at.month)


# ---- the walk -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Window:
    """What the clock of a zone shows in each minute from `start` on and before `end` (seconds since 1970)."""

    zone: str
    start: int
    end: int
    shown: dict[date, list[tuple[int, int, bool]]] = field(repr=False)  # second, minute of the day, again?
    gaps: list[tuple[int, list[datetime]]] = field(repr=False)  # when the clock jumps, and what it leaves out

    @property
    def after(self) -> datetime:
        """The span of the window, as schedules are asked for one."""
        return datetime.fromtimestamp(self.start - 1, UTC)

    @property
    def until(self) -> datetime:
        """The end of the last minute."""
        return datetime.fromtimestamp(self.end - 1, UTC)


def walk(zone: str, start: int, end: int) -> Window:
    """Look at the clock each minute; what is shown a second time, and what is left out, shows by itself."""
    clock = clock_of(zone)
    walls = [
        (at, datetime.fromtimestamp(at, clock).replace(tzinfo=None, fold=0))
        for at in range(start - 30 * HOUR, end, MINUTE)
    ]
    shown: dict[date, list[tuple[int, int, bool]]] = {}
    seen: set[datetime] = set()
    for at, wall in walls:
        if at >= start:
            shown.setdefault(wall.date(), []).append((at, wall.hour * 60 + wall.minute, wall in seen))
        seen.add(wall)
    gaps = [(at, list(between(old, new))) for (_, old), (at, new) in pairwise(walls) if at >= start]
    return Window(zone, start, end, shown, [(at, missing) for at, missing in gaps if missing])


def between(old: datetime, new: datetime) -> Iterator[datetime]:
    wall = old + timedelta(minutes=1)
    while wall < new:
        yield wall
        wall += timedelta(minutes=1)


@dataclass(frozen=True)
class Slots:
    """The answer of the walk: the minutes that fire, the seconds in each, and lone instants after gaps."""

    minutes: list[int]
    seconds: tuple[int, ...]
    lone: list[int]
    skipped: list[datetime]

    def __len__(self) -> int:
        return len(self.minutes) * len(self.seconds) + len(self.lone)

    def first(self, count: int) -> list[int]:
        return self._few(self.minutes[:count], self.lone)[:count]

    def last(self, count: int) -> list[int]:
        return self._few(self.minutes[-count:], self.lone)[-count:]

    def next_after(self, instant: int) -> int | None:
        index = max(bisect_right(self.minutes, instant) - 1, 0)
        later = self._few(self.minutes[index : index + 2], self.lone)
        return next((at for at in later if at > instant), None)

    def upto(self, instant: int) -> tuple[int, int | None]:
        """How many there are up to and with an instant, and the last of them."""
        index = bisect_right(self.minutes, instant)
        lone = [at for at in self.lone if at <= instant]
        near = [at for at in self._few(self.minutes[max(index - 2, 0) : index], lone) if at <= instant]
        whole = max(index - 2, 0) * len(self.seconds) + len([at for at in lone if at not in near])
        return whole + len(near), max(near, default=None)

    def _few(self, minutes: list[int], lone: list[int]) -> list[int]:
        return sorted({at + second for at in minutes for second in self.seconds} | {*lone})


def slots(meaning: Meaning, window: Window, *, shift: bool = False, both: bool = False) -> Slots:
    """What fires in a window under the policies of a trigger."""
    minutes = [
        at
        for day, clock in window.shown.items()
        if meaning.day(day)
        for at, minute, again in clock
        if minute in meaning.times and (both or not again)
    ]
    lone, skipped = [], []
    for jump, missing in window.gaps:
        lost = [
            wall
            for wall in missing
            if meaning.day(wall.date()) and wall.hour * 60 + wall.minute in meaning.times
        ]
        is_covered = jump in minutes and meaning.seconds[0] == 0
        if shift and lost and not is_covered:
            lone.append(jump)
        if not shift:
            skipped += [wall + timedelta(seconds=second) for wall in lost for second in meaning.seconds]
    return Slots(sorted(minutes), meaning.seconds, lone, skipped)


# ---- the transitions ------------------------------------------------------------------------------


def transitions(zone: str, since: datetime, until: datetime) -> list[int]:
    """The minutes in which the offset of a zone is another than in the minute before, by halving days."""
    clock, found = clock_of(zone), []
    at, end = int(since.timestamp()), int(until.timestamp())
    while at < end:
        if offset(clock, at) != offset(clock, at + 24 * HOUR):
            found.append(jump_in(clock, at, at + 24 * HOUR))
        at += 24 * HOUR
    return found


def jump_in(clock: ZoneInfo, low: int, high: int) -> int:
    before = offset(clock, low)
    while high - low > MINUTE:
        middle = (low + high) // 2 // MINUTE * MINUTE
        low, high = (middle, high) if offset(clock, middle) == before else (low, middle)
    return high


def offset(clock: ZoneInfo, at: int) -> timedelta | None:
    return datetime.fromtimestamp(at, clock).utcoffset()


def instants(seconds: list[int]) -> list[datetime]:
    """As the product gives them."""
    return [datetime.fromtimestamp(second, UTC) for second in seconds]
