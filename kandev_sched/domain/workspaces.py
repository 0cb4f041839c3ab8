"""Workspaces, who acts in them, and the projects that group their tasks."""

from __future__ import annotations

from enum import StrEnum

from kandev_sched.domain.record import Record


class Workspace(Record):
    """A closed world of agents, routines and tasks; nothing is delivered across workspaces (I12)."""

    id: str
    name: str
    enabled: bool = True
    paused_at: int | None = None
    time_zone: str = "UTC"
    recovery_lookback_hours: int = 24
    office_workflow_id: str | None = None
    default_profile_id: str | None = None
    default_executor_id: str | None = None
    created_at: int
    updated_at: int


class PrincipalKind(StrEnum):
    """Who may ask for something."""

    PERSON = "person"
    AGENT = "agent"
    SYSTEM = "system"


class Role(StrEnum):
    """What a member of a workspace may do; `policy.permission` says what each grants."""

    OWNER = "owner"
    OPERATOR = "operator"
    VIEWER = "viewer"


class Permission(StrEnum):
    """What can be granted."""

    RUNS_EXECUTE = "runs:execute"
    RUNS_READ = "runs:read"
    DEFINITIONS_WRITE = "definitions:write"
    MEMBERS_WRITE = "members:write"


class Principal(Record):
    """Someone on whose behalf work is started; without a role it is no member of its workspace."""

    id: str
    workspace_id: str
    name: str
    kind: PrincipalKind
    enabled: bool = True
    created_at: int
    role: Role | None = None


class Project(Record):
    """A group of tasks; its executor may serve agents that have none."""

    id: str
    workspace_id: str
    name: str
    executor_id: str | None = None
    created_at: int
    archived_at: int | None = None
