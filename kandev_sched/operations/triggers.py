"""Triggers: add, set, enable, disable, delete, and the coming slots."""

from __future__ import annotations

from kandev_sched.domain.errors import Invalid
from kandev_sched.domain.record import Record
from kandev_sched.domain.routines import Routine
from kandev_sched.domain.schedules import Syntax, Trigger, TriggerKind
from kandev_sched.domain.workspaces import Permission
from kandev_sched.flow.arming import arm
from kandev_sched.operations import lookup
from kandev_sched.policy import cron, zones
from kandev_sched.policy.timing import instant, millis, schedule_of
from kandev_sched.store import routines, triggers
from kandev_sched.store.db import Reader, Tx


class Schedule(Record):
    """A cron expression in a zone (UTC when empty)."""

    cron: str
    zone: str = "UTC"


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
    parsed = cron.parse(schedule.cron, schedule.zone) if schedule else None
    trigger = Trigger(
        id=tx.new_id("trg"),
        routine_id=routine.id,
        workspace_id=routine.workspace_id,
        kind=TriggerKind.SCHEDULE if parsed else TriggerKind.MANUAL,
        syntax=Syntax.CRON if parsed else None,
        expression=parsed.text if parsed else None,
        zone=parsed.zone if parsed else "UTC",
        principal_id=_scope(tx, routine) if parsed else None,
        created_at=tx.now,
        updated_at=tx.now,
    )
    trigger = trigger.replace(next_run_at=arm(trigger, routine, now=tx.now))
    triggers.add(tx, trigger)
    tx.wake_supervisor()
    return trigger


def _scope(tx: Tx, routine: Routine) -> str:
    """The execution scope is snapshotted when a trigger is enabled, or changed while enabled (S1)."""
    return lookup.acting_principal(tx, routine.workspace_id, Permission.RUNS_EXECUTE).id


class SetTrigger(Record):
    """Change what is given. Only a change of schedule, zone or `enabled` moves the next slot."""

    workspace: str = lookup.DEFAULT_WORKSPACE
    trigger: str
    cron: str | None = None
    zone: str | None = None
    enabled: bool | None = None


def set_trigger(tx: Tx, command: SetTrigger) -> Trigger:
    """Raises NotFound, Invalid."""
    workspace = lookup.workspace_for_writing(tx, command.workspace)
    trigger = lookup.the_trigger(tx, workspace, command.trigger)
    changed = _with_schedule(trigger, command)
    if command.enabled is not None:
        changed = changed.replace(enabled=command.enabled)
    if changed == trigger:
        return trigger
    routine = routines.by_id(tx, trigger.routine_id)
    assert routine is not None
    triggers.save(tx, changed.replace(next_run_at=arm(changed, routine, now=tx.now)))
    tx.wake_supervisor()
    saved = triggers.by_id(tx, trigger.id)
    assert saved is not None
    return saved


def _with_schedule(trigger: Trigger, command: SetTrigger) -> Trigger:
    if command.cron is None and command.zone is None:
        return trigger
    if trigger.kind is not TriggerKind.SCHEDULE:
        raise Invalid(f"trigger {trigger.id} has no schedule", hint="add a schedule with `sched trigger add`")
    zone = trigger.zone if command.zone is None else zones.zone(command.zone).key
    parsed = cron.parse(trigger.expression if command.cron is None else command.cron, zone)
    return trigger.replace(expression=parsed.text, zone=parsed.zone)


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
    """The coming slots of one trigger."""
    schedule, routine = schedule_of(trigger), routines.by_id(reader, trigger.routine_id)
    assert routine is not None
    after, before = instant(now), instant(until)
    zone = zones.zone(trigger.zone)
    common = {
        "routine": routine.name,
        "routine_id": routine.id,
        "trigger_id": trigger.id,
        "expression": schedule.text,
        "zone": schedule.zone,
    }
    skipped = [
        ComingFire(
            at=millis(zones.gap_at(wall, zone).at),
            skipped_reason=f"{wall:%Y-%m-%d %H:%M} does not exist in {schedule.zone}: the clock skips it",
            **common,
        )
        for wall in schedule.skipped_between(after, before, limit)
    ]
    return skipped + [
        ComingFire(at=millis(at), **common) for at in schedule.slots_between(after, before, limit)
    ]


def next_fires(reader: Reader, trigger: Trigger, *, now: int, limit: int) -> list[ComingFire]:
    """The coming slots of one trigger in time order, skipped ones included; none while it is not armed."""
    if trigger.kind is not TriggerKind.SCHEDULE or trigger.next_run_at is None:
        return []
    found = slots_of(reader, trigger, now=now, until=millis(zones.LAST), limit=limit)
    return sorted(found, key=lambda fire: fire.at)[:limit]
