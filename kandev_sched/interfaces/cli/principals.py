"""`sched principal …`."""

from __future__ import annotations

from typing import Annotated

import typer

from kandev_sched.domain.workspaces import Principal, Role
from kandev_sched.interfaces.cli import common
from kandev_sched.interfaces.cli.common import invocation
from kandev_sched.interfaces.cli.values import choice
from kandev_sched.operations import principals
from kandev_sched.operations.principals import AddPrincipal, list_principals, set_enabled
from kandev_sched.operations.views import row_of, rows_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from kandev_sched.interfaces.cli.invocation import Invocation
    from kandev_sched.store.db import Tx

app = typer.Typer(help="On whose behalf work is started.", rich_markup_mode=None, add_completion=False)
COLUMNS = ("name", "role", "enabled", "kind", "id")

Name = Annotated[str, typer.Argument(metavar="NAME")]
RoleOption = Annotated[
    str | None,
    typer.Option("--role", metavar="|".join(Role), help="What it may do.", autocompletion=lambda: list(Role)),
]


@app.command("add")
def add(context: typer.Context, name: common.NewName, role: RoleOption = None) -> None:
    """Add a principal to the workspace."""
    here = invocation(context)
    asked = AddPrincipal(workspace=here.workspace, name=name, role=choice(Role, role, option="--role"))
    changed(here, "added", lambda tx: principals.add_principal(tx, asked))


def changed(here: Invocation, what: str, change: Callable[[Tx], Principal]) -> None:
    """Carry out a change of a principal and say so."""

    def work(tx: Tx) -> tuple[Principal, dict[str, object]]:
        principal = change(tx)
        return principal, row_of(tx, principal)

    principal, row = here.write(work)
    here.tell(f"Principal {principal.name} ({principal.id}) is {what}", row)


@app.command("list")
def list_(context: typer.Context) -> None:
    """List the principals of the workspace."""
    here = invocation(context)
    rows = here.read(lambda reader: rows_of(reader, list_principals(reader, workspace=here.workspace)))
    here.show_list(rows, COLUMNS, empty="there are no principals")


@app.command("enable")
def enable(context: typer.Context, name: Name) -> None:
    """Let it start work again."""
    _switch(invocation(context), name, is_on=True)


@app.command("disable")
def disable(context: typer.Context, name: Name) -> None:
    """From now on each fire on its behalf is recorded as denied."""
    _switch(invocation(context), name, is_on=False)


def _switch(here: Invocation, name: str, *, is_on: bool) -> None:
    what = "enabled" if is_on else "disabled"
    changed(here, what, lambda tx: set_enabled(tx, workspace=here.workspace, name=name, enabled=is_on))
