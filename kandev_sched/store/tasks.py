"""Tasks, their participants and their checkout."""

from __future__ import annotations

from kandev_sched.domain.tasks import Task
from kandev_sched.domain.wakeups import Capacity
from kandev_sched.store.sql import Sql, Statement, insert_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.domain.tasks import TaskState
    from kandev_sched.store.db import Reader, Tx

_ADD = insert_of("tasks", Task)


def add(tx: Tx, task: Task) -> None:
    """Insert a task."""
    tx.insert(_ADD, task)


_BY_ID = Sql("SELECT * FROM tasks WHERE id = :id", Task)


def by_id(reader: Reader, task_id: str) -> Task | None:
    """The task with that id."""
    return reader.one(_BY_ID, id=task_id)


_OF_WORKSPACE = Sql(
    "SELECT * FROM tasks WHERE workspace_id = :workspace_id AND (archived_at IS NULL OR :archived)"
    " ORDER BY created_at, id",
    Task,
)


def of_workspace(reader: Reader, workspace_id: str, *, archived: bool) -> list[Task]:
    """The tasks of a workspace, oldest first."""
    return reader.all(_OF_WORKSPACE, workspace_id=workspace_id, archived=archived)


_SET_STATE = Statement("UPDATE tasks SET state = :state, updated_at = :now WHERE id = :id")


def set_state(tx: Tx, task_id: str, state: TaskState) -> None:
    """Move a task."""
    tx.run(_SET_STATE, id=task_id, state=state, now=tx.now)


_ASSIGN = Statement(
    "UPDATE tasks SET assignee_agent_id = :agent_id, assignment_count = assignment_count + 1,"
    " updated_at = :now WHERE id = :id"
)


def assign(tx: Tx, task_id: str, agent_id: str | None) -> None:
    """Give a task to an agent, or to nobody."""
    tx.run(_ASSIGN, id=task_id, agent_id=agent_id, now=tx.now)


_ACTIONABLE = Statement(
    "SELECT count(*) FROM tasks WHERE assignee_agent_id = :agent_id AND state IN ('TODO', 'IN_PROGRESS')"
    " AND archived_at IS NULL"
)


def count_actionable(reader: Reader, agent_id: str) -> int:
    """S0 Idle wakeup skip: a single indexed count."""
    return int(reader.value(_ACTIONABLE, agent_id=agent_id))


_CHECK_OUT = Statement(
    "UPDATE tasks SET checkout_agent_id = :agent_id, checkout_run_id = :run_id, checkout_at = :now"
    " WHERE id = :task_id AND checkout_run_id IS NULL"
)


def check_out(tx: Tx, *, task_id: str, agent_id: str, run_id: str) -> bool:
    """S0 Atomic task checkout, by compare-and-set; False when another run holds the task."""
    return bool(tx.run(_CHECK_OUT, task_id=task_id, agent_id=agent_id, run_id=run_id, now=tx.now))


_FREE = Statement(
    "UPDATE tasks SET checkout_agent_id = NULL, checkout_run_id = NULL, checkout_at = NULL"
    " WHERE checkout_run_id = :run_id"
)


def free_checkout(tx: Tx, run_id: str) -> None:
    """No checkout outlives its run (I4)."""
    tx.run(_FREE, run_id=run_id)


_CAPACITIES = Statement(
    "SELECT capacity FROM task_participants WHERE task_id = :task_id AND agent_id = :agent_id"
)


def capacities(reader: Reader, *, task_id: str, agent_id: str) -> frozenset[Capacity]:
    """As what an agent takes part in a task, besides being its assignee."""
    return frozenset(Capacity(row[0]) for row in reader.rows(_CAPACITIES, task_id=task_id, agent_id=agent_id))


_ADD_PARTICIPANT = Statement(
    "INSERT INTO task_participants (task_id, agent_id, capacity) VALUES (:task_id, :agent_id, :capacity)"
    " ON CONFLICT DO NOTHING"
)


def add_participant(tx: Tx, *, task_id: str, agent_id: str, capacity: Capacity) -> None:
    """Make an agent a reviewer or an approver of a task."""
    tx.run(_ADD_PARTICIPANT, task_id=task_id, agent_id=agent_id, capacity=capacity)


_REMOVE_PARTICIPANT = Statement(
    "DELETE FROM task_participants WHERE task_id = :task_id AND agent_id = :agent_id AND capacity = :capacity"
)


def remove_participant(tx: Tx, *, task_id: str, agent_id: str, capacity: Capacity) -> None:
    """Undo `add_participant`."""
    tx.run(_REMOVE_PARTICIPANT, task_id=task_id, agent_id=agent_id, capacity=capacity)
