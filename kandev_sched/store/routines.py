"""Routines and routine runs (the occurrences)."""

from __future__ import annotations

from kandev_sched.domain.routines import Routine, RoutineRun
from kandev_sched.store.sql import Sql, Statement, insert_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.domain.routines import RoutineRunStatus
    from kandev_sched.store.db import Reader, Tx

_ADD = insert_of("routines", Routine)
_ADD_RUN = insert_of("routine_runs", RoutineRun)


def add(tx: Tx, routine: Routine) -> None:
    """Insert a routine."""
    tx.insert(_ADD, routine)


_BY_ID = Sql("SELECT * FROM routines WHERE id = :id", Routine)


def by_id(reader: Reader, routine_id: str) -> Routine | None:
    """The routine with that id, archived ones too."""
    return reader.one(_BY_ID, id=routine_id)


_BY_NAME = Sql(
    "SELECT * FROM routines WHERE workspace_id = :workspace_id AND namespace = :namespace AND name = :name"
    " AND archived_at IS NULL",
    Routine,
)


def by_name(reader: Reader, *, workspace_id: str, name: str, namespace: str = "default") -> Routine | None:
    """The living routine of that name."""
    return reader.one(_BY_NAME, workspace_id=workspace_id, namespace=namespace, name=name)


_OF_WORKSPACE = Sql(
    "SELECT * FROM routines WHERE workspace_id = :workspace_id AND archived_at IS NULL"
    " ORDER BY namespace, name",
    Routine,
)


def of_workspace(reader: Reader, workspace_id: str) -> list[Routine]:
    """The living routines of a workspace, by name."""
    return reader.all(_OF_WORKSPACE, workspace_id=workspace_id)


_SET = Statement(
    "UPDATE routines SET description = :description, agent_id = :agent_id, status = :status,"
    " concurrency_policy = :concurrency_policy, catch_up_policy = :catch_up_policy,"
    " catch_up_max = :catch_up_max, misfire_grace_s = :misfire_grace_s, task_title = :task_title,"
    " catch_up_max_age_s = :catch_up_max_age_s, status_note = :status_note,"
    " task_description = :task_description, variables = :variables, generation = generation + 1,"
    " updated_at = :now, archived_at = CASE WHEN :status = 'archived' THEN :now END WHERE id = :id"
)


def save(tx: Tx, routine: Routine) -> None:
    """Write a changed definition; its generation rises."""
    tx.run(
        _SET,
        id=routine.id,
        description=routine.description,
        agent_id=routine.agent_id,
        status=routine.status,
        concurrency_policy=routine.concurrency_policy,
        catch_up_policy=routine.catch_up_policy,
        catch_up_max=routine.catch_up_max,
        misfire_grace_s=routine.misfire_grace_s,
        catch_up_max_age_s=routine.catch_up_max_age_s,
        status_note=routine.status_note,
        task_title=routine.task_title,
        task_description=routine.task_description,
        variables=routine.variables,
        now=tx.now,
    )


def add_run(tx: Tx, routine_run: RoutineRun) -> None:
    """Insert an occurrence. Its id and its key exist once, for ever (I2)."""
    tx.insert(_ADD_RUN, routine_run)


_RUN_BY_ID = Sql("SELECT * FROM routine_runs WHERE id = :id", RoutineRun)


def run_by_id(reader: Reader, routine_run_id: str) -> RoutineRun | None:
    """The routine run with that id."""
    return reader.one(_RUN_BY_ID, id=routine_run_id)


_RUN_BY_KEY = Sql(
    "SELECT * FROM routine_runs WHERE routine_id = :routine_id AND idempotency_key = :key", RoutineRun
)


def run_by_key(reader: Reader, *, routine_id: str, key: str) -> RoutineRun | None:
    """The routine run that used the key."""
    return reader.one(_RUN_BY_KEY, routine_id=routine_id, key=key)


