"""Intervals: an ISO-8601 duration, counted from an anchor.

Slot k is anchor + k times the duration, never one duration after slot k - 1: 31 January plus a month is
28 February, and plus two months is 31 March again. Years and months are added first, to the last day of a
month that is too short, then weeks and days; both on the wall clock of the zone, or of the anchor's own
offset when no zone is given. Hours, minutes and seconds are time that passes. A wall time that the clock
skips moves forward by what is skipped; one that comes twice is taken the first time. Slots that coincide are
one.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from calendar import monthrange
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache

from kandev_sched.domain.errors import Invalid
from kandev_sched.domain.record import Record
from kandev_sched.policy import zones
from kandev_sched.policy.fields import MAX_LENGTH
from kandev_sched.policy.once import moment_of, moment_said, moment_text, offset_of
from kandev_sched.policy.tzfile import DAY, NEARBY
from kandev_sched.policy.words import joined

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

_DAY = timedelta(days=1)
_NEARBY = timedelta(seconds=NEARBY)
_NEVER = datetime.max.replace(tzinfo=UTC)
_AVERAGE_MONTH_S = 2_629_746  # 400 years are 4800 months and 146097 days
# No slot is further than this from where it would be if all months and days were of average length.
_SLACK_S = 8 * DAY

_WEEKS = re.compile(r"P([0-9]+)W")
_DURATION = re.compile(
    r"P(?=[0-9T])(?:([0-9]+)Y)?(?:([0-9]+)M)?(?:([0-9]+)D)?"
    r"(?:T(?=[0-9])(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+)S)?)?"
)
_HINT = "write an ISO-8601 duration in whole numbers, such as PT15M, P1D, P2W or P1M"
_UNITS = ("year", "month", "day", "hour", "minute", "second")


class Interval(Record):
    """A duration and its anchor, which is slot 0. Satisfies `policy.schedule.Schedule`. Made by `parse`."""

    text: str
    zone: str  # an IANA name, or the anchor's offset such as +02:00
    start_at: datetime  # on the clock of the zone
    months: int
    days: int
    seconds: int

    def next_after(self, instant: datetime) -> datetime | None:
        """The first slot after the instant, in UTC; None at the end of the calendar."""
        slot = self._slot(self._count(instant))
        return slot if slot <= zones.LAST else None

    def slots_between(self, after: datetime, until: datetime, limit: int) -> list[datetime]:
        """The oldest `limit` slots with after < slot <= until, oldest first."""
        return self._distinct(range(self._count(after), self._count(until)), limit)

    def latest_slots(self, after: datetime, until: datetime, limit: int) -> list[datetime]:
        """The newest `limit` slots with after < slot <= until, oldest first; the span costs nothing."""
        numbers = range(self._count(after), self._count(until))
        return self._distinct(numbers[::-1], limit)[::-1]

    def count_between(self, after: datetime, until: datetime) -> int:
        """Exactly how many slots there are with after < slot <= until, without visiting them."""
        low, high = self._count(after), self._count(until)
        if low >= high:
            return 0
        return high - low - sum(low < number < high for number in self._doubles(after, until))

    def skipped_between(self, after: datetime, until: datetime, limit: int) -> list[datetime]:  # noqa: ARG002
        """Nothing: what falls into a gap moves forward."""
        return []

    def explain(self) -> str:
        """The schedule as an English sentence."""
        clock = "" if isinstance(self._tz, timezone) else f", {self.zone} time"
        return f"Every {_duration_said(self)} from {moment_said(self.start_at)}{clock}."

    @property
    def _tz(self) -> tzinfo:
        assert self.start_at.tzinfo
        return self.start_at.tzinfo

    def _slot(self, number: int) -> datetime:
        """Slot k, in UTC; beyond the calendar the end of time."""
        try:
            wall = self._wall(number) if number and (self.months or self.days) else self.start_at
            return wall.astimezone(UTC) + timedelta(seconds=number * self.seconds)
        except (OverflowError, ValueError):
            return _NEVER

    def _wall(self, number: int) -> datetime:
        """The anchor's wall time, months and days later, as its first occurrence."""
        year, month = divmod(self.start_at.year * 12 + self.start_at.month - 1 + number * self.months, 12)
        day = min(self.start_at.day, monthrange(year, month + 1)[1])
        # Adding days to a datetime with a zone moves its wall clock, whatever lies between.
        return self.start_at.replace(year=year, month=month + 1, day=day, fold=0) + timedelta(
            number * self.days
        )

    def _count(self, instant: datetime) -> int:
        """How many slots there are up to and with the instant; so also the number of the next one."""
        instant = zones.clamped(instant)
        elapsed = (instant - self.start_at.astimezone(UTC)) // timedelta(seconds=1)
        average = self.months * _AVERAGE_MONTH_S + self.days * DAY + self.seconds
        slack = _SLACK_S if self.months or self.days else 0
        low, high = (max((elapsed + near) // average + more, 0) for near, more in ((-slack, 0), (slack, 2)))
        return low + bisect_right(range(low, high), instant, key=self._slot)

    def _distinct(self, numbers: range, limit: int) -> list[datetime]:
        slots: list[datetime] = []
        for number in numbers:
            if len(slots) >= limit:
                break
            slot = self._slot(number)
            if slots[-1:] != [slot]:
                slots.append(slot)
        return slots

    def _doubles(self, after: datetime, until: datetime) -> Iterator[int]:
        """The numbers of slots that are the same instant as the one before: those of a skipped day."""
        if self.months or self.seconds or isinstance(self._tz, timezone):
            return
        for change in zones.changes_between(after, until, zones.zone(self.zone)):
            if change.new_wall - change.old_wall >= self.days * _DAY:
                first, last = self._count(change.at - _NEARBY), self._count(change.at + _NEARBY)
                yield from (n for n in range(first + 1, last) if self._slot(n) == self._slot(n - 1))


def parse(every: object, start_at: object, zone: str | None) -> Interval:
    """Read a duration and its anchor; every refusal is an `Invalid` that says what would be right.

    Without a zone the anchor must have an offset; with one, an anchor without offset is on the zone's clock.
    """
    if not isinstance(every, str):
        raise Invalid(f"an interval is text, not {every!r:.60}", hint=_HINT)
    return _parse(every, moment_text(start_at, what="the start"), zone)


@lru_cache(maxsize=1024)
def _parse(every: str, start: str, zone: str | None) -> Interval:
    months, days, seconds = _duration(every)
    start_at = _anchor(start, zone)
    interval = Interval(
        text=every,
        zone=offset_of(start_at) if zone is None else zones.zone(zone).key,
        start_at=start_at,
        months=months,
        days=days,
        seconds=seconds,
    )
    if interval._slot(1) > zones.LAST:
        raise Invalid(f"interval {every!r:.60} is too long", hint="a second slot must come before year 9999")
    return interval


def _duration(text: str) -> tuple[int, int, int]:
    """Months, days and seconds."""
    if len(text) > MAX_LENGTH:
        raise Invalid(f"the interval has {len(text)} characters, {MAX_LENGTH} are allowed", hint=_HINT)
    if weeks := _WEEKS.fullmatch(text):
        parts = (0, 7 * int(weeks[1]), 0)
    elif match := _DURATION.fullmatch(text):
        years, months, days, hours, minutes, seconds = (int(count or 0) for count in match.groups())
        parts = (12 * years + months, days, 3_600 * hours + 60 * minutes + seconds)
    else:
        raise Invalid(f"interval {text!r:.60} cannot be read", hint=_HINT)
    if not any(parts):
        raise Invalid(f"interval {text!r:.60} is zero", hint="it must take some time, at least PT1S")
    return parts


def _anchor(text: str, zone: str | None) -> datetime:
    """The start, on the clock that the days are counted on."""
    moment = moment_of(text, what="the start")
    if zone is None:
        if moment.tzinfo is None:
            hint = "give a zone, or add the offset as in 2027-01-31T09:00:00+01:00"
            raise Invalid(f"the start {text!r:.60} has neither offset nor zone", hint=hint)
        return moment
    clock = zones.zone(zone)
    if moment.tzinfo is not None:
        return moment.astimezone(clock)
    first, second = (moment.replace(tzinfo=clock, fold=fold) for fold in (0, 1))
    if first.utcoffset() != second.utcoffset():
        exists = zones.instant_of(moment, clock) is not None
        raise _unclear(text, "comes twice" if exists else "does not exist", first, second)
    return first


def _unclear(text: str, comes: str, first: datetime, second: datetime) -> Invalid:
    """The refusal of a wall time that comes never or twice: an offset tells which instant is meant."""
    hint = f"add an offset: {first.isoformat()} or {second.isoformat()}"
    return Invalid(f"the start {text!r:.60} {comes} in {first.tzinfo}", hint=hint)


def _duration_said(interval: Interval) -> str:
    """Such as: 2 weeks; day; 1 month and 12 hours."""
    days, seconds = interval.days, interval.seconds
    counts = [*divmod(interval.months, 12), days, seconds // 3_600, seconds // 60 % 60, seconds % 60]
    said = [(count, unit) for count, unit in zip(counts, _UNITS, strict=True) if count]
    if interval.text.endswith("W"):
        said = [(days // 7, "week")]
    if len(said) == 1 and said[0][0] == 1:
        return said[0][1]
    return joined([f"{count} {unit}{'s' * (count > 1)}" for count, unit in said])
