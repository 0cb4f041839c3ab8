"""Catch-up: which due slots of a trigger fire, and which become one `missed` record (behaviour.md §3)."""

from __future__ import annotations

from kandev_sched.domain.instant import SECOND_MS
from kandev_sched.domain.record import Record
from kandev_sched.domain.routines import CatchUpPolicy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class Due(Record):
    """The due slots of a trigger: the newest ones, oldest first, and how many there are from which on."""

    newest: tuple[int, ...]
    count: int
    first_at: int


class CatchUp(Record):
    """The slots that fire (oldest first), and what was missed."""

    fires: tuple[int, ...] = ()
    missed_count: int = 0
    missed_first_at: int | None = None
    missed_last_at: int | None = None


def slots_wanted(policy: CatchUpPolicy, *, catch_up_max: int) -> int:
    """How many of the newest due slots `decide` needs to see; one more tells where the missed ones end."""
    return catch_up_max + 1 if policy is CatchUpPolicy.ENQUEUE_MISSED_WITH_CAP else 2


def decide(
    policy: CatchUpPolicy,
    due: Due,
    *,
    now: int,
    catch_up_max: int,
    misfire_grace_s: int,
    max_age_s: int | None = None,
    at_most: int | None = None,
) -> CatchUp:
    """Split the due slots. Work is bounded by the cap, whatever the outage.

    `max_age_s`: no slot older than this ever fires. `at_most`: how often the trigger may still fire.
    """
    match policy:
        case CatchUpPolicy.ENQUEUE_MISSED_WITH_CAP:
            fires = due.newest[-catch_up_max:]
        case CatchUpPolicy.FIRE_ONCE:
            fires = due.newest[-1:]
        case CatchUpPolicy.SKIP_MISSED:
            is_current = now - due.newest[-1] <= misfire_grace_s * SECOND_MS
            fires = due.newest[-1:] if is_current else ()
    if max_age_s is not None:
        fires = tuple(slot for slot in fires if now - slot <= max_age_s * SECOND_MS)
    if at_most is not None:
        fires = fires[max(len(fires) - at_most, 0) :]
    return _with_missed(due, fires)


def _with_missed(due: Due, fires: Sequence[int]) -> CatchUp:
    missed_count = due.count - len(fires)
    if not missed_count:
        return CatchUp(fires=tuple(fires))
    last_at = due.newest[len(due.newest) - len(fires) - 1]
    return CatchUp(
        fires=tuple(fires), missed_count=missed_count, missed_first_at=due.first_at, missed_last_at=last_at
    )
