"""Activity lines and inbox items."""

from __future__ import annotations

from kandev_sched.domain.activity import Activity, InboxItem
from kandev_sched.store.sql import Sql, Statement, insert_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.store.db import Reader, Tx

_ADD = Statement(
    "INSERT INTO activity"
    " (workspace_id, at, kind, sentence, agent_id, run_id, wakeup_id, routine_id, task_id)"
    " VALUES (:workspace_id, :now, :kind, :sentence, :agent_id, :run_id, :wakeup_id, :routine_id, :task_id)"
)


def record(
    tx: Tx,
    kind: str,
    sentence: str,
    *,
    workspace_id: str | None,
    agent_id: str | None = None,
    run_id: str | None = None,
    wakeup_id: str | None = None,
    routine_id: str | None = None,
    task_id: str | None = None,
) -> None:
    """Add a line to the history."""
    tx.run(
        _ADD,
        kind=kind,
        sentence=sentence,
        workspace_id=workspace_id,
        agent_id=agent_id,
        run_id=run_id,
        wakeup_id=wakeup_id,
        routine_id=routine_id,
        task_id=task_id,
        now=tx.now,
    )


_RECENT = Sql(
    "SELECT * FROM activity"
    " WHERE (:workspace_id IS NULL OR workspace_id IS NULL OR workspace_id = :workspace_id)"
    " AND (:kind IS NULL OR kind = :kind) ORDER BY id DESC LIMIT :limit",
    Activity,
)


def recent(
    reader: Reader, *, workspace_id: str | None, kind: str | None = None, limit: int
) -> list[Activity]:
    """The newest lines, newest first."""
    return reader.all(_RECENT, workspace_id=workspace_id, kind=kind, limit=limit)


_ADD_ITEM = insert_of("inbox_items", InboxItem)


def add_inbox_item(tx: Tx, item: InboxItem) -> None:
    """Ask for a person's attention."""
    tx.insert(_ADD_ITEM, item)


_OPEN_ITEMS = Sql(
    "SELECT * FROM inbox_items WHERE resolved_at IS NULL"
    " AND (:workspace_id IS NULL OR workspace_id = :workspace_id) ORDER BY created_at, id",
    InboxItem,
)


def open_inbox(reader: Reader, *, workspace_id: str | None) -> list[InboxItem]:
    """What still needs a person."""
    return reader.all(_OPEN_ITEMS, workspace_id=workspace_id)
