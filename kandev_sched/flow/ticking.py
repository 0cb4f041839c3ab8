"""Ticking: due slots of schedules → fires, and each trigger moved past them, in one transaction a trigger.

Which of several due slots fire is `policy.catchup`'s decision. `next_run_at` is a projection: it can be
recomputed from the definition at any time (S1 Reconstruction).
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

from kandev_sched.domain.errors import SchedError, Unavailable
from kandev_sched.domain.instant import rfc3339
from kandev_sched.domain.routines import (
    ConcurrencyPolicy,
    FireSource,
    Routine,
    RoutineRun,
    RoutineRunStatus,
    RoutineStatus,
)
from kandev_sched.domain.schedules import Trigger, TriggerKind
from kandev_sched.flow.firing import Firing, Slot, fire
from kandev_sched.policy import catchup, cron, dedup
from kandev_sched.policy.catchup import CatchUp, Due
from kandev_sched.store import activity, routines, triggers
from kandev_sched.store.db import Database, Reader, Tx

log = logging.getLogger("kandev_sched.ticker")
BATCH = 100


def instant(at_ms: int) -> datetime:
    """Milliseconds as an aware datetime, which the schedules speak."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)


def millis(at: datetime) -> int:
    """An aware datetime as milliseconds."""
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def schedule_of(trigger: Trigger) -> cron.Cron:
    """The parsed schedule of a trigger. Raises Invalid for a row that was damaged by hand."""
    return cron.parse(trigger.expression, trigger.zone)


def next_slot(trigger: Trigger, *, after: int) -> int | None:
    """The first slot after an instant."""
    slot = schedule_of(trigger).next_after(instant(after))
    return None if slot is None else millis(slot)


def arm(trigger: Trigger, routine: Routine, *, now: int) -> int | None:
    """What `next_run_at` must be: None unless the trigger may fire. Pause is not downtime: from now on."""
    may_fire = (
        trigger.kind is TriggerKind.SCHEDULE and trigger.enabled and routine.status is RoutineStatus.ACTIVE
    )
    return next_slot(trigger, after=now) if may_fire else None


def fire_due(db: Database, *, window_s: int) -> int:
    """Fire everything that is due; how many triggers moved. A bad one is set aside, the others go on."""
    moved = 0
    while due := db.read(lambda reader: triggers.due(reader, now=db.host.now(), limit=BATCH)):
        for trigger in due:
            _fire_one(db, trigger, window_s=window_s)
        moved += len(due)
    return moved


def _fire_one(db: Database, trigger: Trigger, *, window_s: int) -> None:
    try:
        db.write(lambda tx: fire_trigger(tx, trigger, window_s=window_s))
    except Unavailable:
        raise  # the disk, not the trigger: the loop tries again
    except Exception as error:
        sentence = f"{error}" or type(error).__name__
        log.error(
            "trigger %s is set aside: %s", trigger.id, sentence, exc_info=not isinstance(error, SchedError)
        )
        db.write(lambda tx: _set_aside(tx, trigger, sentence))


def _set_aside(tx: Tx, trigger: Trigger, sentence: str) -> None:
    triggers.quarantine(tx, trigger.id, sentence)
    activity.record(
        tx,
        "trigger_set_aside",
        f"trigger {trigger.id} cannot be computed and is set aside: {sentence}",
        workspace_id=trigger.workspace_id,
        routine_id=trigger.routine_id,
    )


def fire_trigger(tx: Tx, trigger: Trigger, *, window_s: int) -> None:
    """All due slots of one trigger: their routine runs, their wakeups and the new `next_run_at`."""
    routine = routines.by_id(tx, trigger.routine_id)
    if routine is None or routine.status is not RoutineStatus.ACTIVE or trigger.next_run_at is None:
        triggers.advance(tx, trigger, next_run_at=None, fired_at=None)
        return
    plan = catchup.decide(
        routine.catch_up_policy,
        due_slots(trigger, routine, now=tx.now),
        now=tx.now,
        catch_up_max=routine.catch_up_max,
        misfire_grace_s=routine.misfire_grace_s,
    )
    fired_at = tx.now if plan.fires else None
    if not triggers.advance(tx, trigger, next_run_at=next_slot(trigger, after=tx.now), fired_at=fired_at):
        return  # an edit or another ticker came first
    _record_missed(tx, trigger, routine, plan)
    _fire_slots(tx, trigger, routine, plan, window_s=window_s)


