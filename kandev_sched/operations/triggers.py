"""Triggers: add, set, enable, disable, delete, and the coming slots."""

from __future__ import annotations

from collections.abc import Callable

from kandev_sched.domain.errors import Invalid
from kandev_sched.domain.record import Record
from kandev_sched.domain.routines import Routine, RoutineStatus
from kandev_sched.domain.schedules import Syntax, Trigger, TriggerKind
from kandev_sched.domain.workspaces import Permission
from kandev_sched.flow.arming import arm, has_fired, is_used_up, next_unfired
from kandev_sched.operations import lookup
from kandev_sched.operations.resources import definition_of_trigger, note_revision, refuse_stale
from kandev_sched.operations.schedules import Schedule, defined
from kandev_sched.policy import zones
from kandev_sched.policy.exclusion import excluded_by
from kandev_sched.policy.timing import Timing, millis, timing_of
from kandev_sched.store import calendars, routines, triggers
from kandev_sched.store.db import Reader, Tx


class AddTrigger(Record):
    """A trigger for an existing routine; without a schedule it is fired only by hand."""

    workspace: str = lookup.DEFAULT_WORKSPACE
    routine: str
    schedule: Schedule | None = None


def add_trigger(tx: Tx, command: AddTrigger) -> Trigger:
    """Raises NotFound, Invalid."""
    workspace = lookup.workspace_for_writing(tx, command.workspace)
    routine = lookup.the_routine(tx, workspace, command.routine)
    return add_trigger_to(tx, routine, command.schedule)


def add_trigger_to(tx: Tx, routine: Routine, schedule: Schedule | None) -> Trigger:
    """Insert an enabled trigger, armed from now on. Raises Invalid for what can never fire."""
    trigger = Trigger(
        id=tx.new_id("trg"),
        routine_id=routine.id,
        workspace_id=routine.workspace_id,
        kind=TriggerKind.MANUAL,
        created_at=tx.now,
        updated_at=tx.now,
    )
    if schedule is not None:
        trigger = defined(tx, trigger, schedule).replace(principal_id=_scope(tx, routine.workspace_id))
        _refuse_ended(trigger, now=tx.now)
    trigger = trigger.replace(next_run_at=_armed(tx, trigger, routine), observed_generation=1)
    triggers.add(tx, trigger)
    note_revision(tx, trigger.id, 1, definition_of_trigger(tx, trigger))
    tx.wake_supervisor()
    return trigger


def _scope(tx: Tx, workspace_id: str) -> str:
    """The execution scope is snapshotted when a trigger is enabled, or changed while enabled (S1)."""
    return lookup.acting_principal(tx, workspace_id, Permission.RUNS_EXECUTE).id


def _refuse_ended(trigger: Trigger, *, now: int) -> None:
    """A single instant may have passed; a schedule that recurs must have a slot to come."""
    if trigger.syntax is not Syntax.ONCE and timing_of(trigger).next_fire(now) is None:
        hint = "look at its year and its end"
        raise Invalid(f"{trigger.expression!r:.60} never fires from now on", hint=hint)


def _armed(tx: Tx, trigger: Trigger, routine: Routine) -> int | None:
    """As `arm`. A single instant that has passed without an occurrence is due: its policy says what then."""
    at = arm(trigger, routine, now=tx.now)
    may_fire = trigger.enabled and routine.status is RoutineStatus.ACTIVE and not is_used_up(trigger)
    if at is None and may_fire and trigger.syntax is Syntax.ONCE:
        passed = timing_of(trigger).next_fire(0)
        return None if passed is None or has_fired(tx, trigger, passed) else passed
    return None if at is None else next_unfired(tx, trigger, tx.now)


class SetTrigger(Record):
    """Change what is given. Only a change of schedule, zone or `enabled` moves the next slot.

    `if_match`: the etag that the caller saw; another one is a Conflict that changes nothing.
    """

    workspace: str = lookup.DEFAULT_WORKSPACE
    trigger: str
    schedule: Schedule = Schedule()
    enabled: bool | None = None
    if_match: str | None = None


def set_trigger(tx: Tx, command: SetTrigger) -> Trigger:
    """Raises NotFound, Invalid, Conflict, Denied."""
    workspace = lookup.workspace_for_writing(tx, command.workspace)
    trigger = lookup.the_trigger(tx, workspace, command.trigger)
    refuse_stale(trigger.id, trigger.generation, command.if_match)
    changed = trigger if command.schedule == Schedule() else defined(tx, trigger, command.schedule)
    if command.enabled is not None:
        changed = changed.replace(enabled=command.enabled)
    if command.enabled and changed.kind is TriggerKind.SCHEDULE:  # to enable is to take it over
        changed = changed.replace(principal_id=_scope(tx, changed.workspace_id))
    return trigger if changed == trigger else save_trigger(tx, trigger, changed)


