"""Every statement of the program, prepared against a fresh schema and held against the record it fills."""

from __future__ import annotations

import ast
import inspect
import re
from types import ModuleType
from typing import Any

import apsw.ext
import pytest
from sql_facts import MODULES, STATEMENTS, named, parameters, plan, table_scans
from world import World

from kandev_sched.domain.record import field_names
from kandev_sched.store import activity, agents, attempts, routines, runs, tasks, triggers, wakeups
from kandev_sched.store.sql import NoRows, Sql


def test_there_are_statements_to_look_at() -> None:
    """architecture rule 11: every `Sql` is prepared by a test."""
    assert len(STATEMENTS) > 100


@pytest.mark.parametrize("sql", STATEMENTS, ids=named)
def test_every_statement_can_be_prepared_and_its_columns_are_the_fields_of_its_record(
    schema: World, sql: Sql[Any]
) -> None:
    """architecture rule 11: its columns compared with the struct it fills, in order."""
    blank = dict.fromkeys(parameters(sql))
    info = apsw.ext.query_info(schema.db._connection, sql.text, blank)
    assert info.query_remaining is None, "one statement, not several"
    if sql.into is not NoRows:
        assert tuple(name for name, _ in info.description) == field_names(sql.into)


def _calls(module: ModuleType) -> list[tuple[str, set[str]]]:
    """(name of the statement, keywords that are passed) for each use of a statement in the module."""
    found = []
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
            continue
        statement = node.args[0]
        if node.func.attr in ("run", "rows", "value", "all", "one") and isinstance(statement, ast.Name):
            found.append((statement.id, {keyword.arg or "**" for keyword in node.keywords}))
    return found


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rsplit(".", 1)[1])
def test_every_use_of_a_statement_passes_exactly_what_it_needs(module: ModuleType) -> None:
    """architecture rule 11: a name that is missing would raise only when a person first asks for it."""
    for name, passed in _calls(module):
        sql = getattr(module, name, None)
        if isinstance(sql, Sql):
            assert passed == parameters(sql), f"{module.__name__}.{name}"


def test_the_uses_of_statements_are_really_found() -> None:
    """The test above must not pass because it finds nothing."""
    assert sum(len(_calls(module)) for module in MODULES) > 80


# --- plans ------------------------------------------------------------------------------------------------

# Statements that run for every request, claim, tick or settlement: their cost must not grow with the past.
HOT = {
    "claim_next": runs._CLAIM,
    "open_lane": runs._OPEN_LANE,
    "in_flight": runs._IN_FLIGHT,
    "run by_id": runs._BY_ID,
    "next_eligible_at": runs._NEXT_ELIGIBLE_AT,
    "next_ready_at": runs._NEXT_READY_AT,
    "first_eligible_of_agent": runs._FIRST_ELIGIBLE,
    "promote": runs._PROMOTE,
    "count_in": runs._COUNT_IN,
    "requeue": runs._REQUEUE,
    "finish": runs._FINISH,
    "mark_started": runs._STARTED,
    "ask_cancel": runs._ASK_CANCEL,
    "steps": attempts._STEPS,
    "session_state": attempts._SESSION_STATE,
    "wakeup by_id": wakeups._BY_ID,
    "by_key": wakeups._BY_KEY,
    "of_run": wakeups._OF_RUN,
    "open_of_run": wakeups._OPEN_OF_RUN,
    "open_of_agent": wakeups._OPEN_OF_AGENT,
    "open_of_routine": wakeups._OPEN_OF_ROUTINE,
    "mark_prompted": wakeups._PROMPTED,
    "mark_delivered": wakeups._DELIVERED,
    "join_run": wakeups._JOIN,
    "end": wakeups._END,
    "stranded": wakeups._STRANDED,
    "count_actionable": tasks._ACTIONABLE,
    "check_out": tasks._CHECK_OUT,
    "free_checkout": tasks._FREE,
    "capacities": tasks._CAPACITIES,
    "due": triggers._DUE,
    "next_at": triggers._NEXT_AT,
    "advance": triggers._ADVANCE,
    "active_run": routines._ACTIVE,
    "run_by_key": routines._RUN_BY_KEY,
    "end_runs_of_wakeup": routines._END_OF_WAKEUP,
    "end_runs_of_task": routines._END_OF_TASK,
    "last_run": routines._LAST_RUN,
    "stamp_finished": agents._FINISHED,
    "agent by_name": agents._BY_NAME,
    "agents of_workspace": agents._OF_WORKSPACE,
}


