"""The short way for `fire` and `wake`, which programs call all day: no typer, at most 30 ms of Python.

It does only what it fully understands: plain words and the options below. Anything else (`--help`, `--wait`,
a typing error) goes the long way, which has the same answers; a contract test compares the two.
"""

from __future__ import annotations

import os

from kandev_sched.domain.errors import SchedError
from kandev_sched.interfaces.cli.options import hoist

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.interfaces.cli.options import GlobalOptions

_FIRE = {"--var": "variables", "--key": "key"}
_WAKE = {"--reason": "reason", "--task": "task", "--payload": "payload", "--key": "key"}
_WAKE_FLAGS = {"--as-self": "as_self"}


def attempt(argv: list[str]) -> int | None:
    """The exit status; None when the long way must be gone."""
    if "SCHED_SLOW_PATH" in os.environ or "_SCHED_COMPLETE" in os.environ:
        return None
    try:
        options, words = hoist(argv)
    except SchedError:
        return None
    if options.wants_version or not words or words[0] not in ("fire", "wake"):
        return None
    if words[0] == "fire":
        found = _parse(words[1:], _FIRE, {}, position="routine")
    else:
        found = _parse(words[1:], _WAKE, _WAKE_FLAGS, position="agent")
        if found is not None and "reason" not in found:
            return None
    return None if found is None else _carry_out(words[0], found, options)


def _parse(
    words: list[str], with_value: dict[str, str], flags: dict[str, str], *, position: str
) -> dict[str, object] | None:
    """The words by name; None unless all are understood, and exactly one is positional."""
    found: dict[str, object] = {}
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if word in flags:
            found[flags[word]] = True
        elif name in with_value:
            given = value if equals else next(rest, None)
            if given is None:
                return None
            key = with_value[name]
            found[key] = (*found.get(key, ()), given) if key == "variables" else given  # type: ignore[misc]
        elif word.startswith("-") or position in found:
            return None
        else:
            found[position] = word
    return found if position in found else None


def _carry_out(verb: str, found: dict[str, object], options: GlobalOptions) -> int:
    from kandev_sched.interfaces.cli.reporting import guarded

    def command() -> int:
        from kandev_sched.interfaces.cli import asking
        from kandev_sched.interfaces.cli.invocation import Invocation

        here = Invocation(options)
        if verb == "fire":
            asking.fire(here, asking.FireWords(**found))  # type: ignore[arg-type]
        else:
            asking.wake(here, asking.WakeWords(**found))  # type: ignore[arg-type]
        return 0

    return guarded(command, is_json=options.is_json, is_verbose=options.is_verbose)
