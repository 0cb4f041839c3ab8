"""Firing: a trigger fires → routine run → task or wakeup, in one transaction.

The occurrence is inserted first: its id and its key exist once, for ever (I2), so a slot fires at most once
whatever the clock, the zone or the number of restarts (I6).
"""

from __future__ import annotations

from kandev_sched.domain.errors import Conflict
from kandev_sched.domain.instant import MINUTE_MS
from kandev_sched.domain.record import Record
from kandev_sched.domain.routines import (
    ConcurrencyPolicy,
    FireSource,
    RoutineRun,
    RoutineRunStatus,
    RoutineStatus,
)
from kandev_sched.domain.tasks import Task, TaskState
from kandev_sched.domain.wakeups import Capacity, Ending, WakeupRequest, WakeupSource, WakeupStatus
from kandev_sched.flow.dispatch import request_wakeup
from kandev_sched.policy import dedup, template
from kandev_sched.policy.coalesce import FireVerdict, decide_fire
from kandev_sched.store import agents, routines, runs, tasks, wakeups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from kandev_sched.domain.routines import Routine
    from kandev_sched.domain.runs import Run
    from kandev_sched.flow.dispatch import Dispatched
    from kandev_sched.store.db import Tx

QUEUED_LIMIT = 25
ROUTINE_WORKFLOW = "routine"  # the hidden workflow of heavy routines; its tasks count as Office


class Slot(Record):
    """The schedule slot that fires; `missed_*` tell the newest one what the catch-up left out."""

    trigger_id: str
    at: int
    zone: str
    generation: int = 1
    missed_count: int = 0
    missed_since: str | None = None


class Refusal(Record):
    """Why a slot leaves its record and creates nothing else."""

    status: RoutineRunStatus
    reason: str


class Firing(Record):
    """What makes a routine fire: a slot of a schedule, or a person (with values and perhaps a key)."""

    routine: Routine
    source: FireSource
    slot: Slot | None = None
    provided: Mapping[str, str] = {}
    key: str | None = None
    zone: str = "UTC"
    input: Mapping[str, object] = {}
    principal_id: str | None = None
    refusal: Refusal | None = None
    window_s: int


class Fired(Record):
    """What came of it. `is_duplicate`: the key was used before, and this is what came of it then."""

    routine_run: RoutineRun
    wakeup: WakeupRequest | None = None
    run: Run | None = None
    task: Task | None = None
    is_duplicate: bool = False


def fire(tx: Tx, firing: Firing) -> Fired:
    """Fire a routine once. Raises Conflict when it is not active, Invalid for wrong values."""
    routine = firing.routine
    if routine.status is not RoutineStatus.ACTIVE:
        hint = f"sched routine resume {routine.name}" if routine.status is RoutineStatus.PAUSED else None
        raise Conflict(f"routine {routine.name} is {routine.status}", hint=hint)
    occurrence, texts = _occurrence(tx, firing)
    existing = _existing(tx, occurrence)
    if existing is not None:
        return existing
    refusal = firing.refusal or _refuse_gone(tx, firing)
    if refusal is not None:
        return _refuse(tx, occurrence, refusal)
    refusal = _refuse_more(tx, firing)
    if refusal is not None:
        return _refuse(tx, occurrence, refusal)
    active = routines.active_run(tx, routine_id=routine.id, fingerprint=occurrence.dispatch_fingerprint)
    routines.add_run(tx, occurrence)
    verdict = decide_fire(routine.concurrency_policy, is_active=active is not None)
    if verdict is FireVerdict.SUPERSEDE and active is not None:
        from kandev_sched.flow.superseding import supersede  # rare, and `sched fire` counts each ms

        supersede(tx, active)
    match verdict:
        case FireVerdict.SKIP:
            return _skip(tx, firing, occurrence, active)
        case FireVerdict.COALESCE if active is not None and active.linked_task_id is not None:
            return _coalesce_into_task(tx, firing, occurrence, active.linked_task_id)
        case _:
            return _proceed(tx, firing, occurrence, texts, verdict)


def _refuse_gone(tx: Tx, firing: Firing) -> Refusal | None:
    """The agent was archived: a person hears of it at once, a slot leaves its record."""
    agent = agents.by_id(tx, firing.routine.agent_id)
    if agent is not None and agent.archived_at is None:
        return None
    if firing.source is not FireSource.CRON:
        name = firing.routine.name
        raise Conflict(f"the agent of routine {name} is archived", hint=f"sched routine set {name} --agent …")
    return Refusal(status=RoutineRunStatus.CANCELLED, reason="agent_gone")


def _refuse_more(tx: Tx, firing: Firing) -> Refusal | None:
    """Under always_enqueue slots do not pile up without end while the agent is busy (behaviour.md §3)."""
    is_piling = (
        firing.source is FireSource.CRON
        and firing.routine.concurrency_policy is ConcurrencyPolicy.ALWAYS_ENQUEUE
        and routines.count_queued_runs(tx, firing.routine.id) >= QUEUED_LIMIT
    )
    if not is_piling:
        return None
    reason = f"always_enqueue: {QUEUED_LIMIT} runs of the routine are queued"
    return Refusal(status=RoutineRunStatus.SKIPPED, reason=reason)


