"""Arming state: one word for whether a routine will fire by itself."""

from __future__ import annotations

import pytest

from kandev_sched.domain.routines import Routine, RoutineStatus
from kandev_sched.domain.schedules import Syntax, Trigger, TriggerKind
from kandev_sched.policy.arming_state import OVERDUE_AFTER_MS, ArmingState, arming_state

NOW = 1_796_115_600_000


def a_routine(status: RoutineStatus = RoutineStatus.ACTIVE) -> Routine:
    return Routine(
        id="rt_1",
        workspace_id="ws_1",
        name="r",
        agent_id="ag_1",
        status=status,
        created_at=NOW,
        updated_at=NOW,
    )


def a_trigger(next_run_at: int | None = NOW + 1, **fields: object) -> Trigger:
    plain = {
        "id": "trg_1",
        "routine_id": "rt_1",
        "workspace_id": "ws_1",
        "kind": TriggerKind.SCHEDULE,
        "syntax": Syntax.CRON,
        "expression": "0 * * * *",
        "created_at": NOW,
        "updated_at": NOW,
    }
    return Trigger(**{**plain, "next_run_at": next_run_at, **fields})


ARMED, OFF = a_trigger(), a_trigger(None, enabled=False)
FINISHED, BROKEN = a_trigger(None), a_trigger(None, last_error="gone")
LATE = a_trigger(NOW - OVERDUE_AFTER_MS - 1)
BY_HAND = a_trigger(None, kind=TriggerKind.MANUAL, syntax=None, expression=None)


@pytest.mark.parametrize(
    ("triggers", "state"),
    [
        ([], ArmingState.EVENT_ONLY),
        ([BY_HAND], ArmingState.EVENT_ONLY),
        ([ARMED], ArmingState.ARMED),
        ([ARMED, BY_HAND, OFF, FINISHED], ArmingState.ARMED),
        ([OFF], ArmingState.DISABLED),
        ([FINISHED], ArmingState.FINISHED),
        ([FINISHED, OFF], ArmingState.FINISHED),
        ([LATE, ARMED], ArmingState.OVERDUE),
        ([a_trigger(NOW - OVERDUE_AFTER_MS)], ArmingState.ARMED),
        ([BROKEN, ARMED, LATE], ArmingState.INVALID),
        ([a_trigger(None, enabled=False, last_error="gone")], ArmingState.DISABLED),
    ],
)
def test_the_worst_of_what_needs_a_person_comes_first(triggers: list[Trigger], state: ArmingState) -> None:
    assert arming_state(a_routine(), triggers, now=NOW) is state


@pytest.mark.parametrize("status", [RoutineStatus.PAUSED, RoutineStatus.ARCHIVED])
def test_a_routine_that_is_not_active_is_paused_whatever_its_triggers(status: RoutineStatus) -> None:
    assert arming_state(a_routine(status), [ARMED, BROKEN, LATE], now=NOW) is ArmingState.PAUSED
