"""What a person may want to read later: activity lines and inbox items."""

from __future__ import annotations

from kandev_sched.domain.record import Record


class Activity(Record):
    """One line of a workspace's history."""

    id: int
    workspace_id: str | None = None
    at: int
    kind: str
    sentence: str
    agent_id: str | None = None
    run_id: str | None = None
    wakeup_id: str | None = None
    routine_id: str | None = None
    task_id: str | None = None


class InboxItem(Record):
    """Something that needs a person."""

    id: str
    workspace_id: str
    kind: str
    title: str
    body: str = ""
    agent_id: str | None = None
    task_id: str | None = None
    run_id: str | None = None
    created_at: int
    resolved_at: int | None = None
