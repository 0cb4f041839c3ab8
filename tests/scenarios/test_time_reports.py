"""What users of other schedulers reported about time (`field/demands.md`), each with its test."""

from __future__ import annotations

import random
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import available_timezones

import pytest
from world import DAY, HOUR, MINUTE, SECOND, START, World, ms

from kandev_sched.config import load
from kandev_sched.domain.errors import Conflict, Invalid, Unusable
from kandev_sched.domain.routines import CatchUpPolicy, RoutineRunStatus
from kandev_sched.domain.runs import RunStatus
from kandev_sched.domain.schedules import OnGap, OnRepeat
from kandev_sched.flow import ticking
from kandev_sched.flow.ticking import fire_due, fire_trigger
from kandev_sched.operations.forecast import forecast
from kandev_sched.operations.schedules import Schedule
from kandev_sched.policy import cron, zones
from kandev_sched.store import triggers
from kandev_sched.store.db import open_database
from kandev_sched.supervisor.loop import LONGEST_PAUSE_S, Loop
from kandev_sched.supervisor.ticker import Ticker

BERLIN = "Europe/Berlin"
SKIP_MISSED = CatchUpPolicy.SKIP_MISSED


# --- time zones -------------------------------------------------------------------------------------------


def test_tz_01_a_daily_job_in_a_zone_fires_once_each_night_of_a_clock_change(world: World) -> None:
    """behaviour §3 DST:
    In autumn at the first 02:30 only, in spring not at all; the skip is seen before and afterwards.
    """
    world.host.set_clock(ms("2027-03-26T12:00:00+01:00"))
    routine = world.given_routine(agent=world.given_agent(), cron="30 2 * * *", zone=BERLIN)
    (skipped,) = [fire for fire in world.coming(hours=72) if fire.skipped_reason]
    assert skipped.skipped_reason == f"2027-03-28 02:30 does not exist in {BERLIN}: the clock skips it"
    world.live_until(ms("2027-03-30T12:00:00+02:00"))
    assert world.fired_slots(routine) == [
        ms("2027-03-27T02:30:00+01:00"),
        ms("2027-03-29T02:30:00+02:00"),
        ms("2027-03-30T02:30:00+02:00"),
    ]
    (record,) = [o for o in world.routine_runs_of(routine) if o.scheduled_for_at is None]
    assert (record.status, record.reason) == (RoutineRunStatus.SKIPPED, skipped.skipped_reason)
    world.live_until(ms("2027-10-30T12:00:00+02:00"))
    before = len(world.fired_slots(routine))
    world.live_until(ms("2027-11-01T12:00:00+01:00"))
    assert world.fired_slots(routine)[before:] == [
        ms("2027-10-31T00:30:00Z"),
        ms("2027-11-01T02:30:00+01:00"),
    ]
    assert len([o for o in world.routine_runs_of(routine) if o.scheduled_for_at is None]) == 1


def test_tz_02_the_lost_slot_of_spring_can_run_at_the_end_of_the_gap(world: World) -> None:
    """behaviour §3 DST:
    Skipping is the rule, and recorded; who cannot do without the slot says `on_gap = shift`.
    """
    world.host.set_clock(ms("2027-03-13T12:00:00-05:00"))
    bot = world.given_agent()
    made = {
        gap: world.given_routine(
            str(gap),
            agent=bot,
            schedule=Schedule(cron="30 2 * * *", zone="America/New_York", on_gap=gap),
        )
        for gap in OnGap
    }
    world.live_until(ms("2027-03-14T12:00:00-04:00"))
    assert world.fired_slots(made[OnGap.SKIP]) == []
    assert world.fired_slots(made[OnGap.SHIFT]) == [ms("2027-03-14T03:00:00-04:00")]
    assert world.trigger_of(made[OnGap.SHIFT]).on_gap is OnGap.SHIFT
    world.live_until(ms("2027-03-15T12:00:00-04:00"))
    reasons = [o.reason for o in world.routine_runs_of(made[OnGap.SKIP]) if o.scheduled_for_at is None]
    assert reasons == ["2027-03-14 02:30 does not exist in America/New_York: the clock skips it"]
    assert [o for o in world.routine_runs_of(made[OnGap.SHIFT]) if o.scheduled_for_at is None] == []


