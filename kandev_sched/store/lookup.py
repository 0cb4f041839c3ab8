"""Ids by a prefix: what a person types may be the beginning of an id, as long as it is unambiguous."""

from __future__ import annotations

from kandev_sched.store.sql import Statement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.store.db import Reader

TABLES = (
    "agents",
    "profiles",
    "executors",
    "projects",
    "tasks",
    "routines",
    "triggers",
    "routine_runs",
    "runs",
    "wakeup_requests",
)
_IDS = {
    table: Statement(
        f"SELECT id FROM {table} WHERE id >= :prefix AND id < :prefix || '~'"  # noqa: S608 - names of ours
        " AND (:workspace_id IS NULL OR workspace_id = :workspace_id) LIMIT 3"
    )
    for table in TABLES
}


def ids_with_prefix(reader: Reader, table: str, prefix: str, *, workspace_id: str | None) -> list[str]:
    """At most three ids that begin with `prefix`: enough to tell none, one, and several."""
    return [row[0] for row in reader.rows(_IDS[table], prefix=prefix, workspace_id=workspace_id)]
