"""Schedules as people ask for them: what is given → the definition of a trigger, checked as a whole."""

from __future__ import annotations

import json
import re

from kandev_sched.domain.errors import Invalid, NotFound
from kandev_sched.domain.record import Record
from kandev_sched.domain.schedules import OnGap, OnRepeat, Syntax, Trigger, TriggerKind
from kandev_sched.policy import cron, interval, once, quartz
from kandev_sched.policy.naming import suggestion
from kandev_sched.policy.timing import millis
from kandev_sched.store import calendars

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.policy.schedule import Schedule as Slots
    from kandev_sched.store.db import Reader

INPUT_LIMIT_BYTES = 65_536
SPREAD_LIMIT_S = 86_400
# S1: raw credentials never stand in a definition; a key that ends so names a reference to one.
_CREDENTIAL_KEYS = (
    *("apikey", "authorization", "clientsecret", "credential", "credentials", "password", "passphrase"),
    *("refreshtoken", "secret", "token"),
)
_REFERENCE = re.compile(r"(ref|reference)$")
_PREFIXES = ("cred:", "file:", "env:")


class Schedule(Record):
    """One of cron, quartz, every and at; and what goes with it. Instants are RFC 3339 texts with an offset.

    For an existing trigger, None leaves a part as it is.
    """

    cron: str | None = None
    quartz: str | None = None
    every: str | None = None
    at: str | None = None
    zone: str | None = None
    start_at: str | None = None
    end_at: str | None = None
    max_fires: int | None = None
    on_gap: OnGap | None = None
    on_repeat: OnRepeat | None = None
    spread_s: int | None = None
    calendars: tuple[str, ...] | None = None
    input: dict[str, object] | None = None


def defined(reader: Reader, trigger: Trigger, schedule: Schedule) -> Trigger:
    """`trigger` with what the schedule gives. Raises Invalid for what cannot be, or can never fire."""
    syntax, expression = _expression(trigger, schedule)
    if syntax is None:
        raise Invalid(f"trigger {trigger.id} has no schedule", hint="add one with `sched trigger add`")
    changed = trigger.replace(
        kind=TriggerKind.SCHEDULE,
        syntax=syntax,
        expression=expression,
        on_gap=schedule.on_gap or trigger.on_gap,
        on_repeat=schedule.on_repeat or trigger.on_repeat,
        spread_s=trigger.spread_s if schedule.spread_s is None else _spread(schedule.spread_s),
        max_fires=trigger.max_fires if schedule.max_fires is None else _positive(schedule.max_fires),
        end_at=_moment("the end", schedule.end_at) or trigger.end_at,
        calendar_ids=trigger.calendar_ids
        if schedule.calendars is None
        else _calendar_ids(reader, trigger.workspace_id, schedule.calendars),
        input=trigger.input if schedule.input is None else checked_input(schedule.input),
    )
    return _placed(changed, schedule)


def _expression(trigger: Trigger, schedule: Schedule) -> tuple[Syntax | None, str | None]:
    given = {
        Syntax.CRON: schedule.cron,
        Syntax.QUARTZ: schedule.quartz,
        Syntax.INTERVAL: schedule.every,
        Syntax.ONCE: schedule.at,
    }
    found = [(syntax, text) for syntax, text in given.items() if text is not None]
    if len(found) > 1:
        names = " and ".join(f"--{_OPTION[syntax]}" for syntax, _ in found)
        raise Invalid(
            f"{names} were given", hint="a trigger has one schedule; add another trigger for the other"
        )
    return found[0] if found else (trigger.syntax, trigger.expression)


_OPTION = {Syntax.CRON: "cron", Syntax.QUARTZ: "quartz", Syntax.INTERVAL: "every", Syntax.ONCE: "at"}


def _placed(trigger: Trigger, schedule: Schedule) -> Trigger:
    """With zone and start as the schedule's kind reads them, and its canonical text."""
    parsed, start_at = _parsed(trigger, schedule)
    if trigger.end_at is not None and start_at is not None and trigger.end_at < start_at:
        raise Invalid("the end is before the start", hint="give a later --end-at")
    if trigger.spread_s and trigger.syntax is Syntax.ONCE:
        raise Invalid("--spread was given for a single instant", hint="spread is for schedules that recur")
    return trigger.replace(expression=parsed.text, zone=parsed.zone, start_at=start_at)


