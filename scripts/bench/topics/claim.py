"""What a claim costs behind a long backlog of runs that cannot start, and when nothing at all can start."""

from __future__ import annotations

import time
from collections.abc import Callable

import apsw
import backlog
from backlog import Backlog
from harness import Bench
from world import bulk, shared, wake

from kandev_sched.store import runs
from kandev_sched.store.db import Tx
from kandev_sched.store.shared import SharedDatabase

SIZES = (1_000, 10_000, 100_000, 1_000_000)
KINDS: dict[str, Callable[[apsw.Connection, int], None]] = {
    "paused agents": backlog.paused_agents,
    "cooling down": backlog.cooling_down,
    "at capacity": backlog.at_capacity,
    "paused workspace": backlog.paused_workspace,
    "tasks held": backlog.tasks_held,
    "not yet eligible": backlog.nothing_more,
}
NO_CAP = 1_000_000


class _Undo(Exception):
    """Rolls the claim back, so that it can be measured again."""


def run(bench: Bench) -> None:
    """Each kind of backlog in its own database, which grows from size to size."""
    sizes = SIZES[: bench.pick(4, 3)]
    for kind, hold in KINDS.items():
        with bench.scratch() as folder, shared(folder) as db:
            per_agent = backlog.PER_BUSY_AGENT if kind == "at capacity" else backlog.PER_AGENT
            pile = Backlog(db, hold, due=kind != "not yet eligible", per_agent=per_agent)
            smallest = 0.0
            for size in sizes:
                pile.grow_to(size)
                smallest = _measure(bench, db, kind, size, smallest, is_largest=size == sizes[-1])


def _measure(
    bench: Bench, db: SharedDatabase, kind: str, size: int, smallest: float, *, is_largest: bool
) -> float:
    count = bench.pick(200, 50)
    misses = _statement_us(db, count, expects=False)
    wake(db, "able-0")
    hits = _statement_us(db, count, expects=True)
    writes = [_claim_ms(db) for _ in range(bench.pick(50, 10))]
    with bulk(db) as connection:
        backlog.forget_runs_of(connection, "able-0")
    case = f"{kind}, {size:,} runs"
    target = f"<= 2 x that at {SIZES[0]:,}" if is_largest else ""
    median = bench.row(
        f"{case}: claim statement",
        hits,
        "µs",
        target=target,
        met=(lambda value: value <= 2 * smallest) if is_largest else None,
    )
    bench.row(f"{case}: nothing to claim", misses, "µs")
    bench.row(f"{case}: db.write end to end", writes, "ms")
    return smallest or median


def _statement_us(db: SharedDatabase, count: int, *, expects: bool) -> list[float]:
    """The statement alone, each time rolled back."""
    taken: list[float] = []

    def claim(tx: Tx) -> None:
        began = time.perf_counter()
        found = runs.claim_next(tx, max_sessions=NO_CAP)
        taken.append((time.perf_counter() - began) * 1e6)
        assert (found is not None) is expects, "the backlog is not what it should be"
        raise _Undo

    for _ in range(count):
        try:
            db.write(claim)
        except _Undo:
            continue
    return taken


def _claim_ms(db: SharedDatabase) -> float:
    """The claim, durable; then the run goes back to the queue, as an un-claim."""
    began = time.perf_counter()
    run = db.write(lambda tx: runs.claim_next(tx, max_sessions=NO_CAP))
    took = (time.perf_counter() - began) * 1000
    assert run is not None
    db.write(
        lambda tx: runs.requeue(
            tx,
            run,
            eligible_at=run.eligible_at,
            retry_at=None,
            retry_count=0,
            lost_count=0,
            error=None,
            exit_code=None,
        )
    )
    return took
