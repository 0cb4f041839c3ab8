"""Tasks: what agents work on, who holds one, and the states of S0."""

from __future__ import annotations

from enum import StrEnum

from kandev_sched.domain.record import Record


class TaskState(StrEnum):
    """Archived is a timestamp, not a state."""

    TODO = "TODO"
    IN_PROGRESS = "IN_PROGRESS"
    IN_REVIEW = "IN_REVIEW"
    BLOCKED = "BLOCKED"
    DONE = "DONE"
    CANCELLED = "CANCELLED"


ACTIONABLE = frozenset({TaskState.TODO, TaskState.IN_PROGRESS})
TERMINAL = frozenset({TaskState.DONE, TaskState.CANCELLED})


class Task(Record):
    """A piece of work. `checkout_run_id` is the one run that holds it (I4)."""

    id: str
    workspace_id: str
    project_id: str | None = None
    workflow_id: str | None = None
    parent_id: str | None = None
    title: str
    description: str = ""
    state: TaskState = TaskState.TODO
    assignee_agent_id: str | None = None
    assignment_count: int = 0
    executor_id: str | None = None
    checkout_agent_id: str | None = None
    checkout_run_id: str | None = None
    checkout_at: int | None = None
    created_at: int
    updated_at: int
    archived_at: int | None = None


def is_closed(task: Task) -> bool:
    """DONE, CANCELLED or archived: nobody is woken for it any more (S0 Staleness check)."""
    return task.state in TERMINAL or task.archived_at is not None