def due_slots(trigger: Trigger, routine: Routine, *, now: int) -> Due:
    """The due slots from `next_run_at` to now; the work is bounded, whatever the outage."""
    assert trigger.next_run_at is not None
    schedule = schedule_of(trigger)
    after, until = instant(trigger.next_run_at - 1), instant(now)
    wanted = catchup.slots_wanted(routine.catch_up_policy, catch_up_max=routine.catch_up_max)
    newest = schedule.latest_slots(after, until, wanted)
    count = len(newest) if len(newest) < wanted else schedule.count_between(after, until)
    if not newest:  # the projection was wrong by hand: nothing is due
        return Due(newest=(trigger.next_run_at,), count=1, first_at=trigger.next_run_at)
    return Due(newest=tuple(millis(slot) for slot in newest), count=count, first_at=trigger.next_run_at)


def _fire_slots(tx: Tx, trigger: Trigger, routine: Routine, plan: CatchUp, *, window_s: int) -> None:
    """Newest first, so that the one with the counts runs and the rest join it; a queue fires oldest first."""
    missed_since = rfc3339(plan.missed_first_at) if plan.missed_first_at is not None else None
    is_queueing = routine.concurrency_policy is ConcurrencyPolicy.ALWAYS_ENQUEUE
    for slot_at in plan.fires if is_queueing else reversed(plan.fires):
        is_newest = slot_at == plan.fires[-1]
        slot = Slot(
            trigger_id=trigger.id,
            at=slot_at,
            zone=trigger.zone,
            missed_count=plan.missed_count if is_newest else 0,
            missed_since=missed_since if is_newest else None,
        )
        fire(tx, Firing(routine=routine, source=FireSource.CRON, slot=slot, window_s=window_s))


def _record_missed(tx: Tx, trigger: Trigger, routine: Routine, plan: CatchUp) -> None:
    if not plan.missed_count or plan.missed_first_at is None:
        return
    count = plan.missed_count
    routines.add_run(
        tx,
        RoutineRun(
            id=tx.new_id("rr"),
            workspace_id=routine.workspace_id,
            routine_id=routine.id,
            trigger_id=trigger.id,
            source=FireSource.CRON,
            status=RoutineRunStatus.MISSED,
            reason=f"{count} {'slot' if count == 1 else 'slots'} missed ({routine.catch_up_policy})",
            scheduled_for_at=plan.missed_last_at,
            fired_at=tx.now,
            trigger_payload={},
            generation=routine.generation,
            missed_count=count,
            missed_first_at=plan.missed_first_at,
            missed_last_at=plan.missed_last_at,
            finished_at=tx.now,
        ),
    )


def rearm(tx: Tx) -> list[str]:
    """Recompute projections that are missing (S1 Reconstruction); the ids of the triggers that changed."""
    changed = []
    for trigger in triggers.unarmed(tx):
        try:
            triggers.set_next(tx, trigger.id, next_slot(trigger, after=tx.now))
        except SchedError as error:
            _set_aside(tx, trigger, error.message)
        changed.append(trigger.id)
    return changed


def rearm_after_step_back(tx: Tx) -> None:
    """The clock stepped back: the next slot is the first one after now that has no occurrence (I6)."""
    for trigger in triggers.armed(tx):
        try:
            slot_at = _first_unfired(tx, trigger)
        except SchedError as error:
            _set_aside(tx, trigger, error.message)
        else:
            triggers.set_next(tx, trigger.id, slot_at)


def _first_unfired(tx: Tx, trigger: Trigger) -> int | None:
    """At the latest the slot for which the trigger is armed: what is due stays due."""
    schedule, slot = schedule_of(trigger), schedule_of(trigger).next_after(instant(tx.now))
    while slot is not None and trigger.next_run_at is not None and millis(slot) < trigger.next_run_at:
        occurrence = dedup.occurrence_id(
            workspace_id=trigger.workspace_id, trigger_id=trigger.id, slot_at=millis(slot)
        )
        if routines.run_by_id(tx, occurrence) is None:
            return millis(slot)
        slot = schedule.next_after(slot)
    return trigger.next_run_at


def next_due_at(reader: Reader) -> int | None:
    """When the next trigger is due."""
    return triggers.next_at(reader)
