"""`sched status`: is there a supervisor, what do its loops do, what waits, what needs a person."""

from __future__ import annotations

import os

from kandev_sched.domain.activity import InboxItem
from kandev_sched.domain.record import Record
from kandev_sched.domain.schedules import Trigger
from kandev_sched.domain.supervision import LoopState, SupervisorPhase
from kandev_sched.operations.inspection import Circumstances, list_queue
from kandev_sched.store import activity, census, runs, supervision, triggers
from kandev_sched.store.gate import GateHolder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.domain.supervision import SupervisorState
    from kandev_sched.operations.views import Row
    from kandev_sched.store.db import Reader

OVERDUE_AFTER_MS = 60_000
GATE_HELD_TOO_LONG_MS = 10_000
QUEUE_LIMIT = 1000


class SupervisorView(Record):
    """The supervisor, as far as its row and its listening tell."""

    is_running: bool
    phase: SupervisorPhase
    pid: int | None
    started_at: int | None


class Status(Record):
    """The whole page. `problems`: sentences about what needs a person; none means all is well."""

    supervisor: SupervisorView
    loops: tuple[LoopState, ...]
    queued_count: int
    claimed_count: int
    held_count: int
    waiting_count: int
    overdue_triggers: tuple[Trigger, ...]
    next_trigger_at: int | None
    inbox: tuple[InboxItem, ...]
    gate_holder: GateHolder | None
    database_bytes: int
    wal_bytes: int
    problems: tuple[str, ...] = ()


def status(reader: Reader, at: Circumstances, *, path: str, holder: GateHolder | None) -> Status:
    """Everything at once. `holder`: who has the gate now."""
    queued_count, claimed_count = runs.counts(reader)
    queue = list_queue(reader, at, limit=QUEUE_LIMIT)
    held_count = sum((run.waiting_for or "").startswith("held") for run in queue)
    page = Status(
        supervisor=_supervisor(reader, at),
        loops=tuple(supervision.loops(reader)),
        queued_count=queued_count,
        claimed_count=claimed_count,
        held_count=held_count,
        waiting_count=queued_count - held_count,
        overdue_triggers=tuple(triggers.due(reader, now=at.now - OVERDUE_AFTER_MS, limit=100)),
        next_trigger_at=triggers.next_at(reader),
        inbox=tuple(activity.open_inbox(reader, workspace_id=None)),
        gate_holder=holder,
        database_bytes=_size(path),
        wal_bytes=_size(f"{path}-wal"),
    )
    return page.replace(problems=tuple(_problems(page, at)))


def _supervisor(reader: Reader, at: Circumstances) -> SupervisorView:
    row = supervision.state(reader)
    phase = row.state if row is not None and at.is_supervised else SupervisorPhase.STOPPED
    return SupervisorView(
        is_running=at.is_supervised,
        phase=phase,
        pid=row.pid if row and at.is_supervised else None,
        started_at=row.started_at if row and at.is_supervised else None,
    )


def _problems(page: Status, at: Circumstances) -> list[str]:
    found = []
    if not page.supervisor.is_running and (page.queued_count > page.held_count or page.next_trigger_at):
        found.append("no supervisor is running; start one with `sched serve`")
    if page.supervisor.is_running and page.overdue_triggers:
        found.append(f"{len(page.overdue_triggers)} triggers are overdue by more than a minute")
    if page.inbox:
        found.append(f"{len(page.inbox)} inbox items need an answer")
    if page.gate_holder and at.now - page.gate_holder.since_at > GATE_HELD_TOO_LONG_MS:
        found.append(f"{page.gate_holder.command} (pid {page.gate_holder.pid}) holds the database's gate")
    found += [f"loop {loop.name} fails: {loop.last_error}" for loop in page.loops if loop.last_error]
    return found


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def supervisor_state(reader: Reader) -> SupervisorState | None:
    """What the last supervisor noted of itself."""
    return supervision.state(reader)


def database_facts(reader: Reader, *, path: str) -> Row:
    """`sched inspect db`."""
    return {
        "path": path,
        "schema_version": census.schema_version(reader),
        "database_bytes": _size(path),
        "wal_bytes": _size(f"{path}-wal"),
        "free_bytes": census.free_bytes(reader),
        "rows": census.row_counts(reader),
    }