def save_trigger(tx: Tx, before: Trigger, changed: Trigger) -> Trigger:
    """Write a changed definition as a new revision; its scope is who changed it (S1)."""
    routine = routines.by_id(tx, before.routine_id)
    assert routine is not None
    if changed.enabled and changed.kind is TriggerKind.SCHEDULE:
        changed = changed.replace(principal_id=_scope(tx, routine.workspace_id))
    if _moves(before, changed):
        changed = changed.replace(next_run_at=_armed(tx, changed, routine))
    elif changed.next_run_at is not None and before.spread_s != changed.spread_s:
        changed = changed.replace(next_run_at=_respread(changed.next_run_at, before, changed))
    triggers.save(tx, changed)
    note_revision(tx, before.id, before.generation + 1, definition_of_trigger(tx, changed))
    tx.wake_supervisor()
    saved = triggers.by_id(tx, before.id)
    assert saved is not None
    return saved


_TIMING = ("syntax", "expression", "zone", "enabled", "start_at", "end_at", "max_fires")
_TIMING_TOO = ("on_gap", "on_repeat")


def _moves(before: Trigger, changed: Trigger) -> bool:
    """Whether the slots are other ones now: only then is the next one computed anew, from now."""
    names = (*_TIMING, *_TIMING_TOO)
    return any(getattr(before, name) != getattr(changed, name) for name in names)


def _respread(next_run_at: int, before: Trigger, changed: Trigger) -> int:
    """The same slot, fired elsewhere inside the spread: none comes twice and none is lost."""
    return next_run_at - timing_of(before).offset_ms + timing_of(changed).offset_ms


def delete_trigger(tx: Tx, trigger: Trigger) -> None:
    """Its occurrences stay."""
    triggers.delete(tx, trigger.id)


class ComingFire(Record):
    """One slot to come; `skipped_reason` says why it will not fire."""

    at: int
    routine: str
    routine_id: str
    trigger_id: str
    expression: str
    zone: str
    skipped_reason: str | None = None


def coming_fires(
    reader: Reader, *, workspace: str, now: int, until: int, routine: str | None, limit: int
) -> list[ComingFire]:
    """The coming slots of all armed triggers, those that a clock change swallows included, in time order."""
    place = lookup.the_workspace(reader, workspace)
    only = lookup.the_routine(reader, place, routine) if routine else None
    fires: list[ComingFire] = []
    for trigger in triggers.of_workspace(reader, place.id):
        is_wanted = only is None or trigger.routine_id == only.id
        if is_wanted and trigger.kind is TriggerKind.SCHEDULE and trigger.next_run_at is not None:
            fires += slots_of(reader, trigger, now=now, until=until, limit=limit)
    return sorted(fires, key=lambda fire: (fire.at, fire.trigger_id))[:limit]


def slots_of(reader: Reader, trigger: Trigger, *, now: int, until: int, limit: int) -> list[ComingFire]:
    """The coming slots of one trigger: those that fire, and those that do not, with the reason."""
    timing, routine = timing_of(trigger), routines.by_id(reader, trigger.routine_id)
    assert routine is not None
    named = [c for c in calendars.of_workspace(reader, trigger.workspace_id) if c.id in trigger.calendar_ids]
    left = None if trigger.max_fires is None else trigger.max_fires - trigger.fire_count

    def coming(at: int, why: str | None) -> ComingFire:
        return ComingFire(
            at=at,
            routine=routine.name,
            routine_id=routine.id,
            trigger_id=trigger.id,
            expression=timing.schedule.text,
            zone=timing.schedule.zone,
            skipped_reason=why,
        )

    slots = timing.slots(now, until, limit)
    fires = [coming(slot + timing.offset_ms, excluded_by(named, slot)) for slot in slots]
    return _skipped(trigger, timing, coming, now=now, until=until, limit=limit) + _at_most(fires, left)


def _at_most(fires: list[ComingFire], left: int | None) -> list[ComingFire]:
    """Until so many have fired; a slot that is left out does not count."""
    kept: list[ComingFire] = []
    for fire in fires:
        if left is not None and sum(coming.skipped_reason is None for coming in kept) >= left:
            break
        kept.append(fire)
    return kept


def _skipped(
    trigger: Trigger,
    timing: Timing,
    coming: Callable[[int, str | None], ComingFire],
    *,
    now: int,
    until: int,
    limit: int,
) -> list[ComingFire]:
    walls = timing.skipped(now, until, limit)
    if not walls:
        return []
    zone = zones.zone(trigger.zone)
    why = f"does not exist in {zone.key}: the clock skips it"
    return [coming(millis(zones.gap_at(wall, zone).at), f"{wall:%Y-%m-%d %H:%M} {why}") for wall in walls]


def next_fires(reader: Reader, trigger: Trigger, *, now: int, limit: int) -> list[ComingFire]:
    """The coming slots of one trigger in time order, skipped ones included; none while it is not armed."""
    if trigger.kind is not TriggerKind.SCHEDULE or trigger.next_run_at is None:
        return []
    found = slots_of(reader, trigger, now=now, until=millis(zones.LAST), limit=limit)
    return sorted(found, key=lambda fire: fire.at)[:limit]
