"""Spread, calendars, bounds, backfill, cancel_active, gaps and repeats: what schedules need in practice."""

from __future__ import annotations

import time

import pytest
from world import DAY, HOUR, MINUTE, SECOND, START, World, ms

from kandev_sched.domain.errors import Conflict, Invalid, NotFound
from kandev_sched.domain.routines import (
    CatchUpPolicy,
    ConcurrencyPolicy,
    Routine,
    RoutineRun,
    RoutineRunStatus,
)
from kandev_sched.domain.runs import RunStatus
from kandev_sched.domain.schedules import OnGap, OnRepeat
from kandev_sched.domain.tasks import TaskState
from kandev_sched.flow.arming import rearm
from kandev_sched.operations import calendars as calendar_operations
from kandev_sched.operations.backfill import Backfill, BackfillSlot, backfill, backfill_slots
from kandev_sched.operations.forecast import forecast_of
from kandev_sched.operations.listing import routine_rows
from kandev_sched.operations.schedules import Schedule
from kandev_sched.policy.timing import spread_offset_ms, timing_of

EVERY_FIVE, HOURLY = "*/5 * * * *", "0 * * * *"
CANCEL = ConcurrencyPolicy.CANCEL_ACTIVE
BERLIN = "Europe/Berlin"


def arming(world: World, routine: Routine) -> str:
    rows = world.db.read(lambda reader: routine_rows(reader, workspace="default", now=world.now))
    return next(str(row["arming"]) for row in rows if row["id"] == routine.id)


# --- spread -----------------------------------------------------------------------------------------------


def test_a_spread_gives_each_trigger_its_own_fixed_delay(world: World) -> None:
    """S1 schedules in practice:
    Forty routines on one cron line do not start together; each keeps its offset for life.
    """
    bot = world.given_agent()
    made = [
        world.given_routine(f"r{n}", agent=bot, schedule=Schedule(cron=HOURLY, zone="UTC", spread_s=300))
        for n in range(40)
    ]
    offsets = {world.trigger_of(routine).next_run_at % HOUR for routine in made}
    assert len(offsets) > 30
    assert all(0 <= offset < 300 * SECOND and offset % SECOND == 0 for offset in offsets)
    before = world.ask("SELECT next_run_at FROM triggers ORDER BY id")
    world.restart()
    assert world.ask("SELECT next_run_at FROM triggers ORDER BY id") == before
    world.live_until(START + 3 * HOUR + 300 * SECOND, works=False)
    for routine in made:
        slots = [slot for slot in world.fired_slots(routine) if slot > START]
        assert slots == [START + n * HOUR for n in (1, 2, 3)]  # the nominal instants


def test_the_spread_is_seen_in_every_preview(world: World) -> None:
    """S1 schedules in practice: `sched next` and the preview at creation show when it really fires."""
    routine = world.given_routine(
        agent=world.given_agent(), schedule=Schedule(cron=HOURLY, zone="UTC", spread_s=3000)
    )
    trigger = world.trigger_of(routine)
    offset = spread_offset_ms(trigger.id, 3000)
    assert offset > 0
    found = forecast_of(trigger, now=world.now, limit=3)
    assert f"{offset // 1000} s later (spread)" in found.sentence
    # A slot of before the creation may still be under way inside the spread, and fires too.
    first = timing_of(trigger).next_fire(world.now)
    assert found.next_at == tuple(first + n * HOUR for n in range(3))
    assert [fire.at for fire in world.coming(n=3)] == list(found.next_at)
    assert trigger.next_run_at == first


@pytest.mark.parametrize("policy", list(CatchUpPolicy))
def test_a_slot_that_the_spread_delays_is_not_late(world: World, policy: CatchUpPolicy) -> None:
    """S1 schedules in practice: The delay is wanted: neither skip_missed nor the age limit counts it."""
    routine = world.given_routine(
        agent=world.given_agent(),
        schedule=Schedule(cron=HOURLY, zone="UTC", spread_s=3000),
        catch_up=policy,
        catch_up_max_age_s=60,
    )
    assert spread_offset_ms(world.trigger_of(routine).id, 3000) > 120 * SECOND
    world.live_until(START + 5 * HOUR, works=False)
    assert world.missed_of(routine) == []
    assert len(world.fired_slots(routine)) >= 4


