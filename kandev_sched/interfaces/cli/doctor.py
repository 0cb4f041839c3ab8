"""`sched doctor`."""

from __future__ import annotations

from typing import Annotated

import typer

from kandev_sched.domain.host import MachineHost
from kandev_sched.domain.record import as_dict
from kandev_sched.interfaces.cli.common import invocation
from kandev_sched.interfaces.errors import EXIT_FAILED
from kandev_sched.operations.doctor import examine, mend

app = typer.Typer(help="Check everything that can be checked.", rich_markup_mode=None, add_completion=False)
COLUMNS = ("code", "sentence", "remedy", "is_fixed")


@app.command()
def doctor(
    context: typer.Context,
    fix: Annotated[bool, typer.Option("--fix", help="Recompute what is a mere projection.")] = False,
) -> None:
    """Check everything that can be checked; each finding has a code, a sentence and a remedy.

    The exit status is 1 while something is left to be mended.
    """
    here = invocation(context)
    found = here.write(mend) if fix else here.read(lambda reader: examine(reader, now=MachineHost().now()))
    here.show_list(map(as_dict, found), COLUMNS, empty="all is well")
    if any(not finding.is_fixed for finding in found):
        raise typer.Exit(EXIT_FAILED)