@pytest.mark.parametrize(
    ("expression", "repeat", "count"),
    [
        ("0 * * * *", OnRepeat.FIRST, 24),
        ("0 * * * *", OnRepeat.BOTH, 25),
        ("*/30 * * * *", OnRepeat.FIRST, 48),
        ("*/30 * * * *", OnRepeat.BOTH, 50),
    ],
)
def test_tz_03_on_the_day_of_25_hours_an_hourly_job_fires_24_times_unless_told_otherwise(
    world: World, expression: str, repeat: OnRepeat, count: int
) -> None:
    """behaviour §3 DST:
    A wall time fires once; `on_repeat = both` fires it each time that the clock shows it.
    """
    begin, end = ms("2027-10-31T00:00:00+02:00"), ms("2027-11-01T00:00:00+01:00")
    world.host.set_clock(begin - 1)
    schedule = Schedule(cron=expression, zone=BERLIN, on_repeat=repeat)
    routine = world.given_routine(agent=world.given_agent(), schedule=schedule)
    world.live_until(end - 1)
    slots = world.fired_slots(routine)
    assert len(slots) == len(set(slots)) == count
    assert (slots[0], len({slot for slot in slots if slot % HOUR == 0})) == (
        begin,
        24 + count % 2 + count // 50,
    )


def test_tz_05_the_next_slot_is_always_later_than_now_and_never_depends_on_who_asks() -> None:
    """behaviour §3 DST: Strictly increasing and stable, for many zones around each of their changes."""
    chance = random.Random(5)
    keys = chance.sample(sorted(key for key in available_timezones() if "/" in key[:9]), 12)
    for key in [*keys, BERLIN, "Australia/Lord_Howe", "America/Santiago", "Africa/Casablanca"]:
        try:
            zone = zones.zone(key)
        except Invalid:
            continue
        changes = list(
            zones.changes_between(datetime(2026, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC), zone)
        )
        for expression in ("*/5 * * * *", "30 2 * * *", "0 0 * * 0", "0 0 29 2 *"):
            schedule = cron.parse(expression, key)
            for change in changes:
                for _ in range(12):
                    instant = change.at + timedelta(seconds=chance.randint(-9000, 9000))
                    slot = schedule.next_after(instant)
                    assert slot > instant
                    assert schedule.next_after(slot - timedelta(microseconds=1)) == slot
                    assert schedule.next_after(slot) > slot


def test_tz_06_an_evening_edit_leaves_tomorrow_morning_alone(world: World) -> None:
    """behaviour §3 DST:
    Next stays tomorrow 06:25, whether the same expression is given again or something else is edited.
    """
    world.host.set_clock(ms("2027-01-12T22:37:00+01:00"))
    routine = world.given_routine(agent=world.given_agent(), cron="25 6 * * *", zone=BERLIN)
    trigger = world.trigger_of(routine)
    morning = ms("2027-01-13T06:25:00+01:00")
    assert trigger.next_run_at == morning
    world.advance(60)
    assert world.set_trigger(trigger, cron="25 6 * * *").next_run_at == morning
    assert world.set_trigger(trigger, input={"a": 1}).next_run_at == morning
    world.set_routine(routine, description="something else", catch_up_max=3)
    assert world.trigger(trigger).next_run_at == morning
    world.live_until(morning)
    assert world.fired_slots(routine) == [morning]


def test_tz_07_a_late_finish_does_not_fire_again(world: World) -> None:
    """behaviour §3 DST:
    The agent works three hours past its slot; the next slot is tomorrow's; nothing is in between.
    """
    world.host.set_clock(ms("2027-01-12T02:59:00Z"))
    world.given_task(agent=(bot := world.given_agent()))
    routine = world.given_routine(agent=bot, cron="0 3 * * *")
    world.live_until(ms("2027-01-12T03:00:00Z"), works=False)
    run = world.process()
    world.live_until(ms("2027-01-12T06:01:00Z"), works=False)
    world.finish(run)
    world.tick()
    assert world.fired_slots(routine) == [ms("2027-01-12T03:00:00Z")]
    assert world.trigger_of(routine).next_run_at == ms("2027-01-13T03:00:00Z")


