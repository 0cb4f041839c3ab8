"""What `sched inspect` and the lists show: rows with the names that people use beside the ids.

Read-only; works while the supervisor runs or is dead.
"""

from __future__ import annotations

from kandev_sched.domain.record import Record
from kandev_sched.domain.runs import Reason, Run, RunStatus, RunStep
from kandev_sched.operations import lookup
from kandev_sched.operations.runs import waiting_of
from kandev_sched.store import agents, runs, wakeups, workspaces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.domain.settings import Settings
    from kandev_sched.domain.wakeups import WakeupRequest
    from kandev_sched.store.db import Reader


class RunView(Record):
    """The keys of a run in `inspect runs --json` (cli.md), in that order; then what else helps."""

    id: str
    agent: str
    agent_id: str
    workspace: str
    reason: Reason
    source: str
    status: RunStatus
    task_id: str | None
    routine_id: str | None
    coalesced_count: int
    retry_count: int
    requested_at: int
    eligible_at: int
    claimed_at: int | None
    started_at: int | None
    finished_at: int | None
    scheduled_retry_at: int | None
    cancel_reason: str | None
    error: str | None
    exit_code: int | None
    cost_cents: int | None
    follow_up_of: str | None
    retry_of: str | None
    attempt: int
    outcome: str | None
    waiting_for: str | None = None


class Circumstances(Record):
    """What the views of this moment depend on, besides the database."""

    settings: Settings
    is_supervised: bool
    now: int


def run_view(reader: Reader, run: Run, at: Circumstances) -> RunView:
    """One run as people see it."""
    agent, workspace = agents.by_id(reader, run.agent_id), workspaces.by_id(reader, run.workspace_id)
    held = waiting_of(reader, run, settings=at.settings, is_supervised=at.is_supervised, now=at.now)
    own = {name: getattr(run, name) for name in _SHARED}
    return RunView(
        agent=agent.name if agent else run.agent_id,
        workspace=workspace.name if workspace else run.workspace_id,
        waiting_for=held.sentence if held else None,
        **own,
    )


_SHARED = tuple(name for name in RunView._defaults if name not in ("agent", "workspace", "waiting_for"))


class RunFilter(Record):
    """Which runs. `since`: asked for at or after that instant (ms)."""

    workspace: str = lookup.DEFAULT_WORKSPACE
    agent: str | None = None
    status: RunStatus | None = None
    task: str | None = None
    since: int | None = None
    limit: int = 50


def list_runs(reader: Reader, only: RunFilter, at: Circumstances) -> list[RunView]:
    """The newest runs, newest first."""
    workspace = lookup.the_workspace(reader, only.workspace)
    found = runs.recent(
        reader,
        workspace_id=workspace.id,
        agent_id=lookup.the_agent(reader, workspace, only.agent).id if only.agent else None,
        status=only.status,
        task_id=lookup.the_task(reader, workspace, only.task).id if only.task else None,
        since=only.since,
        limit=only.limit,
    )
    return [run_view(reader, run, at) for run in found]


class RunDetail(Record):
    """One run whole: its wakeups, its steps, what it waits for."""

    run: RunView
    wakeups: tuple[WakeupRequest, ...]
    steps: tuple[RunStep, ...]
    result: dict[str, object] | None


def run_detail(reader: Reader, run: Run, at: Circumstances) -> RunDetail:
    """`sched inspect run ID`, without the files of the attempt."""
    return RunDetail(
        run=run_view(reader, run, at),
        wakeups=tuple(wakeups.of_run(reader, run.id)),
        steps=tuple(runs.steps(reader, run.id)),
        result=run.result,
    )


def list_queue(reader: Reader, at: Circumstances, *, limit: int) -> list[RunView]:
    """The queue of all workspaces, oldest first, each with what it waits for."""
    return [run_view(reader, run, at) for run in runs.queued(reader, workspace_id=None, limit=limit)]
