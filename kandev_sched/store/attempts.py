"""What an attempt leaves beside its run: its steps (the trace) and its session."""

from __future__ import annotations

from kandev_sched.domain.runs import RunStep, Session
from kandev_sched.store.sql import Sql, Statement, insert_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from kandev_sched.domain.runs import Run, SessionState
    from kandev_sched.store.db import Reader, Tx

_ADD_SESSION = insert_of("sessions", Session)
_ADD_STEP = insert_of("run_steps", RunStep, verb="INSERT OR REPLACE")


def add_steps(tx: Tx, steps: Iterable[RunStep]) -> None:
    """Write lines of a run's trace."""
    for step in steps:
        tx.insert(_ADD_STEP, step)


_STEPS = Sql("SELECT * FROM run_steps WHERE run_id = :run_id ORDER BY attempt, position", RunStep)


def steps(reader: Reader, run_id: str) -> list[RunStep]:
    """The trace of a run, all attempts."""
    return reader.all(_STEPS, run_id=run_id)


def add_session(tx: Tx, session: Session) -> None:
    """Insert a session."""
    tx.insert(_ADD_SESSION, session)


_SESSION_STATE = Statement(
    "UPDATE sessions SET state = :state, ended_at = CASE WHEN :state = 'ENDED' THEN :now END"
    " WHERE run_id = :run_id AND attempt = :attempt AND ended_at IS NULL"
)


def set_session_state(tx: Tx, run: Run, state: SessionState) -> None:
    """Move the session of a run's attempt."""
    tx.run(_SESSION_STATE, run_id=run.id, attempt=run.attempt, state=state, now=tx.now)


_SESSIONS = Sql(
    "SELECT * FROM sessions WHERE (:workspace_id IS NULL OR workspace_id = :workspace_id)"
    " ORDER BY created_at DESC, id DESC LIMIT :limit",
    Session,
)


def sessions(reader: Reader, *, workspace_id: str | None, limit: int) -> list[Session]:
    """The newest sessions."""
    return reader.all(_SESSIONS, workspace_id=workspace_id, limit=limit)