def _refuse(tx: Tx, occurrence: RoutineRun, refusal: Refusal) -> Fired:
    refused = occurrence.replace(status=refusal.status, reason=refusal.reason, finished_at=tx.now)
    routines.add_run(tx, refused)
    return Fired(routine_run=refused)


class _Texts(Record):
    """The routine's texts with this fire's values."""

    title: str | None
    description: str


def _occurrence(tx: Tx, firing: Firing) -> tuple[RoutineRun, _Texts]:
    routine, slot = firing.routine, firing.slot
    values = template.resolve(routine.variables, firing.provided)
    # The fingerprint leaves built-ins as they stand: the same routine tomorrow is the same work.
    own = [template.render(text, values) for text in _texts_of(routine)]
    used = {n: v for n, v in _built_ins(tx, firing).items() if n not in values and _uses(routine, n)}
    values = {**used, **values}
    run_id = _occurrence_id(tx, firing)
    key = (
        _slot_key(routine, slot)
        if slot
        else dedup.manual_key(routine_id=routine.id, key=dedup.checked_key(firing.key) or run_id)
    )
    occurrence = RoutineRun(
        id=run_id,
        workspace_id=routine.workspace_id,
        routine_id=routine.id,
        trigger_id=slot.trigger_id if slot else None,
        source=firing.source,
        scheduled_for_at=slot.at if slot else None,
        fired_at=tx.now,
        trigger_payload=values,
        dispatch_fingerprint=dedup.fingerprint(*own, routine.agent_id),
        idempotency_key=key,
        generation=routine.generation,
        trigger_generation=slot.generation if slot else None,
        principal_id=firing.principal_id,
    )
    return occurrence, _Texts(
        title=template.render(routine.task_title, values) if routine.task_title is not None else None,
        description=template.render(routine.task_description or "", values),
    )


def _slot_key(routine: Routine, slot: Slot) -> str:
    spell = dedup.second_key if slot.at % MINUTE_MS else dedup.schedule_key
    return spell(routine_id=routine.id, trigger_id=slot.trigger_id, slot_at=slot.at)


def _texts_of(routine: Routine) -> tuple[str, ...]:
    if routine.task_title is None:
        return ("", routine.description)
    return (routine.task_title, routine.task_description or "")


def _uses(routine: Routine, name: str) -> bool:
    return name in template.placeholders(routine.description, routine.task_title, routine.task_description)


def _built_ins(tx: Tx, firing: Firing) -> dict[str, str]:
    if not any(_uses(firing.routine, name) for name in template.BUILT_INS):
        return {}
    return template.built_ins(tx.now, firing.slot.zone if firing.slot else firing.zone)


def _occurrence_id(tx: Tx, firing: Firing) -> str:
    slot = firing.slot
    if slot is None:
        return tx.new_id("rr")
    return dedup.occurrence_id(
        workspace_id=firing.routine.workspace_id, trigger_id=slot.trigger_id, slot_at=slot.at
    )


def _existing(tx: Tx, occurrence: RoutineRun) -> Fired | None:
    assert occurrence.idempotency_key is not None
    if occurrence.trigger_id is not None:  # its id and its key say the same
        found = routines.run_by_id(tx, occurrence.id)
    else:
        key = occurrence.idempotency_key
        found = routines.run_by_key(tx, routine_id=occurrence.routine_id, key=key)
    return None if found is None else fired_before(tx, found)


def fired_before(tx: Tx, routine_run: RoutineRun) -> Fired:
    """What an earlier fire with the same key came to."""
    wakeup = wakeups.by_id(tx, routine_run.wakeup_id) if routine_run.wakeup_id else None
    run_id = wakeup.run_id if wakeup else None
    return Fired(
        routine_run=routine_run,
        wakeup=wakeup,
        run=runs.by_id(tx, run_id) if run_id else None,
        task=tasks.by_id(tx, routine_run.linked_task_id) if routine_run.linked_task_id else None,
        is_duplicate=True,
    )


def _skip(tx: Tx, firing: Firing, occurrence: RoutineRun, active: RoutineRun | None) -> Fired:
    """S0 skip_if_active: no new task and no run; the request is recorded as skipped by policy."""
    assert active is not None
    why = f"skip_if_active: {active.id} is active"
    request = _request(tx, firing, occurrence, task=None).replace(
        status=WakeupStatus.SKIPPED, ending=Ending.SKIPPED, reason="skip_if_active", finished_at=tx.now
    )
    wakeups.add(tx, request)
    linked = _link(
        tx, occurrence, status=RoutineRunStatus.SKIPPED, reason=why, wakeup_id=request.id, finished_at=tx.now
    )
    return Fired(routine_run=linked, wakeup=request)