def _parsed(trigger: Trigger, schedule: Schedule) -> tuple[Slots, int | None]:
    start_at = _moment("the start", schedule.start_at) or trigger.start_at
    zone = trigger.zone if schedule.zone is None else schedule.zone
    match trigger.syntax:
        case Syntax.QUARTZ:
            return quartz.parse(
                trigger.expression, zone, on_gap=trigger.on_gap, on_repeat=trigger.on_repeat
            ), start_at
        case Syntax.INTERVAL:
            return _interval(trigger, schedule)
        case Syntax.ONCE:
            if schedule.zone is not None:
                raise Invalid("--tz was given for a single instant", hint="its offset says it all")
            return once.parse(trigger.expression), start_at
        case _:
            return cron.parse(
                trigger.expression, zone, on_gap=trigger.on_gap, on_repeat=trigger.on_repeat
            ), start_at


def _interval(trigger: Trigger, schedule: Schedule) -> tuple[Slots, int | None]:
    """The anchor keeps its own offset unless a zone is named: months and days are counted on that clock."""
    from kandev_sched.policy.timing import anchor_of, offset_of

    anchor: object = schedule.start_at
    if anchor is None:
        if trigger.start_at is None:
            raise Invalid("--every was given without --start-at", hint="say from when on it counts")
        anchor = anchor_of(trigger)
    zone = schedule.zone
    if zone is None and schedule.start_at is None and offset_of(trigger.zone) is None:
        zone = trigger.zone
    parsed = interval.parse(trigger.expression, anchor, zone or None)
    return parsed, millis(parsed.start_at)


def _moment(what: str, text: str | None) -> int | None:
    if text is None:
        return None
    moment = once.moment_of(once.moment_text(text, what=what), what=what)
    if moment.tzinfo is None:
        raise Invalid(f"{what} {text!r:.60} has no offset", hint="write it as 2027-01-31T09:00:00+01:00")
    return millis(moment)


def _spread(seconds: int) -> int:
    if not 0 <= seconds <= SPREAD_LIMIT_S:
        raise Invalid(f"the spread is {seconds} s", hint="it must be between 0 and 24h")
    return seconds


def _positive(count: int) -> int:
    if count < 1:
        raise Invalid(f"max-fires is {count}", hint="it must be at least 1")
    return count


def _calendar_ids(reader: Reader, workspace_id: str, names: tuple[str, ...]) -> tuple[str, ...]:
    known = {calendar.name: calendar.id for calendar in calendars.of_workspace(reader, workspace_id)}
    for name in names:
        if name not in known:
            hint = suggestion(name, known, kind="calendar")
            raise NotFound(f"there is no calendar {name!r:.60} in this workspace", hint=hint)
    return tuple(dict.fromkeys(known[name] for name in names))


def checked_input(given: dict[str, object]) -> dict[str, object]:
    """Static input that may be stored: small, and without raw credentials (S1). Raises Invalid."""
    size = len(json.dumps(given, ensure_ascii=False).encode())
    if size > INPUT_LIMIT_BYTES:
        raise Invalid(f"the input has {size} bytes", hint=f"at most {INPUT_LIMIT_BYTES} are allowed")
    _refuse_credentials(given, "input")
    return given


def _refuse_credentials(value: object, path: str) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            if _is_credential(key) and item is not None and not _is_reference(item):
                hint = "name where it is kept: cred:NAME, file:PATH or env:NAME, or a key that ends in Ref"
                raise Invalid(f"{path}.{key} looks like a credential", hint=hint)
            _refuse_credentials(item, f"{path}.{key}")
    if isinstance(value, list | tuple):
        for number, item in enumerate(value):
            _refuse_credentials(item, f"{path}[{number}]")


def _is_credential(key: str) -> bool:
    plain = re.sub(r"[^a-z0-9]", "", key.lower())
    return not _REFERENCE.search(plain) and any(plain.endswith(word) for word in _CREDENTIAL_KEYS)


def _is_reference(item: object) -> bool:
    return isinstance(item, str) and item.startswith(_PREFIXES)
