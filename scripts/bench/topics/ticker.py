"""What a tick of the ticker costs while nothing is due, and the sweeper's pass over the same triggers."""

from __future__ import annotations

import apsw
from harness import Bench, timed
from world import SETTINGS, add_agents, bulk, now_ms, shared

from kandev_sched.operations.routines import AddRoutine, add_routine
from kandev_sched.operations.schedules import Schedule
from kandev_sched.store.shared import SharedDatabase
from kandev_sched.supervisor.sweeper import Sweeper
from kandev_sched.supervisor.ticker import Ticker

SIZES = (1_000, 10_000, 100_000, 1_000_000)
TARGET_MS = 1.0
PER_ROUTINE = 10
DAY_MS = 86_400_000


def run(bench: Bench) -> None:
    """One database that grows from size to size."""
    sizes = SIZES[: bench.pick(4, 3)]
    with bench.scratch() as folder, shared(folder) as db:
        add_agents(db, 1)
        schedule = Schedule(cron="0 0 1 1 *")
        db.write(lambda tx: add_routine(tx, AddRoutine(name="model", agent="agent-0", schedule=schedule)))
        ticker = Ticker(db, window_s=SETTINGS.coalesce_window_s)
        sweeper = Sweeper(db, window_s=SETTINGS.coalesce_window_s, loops=list)
        for size in sizes:
            _grow_to(db, size)
            ticks = [timed(ticker.tick) * 1000 for _ in range(bench.pick(500, 100))]
            passes = [timed(sweeper.tick) * 1000 for _ in range(bench.pick(20, 5))]
            bench.row(
                f"tick, {size:,} triggers, none due",
                ticks,
                "ms",
                target=f"<= {TARGET_MS:g} ms" if size == sizes[-1] else "",
                met=(lambda value: value <= TARGET_MS) if size == sizes[-1] else None,
            )
            bench.row(f"sweeper's pass, {size:,} triggers", passes, "ms")


def _grow_to(db: SharedDatabase, size: int) -> None:
    """Copies of one routine and of its trigger, due at different instants of the years to come."""
    routine = {"id": "printf('rt_%026d', i)", "name": "printf('r-%d', i)"}
    trigger = {
        "id": "printf('trg_%026d', i)",
        "routine_id": f"printf('rt_%026d', i / {PER_ROUTINE})",
        "next_run_at": f"{now_ms() + DAY_MS} + i * 30000",
    }
    with bulk(db) as connection:
        copy_rows(connection, "routines", size // PER_ROUTINE, routine)
        copy_rows(connection, "triggers", size, trigger)


def copy_rows(connection: apsw.Connection, table: str, count: int, changed: dict[str, str]) -> None:
    """Fill up to `count` copies of the table's first row, with `changed` as SQL of the number `i`."""
    names = [str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})").fetchall()]
    values = ", ".join(changed.get(name, name) for name in names)
    connection.execute(
        f"WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {count}),"
        f" model AS (SELECT * FROM {table} ORDER BY rowid LIMIT 1)"
        f" INSERT OR IGNORE INTO {table} ({', '.join(names)}) SELECT {values} FROM n, model"
    ).fetchall()
