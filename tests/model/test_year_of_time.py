"""A year of simulated time: every kind of schedule and policy, under restarts, outages, clock steps, edits.

Each tick is judged by a model of its own: which slots were owed, which of them the policy fires, how many are
the one missed record. `SCHED_LONG_MODEL=1` runs many more years.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from invariants import check_all
from world import DAY, HOUR, MINUTE, SECOND, START, World

from kandev_sched.domain.instant import rfc3339
from kandev_sched.domain.routines import CatchUpPolicy, ConcurrencyPolicy, Routine
from kandev_sched.domain.schedules import OnGap, OnRepeat, Syntax, Trigger
from kandev_sched.flow import ticking
from kandev_sched.flow.arming import rearm
from kandev_sched.operations import principals
from kandev_sched.operations.schedules import Schedule
from kandev_sched.policy import catchup
from kandev_sched.policy.timing import Timing, timing_of
from kandev_sched.supervisor import sweeper

FAST = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
IS_LONG = "SCHED_LONG_MODEL" in os.environ
SEEDS = range(int(os.environ.get("SCHED_LONG_MODEL_SEEDS", "60"))) if IS_LONG else range(2)
PACE = 1.0 if IS_LONG else 4.0  # in the suite time goes in longer strides
ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kolkata",
    "America/Santiago",
)
CRONS = ("*/15 * * * *", "0 * * * *", "30 2 * * *", "0 0 * * 0", "0 9 1 * *", "15,45 1-3 * * *", "0 0 29 2 *")
QUARTZES = ("0/30 0 * * * ?", "0 0 8 ? * MON-FRI", "0 30 2 L * ?", "15 0/20 * * * ?", "0 0 12 ? * 6#3")
EVERIES = ("PT90S", "PT6H", "P1D", "P1M", "P1W", "PT25H")
PAUSES = (30 * SECOND, 5 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, DAY, 3 * DAY)
YEARS_56 = 56 * 365 * DAY
COLUMNS = "scheduled_for_at, status, missed_count, missed_first_at, missed_last_at"


class Followed:
    """A trigger as the model knows it: `since` is the last nominal instant that is decided."""

    def __init__(self, routine: Routine, trigger: Trigger) -> None:
        self.routine, self.trigger = routine, trigger
        self.since = 0
        self.is_on = True
        self.was_set_back = False
        self.occurred: set[int] = set()
        self.missed: list[tuple[int, int, int]] = []

    @property
    def offset(self) -> int:
        return timing_of(self.trigger).offset_ms

    def timing(self) -> Timing:
        return timing_of(self.trigger).replace(offset_ms=0)


class Year:
    """One history."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.world = World(folder)
        self.spy()
        self.high_water = self.world.now
        self.bot = self.world.given_agent()
        self.world.given_task(agent=self.bot)
        self.world.given_calendar("nights", zone="Europe/Berlin", quiet=("MON-SUN 01:00-02:15",))
        self.is_granted = True
        self.log: list[str] = []
        self.followed = [self.make(number) for number in range(7)]

    def spy(self) -> None:
        """Rows that are made from here on are also listed for the judge; a rollback unlists them."""
        new = ", ".join(f"new.{name}" for name in COLUMNS.split(", "))
        self.world.db._connection.execute(
            f"CREATE TEMP TABLE seen (trigger_id, {COLUMNS});"
            " CREATE TEMP TRIGGER spy AFTER INSERT ON main.routine_runs"
            f" BEGIN INSERT INTO seen VALUES (new.trigger_id, {new}); END"
        )

    # ---- what may happen ------------------------------------------------------------------------

    def a_schedule(self, syntax: Syntax) -> Schedule:
        """A random definition of that syntax."""
        pick, trimmings = self.chance.choice, {}
        if syntax is not Syntax.ONCE and self.chance.random() < 0.2:
            trimmings = {"calendars": ("nights",)}
        match syntax:
            case Syntax.CRON | Syntax.QUARTZ:
                text = {"cron": pick(CRONS)} if syntax is Syntax.CRON else {"quartz": pick(QUARTZES)}
                policies = {"on_gap": pick(list(OnGap)), "on_repeat": pick(list(OnRepeat))}
                return Schedule(**text, **policies, **trimmings, zone=pick(ZONES))
            case Syntax.INTERVAL:
                anchor = rfc3339(START + self.chance.randint(-400, 10) * 7 * HOUR)
                return Schedule(every=pick(EVERIES), start_at=anchor, zone=pick(ZONES), **trimmings)
            case Syntax.ONCE:
                ahead = self.chance.choice((-DAY, HOUR, 2 * DAY, 9 * DAY))
                return Schedule(at=rfc3339(self.world.now // SECOND * SECOND + ahead))

    def make(self, number: int) -> Followed:
        pick = self.chance.choice
        syntax = list(Syntax)[number % 4]
        routine = self.world.given_routine(
            f"r{number}",
            agent=self.bot,
            schedule=self.a_schedule(syntax),
            catch_up=list(CatchUpPolicy)[number % 3],
            concurrency=list(ConcurrencyPolicy)[(number + self.chance.randint(0, 3)) % 4],
            catch_up_max=pick((1, 2, 5, 25)),
            misfire_grace_s=pick((60, 60, 7200)),
            catch_up_max_age_s=pick((None, None, 4 * 3600)),
            task_title=pick((None, None, "work")),
        )
        followed = Followed(routine, self.world.trigger_of(routine))
        self.rebase(followed)
        return followed

    def rebase(self, followed: Followed) -> None:
        """The schedule begins anew, from now; a single instant that passed without an occurrence is owed."""
        followed.since = self.world.now - followed.offset
        if followed.trigger.syntax is Syntax.ONCE:
            at = followed.timing().next_slot(0)
            assert at is not None
            if at <= self.world.now and at not in followed.occurred:
                followed.since = at - 1

    def refresh(self, followed: Followed) -> None:
        followed.trigger = self.world.trigger(followed.trigger)
        followed.routine = self.world.routine(followed.routine)

    def sweep(self) -> None:
        """What the sweeper does every 30 s; the model notes a clock that went back."""
        now = self.world.now
        self.world.look_at_clock()
        self.world.db.write(rearm)
        if self.high_water - now > 2 * SECOND:
            self.set_back()
        self.high_water = now

    def set_back(self) -> None:
        for followed in self.followed:
            followed.was_set_back = True
            followed.since = min(followed.since, self.world.now - followed.offset)

    def restart(self) -> None:
        now = self.world.now
        self.world.restart()
        self.spy()
        if self.high_water - now > 2 * SECOND:
            self.set_back()
        self.high_water = now

    def edit_schedule(self, followed: Followed) -> None:
        self.grant()
        syntax = self.chance.choice([followed.trigger.syntax, *Syntax])
        schedule = self.a_schedule(syntax)
        if syntax is Syntax.ONCE and followed.trigger.spread_s:
            return
        before = followed.trigger
        changed = self.world.db.write(lambda tx: self._set(tx, before, schedule))
        followed.trigger = changed
        names = ("syntax", "expression", "zone", "start_at", "on_gap", "on_repeat")
        if followed.is_on and any(getattr(before, n) != getattr(changed, n) for n in names):
            self.rebase(followed)

    @staticmethod
    def _set(tx, trigger: Trigger, schedule: Schedule) -> Trigger:
        from kandev_sched.operations.triggers import SetTrigger, set_trigger

        return set_trigger(tx, SetTrigger(trigger=trigger.id, schedule=schedule))

    def edit_zone(self, followed: Followed) -> None:
        if followed.trigger.syntax in (Syntax.CRON, Syntax.QUARTZ):
            self.grant()
            before = followed.trigger.zone
            followed.trigger = self.world.set_trigger(followed.trigger, zone=self.chance.choice(ZONES))
            if followed.is_on and followed.trigger.zone != before:
                self.rebase(followed)

    def edit_spread(self, followed: Followed) -> None:
        if followed.trigger.syntax is not Syntax.ONCE:
            self.grant()
            spread_s = self.chance.choice((0, 300, 3600))
            followed.trigger = self.world.set_trigger(followed.trigger, spread_s=spread_s)

    def edit_policy(self, followed: Followed) -> None:
        pick = self.chance.choice
        followed.routine = self.world.set_routine(
            followed.routine,
            catch_up=pick(list(CatchUpPolicy)),
            concurrency=pick(list(ConcurrencyPolicy)),
            catch_up_max=pick((1, 2, 5, 25)),
        )

    def pause(self, followed: Followed) -> None:
        if followed.is_on:
            followed.routine = self.world.pause_routine(followed.routine)
            followed.is_on = False

    def resume(self, followed: Followed) -> None:
        """Pause is not downtime, also for a single instant."""
        if not followed.is_on:
            followed.routine = self.world.resume_routine(followed.routine)
            followed.is_on = True
            followed.since = self.world.now - followed.offset

    def grant(self) -> None:
        if not self.is_granted:
            self.switch_principal()

    def switch_principal(self) -> None:
        self.is_granted = not self.is_granted
        self.world.db.write(
            lambda tx: principals.set_enabled(tx, workspace="default", name="tester", enabled=self.is_granted)
        )

    def step_back(self) -> None:
        self.world.host.set_clock(self.world.now - self.chance.choice((MINUTE, HOUR, DAY)))
        self.restart() if self.chance.random() < 0.3 else self.sweep()

    def wrong_century(self) -> None:
        """56 years ahead; whoever notices first, the clock is mended at once."""
        self.world.host.set_clock(self.world.now + YEARS_56)
        self.tick()
        self.world.host.set_clock(self.world.now - YEARS_56)
        self.sweep()

    def work(self) -> None:
        """A few runs end, well or not."""
        for _ in range(2):
            if self.world.process() is None:
                return
            for ref in self.world.machine.running():
                self.world.machine.finish(ref, exit_code=self.chance.choice((0, 0, 0, 1)))
            self.world.attend()
        self.world.change("UPDATE agents SET status = 'idle' WHERE status = 'paused'")

    def something(self) -> None:
        """One event."""
        one = self.chance.choice(self.followed)
        self.refresh(one)
        for_one = (
            self.edit_schedule,
            self.edit_zone,
            self.edit_spread,
            self.edit_policy,
            self.pause,
            self.resume,
        )
        act = self.chance.choice((*for_one, self.resume, self.restart, self.restart, self.work, self.work))
        roll = self.chance.random()
        if roll < 0.02:
            act = self.step_back
        elif roll < 0.025:
            act = self.wrong_century
        elif roll < 0.04:
            act = self.switch_principal
        self.log.append(f"{rfc3339(self.world.now)} {act.__name__} {one.routine.name}")
        act(one) if act in (*for_one, self.resume) else act()

    # ---- the tick, and what is right -------------------------------------------------------------

    def tick(self) -> None:
        """The ticker looks once; each trigger is judged."""
        now = self.world.now
        expected = {one.trigger.id: self.expected(one, now) for one in self.followed}
        self.world.tick()
        if any(count for _, _, count in expected.values()):
            self.high_water = max(self.high_water, now)
        new = self.new_rows()
        for one in self.followed:
            fires, newest, count = expected[one.trigger.id]
            self.judge(one, now, fires, count, new.get(one.trigger.id, []))
            if count:
                one.since = now - one.offset
                del newest

    def expected(self, one: Followed, now: int) -> tuple[list[int], list[int], int]:
        """The slots that must have an occurrence afterwards, the newest due ones, the count of all due."""
        self.refresh(one)
        until = now - one.offset
        while (slot := one.timing().next_slot(one.since)) in one.occurred and slot <= until:
            one.since = slot  # it fired when the clock was wrong
        due = one.timing().due(one.since, until, 27) if one.is_on and until > one.since else None
        if due is None:
            return [], [], 0
        routine, newest = one.routine, list(due.newest)
        match routine.catch_up_policy:
            case CatchUpPolicy.ENQUEUE_MISSED_WITH_CAP:
                fires = newest[-routine.catch_up_max :]
            case CatchUpPolicy.FIRE_ONCE:
                fires = newest[-1:]
            case CatchUpPolicy.SKIP_MISSED:
                fires = [slot for slot in newest[-1:] if until - slot <= routine.misfire_grace_s * SECOND]
        if routine.catch_up_max_age_s is not None:
            fires = [slot for slot in fires if until - slot <= routine.catch_up_max_age_s * SECOND]
        return fires, newest, due.count

    def new_rows(self) -> dict[str, list[tuple]]:
        rows = self.world.ask(f"SELECT trigger_id, {COLUMNS} FROM seen ORDER BY rowid")
        self.world.change("DELETE FROM seen")
        found: dict[str, list[tuple]] = {}
        for trigger_id, *row in rows:
            found.setdefault(trigger_id, []).append(tuple(row))
        return found

    def judge(self, one: Followed, now: int, fires: list[int], count: int, rows: list[tuple]) -> None:
        missed = [row for row in rows if row[1] == "missed"]
        slots = [row[0] for row in rows if row[1] != "missed" and row[0] is not None]
        why = (
            f"{one.routine.name} {one.trigger.syntax} {one.trigger.expression!r} at {rfc3339(now)}\n"
            + "\n".join(self.log[-12:])
        )
        assert len(slots) == len(set(slots)), f"twice in one tick: {why}"
        assert not set(slots) & one.occurred, f"I6, fired again: {why}"
        assert set(slots) <= set(fires), f"fired what was not owed: {sorted(set(slots) - set(fires))} {why}"
        assert set(fires) <= one.occurred | set(slots), (
            f"lost: {set(fires) - one.occurred - set(slots)} {why}"
        )
        assert all(slot + one.offset <= now for slot in slots), f"before its time: {why}"
        counted = sum(row[2] for row in missed)
        assert counted == count - len(fires), f"{counted} missed, {count - len(fires)} are right: {why}"
        assert len(missed) <= 1, why
        one.occurred |= set(slots)
        one.missed += [(row[3], row[4], now) for row in missed]
        for first, last, _ in one.missed if not one.was_set_back else [(r[3], r[4], now) for r in missed]:
            assert not [slot for slot in slots if first <= slot <= last], f"missed and fired: {why}"

    def live(self, until: int) -> None:
        while self.world.now < until:
            self.something()
            self.world.advance(self.chance.choice(PAUSES) / SECOND * PACE * self.chance.random())
            if self.chance.random() < 0.5:
                self.sweep()
            self.tick()


@pytest.fixture
def folder() -> Iterator[Path]:
    made = tempfile.mkdtemp(prefix="year-", dir=FAST)
    yield Path(made)
    shutil.rmtree(made)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
def test_in_a_year_of_trouble_no_slot_fires_twice_and_none_that_its_policy_keeps_is_lost(
    folder: Path, seed: int
) -> None:
    """I2, I6, behaviour §3: for every policy and every syntax."""
    year = Year(folder, seed)
    year.live(START + 365 * DAY)
    year.world.close()
    check_all(year.world.path)
    kinds = year_kinds(year)
    assert kinds["fired"] > 100
    assert kinds["missed"] > 10


def year_kinds(year: Year) -> dict[str, int]:
    """So that a year in which nothing happened cannot pass."""
    return {
        "fired": sum(len(one.occurred) for one in year.followed),
        "missed": sum(len(one.missed) for one in year.followed),
    }


def _drop_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    decide = catchup.decide

    def forgetful(*args, **options):
        found = decide(*args, **options)
        return found.replace(fires=found.fires[1:]) if len(found.fires) > 2 else found

    monkeypatch.setattr(catchup, "decide", forgetful)


def _forget_the_step_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeper, "rearm_after_step_back", lambda tx: None)


def _name_slots_by_their_fire(monkeypatch: pytest.MonkeyPatch) -> None:
    slot_of = ticking._slot
    monkeypatch.setattr(ticking, "_slot", lambda *args: slot_of(*args).replace(at=slot_of(*args).at + SECOND))


def _miss_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ticking, "_record_missed", lambda *args: None)


@pytest.mark.parametrize(
    "spoil", [_drop_the_oldest, _forget_the_step_back, _name_slots_by_their_fire, _miss_in_silence]
)
def test_the_judge_of_the_year_sees_a_rule_that_is_broken(
    folder: Path, spoil, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a year that passes means something."""
    spoil(monkeypatch)
    year = Year(folder, 1)
    try:
        with pytest.raises(AssertionError):
            year.live(START + 365 * DAY)
    finally:
        year.world.close()
