"""Quartz: expressions of six or seven fields, seconds first, read strictly and answered in one time zone.

Quartz itself takes many texts without a word and reads them otherwise than they look: it drops the step after
a name (`JAN/2`), counts the weeks of `FRI/2` from whenever it is asked, and takes empty items. They are
refused here. Weekdays count from 1, which is Sunday; ranges wrap around (`22-2`, `FRI-MON`), except of years.
"""

from __future__ import annotations

import re
from functools import lru_cache

from kandev_sched.domain.errors import Invalid
from kandev_sched.domain.schedules import OnGap, OnRepeat
from kandev_sched.policy import zones
from kandev_sched.policy.fields import (
    MONTH_NAMES,
    WEEKDAY_NAMES,
    Field,
    in_field,
    no_step,
    number,
    plain,
    unreadable,
)
from kandev_sched.policy.quartz_days import LAST_WEEK, Dates, Weekdays
from kandev_sched.policy.tzfile import NEARBY
from kandev_sched.policy.wallclock import WallClock
from kandev_sched.policy.walls import FIRST_YEAR, Clock, Walls, bits
from kandev_sched.policy.words import listed, months_said, sentence, times_said

_SECOND = Field(name="second", low=0, high=59)
_MINUTE = Field(name="minute", low=0, high=59)
_HOUR = Field(name="hour", low=0, high=23)
_DATE = Field(name="day-of-month", low=1, high=31)
_MONTH = Field(name="month", low=1, high=12, names=MONTH_NAMES)
_WEEKDAY = Field(name="day-of-week", low=1, high=7, names=WEEKDAY_NAMES)
_YEAR = Field(name="year", low=FIRST_YEAR, high=2199)
_FROM_LAST = Field(name="day-of-month", low=0, high=30)  # the n of L-n

_ITEM = re.compile(r"(?:\*?|([0-9]+)(?:-([0-9]+))?|([A-Z]+)(?:-([A-Z]+))?)(?:/([0-9]+))?")
_SPECIAL_DATE = re.compile(r"L(?:-([0-9]+))?(W?)|LW-([0-9]+)|([0-9]+)W")
_SPECIAL_WEEKDAY = re.compile(r"([0-9]+|[A-Z]{3})(?:(L)|#([0-9]+))|L")

_SIX = "write six fields: second minute hour day-of-month month day-of-week, such as '0 0 9 ? * MON-FRI'"


class Quartz(WallClock):
    """A parsed expression that fires some day, though perhaps not after today. Made by `parse`."""

    def explain(self) -> str:
        """The schedule as an English sentence."""
        days, only = self.walls.days, months_said(self.walls.months)
        assert isinstance(days, Dates | Weekdays)
        if self.walls.years is not None:
            only.append(listed([year + FIRST_YEAR for year in bits(self.walls.years)], str))
        return sentence(times_said(self.walls.clock), days.said(), only, self.zone) + self._policies_said()


def parse(
    text: object, zone: str, *, on_gap: OnGap = OnGap.SKIP, on_repeat: OnRepeat = OnRepeat.FIRST
) -> Quartz:
    """Read an expression; every refusal is an `Invalid` that names what is wrong and what would be right."""
    if not isinstance(text, str):
        raise Invalid(f"a quartz expression is text, not {text!r:.60}", hint=_SIX)
    return _parse(text, zone, on_gap, on_repeat)


@lru_cache(maxsize=1024)
def _parse(text: str, zone: str, on_gap: OnGap, on_repeat: OnRepeat) -> Quartz:
    text = plain(text, language="quartz")
    seconds, minutes, hours, dates, months, weekdays, *years = _parts(text)
    clock = Clock(hours=_mask(_HOUR, hours), minutes=_mask(_MINUTE, minutes), seconds=_mask(_SECOND, seconds))
    walls = Walls(
        clock=clock,
        days=_days(text, dates, weekdays),
        months=_mask(_MONTH, months),
        years=None if years in ([], ["*"]) else _mask(_YEAR, *years),
    )
    quartz = Quartz(text=text, zone=zones.zone(zone).key, walls=walls, on_gap=on_gap, on_repeat=on_repeat)
    _refuse_never(quartz)
    return quartz


def _refuse_never(quartz: Quartz) -> None:
    first = quartz.walls.first(zones.second_of(zones.FIRST))
    if first is None:
        hint = "no date has that day, month and year"
    elif quartz.next_after(zones.at_second(first - NEARBY)) is None:
        hint = f"the clock of {quartz.zone} skips that time"
    else:
        return
    raise Invalid(f"quartz expression {quartz.text!r:.60} never fires", hint=hint)


def _parts(text: str) -> list[str]:
    """The six or seven fields."""
    parts = text.split()
    if text.startswith("@") or len(parts) == 5:
        what = f"{text!r:.60} is cron, not quartz"
        raise Invalid(what, hint=f"use --cron, or {_SIX.removeprefix('write ')}")
    if len(parts) not in (6, 7):
        count = {0: "no fields", 1: "one field"}.get(len(parts), f"{len(parts)} fields")
        raise Invalid(f"quartz expression {text!r:.60} has {count}, not six or seven", hint=_SIX)
    return parts


