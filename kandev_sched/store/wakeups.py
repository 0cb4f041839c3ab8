"""Wakeup requests: their insertion, their membership in runs, their endings."""

from __future__ import annotations

from kandev_sched.domain.wakeups import WakeupRequest
from kandev_sched.store.sql import Sql, Statement, insert_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.domain.wakeups import Ending, WakeupStatus
    from kandev_sched.store.db import Reader, Tx

_ADD = insert_of("wakeup_requests", WakeupRequest)


def add(tx: Tx, request: WakeupRequest) -> None:
    """Insert a request; the caller has looked for its key."""
    tx.insert(_ADD, request)


_BY_ID = Sql("SELECT * FROM wakeup_requests WHERE id = :id", WakeupRequest)


def by_id(reader: Reader, wakeup_id: str) -> WakeupRequest | None:
    """The request with that id."""
    return reader.one(_BY_ID, id=wakeup_id)


_BY_KEY = Sql(
    "SELECT * FROM wakeup_requests WHERE workspace_id = :workspace_id AND agent_id = :agent_id"
    " AND idempotency_key = :key",
    WakeupRequest,
)


def by_key(reader: Reader, *, workspace_id: str, agent_id: str, key: str) -> WakeupRequest | None:
    """The request that used the key; keys are unique for ever per workspace and agent."""
    return reader.one(_BY_KEY, workspace_id=workspace_id, agent_id=agent_id, key=key)


_OF_RUN = Sql("SELECT * FROM wakeup_requests WHERE run_id = :run_id ORDER BY requested_at, id", WakeupRequest)


def of_run(reader: Reader, run_id: str) -> list[WakeupRequest]:
    """The list of a run, in the order of asking."""
    return reader.all(_OF_RUN, run_id=run_id)


_OPEN_OF_RUN = Sql(
    "SELECT * FROM wakeup_requests WHERE run_id = :run_id AND finished_at IS NULL ORDER BY requested_at, id",
    WakeupRequest,
)


def open_of_run(reader: Reader, run_id: str) -> list[WakeupRequest]:
    """The requests of a run that have not ended."""
    return reader.all(_OPEN_OF_RUN, run_id=run_id)


_JOIN = Statement("UPDATE wakeup_requests SET status = :status, run_id = :run_id WHERE id = :id")


def join_run(tx: Tx, wakeup_id: str, run_id: str, status: WakeupStatus) -> None:
    """Put a request on the list of a run."""
    tx.run(_JOIN, id=wakeup_id, run_id=run_id, status=status)


_PROMPTED = Statement(
    "UPDATE wakeup_requests SET delivered_attempt = :attempt WHERE run_id = :run_id AND finished_at IS NULL"
)


def mark_prompted(tx: Tx, run_id: str, attempt: int) -> None:
    """The prompt of this attempt holds every open request of the run."""
    tx.run(_PROMPTED, run_id=run_id, attempt=attempt)


_DELIVERED = Statement(
    "UPDATE wakeup_requests SET delivered_at = :now WHERE run_id = :run_id AND finished_at IS NULL"
    " AND delivered_attempt = :attempt"
)


def mark_delivered(tx: Tx, run_id: str, attempt: int) -> None:
    """The prompt of this attempt was handed to the agent."""
    tx.run(_DELIVERED, run_id=run_id, attempt=attempt, now=tx.now)


_END = Statement(
    "UPDATE wakeup_requests SET status = CASE WHEN status = 'coalesced' THEN status ELSE :status END,"
    " ending = :ending, reason = :reason, finished_at = :now WHERE id = :id AND finished_at IS NULL"
)


def end(tx: Tx, wakeup_id: str, *, status: WakeupStatus, ending: Ending, reason: str | None) -> bool:
    """End a request, once; a coalesced one keeps that word as its status."""
    return bool(tx.run(_END, id=wakeup_id, status=status, ending=ending, reason=reason, now=tx.now))


_RECENT = Sql(
    "SELECT * FROM wakeup_requests WHERE (:workspace_id IS NULL OR workspace_id = :workspace_id)"
    " AND (:agent_id IS NULL OR agent_id = :agent_id) ORDER BY requested_at DESC, id DESC LIMIT :limit",
    WakeupRequest,
)


def recent(
    reader: Reader, *, workspace_id: str | None, agent_id: str | None, limit: int
) -> list[WakeupRequest]:
    """The newest requests, newest first."""
    return reader.all(_RECENT, workspace_id=workspace_id, agent_id=agent_id, limit=limit)


_STRANDED = Sql(
    "SELECT * FROM wakeup_requests WHERE finished_at IS NULL AND run_id IS NULL AND held_by IS NULL"
    " AND requested_at <= :before ORDER BY requested_at, id LIMIT :limit",
    WakeupRequest,
)


def stranded(reader: Reader, *, before: int, limit: int) -> list[WakeupRequest]:
    """Requests that no run holds and nothing explains; in a healthy system there are none."""
    return reader.all(_STRANDED, before=before, limit=limit)


_OPEN_OF_AGENT = Sql(
    "SELECT * FROM wakeup_requests WHERE agent_id = :agent_id AND finished_at IS NULL"
    " ORDER BY requested_at, id",
    WakeupRequest,
)


def open_of_agent(reader: Reader, agent_id: str) -> list[WakeupRequest]:
    """Everything that an agent still has to be told."""
    return reader.all(_OPEN_OF_AGENT, agent_id=agent_id)


_OPEN_OF_ROUTINE = Sql(
    "SELECT * FROM wakeup_requests WHERE routine_id = :routine_id AND finished_at IS NULL"
    " ORDER BY requested_at, id",
    WakeupRequest,
)


def open_of_routine(reader: Reader, routine_id: str) -> list[WakeupRequest]:
    """The open requests that a routine made."""
    return reader.all(_OPEN_OF_ROUTINE, routine_id=routine_id)
