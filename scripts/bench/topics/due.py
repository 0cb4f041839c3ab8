"""Ten thousand triggers that are due in the same minute, and what a claim has to wait meanwhile."""

from __future__ import annotations

import threading
import time

import apsw
from harness import Bench, timed
from world import SETTINGS, add_agents, bulk, now_ms, shared

from kandev_sched.flow.ticking import fire_due
from kandev_sched.operations.routines import AddRoutine, add_routine
from kandev_sched.operations.schedules import Schedule
from kandev_sched.store import runs
from kandev_sched.store.shared import SharedDatabase
from topics.ticker import copy_rows

COUNT = 10_000
TARGET_S = 2.0
DELAY_TARGET_MS = 100.0
AGENTS = 100


def run(bench: Bench) -> None:
    """Fire them all; a second thread asks for a claim again and again."""
    count = bench.pick(COUNT, COUNT // 10)
    seconds, waits = [], []
    for _ in range(bench.pick(3, 1)):
        with bench.scratch() as folder, shared(folder) as db:
            _make_due(db, count)
            bench.probe_fsync(folder)
            done = threading.Event()
            claimer = threading.Thread(target=_claim_until, args=(db, done, waits))
            claimer.start()
            seconds.append(timed(lambda db=db: fire_due(db, window_s=SETTINGS.coalesce_window_s)))
            done.set()
            claimer.join()
    met = None if bench.quick else (lambda value: value <= TARGET_S)
    bench.row(
        f"{count:,} triggers due at once, fired durably", seconds, "s", target=f"<= {TARGET_S:g} s", met=met
    )
    bench.row(
        "a claim meanwhile, p99",
        waits,
        "ms",
        value=sorted(waits)[int(0.99 * len(waits))],
        target=f"<= {DELAY_TARGET_MS:g} ms",
        met=lambda value: value <= DELAY_TARGET_MS,
    )


def _claim_until(db: SharedDatabase, done: threading.Event, waits: list[float]) -> None:
    """What one claim transaction takes, asked for each few milliseconds."""
    while not done.wait(0.005):
        began = time.perf_counter()
        db.write(lambda tx: runs.claim_next(tx, max_sessions=0))
        waits.append((time.perf_counter() - began) * 1000)


def _make_due(db: SharedDatabase, count: int) -> None:
    """Routines of several agents, each with one trigger whose slot has just come."""
    add_agents(db, AGENTS)
    schedule = Schedule(cron="* * * * *")
    db.write(lambda tx: add_routine(tx, AddRoutine(name="model", agent="agent-0", schedule=schedule)))
    due_at = now_ms() // 60_000 * 60_000
    with bulk(db) as connection:
        _copy_routines(connection, count)
        trigger = {
            "id": "printf('trg_%026d', i)",
            "routine_id": "printf('rt_%026d', i)",
            "next_run_at": str(due_at),
        }
        copy_rows(connection, "triggers", count, trigger)


def _copy_routines(connection: apsw.Connection, count: int) -> None:
    agent = f"(SELECT a.id FROM agents a WHERE a.name = printf('agent-%d', i % {AGENTS}))"
    routine = {"id": "printf('rt_%026d', i)", "name": "printf('r-%d', i)", "agent_id": agent}
    copy_rows(connection, "routines", count, routine)
