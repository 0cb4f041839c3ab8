"""Workspaces, principals, projects and executors."""

from __future__ import annotations

from kandev_sched.domain.agents import Executor
from kandev_sched.domain.workspaces import Principal, Project, Workspace
from kandev_sched.store.sql import Sql, Statement, insert_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.store.db import Reader, Tx

_ADD = insert_of("workspaces", Workspace)
_ADD_PRINCIPAL = insert_of("principals", Principal)
_ADD_PROJECT = insert_of("projects", Project)
_ADD_EXECUTOR = insert_of("executors", Executor)


def add(tx: Tx, workspace: Workspace) -> None:
    """Insert a workspace."""
    tx.insert(_ADD, workspace)


def add_principal(tx: Tx, principal: Principal) -> None:
    """Insert a principal."""
    tx.insert(_ADD_PRINCIPAL, principal)


def add_project(tx: Tx, project: Project) -> None:
    """Insert a project."""
    tx.insert(_ADD_PROJECT, project)


def add_executor(tx: Tx, executor: Executor) -> None:
    """Insert an executor."""
    tx.insert(_ADD_EXECUTOR, executor)


_BY_NAME = Sql("SELECT * FROM workspaces WHERE name = :name", Workspace)


def by_name(reader: Reader, name: str) -> Workspace | None:
    """The workspace of that name."""
    return reader.one(_BY_NAME, name=name)


_BY_ID = Sql("SELECT * FROM workspaces WHERE id = :id", Workspace)


def by_id(reader: Reader, workspace_id: str) -> Workspace | None:
    """The workspace with that id."""
    return reader.one(_BY_ID, id=workspace_id)


_ALL = Sql("SELECT * FROM workspaces ORDER BY name", Workspace)


def every(reader: Reader) -> list[Workspace]:
    """All workspaces, by name."""
    return reader.all(_ALL)


_SET = Statement(
    "UPDATE workspaces SET enabled = :enabled, paused_at = :paused_at, time_zone = :time_zone,"
    " recovery_lookback_hours = :recovery_lookback_hours, default_profile_id = :default_profile_id,"
    " default_executor_id = :default_executor_id, updated_at = :now WHERE id = :id"
)


def save(tx: Tx, workspace: Workspace) -> None:
    """Write what a person may change of a workspace."""
    tx.run(
        _SET,
        id=workspace.id,
        enabled=workspace.enabled,
        paused_at=workspace.paused_at,
        time_zone=workspace.time_zone,
        recovery_lookback_hours=workspace.recovery_lookback_hours,
        default_profile_id=workspace.default_profile_id,
        default_executor_id=workspace.default_executor_id,
        now=tx.now,
    )


_EXECUTOR = Sql("SELECT * FROM executors WHERE id = :id", Executor)


def executor(reader: Reader, executor_id: str) -> Executor | None:
    """The executor with that id."""
    return reader.one(_EXECUTOR, id=executor_id)


_EXECUTORS = Sql("SELECT * FROM executors WHERE workspace_id = :workspace_id ORDER BY name", Executor)


def executors(reader: Reader, workspace_id: str) -> list[Executor]:
    """The executors of a workspace."""
    return reader.all(_EXECUTORS, workspace_id=workspace_id)


_PROJECT = Sql("SELECT * FROM projects WHERE id = :id", Project)


def project(reader: Reader, project_id: str) -> Project | None:
    """The project with that id."""
    return reader.one(_PROJECT, id=project_id)


_PROJECTS = Sql("SELECT * FROM projects WHERE workspace_id = :workspace_id ORDER BY name", Project)


def projects(reader: Reader, workspace_id: str) -> list[Project]:
    """The projects of a workspace."""
    return reader.all(_PROJECTS, workspace_id=workspace_id)


_PRINCIPAL = Sql("SELECT * FROM principals WHERE id = :id", Principal)


def principal(reader: Reader, principal_id: str) -> Principal | None:
    """The principal with that id."""
    return reader.one(_PRINCIPAL, id=principal_id)


_PRINCIPAL_NAMED = Sql(
    "SELECT * FROM principals WHERE workspace_id = :workspace_id AND name = :name", Principal
)


def principal_named(reader: Reader, *, workspace_id: str, name: str) -> Principal | None:
    """The principal of that name."""
    return reader.one(_PRINCIPAL_NAMED, workspace_id=workspace_id, name=name)


_SET_PRINCIPAL = Statement("UPDATE principals SET enabled = :enabled, role = :role WHERE id = :id")


def save_principal(tx: Tx, principal: Principal) -> None:
    """Write what may change of a principal: whether it may act, and as what."""
    tx.run(_SET_PRINCIPAL, id=principal.id, enabled=principal.enabled, role=principal.role)


_PRINCIPALS = Sql("SELECT * FROM principals WHERE workspace_id = :workspace_id ORDER BY name", Principal)


def principals(reader: Reader, workspace_id: str) -> list[Principal]:
    """The principals of a workspace."""
    return reader.all(_PRINCIPALS, workspace_id=workspace_id)
