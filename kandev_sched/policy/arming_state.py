"""Arming state: in one word, whether a routine will fire by itself, and else why not."""

from __future__ import annotations

from enum import StrEnum

from kandev_sched.domain.instant import MINUTE_MS
from kandev_sched.domain.routines import RoutineStatus
from kandev_sched.domain.schedules import TriggerKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from kandev_sched.domain.routines import Routine
    from kandev_sched.domain.schedules import Trigger

OVERDUE_AFTER_MS = MINUTE_MS


class ArmingState(StrEnum):
    """`overdue`: a slot has passed by more than a minute, so no ticker looks. `finished`: no slot is left."""

    ARMED = "armed"
    PAUSED = "paused"
    DISABLED = "disabled"
    INVALID = "invalid"
    OVERDUE = "overdue"
    FINISHED = "finished"
    EVENT_ONLY = "event only"


def arming_state(routine: Routine, triggers: Iterable[Trigger], *, now: int) -> ArmingState:
    """The state of a routine; the worst of what needs a person comes first."""
    if routine.status is not RoutineStatus.ACTIVE:
        return ArmingState.PAUSED
    schedules = [trigger for trigger in triggers if trigger.kind is TriggerKind.SCHEDULE]
    if not schedules:
        return ArmingState.EVENT_ONLY
    if any(trigger.enabled and trigger.last_error is not None for trigger in schedules):
        return ArmingState.INVALID
    armed = [trigger.next_run_at for trigger in schedules if trigger.next_run_at is not None]
    if any(at < now - OVERDUE_AFTER_MS for at in armed):
        return ArmingState.OVERDUE
    if armed:
        return ArmingState.ARMED
    return ArmingState.FINISHED if any(trigger.enabled for trigger in schedules) else ArmingState.DISABLED
