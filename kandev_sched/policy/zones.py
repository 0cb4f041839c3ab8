"""Time zones: which names are allowed, and what a wall-clock time means in one.

The only source is the PyPI package `tzdata`, pinned with the program. `ZoneInfo(name)` would read the
machine's /usr/share/zoneinfo first, so two machines could disagree about the same trigger; it also takes
`localtime`, `right/UTC` (leap seconds) and abbreviations.

A wall time is a naive datetime. In each zone it happens once, never (a gap) or twice (a repeat), and
`changes_between` names those places. Schedules calculate with the same facts as plain seconds: `offsets`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from functools import cache
from io import BytesIO
from zoneinfo import ZoneInfo

from kandev_sched.domain.errors import Invalid
from kandev_sched.domain.record import Record
from kandev_sched.policy.tzfile import DAY, NEARBY, Offsets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

# The calendar ends here, a year short of what datetime can hold, so that no local time overflows.
FIRST = datetime(2, 1, 1, tzinfo=UTC)
LAST = datetime(9999, 1, 1, tzinfo=UTC)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# What people type instead of a place. Some of these are files in tzdata too, kept there for programs of the
# 1990s: their meaning moved with tzdata (EST is now Panama), and CST or IST never had only one.
_PLACES = {
    "ACST": ("Australia/Adelaide", "Australia/Darwin"),
    "AEDT": ("Australia/Sydney",),
    "AEST": ("Australia/Sydney", "Australia/Brisbane"),
    "AKST": ("America/Anchorage",),
    "AST": ("America/Halifax", "America/Puerto_Rico"),
    "AWST": ("Australia/Perth",),
    "BRT": ("America/Sao_Paulo",),
    "BST": ("Europe/London",),
    "CDT": ("America/Chicago",),
    "CEST": ("Europe/Berlin", "Europe/Paris"),
    "CET": ("Europe/Berlin", "Europe/Paris"),
    "CST": ("America/Chicago", "Asia/Shanghai"),
    "EDT": ("America/New_York",),
    "EEST": ("Europe/Athens", "Europe/Helsinki"),
    "EET": ("Europe/Athens", "Europe/Helsinki"),
    "EST": ("America/New_York", "America/Panama"),
    "HKT": ("Asia/Hong_Kong",),
    "HST": ("Pacific/Honolulu",),
    "IST": ("Asia/Kolkata", "Europe/Dublin", "Asia/Jerusalem"),
    "JST": ("Asia/Tokyo",),
    "KST": ("Asia/Seoul",),
    "MDT": ("America/Denver",),
    "MET": ("Europe/Berlin", "Europe/Paris"),
    "MSK": ("Europe/Moscow",),
    "MST": ("America/Denver", "America/Phoenix"),
    "NZDT": ("Pacific/Auckland",),
    "NZST": ("Pacific/Auckland",),
    "PDT": ("America/Los_Angeles",),
    "PST": ("America/Los_Angeles", "Asia/Manila"),
    "SGT": ("Asia/Singapore",),
    "WET": ("Europe/Lisbon",),
    "WEST": ("Europe/Lisbon",),
    "Z": ("UTC",),
}
# Not in the list under any spelling, and typed all the time.
_CITIES = {"beijing": "Asia/Shanghai", "china": "Asia/Shanghai", "india": "Asia/Kolkata"}
_POSIX = re.compile(r"([A-Z]{3})[0-9][A-Z]{3}")
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-]?)([0-9]{1,2})(?::?([0-9]{2}))?")
_PATH = re.compile(r"[./~\\].*|.*(?:\.\.|\\|//|/$).*", re.DOTALL)
_PLACE_HINT = "name a place of the IANA list, such as Asia/Shanghai, or UTC"


class Change(Record):
    """One change of a zone's offset: at `at` the wall clock jumps from `old_wall` to `new_wall`."""

    at: datetime
    old_wall: datetime
    new_wall: datetime

    @property
    def is_gap(self) -> bool:
        """Forward: the walls from old_wall up to new_wall never happen. Else those below old_wall repeat."""
        return self.new_wall > self.old_wall


def zone(name: str) -> ZoneInfo:
    """The zone of an IANA name; empty means UTC. Always the same object for the same name."""
    return _load(name or "UTC")


def names() -> frozenset[str]:
    """Every name that `zone` takes."""
    return frozenset(name for name in _listed() if _reason(name) is None)


def tzdata_version() -> str:
    """The IANA release in use, such as 2026f."""
    return str(_tzdata().IANA_VERSION)


def instant_of(wall: datetime, zone: ZoneInfo) -> datetime | None:
    """The first instant at which the zone's clocks show this naive wall time; None when they skip it."""
    instant = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    return instant if instant.astimezone(zone).replace(tzinfo=None, fold=0) == wall else None


def clamped(instant: datetime) -> datetime:
    """The instant in UTC, kept inside the calendar."""
    if instant.tzinfo is None:
        raise ValueError(f"{instant} is a wall time, not an instant")
    try:
        return min(max(instant.astimezone(UTC), FIRST), LAST)
    except OverflowError:
        return FIRST if instant.year == 1 else LAST


