"""`sched config …`."""

from __future__ import annotations

import os

import typer

from kandev_sched.config import default_config_path
from kandev_sched.domain.record import as_dict
from kandev_sched.interfaces.cli.common import invocation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.interfaces.cli.invocation import Invocation

app = typer.Typer(help="Check and show the configuration.", rich_markup_mode=None, add_completion=False)


def wanted_path(here: Invocation) -> str:
    """Where the config is looked for: named, or the default place."""
    named = here.options.config or os.environ.get("SCHED_CONFIG")
    return os.path.abspath(named or default_config_path(os.environ))


@app.command("path")
def path(context: typer.Context) -> None:
    """Print where the config file is looked for."""
    here = invocation(context)
    wanted = wanted_path(here)
    here.answer(wanted, {"path": wanted, "exists": os.path.exists(wanted)})


@app.command("check")
def check(context: typer.Context) -> None:
    """Check the config file: every key known, every value of its type and in its range."""
    here = invocation(context)
    found = here.config.config_path
    said = f"{found} is right" if found else "there is no config file: the defaults hold"
    here.answer(said, {"path": found, "ok": True})


@app.command("show")
def show(context: typer.Context) -> None:
    """Show what holds: flags over environment over file over defaults."""
    here = invocation(context)
    held = here.config
    here.show(
        {
            "config_path": held.config_path,
            "database": held.database,
            "workspace": held.workspace,
            **as_dict(held.settings),
        }
    )
