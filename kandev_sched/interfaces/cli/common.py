"""What the commands of several nouns share: typer's declarations, and asking before something is gone."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from kandev_sched.domain.errors import Invalid
from kandev_sched.domain.record import Record, as_dict
from kandev_sched.interfaces.cli import completion
from kandev_sched.interfaces.cli.invocation import Invocation

AgentName = Annotated[str, typer.Argument(metavar="AGENT", autocompletion=completion.agents)]
RoutineName = Annotated[str, typer.Argument(metavar="ROUTINE", autocompletion=completion.routines)]
ProfileName = Annotated[str, typer.Argument(metavar="PROFILE", autocompletion=completion.profiles)]
TaskId = Annotated[str, typer.Argument(metavar="TASK", autocompletion=completion.tasks)]
TriggerId = Annotated[str, typer.Argument(metavar="TRIGGER", autocompletion=completion.triggers)]
RunId = Annotated[str, typer.Argument(metavar="RUN", autocompletion=completion.runs)]
NewName = Annotated[str, typer.Argument(metavar="NAME")]
Limit = Annotated[int, typer.Option("-n", "--limit", metavar="N", help="At most so many.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]
Environment = Annotated[
    list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="Environment variable; repeatable.")
]


def invocation(context: typer.Context) -> Invocation:
    """The command that is being carried out."""
    here = context.obj
    assert isinstance(here, Invocation)
    return here


def confirm(question: str, *, is_sure: bool) -> None:
    """Ask on a terminal. Raises Invalid where nobody can answer, Abort when the answer is no."""
    if is_sure:
        return
    if not (sys.stdin and sys.stdin.isatty() and sys.stderr and sys.stderr.isatty()):
        raise Invalid(f"{question} Nobody can be asked here", hint="add --yes", code="unconfirmed")
    typer.confirm(question, abort=True, err=True)


Zone = Annotated[
    str | None,
    typer.Option(
        "--tz", metavar="ZONE", help="The zone of the schedule; default UTC.", autocompletion=completion.zones
    ),
]


def plain_row(record: Record) -> dict[str, object]:
    """A record that carries its names already, as a row."""
    return as_dict(record)


def warn_if_missing(
    here: Invocation, argv: tuple[str, ...] | None, *, env: dict[str, str], cwd: str | None
) -> None:
    """A program that does not exist fails each run; better to hear of it when it is named."""
    from kandev_sched.launch.command import DEFAULT_PATH, find_command, why_not_found

    if not argv:
        return
    path = env.get("PATH") or os.environ.get("PATH") or DEFAULT_PATH
    place = (argv[0], path, cwd or present_directory())
    if find_command(*place) is None:
        here.warn(why_not_found(*place))


def present_directory() -> str:
    """Where the command was typed. Raises Invalid when that directory is gone."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise Invalid("the present directory does not exist any more", hint="go to another one") from None
