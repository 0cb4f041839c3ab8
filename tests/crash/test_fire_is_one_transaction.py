"""A fire is one transaction: kill -9 between any two of its statements, races, restarts in a repeated hour.

Run as a program (`python test_fire_is_one_transaction.py DB NOW N KIND`) it is a ticker alone, which
kills itself with SIGKILL before statement N; without N it counts the statements.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # as a program it finds `world` by itself

from crash_site import Site, wait_until
from invariants import check_all, read_state
from world import FakeHost, World, ms

from kandev_sched.domain.routines import CatchUpPolicy, ConcurrencyPolicy
from kandev_sched.flow.ticking import fire_due
from kandev_sched.operations.schedules import Schedule
from kandev_sched.store.db import open_database
from kandev_sched.store.shared import open_shared

BEGIN = ms("2027-10-31T02:10:00+02:00")  # the first pass of an hour that Berlin repeats
NOW = BEGIN + 25 * 60_000


class Statements:
    """Counts what a connection executes; at number `last` the process is gone."""

    def __init__(self, last: int) -> None:
        self.last = last
        self.count = 0

    def watch(self, connection: apsw.Connection) -> None:
        connection.exec_trace = self._note

    def _note(self, *_: Any) -> bool:
        self.count += 1
        if self.count == self.last:
            os.kill(os.getpid(), signal.SIGKILL)
        return True


def main() -> None:
    path, now, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    statements = Statements(last)
    if sys.argv[4] == "shared":
        db: Any = open_shared(path, host=FakeHost(now), create=False, on_work=lambda: None)
    else:
        db = open_database(path, host=FakeHost(now), create=False)
    statements.watch(db._connection)
    fire_due(db, window_s=0)
    db.close()
    print(statements.count)


def _tick(path: str, last: int, kind: str, now: int = NOW) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, __file__, path, str(now), str(last), kind],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def _given(folder: Path) -> World:
    """Three due triggers of different policies, one of them with more missed slots than its cap."""
    folder.mkdir()
    world = World(folder, at=BEGIN)
    bot = world.given_agent()
    world.given_routine(
        "capped",
        agent=bot,
        catch_up_max=2,
        concurrency=ConcurrencyPolicy.ALWAYS_ENQUEUE,
        schedule=Schedule(cron="*/5 * * * *", zone="Europe/Berlin"),
    )
    world.given_routine(
        "heavy",
        agent=bot,
        task_title="review",
        concurrency=ConcurrencyPolicy.CANCEL_ACTIVE,
        schedule=Schedule(every="PT10M", start_at="2027-10-31T00:00:00Z"),
    )
    world.given_routine(
        "once",
        agent=bot,
        catch_up=CatchUpPolicy.FIRE_ONCE,
        schedule=Schedule(at="2027-10-31T02:30:00+02:00"),
    )
    world.close()
    return world


def _outcome(path: str) -> dict[str, Any]:
    """What the fires came to, whatever the ids of the rest."""
    state = read_state(path)
    routine = {row["id"]: row["name"] for row in state.routines.values()}
    return {
        "fires": Counter(
            (routine[r["routine_id"]], r["scheduled_for_at"], r["status"], r["missed_count"])
            for r in state.routine_runs.values()
        ),
        "requests": Counter(
            (routine[r["routine_id"]], r["scheduled_for_at"]) for r in state.requests.values()
        ),
        "triggers": {
            routine[t["routine_id"]]: (t["next_run_at"], t["fire_count"]) for t in state.tables["triggers"]
        },
        "runs": Counter(run["status"] for run in state.runs.values()),
        "tasks": Counter(task["state"] for task in state.tasks.values()),
    }


def _integrity(path: str) -> str:
    connection = apsw.Connection(path)
    try:
        return str(connection.pragma("integrity_check"))
    finally:
        connection.close()


# The shared database commits the three triggers together, the plain one each by itself. A kill is a process
# of a third of a second, so the suite takes each seventh statement of one kind and others of the other kind.
@pytest.mark.parametrize(("kind", "shift"), [("shared", 0), ("plain", 2)])
def test_a_kill_between_any_two_statements_of_a_fire_neither_repeats_nor_loses_a_slot(
    tmp_path: Path, kind: str, shift: int
) -> None:
    """I2, I6: whichever statement was the last, the next ticker leaves what an undisturbed one would."""
    whole = _given(tmp_path / "whole")
    counted = _tick(whole.path, 0, kind)
    assert counted.returncode == 0, counted.stderr
    total, right = int(counted.stdout), _outcome(whole.path)
    assert right["fires"][("capped", BEGIN + 25 * 60_000, "received", 0)] == 1
    step = 1 if "SCHED_LONG_MODEL" in os.environ else 7
    numbers = sorted({*range(1 + shift, total + 1, step), total})

    def killed_at(last: int) -> None:
        world = _given(tmp_path / f"{kind}-{last}")
        ended = _tick(world.path, last, kind)
        assert ended.returncode == -signal.SIGKILL, (last, ended)
        assert _integrity(world.path) == "ok", last
        check_all(world.path)
        world.host.set_clock(NOW)
        world.open()
        world.restart()
        world.tick()
        world.tick()
        world.close()
        assert _outcome(world.path) == right, f"killed before statement {last} of {total}"
        check_all(world.path)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(killed_at, numbers))


def test_tickers_of_several_processes_that_race_without_the_lock_make_one_occurrence_each(
    tmp_path: Path,
) -> None:
    """SC-08, DUP-01: the insert decides."""
    world = _given(tmp_path / "raced")
    alone = _given(tmp_path / "alone")
    assert _tick(alone.path, 0, "plain").returncode == 0
    with ThreadPoolExecutor(3) as pool:
        ended = list(pool.map(lambda _: _tick(world.path, 0, "plain"), range(3)))
    assert [done.returncode for done in ended] == [0, 0, 0], ended
    assert _outcome(world.path) == _outcome(alone.path)
    assert _integrity(world.path) == "ok"


def test_a_kill_and_a_restart_inside_the_repeated_hour_fire_nothing_twice(tmp_path: Path) -> None:
    """The wall clock shows the fired times again; the slots are instants, so nothing comes again."""
    world = _given(tmp_path / "fold")
    for minute in range(0, 121, 15):
        now = BEGIN + minute * 60_000
        _tick(world.path, 7, "shared", now)
        world.host.set_clock(now)
        world.open()
        world.restart()
        world.tick()
        world.close()
    state = read_state(world.path)
    slots = Counter(
        (r["trigger_id"], r["scheduled_for_at"])
        for r in state.routine_runs.values()
        if r["status"] != "missed" and r["scheduled_for_at"] is not None
    )
    assert set(slots.values()) == {1}
    capped = next(r["id"] for r in state.routines.values() if r["name"] == "capped")
    fired = {
        r["scheduled_for_at"]
        for r in state.routine_runs.values()
        if r["routine_id"] == capped and r["status"] != "missed"
    }
    hole = range(ms("2027-10-31T02:00:00+01:00"), ms("2027-10-31T03:00:00+01:00"))
    assert not [slot for slot in fired if slot in hole]


def test_dup_08_of_two_supervisors_that_race_one_is_refused_whatever_names_and_pids_say(site: Site) -> None:
    """Identity is the lock: the loser ends with 4 at once, also when the row names its own pid."""
    first, second = site.start(), site.start()
    wait_until(lambda: first.poll() is not None or second.poll() is not None, what="the loser's end")
    loser, winner = (first, second) if first.poll() is not None else (second, first)
    assert loser.returncode == 4
    assert winner.poll() is None
    site.db.write(lambda tx: tx._connection.execute("UPDATE supervisor SET pid = 1").fetchall())
    assert site.start().wait(20) == 4
    wait_until(lambda: site.state().tables["supervisor"][0]["state"] == "running", what="the winner")
    winner.send_signal(signal.SIGTERM)
    assert winner.wait(20) == 0


if __name__ == "__main__":
    main()