@pytest.mark.parametrize(("before", "after"), [(0, 3000), (3000, 0), (3000, 600), (60, 3000)])
def test_a_changed_spread_neither_repeats_nor_loses_a_slot(world: World, before: int, after: int) -> None:
    """S1 schedules in practice:
    Slots are named by their nominal instants; the edit comes at every quarter of an hour.
    """
    routine = world.given_routine(
        agent=world.given_agent(),
        schedule=Schedule(cron=HOURLY, zone="UTC", spread_s=before),
        concurrency=ConcurrencyPolicy.ALWAYS_ENQUEUE,
    )
    trigger = world.trigger_of(routine)
    assert spread_offset_ms(trigger.id, 3000) != spread_offset_ms(trigger.id, 600)
    for number in range(12):
        world.live_until(START + HOUR + (number + 1) * 15 * MINUTE, works=False)
        world.set_trigger(world.trigger(trigger), spread_s=after if number % 2 == 0 else before)
    world.live_until(START + 6 * HOUR, works=False)
    slots = [slot for slot in world.fired_slots(routine) if slot > START]
    assert slots == [START + n * HOUR for n in range(1, len(slots) + 1)]
    assert len(slots) >= 5
    assert world.missed_of(routine) == []
    assert world.trigger(trigger).fire_count == len(world.fired_slots(routine))


def test_a_spread_does_not_go_with_a_single_instant(world: World) -> None:
    """S1 schedules in practice: a spread does not go with a single instant."""
    with pytest.raises(Invalid, match="spread"):
        world.given_routine(
            agent=world.given_agent(), schedule=Schedule(at="2026-12-24T18:00:00Z", spread_s=60)
        )


# --- calendars --------------------------------------------------------------------------------------------


def test_a_slot_inside_a_calendar_is_recorded_with_the_reason_and_creates_nothing(world: World) -> None:
    """S1 schedules in practice: A holiday: excluded, shown beforehand, and the next day fires."""
    world.given_calendar("holidays", zone=BERLIN, dates=("2026-12-02",))
    routine = world.given_routine(
        agent=world.given_agent(), schedule=Schedule(cron="30 0 * * *", zone=BERLIN, calendars=("holidays",))
    )
    reason = "calendar holidays: 2026-12-02 is excluded"
    assert [fire.skipped_reason for fire in world.coming(hours=48)] == [reason, None]
    world.live_until(START + 2 * DAY, works=False)
    assert [(o.status, o.reason) for o in world.routine_runs_of(routine)] == [
        (RoutineRunStatus.EXCLUDED, reason),
        (RoutineRunStatus.RECEIVED, None),
    ]
    assert world.fired_slots(routine) == [ms("2026-12-03T00:30:00+01:00")]
    assert len(world.requests()) == 1
    assert world.trigger_of(routine).fire_count == 1


def test_weekly_quiet_hours_go_over_midnight_on_the_calendars_own_clock(world: World) -> None:
    """S1 schedules in practice:
    FRI 22:00-07:00 is Friday evening and Saturday morning, also when the clocks change.
    """
    world.given_calendar("nights", zone=BERLIN, quiet=("FRI 22:00-07:00",))
    routine = world.given_routine(
        agent=world.given_agent(), schedule=Schedule(cron=HOURLY, zone="UTC", calendars=("nights",))
    )
    world.host.set_clock(ms("2026-12-04T12:00:00Z"))
    world.change(f"UPDATE triggers SET next_run_at = {ms('2026-12-04T13:00:00Z')}")
    world.live_until(ms("2026-12-05T12:00:00Z"), works=False)
    excluded = [
        o.scheduled_for_at for o in world.routine_runs_of(routine) if o.status is RoutineRunStatus.EXCLUDED
    ]
    assert excluded == list(range(ms("2026-12-04T22:00:00+01:00"), ms("2026-12-05T07:00:00+01:00"), HOUR))
    (reason,) = {o.reason for o in world.routine_runs_of(routine) if o.status is RoutineRunStatus.EXCLUDED}
    assert reason == "calendar nights: quiet hours FRI 22:00-07:00"


