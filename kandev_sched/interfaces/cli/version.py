"""`sched version`."""

from __future__ import annotations

import platform

import apsw
import typer

from kandev_sched import __version__
from kandev_sched.interfaces.cli.common import invocation
from kandev_sched.store.migrate import SCHEMA_VERSION

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def version(context: typer.Context) -> None:
    """Show the version."""
    row = {
        "version": __version__,
        "schema_version": SCHEMA_VERSION,
        "sqlite": apsw.sqlite_lib_version(),
        "python": platform.python_version(),
    }
    here = invocation(context)
    if here.is_json:
        here.show(row)
    else:
        here.answer(f"sched {__version__}", row)
