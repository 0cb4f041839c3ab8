"""Principals: who may start work. `workspace member` gives a role, `principal disable` takes all away.

Who may write to the database file may change them: that is what owns a workspace on its machine.
"""

from __future__ import annotations

from kandev_sched.domain.errors import Conflict, NotFound
from kandev_sched.domain.record import Record
from kandev_sched.domain.workspaces import Principal, PrincipalKind, Role, Workspace
from kandev_sched.operations import lookup
from kandev_sched.policy import naming
from kandev_sched.store import activity, workspaces
from kandev_sched.store.db import Reader, Tx


class AddPrincipal(Record):
    """A new principal; without a role it is no member yet."""

    workspace: str = lookup.DEFAULT_WORKSPACE
    name: str
    kind: PrincipalKind = PrincipalKind.PERSON
    role: Role | None = None


def add_principal(tx: Tx, command: AddPrincipal) -> Principal:
    """Raises Conflict when the name is taken."""
    workspace = lookup.workspace_for_writing(tx, command.workspace)
    name = naming.checked_name("principal", command.name)
    if workspaces.principal_named(tx, workspace_id=workspace.id, name=name) is not None:
        raise Conflict(
            f"there is a principal {name!r} already", hint="`sched workspace member` changes its role"
        )
    principal = Principal(
        id=tx.new_id("pr"),
        workspace_id=workspace.id,
        name=name,
        kind=command.kind,
        created_at=tx.now,
        role=command.role,
    )
    workspaces.add_principal(tx, principal)
    _note(tx, principal, "is added")
    return principal


def set_member(tx: Tx, *, workspace: str, name: str, role: Role | None) -> Principal:
    """Give a principal a role, or none; a name that is new becomes a principal. Raises Conflict."""
    place = lookup.workspace_for_writing(tx, workspace)
    found = workspaces.principal_named(tx, workspace_id=place.id, name=name)
    if found is None:
        if role is None:
            raise _unknown(tx, place, name)
        return add_principal(tx, AddPrincipal(workspace=workspace, name=name, role=role))
    return _saved(tx, found.replace(role=role), f"is {role}" if role else "is no member any more")


def set_enabled(tx: Tx, *, workspace: str, name: str, enabled: bool) -> Principal:
    """Disabling takes effect at the next fire of each of its triggers (S1). Raises NotFound."""
    place = lookup.workspace_for_writing(tx, workspace)
    changed = the_principal(tx, place, name).replace(enabled=enabled)
    return _saved(tx, changed, "is enabled" if enabled else "is disabled")


def the_principal(reader: Reader, workspace: Workspace, name: str) -> Principal:
    """A principal of the workspace, by name or id. Raises NotFound."""
    known = workspaces.principals(reader, workspace.id)
    found = next((principal for principal in known if name in (principal.name, principal.id)), None)
    if found is None:
        raise _unknown(reader, workspace, name)
    return found


def list_principals(reader: Reader, *, workspace: str) -> list[Principal]:
    """The principals of a workspace, by name."""
    return workspaces.principals(reader, lookup.the_workspace(reader, workspace).id)


def _saved(tx: Tx, principal: Principal, what: str) -> Principal:
    workspaces.save_principal(tx, principal)
    _note(tx, principal, what)
    return principal


def _note(tx: Tx, principal: Principal, what: str) -> None:
    sentence = f"principal {principal.name} {what}"
    activity.record(tx, "principal_changed", sentence, workspace_id=principal.workspace_id)


def _unknown(reader: Reader, workspace: Workspace, name: str) -> NotFound:
    names = [principal.name for principal in workspaces.principals(reader, workspace.id)]
    hint = naming.suggestion(name, names, kind="principal")
    return NotFound(f"there is no principal {name!r:.60} in workspace {workspace.name}", hint=hint)
