"""`sched inspect …`: for debugging; reads only, and works while the supervisor runs or is dead."""

from __future__ import annotations

from typing import Annotated

import typer

from kandev_sched.config import runs_path
from kandev_sched.domain.host import MachineHost
from kandev_sched.domain.runs import RunStatus
from kandev_sched.interfaces.cli import common, completion
from kandev_sched.interfaces.cli.common import invocation, plain_row
from kandev_sched.interfaces.cli.values import limit, since_of
from kandev_sched.operations import inspection, lookup
from kandev_sched.operations.inspection import RunFilter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.interfaces.cli.invocation import Invocation

app = typer.Typer(
    help="Look inside: runs, wakeups, queue, database.", rich_markup_mode=None, add_completion=False
)
# The most important first: a narrow terminal has no room for the last ones.
RUN_COLUMNS = (
    *("id", "agent", "status", "waiting_for", "error", "requested_at", "finished_at", "source", "reason"),
)
QUEUE_COLUMNS = ("id", "agent", "waiting_for", "requested_at", "source", "reason")
WAKEUP_COLUMNS = ("id", "agent", "source", "status", "ending", "reason", "requested_at", "run_id")
ROUTINE_RUN_COLUMNS = ("id", "routine", "status", "fired_at", "reason", "source", "scheduled_for_at")
STEP_COLUMNS = ("attempt", "name", "verdict", "duration_ms", "detail", "started_at")
SESSION_COLUMNS = ("id", "agent", "state", "run_id", "attempt", "created_at", "ended_at")
ACTIVITY_COLUMNS = ("at", "kind", "sentence")

OnlyAgent = Annotated[
    str | None, typer.Option("--agent", help="Of one agent.", autocompletion=completion.agents)
]


@app.command("runs")
def runs(
    context: typer.Context,
    *,
    agent: OnlyAgent = None,
    status: Annotated[RunStatus | None, typer.Option("--status")] = None,
    task: Annotated[str | None, typer.Option("--task", autocompletion=completion.tasks)] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="1h", help="Asked for since then.")] = None,
    n: common.Limit = 50,
) -> None:
    """The newest runs, newest first."""
    here = invocation(context)
    only = RunFilter(
        workspace=here.workspace,
        agent=agent,
        status=status,
        task=task,
        since=since_of(since, now=MachineHost().now()),
        limit=limit(n),
    )
    show_runs(here, only)


def show_runs(here: Invocation, only: RunFilter) -> None:
    """A list of runs, as `inspect runs` and `run list` print it."""
    at = here.circumstances()
    rows = here.read(lambda reader: inspection.list_runs(reader, only, at))
    here.show_list(map(plain_row, rows), RUN_COLUMNS, empty="there is no such run")


@app.command("run")
def run(context: typer.Context, run: common.RunId) -> None:
    """One run whole: its wakeups, the steps it passed, its prompt and the end of its output."""
    from kandev_sched.operations.attempts import attempt_texts

    here = invocation(context)
    at, files = here.circumstances(), here.run_files()
    found = here.read(lambda reader: lookup.the_run(reader, run))
    row = here.read(lambda reader: inspection.run_detail(reader, found, at))
    texts = attempt_texts(files, found, root=runs_path(here.config.database))
    here.show({**row, **plain_row(texts)}, wakeups=WAKEUP_COLUMNS, steps=STEP_COLUMNS)


@app.command("queue")
def queue(context: typer.Context, n: common.Limit = 50) -> None:
    """What is next, and why each other run is not; of all workspaces, oldest first."""
    here, at_most = invocation(context), limit(n)
    at = here.circumstances()
    rows = here.read(lambda reader: inspection.list_queue(reader, at, limit=at_most))
    here.show_list(map(plain_row, rows), QUEUE_COLUMNS, empty="the queue is empty")


@app.command("wakeups")
def wakeups(context: typer.Context, agent: OnlyAgent = None, n: common.Limit = 50) -> None:
    """The newest wakeup requests, newest first."""
    here, at_most = invocation(context), limit(n)
    rows = here.read(
        lambda reader: inspection.list_wakeups(reader, workspace=here.workspace, agent=agent, limit=at_most)
    )
    here.show_list(rows, WAKEUP_COLUMNS, empty="there is no wakeup yet")


@app.command("routine-runs")
def routine_runs(
    context: typer.Context,
    *,
    routine: Annotated[str | None, typer.Option("--routine", autocompletion=completion.routines)] = None,
    n: common.Limit = 50,
) -> None:
    """The newest fires of routines, newest first."""
    here, at_most = invocation(context), limit(n)
    rows = here.read(
        lambda reader: inspection.list_routine_runs(
            reader, workspace=here.workspace, routine=routine, limit=at_most
        )
    )
    here.show_list(rows, ROUTINE_RUN_COLUMNS, empty="nothing has fired yet")


@app.command("sessions")
def sessions(context: typer.Context, n: common.Limit = 50) -> None:
    """The newest agent sessions, newest first."""
    here, at_most = invocation(context), limit(n)
    rows = here.read(lambda reader: inspection.list_sessions(reader, workspace=here.workspace, limit=at_most))
    here.show_list(rows, SESSION_COLUMNS, empty="there was no session yet")


@app.command("activity")
def activity(
    context: typer.Context,
    *,
    kind: Annotated[str | None, typer.Option("--kind", help="Only lines of this kind.")] = None,
    n: common.Limit = 50,
) -> None:
    """The history, newest first."""
    here, at_most = invocation(context), limit(n)
    rows = here.read(
        lambda reader: inspection.list_activity(reader, workspace=here.workspace, kind=kind, limit=at_most)
    )
    here.show_list(rows, ACTIVITY_COLUMNS, empty="nothing has happened yet")


@app.command("db")
def db(context: typer.Context) -> None:
    """The database: where it is, its size, its schema, its rows."""
    from kandev_sched.operations.status import database_facts

    here = invocation(context)
    path = here.config.database
    here.show(here.read(lambda reader: database_facts(reader, path=path)))
