"""`fire` and `wake`, as both ways of the command line carry them out: one transaction, one answer."""

from __future__ import annotations

from kandev_sched.domain.errors import Invalid
from kandev_sched.domain.record import Record
from kandev_sched.operations.firing import FireRoutine, WakeAgent, fire_routine, wake_agent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.flow.firing import Fired
    from kandev_sched.interfaces.cli.invocation import Invocation
    from kandev_sched.operations.firing import Woken

UNSUPERVISED = "no supervisor is running: the run waits for `sched serve`"


class FireWords(Record):
    """What was typed after `fire`."""

    routine: str
    variables: tuple[str, ...] = ()
    key: str | None = None


class WakeWords(Record):
    """What was typed after `wake`."""

    agent: str
    reason: str
    task: str | None = None
    payload: str | None = None
    key: str | None = None
    as_self: bool = False


def fire(here: Invocation, words: FireWords) -> None:
    """`sched fire`."""
    is_supervised = here.is_supervised()
    fired = ask_to_fire(here, words)
    here.tell(sentence_of(words.routine, fired), fired_row(here, fired) if here.is_json else None)
    if fired.run is not None and not is_supervised:
        here.note(UNSUPERVISED)


def ask_to_fire(here: Invocation, words: FireWords) -> Fired:
    """Fire the routine; durable when this returns."""
    command = FireRoutine(
        workspace=here.workspace,
        routine=words.routine,
        variables=pairs(words.variables, option="--var"),
        key=words.key,
    )
    settings = here.config.settings
    return here.write(lambda tx: fire_routine(tx, command, settings))


def fired_row(here: Invocation, fired: Fired) -> object:
    """The document of `fire --json` (cli.md), as things stand now."""
    from kandev_sched.operations.inspection import fired_view

    at = here.circumstances()
    return here.read(lambda reader: fired_view(reader, fired, at))


def sentence_of(routine: str, fired: Fired) -> str:
    """What came of a fire, in a line."""
    occurrence, run, task = fired.routine_run, fired.run, fired.task
    if run is None:
        return f"{routine}: {occurrence.status}, {occurrence.reason or 'nothing was started'}"
    what = f"run {run.id} is {run.status}" + (f", for task {task.id}" if task else "")
    if fired.is_duplicate:
        return f"{routine} was fired with this key before: {what}"
    return f"{routine}: coalesced, {what}" if occurrence.status == "coalesced" else f"{routine}: {what}"


def wake(here: Invocation, words: WakeWords) -> None:
    """`sched wake`."""
    command = WakeAgent(
        workspace=here.workspace,
        agent=words.agent,
        reason=words.reason,
        user=_user(),
        task=words.task,
        payload=json_object(words.payload, option="--payload"),
        key=words.key,
        as_self=words.as_self,
    )
    settings, is_supervised = here.config.settings, here.is_supervised()
    woken = here.write(lambda tx: wake_agent(tx, command, settings))
    sentence = f"{words.agent}: wakeup {woken.wakeup.id}, run {woken.run.id} is {woken.run.status}"
    here.tell(sentence, woken_row(here, woken) if here.is_json else None)
    if not is_supervised:
        here.note(UNSUPERVISED)


def woken_row(here: Invocation, woken: Woken) -> object:
    """The document of `wake --json`."""
    from kandev_sched.operations.inspection import woken_view

    at = here.circumstances()
    return here.read(lambda reader: woken_view(reader, woken, at))


def pairs(words: tuple[str, ...], *, option: str) -> dict[str, str]:
    """`K=V` words as a mapping. Raises Invalid."""
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name or not equals:
            raise Invalid(f"{option} is {word!r:.60}", hint=f"write {option} NAME=VALUE")
        if name in found:
            raise Invalid(f"{option} gives {name!r:.60} twice", hint="give it once")
        found[name] = value
    return found


def json_object(text: str | None, *, option: str) -> dict[str, object] | None:
    """A JSON object. Raises Invalid."""
    if text is None:
        return None
    import json

    try:
        value = json.loads(text, parse_constant=_no_constant)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        said = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise Invalid(f"{option} is {text!r:.60}, which is not JSON: {said:.100}", hint=_OBJECT) from None
    if not isinstance(value, dict):
        raise Invalid(f"{option} is {text!r:.60}, which is not a JSON object", hint=_OBJECT)
    return value


_OBJECT = "write an object such as '{\"build\": 17}'"


def _no_constant(name: str) -> object:
    raise ValueError(f"JSON has no {name}")


def _user() -> str:
    """Who asks: the name that this user has on this machine."""
    import os
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
