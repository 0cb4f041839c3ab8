"""Dispatch: wakeup request → run, in the transaction that inserted the request (behaviour.md §2).

The decision is `policy.coalesce.decide`; here it is carried out. Each accepted request is on the list of
exactly one run from its insertion until its end (I1).
"""

from __future__ import annotations

from kandev_sched.domain.instant import SECOND_MS
from kandev_sched.domain.record import Record
from kandev_sched.domain.routines import ConcurrencyPolicy
from kandev_sched.domain.runs import Lane, Reason, Run
from kandev_sched.domain.wakeups import WakeupStatus
from kandev_sched.policy.coalesce import Fresh, Late, Merge, Promote, decide, reason_of, waits_for_window
from kandev_sched.store import runs, wakeups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from kandev_sched.domain.wakeups import WakeupRequest
    from kandev_sched.store.db import Tx


class Dispatched(Record):
    """The request as it now stands, the run that holds it, and whether the request existed before."""

    request: WakeupRequest
    run: Run
    is_duplicate: bool = False


def request_wakeup(
    tx: Tx,
    request: WakeupRequest,
    *,
    policy: ConcurrencyPolicy = ConcurrencyPolicy.COALESCE_IF_ACTIVE,
    window_s: int,
    principal_id: str | None = None,
) -> Dispatched:
    """Accept a request: durable, deduplicated by its key, and on a run's list.

    A fresh run carries the execution scope (`principal_id`) of what asked for it.
    """
    existing = _same_key(tx, request)
    if existing is not None:
        return existing
    given = _give_run(tx, request, policy=policy, window_s=window_s, principal_id=principal_id)
    wakeups.add(tx, given.request)
    return given


def _same_key(tx: Tx, request: WakeupRequest) -> Dispatched | None:
    key = request.idempotency_key
    if key is None:
        return None
    found = wakeups.by_key(tx, workspace_id=request.workspace_id, agent_id=request.agent_id, key=key)
    if found is None:
        return None
    run = runs.by_id(tx, found.run_id) if found.run_id else None
    assert run is not None, "an accepted request is on a run's list"
    return Dispatched(request=found, run=run, is_duplicate=True)


def dispatch(tx: Tx, request: WakeupRequest, *, policy: ConcurrencyPolicy, window_s: int) -> Dispatched:
    """Give its run to a request that was inserted before, and that no run holds."""
    given = _give_run(tx, request, policy=policy, window_s=window_s, principal_id=None)
    wakeups.join_run(tx, request.id, given.run.id, given.request.status)
    return given


def _give_run(
    tx: Tx, request: WakeupRequest, *, policy: ConcurrencyPolicy, window_s: int, principal_id: str | None
) -> Dispatched:
    """The run that takes the request, made or grown; the request's own row is the caller's to write."""
    in_flight = runs.in_flight(
        tx, agent_id=request.agent_id, task_id=request.task_id, routine_id=request.routine_id
    )
    match decide(request, in_flight, policy=policy):
        case Fresh():
            window_s = window_s if waits_for_window(request) else 0
            run = add_fresh_run(tx, [request], window_s=window_s, principal_id=principal_id)
            return _joined(tx, request, run, WakeupStatus.CLAIMED)
        case Merge(run=run):
            return _merge(tx, request, run)
        case Promote(run=run):
            runs.promote(tx, run.id, reason=Reason.EVENT, source=request.source)
            return _merge(tx, request, run)
        case Late(run=run):
            return _merge(tx, request, run)


def _merge(tx: Tx, request: WakeupRequest, run: Run) -> Dispatched:
    _count_in(tx, request, run)
    grown = runs.by_id(tx, run.id)
    assert grown is not None
    return _joined(tx, request, grown, WakeupStatus.COALESCED)


def _count_in(tx: Tx, request: WakeupRequest, run: Run) -> None:
    runs.count_in(tx, run.id, count=1, routine_id=request.routine_id, requested_at=request.requested_at)
    if run.window_open and not waits_for_window(request):
        runs.close_window(tx, run.id)


def _joined(tx: Tx, request: WakeupRequest, run: Run, status: WakeupStatus) -> Dispatched:
    tx.wake_supervisor()
    return Dispatched(request=request.replace(run_id=run.id, status=status), run=run)


def add_fresh_run(
    tx: Tx,
    requests: Sequence[WakeupRequest],
    *,
    window_s: int = 0,
    not_before: int = 0,
    follow_up_of: str | None = None,
    retry_of: str | None = None,
    principal_id: str | None = None,
) -> Run:
    """A queued run for the requests (of one scope), asked for when the oldest of them was."""
    first = requests[0]
    eligible_at = max(tx.now + window_s * SECOND_MS, not_before)
    # What only waits for its agent needs no step through the other lanes.
    is_claimable = first.task_id is None and eligible_at <= tx.now
    decisive = next((request for request in requests if not request.periodic), first)
    run = Run(
        id=tx.new_id("run"),
        workspace_id=first.workspace_id,
        agent_id=first.agent_id,
        task_id=first.task_id,
        routine_id=next((request.routine_id for request in requests if request.routine_id), None),
        reason=reason_of(decisive),
        source=decisive.source,
        coalesced_count=len(requests),
        requested_at=min(request.requested_at for request in requests),
        eligible_at=eligible_at,
        lane=Lane.CLAIMABLE if is_claimable else Lane.LATER,
        window_open=window_s > 0,
        follow_up_of=follow_up_of,
        retry_of=retry_of,
        principal_id=principal_id,
    )
    runs.add(tx, run)
    return run


def follow_up(tx: Tx, ended: Run, requests: Sequence[WakeupRequest], *, not_before: int) -> None:
    """Undelivered requests join the scope's queued run, else a fresh one; never a claimed one."""
    runs.count_out(tx, ended.id, count=len(requests))
    target = _queued_run_for(tx, ended, requests)
    if target is None:
        target = add_fresh_run(
            tx,
            requests,
            not_before=not_before,
            follow_up_of=ended.id,
            principal_id=ended.principal_id,
        )
    else:
        _grow(tx, target, requests)
    for request in requests:
        wakeups.join_run(tx, request.id, target.id, request.status)
    tx.wake_supervisor()


def _queued_run_for(tx: Tx, ended: Run, requests: Sequence[WakeupRequest]) -> Run | None:
    routine_ids = {request.routine_id for request in requests if request.routine_id}
    in_flight = runs.in_flight(tx, agent_id=ended.agent_id, task_id=ended.task_id, routine_id=None)
    for run in sorted(in_flight, key=lambda run: (run.requested_at, run.id)):
        fits = not routine_ids or run.routine_id is None or routine_ids == {run.routine_id}
        if run.id != ended.id and run.status == "queued" and fits:
            return run
    return None


def _grow(tx: Tx, run: Run, requests: Sequence[WakeupRequest]) -> None:
    for request in requests:
        if not request.periodic and run.reason is Reason.PERIODIC:
            runs.promote(tx, run.id, reason=Reason.EVENT, source=request.source)
        _count_in(tx, request, run)