def test_a_maintenance_window_has_its_beginning_and_not_its_end(world: World) -> None:
    """S1 schedules in practice: a maintenance window has its beginning and not its end."""
    world.given_calendar("work", windows=("2026-12-01T10:00:00Z/2026-12-01T12:00:00Z",))
    routine = world.given_routine(
        agent=world.given_agent(), schedule=Schedule(cron=HOURLY, zone="UTC", calendars=("work",))
    )
    world.live_until(START + 4 * HOUR, works=False)
    assert [o.status is RoutineRunStatus.EXCLUDED for o in world.routine_runs_of(routine)] == [
        True,
        True,
        False,
        False,
    ]


def test_a_changed_calendar_counts_from_the_next_slot_and_one_in_use_is_not_deleted(world: World) -> None:
    """S1 schedules in practice."""
    calendar = world.given_calendar("off", dates=("2026-12-01",))
    routine = world.given_routine(
        agent=world.given_agent(), schedule=Schedule(cron=HOURLY, zone="UTC", calendars=("off",))
    )
    with pytest.raises(Conflict, match="is used by"):
        world.db.write(lambda tx: calendar_operations.delete_calendar(tx, calendar))
    world.live_until(START + HOUR, works=False)
    command = calendar_operations.SetCalendar(calendar="off", dates=("2027-01-01",))
    world.db.write(lambda tx: calendar_operations.set_calendar(tx, command))
    world.live_until(START + 2 * HOUR, works=False)
    assert world.fired_slots(routine) == [START + 2 * HOUR]
    with pytest.raises(NotFound, match="no calendar"):
        world.set_trigger(world.trigger_of(routine), calendars=("of",))


def test_an_excluded_slot_does_not_count_as_a_fire(world: World) -> None:
    """S1 schedules in practice: max_fires counts what fired; the preview goes on until then."""
    world.given_calendar("off", dates=("2026-12-02",))
    routine = world.given_routine(
        agent=world.given_agent(),
        schedule=Schedule(cron="0 9 * * *", zone="UTC", calendars=("off",), max_fires=2),
    )
    assert [fire.skipped_reason is None for fire in world.coming(hours=24 * 9)] == [False, True, True]
    world.live_until(START + 9 * DAY, works=False)
    assert world.fired_slots(routine) == [START + 2 * DAY, START + 3 * DAY]
    assert arming(world, routine) == "finished"


# --- bounds -----------------------------------------------------------------------------------------------


def test_nothing_fires_before_the_start_or_after_the_end(world: World) -> None:
    """S1 schedules in practice: Both bounds are themselves inside."""
    schedule = Schedule(
        cron=HOURLY, zone="UTC", start_at="2026-12-01T11:00:00Z", end_at="2026-12-01T14:00:00+01:00"
    )
    routine = world.given_routine(agent=world.given_agent(), schedule=schedule)
    assert [fire.at for fire in world.coming()] == [START + n * HOUR for n in (2, 3, 4)]
    world.live_until(START + DAY, works=False)
    assert world.fired_slots(routine) == [START + n * HOUR for n in (2, 3, 4)]
    assert arming(world, routine) == "finished"


def test_max_fires_is_the_most_also_when_slots_are_caught_up(world: World) -> None:
    """S1 schedules in practice: max fires is the most also when slots are caught up."""
    routine = world.given_routine(
        agent=world.given_agent(), schedule=Schedule(cron=HOURLY, zone="UTC", max_fires=3)
    )
    world.live_until(START + HOUR, works=False)
    assert len(world.coming()) == 2
    world.advance(10 * 3600)
    world.tick()
    world.restart()
    world.tick()
    assert world.fired_slots(routine) == [START + n * HOUR for n in (1, 10, 11)]
    assert world.trigger_of(routine).fire_count == 3
    assert world.trigger_of(routine).next_run_at is None
    raised = world.set_trigger(world.trigger_of(routine), max_fires=4)
    assert raised.next_run_at == START + 12 * HOUR


