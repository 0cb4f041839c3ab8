"""Doctor: each finding has a code, a sentence and a remedy; `--fix` mends what is a mere projection."""

from __future__ import annotations

from kandev_sched.domain.errors import SchedError
from kandev_sched.domain.instant import rfc3339
from kandev_sched.domain.record import Record
from kandev_sched.domain.routines import Routine, RoutineStatus
from kandev_sched.domain.schedules import Trigger, TriggerKind
from kandev_sched.domain.workspaces import Permission
from kandev_sched.flow.arming import arm, has_fired, next_unfired
from kandev_sched.policy.arming_state import OVERDUE_AFTER_MS
from kandev_sched.policy.permission import why_denied
from kandev_sched.policy.timing import timing_of
from kandev_sched.store import agents, routines, triggers, workspaces
from kandev_sched.store.db import Reader, Tx


class Finding(Record):
    """Something that is not as it should be. `is_fixed`: `--fix` has mended it."""

    code: str
    sentence: str
    remedy: str
    subject_id: str | None = None
    is_fixable: bool = False
    is_fixed: bool = False


def examine(reader: Reader, *, now: int) -> list[Finding]:
    """Every finding about schedules, over all workspaces."""
    found: list[Finding] = []
    for workspace in workspaces.every(reader):
        for trigger in triggers.of_workspace(reader, workspace.id):
            routine = routines.by_id(reader, trigger.routine_id)
            assert routine is not None
            found += _of_trigger(reader, trigger, routine, now=now)
        found += _of_routines(reader, workspace.id)
    return found


def mend(tx: Tx) -> list[Finding]:
    """As `examine`, with each projection that is missing or impossible recomputed."""
    found = examine(tx, now=tx.now)
    for finding in found:
        if finding.is_fixable and finding.subject_id is not None:
            _recompute(tx, finding.subject_id)
    tx.wake_supervisor()
    return [finding.replace(is_fixed=finding.is_fixable) for finding in found]


def _recompute(tx: Tx, trigger_id: str) -> None:
    trigger = triggers.by_id(tx, trigger_id)
    routine = routines.by_id(tx, trigger.routine_id) if trigger else None
    assert trigger is not None
    assert routine is not None
    at = arm(trigger, routine, now=tx.now)
    triggers.set_next(tx, trigger.id, None if at is None else next_unfired(tx, trigger, tx.now))


def _of_trigger(reader: Reader, trigger: Trigger, routine: Routine, *, now: int) -> list[Finding]:
    is_live = (
        trigger.kind is TriggerKind.SCHEDULE and trigger.enabled and routine.status is RoutineStatus.ACTIVE
    )
    if not is_live:
        return []
    name = f"trigger {trigger.id} of routine {routine.name}"
    try:
        due = arm(trigger, routine, now=now)
    except SchedError as error:
        remedy = f"give it a schedule that can be read: sched trigger set {trigger.id} --cron …"
        return [_finding("trigger-invalid", f"{name} cannot be computed: {error.message}", remedy, trigger)]
    return _of_projection(reader, trigger, name, due=due, now=now) + _of_scope(reader, trigger, name)


def _of_projection(
    reader: Reader, trigger: Trigger, name: str, *, due: int | None, now: int
) -> list[Finding]:
    remedy = "sched doctor --fix recomputes it"
    armed = trigger.next_run_at
    if armed is None and due is not None:
        return [_finding("trigger-unarmed", f"{name} has no next slot", remedy, trigger, is_fixable=True)]
    if armed is not None and not _is_slot(trigger, armed):
        sentence = f"{name} is armed for {rfc3339(armed)}, which is none of its slots"
        return [_finding("trigger-misarmed", sentence, remedy, trigger, is_fixable=True)]
    if armed is not None and due is not None and _passes_over(reader, trigger, armed, due):
        sentence = f"{name} is armed for {rfc3339(armed)}, and {rfc3339(due)} comes first"
        return [_finding("trigger-misarmed", sentence, remedy, trigger, is_fixable=True)]
    if armed is not None and armed < now - OVERDUE_AFTER_MS:
        sentence = f"{name} is overdue since {rfc3339(armed)}"
        return [_finding("trigger-overdue", sentence, "start the supervisor: sched serve", trigger)]
    return []


def _is_slot(trigger: Trigger, armed: int) -> bool:
    return timing_of(trigger).next_fire(armed - 1) == armed


def _passes_over(reader: Reader, trigger: Trigger, armed: int, due: int) -> bool:
    """Whether a slot would be lost: an earlier one is to come that has no occurrence."""
    return armed > due and not has_fired(reader, trigger, due - timing_of(trigger).offset_ms)


def _of_scope(reader: Reader, trigger: Trigger, name: str) -> list[Finding]:
    workspace = workspaces.by_id(reader, trigger.workspace_id)
    assert workspace is not None
    principal = workspaces.principal(reader, trigger.principal_id) if trigger.principal_id else None
    denied = why_denied(principal, workspace, Permission.RUNS_EXECUTE)
    if denied is None:
        return []
    remedy = f"somebody who may takes it over: sched trigger enable {trigger.id}"
    return [_finding("trigger-denied", f"{name} may not fire: {denied}", remedy, trigger)]


def _of_routines(reader: Reader, workspace_id: str) -> list[Finding]:
    found = []
    for routine in routines.of_workspace(reader, workspace_id):
        agent = agents.by_id(reader, routine.agent_id)
        if agent is None or agent.archived_at is not None:
            sentence = f"the agent of routine {routine.name} is archived"
            remedy = f"give it another: sched routine set {routine.name} --agent …"
            found.append(
                Finding(code="routine-agent-gone", sentence=sentence, remedy=remedy, subject_id=routine.id)
            )
    return found


def _finding(code: str, sentence: str, remedy: str, trigger: Trigger, *, is_fixable: bool = False) -> Finding:
    return Finding(code=code, sentence=sentence, remedy=remedy, subject_id=trigger.id, is_fixable=is_fixable)
