"""Schedules that follow a clock on the wall of a zone: which instants the matching walls are.

Between two changes of its offset a zone is a plain shift. So time is a row of stretches, each from one change
to the next. At the joint of two stretches walls are missing (a gap) or come again (a repeat), and only there
the policies speak: `on_gap` and `on_repeat`. All calculations are in whole seconds. The slots after an
instant depend on the instant alone, never on when one asks.
"""

from __future__ import annotations

from bisect import bisect_right
from datetime import datetime

from kandev_sched.domain.record import Record
from kandev_sched.domain.schedules import OnGap, OnRepeat
from kandev_sched.policy import zones

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from kandev_sched.policy.walls import Walls

_LAST = zones.second_of(zones.LAST)


class WallClock(Record):
    """What cron and Quartz share: matching walls in a zone. Satisfies `policy.schedule.Schedule`."""

    text: str
    zone: str
    walls: Walls
    on_gap: OnGap
    on_repeat: OnRepeat

    def next_after(self, instant: datetime) -> datetime | None:
        """The first slot after the instant, in UTC; None when there are no more."""
        slot = self._next(zones.second_of(instant))
        return None if slot is None else zones.at_second(slot)

    def slots_between(self, after: datetime, until: datetime, limit: int) -> list[datetime]:
        """The oldest `limit` slots with after < slot <= until, oldest first."""
        slots: list[datetime] = []
        slot, last = self._next(zones.second_of(after)), zones.second_of(until)
        while len(slots) < limit and slot is not None and slot <= last:
            slots.append(zones.at_second(slot))
            slot = self._next(slot)
        return slots

    def latest_slots(self, after: datetime, until: datetime, limit: int) -> list[datetime]:
        """The newest `limit` slots with after < slot <= until, oldest first; the span costs nothing."""
        slots: list[datetime] = []
        slot, first = self._latest(zones.second_of(until)), zones.second_of(after)
        while len(slots) < limit and slot is not None and slot > first:
            slots.append(zones.at_second(slot))
            slot = self._latest(slot - 1)
        return slots[::-1]

    def count_between(self, after: datetime, until: datetime) -> int:
        """Exactly how many slots there are with after < slot <= until, without visiting them."""
        low, high = zones.second_of(after), zones.second_of(until)
        if low >= high:
            return 0
        at, offset = zones.offsets(self.zone).through(high)
        first, last = bisect_right(at, low), bisect_right(at, high)
        count = self.walls.count(self._reached(low, first), self._reached(high, last))
        for n in range(first, last):
            if offset[n] < offset[n + 1]:
                count -= self._lost(at[n] + offset[n], at[n] + offset[n + 1])
            elif self.on_repeat is OnRepeat.BOTH:
                count += self.walls.count(at[n] + offset[n + 1] - 1, at[n] + offset[n] - 1)
        return count

    def skipped_between(self, after: datetime, until: datetime, limit: int) -> list[datetime]:
        """The oldest `limit` matching walls lost in a gap with after < gap <= until; naive."""
        walls: list[datetime] = []
        for old, new in self._gaps(after, until) if self.on_gap is OnGap.SKIP else ():
            wall = self.walls.first(old)
            while wall is not None and wall < new:
                if len(walls) >= limit:
                    return walls
                walls.append(zones.at_second(wall).replace(tzinfo=None))
                wall = self.walls.first(wall + 1)
        return walls

    def _first(self, wall: int) -> int | None:
        """The first matching wall at or after this one."""
        return self.walls.first(wall)

    def _next(self, after: int) -> int | None:
        """The first slot later than this second."""
        zone = zones.offsets(self.zone)
        n, wall = self._ahead(after)
        while wall is not None:
            at, offset = zone.through(min(wall, _LAST))
            if n == len(at) or wall < at[n] + offset[n]:
                slot = wall - offset[n]
                return slot if slot <= _LAST else None
            new = at[n] + offset[n + 1]
            if wall < new and self.on_gap is OnGap.SHIFT:
                return at[n]
            n, wall = n + 1, self._first(new) if wall < new else wall
        return None

    def _ahead(self, after: int) -> tuple[int, int | None]:
        """The stretch in which to go on after this second, and the next matching wall there or later."""
        at, offset = zones.offsets(self.zone).through(after)
        n = bisect_right(at, after)
        here = self._reached(after, n)
        wall = self._first(here + 1)
        if self.on_repeat is OnRepeat.BOTH and n < len(at):
            old, new = at[n] + offset[n], at[n] + offset[n + 1]
            if new <= here and (wall is None or wall >= old):
                return n + 1, self._first(new)  # what the clock has shown will be shown again
        return n, wall

    def _latest(self, until: int) -> int | None:
        """The last slot not later than this second."""
        at, offset = zones.offsets(self.zone).through(until)
        n, wall = self._behind(until)
        while wall is not None and n:
            old, new = at[n - 1] + offset[n - 1], at[n - 1] + offset[n]
            if wall >= (new if self.on_repeat is OnRepeat.BOTH else max(old, new)):
                break
            n -= 1
            if wall >= old and self.on_gap is OnGap.SHIFT:
                return at[n]
            wall = self.walls.last(old - 1) if wall >= old else wall
        return None if wall is None else wall - offset[n]

    def _behind(self, until: int) -> tuple[int, int | None]:
        """The stretch in which to look back from this second, and the last matching wall there or before."""
        at, offset = zones.offsets(self.zone).through(until)
        n = bisect_right(at, until)
        here = until + offset[n]
        wall = self.walls.last(here)
        if n and here < (old := at[n - 1] + offset[n - 1]):  # shown for the second time
            is_repeated = wall is not None and wall >= at[n - 1] + offset[n]
            if not (is_repeated and self.on_repeat is OnRepeat.BOTH):
                return n - 1, self.walls.last(old - 1)
        return n, wall

    def _reached(self, second: int, n: int) -> int:
        """The latest wall that has had its turn by this second of stretch n.

        Inside a repeat that fires once it is the repeat's end, not what the clock shows.
        """
        at, offset = zones.offsets(self.zone).through(second)
        wall = second + offset[n]
        return max(wall, at[n - 1] + offset[n - 1] - 1) if n and self.on_repeat is OnRepeat.FIRST else wall

    def _lost(self, old: int, new: int) -> int:
        """How many slots fewer than matching walls there are because the clock jumps from `old` to `new`."""
        lost = self.walls.count(old - 1, new - 1)
        is_shifted = lost and self.on_gap is OnGap.SHIFT and not self.walls.has(new)
        return lost - bool(is_shifted)

    def _gaps(self, after: datetime, until: datetime) -> Iterator[tuple[int, int]]:
        low, high = zones.second_of(after), zones.second_of(until)
        at, offset = zones.offsets(self.zone).through(high)
        for n in range(bisect_right(at, low), bisect_right(at, high)):
            old, new = at[n] + offset[n], at[n] + offset[n + 1]
            if old < new and self.walls.count(old - 1, new - 1):
                yield old, new

    def _policies_said(self) -> str:
        """What `explain` adds for policies that are not the default."""
        shifted = " A time that the clock skips fires as soon as the clock goes on."
        again = " A time that the clock repeats fires both times."
        return shifted * (self.on_gap is OnGap.SHIFT) + again * (self.on_repeat is OnRepeat.BOTH)
