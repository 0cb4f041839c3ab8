"""Templates: `{{name}}` in titles and descriptions, one pass, never re-scanned (S0 Variables).

Resolution, later wins: built-ins → declared defaults → provided values. Types are checked before
anything is written.
"""

from __future__ import annotations

import re
import time

from kandev_sched.domain.errors import Invalid
from kandev_sched.domain.routines import Variable, VariableType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

BUILT_INS = ("date", "datetime")
# Compiled by `re` at their first use: most fires have no placeholder, and no number.
_PLACEHOLDER = r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}"
_NUMBER = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"


def placeholders(*texts: str | None) -> list[str]:
    """The names used in the texts, each once, in order."""
    marked = [text for text in texts if text and "{{" in text]
    return list(dict.fromkeys(name for text in marked for name in re.findall(_PLACEHOLDER, text)))


def declare_missing(variables: Iterable[Variable], *texts: str | None) -> tuple[Variable, ...]:
    """The variables and, as text without default, each placeholder that none declares but built-ins."""
    declared = list(variables)
    known = {variable.name for variable in declared} | set(BUILT_INS)
    return (*declared, *(Variable(name=name) for name in placeholders(*texts) if name not in known))


def resolve(variables: Iterable[Variable], provided: Mapping[str, str]) -> dict[str, str]:
    """Name → text for every declared variable. Raises Invalid: unknown name, wrong type, missing value."""
    declared = {variable.name: variable for variable in variables}
    for name in provided:
        if name not in declared:
            known = ", ".join(declared) or "none"
            raise Invalid(f"{name!r} is not a variable of this routine", hint=f"declared are: {known}")
    return {name: _value_of(variable, provided.get(name)) for name, variable in declared.items()}


def _value_of(variable: Variable, provided: str | None) -> str:
    value = variable.default if provided is None else provided
    if value is None:
        if variable.required:
            raise Invalid(
                f"the variable {variable.name!r} has no value", hint=f"give --var {variable.name}=…"
            )
        return ""
    return checked(variable, value)


def checked(variable: Variable, value: str) -> str:
    """`value` if it fits the variable's type. Raises Invalid."""
    match variable.type:
        case VariableType.NUMBER if not re.fullmatch(_NUMBER, value):
            raise Invalid(f"{variable.name} is {value!r:.60}", hint="it must be a number")
        case VariableType.BOOLEAN if value not in ("true", "false"):
            raise Invalid(f"{variable.name} is {value!r:.60}", hint="it must be true or false")
        case VariableType.SELECT if value not in variable.options:
            options = ", ".join(variable.options)
            raise Invalid(f"{variable.name} is {value!r:.60}", hint=f"it must be one of {options}")
    return value


def render(text: str, values: Mapping[str, str]) -> str:
    """`text` with every known placeholder replaced; unknown ones stand as they are."""
    if "{{" not in text:
        return text
    return re.sub(_PLACEHOLDER, lambda match: values.get(match[1], match[0]), text)


def built_ins(now_ms: int, zone: str) -> dict[str, str]:
    """`date` and `datetime` as the trigger's zone reads the clock."""
    if zone == "UTC":
        wall = time.gmtime(now_ms // 1000)
        return {
            "date": time.strftime("%Y-%m-%d", wall),
            "datetime": time.strftime("%Y-%m-%dT%H:%M:%SZ", wall),
        }
    import datetime

    from kandev_sched.policy import zones

    local = datetime.datetime.fromtimestamp(now_ms // 1000, zones.zone(zone))
    return {"date": local.date().isoformat(), "datetime": local.isoformat()}
