"""The ticker: due slots, what fires after an outage, damaged triggers, a clock that is moved."""

from __future__ import annotations

import logging

import pytest
from world import DAY, HOUR, MINUTE, SECOND, START, World

from kandev_sched.domain.routines import CatchUpPolicy, ConcurrencyPolicy, RoutineRunStatus
from kandev_sched.domain.runs import RunStatus
from kandev_sched.domain.tasks import TaskState
from kandev_sched.flow.arming import rearm
from kandev_sched.operations import routines as routine_operations
from kandev_sched.operations import triggers as trigger_operations
from kandev_sched.operations.schedules import Schedule

EVERY_FIVE = "*/5 * * * *"
SKIP_MISSED, FIRE_ONCE = CatchUpPolicy.SKIP_MISSED, CatchUpPolicy.FIRE_ONCE


def test_a_slot_fires_when_it_is_due_and_the_trigger_moves_on(world: World) -> None:
    """S0 Routines: a schedule's `next_run_at` and `last_fired_at` are kept."""
    routine = world.given_routine(agent=world.given_agent(), cron=EVERY_FIVE)
    assert world.triggers_of(routine)[0].next_run_at == START + 5 * MINUTE
    world.advance(299.999)
    assert world.tick() == 0
    assert world.requests() == []
    world.advance(0.001)
    assert world.tick() == 1
    (trigger,) = world.triggers_of(routine)
    assert (trigger.next_run_at, trigger.last_fired_at) == (START + 10 * MINUTE, world.now)
    (request,) = world.requests()
    assert (request.scheduled_for_at, request.requested_at) == (START + 5 * MINUTE, world.now)
    assert world.tick() == 0
    assert len(world.requests()) == 1


def test_a_late_tick_is_asked_for_now_and_scheduled_for_its_slot(world: World) -> None:
    """behaviour §3 Catch-up: `requested_at` is now, `scheduled_for` the slot."""
    world.given_routine(agent=world.given_agent(), cron=EVERY_FIVE)
    world.advance(301)
    world.tick()
    (request,) = world.requests()
    assert (request.scheduled_for_at, request.requested_at) == (START + 5 * MINUTE, START + 301 * SECOND)


# --- enqueue_missed_with_cap ------------------------------------------------------------------------------


def test_after_an_outage_the_newest_twenty_five_slots_fire_and_the_rest_is_one_record(world: World) -> None:
    """S0 Catch-up policy enqueue_missed_with_cap (default, cap 25), behaviour §3 Catch-up."""
    bot = world.given_agent()
    world.given_task(agent=bot)
    routine = world.given_routine(agent=bot, cron=EVERY_FIVE)
    assert (routine.catch_up_policy, routine.catch_up_max) == ("enqueue_missed_with_cap", 25)
    world.advance(100 * 300 + 1)  # 100 slots
    world.tick()
    occurrences = world.routine_runs_of(routine)
    missed = [o for o in occurrences if o.status is RoutineRunStatus.MISSED]
    fired = [o for o in occurrences if o.status is not RoutineRunStatus.MISSED]
    assert [o.scheduled_for_at for o in fired] == [START + n * 5 * MINUTE for n in range(76, 101)]
    assert len({o.idempotency_key for o in fired}) == 25
    (record,) = missed
    assert (record.missed_count, record.missed_first_at, record.missed_last_at) == (
        75,
        START + 5 * MINUTE,
        START + 75 * 5 * MINUTE,
    )
    (run,) = world.runs(bot)
    assert run.coalesced_count == 25
    world.process()
    assert "you missed 75 ticks since 2026-12-01T09:05:00Z" in world.prompt_of(run)
    assert world.prompt_of(run).count("you missed") == 1


