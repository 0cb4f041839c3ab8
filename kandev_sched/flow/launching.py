"""Step 11: what exactly is handed to the executor, and what is noted once it was."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence

from kandev_sched.domain.agents import Agent, Executor, Profile
from kandev_sched.domain.instant import rfc3339_or_none
from kandev_sched.domain.routines import RoutineRun
from kandev_sched.domain.runs import Run, Session, SessionState
from kandev_sched.domain.settings import Settings
from kandev_sched.domain.wakeups import WakeupRequest
from kandev_sched.domain.workspaces import Workspace
from kandev_sched.flow.settle import Outcome, OutcomeKind
from kandev_sched.flow.steps import Context, Stop
from kandev_sched.launch.command import agent_environment
from kandev_sched.launch.executor import LaunchSpec
from kandev_sched.store import attempts, runs, wakeups
from kandev_sched.store.db import Reader, Tx, wake_path


def note_resolution(
    tx: Tx, run: Run, *, executor: Executor | None, profile: Profile, session: Session
) -> None:
    """Steps 7 to 10 end: from here on new requests are late."""
    runs.mark_prompted(
        tx,
        run.id,
        profile_id=profile.id,
        executor_id=executor.id if executor else None,
        provider_account=profile.provider_account,
        session_id=session.id,
    )


def spec_of(
    run: Run,
    *,
    agent: Agent,
    profile: Profile,
    context: Context,
    workspace: Workspace,
    db_path: str,
    settings: Settings,
) -> LaunchSpec:
    """The launch of one attempt."""
    told = {
        "SCHED_DB": os.path.abspath(db_path),
        "SCHED_RUN_ID": run.id,
        "SCHED_AGENT": agent.name,
        "SCHED_WORKSPACE": workspace.name,
        "SCHED_TASK_ID": run.task_id or "",
        "SCHED_REASON": run.reason,
        "SCHED_SOURCE": run.source,
    }
    return LaunchSpec(
        run_id=run.id,
        attempt=run.attempt,
        argv=profile.argv,
        env=agent_environment(os.environ, {**profile.env, **agent.env}, told),
        cwd=agent.cwd or os.path.expanduser("~"),
        prompt=context.prompt,
        wakeups_json=wakeups_json(context.requests, context.occurrences),
        max_run_s=agent.max_run_s or profile.max_run_s or settings.max_run_s,
        idle_output_s=profile.idle_output_s,
        grace_s=settings.grace_s,
        output_cap_bytes=settings.output_cap_bytes,
        wake_path=wake_path(os.path.abspath(db_path)),
    )


def wakeups_json(requests: Sequence[WakeupRequest], occurrences: Mapping[str, RoutineRun]) -> str:
    """What SCHED_WAKEUPS_FILE holds: the requests in the order of the prompt, with their occurrences (S1)."""
    facts = [_facts(request, occurrences.get(request.routine_run_id or "")) for request in requests]
    return json.dumps(facts, ensure_ascii=False, indent=2)


def _facts(request: WakeupRequest, occurrence: RoutineRun | None) -> dict[str, object]:
    return {
        "id": request.id,
        "source": request.source,
        "payload": request.payload,
        "task_id": request.task_id,
        "routine_id": request.routine_id,
        "trigger_id": occurrence.trigger_id if occurrence else None,
        "occurrence_id": occurrence.id if occurrence else None,
        "generation": occurrence.trigger_generation if occurrence else None,
        "requested_at": rfc3339_or_none(request.requested_at),
        "scheduled_for_at": rfc3339_or_none(request.scheduled_for_at),
    }


def refuse_cancelled(reader: Reader, run: Run) -> None:
    """The last look before the launch: a cancelled run does not start. Raises Stop."""
    current = runs.by_id(reader, run.id)
    if current is not None and current.cancel_requested_at is None:
        return
    reason = (current.cancel_reason if current else None) or "cancelled"
    raise Stop(Outcome(kind=OutcomeKind.CANCELLED, reason=reason))


def mark_launched(tx: Tx, run: Run) -> None:
    """The prompt was handed over, perhaps by a supervisor that is gone: its requests are delivered."""
    if runs.mark_started(tx, run.id, run.attempt):
        wakeups.mark_delivered(tx, run.id, run.attempt)
        attempts.set_session_state(tx, run, SessionState.RUNNING)