def test_the_cap_is_kept_by_a_slot_that_had_fired_before_the_clock_stepped_back(world: World) -> None:
    """S1 schedules in practice: A slot that comes again counts neither again nor as new."""
    routine = world.given_routine(
        agent=world.given_agent(), schedule=Schedule(cron=HOURLY, zone="UTC", max_fires=4)
    )
    world.live_until(START + 2 * HOUR, works=False)
    world.change("UPDATE triggers SET next_run_at = NULL")
    world.host.set_clock(START)
    world.db.write(rearm)
    world.live_until(START + 6 * HOUR, works=False)
    assert world.fired_slots(routine) == [START + n * HOUR for n in (1, 2, 3, 4)]


# --- backfill ---------------------------------------------------------------------------------------------


def asked(routine: Routine, begin: int, end: int, **fields: object) -> Backfill:
    return Backfill(routine=routine.name, from_at=begin, until_at=end, **fields)


def run_backfill(world: World, command: Backfill) -> list[RoutineRun]:
    return world.db.write(lambda tx: backfill(tx, command, window_s=5))


def dry_run(world: World, command: Backfill) -> list[BackfillSlot]:
    return world.db.read(lambda reader: backfill_slots(reader, command, now=world.now))


def test_a_backfill_fires_the_past_slots_that_have_not_fired(world: World) -> None:
    """S1 schedules in practice:
    Each slot its occurrence, already fired ones left alone, the schedule not moved; again: nothing.
    """
    routine = world.given_routine(agent=world.given_agent(), cron=HOURLY)
    world.live_until(START + 2 * HOUR)
    before = world.trigger_of(routine)
    command = asked(routine, START - 2 * HOUR, START + 2 * HOUR)
    assert [(slot.at, slot.is_fired) for slot in dry_run(world, command)] == [
        (START - 2 * HOUR, False),
        (START - HOUR, False),
        (START, False),
        (START + HOUR, True),
    ]
    assert len(world.routine_runs_of(routine)) == 2
    made = run_backfill(world, command)
    assert [run.scheduled_for_at for run in made] == [START - 2 * HOUR, START - HOUR, START]
    assert world.trigger_of(routine) == before
    assert run_backfill(world, command) == []
    assert len(world.fired_slots(routine)) == len(set(world.fired_slots(routine))) == 5


def test_a_backfill_may_have_a_concurrency_of_its_own(world: World) -> None:
    """S1 schedules in practice: a backfill may have a concurrency of its own."""
    routine = world.given_routine(agent=world.given_agent(), cron=HOURLY)
    command = asked(routine, START - 3 * HOUR, START, concurrency=ConcurrencyPolicy.ALWAYS_ENQUEUE)
    run_backfill(world, command)
    assert len(world.runs()) == 3
    assert world.routine(routine).concurrency_policy is ConcurrencyPolicy.COALESCE_IF_ACTIVE


def test_a_backfill_keeps_calendars_and_names_nominal_slots(world: World) -> None:
    """S1 schedules in practice: a backfill keeps calendars and names nominal slots."""
    world.given_calendar("off", windows=("2026-12-01T07:00:00Z/2026-12-01T08:00:00Z",))
    schedule = Schedule(cron=HOURLY, zone="UTC", calendars=("off",), spread_s=3000)
    routine = world.given_routine(agent=world.given_agent(), schedule=schedule)
    made = run_backfill(world, asked(routine, START - 2 * HOUR, START))
    assert [(run.scheduled_for_at, run.status) for run in made] == [
        (START - 2 * HOUR, RoutineRunStatus.EXCLUDED),
        (START - HOUR, RoutineRunStatus.RECEIVED),
    ]