@pytest.mark.parametrize("sql", HOT.values(), ids=HOT)
def test_a_hot_statement_never_walks_a_table(schema: World, sql: Sql[Any]) -> None:
    """architecture rule 11: hot statements have their query plan asserted (no table scan)."""
    steps = plan(schema.db, sql)
    few = ("SCAN c USING COVERING INDEX runs_claimed", "SCAN w")  # the running sessions, the workspaces
    scans = [step for step in table_scans(steps) if step not in few]
    assert scans == []
    assert any(step.startswith("SEARCH") for step in steps)


def test_the_claim_walks_the_agents_that_may_claim_and_the_head_of_each_queue(schema: World) -> None:
    """behaviour §2 Claim: its cost must not grow with the backlog of agents that cannot run."""
    steps = plan(schema.db, runs._CLAIM)
    assert "SEARCH a USING INDEX agents_that_may_claim (workspace_id=? AND ready_at<?)" in steps
    assert "SEARCH r USING INDEX runs_queued_of_agent (agent_id=? AND lane=?)" in steps
    assert "SCAN c USING COVERING INDEX runs_claimed" in steps  # at most `max_sessions` entries


def test_a_long_backlog_of_a_paused_agent_costs_the_claim_nothing(world: World) -> None:
    """behaviour §2 Claim: also when the queue is long; counted in steps of SQLite's machine, not in time."""
    from kandev_sched.policy.coalesce import ConcurrencyPolicy

    busy, free = world.given_agent("busy"), world.given_agent("free")
    world.request("user", free)
    world.claim()  # so that the agent that could is at its limit
    world.request("user", free, policy=ConcurrencyPolicy.ALWAYS_ENQUEUE)
    world.pause(busy)
    costs = []
    for _ in range(3):
        for _ in range(40):
            world.request("user", busy, policy=ConcurrencyPolicy.ALWAYS_ENQUEUE)
        assert world.claim() is None  # each run is looked at once, when its instant has come
        costs.append(_steps_of_a_claim(world))
    assert len(set(costs)) == 1
    assert world.agent(busy).queued_count == 120


def _steps_of_a_claim(world: World) -> int:
    count = 0

    def count_step() -> bool:
        nonlocal count
        count += 1
        return False

    world.db._connection.set_progress_handler(count_step, 1)
    assert world.claim() is None
    world.db._connection.set_progress_handler(None, 1)
    return count


RECENT = {"runs": runs._RECENT, "wakeups": wakeups._RECENT, "activity": activity._RECENT}


@pytest.mark.parametrize("sql", RECENT.values(), ids=RECENT)
def test_the_newest_rows_are_read_in_the_order_of_an_index(schema: World, sql: Sql[Any]) -> None:
    """architecture rule 11: a list of the newest rows reads those rows, and sorts nothing."""
    steps = plan(schema.db, sql)
    assert not any("TEMP B-TREE" in step for step in steps)
    assert all("USING INDEX" in step or step == "SCAN activity" for step in steps)  # activity: by its rowid


def test_the_newest_routine_runs_are_searched_by_workspace(schema: World) -> None:
    """architecture rule 11."""
    assert table_scans(plan(schema.db, routines._RECENT_RUNS)) == []


def test_no_statement_names_the_time_itself() -> None:
    """architecture rule 6: the database's clock is never asked."""
    for sql in STATEMENTS:
        assert not re.search(r"\b(CURRENT_TIMESTAMP|datetime\(|strftime|unixepoch|julianday)\b", sql.text)
