"""The options that say when something fires, shared by `routine add`, `trigger add` and `trigger set`."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable
from typing import Annotated, Any

import typer

from kandev_sched.domain.errors import Invalid
from kandev_sched.domain.schedules import OnGap, OnRepeat
from kandev_sched.interfaces.cli import common, completion
from kandev_sched.interfaces.cli.values import choice
from kandev_sched.interfaces.times import seconds_or_none
from kandev_sched.operations.schedules import Schedule

Cron = Annotated[str | None, typer.Option("--cron", metavar="'*/5 * * * *'", help="Five fields, crontab(5).")]
Quartz = Annotated[
    str | None, typer.Option("--quartz", metavar="'0 0 9 ? * MON'", help="Six or seven fields, 1 = SUN.")
]
Every = Annotated[
    str | None, typer.Option("--every", metavar="PT15M", help="An ISO-8601 duration, from --start-at on.")
]
At = Annotated[
    str | None, typer.Option("--at", metavar="2027-01-31T09:00:00+01:00", help="Once, at that instant.")
]
StartAt = Annotated[
    str | None, typer.Option("--start-at", metavar="INSTANT", help="Nothing fires before it.")
]
EndAt = Annotated[str | None, typer.Option("--end-at", metavar="INSTANT", help="Nothing fires after it.")]
MaxFires = Annotated[int | None, typer.Option("--max-fires", metavar="N", help="At most so many fires.")]
GapRule = Annotated[
    str | None,
    typer.Option(
        "--on-gap",
        metavar="|".join(OnGap),
        help="A slot that the clock skips: leave it out, or fire when the clock goes on.",
        autocompletion=lambda: list(OnGap),
    ),
]
RepeatRule = Annotated[
    str | None,
    typer.Option(
        "--on-repeat",
        metavar="|".join(OnRepeat),
        help="A slot that the clock shows twice: fire the first time, or both times.",
        autocompletion=lambda: list(OnRepeat),
    ),
]
Spread = Annotated[
    str | None,
    typer.Option("--spread", metavar="5m", help="A fixed delay below this, its own for each."),
]
Calendars = Annotated[
    list[str] | None,
    typer.Option(
        "--calendar",
        metavar="NAME",
        help="Nothing fires inside it; repeatable.",
        autocompletion=completion.calendars,
    ),
]
Input = Annotated[
    str | None,
    typer.Option("--input", metavar="JSON", help="An object that the agent is given."),
]
IfMatch = Annotated[
    str | None, typer.Option("--if-match", metavar="ETAG", help="Change it only if it still is that.")
]


_OPTIONS = {
    "cron": Cron,
    "quartz": Quartz,
    "every": Every,
    "at": At,
    "tz": common.Zone,
    "start_at": StartAt,
    "end_at": EndAt,
    "max_fires": MaxFires,
    "on_gap": GapRule,
    "on_repeat": RepeatRule,
    "spread": Spread,
    "calendar": Calendars,
    "input": Input,
}


def with_schedule(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a schedule; it receives what they say as its parameter `schedule`."""
    own = inspect.signature(command, eval_str=True)
    kept = [parameter for name, parameter in own.parameters.items() if name != "schedule"]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in _OPTIONS.items()
    ]

    @functools.wraps(command)
    def wrapper(**given: Any) -> None:
        words = {name: given.pop(name) for name in _OPTIONS}
        command(**given, schedule=_schedule_of(**words))

    # typer reads a command's options from its signature and annotations.
    wrapper.__signature__ = own.replace(parameters=[*kept, *added])  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in (*kept, *added)}
    return wrapper


def _schedule_of(
    *,
    tz: str | None,
    on_gap: str | None,
    on_repeat: str | None,
    spread: str | None,
    calendar: list[str] | None,
    input: str | None,
    **same: Any,
) -> Schedule:
    """What was given, of everything that can be said about when. Raises Invalid."""
    return Schedule(
        zone=tz,
        on_gap=choice(OnGap, on_gap, option="--on-gap"),
        on_repeat=choice(OnRepeat, on_repeat, option="--on-repeat"),
        spread_s=seconds_or_none(spread, option="--spread"),
        calendars=tuple(calendar) if calendar else None,
        input=json_object(input, option="--input"),
        **same,
    )


def new_schedule(asked: Schedule) -> Schedule | None:
    """For what is added: None when nothing fires by itself. Raises Invalid for mere trimmings."""
    if any(text is not None for text in (asked.cron, asked.quartz, asked.every, asked.at)):
        return asked
    if asked != Schedule():
        hint = "add one of --cron, --quartz, --every and --at"
        raise Invalid("options of a schedule were given without a schedule", hint=hint)
    return None


_LIKE = """write it like '{"a": 1}'"""


def json_object(text: str | None, *, option: str) -> dict[str, object] | None:
    """`--input '{"a": 1}'` as an object. Raises Invalid."""
    if text is None:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise Invalid(
            f"{option} is {text!r:.60}, which is not JSON", hint="""write it like '{"a": 1}'"""
        ) from None
    if not isinstance(found, dict):
        raise Invalid(
            f"{option} is {text!r:.60}, which is not an object", hint="""write it like '{"a": 1}'"""
        )
    return found
