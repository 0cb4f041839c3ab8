"""Instants: INTEGER UTC milliseconds inside, RFC 3339 with `Z` outside.

No `datetime` here: its import is too dear for `sched fire`.
"""

from __future__ import annotations

import time

SECOND_MS = 1_000
MINUTE_MS = 60_000
HOUR_MS = 3_600_000
DAY_MS = 86_400_000


def rfc3339(at_ms: int) -> str:
    """`2026-12-01T09:00:00Z`; milliseconds only where there are any."""
    seconds, millis = divmod(at_ms, SECOND_MS)
    text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{text}.{millis:03}Z" if millis else f"{text}Z"


def rfc3339_or_none(at_ms: int | None) -> str | None:
    """As `rfc3339`, for instants that may be absent."""
    return None if at_ms is None else rfc3339(at_ms)
