"""The global options, which may stand before or after noun and verb: they are taken out of argv first.

A value that looks like a global option is written with an equals sign: `--description=--json`.
"""

from __future__ import annotations

from kandev_sched.domain.errors import Invalid
from kandev_sched.domain.record import Record

_WITH_VALUE = {
    "--db": "db",
    "--config": "config",
    "--workspace": "workspace",
    "--show-tz": "show_tz",
}
_FLAGS = {
    "--json": "is_json",
    "--utc": "is_utc",
    "--no-color": "is_plain",
    "--quiet": "is_quiet",
    "--verbose": "is_verbose",
    "--version": "wants_version",
}


class GlobalOptions(Record):
    """What holds for any command; None where the environment, the config or a default decides."""

    db: str | None = None
    config: str | None = None
    workspace: str | None = None
    show_tz: str | None = None
    is_json: bool = False
    is_utc: bool = False
    is_plain: bool = False
    is_quiet: bool = False
    is_verbose: bool = False
    wants_version: bool = False


def hoist(argv: list[str]) -> tuple[GlobalOptions, list[str]]:
    """The global options, and the other words in their order. Raises Invalid for a missing value."""
    found: dict[str, str | bool] = {}
    others: list[str] = []
    words = iter(argv)
    for word in words:
        name, equals, value = word.partition("=")
        if word == "--":
            others += [word, *words]
        elif word in _FLAGS:
            found[_FLAGS[word]] = True
        elif name in _WITH_VALUE:
            found[_WITH_VALUE[name]] = _checked(name, value if equals else next(words, ""))
        else:
            others.append(word)
    return GlobalOptions(**found), others  # type: ignore[arg-type]


def _checked(name: str, value: str) -> str:
    if not value:
        raise Invalid(f"option {name} needs a value", hint=f"write {name} VALUE", code="usage")
    return value


def asks_for_json(argv: list[str]) -> bool:
    """Whether errors are JSON, also those of an argv that cannot be understood."""
    return "--json" in argv
