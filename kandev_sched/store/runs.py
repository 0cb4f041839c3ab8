"""Runs and their claim."""

from __future__ import annotations

from kandev_sched.domain.runs import Run
from kandev_sched.store.sql import Sql, Statement, insert_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.domain.runs import Reason, RunStatus
    from kandev_sched.store.db import Reader, Tx

_ADD = insert_of("runs", Run)


def add(tx: Tx, run: Run) -> None:
    """Insert a run."""
    tx.insert(_ADD, run)


_BY_ID = Sql("SELECT * FROM runs WHERE id = :id", Run)


def by_id(reader: Reader, run_id: str) -> Run | None:
    """The run with that id."""
    return reader.one(_BY_ID, id=run_id)


_IN_FLIGHT = Sql(
    "SELECT * FROM runs WHERE agent_id = :agent_id AND task_id IS :task_id"
    " AND status IN ('queued', 'claimed')"
    " AND (:routine_id IS NULL OR routine_id IS NULL OR routine_id = :routine_id)",
    Run,
)


def in_flight(reader: Reader, *, agent_id: str, task_id: str | None, routine_id: str | None) -> list[Run]:
    """The queued and claimed runs of an agent in one scope: a task, or taskless.

    With a routine, those of other routines are left out: an agent may have hundreds, and none may be joined.
    """
    return reader.all(_IN_FLIGHT, agent_id=agent_id, task_id=task_id, routine_id=routine_id)


# Behaviour.md §2 Claim. The outer query walks agents that may claim now and have a run to claim (index
# agents_that_may_claim, workspace by workspace), the inner one takes the head of one agent's claimable runs:
# the backlog of agents that cannot run, of tasks that are held and of instants to come is never looked at.
_CLAIM = Sql(
    """
    UPDATE runs SET status = 'claimed', claimed_at = :now, attempt = attempt + 1, window_open = 0,
      scheduled_retry_at = NULL, lane = 'later'
    WHERE id = (
      SELECT head.id
      FROM workspaces w CROSS JOIN agents a INDEXED BY agents_that_may_claim
      CROSS JOIN runs head ON head.id = (
        SELECT r.id FROM runs r INDEXED BY runs_queued_of_agent
        WHERE r.agent_id = a.id AND r.status = 'queued' AND r.lane = 'claimable' AND r.eligible_at <= :now
        ORDER BY r.requested_at, r.id LIMIT 1)
      WHERE w.enabled AND w.paused_at IS NULL AND a.workspace_id = w.id
        AND a.claimable_count > 0 AND a.claimed_count < a.max_concurrent_sessions
        AND a.status IN ('idle', 'working') AND a.ready_at <= :now
        AND (SELECT count(*) FROM runs c WHERE c.status = 'claimed') < :max_sessions
      ORDER BY head.requested_at, head.id LIMIT 1)
    RETURNING *
    """,
    Run,
)
# Each queued run passes here once, so that no claim looks twice at one that has to wait.
_OPEN_LANE = Statement(
    "UPDATE runs SET lane = CASE WHEN EXISTS (SELECT 1 FROM tasks t WHERE t.id = runs.task_id"
    " AND t.checkout_run_id IS NOT NULL) THEN 'blocked' ELSE 'claimable' END"
    " WHERE status = 'queued' AND lane = 'later' AND eligible_at <= :now"
)


def claim_next(tx: Tx, *, max_sessions: int) -> Run | None:
    """Claim the oldest eligible run over all eligible agents; None when there is none. Losing is normal."""
    tx.run(_OPEN_LANE, now=tx.now)
    return tx.one(_CLAIM, now=tx.now, max_sessions=max_sessions)


_NEXT_ELIGIBLE_AT = Statement(
    "SELECT min(eligible_at) FROM runs WHERE status = 'queued' AND lane = 'later' AND eligible_at > :now"
)
# The next cooldown that ends. Per workspace, so that each is one look into the index.
_NEXT_READY_AT = Statement(
    "SELECT min((SELECT min(a.ready_at) FROM agents a INDEXED BY agents_that_may_claim"
    " WHERE a.workspace_id = w.id AND a.claimable_count > 0 AND a.claimed_count < a.max_concurrent_sessions"
    " AND a.status IN ('idle', 'working') AND a.ready_at > :now))"
    " FROM workspaces w WHERE w.enabled AND w.paused_at IS NULL"
)


def next_claim_at(reader: Reader, now: int) -> int | None:
    """The next instant at which time alone may make a run claimable: a window, a retry, a cooldown ends."""
    instants = [reader.value(sql, now=now) for sql in (_NEXT_ELIGIBLE_AT, _NEXT_READY_AT)]
    return min((at for at in instants if at is not None), default=None)