@pytest.mark.parametrize(
    ("begin", "end", "why"),
    [
        (START, START, "empty"),
        (START, START - 1, "empty"),
        (START - HOUR, START + 2, "future"),
        (START - 2000 * HOUR, START, "more than 1000"),
    ],
)
def test_a_backfill_has_its_limits(world: World, begin: int, end: int, why: str) -> None:
    """S1 schedules in practice: a backfill has its limits."""
    routine = world.given_routine(agent=world.given_agent(), cron=HOURLY)
    with pytest.raises(Invalid, match=why):
        dry_run(world, asked(routine, begin, end))
    with pytest.raises(Invalid, match=why):
        run_backfill(world, asked(routine, begin, end))
    assert world.routine_runs_of(routine) == []


def test_a_backfill_of_a_paused_routine_is_refused(world: World) -> None:
    """S1 schedules in practice: a backfill of a paused routine is refused."""
    routine = world.given_routine(agent=world.given_agent(), cron=HOURLY)
    world.pause_routine(routine)
    with pytest.raises(Conflict, match="paused"):
        run_backfill(world, asked(routine, START - HOUR, START))


# --- cancel_active ----------------------------------------------------------------------------------------


def test_cancel_active_ends_a_queued_run_and_starts_anew(world: World) -> None:
    """behaviour §3 Concurrency: cancel active ends a queued run and starts anew."""
    routine = world.given_routine(agent=world.given_agent(), cron=EVERY_FIVE, concurrency=CANCEL)
    world.live_until(START + 10 * MINUTE, works=False)
    first, second = world.runs()
    assert (first.status, second.status) == (RunStatus.CANCELLED, RunStatus.QUEUED)
    assert [o.status for o in world.routine_runs_of(routine)] == [
        RoutineRunStatus.CANCELLED,
        RoutineRunStatus.RECEIVED,
    ]


def test_cancel_active_ends_a_run_at_work_and_the_new_one_follows(world: World) -> None:
    """behaviour §3 Concurrency: cancel active ends a run at work and the new one follows."""
    world.given_task(agent=(bot := world.given_agent()))
    routine = world.given_routine(agent=bot, cron=EVERY_FIVE, concurrency=CANCEL)
    world.live_until(START + 5 * MINUTE, works=False)
    at_work = world.process()
    world.live_until(START + 10 * MINUTE, works=False)
    world.attend()
    world.attend()
    assert world.attempt(at_work).was_cancelled
    assert world.run(at_work).status is RunStatus.CANCELLED
    anew = world.process()
    assert anew.id != at_work.id
    world.finish(anew)
    assert [o.status for o in world.routine_runs_of(routine)] == [
        RoutineRunStatus.CANCELLED,
        RoutineRunStatus.DONE,
    ]


def test_cancel_active_ends_the_task_of_a_heavy_routine(world: World) -> None:
    """behaviour §3 Concurrency: cancel active ends the task of a heavy routine."""
    routine = world.given_routine(
        agent=world.given_agent(), cron=EVERY_FIVE, concurrency=CANCEL, task_title="review"
    )
    world.live_until(START + 5 * MINUTE, works=False)
    world.finish(world.process())
    world.live_until(START + 10 * MINUTE, works=False)
    assert [task.state for task in world.tasks()] == [TaskState.CANCELLED, TaskState.IN_PROGRESS]
    assert [o.status for o in world.routine_runs_of(routine)] == [
        RoutineRunStatus.CANCELLED,
        RoutineRunStatus.TASK_CREATED,
    ]


def test_cancel_active_leaves_the_requests_of_others_to_follow_up(world: World) -> None:
    """I1: only the routine's own requests end."""
    bot = world.given_agent()
    world.given_routine(agent=bot, cron=EVERY_FIVE, concurrency=CANCEL)
    world.live_until(START + 5 * MINUTE, works=False)
    comment = world.request("user", bot)
    shared = world.run_of(comment)
    assert shared.id == world.runs()[0].id
    world.live_until(START + 10 * MINUTE, works=False)
    assert world.run_of(comment).status is RunStatus.QUEUED
    world.finish_all()
    assert world.ending_of(comment) == ("delivered", None)