def test_the_newest_slot_carries_the_counts(world: World) -> None:
    """behaviour §3 Catch-up: the newest fire's payload carries `missed_ticks` and `missed_since`."""
    routine = world.given_routine(agent=world.given_agent(), cron=EVERY_FIVE, catch_up_max=2)
    world.advance(5 * 300)
    world.tick()
    by_slot = sorted(world.requests(), key=lambda request: request.scheduled_for_at)
    assert [request.scheduled_for_at for request in by_slot] == [START + 20 * MINUTE, START + 25 * MINUTE]
    assert "missed_ticks" not in by_slot[0].payload
    assert by_slot[1].payload == {
        "routine_id": routine.id,
        "variables": {},
        "missed_ticks": 3,
        "missed_since": "2026-12-01T09:05:00Z",
    }


def test_no_missed_record_is_made_when_all_due_slots_fire(world: World) -> None:
    """behaviour §3 Catch-up: only older ones become one `missed` record."""
    routine = world.given_routine(agent=world.given_agent(), cron=EVERY_FIVE)
    world.advance(25 * 300)
    world.tick()
    assert len(world.routine_runs_of(routine)) == 25
    assert all(o.status is not RoutineRunStatus.MISSED for o in world.routine_runs_of(routine))


def test_slots_that_are_caught_up_run_in_one_run_and_are_recorded_against_it(world: World) -> None:
    """behaviour §3 Catch-up: the newest is the one that runs under coalesce, the others join it."""
    bot = world.given_agent()
    world.given_task(agent=bot)
    routine = world.given_routine(agent=bot, cron=EVERY_FIVE)
    world.advance(3 * 300)
    world.tick()
    statuses = [o.status for o in world.routine_runs_of(routine)]
    assert statuses == [RoutineRunStatus.COALESCED, RoutineRunStatus.COALESCED, RoutineRunStatus.RECEIVED]
    run = world.process()
    assert len(world.wakeups_told(run)) == 3
    world.finish(run)
    assert {world.ending_of(request) for request in world.requests()} == {("delivered", None)}


def test_under_skip_only_the_newest_slot_runs(world: World) -> None:
    """behaviour §3 Catch-up: the newest is the one that runs under skip, the others recorded against it."""
    routine = world.given_routine(
        agent=world.given_agent(), cron=EVERY_FIVE, concurrency=ConcurrencyPolicy.SKIP_IF_ACTIVE
    )
    world.advance(3 * 300)
    world.tick()
    statuses = [o.status for o in world.routine_runs_of(routine)]
    assert statuses == [RoutineRunStatus.SKIPPED, RoutineRunStatus.SKIPPED, RoutineRunStatus.RECEIVED]
    assert len(world.runs()) == 1


def test_under_always_enqueue_slots_run_oldest_first(world: World) -> None:
    """behaviour §3 Catch-up: under `always_enqueue` oldest first."""
    bot = world.given_agent(skip_idle=False)
    world.given_routine(agent=bot, cron=EVERY_FIVE, concurrency=ConcurrencyPolicy.ALWAYS_ENQUEUE)
    world.advance(3 * 300)
    world.tick()
    order = []
    while (run := world.process()) is not None:
        order.append(world.requests_of(run)[0].scheduled_for_at)
        world.finish(run)
    assert order == [START + n * 5 * MINUTE for n in (1, 2, 3)]


def test_a_heavy_routine_catches_up_with_one_task(world: World) -> None:
    """behaviour §3 heavy: the newest slot makes the task, the others are recorded against it."""
    routine = world.given_routine(agent=world.given_agent(), cron=EVERY_FIVE, task_title="review")
    world.advance(3 * 300)
    world.tick()
    (task,) = world.tasks()
    occurrences = world.routine_runs_of(routine)
    assert [o.linked_task_id for o in occurrences] == [task.id] * 3
    assert [o.status for o in occurrences] == [
        RoutineRunStatus.COALESCED,
        RoutineRunStatus.COALESCED,
        RoutineRunStatus.TASK_CREATED,
    ]
    assert len(world.requests()) == 1


