"""Ticking: due slots of schedules → fires, and each trigger moved past them, in one transaction a trigger.

Which of several due slots fire is `policy.catchup`'s decision; whether one may is asked of its calendars
and of its execution scope at each fire (S1).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from kandev_sched.domain.calendars import Calendar
from kandev_sched.domain.errors import SchedError, Unavailable
from kandev_sched.domain.instant import rfc3339
from kandev_sched.domain.record import Record
from kandev_sched.domain.routines import (
    ConcurrencyPolicy,
    FireSource,
    Routine,
    RoutineRun,
    RoutineRunStatus,
    RoutineStatus,
)
from kandev_sched.domain.schedules import Trigger
from kandev_sched.domain.workspaces import Permission
from kandev_sched.flow.arming import has_fired, is_used_up, next_unfired, set_aside
from kandev_sched.flow.firing import Firing, Refusal, Slot, fire
from kandev_sched.policy import catchup, zones
from kandev_sched.policy.catchup import CatchUp
from kandev_sched.policy.exclusion import excluded_by
from kandev_sched.policy.permission import why_denied
from kandev_sched.policy.timing import millis, timing_of
from kandev_sched.store import calendars, routines, supervision, triggers, workspaces
from kandev_sched.store.db import Database, Reader, Tx

Work = Callable[[Tx], object]
TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime

log = logging.getLogger("kandev_sched.ticker")
# So many triggers are committed together: a thousand that are due at once cost few syncs, and a claim
# meanwhile waits for one group only.
GROUP = 64


def fire_due(db: Database, *, window_s: int) -> int:
    """Fire everything that is due; how many triggers moved. A bad one is set aside, the others go on."""
    moved = 0
    while due := db.read(lambda reader: triggers.due(reader, now=db.host.now(), limit=GROUP)):
        _fire_group(db, due, window_s=window_s)
        moved += len(due)
    return moved


def _fire_group(db: Database, due: Sequence[Trigger], *, window_s: int) -> None:
    """All in one transaction; when one of them cannot, each in a savepoint of its own."""

    def fire_all(tx: Tx) -> None:
        _note_clock(tx)
        for trigger in due:
            fire_trigger(tx, trigger, window_s=window_s)

    try:
        db.write(fire_all)
    except Unavailable:
        raise  # the disk, not a trigger: the loop tries again
    except Exception:  # noqa: BLE001 - whose error it is shows in the second round
        errors = db.write_each([_firing_of(trigger, window_s) for trigger in due])
        for trigger, error in zip(due, errors, strict=True):
            if error is not None:
                _cope(db, trigger, error)


def _note_clock(tx: Tx) -> None:
    """What fires now moves the clock's high-water mark: a step back must be seen, however soon it comes."""
    row = supervision.state(tx)
    if row is not None and row.seen_at < tx.now:
        supervision.set_seen(tx)


def _firing_of(trigger: Trigger, window_s: int) -> Work:
    return lambda tx: fire_trigger(tx, trigger, window_s=window_s)


def _cope(db: Database, trigger: Trigger, error: BaseException) -> None:
    if isinstance(error, Unavailable) or not isinstance(error, Exception):
        raise error  # the disk, not the trigger: the loop tries again
    sentence = f"{error}" or type(error).__name__
    trace = None if isinstance(error, SchedError) else error
    log.error("trigger %s is set aside: %s", trigger.id, sentence, exc_info=trace)
    db.write(lambda tx: set_aside(tx, trigger, sentence))


def fire_trigger(tx: Tx, trigger: Trigger, *, window_s: int) -> None:
    """All due slots of one trigger: their routine runs, their wakeups and the new `next_run_at`."""
    routine = routines.by_id(tx, trigger.routine_id)
    is_live = routine is not None and routine.status is RoutineStatus.ACTIVE and trigger.enabled
    if routine is None or not is_live or trigger.next_run_at is None:
        triggers.advance(tx, trigger, next_run_at=None, fired_at=None, count=0)
        return
    scope = _scope_of(tx, trigger)
    plan = plan_of(trigger, routine, now=tx.now)
    # What fired before the clock stepped back, or before a spread grew, counts neither again nor as new.
    unfired = [slot_at for slot_at in plan.fires if not has_fired(tx, trigger, slot_at)]
    fires = [(slot_at, _refusal(scope, slot_at)) for slot_at in unfired]
    if not _advance(tx, trigger, fires):
        return  # an edit or another ticker came first
    _record_missed(tx, trigger, routine, plan)
    _record_skipped(tx, trigger, routine)
    for slot_at, refusal in _in_order(routine, fires):
        slot = _slot(trigger, plan, slot_at)
        firing = Firing(
            routine=routine,
            source=FireSource.CRON,
            slot=slot,
            input=trigger.input,
            principal_id=trigger.principal_id,
            refusal=refusal,
            window_s=window_s,
        )
        fire(tx, firing)