_PROMOTE = Statement(
    "UPDATE runs SET reason = :reason, source = :source WHERE id = :id AND status = 'queued'"
)


def promote(tx: Tx, run_id: str, *, reason: Reason, source: str) -> None:
    """Make a periodic run an event run (I7)."""
    tx.run(_PROMOTE, id=run_id, reason=reason, source=source)


_COUNT_IN = Statement(
    "UPDATE runs SET coalesced_count = coalesced_count + :count,"
    " routine_id = coalesce(routine_id, :routine_id),"
    " requested_at = min(requested_at, :requested_at) WHERE id = :id"
)


def count_in(tx: Tx, run_id: str, *, count: int, routine_id: str | None, requested_at: int) -> None:
    """A run's list grew by `count` requests."""
    tx.run(_COUNT_IN, id=run_id, count=count, routine_id=routine_id, requested_at=requested_at)


_COUNT_OUT = Statement("UPDATE runs SET coalesced_count = coalesced_count - :count WHERE id = :id")


def count_out(tx: Tx, run_id: str, *, count: int) -> None:
    """A run's list shrank by `count` requests, which went on to a follow-up."""
    tx.run(_COUNT_OUT, id=run_id, count=count)


_CLOSE_WINDOW = Statement(
    "UPDATE runs SET eligible_at = min(eligible_at, :now), window_open = 0 WHERE id = :id AND window_open"
)


def close_window(tx: Tx, run_id: str) -> None:
    """A run that waits only for its coalescing window is eligible at once."""
    tx.run(_CLOSE_WINDOW, id=run_id, now=tx.now)


_RESOLVED = Statement(
    "UPDATE runs SET prompted_at = :now, profile_id = :profile_id, executor_id = :executor_id,"
    " provider_account = :provider_account, session_id = :session_id WHERE id = :id AND status = 'claimed'"
)


def mark_prompted(
    tx: Tx,
    run_id: str,
    *,
    profile_id: str,
    executor_id: str | None,
    provider_account: str | None,
    session_id: str,
) -> None:
    """The prompt is built; what runs where is settled for this attempt."""
    tx.run(
        _RESOLVED,
        id=run_id,
        profile_id=profile_id,
        executor_id=executor_id,
        provider_account=provider_account,
        session_id=session_id,
        now=tx.now,
    )


_STARTED = Statement(
    "UPDATE runs SET started_at = :now WHERE id = :id AND attempt = :attempt AND status = 'claimed'"
    " AND started_at IS NULL"
)


def mark_started(tx: Tx, run_id: str, attempt: int) -> bool:
    """The shim was handed the run."""
    return bool(tx.run(_STARTED, id=run_id, attempt=attempt, now=tx.now))


_REQUEUE = Statement(
    "UPDATE runs SET status = 'queued', claimed_at = NULL, prompted_at = NULL, started_at = NULL,"
    " session_id = NULL, cancel_requested_at = NULL, cancel_reason = NULL,"
    " eligible_at = :eligible_at, scheduled_retry_at = :retry_at, retry_count = :retry_count,"
    " lost_count = :lost_count, error = :error, exit_code = :exit_code WHERE id = :id AND status = 'claimed'"
)


def requeue(
    tx: Tx,
    run: Run,
    *,
    eligible_at: int,
    retry_at: int | None,
    retry_count: int,
    lost_count: int,
    error: str | None,
    exit_code: int | None,
) -> None:
    """Claimed → queued, its list and requested_at kept: an un-claim, or a retry at `retry_at`."""
    tx.run(
        _REQUEUE,
        id=run.id,
        eligible_at=eligible_at,
        retry_at=retry_at,
        retry_count=retry_count,
        lost_count=lost_count,
        error=error,
        exit_code=exit_code,
    )


_FINISH = Statement(
    "UPDATE runs SET status = :status, finished_at = :now, scheduled_retry_at = NULL, outcome = :outcome,"
    " cancel_reason = :cancel_reason, error = :error, exit_code = :exit_code, result = :result,"
    " cost_cents = :cost_cents"
    " WHERE id = :id AND finished_at IS NULL"
)


def finish(
    tx: Tx,
    run_id: str,
    *,
    status: RunStatus,
    outcome: str,
    cancel_reason: str | None,
    error: str | None,
    exit_code: int | None,
    result: dict[str, object] | None,
    cost_cents: int | None,
) -> bool:
    """End a run for good; False when it had ended before (I8)."""
    return bool(
        tx.run(
            _FINISH,
            id=run_id,
            status=status,
            outcome=outcome,
            cancel_reason=cancel_reason,
            error=error,
            exit_code=exit_code,
            result=result,
            cost_cents=cost_cents,
            now=tx.now,
        )
    )