def _coalesce_into_task(tx: Tx, firing: Firing, occurrence: RoutineRun, task_id: str) -> Fired:
    """The active one is a task. By hand it also wakes the assignee; by schedule it is only recorded."""
    task = tasks.by_id(tx, task_id)
    assert task is not None
    end = {"status": RoutineRunStatus.COALESCED, "reason": f"task {task.id} is active", "finished_at": tx.now}
    if firing.source is FireSource.CRON:
        return Fired(routine_run=_link(tx, occurrence, task_id=task.id, **end), task=task)  # type: ignore[arg-type]
    request = _request(tx, firing, occurrence, task=task)
    given = request_wakeup(tx, request, window_s=firing.window_s, principal_id=firing.principal_id)
    linked = _link(
        tx,
        occurrence,
        task_id=task.id,
        wakeup_id=given.request.id,
        coalesced_into_run_id=given.run.id,
        **end,  # type: ignore[arg-type]
    )
    return Fired(routine_run=linked, wakeup=given.request, run=given.run, task=task)


def _proceed(tx: Tx, firing: Firing, occurrence: RoutineRun, texts: _Texts, verdict: FireVerdict) -> Fired:
    task = _add_task(tx, firing.routine, texts) if texts.title is not None else None
    given = request_wakeup(
        tx,
        _request(tx, firing, occurrence, task=task),
        policy=firing.routine.concurrency_policy,
        window_s=firing.window_s,
        principal_id=firing.principal_id,
    )
    linked = _link_proceeded(tx, occurrence, given, task, verdict)
    return Fired(routine_run=linked, wakeup=given.request, run=given.run, task=task)


def _link_proceeded(
    tx: Tx, occurrence: RoutineRun, given: Dispatched, task: Task | None, verdict: FireVerdict
) -> RoutineRun:
    if task is not None:
        status = RoutineRunStatus.TASK_CREATED
        return _link(tx, occurrence, status=status, wakeup_id=given.request.id, task_id=task.id)
    if verdict is FireVerdict.COALESCE and given.request.status is WakeupStatus.COALESCED:
        return _link(
            tx,
            occurrence,
            status=RoutineRunStatus.COALESCED,
            wakeup_id=given.request.id,
            coalesced_into_run_id=given.run.id,
            finished_at=tx.now,
        )
    return _link(tx, occurrence, status=RoutineRunStatus.RECEIVED, wakeup_id=given.request.id)


def _link(
    tx: Tx,
    occurrence: RoutineRun,
    *,
    status: RoutineRunStatus,
    reason: str | None = None,
    wakeup_id: str | None = None,
    coalesced_into_run_id: str | None = None,
    task_id: str | None = None,
    finished_at: int | None = None,
) -> RoutineRun:
    routines.link_run(
        tx,
        occurrence.id,
        status=status,
        reason=reason,
        wakeup_id=wakeup_id,
        coalesced_into_run_id=coalesced_into_run_id,
        task_id=task_id,
        finished_at=finished_at,
    )
    return occurrence.replace(
        status=status,
        reason=reason,
        wakeup_id=wakeup_id,
        coalesced_into_run_id=coalesced_into_run_id,
        linked_task_id=task_id,
        finished_at=finished_at,
    )


def _add_task(tx: Tx, routine: Routine, texts: _Texts) -> Task:
    task = Task(
        id=tx.new_id("task"),
        workspace_id=routine.workspace_id,
        workflow_id=ROUTINE_WORKFLOW,
        title=texts.title or routine.name,
        description=texts.description,
        state=TaskState.IN_PROGRESS,
        assignee_agent_id=routine.agent_id,
        assignment_count=1,
        created_at=tx.now,
        updated_at=tx.now,
    )
    tasks.add(tx, task)
    return task


def _payload(firing: Firing, occurrence: RoutineRun) -> dict[str, object]:
    slot = firing.slot
    payload: dict[str, object] = {
        "routine_id": firing.routine.id,
        "variables": dict(occurrence.trigger_payload),
    }
    if slot is not None and slot.missed_count:
        payload |= {"missed_ticks": slot.missed_count, "missed_since": slot.missed_since}
    if firing.input:
        payload["input"] = dict(firing.input)
    return payload


def _request(tx: Tx, firing: Firing, occurrence: RoutineRun, *, task: Task | None) -> WakeupRequest:
    routine, slot = firing.routine, firing.slot
    return WakeupRequest(
        id=tx.new_id("wk"),
        workspace_id=routine.workspace_id,
        agent_id=routine.agent_id,
        source=WakeupSource.ROUTINE,
        payload=_payload(firing, occurrence),
        periodic=firing.source is FireSource.CRON and routine.task_title is None,
        capacity=Capacity.ASSIGNEE if task else Capacity.NONE,
        task_id=task.id if task else None,
        routine_id=routine.id,
        routine_run_id=occurrence.id,
        idempotency_key=occurrence.idempotency_key,
        requested_at=tx.now,
        scheduled_for_at=slot.at if slot else None,
    )
