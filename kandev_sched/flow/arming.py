"""Arming: `next_run_at` is a projection of a trigger's definition, recomputable at any time (S1)."""

from __future__ import annotations

from kandev_sched.domain.errors import SchedError
from kandev_sched.domain.routines import RoutineStatus
from kandev_sched.domain.schedules import TriggerKind
from kandev_sched.policy import dedup
from kandev_sched.policy.timing import timing_of
from kandev_sched.store import activity, routines, triggers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.domain.routines import Routine
    from kandev_sched.domain.schedules import Trigger
    from kandev_sched.store.db import Reader, Tx


def arm(trigger: Trigger, routine: Routine, *, now: int) -> int | None:
    """What `next_run_at` must be: None unless the trigger may fire. Pause is not downtime: from now on."""
    may_fire = (
        trigger.kind is TriggerKind.SCHEDULE
        and trigger.enabled
        and routine.status is RoutineStatus.ACTIVE
        and not is_used_up(trigger)
    )
    return timing_of(trigger).next_fire(now) if may_fire else None


def next_unfired(reader: Reader, trigger: Trigger, after: int) -> int | None:
    """When the first slot after an instant fires that has no occurrence: a wrong clock may have made some."""
    timing = timing_of(trigger)
    at = timing.next_fire(after)
    while at is not None and has_fired(reader, trigger, at - timing.offset_ms):
        at = timing.next_fire(at)
    return at


def is_used_up(trigger: Trigger) -> bool:
    """Whether it has fired as often as it may."""
    return trigger.max_fires is not None and trigger.fire_count >= trigger.max_fires


def rearm(tx: Tx) -> list[str]:
    """Recompute projections that are missing; the ids of the triggers that changed."""
    changed = []
    for trigger in triggers.unarmed(tx):
        try:
            next_run_at = None if is_used_up(trigger) else next_unfired(tx, trigger, tx.now)
        except SchedError as error:
            set_aside(tx, trigger, error.message)
            changed.append(trigger.id)
            continue
        if next_run_at is not None:
            triggers.set_next(tx, trigger.id, next_run_at)
            changed.append(trigger.id)
    return changed


def rearm_after_step_back(tx: Tx) -> None:
    """The clock stepped back: the next slot is the first one after now that has no occurrence (I6)."""
    for trigger in triggers.armed(tx):
        try:
            next_run_at = _first_unfired(tx, trigger)
        except SchedError as error:
            set_aside(tx, trigger, error.message)
        else:
            triggers.set_next(tx, trigger.id, next_run_at)


def _first_unfired(tx: Tx, trigger: Trigger) -> int | None:
    """At the latest the slot for which the trigger is armed: what is due stays due."""
    timing = timing_of(trigger)
    slot = timing.next_slot(tx.now)
    while slot is not None and trigger.next_run_at is not None:
        fires_at = slot + timing.offset_ms
        if fires_at >= trigger.next_run_at:
            break
        if not has_fired(tx, trigger, slot):
            return fires_at
        slot = timing.next_slot(fires_at)
    return trigger.next_run_at


def has_fired(reader: Reader, trigger: Trigger, slot_at: int) -> bool:
    """Whether the slot has its occurrence."""
    occurrence = dedup.occurrence_id(
        workspace_id=trigger.workspace_id, trigger_id=trigger.id, slot_at=slot_at
    )
    return routines.run_by_id(reader, occurrence) is not None


def set_aside(tx: Tx, trigger: Trigger, sentence: str) -> None:
    """Quarantine a trigger that cannot be computed; every other trigger goes on."""
    triggers.quarantine(tx, trigger.id, sentence)
    activity.record(
        tx,
        "trigger_set_aside",
        f"trigger {trigger.id} cannot be computed and is set aside: {sentence}",
        workspace_id=trigger.workspace_id,
        routine_id=trigger.routine_id,
    )