@pytest.mark.parametrize(
    ("zone", "offered"),
    [
        ("CST", "/"),
        ("GMT+8", "Etc/GMT-8"),
        ("utc", "UTC"),
        ("Asia/Shangai", "Asia/Shanghai"),
        ("../../etc/passwd", None),
        ("/etc/localtime", None),
    ],
)
def test_tz_09_only_iana_names_are_zones_and_the_right_one_is_offered(
    world: World, zone: str, offered: str | None
) -> None:
    """behaviour §3 DST:
    Abbreviations, offsets and paths are refused, with a suggestion where there is one.
    """
    with pytest.raises(Invalid) as refused:
        world.given_routine(agent=world.given_agent(), cron="0 9 * * *", zone=zone)
    assert zone in refused.value.message
    assert offered is None or offered in f"{refused.value.message} {refused.value.hint}"
    assert world.ask("SELECT count(*) FROM triggers") == [(0,)]


def test_tz_09_an_empty_zone_is_utc(world: World) -> None:
    """behaviour §3 DST: '' → UTC."""
    schedule = Schedule(cron="0 9 * * *", zone="")
    routine = world.given_routine(agent=world.given_agent(), schedule=schedule)
    assert world.trigger_of(routine).zone == "UTC"


def _days(expression: str) -> set[int]:
    """The days of the week (0 = Sunday, as cron counts) on which an expression fires within four weeks."""
    found = forecast(expression, "UTC", now=START, limit=28).next_at
    return {at // DAY % 7 for at in found} and {(at // DAY + 4) % 7 for at in found if at < START + 28 * DAY}


@pytest.mark.parametrize(
    ("expression", "days"),
    [
        ("0 12 1-31 * 1", {0, 1, 2, 3, 4, 5, 6}),
        ("0 12 */1 * 1", {1}),
        ("0 12 * * 1", {1}),
    ],
)
def test_tz_10_a_full_range_restricts_and_a_star_does_not(expression: str, days: set[int]) -> None:
    """behaviour §3 DST:
    crontab(5): both day fields restricted means either; a field that begins with `*` does not restrict.
    """
    assert _days(expression) == days


def test_tz_10_friday_the_13th_is_each_friday_and_each_13th() -> None:
    """behaviour §3 DST: `0 0 13 * 5`: OR."""
    found = forecast("0 0 13 * 5", "UTC", now=START, limit=60).next_at
    dates = [datetime.fromtimestamp(at / 1000, UTC) for at in found]
    assert all(date.day == 13 or date.weekday() == 4 for date in dates)
    assert {date.weekday() == 4 for date in dates if date.day == 13} == {True, False}


@pytest.mark.parametrize(
    ("field", "days"),
    [
        ("2/2", {2, 4, 6}),
        ("1-7", {0, 1, 2, 3, 4, 5, 6}),
        ("5-7", {0, 5, 6}),
        ("7", {0}),
        ("0", {0}),
        ("SUN", {0}),
        ("*/7", {0}),
    ],
)
def test_tz_11_steps_and_both_spellings_of_sunday_give_exactly_their_days(field: str, days: set[int]) -> None:
    """behaviour §3 DST: Never an extra Sunday, never a lost one."""
    assert _days(f"0 12 * * {field}") == days


def test_tz_12_only_what_can_never_fire_is_refused() -> None:
    """behaviour §3 DST:
    The 31st of February on a weekday fires on the weekdays; the 29th comes in leap years only.
    """
    assert forecast("0 0 31 2 1-5", "UTC", now=START, limit=1).next_at == (ms("2027-02-01T00:00:00Z"),)
    assert forecast("0 0 29 2 *", "UTC", now=START, limit=1).next_at == (ms("2028-02-29T00:00:00Z"),)
    assert forecast("0 0 29 2 0", "UTC", now=START, limit=1).next_at == (ms("2027-02-07T00:00:00Z"),)
    far = forecast("0 0 29 2 *", "UTC", now=ms("2096-03-01T00:00:00Z"), limit=1).next_at
    assert far == (ms("2104-02-29T00:00:00Z"),)
    with pytest.raises(Invalid, match="never fires"):
        forecast("0 0 30 2 *", "UTC", now=START, limit=1)


def test_tz_13_the_sign_of_an_etc_zone_is_the_posix_one(world: World) -> None:
    """behaviour §3 DST: 1pm in Etc/GMT+5 is 18:00Z, not 08:00Z."""
    routine = world.given_routine(agent=world.given_agent(), cron="0 13 * * *", zone="Etc/GMT+5")
    assert world.trigger_of(routine).next_run_at == ms("2026-12-01T18:00:00Z")


@pytest.mark.parametrize("expression", ["2-59/3 * * * *", "30 2 * * *"])
def test_tz_14_the_repeated_hour_is_no_busy_loop(world: World, expression: str) -> None:
    """behaviour §3 DST:
    A ticker that looks each second through the repeated hour fires each wall time once and then rests.
    """
    world.host.set_clock(ms("2027-10-30T23:59:00Z"))
    routine = world.given_routine(agent=world.given_agent(), cron=expression, zone=BERLIN)
    ticker = Ticker(world.db, window_s=5)
    while world.now < ms("2027-10-31T02:00:00Z"):
        assert ticker.tick() > 0
        world.advance(7)
    slots = world.fired_slots(routine)
    assert len(slots) == len(set(slots))
    in_the_first = [slot for slot in slots if slot < ms("2027-10-31T01:00:00Z")]
    assert len(in_the_first) == len(slots) == (1 if expression.startswith("30") else 20)


def test_tz_15_a_heartbeat_has_its_hole_by_choice_and_is_told_so(world: World) -> None:
    """behaviour §3 DST:
    Under `first` the repeated hour is silent, said when the schedule is made; `both` has no hole.
    """
    note = forecast("*/5 * * * *", BERLIN, now=ms("2027-09-01T00:00:00Z"), limit=1).note
    assert "2027-10-31" in note
    assert "nothing fires in the repeated time" in note
    world.host.set_clock(ms("2027-10-31T00:01:00Z"))
    bot = world.given_agent()
    hole, none = (
        world.given_routine(
            repeat, agent=bot, schedule=Schedule(cron="*/5 * * * *", zone=BERLIN, on_repeat=repeat)
        )
        for repeat in (OnRepeat.FIRST, OnRepeat.BOTH)
    )
    world.live_until(ms("2027-10-31T02:30:00Z"), works=False)
    repeated = range(ms("2027-10-31T01:00:00Z"), ms("2027-10-31T02:00:00Z"), 5 * MINUTE)
    assert not set(repeated) & set(world.fired_slots(hole))
    assert set(repeated) <= set(world.fired_slots(none))


def test_tz_16_day_fields_follow_crontab_and_7_is_sunday() -> None:
    """behaviour §3 DST:
    `*/2` does not restrict (AND), 7 is Sunday; the choice is visible in the next fires.
    """
    dates = [
        datetime.fromtimestamp(at / 1000, UTC)
        for at in forecast("0 9 */2 * 1", "UTC", now=START, limit=20).next_at
    ]
    assert all(date.weekday() == 0 and date.day % 2 == 1 for date in dates)
    assert _days("0 9 * * 7") == {0}
    assert _days("0 9 * * 5-7") == {0, 5, 6}


# --- catch-up ---------------------------------------------------------------------------------------------


def test_cu_01_skip_missed_fires_nothing_that_is_old_and_records_it(world: World) -> None:
    """behaviour §3 Catch-up:
    After an outage no routine fires, each has its record, and is armed for the future.
    """
    bot = world.given_agent()
    made = [
        world.given_routine(f"r{n}", agent=bot, cron=f"{n} 10 * * *", catch_up=SKIP_MISSED) for n in range(4)
    ]
    world.advance(5 * 3600)
    world.restart()
    world.tick()
    assert world.runs() == []
    for routine in made:
        assert [record.missed_count for record in world.missed_of(routine)] == [1]
        assert world.trigger_of(routine).next_run_at > world.now


@pytest.mark.parametrize(("late_s", "count"), [(59, 1), (60, 1), (61, 0)])
def test_cu_01_a_slot_within_the_grace_is_the_current_one(world: World, late_s: int, count: int) -> None:
    """behaviour §3 Catch-up: The current tick of S0 is a slot that is at most 60 s late."""
    routine = world.given_routine(agent=world.given_agent(), cron="0 10 * * *", catch_up=SKIP_MISSED)
    world.advance(3600 + late_s)
    world.restart()
    world.tick()
    assert len(world.fired_slots(routine)) == count


def test_cu_02_a_burst_after_downtime_is_one_run_that_says_what_was_missed(world: World) -> None:
    """behaviour §3 Catch-up:
    36 slots: at most 25 are considered, all land in one run, whose prompt tells the rest; one launch.
    """
    world.given_task(agent=(bot := world.given_agent()))
    routine = world.given_routine(agent=bot, cron="*/5 * * * *")
    world.advance(3 * 3600)
    world.restart()
    world.tick()
    world.finish_all()
    (run,) = world.runs()
    assert run.coalesced_count == len(world.fired_slots(routine)) == 25
    assert world.launched() == [run.id]
    assert "missed 11 ticks since 2026-12-01T09:05:00Z" in world.prompt_of(run)


def test_cu_03_what_has_fired_is_not_caught_up_after_a_restart(world: World) -> None:
    """behaviour §3 Catch-up: Fired at 22:00, restarted at 22:30: no second fire."""
    world.host.set_clock(ms("2026-12-01T21:59:00Z"))
    routine = world.given_routine(agent=world.given_agent(), cron="0 22 * * *")
    world.live_until(ms("2026-12-01T22:30:00Z"))
    for _ in range(3):
        world.restart()
        world.tick()
    assert world.fired_slots(routine) == [ms("2026-12-01T22:00:00Z")]


@pytest.mark.parametrize("policy", [CatchUpPolicy.ENQUEUE_MISSED_WITH_CAP, SKIP_MISSED])
def test_cu_04_a_slot_that_falls_into_a_restart_is_not_lost(world: World, policy: CatchUpPolicy) -> None:
    """behaviour §3 Catch-up:
    By default it fires at the start; under skip_missed (grace passed) an explicit missed row says so.
    """
    world.host.set_clock(ms("2026-12-02T08:29:47Z"))
    routine = world.given_routine(agent=world.given_agent(), cron="30 8 * * *", catch_up=policy)
    world.close()
    world.advance(78)
    world.restart()
    world.tick()
    fired, missed = world.fired_slots(routine), world.missed_of(routine)
    slot = ms("2026-12-02T08:30:00Z")
    if policy is SKIP_MISSED:
        assert (fired, [m.missed_last_at for m in missed]) == ([], [slot])
    else:
        assert (fired, missed) == ([slot], [])


@pytest.mark.parametrize("policy", list(CatchUpPolicy))
def test_cu_05_no_slot_older_than_the_age_limit_ever_fires(world: World, policy: CatchUpPolicy) -> None:
    """behaviour §3 Catch-up: Checks of 11:00 are harmful at 22:10, and welcome until 11:30."""
    world.host.set_clock(ms("2026-12-01T10:59:00Z"))
    routine = world.given_routine(
        agent=world.given_agent(),
        cron="0 11 * * *",
        catch_up=policy,
        misfire_grace_s=86_400,
        catch_up_max_age_s=1800,
    )
    world.advance(11 * 3600)
    world.restart()
    world.tick()
    assert world.fired_slots(routine) == []
    assert [record.missed_count for record in world.missed_of(routine)] == [1]
    world.live_until(ms("2026-12-02T10:59:00Z"))
    world.advance(31 * 60)
    world.restart()
    world.tick()
    assert world.fired_slots(routine) == [ms("2026-12-02T11:00:00Z")]


def test_cu_06_long_jobs_of_others_delay_no_slot(world: World) -> None:
    """behaviour §3 Catch-up:
    The third agent's request is made at its slot, however long the others work and whoever may start.
    """
    world.set_settings(max_sessions=1)
    made = [
        world.given_routine(f"r{n}", agent=world.given_agent(f"a{n}"), cron=f"{minute} * * * *")
        for n, minute in enumerate((5, 6, 15))
    ]
    for agent in ("a0", "a1", "a2"):
        world.given_task(
            agent=next(a for a in map(world.agent, {r.agent_id for r in made}) if a.name == agent)
        )
    world.live_until(START + 5 * MINUTE, works=False)
    at_work = world.process()
    world.live_until(START + 15 * MINUTE, works=False)
    assert world.process() is None
    assert world.run(at_work).status is RunStatus.CLAIMED
    requested = {r.scheduled_for_at: r.requested_at for r in world.requests()}
    assert requested == {START + n * MINUTE: START + n * MINUTE for n in (5, 6, 15)}


def test_cu_07_a_stalled_loop_fires_late_and_says_how_late(world: World) -> None:
    """behaviour §3 Catch-up: Five seconds of standstill drop nothing, under any policy."""
    bot = world.given_agent()
    made = [
        world.given_routine(policy, agent=bot, cron="*/5 * * * *", catch_up=policy)
        for policy in CatchUpPolicy
    ]
    world.advance(305)
    world.tick()
    for routine in made:
        (occurrence,) = world.routine_runs_of(routine)
        assert occurrence.fired_at - occurrence.scheduled_for_at == 5 * SECOND


def test_cu_07_an_unknown_key_of_the_config_is_an_error(tmp_path: Path) -> None:
    """behaviour §3 Catch-up: A misplaced option is never silently accepted."""
    (tmp_path / "c.toml").write_text("[supervisor]\nmisfire_grace = 5\n")
    with pytest.raises((Invalid, Unusable), match="misfire_grace"):
        load(db=None, config=str(tmp_path / "c.toml"), workspace=None, environ={})


def test_cu_08_registering_again_never_makes_a_second_schedule(world: World) -> None:
    """behaviour §3 Catch-up:
    The same name is refused, and a restart adds nothing: one trigger, one fire a slot.
    """
    bot = world.given_agent()
    routine = world.given_routine("same", agent=bot, cron="*/5 * * * *")
    with pytest.raises(Conflict, match="already"):
        world.given_routine("same", agent=bot, cron="*/5 * * * *")
    for _ in range(3):
        world.restart()
    assert world.ask("SELECT count(*) FROM triggers") == [(1,)]
    world.live_until(START + 10 * MINUTE)
    assert world.fired_slots(routine) == [START + 5 * MINUTE, START + 10 * MINUTE]


def test_cu_09_a_supervisor_killed_after_each_launch_neither_loses_nor_repeats_the_slot(world: World) -> None:
    """behaviour §3 Catch-up:
    The run stands before its agent starts; its agent survives the supervisor, three times in a row.
    """
    world.given_task(agent=(bot := world.given_agent()))
    routine = world.given_routine(agent=bot, cron="*/5 * * * *")
    world.advance(300)
    seen = []
    world.machine.when_submitted = lambda spec: seen.append(world.run(spec.run_id).status)
    world.tick()
    run = world.process()
    assert seen == [RunStatus.CLAIMED]
    for _ in range(3):
        world.advance(1)
        world.restart()
        world.tick()
        world.process_all()
    world.finish(run)
    assert world.run(run).status is RunStatus.FINISHED
    assert (world.launched(), len(world.fired_slots(routine))) == ([run.id], 1)


def test_cu_09_a_run_lost_three_times_in_a_row_fails_and_is_escalated(world: World) -> None:
    """behaviour §3 Catch-up: The slot is never endlessly repeated."""
    world.given_task(agent=(bot := world.given_agent()))
    routine = world.given_routine(agent=bot, cron="0 10 * * *")
    world.advance(3600)
    world.tick()
    for _ in range(3):
        run = world.process()
        world.lose(run)
        world.advance(3600)
    assert world.run(run).status is RunStatus.FAILED
    assert world.inbox()
    assert len(world.fired_slots(routine)) == 1


def test_cu_10_a_pause_of_a_month_is_not_downtime(world: World) -> None:
    """behaviour §3 Catch-up: 43,200 slots of a paused routine are not caught up, and cost nothing."""
    routine = world.given_routine(agent=world.given_agent(), cron="* * * * *")
    world.pause_routine(routine, note="on holiday")
    world.advance(30 * 86_400)
    assert world.tick() == 0
    world.resume_routine(routine)
    assert world.tick() == 0
    assert world.routine_runs_of(routine) == []
    assert world.trigger_of(routine).next_run_at == world.now + MINUTE


# --- duplicates -------------------------------------------------------------------------------------------


def test_dup_01_two_tickers_that_saw_the_same_due_trigger_make_one_run(world: World) -> None:
    """I2: The loser of the race writes nothing: occurrence, request and run are one transaction."""
    routine = world.given_routine(agent=world.given_agent(), cron="*/5 * * * *")
    world.advance(300)
    (seen,) = world.db.read(lambda reader: triggers.due(reader, now=world.now, limit=9))
    other = open_database(world.path, host=world.host, create=False)
    for db in (world.db, other):
        db.write(lambda tx: fire_trigger(tx, seen, window_s=0))
    other.close()
    assert (len(world.routine_runs_of(routine)), len(world.requests()), len(world.runs())) == (1, 1, 1)
    assert world.trigger_of(routine).fire_count == 1


def test_dup_01_tickers_that_race_without_the_lock_make_one_occurrence_each_slot(world: World) -> None:
    """I2: Four threads, each with its own connection, on thirty due triggers."""
    bot = world.given_agent()
    made = [world.given_routine(f"r{n}", agent=bot, cron="*/5 * * * *") for n in range(30)]
    world.advance(600)
    failures: list[BaseException] = []
    ready = threading.Barrier(4)

    def race() -> None:
        try:
            db = open_database(world.path, host=world.host, create=False)
            ready.wait(10)
            fire_due(db, window_s=0)
            db.close()
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=race) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    for routine in made:
        assert world.fired_slots(routine) == [START + 5 * MINUTE, START + 10 * MINUTE]
        assert world.trigger_of(routine).fire_count == 2


