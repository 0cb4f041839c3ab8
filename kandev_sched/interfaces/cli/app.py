"""The long way: typer, with each noun imported only when it is named."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from kandev_sched.domain.errors import Invalid
from kandev_sched.interfaces.cli.invocation import Invocation
from kandev_sched.interfaces.cli.lazy import Lazy, LazyGroup
from kandev_sched.interfaces.cli.options import GlobalOptions, asks_for_json, hoist
from kandev_sched.interfaces.cli.reporting import guarded, note
from kandev_sched.interfaces.errors import EXIT_DONE, EXIT_FAILED

# Its class is click's own, which typer vendors or not, depending on its version.
USAGE_ERROR: type[Any] = typer.BadParameter.__mro__[1]

_DAY, _NOUNS, _MORE = "Verbs of the day", "Nouns", "More"
TABLE = {
    "init": Lazy(module="init", panel=_DAY, help="Create config and database, and say what to type next."),
    "fire": Lazy(module="fire", panel=_DAY, help="Fire a routine by hand."),
    "wake": Lazy(module="wake", panel=_DAY, help="Wake an agent for a reason."),
    "serve": Lazy(module="serve", panel=_DAY, help="Run the supervisor: fire schedules, start agents."),
    "status": Lazy(module="status", panel=_DAY, help="Show whether all is well, and what needs a person."),
    "next": Lazy(module="coming", panel=_DAY, help="Show the coming fires of all triggers."),
    "workspace": Lazy(module="workspaces", panel=_NOUNS, help="Closed worlds of agents and routines."),
    "project": Lazy(module="projects", panel=_NOUNS, help="Groups of tasks."),
    "agent": Lazy(module="agents", panel=_NOUNS, help="Who is woken."),
    "profile": Lazy(module="profiles", panel=_NOUNS, help="How an agent program is started."),
    "executor": Lazy(module="executors", panel=_NOUNS, help="Where agent programs run."),
    "routine": Lazy(module="routines", panel=_NOUNS, help="What is to be done, again and again."),
    "trigger": Lazy(module="triggers", panel=_NOUNS, help="When a routine fires."),
    "calendar": Lazy(module="calendars", panel=_NOUNS, help="When nothing shall fire."),
    "principal": Lazy(module="principals", panel=_NOUNS, help="On whose behalf work is started."),
    "task": Lazy(module="tasks", panel=_NOUNS, help="What agents work on."),
    "run": Lazy(module="runs", panel=_NOUNS, help="What happened, and what is waiting."),
    "inspect": Lazy(module="inspect", panel=_MORE, help="Look inside: runs, wakeups, queue, database."),
    "doctor": Lazy(module="doctor", panel=_MORE, help="Check everything that can be checked."),
    "config": Lazy(module="settings", panel=_MORE, help="Check and show the configuration."),
    "cron": Lazy(module="cron", panel=_MORE, help="Explain a cron expression."),
    "version": Lazy(module="version", panel=_MORE, help="Show the version."),
}


class SchedGroup(LazyGroup):
    """`sched` itself."""

    table = TABLE

    def __init__(self, **options: object) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self.commands = {name: self.get_command(None, name) for name in TABLE}  # for "did you mean"


app = typer.Typer(
    cls=SchedGroup,
    name="sched",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: it is read in pipes too, and rich would take 70 ms
    context_settings={"help_option_names": ["--help"]},
)


@app.callback()
def sched(
    *,
    db: Annotated[
        str | None, typer.Option("--db", metavar="PATH", envvar="SCHED_DB", help="The database.")
    ] = None,
    config: Annotated[
        str | None, typer.Option("--config", metavar="PATH", envvar="SCHED_CONFIG", help="The config file.")
    ] = None,
    workspace: Annotated[
        str | None,
        typer.Option("--workspace", metavar="NAME", envvar="SCHED_WORKSPACE", help="Default: default."),
    ] = None,
    is_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    utc: Annotated[bool, typer.Option("--utc", help="Show times in UTC.")] = False,
    show_tz: Annotated[
        str | None, typer.Option("--show-tz", metavar="ZONE", help="Show times in this zone.")
    ] = None,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colour (also NO_COLOR).")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say only what was asked for.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show tracebacks and debug lines.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    """The scheduler that people trust to wake their AI agents.

    These options may stand before or after noun and verb.
    """


def run(argv: list[str]) -> int:
    """Carry out a command line; the exit status."""
    if "_SCHED_COMPLETE" in os.environ:
        return _complete()
    return guarded(lambda: _run(argv), is_json=asks_for_json(argv), is_verbose="--verbose" in argv)


def _run(argv: list[str]) -> int:
    options, words = hoist(argv)
    if options.wants_version:
        words = ["version"]
    elif not words and not options.is_json:
        words = ["--help"]
    return _dispatch(options, words)


def _dispatch(options: GlobalOptions, words: list[str]) -> int:
    """What typer's own `main` does, without its handling of errors: ours is in `guarded`."""
    root = typer.main.get_command(app)
    try:
        with root.make_context("sched", words, obj=Invocation(options)) as context:
            status = root.invoke(context)
    except typer.Exit as ended:
        return ended.exit_code
    except typer.Abort:
        note("nothing was changed")
        return EXIT_FAILED
    except USAGE_ERROR as error:
        raise _misused(error) from None
    return status if isinstance(status, int) else EXIT_DONE


def _misused(error: Any) -> Invalid:
    """A usage error in our words: one sentence, and where the right ones are."""
    context = error.ctx
    said = " ".join(error.format_message().split()).rstrip(".")
    place = context.command_path if context is not None else "sched"
    return Invalid(f"{said[:1].lower()}{said[1:]}", hint=f"see `{place} --help`", code="usage")


def _complete() -> int:
    """What the shell asks for; whatever goes wrong, a half-typed line is no place for errors."""
    try:
        typer.main.get_command(app).main([], prog_name="sched")
    except Exception:  # noqa: BLE001
        return EXIT_DONE
    return EXIT_DONE
