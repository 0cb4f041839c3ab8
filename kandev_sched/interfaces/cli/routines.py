"""`sched routine …`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from kandev_sched.domain.host import MachineHost
from kandev_sched.domain.routines import CatchUpPolicy, ConcurrencyPolicy, Routine
from kandev_sched.interfaces.cli import common, completion, revisions, when
from kandev_sched.interfaces.cli.common import invocation
from kandev_sched.interfaces.cli.schedules import announce
from kandev_sched.interfaces.cli.values import choice, limit
from kandev_sched.interfaces.cli.variables import declared
from kandev_sched.interfaces.times import seconds_or_none
from kandev_sched.operations import routines
from kandev_sched.operations.inspection import list_routine_runs
from kandev_sched.operations.listing import routine_rows
from kandev_sched.operations.resources import routine_resource
from kandev_sched.operations.routines import AddedRoutine, AddRoutine, SetRoutine
from kandev_sched.operations.schedules import Schedule
from kandev_sched.operations.views import routine_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from kandev_sched.interfaces.cli.invocation import Invocation
    from kandev_sched.store.db import Reader, Tx

app = typer.Typer(help="What is to be done, again and again.", rich_markup_mode=None, add_completion=False)
COLUMNS = ("name", "agent", "status", "arming", "next_run_at", "last_success_at", "task_title", "id")
TRIGGER_COLUMNS = (
    *("id", "expression", "zone", "next_run_at", "last_fired_at", "last_success_at", "last_error", "enabled"),
)
RUN_COLUMNS = ("id", "status", "fired_at", "reason", "source", "scheduled_for_at", "finished_at")

_CONCURRENCY = {  # S0 has two spellings of one, S1 has words of its own
    "always_create": ConcurrencyPolicy.ALWAYS_ENQUEUE,
    "allow": ConcurrencyPolicy.ALWAYS_ENQUEUE,
    "skip": ConcurrencyPolicy.SKIP_IF_ACTIVE,
}
_CATCH_UP = {"skip": CatchUpPolicy.SKIP_MISSED, "fireOnce": CatchUpPolicy.FIRE_ONCE}  # those of S1

Description = Annotated[str | None, typer.Option("--description", metavar="TEXT", help="What it is to do.")]
TaskTitle = Annotated[str | None, typer.Option("--task-title", metavar="T", help="Each fire makes a task.")]
TaskDescription = Annotated[str | None, typer.Option("--task-description", metavar="D")]
Var = Annotated[
    list[str] | None,
    typer.Option("--var", metavar="NAME:TYPE[=DEFAULT][!][A|B]", help="Declare a variable; repeatable."),
]
Concurrency = Annotated[
    str | None,
    typer.Option(
        "--concurrency",
        metavar="|".join(ConcurrencyPolicy),
        help="What a fire does while an earlier one is active.",
        autocompletion=lambda: list(ConcurrencyPolicy),
    ),
]
CatchUp = Annotated[
    str | None,
    typer.Option(
        "--catch-up",
        metavar="|".join(CatchUpPolicy),
        help="What becomes of slots that were missed.",
        autocompletion=lambda: list(CatchUpPolicy),
    ),
]
CatchUpMax = Annotated[int | None, typer.Option("--catch-up-max", metavar="N", help="At most so many fire.")]
Grace = Annotated[
    str | None, typer.Option("--misfire-grace", metavar="60s", help="How late skip_missed still fires.")
]


MaxAge = Annotated[
    str | None, typer.Option("--catch-up-max-age", metavar="30m", help="No slot older than this ever fires.")
]
Note = Annotated[str | None, typer.Option("--note", metavar="TEXT", help="Why; it is shown.")]


@app.command("add")
@when.with_schedule
def add(
    context: typer.Context,
    *,
    name: common.NewName,
    agent: Annotated[str, typer.Option("--agent", help="Who is woken.", autocompletion=completion.agents)],
    schedule: Schedule,
    description: Description = None,
    task_title: TaskTitle = None,
    task_description: TaskDescription = None,
    var: Var = None,
    concurrency: Concurrency = None,
    catch_up: CatchUp = None,
    catch_up_max: CatchUpMax = None,
    misfire_grace: Grace = None,
    catch_up_max_age: MaxAge = None,
    namespace: Annotated[str, typer.Option("--namespace", help="Part of its name.")] = "default",
    paused: Annotated[bool, typer.Option("--paused", help="Add it paused.")] = False,
) -> None:
    """Add a routine; without a schedule it is fired by hand."""
    here = invocation(context)
    given: dict[str, Any] = {
        "concurrency": choice(ConcurrencyPolicy, concurrency, option="--concurrency", also=_CONCURRENCY),
        "catch_up": choice(CatchUpPolicy, catch_up, option="--catch-up", also=_CATCH_UP),
        "catch_up_max": catch_up_max,
        "misfire_grace_s": seconds_or_none(misfire_grace, option="--misfire-grace"),
        "description": description,
        "catch_up_max_age_s": seconds_or_none(catch_up_max_age, option="--catch-up-max-age"),
        "schedule": when.new_schedule(schedule),
    }
    asked = AddRoutine(
        workspace=here.workspace,
        name=name,
        namespace=namespace,
        agent=agent,
        task_title=task_title,
        task_description=task_description,
        variables=declared(var),
        is_paused=paused,
        **{key: value for key, value in given.items() if value is not None},
    )
    _added(here, asked, is_zone_default=schedule.zone is None)


def _added(here: Invocation, asked: AddRoutine, *, is_zone_default: bool) -> None:
    def work(tx: Tx) -> tuple[AddedRoutine, dict[str, object]]:
        added = routines.add_routine(tx, asked)
        return added, routine_row(tx, added.routine)

    added, row = here.write(work)
    here.tell(f"Routine {added.routine.name} ({added.routine.id}) is added", row)
    if added.trigger is not None:
        announce(here, added.trigger, is_zone_default=is_zone_default)


@app.command("list")
def list_(context: typer.Context) -> None:
    """List the routines."""
    here = invocation(context)
    now = MachineHost().now()
    rows = here.read(lambda reader: routine_rows(reader, workspace=here.workspace, now=now))
    here.show_list(rows, COLUMNS, empty="there are no routines yet; `sched routine add` makes one")


@app.command("show")
def show(context: typer.Context, routine: common.RoutineName) -> None:
    """Show one routine with its triggers."""
    here = invocation(context)

    def whole(reader: Reader) -> dict[str, object]:
        found = revisions.named(reader, here, routine)
        return {**routine_row(reader, found), **routine_resource(reader, found)}

    here.show(here.read(whole), triggers=TRIGGER_COLUMNS)


@app.command("set")
def set_(
    context: typer.Context,
    *,
    routine: common.RoutineName,
    agent: Annotated[str | None, typer.Option("--agent", autocompletion=completion.agents)] = None,
    description: Description = None,
    task_title: TaskTitle = None,
    task_description: TaskDescription = None,
    var: Var = None,
    concurrency: Concurrency = None,
    catch_up: CatchUp = None,
    catch_up_max: CatchUpMax = None,
    misfire_grace: Grace = None,
    catch_up_max_age: MaxAge = None,
    if_match: when.IfMatch = None,
) -> None:
    """Change what is given, leave the rest; --var replaces all declarations.

    The schedule belongs to the trigger: `sched trigger set`.
    """
    here = invocation(context)
    asked = SetRoutine(
        workspace=here.workspace,
        routine=routine,
        agent=agent,
        description=description,
        task_title=task_title,
        task_description=task_description,
        variables=declared(var) if var else None,
        concurrency=choice(ConcurrencyPolicy, concurrency, option="--concurrency", also=_CONCURRENCY),
        catch_up=choice(CatchUpPolicy, catch_up, option="--catch-up", also=_CATCH_UP),
        catch_up_max=catch_up_max,
        misfire_grace_s=seconds_or_none(misfire_grace, option="--misfire-grace"),
        catch_up_max_age_s=seconds_or_none(catch_up_max_age, option="--catch-up-max-age"),
        if_match=if_match,
    )
    _changed(here, "changed", lambda tx: routines.set_routine(tx, asked))


def _changed(here: Invocation, what: str, change: Callable[[Tx], Routine]) -> None:
    def work(tx: Tx) -> tuple[Routine, dict[str, object]]:
        routine = change(tx)
        return routine, routine_row(tx, routine)

    routine, row = here.write(work)
    here.tell(f"Routine {routine.name} ({routine.id}) is {what}", row)


@app.command("pause")
def pause(context: typer.Context, routine: common.RoutineName, note: Note = None) -> None:
    """Fire nothing until it is resumed; what is queued stays queued."""
    here = invocation(context)
    _changed(
        here, "paused", lambda tx: routines.pause_routine(tx, revisions.named(tx, here, routine), note=note)
    )


@app.command("resume")
def resume(context: typer.Context, routine: common.RoutineName) -> None:
    """Fire again, from now on; nothing is caught up."""
    here = invocation(context)
    _changed(here, "resumed", lambda tx: routines.resume_routine(tx, revisions.named(tx, here, routine)))


@app.command("archive")
def archive(
    context: typer.Context,
    *,
    routine: common.RoutineName,
    dry_run: common.DryRun = False,
    yes: common.Yes = False,
) -> None:
    """Put a routine away for good; its name is free again, its history stays."""
    _put_away(invocation(context), routine, dry_run=dry_run, is_sure=yes)


@app.command("delete")
def delete(
    context: typer.Context,
    *,
    routine: common.RoutineName,
    dry_run: common.DryRun = False,
    yes: common.Yes = False,
) -> None:
    """As archive: its occurrences stay, since the id of an occurrence must never come again."""
    _put_away(invocation(context), routine, dry_run=dry_run, is_sure=yes)


def _put_away(here: Invocation, name: str, *, dry_run: bool, is_sure: bool) -> None:
    routine = here.read(lambda reader: revisions.named(reader, here, name))
    what = "what was not yet given to its agent is cancelled, its occurrences stay"
    if dry_run:
        row = here.read(lambda reader: routine_row(reader, routine))
        here.tell(f"Routine {routine.name} would be archived: {what}", {**row, "dry_run": True})
        return
    common.confirm(f"Archive routine {routine.name}? ({what[0].upper()}{what[1:]}.)", is_sure=is_sure)
    _changed(
        here,
        f"archived: {what}",
        lambda tx: routines.archive_routine(tx, revisions.named(tx, here, routine.id)),
    )


@app.command("runs")
def runs(context: typer.Context, routine: common.RoutineName, n: common.Limit = 50) -> None:
    """List what the routine's fires came to, newest first."""
    here, at_most = invocation(context), limit(n)
    rows = here.read(
        lambda reader: list_routine_runs(reader, workspace=here.workspace, routine=routine, limit=at_most)
    )
    here.show_list(rows, RUN_COLUMNS, empty=f"{routine} has not fired yet")


app.command("history")(revisions.history)
app.command("diff")(revisions.diff)
app.command("rollback")(revisions.rollback)
app.command("backfill")(revisions.backfill_command)
