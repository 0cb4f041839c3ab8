"""Times as people write and read them: `10s`, `1h30m`, and instants on a zone's clock."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from kandev_sched.domain.errors import Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import tzinfo
    from zoneinfo import ZoneInfo

_UNIT_S = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_DURATION = re.compile(r"(?:([0-9]{1,12})d)?(?:([0-9]{1,12})h)?(?:([0-9]{1,12})m)?(?:([0-9]{1,12})s)?")
LONGEST_S = 100 * 366 * 86_400


def seconds_of(text: str, *, option: str) -> int:
    """A duration such as 10s, 5m, 1h, 1h30m, 2d. Raises Invalid."""
    match = _DURATION.fullmatch(text)
    if not text or match is None:
        raise Invalid(f"{option} is {text!r:.60}", hint="write a duration such as 10s, 5m, 1h or 1h30m")
    seconds = sum(
        int(count or 0) * unit for count, unit in zip(match.groups(), _UNIT_S.values(), strict=True)
    )
    if seconds > LONGEST_S:
        raise Invalid(f"{option} is {text!r:.60}", hint="at most a hundred years are allowed")
    return seconds


def seconds_or_none(text: str | None, *, option: str) -> int | None:
    """As `seconds_of`, for options that may be absent."""
    return None if text is None else seconds_of(text, option=option)


def span_text(seconds: float) -> str:
    """A duration as it is typed: `1h30m`, `45s`, `0s`."""
    left, said = round(seconds), ""
    for unit, size in _UNIT_S.items():
        count, left = divmod(left, size)
        said += f"{count}{unit}" if count else ""
    return said or "0s"


def zone_of(name: str | None) -> ZoneInfo | None:
    """The zone in which times are shown; None is the machine's own. Raises Invalid."""
    if name is None:
        return None
    from kandev_sched.policy import zones

    return zones.zone(name)


def wall_text(at_ms: int, zone: tzinfo | None) -> str:
    """`2026-12-01 17:00:00 +08:00`, on the clock of that zone."""
    instant = datetime.fromtimestamp(at_ms // 1000, UTC).astimezone(zone)
    offset = instant.strftime("%z")
    return f"{instant:%Y-%m-%d %H:%M:%S} {offset[:3]}:{offset[3:5]}"
