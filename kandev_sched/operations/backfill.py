"""Backfill: fire the slots of a past range, each its own occurrence; those that fired are left alone."""

from __future__ import annotations

from kandev_sched.domain.errors import Invalid
from kandev_sched.domain.record import Record
from kandev_sched.domain.routines import (
    ConcurrencyPolicy,
    FireSource,
    Routine,
    RoutineRun,
    RoutineRunStatus,
)
from kandev_sched.domain.schedules import Trigger, TriggerKind
from kandev_sched.domain.workspaces import Permission
from kandev_sched.flow.arming import has_fired
from kandev_sched.flow.firing import Firing, Refusal, Slot, fire
from kandev_sched.operations import lookup
from kandev_sched.policy.exclusion import excluded_by
from kandev_sched.policy.timing import timing_of
from kandev_sched.store import calendars, triggers
from kandev_sched.store.db import Reader, Tx

SLOT_LIMIT = 1000


class Backfill(Record):
    """The slots of all schedules of a routine with from_at <= slot < until_at (ms), at most 1000."""

    workspace: str = lookup.DEFAULT_WORKSPACE
    routine: str
    from_at: int
    until_at: int
    concurrency: ConcurrencyPolicy | None = None


class BackfillSlot(Record):
    """A slot of the range; `is_fired`: it has its occurrence already and is left alone."""

    at: int
    trigger_id: str
    is_fired: bool


def backfill_slots(reader: Reader, command: Backfill, *, now: int) -> list[BackfillSlot]:
    """What a backfill would look at, oldest first. Raises Invalid for an empty, future or too wide range."""
    if command.until_at <= command.from_at:
        raise Invalid("the range is empty", hint="--to must be after --from")
    if command.until_at > now:
        raise Invalid("the range reaches into the future", hint="a backfill is for slots that have passed")
    workspace = lookup.the_workspace(reader, command.workspace)
    routine = lookup.the_routine(reader, workspace, command.routine)
    found = [slot for trigger in _schedules(reader, routine) for slot in _slots(reader, trigger, command)]
    if len(found) > SLOT_LIMIT:
        raise Invalid(f"the range has more than {SLOT_LIMIT} slots", hint="choose a narrower range")
    return sorted(found, key=lambda slot: (slot.at, slot.trigger_id))


def _schedules(reader: Reader, routine: Routine) -> list[Trigger]:
    return [t for t in triggers.of_routine(reader, routine.id) if t.kind is TriggerKind.SCHEDULE]


def _slots(reader: Reader, trigger: Trigger, command: Backfill) -> list[BackfillSlot]:
    timing = timing_of(trigger)
    span = (command.from_at - 1 + timing.offset_ms, command.until_at - 1 + timing.offset_ms)
    return [
        BackfillSlot(at=at, trigger_id=trigger.id, is_fired=has_fired(reader, trigger, at))
        for at in timing.slots(*span, SLOT_LIMIT + 1)
    ]


def backfill(tx: Tx, command: Backfill, *, window_s: int) -> list[RoutineRun]:
    """Fire what has not fired; the occurrences made, oldest first. Raises Invalid, Conflict, Denied."""
    workspace = lookup.workspace_for_writing(tx, command.workspace)
    routine = lookup.the_routine(tx, workspace, command.routine)
    principal = lookup.acting_principal(tx, workspace.id, Permission.RUNS_EXECUTE)
    if command.concurrency is not None:
        routine = routine.replace(concurrency_policy=command.concurrency)
    named = {trigger.id: trigger for trigger in _schedules(tx, routine)}
    made = []
    for slot in backfill_slots(tx, command, now=tx.now):
        if not slot.is_fired:
            firing = _firing(tx, routine, named[slot.trigger_id], slot)
            made.append(fire(tx, firing.replace(principal_id=principal.id, window_s=window_s)).routine_run)
    return made


def _firing(tx: Tx, routine: Routine, trigger: Trigger, slot: BackfillSlot) -> Firing:
    named = [c for c in calendars.of_workspace(tx, routine.workspace_id) if c.id in trigger.calendar_ids]
    excluded = excluded_by(named, slot.at)
    return Firing(
        routine=routine,
        source=FireSource.CRON,
        slot=Slot(trigger_id=trigger.id, at=slot.at, zone=trigger.zone, generation=trigger.generation),
        input=trigger.input,
        refusal=Refusal(status=RoutineRunStatus.EXCLUDED, reason=excluded) if excluded else None,
        window_s=0,
    )
