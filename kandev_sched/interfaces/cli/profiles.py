"""`sched profile …`."""

from __future__ import annotations

from typing import Annotated

import typer

from kandev_sched.domain.agents import Profile
from kandev_sched.interfaces.cli import common
from kandev_sched.interfaces.cli.asking import pairs
from kandev_sched.interfaces.cli.common import invocation
from kandev_sched.interfaces.cli.values import argv_of
from kandev_sched.interfaces.times import seconds_or_none
from kandev_sched.operations import agents, lookup
from kandev_sched.operations.agents import AddProfile, SetProfile
from kandev_sched.operations.listing import list_profiles
from kandev_sched.operations.views import row_of, rows_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from kandev_sched.interfaces.cli.invocation import Invocation
    from kandev_sched.store.db import Reader, Tx

app = typer.Typer(help="How an agent program is started.", rich_markup_mode=None, add_completion=False)
COLUMNS = ("name", "argv", "max_run_s", "idle_output_s", "id")

Timeout = Annotated[
    str | None, typer.Option("--timeout", metavar="1h", help="The longest that a run may take.")
]
IdleTimeout = Annotated[
    str | None, typer.Option("--idle-timeout", metavar="10m", help="The longest that it may write nothing.")
]


@app.command("add")
def add(
    context: typer.Context,
    *,
    name: common.NewName,
    command: Annotated[
        str, typer.Option("--command", metavar="'ARGV…'", help="What is started, quoted as in a shell.")
    ],
    env: common.Environment = None,
    timeout: Timeout = None,
    idle_timeout: IdleTimeout = None,
) -> None:
    """Add a profile that several agents may share."""
    here = invocation(context)
    asked = AddProfile(
        workspace=here.workspace,
        name=name,
        argv=argv_of(command) or (),
        env=pairs(tuple(env or ()), option="--env"),
        max_run_s=seconds_or_none(timeout, option="--timeout"),
        idle_output_s=seconds_or_none(idle_timeout, option="--idle-timeout"),
    )
    added = _changed(here, "added", lambda tx: agents.add_profile(tx, asked))
    common.warn_if_missing(here, added.argv, env=added.env, cwd=None)


def _changed(here: Invocation, what: str, change: Callable[[Tx], Profile]) -> Profile:
    def work(tx: Tx) -> tuple[Profile, dict[str, object]]:
        profile = change(tx)
        return profile, row_of(tx, profile)

    profile, row = here.write(work)
    here.tell(f"Profile {profile.name} ({profile.id}) is {what}", row)
    return profile


@app.command("list")
def list_(context: typer.Context) -> None:
    """List the profiles."""
    here = invocation(context)
    rows = here.read(lambda reader: rows_of(reader, list_profiles(reader, workspace=here.workspace)))
    here.show_list(rows, COLUMNS, empty="there are no profiles yet; `sched profile add` makes one")


@app.command("show")
def show(context: typer.Context, profile: common.ProfileName) -> None:
    """Show one profile."""
    here = invocation(context)
    here.show(here.read(lambda reader: row_of(reader, _named(reader, here, profile))))


def _named(reader: Reader, here: Invocation, profile: str) -> Profile:
    return lookup.the_profile(reader, lookup.the_workspace(reader, here.workspace), profile)


@app.command("set")
def set_(
    context: typer.Context,
    *,
    profile: common.ProfileName,
    command: Annotated[
        str | None,
        typer.Option("--command", metavar="'ARGV…'", help="What is started, quoted as in a shell."),
    ] = None,
    env: common.Environment = None,
    timeout: Timeout = None,
    idle_timeout: IdleTimeout = None,
) -> None:
    """Change what is given, leave the rest; --env replaces all variables."""
    here = invocation(context)
    asked = SetProfile(
        workspace=here.workspace,
        profile=profile,
        argv=argv_of(command),
        env=pairs(tuple(env), option="--env") if env else None,
        max_run_s=seconds_or_none(timeout, option="--timeout"),
        idle_output_s=seconds_or_none(idle_timeout, option="--idle-timeout"),
    )
    changed = _changed(here, "changed", lambda tx: agents.set_profile(tx, asked))
    if command is not None:
        common.warn_if_missing(here, changed.argv, env=changed.env, cwd=None)


@app.command("delete")
def delete(
    context: typer.Context,
    *,
    profile: common.ProfileName,
    dry_run: common.DryRun = False,
    yes: common.Yes = False,
) -> None:
    """Delete a profile that nothing uses."""
    here = invocation(context)
    found = here.read(lambda reader: _named(reader, here, profile))
    if dry_run:
        row = here.read(lambda reader: row_of(reader, found))
        here.tell(f"Profile {found.name} would be deleted, if nothing uses it", {**row, "dry_run": True})
        return
    common.confirm(f"Delete profile {found.name}?", is_sure=yes)
    _changed(here, "deleted", lambda tx: _delete(tx, _named(tx, here, found.id)))


def _delete(tx: Tx, profile: Profile) -> Profile:
    agents.delete_profile(tx, profile)
    return profile
