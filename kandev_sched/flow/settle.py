"""Settle: what an attempt left → rows. The only writer of endings, of runs and of requests (rule 2).

An ending counts only for the requests that its verdict judged; every other one is undelivered and follows
up (behaviour.md §2 Delivery). Whatever happens, the checkout is freed and the session ended.
"""

from __future__ import annotations

from enum import StrEnum

from kandev_sched.domain.activity import InboxItem
from kandev_sched.domain.agents import AgentStatus
from kandev_sched.domain.record import Record
from kandev_sched.domain.routines import RoutineRunStatus
from kandev_sched.domain.runs import RunStatus, SessionState
from kandev_sched.domain.wakeups import Ending, WakeupStatus
from kandev_sched.flow.dispatch import follow_up
from kandev_sched.policy.retry import BACKOFF_MS, GiveUp, RetryIn, after_failure
from kandev_sched.store import activity, agents, attempts, routines, runs, tasks, triggers, wakeups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from kandev_sched.domain.runs import Run
    from kandev_sched.domain.wakeups import WakeupRequest
    from kandev_sched.store.db import Tx


AGENT_STOPPED = "agent_stopped"  # the attempt ends, its run goes back to the queue
SUPERSEDED = "superseded"  # the run ends; what it holds besides the superseded requests follows up
AGENT_GONE = "agent_gone"  # nobody is left to be told


class OutcomeKind(StrEnum):
    """What became of an attempt."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LOST = "claim_lost"
    CANCELLED = "cancelled"
    IDLE = "idle_skipped"
    UNCLAIMED = "unclaimed"


class Outcome(Record):
    """The verdict on an attempt. `judged` are the requests it counts for; None: those in its prompt.
    `reasons`: request id → its own reason, where it has one.
    """

    kind: OutcomeKind
    reason: str | None = None
    error: str | None = None
    exit_code: int | None = None
    result: dict[str, object] | None = None
    cost_cents: int | None = None
    is_permanent: bool = False
    judged: frozenset[str] | None = None
    reasons: Mapping[str, str] = {}


_RUN_STATUS = {
    OutcomeKind.SUCCEEDED: RunStatus.FINISHED,
    OutcomeKind.IDLE: RunStatus.FINISHED,
    OutcomeKind.CANCELLED: RunStatus.CANCELLED,
    OutcomeKind.FAILED: RunStatus.FAILED,
    OutcomeKind.LOST: RunStatus.FAILED,
}
_REQUEST_END = {
    OutcomeKind.SUCCEEDED: (WakeupStatus.FINISHED, Ending.DELIVERED),
    OutcomeKind.IDLE: (WakeupStatus.FINISHED, Ending.SKIPPED),
    OutcomeKind.CANCELLED: (WakeupStatus.CANCELLED, Ending.CANCELLED),
    OutcomeKind.FAILED: (WakeupStatus.FAILED, Ending.FAILED),
    OutcomeKind.LOST: (WakeupStatus.FAILED, Ending.FAILED),
}
_ROUTINE_RUN_STATUS = {
    Ending.DELIVERED: RoutineRunStatus.DONE,
    Ending.SKIPPED: RoutineRunStatus.SKIPPED,
    Ending.CANCELLED: RoutineRunStatus.CANCELLED,
    Ending.FAILED: RoutineRunStatus.FAILED,
}


def settle(tx: Tx, settled: Run, outcome: Outcome) -> Run | None:
    """Write the outcome of a claimed run's attempt; None when the run is not in that attempt any more."""
    run = runs.by_id(tx, settled.id)
    if run is None or run.status is not RunStatus.CLAIMED or run.attempt != settled.attempt:
        return None
    tasks.free_checkout(tx, run.id)
    attempts.set_session_state(tx, run, SessionState.ENDED)
    tx.wake_supervisor()  # a session, an agent's slot and perhaps a task became free
    if run.cancel_reason == AGENT_STOPPED and outcome.kind is not OutcomeKind.SUCCEEDED:
        outcome = outcome.replace(kind=OutcomeKind.UNCLAIMED, reason="agent stopped")
    if run.cancel_reason == SUPERSEDED and outcome.kind is not OutcomeKind.SUCCEEDED:
        outcome = outcome.replace(kind=OutcomeKind.CANCELLED, reason=SUPERSEDED, judged=frozenset())
    match outcome.kind:
        case OutcomeKind.UNCLAIMED:
            _unclaim(tx, run, outcome)
        case OutcomeKind.FAILED | OutcomeKind.LOST:
            _settle_failure(tx, run, outcome)
        case _:
            _finish(tx, run, outcome)
    return runs.by_id(tx, run.id)


def cancel_queued(tx: Tx, run: Run, *, reason: str) -> None:
    """Cancel a run that nobody works on, with all its requests."""
    _finish(tx, run, Outcome(kind=OutcomeKind.CANCELLED, reason=reason, judged=_every_open(tx, run)))


