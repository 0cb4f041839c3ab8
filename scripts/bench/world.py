"""Databases to measure on: made with the program's own operations, filled in bulk with SQL."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from kandev_sched.domain.agents import Agent
from kandev_sched.domain.host import MachineHost
from kandev_sched.domain.settings import Settings
from kandev_sched.domain.tasks import Task
from kandev_sched.operations.agents import AddAgent, add_agent
from kandev_sched.operations.firing import WakeAgent, Woken, wake_agent
from kandev_sched.operations.tasks import AddTask, add_task
from kandev_sched.store.db import Database, Tx
from kandev_sched.store.shared import SharedDatabase, open_shared

SETTINGS = Settings()
LONG_AGO_MS = 3_600_000


def nothing() -> None:
    """For who is not told that there is work."""


@contextmanager
def shared(folder: Path, on_work: Callable[[], None] = nothing) -> Iterator[SharedDatabase]:
    """A fresh database, as the supervisor holds it."""
    db = open_shared(str(folder / "sched.db"), host=MachineHost(), create=True, on_work=on_work)
    try:
        yield db
    finally:
        db.close()


def add_agents(
    db: Database, count: int, *, argv: tuple[str, ...] = ("true",), prefix: str = "agent"
) -> list[Agent]:
    """Agents without cooldown, each with its own profile."""

    def add(tx: Tx) -> list[Agent]:
        return [
            add_agent(tx, AddAgent(name=f"{prefix}-{n}", argv=argv, env={}, cooldown_s=0))
            for n in range(count)
        ]

    return db.write(add)


def add_tasks(db: Database, agents: list[Agent], count: int) -> list[tuple[str, Task]]:
    """Tasks dealt out to the agents in turn; pairs of the agent's name and the task."""

    def add(tx: Tx) -> list[tuple[str, Task]]:
        names = [agents[n % len(agents)].name for n in range(count)]
        return [(name, add_task(tx, AddTask(title=f"task {n}", agent=name))) for n, name in enumerate(names)]

    return db.write(add)


def wake(db: Database, agent: str, task: Task | None = None) -> Woken:
    """One durable enqueue, as the HTTP interface and the CLI do it."""
    command = WakeAgent(agent=agent, reason="benchmark", user="user", task=task.id if task else None)
    return db.write(lambda tx: wake_agent(tx, command, SETTINGS))


@contextmanager
def bulk(db: Database) -> Iterator[apsw.Connection]:
    """A connection to fill tables with, without triggers and foreign keys; the counts are mended after it."""
    connection = apsw.Connection(db.path)
    connection.set_busy_timeout(10_000)
    connection.execute("PRAGMA foreign_keys=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-200000")
    triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    connection.execute("BEGIN IMMEDIATE")
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    of_agent = "(SELECT count(*) FROM runs r WHERE r.agent_id = agents.id"
    try:
        yield connection
        connection.execute(
            f"UPDATE agents SET queued_count = {of_agent} AND r.status = 'queued'),"
            f" claimable_count = {of_agent} AND r.status = 'queued' AND r.lane = 'claimable'),"
            f" claimed_count = {of_agent} AND r.status = 'claimed')"
        )
    finally:
        for _, sql in triggers:
            connection.execute(str(sql))
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection.close()


def now_ms() -> int:
    """The wall clock, as the database has it."""
    return time.time_ns() // 1_000_000
