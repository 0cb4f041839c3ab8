"""When a failed run is tried again, and when no more (S0 Rate-limit retry, default backoff)."""

from __future__ import annotations

from kandev_sched.domain.instant import HOUR_MS, MINUTE_MS
from kandev_sched.domain.record import Record

BACKOFF_MS = (2 * MINUTE_MS, 10 * MINUTE_MS, 30 * MINUTE_MS, 2 * HOUR_MS)
JITTER = 0.25
LOST_LIMIT = 3


class RetryIn(Record):
    """Try again after so long."""

    delay_ms: int


class GiveUp(Record):
    """Waiting will not mend it, or it was waited for often enough."""

    why: str


def after_failure(
    *, retry_count: int, lost_count: int, is_permanent: bool, chance: float
) -> RetryIn | GiveUp:
    """What follows a failed attempt. `retry_count`: retries so far; `chance` in [0, 1) spreads them."""
    if is_permanent:
        return GiveUp(why="waiting cannot mend it")
    if lost_count >= LOST_LIMIT:
        return GiveUp(why=f"lost {lost_count} times in a row")
    if retry_count >= len(BACKOFF_MS):
        return GiveUp(why=f"failed after {retry_count} retries")
    return RetryIn(delay_ms=int(BACKOFF_MS[retry_count] * (1 + JITTER * chance)))
