"""Rows for people and programs: the columns of a record, with names beside the ids."""

from __future__ import annotations

from kandev_sched.domain.record import as_dict
from kandev_sched.store import agents, routines, triggers, workspaces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from kandev_sched.domain.record import Record
    from kandev_sched.domain.routines import Routine
    from kandev_sched.store.db import Reader

    Row = dict[str, object]

_NAMED: dict[str, tuple[str, Callable[[Reader, str], Any]]] = {
    "workspace_id": ("workspace", workspaces.by_id),
    "agent_id": ("agent", agents.by_id),
    "assignee_agent_id": ("assignee", agents.by_id),
    "routine_id": ("routine", routines.by_id),
    "profile_id": ("profile", agents.profile),
    "executor_id": ("executor", workspaces.executor),
    "project_id": ("project", workspaces.project),
}


class Names:
    """Looks up each name once."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._known: dict[str, str | None] = {}

    def row(self, record: Record) -> Row:
        """The columns of a record, each id preceded by the name of what it identifies."""
        row: Row = {}
        for column, value in as_dict(record).items():
            if column in _NAMED:
                key, find = _NAMED[column]
                row[key] = self._name(find, value)
            row[column] = value
        return row

    def _name(self, find: Callable[[Reader, str], Any], thing_id: str | None) -> str | None:
        if thing_id is None:
            return None
        if thing_id not in self._known:
            thing = find(self._reader, thing_id)
            self._known[thing_id] = thing.name if thing is not None else None
        return self._known[thing_id]


def row_of(reader: Reader, record: Record) -> Row:
    """One record."""
    return Names(reader).row(record)


def rows_of(reader: Reader, records: Iterable[Record]) -> list[Row]:
    """Several records of one kind."""
    names = Names(reader)
    return [names.row(record) for record in records]


def routine_row(reader: Reader, routine: Routine) -> Row:
    """A routine with its triggers."""
    return {**row_of(reader, routine), "triggers": rows_of(reader, triggers.of_routine(reader, routine.id))}
