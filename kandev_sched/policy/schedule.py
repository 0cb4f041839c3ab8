"""Schedule: what every kind of schedule can be asked. Cron, Quartz, interval and once satisfy it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Protocol

    from kandev_sched.policy.cron import Cron
    from kandev_sched.policy.interval import Interval
    from kandev_sched.policy.once import Once
    from kandev_sched.policy.quartz import Quartz
else:
    Protocol = object  # importing typing is too dear for `sched fire`


class Schedule(Protocol):
    """A set of instants, the slots. An immutable value: no answer depends on a clock or on earlier questions.

    Instants are aware datetimes in any zone; answers are in UTC. A span has its end and not its start.
    Work is bounded by `limit`, whatever the span.
    """

    @property
    def text(self) -> str:
        """The expression, as it was typed without blanks around it."""

    @property
    def zone(self) -> str:
        """The IANA name of the zone, or an offset such as +02:00 for kinds that need no zone."""

    def next_after(self, instant: datetime) -> datetime | None:
        """The first slot after the instant; None when there are no more."""

    def slots_between(self, after: datetime, until: datetime, limit: int) -> list[datetime]:
        """The oldest `limit` slots with after < slot <= until, oldest first."""

    def latest_slots(self, after: datetime, until: datetime, limit: int) -> list[datetime]:
        """The newest `limit` slots with after < slot <= until, oldest first."""

    def count_between(self, after: datetime, until: datetime) -> int:
        """Exactly how many slots there are with after < slot <= until."""

    def skipped_between(self, after: datetime, until: datetime, limit: int) -> list[datetime]:
        """The oldest `limit` wall times, naive, that a gap with after < gap <= until keeps from firing."""

    def explain(self) -> str:
        """The schedule in English."""


if TYPE_CHECKING:
    KINDS: tuple[type[Schedule], ...] = (Cron, Quartz, Interval, Once)  # each is checked to satisfy it
