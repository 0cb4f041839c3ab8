"""The rule for merging: wakeup request and the in-flight runs of its scope → Fresh | Merge | Promote | Late.

behaviour.md §2 Dispatch, S0 Coalescing. A run has one scope for life (one task, or none), so the caller
gives only the in-flight runs of the request's agent in the request's scope.
"""

from __future__ import annotations

from enum import StrEnum

from kandev_sched.domain.record import Record
from kandev_sched.domain.routines import ConcurrencyPolicy
from kandev_sched.domain.runs import Reason, RunStatus
from kandev_sched.domain.wakeups import WINDOWED_SOURCES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from kandev_sched.domain.runs import Run
    from kandev_sched.domain.wakeups import WakeupRequest


class Fresh(Record):
    """The request gets a run of its own."""


class Merge(Record):
    """The request joins a run whose prompt is not built yet."""

    run: Run


class Promote(Record):
    """The request joins a queued periodic run and makes it an event run, so that idle skip cannot eat it."""

    run: Run


class Late(Record):
    """The request joins a run whose prompt is built: it stays undelivered and follows up."""

    run: Run


_ALWAYS_FRESH = (ConcurrencyPolicy.ALWAYS_ENQUEUE, ConcurrencyPolicy.CANCEL_ACTIVE)
Decision = Fresh | Merge | Promote | Late


def decide(request: WakeupRequest, in_flight: Iterable[Run], *, policy: ConcurrencyPolicy) -> Decision:
    """Which run takes the request."""
    if policy in _ALWAYS_FRESH:
        return Fresh()
    candidates = [run for run in in_flight if _may_share(request, run)]
    if not candidates:
        return Fresh()
    run = min(candidates, key=lambda run: (run.status is not RunStatus.QUEUED, run.requested_at, run.id))
    would_promote = run.reason is Reason.PERIODIC and not request.periodic
    if run.status is RunStatus.QUEUED:
        return Promote(run=run) if would_promote else Merge(run=run)
    if would_promote:
        return Fresh()  # S0: the idle skip may have read the claimed run's reason already
    return Merge(run=run) if run.prompted_at is None else Late(run=run)


def _may_share(request: WakeupRequest, run: Run) -> bool:
    """Requests of different routines never share a run: one summary scope each."""
    return request.routine_id is None or run.routine_id in (None, request.routine_id)


def reason_of(request: WakeupRequest) -> Reason:
    """Periodic: `routine` fired by a schedule, lightweight. All else is an event."""
    return Reason.PERIODIC if request.periodic else Reason.EVENT


def waits_for_window(request: WakeupRequest) -> bool:
    """Whether a fresh run for this request waits a little, so that a burst lands in one run."""
    return request.source in WINDOWED_SOURCES


class FireVerdict(StrEnum):
    """What a fire does, given whether one of the same fingerprint is active."""

    PROCEED = "proceed"
    COALESCE = "coalesce"
    SKIP = "skip"
    SUPERSEDE = "supersede"


def decide_fire(policy: ConcurrencyPolicy, *, is_active: bool) -> FireVerdict:
    """S0 Concurrency policy; `cancel_active` ends the earlier one."""
    if not is_active:
        return FireVerdict.PROCEED
    match policy:
        case ConcurrencyPolicy.ALWAYS_ENQUEUE:
            return FireVerdict.PROCEED
        case ConcurrencyPolicy.SKIP_IF_ACTIVE:
            return FireVerdict.SKIP
        case ConcurrencyPolicy.COALESCE_IF_ACTIVE:
            return FireVerdict.COALESCE
        case ConcurrencyPolicy.CANCEL_ACTIVE:
            return FireVerdict.SUPERSEDE
