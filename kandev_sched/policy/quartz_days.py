"""The day fields of Quartz: dates from either end of a month, the weekday nearest to one, the n-th Friday."""

from __future__ import annotations

from kandev_sched.domain.record import Record
from kandev_sched.policy.fields import WEEKDAYS
from kandev_sched.policy.walls import bits
from kandev_sched.policy.words import counted, joined, listed

LAST_WEEK = 6
_ORDINALS = ("", "first", "second", "third", "fourth", "fifth", "last")
_SIX_WEEKS = sum(1 << 7 * week for week in range(6))
_ALL_DATES = (2 << 31) - 2
_SUNDAY, _SATURDAY = 0, 6


class Dates(Record):
    """The day-of-month field. Bit n of a mask is the n in its spelling."""

    dates: int = 0  # n
    from_last: int = 0  # L-n
    nearest: int = 0  # nW
    nearest_from_last: int = 0  # L-nW, and LW as L-0W
    from_last_weekday: int = 0  # LW-n

    def __hash__(self) -> int:
        return hash(
            (self.dates, self.from_last, self.nearest, self.nearest_from_last, self.from_last_weekday)
        )

    def mask(self, first: int, length: int) -> int:
        """Bit n is day n, of a month of that length whose first day is that weekday."""
        days = [length - n for n in bits(self.from_last)]
        days += [_nearest(min(n, length), first, length) for n in bits(self.nearest)]
        days += [_nearest(length - n, first, length) for n in bits(self.nearest_from_last) if n < length]
        days += [max(_nearest(length, first, length) - n, 1) for n in bits(self.from_last_weekday)]
        return (self.dates | sum(1 << day for day in {*days} if day > 0)) & (2 << length) - 2

    def said(self) -> str:
        """Such as: on day 15 and the last day of the month."""
        if self.dates == _ALL_DATES:
            return " every day"
        said = [counted("day", self.dates)] if self.dates else []
        said += [_before("the last day", n) for n in bits(self.from_last)]
        said += [f"the weekday nearest day {n}" for n in bits(self.nearest)]
        said += [_nearest_said(n) for n in bits(self.nearest_from_last)]
        said += [_before("the last weekday", n) for n in bits(self.from_last_weekday)]
        return f" on {joined(said)} of the month"


class Weekdays(Record):
    """The day-of-week field; Sunday is bit 0."""

    weekdays: int
    week: int = 0  # of the month: the first to fifth, or the last; 0 for each

    def __hash__(self) -> int:
        return hash((self.weekdays, self.week))

    def mask(self, first: int, length: int) -> int:
        """Bit n is day n, of a month of that length whose first day is that weekday."""
        days = self.weekdays * _SIX_WEEKS >> first << 1 & (2 << length) - 2
        if not self.week:
            return days
        low = length - 6 if self.week == LAST_WEEK else 7 * self.week - 6
        return days & 0b1111111 << low

    def said(self) -> str:
        """Such as: on Monday to Friday; on the third Friday of the month."""
        if self.weekdays.bit_count() == 7:
            return " every day"
        monday_first = [day for day in range(1, 8) if self.weekdays >> day % 7 & 1]
        days = listed(monday_first, lambda day: WEEKDAYS[day % 7])
        return f" on the {_ORDINALS[self.week]} {days} of the month" if self.week else f" on {days}"


def _nearest(day: int, first: int, length: int) -> int:
    """The day from Monday to Friday nearest to this one, in the same month."""
    weekday = (first + day - 1) % 7
    if weekday == _SATURDAY:
        return day - 1 if day > 1 else 3
    if weekday == _SUNDAY:
        return day + 1 if day < length else day - 2
    return day


def _before(end: str, n: int) -> str:
    return end if n == 0 else f"the day {n} day{'s' * (n > 1)} before {end}"


def _nearest_said(n: int) -> str:
    return "the last weekday" if n == 0 else f"the weekday nearest to {_before('the last day', n)}"
