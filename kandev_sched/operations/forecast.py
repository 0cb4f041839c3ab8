"""What a schedule will do: its next fires, and what a repeated hour does to it. Shown when it is made."""

from __future__ import annotations

from datetime import timedelta

from kandev_sched.domain.record import Record
from kandev_sched.domain.schedules import OnRepeat
from kandev_sched.policy import cron, zones
from kandev_sched.policy.interval import Interval
from kandev_sched.policy.once import Once
from kandev_sched.policy.timing import Timing, instant, millis, timing_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime

    from kandev_sched.domain.schedules import Trigger
    from kandev_sched.policy.schedule import Schedule

_A_YEAR = timedelta(days=366)
_A_SECOND = timedelta(seconds=1)


class Forecast(Record):
    """A schedule in words; `next_at` are instants (ms), `note` warns of what may surprise."""

    expression: str
    zone: str
    sentence: str
    next_at: tuple[int, ...]
    note: str | None


def forecast(expression: str, zone: str, *, now: int, limit: int) -> Forecast:
    """What a cron expression will do from now on. Raises Invalid when it is none."""
    return _of_timing(Timing(schedule=cron.parse(expression, zone)), now=now, limit=limit)


def forecast_of(trigger: Trigger, *, now: int, limit: int) -> Forecast:
    """What a trigger will do from now on, its bounds and its spread included."""
    found = _of_timing(timing_of(trigger), now=now, limit=limit)
    return found.replace(note=None) if trigger.on_repeat is OnRepeat.BOTH else found


def _of_timing(timing: Timing, *, now: int, limit: int) -> Forecast:
    schedule = timing.schedule
    slots = timing.slots(now, millis(zones.LAST), limit)
    delay = f", {timing.offset_ms // 1000} s later (spread)" if timing.offset_ms else ""
    return Forecast(
        expression=schedule.text,
        zone=schedule.zone,
        sentence=schedule.explain().removesuffix(".") + delay,
        next_at=tuple(slot + timing.offset_ms for slot in slots),
        note=repeated_hour(schedule, after=instant(now)),
    )


def repeated_hour(schedule: Schedule, *, after: datetime) -> str | None:
    """A sentence for a schedule that falls silent while its zone's clock repeats an hour (§3 DST)."""
    if isinstance(schedule, Interval | Once):
        return None  # they count elapsed time, or name one instant
    zone = zones.zone(schedule.zone)
    changes = zones.changes_between(after, after + _A_YEAR, zone)
    repeat = next((change for change in changes if not change.is_gap), None)
    if repeat is None:
        return None
    span, before = repeat.old_wall - repeat.new_wall, repeat.at - _A_SECOND
    # One slot a day in that hour is no surprise: it fires once. A finer schedule falls silent.
    fires_in_it = schedule.slots_between(before - span, before, 1)
    is_finer = len(schedule.slots_between(before - 2 * span, before, 2)) == 2
    if not (fires_in_it and is_finer):
        return None
    return (
        f"on {repeat.new_wall:%Y-%m-%d} the clock of {schedule.zone} repeats {repeat.new_wall:%H:%M} to"
        f" {repeat.old_wall:%H:%M}, and nothing fires in the repeated time (choose UTC if it must)"
    )
