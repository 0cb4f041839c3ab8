"""`sched serve`: the supervisor, with its log on stderr."""

from __future__ import annotations

import logging
import sys
import time
from typing import Annotated

import typer

from kandev_sched.domain.errors import Conflict
from kandev_sched.domain.instant import rfc3339
from kandev_sched.interfaces.cli.common import invocation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.interfaces.cli.invocation import Invocation
    from kandev_sched.interfaces.cli.options import GlobalOptions
    from kandev_sched.supervisor.supervisor import Supervisor

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def serve(
    context: typer.Context,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="End with 0 when nothing is due, queued or running.")
    ] = False,
    no_http: Annotated[  # noqa: ARG001 - there is none yet; who asks for none gets it
        bool, typer.Option("--no-http", help="Without the HTTP interface.")
    ] = False,
) -> int:
    """Run the supervisor until SIGTERM or SIGINT: it fires schedules and starts agents."""
    here = invocation(context)
    start_logging(here.options)
    return _supervisor(here).run(until_idle=until_idle)


def _supervisor(here: Invocation) -> Supervisor:
    from kandev_sched.app import supervisor

    try:
        return supervisor(here.config)
    except Conflict as error:
        raise _named(error, here) from None


def _named(error: Conflict, here: Invocation) -> Conflict:
    """Who serves the database already, as far as its row tells."""
    from kandev_sched.operations.status import supervisor_state

    row = here.read(supervisor_state)
    who = (
        f"pid {row.pid}, since {rfc3339(row.started_at)}"
        if row and row.pid and row.started_at
        else "starting"
    )
    return Conflict(
        f"another supervisor ({who}) serves this database already",
        hint=f"stop it with `kill {row.pid}`, or name another database with --db"
        if row and row.pid
        else None,
        code=error.code,
    )


def start_logging(options: GlobalOptions) -> None:
    """One line a record on stderr: time, level, message."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Line("%(asctime)s %(levelname)s %(message)s"))
    level = logging.DEBUG if options.is_verbose else logging.WARNING if options.is_quiet else logging.INFO
    logging.basicConfig(level=level, handlers=[handler])
    logging.raiseExceptions = False  # a closed stderr is no reason to stop waking agents


class _Line(logging.Formatter):
    """Times as RFC 3339 in UTC, with milliseconds."""

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"
