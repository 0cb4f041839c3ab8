"""Runs: cancel, and explain why one does not run."""

from __future__ import annotations

from kandev_sched.domain.errors import Conflict
from kandev_sched.domain.record import Record
from kandev_sched.domain.runs import Run, RunStatus
from kandev_sched.flow.settle import cancel_claimed, cancel_queued
from kandev_sched.policy.waiting import Surroundings, Waiting, waiting
from kandev_sched.store import agents, runs, tasks, workspaces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.domain.settings import Settings
    from kandev_sched.store.db import Reader, Tx


def cancel_run(tx: Tx, run: Run, *, reason: str) -> Run:
    """End a queued run now, a claimed one when its agent has ended. Raises Conflict when it has ended."""
    match run.status:
        case RunStatus.QUEUED:
            cancel_queued(tx, run, reason=reason)
        case RunStatus.CLAIMED:
            cancel_claimed(tx, run, reason=reason)
        case _:
            raise Conflict(f"run {run.id} has ended already: {run.status}", hint="there is nothing to cancel")
    tx.wake_supervisor()
    changed = runs.by_id(tx, run.id)
    assert changed is not None
    return changed


class Explanation(Record):
    """One run, and in one sentence what it waits for or what became of it."""

    run: Run
    sentence: str
    until: int | None = None
    is_held_by_person: bool = False


def explain_run(
    reader: Reader, run: Run, *, settings: Settings, is_supervised: bool, now: int
) -> Explanation:
    """`sched run explain`."""
    found = waiting_of(reader, run, settings=settings, is_supervised=is_supervised, now=now)
    if found is None:
        return Explanation(run=run, sentence=_what_became(run))
    return Explanation(
        run=run, sentence=found.sentence, until=found.until, is_held_by_person=found.is_held_by_person
    )


def waiting_of(
    reader: Reader, run: Run, *, settings: Settings, is_supervised: bool, now: int
) -> Waiting | None:
    """What a queued run waits for; None when it is not queued."""
    if run.status is not RunStatus.QUEUED:
        return None
    agent, workspace = agents.by_id(reader, run.agent_id), workspaces.by_id(reader, run.workspace_id)
    assert agent is not None
    assert workspace is not None
    task = tasks.by_id(reader, run.task_id) if run.task_id else None
    _, claimed_count = runs.counts(reader)
    around = Surroundings(
        agent=agent,
        workspace=workspace,
        holder_run_id=task.checkout_run_id if task else None,
        claimed_count=claimed_count,
        max_sessions=settings.max_sessions,
        older_run_id=runs.first_eligible_of_agent(reader, agent.id, now=now),
        is_supervised=is_supervised,
        now=now,
    )
    return waiting(run, around)


def _what_became(run: Run) -> str:  # noqa: PLR0911 - one arm a state
    match run.status:
        case RunStatus.CLAIMED if run.cancel_requested_at is not None:
            return f"it is being ended: {run.cancel_reason}"
        case RunStatus.CLAIMED if run.started_at is None:
            return "starting"
        case RunStatus.CLAIMED:
            return "its agent is at work"
        case RunStatus.FINISHED if run.outcome == "idle_skipped":
            return "skipped: the agent had no actionable tasks (no_actionable_tasks)"
        case RunStatus.CANCELLED:
            return f"cancelled: {run.cancel_reason}"
        case RunStatus.FAILED:
            return f"failed: {run.error or 'no error text'}"
    return "finished"
