"""Sql: a statement and the record that its rows fill. A test prepares every `Sql` against a fresh schema."""

from __future__ import annotations

import json
import types
from enum import StrEnum

from kandev_sched.domain.plain import from_plain, to_plain
from kandev_sched.domain.record import Record, field_names, field_types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Generic, TypeVar

    R = TypeVar("R", bound=Record)
else:
    R = None

    class Generic:
        """Stands in for typing.Generic, whose import is too dear for `sched fire`."""

        def __class_getitem__(cls, _parameter):
            return cls


ALL_STATEMENTS: list[Sql[Any]] = []


class Sql(Generic[R]):
    """One statement. `into` is the record of its rows: the columns are that record's fields, in order."""

    def __init__(self, text: str, into: type[R]) -> None:
        self.text = text
        self.into = into
        ALL_STATEMENTS.append(self)

    def fill(self, row: tuple[Any, ...]) -> R:
        """The record of one row. Values come from typed columns, so only their spelling is converted."""
        readers = _readers.get(self.into) or _readers_of(self.into)
        # Around the constructor: a row has every field, so there is nothing to merge or to check.
        record, put = object.__new__(self.into), object.__setattr__
        for (name, read), value in zip(readers, row, strict=True):
            put(record, name, value if read is None or value is None else read(value))
        return record


class NoRows(Record):
    """What a statement fills that returns no rows, or a bare value."""


class Statement(Sql[NoRows]):
    """A statement that changes rows, or asks for one bare value."""

    def __init__(self, text: str) -> None:
        super().__init__(text, NoRows)


_readers: dict[type[Record], list[tuple[str, Callable[[Any], Any] | None]]] = {}


def _readers_of(kind: type[Record]) -> list[tuple[str, Callable[[Any], Any] | None]]:
    types_ = field_types(kind)
    _readers[kind] = [(name, _reader(types_[name])) for name in field_names(kind)]
    return _readers[kind]


def _reader(kind: Any) -> Callable[[Any], Any] | None:
    """How a column's value becomes a field of `kind`; None when it is taken as it stands."""
    if isinstance(kind, types.UnionType):
        (kind,) = (arm for arm in kind.__args__ if arm is not type(None))
    if kind is bool:
        return bool
    if isinstance(kind, types.GenericAlias) or issubclass(kind, Record):
        return lambda text: from_plain(kind, json.loads(text))
    return kind if issubclass(kind, StrEnum) else None


def bindings(record: Record) -> dict[str, object]:
    """A record's fields as SQLite takes them: containers as JSON text."""
    return {
        name: value if type(value := getattr(record, name)) in _AS_IT_IS else bound(value)
        for name in record._defaults
    }


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode  # `dumps` makes one each time
_AS_IT_IS = frozenset({str, int, float, bool, type(None)})


def bound(value: object) -> object:
    """One value as SQLite takes it."""
    if type(value) in _AS_IT_IS:
        return value  # nearly every value; the check below costs ten times as much
    if isinstance(value, dict | tuple | Record):
        return _encode(to_plain(value))
    return value


def insert_of(
    table: str, kind: type[Record], *, without: tuple[str, ...] = (), verb: str = "INSERT"
) -> Statement:
    """The statement that inserts one `kind` into `table`; `without` names columns that the store computes."""
    names = [name for name in field_names(kind) if name not in without]
    columns, values = ", ".join(names), ", ".join(f":{name}" for name in names)
    return Statement(f"{verb} INTO {table} ({columns}) VALUES ({values})")