# S0: "active" means that its run (its own, or the one it was coalesced into) or its task is not terminal.
# A request is open exactly as long as its run is; a task counts by its state, never by its age.
_ACTIVE = Sql(
    "SELECT rr.* FROM wakeup_requests w JOIN routine_runs rr ON rr.id = w.routine_run_id"
    " WHERE w.routine_id = :routine_id AND w.finished_at IS NULL AND rr.dispatch_fingerprint = :fingerprint"
    " AND rr.linked_task_id IS NULL"
    " UNION ALL "
    "SELECT rr.* FROM routine_runs rr JOIN tasks t ON t.id = rr.linked_task_id"
    " WHERE rr.routine_id = :routine_id AND rr.dispatch_fingerprint = :fingerprint"
    " AND rr.status = 'task_created'"
    " AND t.state NOT IN ('DONE', 'CANCELLED') AND t.archived_at IS NULL"
    " LIMIT 1",
    RoutineRun,
)


def active_run(reader: Reader, *, routine_id: str, fingerprint: str) -> RoutineRun | None:
    """The oldest active occurrence of the same fingerprint (S0 Concurrency policy)."""
    return reader.one(_ACTIVE, routine_id=routine_id, fingerprint=fingerprint)


_LINK = Statement(
    "UPDATE routine_runs SET wakeup_id = :wakeup_id, coalesced_into_run_id = :run_id,"
    " linked_task_id = :task_id,"
    " status = :status, reason = :reason, finished_at = :finished_at WHERE id = :id"
)


def link_run(
    tx: Tx,
    routine_run_id: str,
    *,
    status: RoutineRunStatus,
    reason: str | None = None,
    wakeup_id: str | None = None,
    coalesced_into_run_id: str | None = None,
    task_id: str | None = None,
    finished_at: int | None = None,
) -> None:
    """Record what became of an occurrence within its fire."""
    tx.run(
        _LINK,
        id=routine_run_id,
        status=status,
        reason=reason,
        wakeup_id=wakeup_id,
        run_id=coalesced_into_run_id,
        task_id=task_id,
        finished_at=finished_at,
    )


_END_OF_WAKEUP = Statement(
    "UPDATE routine_runs SET status = :status, reason = :reason, finished_at = :now"
    " WHERE wakeup_id = :wakeup_id AND status = 'received'"
)


def end_runs_of_wakeup(tx: Tx, wakeup_id: str, status: RoutineRunStatus, *, reason: str | None) -> None:
    """A lightweight routine run ends with its request."""
    tx.run(_END_OF_WAKEUP, wakeup_id=wakeup_id, status=status, reason=reason, now=tx.now)


_END_OF_TASK = Statement(
    "UPDATE routine_runs SET status = :status, finished_at = :now"
    " WHERE linked_task_id = :task_id AND status = 'task_created'"
)


def end_runs_of_task(tx: Tx, task_id: str, status: RoutineRunStatus) -> None:
    """A heavy routine run ends with its task."""
    tx.run(_END_OF_TASK, task_id=task_id, status=status, now=tx.now)


_RECENT_RUNS = Sql(
    "SELECT * FROM routine_runs WHERE workspace_id = :workspace_id"
    " AND (:routine_id IS NULL OR routine_id = :routine_id) ORDER BY fired_at DESC, id DESC LIMIT :limit",
    RoutineRun,
)


def recent_runs(reader: Reader, *, workspace_id: str, routine_id: str | None, limit: int) -> list[RoutineRun]:
    """The newest occurrences, newest first."""
    return reader.all(_RECENT_RUNS, workspace_id=workspace_id, routine_id=routine_id, limit=limit)


_LAST_RUN = Sql(
    "SELECT * FROM routine_runs WHERE routine_id = :routine_id ORDER BY fired_at DESC, id DESC LIMIT 1",
    RoutineRun,
)


def last_run(reader: Reader, routine_id: str) -> RoutineRun | None:
    """The newest occurrence of a routine."""
    return reader.one(_LAST_RUN, routine_id=routine_id)


_QUEUED = Statement(
    "SELECT count(DISTINCT w.run_id) FROM wakeup_requests w JOIN runs r ON r.id = w.run_id"
    " WHERE w.routine_id = :routine_id AND w.finished_at IS NULL AND r.status = 'queued'"
)


def count_queued_runs(reader: Reader, routine_id: str) -> int:
    """How many runs of a routine wait in the queue."""
    return int(reader.value(_QUEUED, routine_id=routine_id))