# The first reason stands, but a stopped agent's run, which would be queued again, can still be cancelled.
_ASK_CANCEL = Statement(
    "UPDATE runs SET cancel_requested_at = :now, cancel_reason = :reason WHERE id = :id"
    " AND status = 'claimed' AND (cancel_requested_at IS NULL OR cancel_reason = 'agent_stopped')"
)


def ask_cancel(tx: Tx, run_id: str, *, reason: str) -> None:
    """Note that a claimed run shall end; launch checks it last, the watcher tells the shim."""
    tx.run(_ASK_CANCEL, id=run_id, reason=reason, now=tx.now)


_CLAIMED = Sql("SELECT * FROM runs WHERE status = 'claimed' ORDER BY claimed_at, id", Run)


def claimed(reader: Reader) -> list[Run]:
    """The runs that are being worked on, in all workspaces."""
    return reader.all(_CLAIMED)


_QUEUED_OF_AGENT = Sql(
    "SELECT * FROM runs WHERE agent_id = :agent_id AND status = 'queued' ORDER BY requested_at, id", Run
)


def queued_of_agent(reader: Reader, agent_id: str) -> list[Run]:
    """The queue of one agent."""
    return reader.all(_QUEUED_OF_AGENT, agent_id=agent_id)


_QUEUED = Sql(
    "SELECT * FROM runs WHERE status = 'queued' AND (:workspace_id IS NULL OR workspace_id = :workspace_id)"
    " ORDER BY requested_at, id LIMIT :limit",
    Run,
)


def queued(reader: Reader, *, workspace_id: str | None, limit: int) -> list[Run]:
    """The whole queue, oldest first."""
    return reader.all(_QUEUED, workspace_id=workspace_id, limit=limit)


_COUNTS = Statement("SELECT sum(queued_count), sum(claimed_count) FROM agents")


def counts(reader: Reader) -> tuple[int, int]:
    """How many runs are queued and claimed, in all workspaces."""
    ((queued_count, claimed_count),) = reader.rows(_COUNTS)
    return queued_count or 0, claimed_count or 0


_RECENT = Sql(
    "SELECT * FROM runs WHERE (:workspace_id IS NULL OR workspace_id = :workspace_id)"
    " AND (:agent_id IS NULL OR agent_id = :agent_id) AND (:status IS NULL OR status = :status)"
    " AND (:task_id IS NULL OR task_id = :task_id) AND (:since IS NULL OR requested_at >= :since)"
    " ORDER BY requested_at DESC, id DESC LIMIT :limit",
    Run,
)


def recent(
    reader: Reader,
    *,
    workspace_id: str | None,
    agent_id: str | None = None,
    status: RunStatus | None = None,
    task_id: str | None = None,
    since: int | None = None,
    limit: int,
) -> list[Run]:
    """The newest runs, newest first."""
    return reader.all(
        _RECENT,
        workspace_id=workspace_id,
        agent_id=agent_id,
        status=status,
        task_id=task_id,
        since=since,
        limit=limit,
    )


_SHIFT = Statement(
    "UPDATE runs SET eligible_at = eligible_at - :step, scheduled_retry_at = scheduled_retry_at - :step"
    " WHERE status = 'queued' AND eligible_at > :now"
)
_SHIFT_COOLDOWNS = Statement(
    "UPDATE agents SET last_wakeup_finished_at = last_wakeup_finished_at - :step"
    " WHERE last_wakeup_finished_at > :now"
)


def shift_pending(tx: Tx, step_ms: int) -> None:
    """The clock stepped back by `step_ms`: what was to wait a while still waits only that while."""
    tx.run(_SHIFT, step=step_ms, now=tx.now)
    tx.run(_SHIFT_COOLDOWNS, step=step_ms, now=tx.now)


_FIRST_ELIGIBLE = Statement(
    "SELECT r.id FROM runs r WHERE r.agent_id = :agent_id AND r.status = 'queued' AND r.eligible_at <= :now"
    " AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.id = r.task_id AND t.checkout_run_id IS NOT NULL)"
    " ORDER BY r.requested_at, r.id LIMIT 1"
)


def first_eligible_of_agent(reader: Reader, agent_id: str, *, now: int) -> str | None:
    """The run that the claim would take for this agent."""
    run_id: str | None = reader.value(_FIRST_ELIGIBLE, agent_id=agent_id, now=now)
    return run_id


_HAS_WORK = Statement(
    "SELECT EXISTS (SELECT 1 FROM agents a JOIN workspaces w ON w.id = a.workspace_id"
    " WHERE a.claimed_count > 0 OR (a.queued_count > 0 AND a.status IN ('idle', 'working')"
    " AND w.enabled AND w.paused_at IS NULL))"
)


def has_work(reader: Reader) -> bool:
    """Whether a run is claimed, or queued and not held by a person."""
    return bool(reader.value(_HAS_WORK))
