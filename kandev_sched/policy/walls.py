"""Which wall-clock times match: a set of seconds, as bit masks over the calendar.

A wall here is an int: the seconds from 1970 to what a clock on the wall shows, whatever its zone. All
questions are answered by arithmetic on masks; none visits the walls between its answer and its bounds.
"""

from __future__ import annotations

from datetime import date
from functools import lru_cache

from kandev_sched.domain.record import Record
from kandev_sched.policy.tzfile import DAY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Protocol

    class DayRule(Protocol):
        """Which days of a month match. Its hash is asked for often."""

        def __hash__(self) -> int: ...

        def mask(self, first: int, length: int) -> int:
            """Bit n is day n, of a month of that length whose first day is that weekday (Sunday is 0)."""


FIRST_YEAR = 1970  # bit 0 of a mask of years
_ORDINAL = date(1970, 1, 1).toordinal()
_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
# A rule for days that matches at all does so within 40 years: 29 February on a given weekday, over a century.
_PATIENCE_YEARS = 41
_LAST_YEAR = 9999


class Clock(Record):
    """The times of a day that match, as masks. They are second numbers from 0 up to 86399."""

    hours: int
    minutes: int
    seconds: int = 1

    @property
    def total(self) -> int:
        """How many there are."""
        return self.hours.bit_count() * self.minutes.bit_count() * self.seconds.bit_count()

    @property
    def opening(self) -> int:
        """The first of a day."""
        return lowest(self.hours) * 3_600 + lowest(self.minutes) * 60 + lowest(self.seconds)

    @property
    def closing(self) -> int:
        """The last of a day."""
        return highest(self.hours) * 3_600 + highest(self.minutes) * 60 + highest(self.seconds)

    def first(self, time: int) -> int | None:
        """The first at or after a time."""
        hour, minute, second = time // 3_600, time // 60 % 60, time % 60
        if self.hours >> hour & 1:
            if self.minutes >> minute & 1 and (seconds := self.seconds >> second):
                return time + lowest(seconds)
            if minutes := self.minutes >> minute + 1:
                return hour * 3_600 + (minute + 1 + lowest(minutes)) * 60 + lowest(self.seconds)
        if hours := self.hours >> hour + 1:
            return (hour + 1 + lowest(hours)) * 3_600 + lowest(self.minutes) * 60 + lowest(self.seconds)
        return None

    def last(self, time: int) -> int | None:
        """The last at or before a time."""
        hour, minute, second = time // 3_600, time // 60 % 60, time % 60
        if self.hours >> hour & 1:
            if self.minutes >> minute & 1 and (seconds := upto(self.seconds, second)):
                return time - second + highest(seconds)
            if minutes := upto(self.minutes, minute - 1):
                return hour * 3_600 + highest(minutes) * 60 + highest(self.seconds)
        if hours := upto(self.hours, hour - 1):
            return highest(hours) * 3_600 + highest(self.minutes) * 60 + highest(self.seconds)
        return None

    def count(self, time: int) -> int:
        """How many there are up to and with a time."""
        hour, minute, second = time // 3_600, time // 60 % 60, time % 60
        hours = upto(self.hours, hour - 1).bit_count()
        minutes = hours * self.minutes.bit_count()
        if not self.hours >> hour & 1:
            return minutes * self.seconds.bit_count()
        minutes += upto(self.minutes, minute - 1).bit_count()
        seconds = minutes * self.seconds.bit_count()
        return seconds + upto(self.seconds, second).bit_count() * (self.minutes >> minute & 1)


