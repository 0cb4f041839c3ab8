"""Schedules in words: times of the day, lists of numbers, months."""

from __future__ import annotations

from itertools import groupby

from kandev_sched.policy.fields import MONTHS
from kandev_sched.policy.walls import bits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from kandev_sched.policy.walls import Clock

_FEW = 6  # so many times of the day are listed one by one
_ALL_HOURS = (1 << 24) - 1
_ALL_MINUTES = (1 << 60) - 1


def sentence(times: str, days: str, only: list[str], zone: str) -> str:
    """Such as: At 09:00 on Monday, in May only, Europe/Berlin time."""
    said = times if "every" in times and days == " every day" else times + days
    said += "".join(f", in {when} only" for when in only)
    return f"{said[0].upper()}{said[1:]}, {zone} time."


def times_said(clock: Clock) -> str:
    """Such as: at 09:00 and 17:00; every 5 minutes in hours 9 to 17."""
    if clock.total <= _FEW:
        return f"at {joined(_each_time(clock))}"
    if clock.seconds != 1:
        return _by_second(clock)
    step = _step(clock.minutes)
    if step and (step < 60 or clock.hours == _ALL_HOURS):
        said = {1: "every minute", 60: "every hour"}.get(step, f"every {step} minutes")
        return said if clock.hours == _ALL_HOURS else f"{said} in {counted('hour', clock.hours)}"
    return f"at {counted('minute', clock.minutes)} of {_hours_said(clock)}"


def _each_time(clock: Clock) -> list[str]:
    seconds = [f":{second:02}" if clock.seconds != 1 else "" for second in bits(clock.seconds)]
    minutes = [f":{minute:02}{second}" for minute in bits(clock.minutes) for second in seconds]
    return [f"{hour:02}{minute}" for hour in bits(clock.hours) for minute in minutes]


def _by_second(clock: Clock) -> str:
    step = _step(clock.seconds)
    said = {None: f"at {counted('second', clock.seconds)}", 1: "every second"}.get(
        step, f"every {step} seconds"
    )
    link = "in" if step else "of"
    if clock.minutes != _ALL_MINUTES:
        return f"{said} {link} {counted('minute', clock.minutes)} of {_hours_said(clock)}"
    said += "" if step else " of every minute"
    return said if clock.hours == _ALL_HOURS else f"{said} in {counted('hour', clock.hours)}"


def _hours_said(clock: Clock) -> str:
    return "every hour" if clock.hours == _ALL_HOURS else counted("hour", clock.hours)


def _step(mask: int) -> int | None:
    """n when every n-th minute of an hour is in the mask, 60 when only the first is."""
    step = 60 // mask.bit_count()
    return step if bits(mask) == list(range(0, 60, step)) else None


def months_said(months: int) -> list[str]:
    """The months, when they are not all (January is bit 0)."""
    return [listed(bits(months), MONTHS.__getitem__)] if months.bit_count() < 12 else []


def counted(noun: str, mask: int) -> str:
    """Such as: hours 9 to 17."""
    return f"{noun}{'s' * (mask.bit_count() > 1)} {listed(bits(mask), str)}"


def listed(numbers: list[int], name: Callable[[int], str]) -> str:
    """Such as: 1, 3 to 5 and 9."""
    texts: list[str] = []
    for _, pairs in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        run = [name(number) for _, number in pairs]
        texts += [f"{run[0]} to {run[-1]}"] if len(run) > 2 else run
    return joined(texts)


def joined(texts: list[str]) -> str:
    """Such as: a, b and c."""
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))
