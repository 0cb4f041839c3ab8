"""Workspaces and projects: add, list, set, pause, resume."""

from __future__ import annotations

from kandev_sched.domain.agents import Executor
from kandev_sched.domain.errors import Conflict
from kandev_sched.domain.record import Record
from kandev_sched.domain.workspaces import Project, Workspace
from kandev_sched.operations import lookup
from kandev_sched.policy import naming, zones
from kandev_sched.store import workspaces
from kandev_sched.store.db import Reader, Tx

LOOKBACK_HOURS = (1, 720)


class AddWorkspace(Record):
    """A new workspace."""

    name: str
    time_zone: str = "UTC"


def add_workspace(tx: Tx, command: AddWorkspace) -> Workspace:
    """Raises Conflict when the name is taken."""
    if workspaces.by_name(tx, command.name) is not None:
        raise Conflict(f"there is a workspace {command.name!r} already", hint="choose another name")
    workspace = lookup.create_workspace(tx, command.name).replace(time_zone=zones.zone(command.time_zone).key)
    workspaces.save(tx, workspace)
    return workspace


class SetWorkspace(Record):
    """Change what is given, leave the rest."""

    name: str
    time_zone: str | None = None
    recovery_lookback_hours: int | None = None
    default_profile: str | None = None
    default_executor: str | None = None
    enabled: bool | None = None


def set_workspace(tx: Tx, command: SetWorkspace) -> Workspace:
    """The lookback is clamped to 1 to 720 hours (S0 Recovery sweep)."""
    workspace = lookup.workspace_for_writing(tx, command.name)
    if command.time_zone is not None:
        workspace = workspace.replace(time_zone=zones.zone(command.time_zone).key)
    if command.recovery_lookback_hours is not None:
        low, high = LOOKBACK_HOURS
        workspace = workspace.replace(
            recovery_lookback_hours=min(max(command.recovery_lookback_hours, low), high)
        )
    if command.default_profile is not None:
        profile = lookup.the_profile(tx, workspace, command.default_profile)
        workspace = workspace.replace(default_profile_id=profile.id)
    if command.default_executor is not None:
        executor = lookup.the_executor(tx, workspace, command.default_executor)
        workspace = workspace.replace(default_executor_id=executor.id)
    if command.enabled is not None:
        workspace = workspace.replace(enabled=command.enabled)
    return _saved(tx, workspace)


def pause_workspace(tx: Tx, name: str) -> Workspace:
    """Nothing of the workspace is claimed until it is resumed; the queue is kept."""
    workspace = lookup.workspace_for_writing(tx, name)
    return _saved(tx, workspace.replace(paused_at=workspace.paused_at or tx.now))


def resume_workspace(tx: Tx, name: str) -> Workspace:
    """Undo `pause_workspace`."""
    return _saved(tx, lookup.workspace_for_writing(tx, name).replace(paused_at=None))


def _saved(tx: Tx, workspace: Workspace) -> Workspace:
    workspaces.save(tx, workspace)
    tx.wake_supervisor()
    return workspace.replace(updated_at=tx.now)


def list_workspaces(reader: Reader) -> list[Workspace]:
    """All workspaces, by name."""
    return workspaces.every(reader)


class AddProject(Record):
    """A new project; tasks in it are Office tasks."""

    workspace: str = lookup.DEFAULT_WORKSPACE
    name: str
    executor: str | None = None


def add_project(tx: Tx, command: AddProject) -> Project:
    """Raises Conflict when the name is taken."""
    workspace = lookup.workspace_for_writing(tx, command.workspace)
    name = naming.checked_name("project", command.name)
    if any(project.name == name for project in workspaces.projects(tx, workspace.id)):
        raise Conflict(f"there is a project {name!r} already", hint="choose another name")
    executor = lookup.the_executor(tx, workspace, command.executor) if command.executor else None
    project = Project(
        id=tx.new_id("pj"),
        workspace_id=workspace.id,
        name=name,
        executor_id=executor.id if executor else None,
        created_at=tx.now,
    )
    workspaces.add_project(tx, project)
    return project


def list_projects(reader: Reader, *, workspace: str) -> list[Project]:
    """The projects of a workspace, by name."""
    return workspaces.projects(reader, lookup.the_workspace(reader, workspace).id)


def list_executors(reader: Reader, *, workspace: str) -> list[Executor]:
    """The executors of a workspace, by name."""
    return workspaces.executors(reader, lookup.the_workspace(reader, workspace).id)
