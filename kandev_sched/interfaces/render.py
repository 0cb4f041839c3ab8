"""What is printed: rows of the operations as JSON documents.

A row is a mapping of column → value, with names beside the ids; instants are milliseconds in it, RFC 3339
in a document. Light, because `sched fire --json` imports it; tables and local times are in `tables.py`.
"""

from __future__ import annotations

import json
import sys

from kandev_sched.domain.instant import rfc3339
from kandev_sched.domain.plain import to_plain
from kandev_sched.domain.record import Record, as_dict
from kandev_sched.interfaces.cli.reporting import write_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    Row = Mapping[str, object]

# Whatever people and agents put in here is shown as they wrote it, also a number named `…_at`.
_VERBATIM = frozenset({"payload", "result", "variables", "trigger_payload", "env", "input"})


def document(value: object) -> Any:
    """A row, a record or a list of them, as JSON has it."""
    if isinstance(value, Record):
        value = as_dict(value)
    if isinstance(value, dict):
        return {key: _field(key, item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [document(item) for item in value]
    return to_plain(value)


def _field(key: str, value: object) -> Any:
    if key in _VERBATIM:
        return to_plain(value)
    if is_instant(key, value):
        return rfc3339(value) if value else None  # type: ignore[arg-type]
    if key == "next_at" and isinstance(value, tuple):
        return [rfc3339(at) for at in value]
    return document(value)


def is_instant(key: str, value: object) -> bool:
    """Whether a value of a row is an instant (ms), told by its column's name."""
    return type(value) is int and (key == "at" or key.endswith("_at"))


def write_json(value: object) -> None:
    """Print one document: indented for a person, on one line for a program."""
    is_for_person = sys.stdout is not None and sys.stdout.isatty()
    write_line(json.dumps(document(value), ensure_ascii=False, indent=2 if is_for_person else None))
