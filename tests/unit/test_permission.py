"""Permission: what a role may do, and what closes it."""

from __future__ import annotations

import pytest

from kandev_sched.domain.workspaces import Permission, Principal, PrincipalKind, Role, Workspace
from kandev_sched.policy.permission import GRANTS, why_denied

WORKSPACE = Workspace(id="ws_1", name="home", created_at=0, updated_at=0)


def a_principal(**fields: object) -> Principal:
    plain = {
        "id": "pr_1",
        "workspace_id": "ws_1",
        "name": "ann",
        "kind": PrincipalKind.PERSON,
        "created_at": 0,
    }
    return Principal(**{**plain, "role": Role.OWNER, **fields})


@pytest.mark.parametrize(
    ("role", "may"),
    [
        (Role.OWNER, set(Permission)),
        (Role.OPERATOR, {Permission.RUNS_EXECUTE, Permission.DEFINITIONS_WRITE, Permission.RUNS_READ}),
        (Role.VIEWER, {Permission.RUNS_READ}),
    ],
)
def test_a_role_grants_what_it_grants_and_nothing_else(role: Role, may: set[Permission]) -> None:
    for permission in Permission:
        denied = why_denied(a_principal(role=role), WORKSPACE, permission)
        assert (denied is None) is (permission in may)
        if denied is not None:
            assert denied == f"principal ann is {role}, which does not grant {permission}"


@pytest.mark.parametrize(
    ("principal", "workspace", "why"),
    [
        (a_principal(), WORKSPACE.replace(enabled=False), "workspace home is disabled"),
        (None, WORKSPACE, "nobody stands for it: the trigger has no execution scope"),
        (a_principal(enabled=False), WORKSPACE, "principal ann is disabled"),
        (a_principal(role=None), WORKSPACE, "principal ann is no member of workspace home"),
    ],
)
def test_whatever_is_missing_closes_every_permission(
    principal: Principal | None, workspace: Workspace, why: str
) -> None:
    """S1: no null principal, no bypass."""
    assert {why_denied(principal, workspace, permission) for permission in Permission} == {why}


def test_every_role_has_its_grants() -> None:
    assert set(GRANTS) == set(Role)
