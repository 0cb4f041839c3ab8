"""Words of the command line → values: command lines, choices, limits, instants."""

from __future__ import annotations

import shlex

from kandev_sched.domain.errors import Invalid
from kandev_sched.domain.instant import SECOND_MS
from kandev_sched.interfaces.times import seconds_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from enum import StrEnum
    from typing import TypeVar

    E = TypeVar("E", bound=StrEnum)

MAX_LIMIT = 100_000


def argv_of(text: str | None) -> tuple[str, ...] | None:
    """`--command 'claude -p'` as a command line. Raises Invalid for quotes that do not close."""
    if text is None:
        return None
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise Invalid(
            f"--command is {text!r:.60}: {str(error).lower()}", hint="quote it as in a shell"
        ) from None


def choice(kind: type[E], text: str | None, *, option: str, also: Mapping[str, E] | None = None) -> E | None:
    """One of the words of `kind`, or another spelling of one. Raises Invalid."""
    if text is None:
        return None
    if also and text in also:
        return also[text]
    if text not in frozenset(kind):
        raise Invalid(f"{option} is {text!r:.60}", hint=f"it must be one of {', '.join(kind)}")
    return kind(text)


def limit(value: int, *, option: str = "--limit") -> int:
    """How many, at least one. Raises Invalid."""
    if not 1 <= value <= MAX_LIMIT:
        raise Invalid(f"{option} is {value}", hint=f"it must be between 1 and {MAX_LIMIT}")
    return value


def since_of(text: str | None, *, now: int) -> int | None:
    """`--since 1h` as the instant an hour ago."""
    return None if text is None else now - seconds_of(text, option="--since") * SECOND_MS


def instant_of(text: str, *, option: str) -> int:
    """An instant with its offset. Raises Invalid."""
    from kandev_sched.policy import once
    from kandev_sched.policy.timing import millis

    moment = once.moment_of(once.moment_text(text, what=option), what=option)
    if moment.tzinfo is None:
        raise Invalid(f"{option} {text!r:.60} has no offset", hint="write it as 2027-01-31T09:00:00+01:00")
    return millis(moment)
