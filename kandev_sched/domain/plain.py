"""Plain values (what JSON and TOML give) ↔ records, strictly: what does not fit is refused by its path.

Written here because msgspec's import alone would break the time limit of `sched fire` (see record.py).
"""

from __future__ import annotations

import types
from enum import StrEnum

from kandev_sched.domain.errors import Invalid
from kandev_sched.domain.record import Record, as_dict, field_types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false", dict: "a table"}


def to_plain(value: object) -> Any:
    """Records, tuples and enums as what `json.dumps` and `tomli_w` take."""
    if isinstance(value, Record):
        return {name: to_plain(field) for name, field in as_dict(value).items()}
    if isinstance(value, dict):
        return {name: to_plain(field) for name, field in value.items()}
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    return str(value) if isinstance(value, StrEnum) else value


def from_plain(kind: Any, value: object, path: str = "$") -> Any:
    """`value` as `kind` (scalar, enum, record, `X | None`, `dict[str, X]`, `tuple[X, ...]`).

    Raises Invalid naming the path whose value is wrong.
    """
    if kind is object:
        return value
    if isinstance(kind, types.UnionType):
        return _from_optional(kind, value, path)
    if isinstance(kind, types.GenericAlias):
        return _from_generic(kind, value, path)
    if issubclass(kind, Record):
        return _from_table(kind, value, path)
    if issubclass(kind, StrEnum):
        return _from_choice(kind, value, path)
    return _from_scalar(kind, value, path)


def _wrong(path: str, value: object, right: str) -> Invalid:
    return Invalid(f"{path} is {value!r:.60}", hint=f"it must be {right}")


def _from_scalar(kind: type, value: object, path: str) -> object:
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise _wrong(path, value, _NAMES.get(kind, kind.__name__))
    return value


def _from_choice(kind: type[StrEnum], value: object, path: str) -> StrEnum:
    if isinstance(value, str) and value in frozenset(kind):
        return kind(value)
    raise _wrong(path, value, "one of " + ", ".join(kind))


def _from_optional(kind: types.UnionType, value: object, path: str) -> object:
    if value is None and type(None) in kind.__args__:
        return None
    (inner,) = (arm for arm in kind.__args__ if arm is not type(None))
    return from_plain(inner, value, path)


def _from_generic(kind: types.GenericAlias, value: object, path: str) -> object:
    origin, inner = kind.__origin__, kind.__args__[-2 if kind.__origin__ is tuple else -1]
    if origin is dict and isinstance(value, dict):
        return {name: from_plain(inner, item, f"{path}.{name}") for name, item in value.items()}
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(from_plain(inner, item, f"{path}[{i}]") for i, item in enumerate(value))
    raise _wrong(path, value, "a table" if origin is dict else "a list")


def _from_table(kind: type[Record], value: object, path: str) -> Record:
    if not isinstance(value, dict):
        raise _wrong(path, value, "a table")
    fields = field_types(kind)
    for name in value:
        if name not in fields:
            raise Invalid(
                f"{path}.{name} is not a known key", hint=f"known keys are {', '.join(sorted(fields))}"
            )
    try:
        return kind(
            **{name: from_plain(fields[name], item, f"{path}.{name}") for name, item in value.items()}
        )
    except TypeError as error:
        raise Invalid(f"{path} is incomplete: {error}") from None
