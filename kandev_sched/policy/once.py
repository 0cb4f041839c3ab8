"""Once: one instant, with its offset so that no zone's clock can make it another."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timezone
from functools import lru_cache

from kandev_sched.domain.errors import Invalid
from kandev_sched.domain.record import Record
from kandev_sched.policy import zones

_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?"
    r"(?:Z|[+-][0-9]{2}:[0-9]{2}(?::[0-9]{2})?)?"
)
_EXAMPLE = "write it as 2027-01-31T09:00:00+01:00, or with Z for UTC"


class Once(Record):
    """Satisfies `policy.schedule.Schedule`. Whether a past instant still fires is for catch-up to say."""

    text: str
    at: datetime

    @property
    def zone(self) -> str:
        """The offset, such as +02:00."""
        return offset_of(self.at)

    def next_after(self, instant: datetime) -> datetime | None:
        """The instant, in UTC, while it lies ahead."""
        return next(iter(self.slots_between(instant, zones.LAST, 1)), None)

    def slots_between(self, after: datetime, until: datetime, limit: int) -> list[datetime]:
        """The instant, if after < instant <= until."""
        is_inside = zones.clamped(after) < self.at <= zones.clamped(until)
        return [self.at.astimezone(UTC)] if is_inside and limit > 0 else []

    def latest_slots(self, after: datetime, until: datetime, limit: int) -> list[datetime]:
        """As `slots_between`: there is only one."""
        return self.slots_between(after, until, limit)

    def count_between(self, after: datetime, until: datetime) -> int:
        """One or none."""
        return len(self.slots_between(after, until, 1))

    def skipped_between(self, after: datetime, until: datetime, limit: int) -> list[datetime]:  # noqa: ARG002
        """Nothing: an instant with an offset always comes."""
        return []

    def explain(self) -> str:
        """The schedule as an English sentence."""
        return f"Once, on {moment_said(self.at)}."


def parse(at: object) -> Once:
    """Read an instant; every refusal is an `Invalid` that names what is wrong and what would be right."""
    return _parse(moment_text(at, what="the instant"))


@lru_cache(maxsize=1024)
def _parse(text: str) -> Once:
    moment = moment_of(text, what="the instant")
    if moment.tzinfo is None:
        raise Invalid(f"the instant {text!r:.60} has no offset", hint=_EXAMPLE)
    return Once(text=text, at=moment)


def moment_text(value: object, *, what: str) -> str:
    """The text of a moment, which a datetime has too. (Equal datetimes may differ in their offsets.)"""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str):
        return value.strip(" ")
    raise Invalid(f"{what} is a text or a datetime, not {value!r:.60}", hint=_EXAMPLE)


def moment_of(text: str, *, what: str) -> datetime:
    """A date with a time, with an offset or without; inside the calendar and not finer than a millisecond."""
    if not _MOMENT.fullmatch(text.upper()):
        raise Invalid(f"{what} {text!r:.60} cannot be read", hint=_EXAMPLE)
    try:
        moment = datetime.fromisoformat(text.upper())
    except ValueError as error:
        raise Invalid(f"{what} {text!r:.60} does not exist: {error}", hint=_EXAMPLE) from None
    if not zones.FIRST < (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) < zones.LAST:
        raise Invalid(f"{what} {text!r:.60} is outside the calendar", hint="years go from 2 to 9998")
    if moment.microsecond % 1_000:
        raise Invalid(f"{what} {text!r:.60} is too fine", hint="time is kept in milliseconds")
    return moment


def offset_of(moment: datetime) -> str:
    """The offset of an aware datetime: UTC, or such as +02:00."""
    offset = moment.utcoffset()
    assert offset is not None
    return str(timezone(offset)).removeprefix("UTC") or "UTC"


def moment_said(moment: datetime) -> str:
    """Such as: Sunday, 31 January 2027 at 09:00 (+01:00)."""
    clock = moment.strftime("%H:%M:%S").removesuffix(":00")
    return f"{moment:%A}, {moment.day} {moment:%B} {moment.year} at {clock} ({offset_of(moment)})"