def second_of(instant: datetime) -> int:
    """The second that an instant lies in, counted from 1970; schedules calculate in these."""
    since = clamped(instant) - EPOCH
    return since.days * DAY + since.seconds


def at_second(second: int) -> datetime:
    """The instant at which a second begins, in UTC."""
    return EPOCH + timedelta(seconds=second)


def changes_between(after: datetime, until: datetime, zone: ZoneInfo) -> Iterator[Change]:
    """The zone's changes with after < at <= until, oldest first."""
    low, high = second_of(after), second_of(until)
    at, offset = offsets(zone.key).through(high)
    for n in range(bisect_right(at, low), bisect_right(at, high)):
        instant, walls = at_second(at[n]), at_second(at[n]).replace(tzinfo=None)
        yield Change(
            at=instant,
            old_wall=walls + timedelta(seconds=offset[n]),
            new_wall=walls + timedelta(seconds=offset[n + 1]),
        )


def gap_at(wall: datetime, zone: ZoneInfo) -> Change:
    """The change that swallowed this wall time, one for which `instant_of` is None."""
    near, margin = wall.replace(tzinfo=UTC), timedelta(seconds=NEARBY)
    for change in changes_between(near - margin, near + margin, zone):
        if change.old_wall <= wall < change.new_wall:
            return change
    raise ValueError(f"{wall} exists in {zone}")


@cache
def offsets(name: str) -> Offsets:
    """When the offset of an allowed zone changes; one reading of its file."""
    return Offsets(_file(zone(name).key))


@cache
def _load(name: str) -> ZoneInfo:
    reason = _reason(name)
    if reason is not None:
        raise Invalid(f"time zone {_shown(name)} {reason}", hint=_hint(name))
    return ZoneInfo.from_file(BytesIO(_file(name)), key=name)


def _file(name: str) -> bytes:
    with open(f"{_tzdata().__path__[0]}/zoneinfo/{name}", "rb") as file:
        return file.read()


@cache
def _listed() -> frozenset[str]:
    # Plain files rather than importlib.resources, whose import costs more than all the rest of this module.
    with open(f"{_tzdata().__path__[0]}/zones", encoding="ascii") as file:
        return frozenset(file.read().split())


def _tzdata() -> ModuleType:
    # An import by name, because the package has no types.
    from importlib import import_module

    return import_module("tzdata")


def _shown(name: str) -> str:
    return repr(name) if len(name) <= 40 else repr(name[:39] + "…")


def _reason(name: str) -> str | None:
    """Why this name is refused, as the end of a sentence; None when it is allowed."""
    if name in _PLACES or _POSIX.fullmatch(name):
        return "is an abbreviation, which can mean several zones"
    if _OFFSET.fullmatch(name):
        return "is an offset, which knows no daylight saving time"
    if name == "Factory":
        return "is a placeholder"
    if name in _listed():
        return None
    return "is a path" if _PATH.fullmatch(name) else "is not in the IANA list"


def _hint(name: str) -> str:
    """What would be right, as near to the typed text as can be guessed."""
    offset = _OFFSET.fullmatch(name.upper())
    if offset and (guess := _fixed(*offset.groups())):
        return f"{_PLACE_HINT}; the fixed offset is called {guess}"
    guesses = _guesses(name)
    if not guesses:
        return _PLACE_HINT
    return f"did you mean {' or '.join(guesses)}?"


def _fixed(sign: str, hours: str, minutes: str | None) -> str | None:
    """GMT+8 is meant as eight hours ahead of UTC, which IANA calls Etc/GMT-8."""
    if not int(hours) and not int(minutes or 0):
        return "UTC"
    name = f"Etc/GMT{'+' if sign == '-' else '-'}{int(hours)}"
    return name if sign and not int(minutes or 0) and name in _listed() else None


def _guesses(name: str) -> list[str]:
    """The allowed names that may be meant, best first, at most three."""
    if posix := _POSIX.fullmatch(name.upper()):
        return list(_PLACES.get(posix[1], ())[:1])
    typed = name.lower().removeprefix("right/").removeprefix("posix/").strip(" /").replace(" ", "_")
    if typed.upper() in _PLACES:
        return list(_PLACES[typed.upper()])
    city = _last(typed)
    return [_CITIES[city]] if city in _CITIES else _near(typed[:64])


def _near(typed: str) -> list[str]:
    """Names that differ in case, lack their continent, or are a few letters off."""
    from difflib import get_close_matches

    allowed = sorted(names(), key=lambda n: (n.count("/"), n))
    whole = {n.lower(): n for n in allowed}
    texts = {_last(text): n for text, n in whole.items()} | whole
    near = get_close_matches(typed, texts, n=1, cutoff=0.9) or get_close_matches(typed, texts, cutoff=0.75)
    return list(dict.fromkeys(texts[text] for text in near))


def _last(name: str) -> str:
    return name.rpartition("/")[2]