def cancel_claimed(tx: Tx, run: Run, *, reason: str) -> None:
    """Ask for the end of a run at work. It is meant for what was prompted or, before there is a prompt, for
    what the run holds now; whatever joins later follows up (behaviour.md §2 Cancellation).
    """
    if run.prompted_at is None:
        for request in wakeups.open_of_run(tx, run.id):
            cancel_request(tx, request, reason=reason)
    runs.ask_cancel(tx, run.id, reason=reason)


def cancel_if_empty(tx: Tx, run_id: str, *, reason: str) -> None:
    """A queued run whose last request has ended waits for nothing; on a held agent for ever."""
    run = runs.by_id(tx, run_id)
    if run is not None and run.status is RunStatus.QUEUED and not wakeups.open_of_run(tx, run.id):
        cancel_queued(tx, run, reason=reason)


def end_request(
    tx: Tx, request: WakeupRequest, status: WakeupStatus, ending: Ending, *, reason: str | None
) -> None:
    """End one request, and the lightweight routine run that waits for it."""
    if wakeups.end(tx, request.id, status=status, ending=ending, reason=reason):
        routines.end_runs_of_wakeup(tx, request.id, _ROUTINE_RUN_STATUS[ending], reason=reason)
        if ending is Ending.DELIVERED and request.routine_run_id is not None:
            _stamp_success(tx, request.routine_run_id)


def _stamp_success(tx: Tx, routine_run_id: str) -> None:
    """`last_success_at` of a trigger is apart from `last_fired_at`: a fire that failed is no success."""
    occurrence = routines.run_by_id(tx, routine_run_id)
    if occurrence is not None and occurrence.trigger_id is not None:
        triggers.stamp_success(tx, occurrence.trigger_id)


def cancel_request(tx: Tx, request: WakeupRequest, *, reason: str) -> None:
    """Cancel one request; its run goes on with the others (S0 Staleness check)."""
    end_request(tx, request, WakeupStatus.CANCELLED, Ending.CANCELLED, reason=reason)
    activity.record(
        tx,
        "wakeup_cancelled",
        f"{request.source} wakeup cancelled: {reason}",
        workspace_id=request.workspace_id,
        agent_id=request.agent_id,
        wakeup_id=request.id,
        run_id=request.run_id,
        task_id=request.task_id,
    )


def _every_open(tx: Tx, run: Run) -> frozenset[str]:
    return frozenset(request.id for request in wakeups.open_of_run(tx, run.id))


def _unclaim(tx: Tx, run: Run, outcome: Outcome) -> None:
    """Claimed → queued: list and requested_at kept, no retry_count, no cooldown (behaviour.md §2)."""
    if _must_not_go_on(tx, run):
        _finish(tx, run, Outcome(kind=OutcomeKind.CANCELLED, reason=run.cancel_reason or AGENT_GONE))
        return
    _requeue(tx, run, outcome, eligible_at=min(run.eligible_at, tx.now), retry_at=None)


def _must_not_go_on(tx: Tx, run: Run) -> bool:
    """Somebody cancelled the run, or its agent is gone: it is not queued again."""
    if run.cancel_requested_at is not None and run.cancel_reason != AGENT_STOPPED:
        return True
    return _is_gone(tx, run)


def _is_gone(tx: Tx, run: Run) -> bool:
    agent = agents.by_id(tx, run.agent_id)
    return agent is None or agent.status is AgentStatus.ARCHIVED


def _settle_failure(tx: Tx, run: Run, outcome: Outcome) -> None:
    if _must_not_go_on(tx, run):
        cancelled = outcome.replace(kind=OutcomeKind.CANCELLED, reason=run.cancel_reason or AGENT_GONE)
        _finish(tx, run, cancelled)
        return
    match after_failure(
        retry_count=run.retry_count,
        lost_count=_lost_count(run, outcome),
        is_permanent=outcome.is_permanent,
        chance=tx.host.uniform(0, 1),
    ):
        case RetryIn(delay_ms=delay_ms):
            _stamp_agent(tx, run, outcome, is_final=False)
            _requeue(tx, run, outcome, eligible_at=tx.now + delay_ms, retry_at=tx.now + delay_ms)
        case GiveUp(why=why):
            _finish(tx, run, outcome)
            _escalate(tx, run, outcome, why)


def _lost_count(run: Run, outcome: Outcome) -> int:
    """How often in a row the run was lost."""
    return run.lost_count + 1 if outcome.kind is OutcomeKind.LOST else 0


