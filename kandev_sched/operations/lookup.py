"""What a person named → the thing: by name, by id, or by an unambiguous beginning of an id (cli.md)."""

from __future__ import annotations

from kandev_sched.domain.agents import Executor, ExecutorKind
from kandev_sched.domain.errors import Denied, Invalid, NotFound
from kandev_sched.domain.workspaces import Permission, Principal, PrincipalKind, Role, Workspace
from kandev_sched.policy.naming import checked_name, looks_like_id, suggestion
from kandev_sched.policy.permission import why_denied
from kandev_sched.store import agents, lookup, routines, runs, tasks, triggers, wakeups, workspaces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    from kandev_sched.domain.agents import Agent, Profile
    from kandev_sched.domain.routines import Routine, RoutineRun
    from kandev_sched.domain.runs import Run
    from kandev_sched.domain.schedules import Trigger
    from kandev_sched.domain.tasks import Task
    from kandev_sched.domain.wakeups import WakeupRequest
    from kandev_sched.domain.workspaces import Project
    from kandev_sched.store.db import Reader, Tx

    T = TypeVar("T")

DEFAULT_WORKSPACE = "default"


def the_workspace(reader: Reader, name: str) -> Workspace:
    """The workspace of that name. Raises NotFound."""
    found = workspaces.by_name(reader, name)
    if found is None:
        names = [workspace.name for workspace in workspaces.every(reader)]
        raise NotFound(f"there is no workspace {name!r:.60}", hint=suggestion(name, names, kind="workspace"))
    return found


def zone_shown(reader: Reader, name: str) -> str | None:
    """The zone in which a workspace reads the clock; None when it has set none."""
    workspace = workspaces.by_name(reader, name)
    return None if workspace is None or workspace.time_zone == "UTC" else workspace.time_zone


def workspace_for_writing(tx: Tx, name: str) -> Workspace:
    """As `the_workspace`; the default workspace is made on first use."""
    found = workspaces.by_name(tx, name)
    if found is not None:
        return found
    return create_workspace(tx, name) if name == DEFAULT_WORKSPACE else the_workspace(tx, name)


def create_workspace(tx: Tx, name: str) -> Workspace:
    """A workspace with this machine as its default executor, and the person who uses it."""
    workspace = Workspace(
        id=tx.new_id("ws"), name=checked_name("workspace", name), created_at=tx.now, updated_at=tx.now
    )
    workspaces.add(tx, workspace)
    local = Executor(
        id=tx.new_id("ex"),
        workspace_id=workspace.id,
        name="local",
        kind=ExecutorKind.LOCAL,
        created_at=tx.now,
    )
    workspaces.add_executor(tx, local)
    person = Principal(
        id=tx.new_id("pr"),
        workspace_id=workspace.id,
        name=tx.host.user(),
        kind=PrincipalKind.PERSON,
        created_at=tx.now,
        role=Role.OWNER,
    )
    workspaces.add_principal(tx, person)
    workspace = workspace.replace(default_executor_id=local.id)
    workspaces.save(tx, workspace)
    return workspace


def acting_principal(tx: Tx, workspace_id: str, permission: Permission) -> Principal:
    """Who acts: the person at the machine. Raises Denied unless it is a member that may."""
    workspace = workspaces.by_id(tx, workspace_id)
    assert workspace is not None
    name = tx.host.user()
    principal = workspaces.principal_named(tx, workspace_id=workspace_id, name=name)
    if principal is None:
        hint = f"an owner adds you: sched workspace member {name} --role operator"
        raise Denied(f"{name} is no member of workspace {workspace.name}", hint=hint)
    denied = why_denied(principal, workspace, permission)
    if denied is not None:
        raise Denied(denied)
    return principal


def the_agent(reader: Reader, workspace: Workspace, text: str) -> Agent:
    """A living agent of the workspace. Raises NotFound."""
    named = agents.by_name(reader, workspace_id=workspace.id, name=text)
    found = named or _by_id(reader, "agents", text, workspace, agents.by_id)
    if found is None or found.archived_at is not None:
        names = [agent.name for agent in agents.of_workspace(reader, workspace.id)]
        raise _unknown("agent", text, workspace, names)
    return found


