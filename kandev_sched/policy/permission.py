"""Permission: what a role may do, and whether an execution scope still holds (S1 Execution scope)."""

from __future__ import annotations

from kandev_sched.domain.workspaces import Permission, Role

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.domain.workspaces import Principal, Workspace

GRANTS: dict[Role, frozenset[Permission]] = {
    Role.OWNER: frozenset(Permission),
    Role.OPERATOR: frozenset({Permission.RUNS_EXECUTE, Permission.DEFINITIONS_WRITE, Permission.RUNS_READ}),
    Role.VIEWER: frozenset({Permission.RUNS_READ}),
}


def why_denied(principal: Principal | None, workspace: Workspace, permission: Permission) -> str | None:
    """Why the principal may not, in a sentence; None when it may. A missing principal never may."""
    if not workspace.enabled:
        return f"workspace {workspace.name} is disabled"
    if principal is None:
        return "nobody stands for it: the trigger has no execution scope"
    if not principal.enabled:
        return f"principal {principal.name} is disabled"
    if principal.role is None:
        return f"principal {principal.name} is no member of workspace {workspace.name}"
    if permission not in GRANTS[principal.role]:
        return f"principal {principal.name} is {principal.role}, which does not grant {permission}"
    return None