def _days(text: str, dates: str, weekdays: str) -> Dates | Weekdays:
    """The rule of the one day field that is not `?`."""
    if (dates == "?") != (weekdays == "?"):
        return _weekdays(weekdays) if dates == "?" else _dates(dates)
    if dates == "?":
        raise Invalid(f"both day fields of {text!r:.60} are ?", hint="write * in one of them for every day")
    if "*" in (dates, weekdays):
        hint = f"write ? for the {'day-of-month' if weekdays != '*' else 'day-of-week'} instead of *"
        raise Invalid(f"neither day field of {text!r:.60} is ?", hint=hint)
    hint = "use two triggers, each with ? in one of the day fields; quartz cannot say both"
    raise Invalid(f"{text!r:.60} restricts both the day-of-month and the day-of-week", hint=hint)


def _dates(text: str) -> Dates:
    masks = {"dates": 0, "from_last": 0, "nearest": 0, "nearest_from_last": 0, "from_last_weekday": 0}
    for item in text.split(","):
        kind, values = _date(item)
        masks[kind] |= sum(1 << value for value in {*values})
    return Dates(**masks)


def _date(item: str) -> tuple[str, list[int]]:
    """Which mask of `Dates` an item adds to, and what."""
    match = _SPECIAL_DATE.fullmatch(item.upper())
    if match is None:
        return "dates", _values(_DATE, item)
    from_last, is_nearest, from_last_weekday, nearest = match.groups()
    if nearest is not None:
        return "nearest", [number(_DATE, nearest)]
    if from_last_weekday is not None:
        return "from_last_weekday", [number(_FROM_LAST, from_last_weekday)]
    return "nearest_from_last" if is_nearest else "from_last", [number(_FROM_LAST, from_last or "0")]


def _weekdays(text: str) -> Weekdays:
    items = text.split(",")
    special = [item for item in items if _SPECIAL_WEEKDAY.fullmatch(item.upper())]
    if special and len(items) > 1:
        hint = "L and # take no list; use a trigger for each"
        raise in_field(_WEEKDAY, special[0], "must stand alone", hint)
    return _special_weekday(text) if special else Weekdays(weekdays=_mask(_WEEKDAY, text))


def _special_weekday(text: str) -> Weekdays:
    """`L` is Saturday, `6L` the last Friday of the month, `6#3` its third."""
    match = _SPECIAL_WEEKDAY.fullmatch(text.upper())
    assert match
    day, is_last, week = match.groups()
    if day is None:
        return Weekdays(weekdays=1 << 6)
    weekdays = 1 << number(_WEEKDAY, day) - 1
    if is_last:
        return Weekdays(weekdays=weekdays, week=LAST_WEEK)
    if not 1 <= int(week) <= 5:
        raise in_field(_WEEKDAY, text, "names no week of a month", "write #1 to #5, or L for the last")
    return Weekdays(weekdays=weekdays, week=int(week))


def _mask(field: Field, text: str) -> int:
    """Bit 0 is the field's lowest value."""
    return sum(
        1 << value
        for value in {value - field.low for item in text.split(",") for value in _values(field, item)}
    )


def _values(field: Field, item: str) -> list[int]:
    """The values of one item: `*`, N, N-M or names, with or without a step after numbers."""
    match = _ITEM.fullmatch(item.upper())
    if match is None or not item:
        raise _refused(field, item)
    start, end, name, end_name, step = match.groups()
    if step is not None:
        _check_step(field, item, step, (name, end_name))
    first, last = start or name, end or end_name
    low = field.low if first is None else number(field, first)
    high = number(field, last) if last else field.high if step or first is None else low
    return _run(field, item, low, high, int(step or 1))


def _run(field: Field, item: str, low: int, high: int, step: int) -> list[int]:
    """From low to high, over the field's end if they stand the other way round."""
    width = field.high - field.low + 1
    if high < low:
        if field is _YEAR:
            raise in_field(
                field, item, "is a range that runs backwards", "years come in order, such as 2027-2030"
            )
        high += width
    return [field.low + (value - field.low) % width for value in range(low, high + 1, step)]


def _check_step(field: Field, item: str, step: str, names: tuple[str | None, str | None]) -> None:
    if not int(step):
        raise no_step(field, item)
    if int(step) > field.high:
        raise in_field(field, item, "has a step beyond the field", f"its steps are 1 to {field.high}")
    if names[0] is not None:
        numbers = "-".join(str(number(field, name)) for name in names if name)
        weeks = "; for every second week use --every P14D" * (field is _WEEKDAY)
        why = "has a step after a name, which quartz drops or counts in weeks"
        raise in_field(field, item, why, f"write numbers: {numbers}/{step}{weeks}")


def _refused(field: Field, item: str) -> Invalid:
    if "?" in item:
        hint = "? stands alone, in the day-of-month or the day-of-week field"
        return in_field(field, item, "cannot be read", hint)
    special = {_DATE.name: ", L, L-3, LW and 15W", _WEEKDAY.name: ", 6L and 6#3"}.get(field.name, "")
    hint = f"it takes *, numbers {field.low} to {field.high}, ranges 1-5, lists 1,3,5, steps */2{special}"
    return unreadable(field, item, hint)
