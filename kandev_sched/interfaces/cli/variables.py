"""`--var 'name:type[=default][!][a|b]'`: the declaration of a template variable."""

from __future__ import annotations

import re

from kandev_sched.domain.errors import Invalid
from kandev_sched.domain.routines import Variable, VariableType

_HINT = "write NAME:TYPE[=DEFAULT][!][A|B], such as 'level:select=low[low|high]'; ! makes it required"
_DECLARED = re.compile(
    r"(?P<name>[^:=!\[\]]+)(?::(?P<type>[a-z]+))?(?P<required>!)?(?:=(?P<default>.*?))?(?P<late>!)?"
    r"(?:\[(?P<options>[^\[\]]*)\])?",
    re.DOTALL,
)


def declared(words: list[str] | None) -> tuple[Variable, ...]:
    """The declarations, in order. Raises Invalid for one that cannot be read."""
    return tuple(_declared(word) for word in words or ())


def _declared(word: str) -> Variable:
    match = _DECLARED.fullmatch(word)
    if match is None or (match["type"] or "text") not in frozenset(VariableType):
        raise Invalid(f"--var is {word!r:.60}", hint=_HINT)
    return Variable(
        name=match["name"],
        type=VariableType(match["type"] or "text"),
        default=match["default"],
        required=bool(match["required"] or match["late"]),
        options=tuple(match["options"].split("|")) if match["options"] else (),
    )