def test_dup_02_nothing_fires_before_its_time_whatever_restarts(world: World) -> None:
    """I2: Restarted at 06:13 the job of 09:00 fires at 09:00, once."""
    routine = world.given_routine(agent=world.given_agent(), cron="0 9 * * *")
    world.live_until(ms("2026-12-02T06:13:00Z"))
    for _ in range(4):
        world.restart()
        world.tick()
        assert world.fired_slots(routine) == []
        assert world.trigger_of(routine).next_run_at == ms("2026-12-02T09:00:00Z")
    world.live_until(ms("2026-12-02T09:00:00Z") - 1)
    assert world.fired_slots(routine) == []
    world.live_until(ms("2026-12-02T10:00:00Z"))
    assert world.fired_slots(routine) == [ms("2026-12-02T09:00:00Z")]


def test_dup_07_edits_and_pauses_in_the_firing_minute_make_no_second_run(world: World) -> None:
    """I2: Five edits, pauses and resumes around the slot: one run."""
    routine = world.given_routine(agent=world.given_agent(), cron="0 10 * * *")
    world.live_until(START + HOUR, works=False)
    for _ in range(5):
        world.set_trigger(world.trigger_of(routine), cron="0 10 * * 1-7")
        world.pause_routine(routine)
        world.tick()
        world.resume_routine(routine)
        world.set_trigger(world.trigger_of(routine), cron="0 10 * * *", zone="UTC")
        world.set_trigger(world.trigger_of(routine), enabled=False)
        world.set_trigger(world.trigger_of(routine), enabled=True)
        world.tick()
        world.advance(7)
    assert world.fired_slots(routine) == [START + HOUR]
    assert len(world.runs()) == 1


