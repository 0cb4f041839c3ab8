"""Timing: when one trigger fires: its schedule, its bounds, its fixed offset inside the spread.

A slot is named by its nominal instant, also when it fires later because of the spread: so an edit of the
spread can neither fire a slot twice nor lose one. Instants are milliseconds here; schedules speak datetimes.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta, timezone

from kandev_sched.domain.instant import SECOND_MS
from kandev_sched.domain.record import Record
from kandev_sched.domain.schedules import Syntax
from kandev_sched.policy import cron, interval, once, quartz, zones
from kandev_sched.policy.catchup import Due

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import tzinfo

    from kandev_sched.domain.schedules import Trigger
    from kandev_sched.policy.schedule import Schedule

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ONE_MS = timedelta(milliseconds=1)


def instant(at_ms: int) -> datetime:
    """Milliseconds as an aware datetime."""
    return EPOCH + timedelta(milliseconds=at_ms)


def millis(at: datetime) -> int:
    """An aware datetime as milliseconds."""
    return (at - EPOCH) // _ONE_MS


class Timing(Record):
    """`offset_ms` is added to each nominal slot; `not_before` and `not_after` bound the nominal slots."""

    schedule: Schedule
    offset_ms: int = 0
    not_before: int | None = None
    not_after: int | None = None

    def next_slot(self, after: int) -> int | None:
        """The first nominal slot that fires after an instant."""
        slot = self.schedule.next_after(instant(self._after(after)))
        if slot is None or (self.not_after is not None and millis(slot) > self.not_after):
            return None
        return millis(slot)

    def next_fire(self, after: int) -> int | None:
        """When that slot fires."""
        slot = self.next_slot(after)
        return None if slot is None else slot + self.offset_ms

    def slots(self, after: int, until: int, limit: int) -> list[int]:
        """The oldest nominal slots that fire after one instant and not after another."""
        found = self.schedule.slots_between(*self._span(after, until), limit)
        return [millis(slot) for slot in found]

    def due(self, after: int, until: int, wanted: int) -> Due | None:
        """The newest `wanted` slots of the span and the count of all; None when there are none."""
        span = self._span(after, until)
        newest = self.schedule.latest_slots(*span, wanted)
        if not newest:
            return None
        if len(newest) < wanted:
            return Due(newest=tuple(map(millis, newest)), count=len(newest), first_at=millis(newest[0]))
        first = self.schedule.next_after(span[0])
        assert first is not None
        count = self.schedule.count_between(*span)
        return Due(newest=tuple(map(millis, newest)), count=count, first_at=millis(first))

    def skipped(self, after: int, until: int, limit: int) -> list[datetime]:
        """The wall times of the span that the zone's clock skips."""
        return self.schedule.skipped_between(*self._span(after, until), limit)

    def _after(self, after: int) -> int:
        bound = after - self.offset_ms
        return bound if self.not_before is None else max(bound, self.not_before - 1)

    def _span(self, after: int, until: int) -> tuple[datetime, datetime]:
        last = until - self.offset_ms
        if self.not_after is not None:
            last = min(last, self.not_after)
        return instant(self._after(after)), instant(last)


def timing_of(trigger: Trigger) -> Timing:
    """The timing of a trigger. Raises Invalid for a row that was damaged by hand."""
    return Timing(
        schedule=schedule_of(trigger),
        offset_ms=spread_offset_ms(trigger.id, trigger.spread_s),
        not_before=trigger.start_at,
        not_after=trigger.end_at,
    )


def schedule_of(trigger: Trigger) -> Schedule:
    """The parsed schedule of a trigger."""
    match trigger.syntax:
        case Syntax.QUARTZ:
            return quartz.parse(
                trigger.expression, trigger.zone, on_gap=trigger.on_gap, on_repeat=trigger.on_repeat
            )
        case Syntax.INTERVAL:
            return _interval_of(trigger)
        case Syntax.ONCE:
            return once.parse(trigger.expression)
        case _:
            return cron.parse(
                trigger.expression, trigger.zone, on_gap=trigger.on_gap, on_repeat=trigger.on_repeat
            )


def _interval_of(trigger: Trigger) -> Schedule:
    """Without an IANA zone, days and months are those of the anchor's own offset."""
    zone = None if offset_of(trigger.zone) else trigger.zone
    return interval.parse(trigger.expression, anchor_of(trigger), zone)


def anchor_of(trigger: Trigger) -> datetime:
    """The instant from which an interval counts, on the clock on which it counts."""
    assert trigger.start_at is not None
    return instant(trigger.start_at).astimezone(offset_of(trigger.zone) or UTC)


def offset_of(zone: str) -> timezone | None:
    """`+02:00` as a time zone; None when it is a name."""
    if not zone or zone[0] not in "+-":
        return None
    parsed = datetime.strptime(zone, "%z").tzinfo
    assert isinstance(parsed, timezone)
    return parsed


def zone_of(zone: str) -> tzinfo:
    """A trigger's zone, to show times in it: an IANA name or an offset."""
    return offset_of(zone) or zones.zone(zone)


def spread_offset_ms(trigger_id: str, spread_s: int) -> int:
    """A fixed offset in [0, spread), from the trigger's id alone: neighbours do not start together."""
    if spread_s <= 1:
        return 0
    chance = int.from_bytes(hashlib.sha256(trigger_id.encode()).digest()[:8], "big")
    return chance % spread_s * SECOND_MS