def _requeue(tx: Tx, run: Run, outcome: Outcome, *, eligible_at: int, retry_at: int | None) -> None:
    is_retry = retry_at is not None
    runs.requeue(
        tx,
        run,
        eligible_at=eligible_at,
        retry_at=retry_at,
        retry_count=run.retry_count + is_retry,
        lost_count=_lost_count(run, outcome) if is_retry else run.lost_count,
        error=outcome.error if is_retry else run.error,
        exit_code=outcome.exit_code if is_retry else run.exit_code,
    )


def _finish(tx: Tx, run: Run, outcome: Outcome) -> None:
    """End the run for good, and each of its requests in the way that is true for it."""
    _stamp_agent(tx, run, outcome, is_final=True)
    open_requests = wakeups.open_of_run(tx, run.id)
    undelivered = [request for request in open_requests if not _was_judged(request, run, outcome)]
    for request in open_requests:
        if request not in undelivered:
            status, ending = _REQUEST_END[outcome.kind]
            reason = outcome.reasons.get(request.id, outcome.reason)
            end_request(tx, request, status, ending, reason=reason)
    _follow_up_undelivered(tx, run, outcome, undelivered, open_requests)
    _record_ending(tx, run, outcome)
    runs.finish(
        tx,
        run.id,
        status=_RUN_STATUS[outcome.kind],
        outcome=outcome.kind,
        cancel_reason=outcome.reason if outcome.kind is OutcomeKind.CANCELLED else None,
        error=outcome.error,
        exit_code=outcome.exit_code,
        result=outcome.result,
        cost_cents=outcome.cost_cents,
    )


_ACTIVITY = {
    OutcomeKind.SUCCEEDED: ("run_finished", "finished"),
    OutcomeKind.IDLE: ("wakeup_idle_skipped", "was not woken: it has no actionable tasks"),
    OutcomeKind.CANCELLED: ("run_cancelled", "had a run cancelled"),
    OutcomeKind.FAILED: ("run_failed", "failed"),
    OutcomeKind.LOST: ("run_failed", "was lost"),
}


def _record_ending(tx: Tx, run: Run, outcome: Outcome) -> None:
    kind, what = _ACTIVITY[outcome.kind]
    agent = agents.by_id(tx, run.agent_id)
    why = outcome.error or (outcome.reason if outcome.kind is OutcomeKind.CANCELLED else None)
    activity.record(
        tx,
        kind,
        f"{agent.name if agent else run.agent_id} {what}{f': {why}' if why else ''}",
        workspace_id=run.workspace_id,
        agent_id=run.agent_id,
        run_id=run.id,
        routine_id=run.routine_id,
        task_id=run.task_id,
    )


def _was_judged(request: WakeupRequest, run: Run, outcome: Outcome) -> bool:
    if outcome.judged is not None:
        return request.id in outcome.judged
    return request.delivered_attempt == run.attempt


def _follow_up_undelivered(
    tx: Tx, run: Run, outcome: Outcome, undelivered: list[WakeupRequest], members: list[WakeupRequest]
) -> None:
    """Only a periodic request whose routine stood in the prompt of the finished run is `served` by it."""
    served_routines = {
        request.routine_id for request in members if request not in undelivered and request.routine_id
    }
    if outcome.kind is not OutcomeKind.SUCCEEDED:
        served_routines = set()
    late = []
    for request in undelivered:
        if request.periodic and request.routine_id in served_routines:
            end_request(tx, request, WakeupStatus.FINISHED, Ending.SKIPPED, reason="served")
        else:
            late.append(request)
    if _is_gone(tx, run):
        for request in late:
            cancel_request(tx, request, reason=AGENT_GONE)
    elif late:
        failed = outcome.kind in (OutcomeKind.FAILED, OutcomeKind.LOST)
        follow_up(tx, run, late, not_before=tx.now + BACKOFF_MS[0] if failed else tx.now)


def _stamp_agent(tx: Tx, run: Run, outcome: Outcome, *, is_final: bool) -> None:
    """Only launched runs begin a cooldown; only failed runs, not attempts, lengthen a streak."""
    if run.started_at is None:
        return
    is_failure = outcome.kind in (OutcomeKind.FAILED, OutcomeKind.LOST)
    agents.stamp_finished(
        tx,
        run.agent_id,
        succeeded=outcome.kind is OutcomeKind.SUCCEEDED,
        failed=is_final and is_failure,
    )


def _escalate(tx: Tx, run: Run, outcome: Outcome, why: str) -> None:
    """S0: after the last retry the run is failed and an `agent.error` inbox item is created."""
    agent = agents.by_id(tx, run.agent_id)
    name = agent.name if agent else run.agent_id
    item = InboxItem(
        id=tx.new_id("in"),
        workspace_id=run.workspace_id,
        kind="agent.error",
        title=f"{name} failed: {why}",
        body=outcome.error or "",
        agent_id=run.agent_id,
        task_id=run.task_id,
        run_id=run.id,
        created_at=tx.now,
    )
    activity.add_inbox_item(tx, item)
