"""`sched workspace …`."""

from __future__ import annotations

from typing import Annotated

import typer

from kandev_sched.domain.errors import Invalid
from kandev_sched.domain.workspaces import Role, Workspace
from kandev_sched.interfaces.cli import common, completion
from kandev_sched.interfaces.cli.common import invocation
from kandev_sched.interfaces.cli.principals import RoleOption, changed
from kandev_sched.interfaces.cli.values import choice
from kandev_sched.operations import lookup, workspaces
from kandev_sched.operations.principals import set_member
from kandev_sched.operations.views import row_of, rows_of
from kandev_sched.operations.workspaces import AddWorkspace, SetWorkspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from kandev_sched.interfaces.cli.invocation import Invocation
    from kandev_sched.store.db import Tx

app = typer.Typer(help="Closed worlds of agents and routines.", rich_markup_mode=None, add_completion=False)
COLUMNS = ("name", "enabled", "paused_at", "time_zone", "id")

WorkspaceName = Annotated[
    str | None, typer.Argument(metavar="WORKSPACE", autocompletion=completion.workspaces)
]
TimeZone = Annotated[
    str | None,
    typer.Option("--tz", metavar="ZONE", help="Times are shown in it.", autocompletion=completion.zones),
]


@app.command("add")
def add(context: typer.Context, name: common.NewName, tz: TimeZone = None) -> None:
    """Add a workspace."""
    asked = AddWorkspace(name=name, time_zone=tz or "UTC")
    _changed(invocation(context), "added", lambda tx: workspaces.add_workspace(tx, asked))


def _changed(here: Invocation, what: str, change: Callable[[Tx], Workspace]) -> None:
    def work(tx: Tx) -> tuple[Workspace, dict[str, object]]:
        workspace = change(tx)
        return workspace, row_of(tx, workspace)

    workspace, row = here.write(work)
    here.tell(f"Workspace {workspace.name} ({workspace.id}) is {what}", row)


@app.command("list")
def list_(context: typer.Context) -> None:
    """List the workspaces."""
    here = invocation(context)
    rows = here.read(lambda reader: rows_of(reader, workspaces.list_workspaces(reader)))
    here.show_list(rows, COLUMNS, empty="there are no workspaces yet; `sched init` makes one")


@app.command("show")
def show(context: typer.Context, workspace: WorkspaceName = None) -> None:
    """Show one workspace; without a name the present one."""
    here = invocation(context)
    name = workspace or here.workspace
    here.show(here.read(lambda reader: row_of(reader, lookup.the_workspace(reader, name))))


@app.command("set")
def set_(
    context: typer.Context,
    *,
    workspace: WorkspaceName = None,
    tz: TimeZone = None,
    lookback_hours: Annotated[
        int | None,
        typer.Option("--lookback-hours", metavar="N", help="How far recovery looks back, 1 to 720."),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option("--profile", help="For agents that have none.", autocompletion=completion.profiles),
    ] = None,
    executor: Annotated[
        str | None,
        typer.Option("--executor", help="For agents that have none.", autocompletion=completion.executors),
    ] = None,
    enabled: Annotated[
        bool | None, typer.Option("--enable/--disable", help="May anything run in it?")
    ] = None,
) -> None:
    """Change what is given, leave the rest."""
    here = invocation(context)
    asked = SetWorkspace(
        name=workspace or here.workspace,
        time_zone=tz,
        recovery_lookback_hours=lookback_hours,
        default_profile=profile,
        default_executor=executor,
        enabled=enabled,
    )
    _changed(here, "changed", lambda tx: workspaces.set_workspace(tx, asked))


@app.command("pause")
def pause(context: typer.Context, workspace: WorkspaceName = None) -> None:
    """Start nothing in it until it is resumed; the queue is kept."""
    here = invocation(context)
    _changed(here, "paused", lambda tx: workspaces.pause_workspace(tx, workspace or here.workspace))


@app.command("resume")
def resume(context: typer.Context, workspace: WorkspaceName = None) -> None:
    """Let the kept queue run."""
    here = invocation(context)
    _changed(here, "resumed", lambda tx: workspaces.resume_workspace(tx, workspace or here.workspace))


@app.command("enable")
def enable(context: typer.Context, workspace: WorkspaceName = None) -> None:
    """Let things run and fire in it."""
    _switch(invocation(context), workspace, is_on=True)


@app.command("disable")
def disable(context: typer.Context, workspace: WorkspaceName = None) -> None:
    """Let nothing run in it; each slot is recorded as denied."""
    _switch(invocation(context), workspace, is_on=False)


def _switch(here: Invocation, workspace: str | None, *, is_on: bool) -> None:
    asked = SetWorkspace(name=workspace or here.workspace, enabled=is_on)
    _changed(here, "enabled" if is_on else "disabled", lambda tx: workspaces.set_workspace(tx, asked))


@app.command("member")
def member(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="PRINCIPAL")],
    role: RoleOption = None,
    remove: Annotated[bool, typer.Option("--remove", help="It is no member any more.")] = False,
) -> None:
    """Give a principal a role in the present workspace, or take it away."""
    here = invocation(context)
    given = choice(Role, role, option="--role")
    if remove is (given is not None):
        raise Invalid("a member is given --role or taken away with --remove", hint="give one of them")
    what = "no member any more" if remove else f"{given}"
    changed(here, what, lambda tx: set_member(tx, workspace=here.workspace, name=name, role=given))
