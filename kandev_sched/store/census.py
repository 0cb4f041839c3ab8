"""Counting what is in the database, for `sched inspect db`."""

from __future__ import annotations

from kandev_sched.store.sql import Statement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.store.db import Reader

_TABLES = Statement("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")


def row_counts(reader: Reader) -> dict[str, int]:
    """How many rows each table has."""
    return {name: int(reader.value(_count_of(name))) for (name,) in reader.rows(_TABLES)}


def _count_of(table: str) -> Statement:
    return Statement(f'SELECT count(*) FROM "{table}"')  # noqa: S608 - a name from the schema itself


_VERSION = Statement("SELECT user_version FROM pragma_user_version")


def schema_version(reader: Reader) -> int:
    """The number of the last migration."""
    return int(reader.value(_VERSION))


_FREE = Statement("SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size")


def free_bytes(reader: Reader) -> int:
    """How much of the file is empty."""
    return int(reader.value(_FREE))
