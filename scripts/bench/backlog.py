"""Backlogs of runs that cannot be claimed, in each of the ways in which a run can be held."""

from __future__ import annotations

from collections.abc import Callable

import apsw
from world import LONG_AGO_MS, add_agents, bulk, now_ms

from kandev_sched.store.db import Database

PER_AGENT = 100
PER_BUSY_AGENT = 10_000  # an agent at capacity works, and there are never many sessions
HELD_TASKS = 100
FAR_FUTURE_MS = 365 * 86_400_000


class Backlog:
    """Grows one kind of backlog: `hold` makes sure that none of its runs can start."""

    def __init__(
        self,
        db: Database,
        hold: Callable[[apsw.Connection, int], None],
        *,
        due: bool = True,
        per_agent: int = PER_AGENT,
    ) -> None:
        self._db = db
        self._per_agent = per_agent
        self._hold = hold
        self._due = due
        self._count = 0
        add_agents(db, 1, prefix="able")

    def grow_to(self, count: int) -> None:
        """So many queued runs, `per_agent` of them to an agent."""
        with bulk(self._db) as connection:
            _add_agents(connection, -(-count // self._per_agent))
            _insert_runs(connection, self._count, count, due=self._due, per_agent=self._per_agent)
            self._hold(connection, now_ms())
        self._count = count


def _add_agents(connection: apsw.Connection, count: int) -> None:
    connection.execute(
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?)"
        " INSERT OR IGNORE INTO agents (id, workspace_id, name, role, status, skip_idle_wakeups, cooldown_s,"
        " created_at, updated_at)"
        " SELECT printf('ag_%026d', i), workspace_id, printf('held-%d', i), role, 'idle', 0, 0, 0, 0"
        " FROM n, agents WHERE agents.name = 'able-0'",
        (count,),
    ).fetchall()


def _insert_runs(connection: apsw.Connection, start: int, stop: int, *, due: bool, per_agent: int) -> None:
    now = now_ms()
    connection.execute(
        "WITH RECURSIVE n(i) AS (SELECT :start UNION ALL SELECT i + 1 FROM n WHERE i + 1 < :stop)"
        " INSERT INTO runs (id, workspace_id, agent_id, reason, source, status, coalesced_count,"
        " requested_at, eligible_at, lane)"
        " SELECT printf('run_%026d', i), a.workspace_id, printf('ag_%026d', i / :each), 'event', 'user',"
        " 'queued', 1, :requested + i / 1000, :eligible, :lane FROM n, agents a WHERE a.name = 'able-0'",
        {
            "start": start,
            "stop": stop,
            "each": per_agent,
            "requested": now - LONG_AGO_MS,
            "eligible": now - LONG_AGO_MS if due else now + FAR_FUTURE_MS,
            "lane": "claimable" if due else "later",
        },
    ).fetchall()


def paused_agents(connection: apsw.Connection, _now: int) -> None:
    """A person paused every agent."""
    connection.execute("UPDATE agents SET status = 'paused' WHERE name LIKE 'held-%'")


def cooling_down(connection: apsw.Connection, now: int) -> None:
    """Every agent has just finished, and rests for a week."""
    connection.execute(
        "UPDATE agents SET last_wakeup_finished_at = ?, cooldown_s = 604800 WHERE name LIKE 'held-%'", (now,)
    )


def paused_workspace(connection: apsw.Connection, now: int) -> None:
    """All of them belong to another workspace, which is paused."""
    connection.execute(
        "INSERT OR IGNORE INTO workspaces (id, name, paused_at, created_at, updated_at)"
        " VALUES ('ws_paused', 'paused', ?, 0, 0)",
        (now,),
    )
    for table, mine in (("agents", "name LIKE 'held-%'"), ("runs", "agent_id LIKE 'ag_00000%'")):
        connection.execute(
            f"UPDATE {table} SET workspace_id = 'ws_paused' WHERE {mine} AND workspace_id <> 'ws_paused'"
        )


def at_capacity(connection: apsw.Connection, now: int) -> None:
    """Every agent works on one run already, of one that it may have."""
    connection.execute(
        "UPDATE runs SET status = 'claimed', lane = 'later', claimed_at = ?, attempt = 1"
        " WHERE status = 'queued' AND id IN"
        " (SELECT min(id) FROM runs WHERE agent_id LIKE 'ag_00000%' GROUP BY agent_id)",
        (now,),
    )


def tasks_held(connection: apsw.Connection, now: int) -> None:
    """The agents may run, but each run's task is held by a run of someone else."""
    connection.execute(
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?)"
        " INSERT OR IGNORE INTO tasks (id, workspace_id, title, state, checkout_agent_id, checkout_run_id,"
        " checkout_at, created_at, updated_at)"
        " SELECT printf('task_%026d', i), workspace_id, 'held', 'TODO', id, 'run_of_someone', ?, 0, 0"
        " FROM n, agents WHERE name = 'able-0'",
        (HELD_TASKS, now),
    )
    connection.execute(
        f"UPDATE runs SET lane = 'blocked', task_id = printf('task_%026d', substr(id, 5) % {HELD_TASKS})"
        " WHERE task_id IS NULL AND agent_id LIKE 'ag_00000%'"
    )


def nothing_more(_connection: apsw.Connection, _now: int) -> None:
    """The runs wait for their own instant: a retry, a window."""


def forget_runs_of(connection: apsw.Connection, agent: str) -> None:
    """Delete what a measurement made, so that the next size begins as the first did."""
    mine = "agent_id = (SELECT id FROM agents WHERE name = ?)"
    connection.execute(f"DELETE FROM wakeup_requests WHERE {mine}", (agent,))
    connection.execute(f"DELETE FROM runs WHERE {mine}", (agent,))