def test_a_clock_that_jumps_fifty_years_costs_no_more_than_the_cap(world: World) -> None:
    """behaviour §3 Catch-up: counting is bounded and never a loop over millions of slots."""
    import time

    routine = world.given_routine(agent=world.given_agent(), cron="* * * * *")
    world.advance(50 * 365 * 86_400)
    began = time.monotonic()
    world.tick()
    assert time.monotonic() - began < 5
    occurrences = world.routine_runs_of(routine)
    assert len(occurrences) == 26
    (record,) = (o for o in occurrences if o.status is RoutineRunStatus.MISSED)
    assert record.missed_count == 50 * 365 * 1440 - 25
    assert world.triggers_of(routine)[0].next_run_at == world.now + MINUTE


# --- skip_missed, fire_once -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("late_s", "fires"),
    [(0, True), (60, True), (61, False)],
    ids=["on time", "within the grace", "after the grace"],
)
def test_skip_missed_fires_only_the_current_slot(world: World, late_s: int, fires: bool) -> None:
    """S0 Catch-up policy skip_missed, behaviour §3: if it is at most `misfire_grace_s` (60) late."""
    routine = world.given_routine(agent=world.given_agent(), cron=EVERY_FIVE, catch_up=SKIP_MISSED)
    world.advance(3 * 300 + late_s)
    world.tick()
    occurrences = world.routine_runs_of(routine)
    (record,) = (o for o in occurrences if o.status is RoutineRunStatus.MISSED)
    fired = [o.scheduled_for_at for o in occurrences if o.status is not RoutineRunStatus.MISSED]
    assert fired == ([START + 15 * MINUTE] if fires else [])
    assert record.missed_count == (2 if fires else 3)
    assert record.missed_first_at == START + 5 * MINUTE
    assert record.missed_last_at == START + (10 if fires else 15) * MINUTE
    assert len(world.requests()) == fires
    assert world.triggers_of(routine)[0].next_run_at == START + 20 * MINUTE


def test_fire_once_makes_one_fire_of_everything_due_with_the_count(world: World) -> None:
    """S1 fireOnce, behaviour §3 Catch-up: one fire for everything due, with the count."""
    routine = world.given_routine(agent=world.given_agent(), cron=EVERY_FIVE, catch_up=FIRE_ONCE)
    world.advance(10 * 300 + 200)
    world.tick()
    (request,) = world.requests()
    assert request.scheduled_for_at == START + 50 * MINUTE
    assert request.payload["missed_ticks"] == 9
    (record,) = (o for o in world.routine_runs_of(routine) if o.status is RoutineRunStatus.MISSED)
    assert record.missed_count == 9


# --- editing, pausing -------------------------------------------------------------------------------------


def test_pause_is_not_downtime(world: World) -> None:
    """behaviour §3 Editing: on resume nothing is caught up."""
    routine = world.given_routine(agent=world.given_agent(), cron=EVERY_FIVE)
    paused = world.db.write(lambda tx: routine_operations.pause_routine(tx, routine))
    assert world.triggers_of(routine)[0].next_run_at is None
    world.advance(3 * 300 + 1)
    assert world.tick() == 0
    world.db.write(lambda tx: routine_operations.resume_routine(tx, paused))
    world.tick()
    assert world.routine_runs_of(routine) == []
    assert world.triggers_of(routine)[0].next_run_at == START + 20 * MINUTE


def test_editing_the_schedule_computes_from_now_and_fires_nothing_before(world: World) -> None:
    """behaviour §3 Editing: recomputes `next_run_at` only when schedule, zone or `enabled` changed."""
    routine = world.given_routine(agent=world.given_agent(), cron="0 * * * *")
    (trigger,) = world.triggers_of(routine)
    world.advance(7 * 60)
    change = trigger_operations.SetTrigger(trigger=trigger.id, schedule=Schedule(cron=EVERY_FIVE))
    world.db.write(lambda tx: trigger_operations.set_trigger(tx, change))
    assert world.trigger(trigger).next_run_at == START + 10 * MINUTE
    world.tick()
    assert world.requests() == []