# --- clocks -----------------------------------------------------------------------------------------------


def test_clk_01_no_loop_sleeps_through_a_suspend(world: World) -> None:
    """behaviour §7 Loops:
    The pause is at most 30 s of waiting, whatever the next slot; after nine hours the slot fires once.
    """
    routine = world.given_routine(agent=world.given_agent(), cron="0 18 * * *")
    ticker = Ticker(world.db, window_s=5)
    assert ticker.tick() > 8 * 3600
    assert LONGEST_PAUSE_S <= 30
    asked: list[float] = []
    loop = Loop("ticker", ticker.tick)

    class Signal(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            asked.append(timeout)
            loop._stopping.set()
            return True

    loop._signal = Signal()
    loop._run()
    assert asked == [LONGEST_PAUSE_S]
    world.host.set_clock(world.now + 9 * HOUR + 30 * SECOND)  # the monotonic clock stood still
    ticker.tick()
    ticker.tick()
    assert world.fired_slots(routine) == [START + 9 * HOUR]


def test_clk_03_a_clock_set_back_fires_nothing_again_and_delays_nothing(world: World) -> None:
    """behaviour §7 Loops: One hour back just after a fire, with a retry and a cooldown pending."""
    bot = world.given_agent(cooldown_s=600)
    world.given_task(agent=bot)
    routine = world.given_routine(agent=bot, cron="*/5 * * * *")
    world.live_until(START + 5 * MINUTE, works=False)
    world.fail(world.process())
    (run,) = world.runs()
    waits = world.run(run).scheduled_retry_at - world.now
    world.look_at_clock()
    world.host.set_clock(world.now - HOUR)
    world.look_at_clock()
    assert world.run(run).scheduled_retry_at - world.now == waits
    world.live_until(START + 10 * MINUTE, works=False)
    fired = Counter(world.fired_slots(routine))
    assert set(fired.values()) == {1}
    assert fired[START + 5 * MINUTE] == 1
    assert START + 10 * MINUTE in fired


def test_clk_03_a_jump_ahead_that_is_mended_before_the_sweeper_looks_silences_nothing(world: World) -> None:
    """behaviour §7 Loops:
    The ticker alone saw the wrong year; when the clock is right again the next slot is the next slot.
    """
    routine = world.given_routine(agent=world.given_agent(), cron="*/5 * * * *")
    world.look_at_clock()
    world.host.set_clock(world.now + 56 * 365 * DAY)
    world.tick()
    world.host.set_clock(START + 4 * SECOND)
    world.look_at_clock()
    assert world.trigger_of(routine).next_run_at == START + 5 * MINUTE
    world.live_until(START + 10 * MINUTE, works=False)
    assert {START + 5 * MINUTE, START + 10 * MINUTE} <= set(world.fired_slots(routine))


def test_clk_04_a_suspend_ends_no_healthy_run(world: World) -> None:
    """behaviour §7 Loops:
    Forty minutes asleep with a limit of thirty: the run goes on, and is looked at again.
    """
    bot = world.given_agent(max_run_s=1800)
    world.given_task(agent=bot)
    world.given_routine(agent=bot, cron="*/5 * * * *")
    world.live_until(START + 5 * MINUTE, works=False)
    run = world.process()
    world.host.set_clock(world.now + 40 * MINUTE)
    world.look_at_clock()
    world.attend()
    assert world.run(run).status is RunStatus.CLAIMED
    assert not world.attempt(run).was_cancelled
    world.finish(run)
    assert world.run(run).status is RunStatus.FINISHED


def test_the_next_due_instant_is_what_the_ticker_waits_for(world: World) -> None:
    """behaviour §3: One trigger armed: its slot is the one that the ticker names."""
    routine = world.given_routine(agent=world.given_agent(), cron="*/5 * * * *")
    assert world.db.read(ticking.next_due_at) == world.trigger_of(routine).next_run_at