def test_cancel_active_of_a_run_at_work_lets_the_requests_of_others_follow_up(world: World) -> None:
    """I1, behaviour §2: a live run is ended and its other requests follow up."""
    bot = world.given_agent()
    world.given_routine(agent=bot, cron=EVERY_FIVE, concurrency=CANCEL)
    world.live_until(START + 5 * MINUTE, works=False)
    comment = world.request("user", bot)
    at_work = world.process()
    world.live_until(START + 10 * MINUTE, works=False)
    world.attend()
    world.attend()
    assert world.run(at_work).status is RunStatus.CANCELLED
    world.finish_all()
    assert world.ending_of(comment) == ("delivered", None)


# --- arming, last success ---------------------------------------------------------------------------------


def test_a_routine_says_in_a_word_whether_it_will_fire(world: World) -> None:
    """S1 schedules in practice: a routine says in a word whether it will fire."""
    bot = world.given_agent()
    made = {
        name: world.given_routine(name, agent=bot, cron=EVERY_FIVE)
        for name in ("armed", "paused", "disabled", "invalid", "overdue")
    }
    made["event only"] = world.given_routine("event only", agent=bot)
    world.pause_routine(made["paused"], note="until Monday")
    world.set_trigger(world.trigger_of(made["disabled"]), enabled=False)
    invalid = world.trigger_of(made["invalid"]).id
    world.change(f"UPDATE triggers SET expression = 'gone' WHERE id = '{invalid}'")
    world.live_until(START + 5 * MINUTE)
    world.change(f"UPDATE triggers SET next_run_at = {START} WHERE routine_id = '{made['overdue'].id}'")
    assert {name: arming(world, routine) for name, routine in made.items()} == {name: name for name in made}
    assert world.routine(made["paused"]).status_note == "until Monday"


def test_the_last_fire_is_told_apart_from_the_last_success(world: World) -> None:
    """S1 schedules in practice: A fire is no success: only a run that ended well is."""
    world.given_task(agent=(bot := world.given_agent()))
    routine = world.given_routine(agent=bot, cron=HOURLY)
    world.live_until(START + HOUR, works=False)
    assert (world.trigger_of(routine).last_fired_at, world.trigger_of(routine).last_success_at) == (
        START + HOUR,
        None,
    )
    run = world.process()
    world.advance(90)
    world.finish(run)
    assert world.trigger_of(routine).last_success_at == START + HOUR + 90 * SECOND
    world.live_until(START + 2 * HOUR, works=False)
    world.fail(world.process())
    trigger = world.trigger_of(routine)
    assert (trigger.last_fired_at, trigger.last_success_at) == (START + 2 * HOUR, START + HOUR + 90 * SECOND)
    (row,) = world.db.read(lambda reader: routine_rows(reader, workspace="default", now=world.now))
    assert (row["last_fired_at"], row["last_success_at"]) == (trigger.last_fired_at, trigger.last_success_at)


# --- gaps and repeats, by the ticker ----------------------------------------------------------------------


def test_shift_fires_all_walls_of_a_gap_once_at_its_end(world: World) -> None:
    """behaviour §3 DST: Four quarter hours do not exist; they are one instant, which fires once."""
    world.host.set_clock(ms("2027-03-28T01:50:00+01:00"))
    schedule = Schedule(cron="*/15 2 * * *", zone=BERLIN, on_gap=OnGap.SHIFT)
    routine = world.given_routine(
        agent=world.given_agent(), schedule=schedule, concurrency=ConcurrencyPolicy.ALWAYS_ENQUEUE
    )
    assert [fire.skipped_reason for fire in world.coming(hours=3)] == [None]
    world.live_until(ms("2027-03-28T12:00:00+02:00"), works=False)
    assert world.fired_slots(routine) == [ms("2027-03-28T03:00:00+02:00")]


