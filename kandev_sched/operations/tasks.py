"""Tasks, plainly: add, assign, move. Events and Office rules come with the board."""

from __future__ import annotations

from kandev_sched.domain.errors import Conflict, Invalid
from kandev_sched.domain.record import Record
from kandev_sched.domain.routines import RoutineRunStatus
from kandev_sched.domain.tasks import Task, TaskState, is_closed
from kandev_sched.operations import lookup
from kandev_sched.policy import naming
from kandev_sched.store import routines, tasks
from kandev_sched.store.db import Reader, Tx


class AddTask(Record):
    """A new task."""

    workspace: str = lookup.DEFAULT_WORKSPACE
    title: str
    description: str = ""
    agent: str | None = None
    project: str | None = None
    parent: str | None = None


def add_task(tx: Tx, command: AddTask) -> Task:
    """Raises NotFound for the agent, project or parent, Invalid for the title."""
    workspace = lookup.workspace_for_writing(tx, command.workspace)
    agent = lookup.the_agent(tx, workspace, command.agent) if command.agent else None
    project = lookup.the_project(tx, workspace, command.project) if command.project else None
    parent = lookup.the_task(tx, workspace, command.parent) if command.parent else None
    task = Task(
        id=tx.new_id("task"),
        workspace_id=workspace.id,
        project_id=project.id if project else None,
        parent_id=parent.id if parent else None,
        title=_checked_title(command.title),
        description=naming.checked_text("description", command.description),
        assignee_agent_id=agent.id if agent else None,
        assignment_count=1 if agent else 0,
        created_at=tx.now,
        updated_at=tx.now,
    )
    tasks.add(tx, task)
    return task


def _checked_title(title: str) -> str:
    if not title.strip():
        raise Invalid("the title is empty", hint="say in a few words what is to be done")
    if len(title) > 1000 or not title.isprintable():
        raise Invalid(
            f"{title[:40]!r}… cannot be a title", hint="at most 1000 printable characters, one line"
        )
    return title


def assign_task(tx: Tx, task: Task, agent_id: str | None) -> Task:
    """Give the task to another agent, or to nobody."""
    if is_closed(task):
        raise Conflict(f"task {task.id} is {task.state}", hint="move it back to TODO first")
    tasks.assign(tx, task.id, agent_id)
    return _again(tx, task)


def move_task(tx: Tx, task: Task, state: TaskState) -> Task:
    """Move the task; a heavy routine run ends with its task."""
    if task.archived_at is not None:
        raise Conflict(f"task {task.id} is archived")
    tasks.set_state(tx, task.id, state)
    if state is TaskState.DONE:
        routines.end_runs_of_task(tx, task.id, RoutineRunStatus.DONE)
    if state is TaskState.CANCELLED:
        routines.end_runs_of_task(tx, task.id, RoutineRunStatus.CANCELLED)
    return _again(tx, task)


def _again(tx: Tx, task: Task) -> Task:
    changed = tasks.by_id(tx, task.id)
    assert changed is not None
    return changed


def list_tasks(reader: Reader, *, workspace: str, archived: bool = False) -> list[Task]:
    """The tasks of a workspace, oldest first."""
    return tasks.of_workspace(reader, lookup.the_workspace(reader, workspace).id, archived=archived)
