"""What `sched inspect` and the lists show: rows with the names that people use beside the ids.

Read-only; works while the supervisor runs or is dead.
"""

from __future__ import annotations

from kandev_sched.domain.record import Record, as_dict
from kandev_sched.domain.runs import Reason, Run, RunStatus
from kandev_sched.operations import lookup
from kandev_sched.operations.runs import waiting_of
from kandev_sched.operations.views import row_of, rows_of
from kandev_sched.store import activity, agents, attempts, routines, runs, wakeups, workspaces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.domain.settings import Settings
    from kandev_sched.flow.firing import Fired
    from kandev_sched.operations.firing import Woken
    from kandev_sched.operations.views import Row
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


def run_detail(reader: Reader, run: Run, at: Circumstances) -> Row:
    """`sched inspect run ID`, without the files of the attempt: the run's keys, its wakeups, its steps."""
    return {
        **as_dict(run_view(reader, run, at)),
        "wakeups": rows_of(reader, wakeups.of_run(reader, run.id)),
        "steps": rows_of(reader, attempts.steps(reader, run.id)),
        "result": run.result,
    }


def list_queue(reader: Reader, at: Circumstances, *, limit: int) -> list[RunView]:
    """The queue of all workspaces, oldest first, each with what it waits for."""
    return [run_view(reader, run, at) for run in runs.queued(reader, workspace_id=None, limit=limit)]


def fired_view(reader: Reader, fired: Fired, at: Circumstances) -> Row:
    """`sched fire --json` (cli.md)."""
    return {
        "routine_run": row_of(reader, fired.routine_run),
        "wakeup": row_of(reader, fired.wakeup) if fired.wakeup else None,
        "run": run_view(reader, fired.run, at) if fired.run else None,
        "task": row_of(reader, fired.task) if fired.task else None,
        "duplicate": fired.is_duplicate,
        "supervisor_running": at.is_supervised,
    }


def woken_view(reader: Reader, woken: Woken, at: Circumstances) -> Row:
    """`sched wake --json`."""
    return {
        "wakeup": row_of(reader, woken.wakeup),
        "run": run_view(reader, woken.run, at),
        "duplicate": woken.is_duplicate,
        "supervisor_running": at.is_supervised,
    }


def list_wakeups(reader: Reader, *, workspace: str, agent: str | None, limit: int) -> list[Row]:
    """The newest wakeup requests, newest first."""
    place = lookup.the_workspace(reader, workspace)
    agent_id = lookup.the_agent(reader, place, agent).id if agent else None
    return rows_of(reader, wakeups.recent(reader, workspace_id=place.id, agent_id=agent_id, limit=limit))


def list_routine_runs(reader: Reader, *, workspace: str, routine: str | None, limit: int) -> list[Row]:
    """The newest occurrences, newest first."""
    place = lookup.the_workspace(reader, workspace)
    routine_id = lookup.the_routine(reader, place, routine).id if routine else None
    found = routines.recent_runs(reader, workspace_id=place.id, routine_id=routine_id, limit=limit)
    return rows_of(reader, found)


def list_sessions(reader: Reader, *, workspace: str, limit: int) -> list[Row]:
    """The newest agent sessions, newest first."""
    place = lookup.the_workspace(reader, workspace)
    return rows_of(reader, attempts.sessions(reader, workspace_id=place.id, limit=limit))


def list_activity(reader: Reader, *, workspace: str, kind: str | None, limit: int) -> list[Row]:
    """The newest lines of the history, newest first."""
    place = lookup.the_workspace(reader, workspace)
    return rows_of(reader, activity.recent(reader, workspace_id=place.id, kind=kind, limit=limit))
