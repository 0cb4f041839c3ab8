"""What follows from what is seen of a claimed run's attempt (behaviour.md §6 Lost and found)."""

from __future__ import annotations

from enum import StrEnum

STARTING_LIMIT_MS = 30_000


class Next(StrEnum):
    """What to do about a claimed run."""

    WAIT = "wait"
    ATTACH = "attach"
    SETTLE = "settle"
    FENCE = "fence"


def next_for(*, state: str, is_restart: bool, launched_ago_ms: int | None) -> Next:
    """`state`: unborn, running, done or lost; `launched_ago_ms` None: the launch was never noted.

    A live attempt is never ended because of its age. An unborn one may still be starting, unless its
    supervisor is gone: then only a fence tells.
    """
    match state:
        case "done":
            return Next.SETTLE
        case "running":
            return Next.ATTACH
        case "lost":
            return Next.FENCE
    is_starting = launched_ago_ms is not None and launched_ago_ms < STARTING_LIMIT_MS
    return Next.WAIT if is_starting and not is_restart else Next.FENCE