def the_routine(reader: Reader, workspace: Workspace, text: str) -> Routine:
    """A living routine of the workspace; `namespace/name` names one outside `default`. Raises NotFound."""
    namespace, slash, name = text.rpartition("/")
    named = routines.by_name(
        reader, workspace_id=workspace.id, name=name, namespace=namespace if slash else "default"
    )
    found = named or _by_id(reader, "routines", text, workspace, routines.by_id)
    if found is None or found.archived_at is not None:
        names = [routine.name for routine in routines.of_workspace(reader, workspace.id)]
        raise _unknown("routine", text, workspace, names)
    return found


def the_profile(reader: Reader, workspace: Workspace, text: str) -> Profile:
    """A profile of the workspace. Raises NotFound."""
    return _of_list("profile", text, workspace, agents.profiles(reader, workspace.id))


def the_executor(reader: Reader, workspace: Workspace, text: str) -> Executor:
    """An executor of the workspace. Raises NotFound."""
    return _of_list("executor", text, workspace, workspaces.executors(reader, workspace.id))


def the_project(reader: Reader, workspace: Workspace, text: str) -> Project:
    """A project of the workspace. Raises NotFound."""
    return _of_list("project", text, workspace, workspaces.projects(reader, workspace.id))


def the_task(reader: Reader, workspace: Workspace, text: str) -> Task:
    """A task of the workspace, by id. Raises NotFound."""
    found = _by_id(reader, "tasks", text, workspace, tasks.by_id)
    if found is None:
        raise _unknown("task", text, workspace, [])
    return found


def the_trigger(reader: Reader, workspace: Workspace, text: str) -> Trigger:
    """A trigger of the workspace, by id. Raises NotFound."""
    found = _by_id(reader, "triggers", text, workspace, triggers.by_id)
    if found is None:
        raise _unknown("trigger", text, workspace, [])
    return found


def the_run(reader: Reader, text: str) -> Run:
    """A run of any workspace, by id. Raises NotFound."""
    found = _by_id(reader, "runs", text, None, runs.by_id)
    if found is None:
        raise NotFound(f"there is no run {text!r:.60}", hint="`sched inspect runs` lists them")
    return found


def the_wakeup(reader: Reader, text: str) -> WakeupRequest:
    """A wakeup request of any workspace, by id. Raises NotFound."""
    found = _by_id(reader, "wakeup_requests", text, None, wakeups.by_id)
    if found is None:
        raise NotFound(f"there is no wakeup {text!r:.60}", hint="`sched inspect wakeups` lists them")
    return found


def the_routine_run(reader: Reader, text: str) -> RoutineRun:
    """A routine run of any workspace, by id. Raises NotFound."""
    found = _by_id(reader, "routine_runs", text, None, routines.run_by_id)
    if found is None:
        raise NotFound(
            f"there is no routine run {text!r:.60}", hint="`sched inspect routine-runs` lists them"
        )
    return found


def _by_id(
    reader: Reader,
    table: str,
    text: str,
    workspace: Workspace | None,
    by_id: Callable[[Reader, str], T | None],
) -> T | None:
    if "_" not in text or not text.isprintable():
        return None
    if looks_like_id(text):
        whole = by_id(reader, text)
        return whole if whole is None or workspace is None or _is_of(whole, workspace) else None
    ids = lookup.ids_with_prefix(reader, table, text, workspace_id=workspace.id if workspace else None)
    if len(ids) > 1 and text not in ids:
        raise Invalid(
            f"{text!r:.60} is the beginning of several ids", hint=f"for example {ids[0]} and {ids[1]}"
        )
    return by_id(reader, text if text in ids else ids[0]) if ids else None


def _is_of(thing: object, workspace: Workspace) -> bool:
    return getattr(thing, "workspace_id", None) == workspace.id


def _of_list(kind: str, text: str, workspace: Workspace, things: Iterable[T]) -> T:
    known = list(things)
    named = [thing for thing in known if text in (thing.name, thing.id)]  # type: ignore[attr-defined]
    begun = [thing for thing in known if "_" in text and thing.id.startswith(text)]  # type: ignore[attr-defined]
    for found in (named, begun):
        if len(found) == 1:
            return found[0]
    raise _unknown(kind, text, workspace, [thing.name for thing in known])  # type: ignore[attr-defined]


def _unknown(kind: str, text: str, workspace: Workspace, names: Iterable[str]) -> NotFound:
    return NotFound(
        f"there is no {kind} {text!r:.60} in workspace {workspace.name}",
        hint=suggestion(text, names, kind=kind),
    )