def test_skip_leaves_one_record_for_all_walls_of_a_gap(world: World) -> None:
    """behaviour §3 DST: History: what the clock skipped, with the reason in a sentence, once."""
    world.host.set_clock(ms("2027-03-28T01:50:00+01:00"))
    routine = world.given_routine(agent=world.given_agent(), cron="*/15 * * * *", zone=BERLIN)
    assert len([fire for fire in world.coming(hours=3) if fire.skipped_reason]) == 4
    world.live_until(ms("2027-03-28T05:00:00+02:00"), works=False)
    reasons = [o.reason for o in world.routine_runs_of(routine) if o.scheduled_for_at is None]
    assert reasons == [
        "2027-03-28 02:00 to 02:45 (4 slots) do not exist in Europe/Berlin: the clock skips them"
    ]


@pytest.mark.parametrize("how", ["denied", "down"])
def test_a_gap_is_recorded_once_also_when_nothing_fires_or_nobody_ticks(world: World, how: str) -> None:
    """behaviour §3 DST: a gap is recorded once also when nothing fires or nobody ticks."""
    world.host.set_clock(ms("2027-03-27T12:00:00+01:00"))
    routine = world.given_routine(agent=world.given_agent(), cron="30 2 * * *", zone=BERLIN)
    if how == "denied":
        world.change("UPDATE principals SET enabled = 0")
        world.live_until(ms("2027-04-02T12:00:00+02:00"), works=False)
    else:
        world.host.set_clock(ms("2027-04-02T12:00:00+02:00"))
        world.restart()
        world.tick()
        world.tick()
    gaps = [o for o in world.routine_runs_of(routine) if o.scheduled_for_at is None]
    assert [gap.reason for gap in gaps] == [
        "2027-03-28 02:30 does not exist in Europe/Berlin: the clock skips it"
    ]


def test_both_fires_the_repeated_hour_twice_and_each_instant_once_across_a_restart(world: World) -> None:
    """behaviour §3 DST: A restart inside the repeated hour fires nothing twice, under either rule."""
    world.host.set_clock(ms("2027-10-31T01:40:00+02:00"))
    bot = world.given_agent()
    made = {
        repeat: world.given_routine(
            repeat,
            agent=bot,
            schedule=Schedule(cron="*/20 * * * *", zone=BERLIN, on_repeat=repeat),
            concurrency=ConcurrencyPolicy.ALWAYS_ENQUEUE,
        )
        for repeat in OnRepeat
    }
    while world.now < ms("2027-10-31T03:00:00+01:00"):
        world.live_until(world.now + 10 * MINUTE, works=False)
        world.restart()
        world.tick()
    first_pass = range(ms("2027-10-31T02:00:00+02:00"), ms("2027-10-31T03:00:00+02:00"), 20 * MINUTE)
    second_pass = [slot + HOUR for slot in first_pass]
    end = ms("2027-10-31T03:00:00+01:00")
    assert world.fired_slots(made[OnRepeat.FIRST]) == [*first_pass, end]
    assert world.fired_slots(made[OnRepeat.BOTH]) == [*first_pass, *second_pass, end]


# --- the process's own zone -------------------------------------------------------------------------------


def test_a_changed_zone_of_the_process_moves_no_slot(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """behaviour §3: stored instants never depend on the process's zone, nor do the ids of occurrences."""
    bot = world.given_agent()
    made = [
        world.given_routine("cron", agent=bot, cron="30 2 * * *", zone=BERLIN),
        world.given_routine("utc", agent=bot, cron="30 2 * * *"),
        world.given_routine(
            "days", agent=bot, schedule=Schedule(every="P1D", start_at="2026-12-01T02:30:00Z")
        ),
    ]
    slots = {}
    for number, zone in enumerate(("Asia/Kolkata", "America/New_York", "UTC", "Pacific/Kiritimati")):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        world.restart()
        world.live_until(START + (number + 1) * DAY, works=False)
        slots[zone] = [world.fired_slots(routine)[number:] for routine in made]
    monkeypatch.undo()
    time.tzset()
    two_thirty = ms("2026-12-02T02:30:00Z")
    for number, found in enumerate(slots.values()):
        assert found == [
            [two_thirty - HOUR + number * DAY],
            [two_thirty + number * DAY],
            [two_thirty + number * DAY],
        ]