def plan_of(trigger: Trigger, routine: Routine, *, now: int) -> CatchUp:
    """Which of the slots from `next_run_at` to now fire; the work is bounded, whatever the outage."""
    assert trigger.next_run_at is not None
    wanted = catchup.slots_wanted(routine.catch_up_policy, catch_up_max=routine.catch_up_max)
    timing = timing_of(trigger)
    due = timing.due(trigger.next_run_at - 1, now, wanted)
    if due is None:
        return CatchUp()  # the projection was wrong by hand: nothing is due
    return catchup.decide(
        routine.catch_up_policy,
        due,
        now=now - timing.offset_ms,  # slots are nominal: the spread is no lateness
        catch_up_max=routine.catch_up_max,
        misfire_grace_s=routine.misfire_grace_s,
        max_age_s=routine.catch_up_max_age_s,
        at_most=None if trigger.max_fires is None else trigger.max_fires - trigger.fire_count,
    )


class _Scope(Record):
    """What decides, besides the schedule, whether a slot of a trigger may fire."""

    denied: str | None
    calendars: tuple[Calendar, ...]


def _scope_of(tx: Tx, trigger: Trigger) -> _Scope:
    workspace = workspaces.by_id(tx, trigger.workspace_id)
    assert workspace is not None
    principal = workspaces.principal(tx, trigger.principal_id) if trigger.principal_id else None
    named: list[Calendar] = []
    if trigger.calendar_ids:
        known = calendars.of_workspace(tx, workspace.id)
        named = [calendar for calendar in known if calendar.id in trigger.calendar_ids]
    return _Scope(denied=why_denied(principal, workspace, Permission.RUNS_EXECUTE), calendars=tuple(named))


def _refusal(scope: _Scope, slot_at: int) -> Refusal | None:
    excluded = excluded_by(scope.calendars, slot_at)
    if excluded is not None:
        return Refusal(status=RoutineRunStatus.EXCLUDED, reason=excluded)
    if scope.denied is not None:
        return Refusal(status=RoutineRunStatus.DENIED, reason=scope.denied)
    return None


_Fires = list[tuple[int, Refusal | None]]


def _advance(tx: Tx, trigger: Trigger, fires: _Fires) -> bool:
    fired_count = sum(refusal is None for _, refusal in fires)
    after = trigger.replace(fire_count=trigger.fire_count + fired_count)
    next_run_at = None if is_used_up(after) else next_unfired(tx, trigger, tx.now)
    fired_at = tx.now if fired_count else None
    return triggers.advance(tx, trigger, next_run_at=next_run_at, fired_at=fired_at, count=fired_count)


def _in_order(routine: Routine, fires: _Fires) -> _Fires:
    """Newest first, so that the one with the counts runs and the rest join it; a queue fires oldest first."""
    is_queueing = routine.concurrency_policy is ConcurrencyPolicy.ALWAYS_ENQUEUE
    return fires if is_queueing else fires[::-1]


def _slot(trigger: Trigger, plan: CatchUp, slot_at: int) -> Slot:
    is_newest = slot_at == plan.fires[-1] and plan.missed_first_at is not None
    return Slot(
        trigger_id=trigger.id,
        at=slot_at,
        zone=trigger.zone,
        generation=trigger.generation,
        missed_count=plan.missed_count if is_newest else 0,
        missed_since=rfc3339(plan.missed_first_at or 0) if is_newest else None,
    )


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
            trigger_generation=trigger.generation,
        ),
    )


SKIPPED_LIMIT = 100


def _record_skipped(tx: Tx, trigger: Trigger, routine: Routine) -> None:
    """The walls that a zone's clock skipped since the slot before leave one record a gap (§3 DST)."""
    timing = timing_of(trigger)
    looked_at = max(trigger.created_at, trigger.last_fired_at or 0)
    if trigger.next_run_at is None or not timing.skipped(looked_at, tx.now, 1):
        return
    before = timing.due(trigger.created_at, trigger.next_run_at - 1, 1)
    since = before.newest[-1] + timing.offset_ms if before else trigger.created_at
    gaps: dict[int, list[datetime]] = {}
    for wall in timing.skipped(since, tx.now, SKIPPED_LIMIT):
        gaps.setdefault(millis(zones.gap_at(wall, zones.zone(trigger.zone)).at), []).append(wall)
    for walls in gaps.values():
        routines.add_run(tx, _skipped(tx, trigger, routine, walls))


def _skipped(tx: Tx, trigger: Trigger, routine: Routine, walls: list[datetime]) -> RoutineRun:
    first, last, count = walls[0], walls[-1], len(walls)
    which = f"{first:%Y-%m-%d %H:%M}" + (f" to {last:%H:%M} ({count} slots)" if count > 1 else "")
    verb = "do" if count > 1 else "does"
    return RoutineRun(
        id=tx.new_id("rr"),
        workspace_id=routine.workspace_id,
        routine_id=routine.id,
        trigger_id=trigger.id,
        source=FireSource.CRON,
        status=RoutineRunStatus.SKIPPED,
        reason=f"{which} {verb} not exist in {trigger.zone}: the clock skips {'them' if count > 1 else 'it'}",
        fired_at=tx.now,
        trigger_payload={},
        generation=routine.generation,
        finished_at=tx.now,
        trigger_generation=trigger.generation,
    )


def next_due_at(reader: Reader) -> int | None:
    """When the next trigger is due."""
    return triggers.next_at(reader)