def test_an_edit_that_changes_nothing_of_the_schedule_leaves_its_next_slot(world: World) -> None:
    """behaviour §3 Editing: only when the schedule itself, the zone or `enabled` changed."""
    routine = world.given_routine(agent=world.given_agent(), cron=EVERY_FIVE)
    before = world.triggers_of(routine)
    world.advance(400)  # one slot is due
    change = routine_operations.SetRoutine(routine=routine.id, description="look again")
    world.db.write(lambda tx: routine_operations.set_routine(tx, change))
    same = trigger_operations.SetTrigger(
        trigger=before[0].id, schedule=Schedule(cron=EVERY_FIVE, zone="UTC"), enabled=True
    )
    world.db.write(lambda tx: trigger_operations.set_trigger(tx, same))
    assert world.triggers_of(routine) == before
    world.tick()
    assert len(world.requests()) == 1


# --- damaged rows -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    ["expression = 'every day'", "zone = 'Mars/Olympus'", "expression = '0 0 31 2 *'", "next_run_at = -1e15"],
)
def test_a_damaged_trigger_is_set_aside_and_every_other_goes_on(
    world: World, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """behaviour §3: a trigger that cannot be computed is quarantined with its error."""
    ann, ben = world.given_agent("ann"), world.given_agent("ben")
    bad = world.given_routine("bad", agent=ann, cron=EVERY_FIVE)
    good = world.given_routine("good", agent=ben, cron=EVERY_FIVE)
    world.change(
        f"UPDATE triggers SET {damage.replace('-1e15', '-1000000000000000')} WHERE routine_id = '{bad.id}'"
    )
    world.advance(300)
    with caplog.at_level(logging.ERROR, "kandev_sched"):
        world.tick()
    assert [request.routine_id for request in world.requests()] == [good.id]
    (trigger,) = world.triggers_of(bad)
    assert trigger.next_run_at is None
    if "31 2" not in damage:
        assert trigger.last_error
        assert trigger.id in caplog.text
        assert [line.routine_id for line in world.history("trigger_set_aside")] == [bad.id]
    world.advance(300)
    world.tick()
    assert len(world.routine_runs_of(good)) == 2


def test_a_trigger_without_its_next_slot_is_armed_again(world: World) -> None:
    """S1 Reconstruction, behaviour §3: start-up recomputes what is missing from the definitions."""
    routine = world.given_routine(agent=world.given_agent(), cron=EVERY_FIVE)
    world.change("UPDATE triggers SET next_run_at = NULL")
    world.restart()
    assert world.triggers_of(routine)[0].next_run_at == START + 5 * MINUTE


def test_due_slots_are_kept_for_catch_up_by_a_restart(world: World) -> None:
    """S1 Reconstruction: due slots are kept for catch-up."""
    world.given_routine(agent=world.given_agent(), cron=EVERY_FIVE)
    world.advance(3 * 300)
    world.restart()
    world.tick()
    assert len(world.requests()) == 3


def test_a_set_aside_trigger_is_not_armed_again_by_itself(world: World) -> None:
    """behaviour §3: quarantined until a person edits it."""
    routine = world.given_routine(agent=world.given_agent(), cron=EVERY_FIVE)
    world.change("UPDATE triggers SET expression = 'rubbish'")
    world.advance(300)
    world.tick()
    assert world.db.write(rearm) == []
    (trigger,) = world.triggers_of(routine)
    change = trigger_operations.SetTrigger(trigger=trigger.id, schedule=Schedule(cron=EVERY_FIVE))
    world.db.write(lambda tx: trigger_operations.set_trigger(tx, change))
    mended = world.trigger(trigger)
    assert (mended.next_run_at, mended.last_error) == (world.now + 5 * MINUTE, None)


# --- the clock --------------------------------------------------------------------------------------------


def test_when_the_clock_steps_back_what_waits_is_shifted_by_the_step(world: World) -> None:
    """behaviour §7: pending instants (eligible, retry, cooldown) are shifted by the step."""
    bot, tired = world.given_agent(), world.given_agent("tired", cooldown_s=10)
    task = world.given_task(agent=bot)
    world.request("user", bot)
    retried = world.process()
    world.fail(retried)
    comment = world.request("comment", bot, task=task)
    world.request("user", tired)
    world.finish(world.process())
    cooling = world.request("user", tired)
    world.look_at_clock()
    world.host.set_clock(world.now - HOUR)
    world.look_at_clock()
    assert world.run(retried).scheduled_retry_at == world.now + 2 * MINUTE
    assert world.run_of(comment).eligible_at == world.now + 5 * SECOND
    assert world.agent(tired).ready_at == world.now + 10 * SECOND
    (line,) = world.history("clock_stepped_back")
    assert "3600 s" in line.sentence
    world.advance(5)
    assert world.process().id == comment.run_id
    world.advance(5)
    assert world.process().id == cooling.run_id


def test_what_was_due_before_the_clock_stepped_back_is_still_due(world: World) -> None:
    """I13, behaviour §7: survive clock steps in both directions."""
    bot = world.given_agent()
    request = world.request("user", bot)
    world.look_at_clock()
    world.host.set_clock(world.now - DAY)
    world.look_at_clock()
    assert world.process().id == request.run_id


def test_a_clock_that_goes_forward_shifts_nothing(world: World) -> None:
    """behaviour §7: when now falls below the stored high-water mark."""
    bot = world.given_agent()
    world.request("user", bot)
    run = world.process()
    world.fail(run)
    due_at = world.run(run).scheduled_retry_at
    world.look_at_clock()
    world.advance(60)
    world.look_at_clock()
    assert world.run(run).scheduled_retry_at == due_at
    assert world.history("clock_stepped_back") == []


def test_no_slot_fires_twice_when_the_clock_is_set_back(world: World) -> None:
    """I6: a wall-clock slot of a trigger fires at most once, whatever the clock."""
    routine = world.given_routine(agent=world.given_agent(), cron=EVERY_FIVE)
    for _ in range(4):
        world.advance(300)
        world.tick()
    world.look_at_clock()
    world.host.set_clock(START)
    world.look_at_clock()
    for _ in range(6):
        world.advance(300)
        world.tick()
    slots = [o.scheduled_for_at for o in world.routine_runs_of(routine)]
    assert slots == [START + n * 5 * MINUTE for n in range(1, 7)]


def test_a_clock_that_was_years_ahead_and_is_mended_does_not_silence_a_schedule(world: World) -> None:
    """behaviour §7, §3: `next_run_at` is the first slot after now that has no occurrence."""
    routine = world.given_routine(agent=world.given_agent(), cron=EVERY_FIVE)
    world.advance(20 * 365 * 86_400)
    world.tick()
    world.look_at_clock()
    world.host.set_clock(START + 6 * MINUTE)
    world.restart()
    assert world.triggers_of(routine)[0].next_run_at == START + 10 * MINUTE
    world.advance(4 * 60)
    world.tick()
    assert START + 10 * MINUTE in [o.scheduled_for_at for o in world.routine_runs_of(routine)]


# --- what the sweep finds ---------------------------------------------------------------------------------


def test_a_request_that_no_run_holds_is_given_one(world: World) -> None:
    """I1: until it ends a request is reachable; the sweep finds what a hand has left."""
    from kandev_sched.flow.sweep import adopt_stranded

    bot = world.given_agent()
    request = world.insert_stranded("user", bot)
    assert world.db.write(lambda tx: adopt_stranded(tx, window_s=5)) == 0
    world.advance(5)
    assert world.db.write(lambda tx: adopt_stranded(tx, window_s=5)) == 1
    assert world.process().id == world.run_of(request).id
    (line,) = world.history("wakeup_adopted")
    assert line.wakeup_id == request.id


def test_in_a_healthy_system_the_sweep_finds_nothing(world: World) -> None:
    """I1: every accepted request is on a list from its first moment."""
    from kandev_sched.flow.sweep import adopt_stranded

    bot = world.given_agent()
    task = world.given_task(agent=bot)
    world.request("comment", bot, task=task)
    world.fire(world.given_routine(agent=bot, concurrency=ConcurrencyPolicy.SKIP_IF_ACTIVE))
    world.move(task, TaskState.DONE)
    world.advance(3600)
    assert world.db.write(lambda tx: adopt_stranded(tx, window_s=5)) == 0
    assert {run.status for run in world.runs()} == {RunStatus.QUEUED}
