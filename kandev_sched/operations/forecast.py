"""What a schedule will do: its next fires, and what a repeated hour does to it. Shown when it is made."""

from __future__ import annotations

from datetime import timedelta

from kandev_sched.domain.record import Record
from kandev_sched.policy import cron, zones
from kandev_sched.policy.timing import instant, millis

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime

    from kandev_sched.policy.cron import Cron

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
    """What an expression will do from now on. Raises Invalid when it is none."""
    schedule, after = cron.parse(expression, zone), instant(now)
    return Forecast(
        expression=schedule.text,
        zone=schedule.zone,
        sentence=schedule.explain(),
        next_at=tuple(millis(slot) for slot in schedule.slots_between(after, zones.LAST, limit)),
        note=repeated_hour(schedule, after=after),
    )


def repeated_hour(schedule: Cron, *, after: datetime) -> str | None:
    """A sentence for a schedule that falls silent while its zone's clock repeats an hour (§3 DST)."""
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