class Walls(Record):
    """The times of the clock, on the days of the rule, in these months (January is bit 0) and years."""

    clock: Clock
    days: DayRule
    months: int
    years: int | None = None  # None: every year

    def first(self, wall: int) -> int | None:
        """The first matching wall at or after this one."""
        day, time = divmod(wall, DAY)
        if self._has_day(day) and (found := self.clock.first(time)) is not None:
            return day * DAY + found
        later = self._first_day(day + 1)
        return None if later is None else later * DAY + self.clock.opening

    def last(self, wall: int) -> int | None:
        """The last matching wall at or before this one."""
        day, time = divmod(wall, DAY)
        if self._has_day(day) and (found := self.clock.last(time)) is not None:
            return day * DAY + found
        earlier = self._last_day(day - 1)
        return None if earlier is None else earlier * DAY + self.clock.closing

    def count(self, low: int, high: int) -> int:
        """How many matching walls there are with low < wall <= high; negative when high < low."""
        (low_day, low_time), (high_day, high_time) = divmod(low, DAY), divmod(high, DAY)
        if low_day == high_day:
            times = _times_between(
                self.clock.hours, self.clock.minutes, self.clock.seconds, low_time, high_time
            )
            return times if times and self._has_day(low_day) else 0
        days = self._count_days(low_day, high_day) * self.clock.total
        return days + self._count_of_day(high_day, high_time) - self._count_of_day(low_day, low_time)

    def has(self, wall: int) -> bool:
        """Whether this wall matches."""
        return self.first(wall) == wall

    def _count_of_day(self, day: int, time: int) -> int:
        return self.clock.count(time) if self._has_day(day) else 0

    def _count_days(self, low: int, high: int) -> int:
        """How many matching days there are with low <= day < high; negative when high < low."""
        a, b = _date(low), _date(high)
        years = sum(self._days_before(year)[12] for year in range(a.year, b.year))
        years -= sum(self._days_before(year)[12] for year in range(b.year, a.year))
        return years + self._day_of_year(b) - self._day_of_year(a)

    def _day_of_year(self, day: date) -> int:
        """How many matching days the year has before this one."""
        before = self._days_before(day.year)[day.month - 1]
        return before + upto(self._days_of(day.year, day.month), day.day - 1).bit_count()

    def _days_before(self, year: int) -> tuple[int, ...]:
        """How many matching days the year has before each of its months; [12] is all."""
        if not self._has_year(year):
            return _NO_DAYS
        return _days_before(self.days, self.months, date(year, 1, 1).isoweekday() % 7, is_leap(year))

    def _has_year(self, year: int) -> bool:
        return self.years is None or (year >= FIRST_YEAR and bool(self.years >> year - FIRST_YEAR & 1))

    def _has_day(self, day: int) -> bool:
        at = _date(day)
        return bool(self._days_of(at.year, at.month) >> at.day & 1)

    def _days_of(self, year: int, month: int) -> int:
        """The mask of the matching days of a month."""
        if not (self.months >> month - 1 & 1 and self._has_year(year)):
            return 0
        return self.days.mask(date(year, month, 1).isoweekday() % 7, _length(month, is_leap(year)))

    def _first_day(self, day: int) -> int | None:
        at = _date(day)
        if days := self._days_of(at.year, at.month) >> at.day:
            return day + lowest(days)
        for year in self._years_from(at.year):
            for month in bits(self.months):
                if (year > at.year or month >= at.month) and (days := self._days_of(year, month + 1)):
                    return date(year, month + 1, lowest(days)).toordinal() - _ORDINAL
        return None

    def _last_day(self, day: int) -> int | None:
        at = _date(day)
        if days := upto(self._days_of(at.year, at.month), at.day):
            return day - at.day + highest(days)
        for year in self._years_down_from(at.year):
            for month in reversed(bits(self.months)):
                if (year < at.year or month + 1 < at.month) and (days := self._days_of(year, month + 1)):
                    return date(year, month + 1, highest(days)).toordinal() - _ORDINAL
        return None

    def _years_from(self, year: int) -> Iterator[int]:
        if self.years is None:
            yield from range(year, min(year + _PATIENCE_YEARS, _LAST_YEAR) + 1)
        else:
            yield from (n + FIRST_YEAR for n in bits(self.years) if n + FIRST_YEAR >= year)

    def _years_down_from(self, year: int) -> Iterator[int]:
        if self.years is None:
            yield from range(year, max(year - _PATIENCE_YEARS, 1) - 1, -1)
        else:
            yield from (n + FIRST_YEAR for n in reversed(bits(self.years)) if n + FIRST_YEAR <= year)


_NO_DAYS = (0,) * 13


@lru_cache(maxsize=4096)
def _days_before(days: DayRule, months: int, first: int, leap: bool) -> tuple[int, ...]:
    """For a year that begins on this weekday: the matching days before each month, and of all."""
    counts = [0]
    for month in range(12):
        length = _length(month + 1, leap)
        counts.append(counts[-1] + (days.mask(first, length).bit_count() if months >> month & 1 else 0))
        first = (first + length) % 7
    return tuple(counts)


@lru_cache(maxsize=1024)
def _times_between(hours: int, minutes: int, seconds: int, low: int, high: int) -> int:
    """How many times of a clock lie after one and up to another; gaps ask for the same ones each year."""
    clock = Clock(hours=hours, minutes=minutes, seconds=seconds)
    return clock.count(high) - clock.count(low)


def _length(month: int, leap: bool) -> int:
    return 29 if leap and month == 2 else _LENGTHS[month - 1]


def is_leap(year: int) -> bool:
    """Whether the year has a 29 February."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _date(day: int) -> date:
    return date.fromordinal(day + _ORDINAL)


def bits(mask: int) -> list[int]:
    """The numbers in a mask, rising."""
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def lowest(mask: int) -> int:
    """The first number in a mask that is not empty."""
    return (mask & -mask).bit_length() - 1


def highest(mask: int) -> int:
    """The last number in a mask that is not empty."""
    return mask.bit_length() - 1


def upto(mask: int, last: int) -> int:
    """The mask without the numbers beyond the last."""
    return mask & (2 << last) - 1 if last >= 0 else 0
