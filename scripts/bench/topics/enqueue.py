"""Durable enqueue a second, beside one bare commit an insert, on the same disk in the same rounds."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from operator import le
from pathlib import Path

import apsw
from harness import Bench
from world import add_agents, add_tasks, shared, wake

from kandev_sched.domain.tasks import Task
from kandev_sched.store.shared import SharedDatabase

CALLERS = (1, 8, 32)
TARGETS = {1: 0.5, 32: 2.0}
Target = tuple[str, Task | None]
Series = dict[str, list[float]]


def run(bench: Bench) -> None:
    """Interleaved rounds of: bare, then each number of callers; to many tasks, and to one agent."""
    counts = {callers: bench.pick(400, 100) * (1 if callers == 1 else 4) for callers in CALLERS}
    rounds = bench.pick(9, 3)
    rates, waits, cpu_us = Series(), Series(), Series()
    with bench.scratch() as folder, shared(folder) as db:
        agents = add_agents(db, 64)
        targets = iter(add_tasks(db, agents, rounds * sum(counts.values())))
        bare = Bare(folder)
        for _ in range(rounds):
            bench.probe_fsync(folder)
            rates.setdefault("bare", []).append(bare.rate(counts[1]))
            for callers, count in counts.items():
                work: list[Target] = [next(targets) for _ in range(count)]
                _measure(db, f"{callers} callers, own tasks", callers, work, rates, waits, cpu_us)
                one: list[Target] = [("agent-0", None)] * count
                _measure(db, f"{callers} callers, one agent", callers, one, rates, waits, cpu_us)
        bare.close()
    _report(bench, rates, waits, cpu_us)


def _measure(
    db: SharedDatabase,
    case: str,
    callers: int,
    work: list[Target],
    rates: Series,
    waits: Series,
    cpu_us: Series,
) -> None:
    used = time.process_time()
    rate, waited = enqueue_rate(db, callers, work)
    cpu_us.setdefault(case, []).append((time.process_time() - used) / len(work) * 1e6)
    rates.setdefault(case, []).append(rate)
    waits.setdefault(case, []).extend(waited)


def enqueue_rate(db: SharedDatabase, callers: int, work: list[Target]) -> tuple[float, list[float]]:
    """Acknowledged enqueues a second, and how many ms each caller waited for its acknowledgement."""
    source, waited = iter(work), list[float]()
    ready = threading.Barrier(callers + 1)
    lock = threading.Lock()

    def call() -> None:
        ready.wait()
        waited.extend(_call_until_done(db, source, lock))

    threads = [threading.Thread(target=call) for _ in range(callers)]
    for thread in threads:
        thread.start()
    ready.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    return len(work) / (time.perf_counter() - began), waited


def _call_until_done(db: SharedDatabase, source: Iterator[Target], lock: threading.Lock) -> list[float]:
    waited: list[float] = []
    while True:
        with lock:
            target = next(source, None)
        if target is None:
            return waited
        began = time.perf_counter()
        wake(db, *target)
        waited.append((time.perf_counter() - began) * 1000)


class Bare:
    """apsw alone: one caller, one commit an insert, WAL, synchronous=FULL."""

    def __init__(self, folder: Path) -> None:
        self._connection = apsw.Connection(str(folder / "bare.db"))
        self._connection.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL")
        self._connection.execute(
            "CREATE TABLE jobs (id INTEGER PRIMARY KEY, payload TEXT, at INTEGER) STRICT"
        )
        self._insert = "INSERT INTO jobs (payload, at) VALUES (?, ?)"

    def rate(self, count: int) -> float:
        """Commits a second."""
        execute: Callable[..., object] = self._connection.execute
        began = time.perf_counter()
        for number in range(count):
            execute("BEGIN IMMEDIATE")
            execute(self._insert, ('{"reason":"benchmark"}', number))
            execute("COMMIT")
        return count / (time.perf_counter() - began)

    def close(self) -> None:
        """Give the file back."""
        self._connection.close()


def _report(bench: Bench, rates: Series, waits: Series, cpu_us: Series) -> None:
    bare = bench.row("bare apsw, 1 commit an insert", rates.pop("bare"), "1/s")
    for case, values in rates.items():
        factor = TARGETS.get(int(case.split()[0])) if case.endswith("own tasks") else None
        ratio = statistics.median(values) / bare
        bench.row(
            case,
            values,
            "1/s",
            target=f">= {factor:g} x bare" if factor else "",
            met=partial(le, factor * bare) if factor else None,
            times_bare=round(ratio, 3),
            cpu_us=round(statistics.median(cpu_us[case]), 1),
            best_cpu_us=round(min(cpu_us[case]), 1),
        )
    for case, values in waits.items():
        bench.row(f"{case}: wait for the ack", values, "ms")
