"""The schema itself: enums, instants, the counts kept by triggers, and the rows that never change."""

from __future__ import annotations

import re
from enum import StrEnum

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sql_facts import STATEMENTS
from world import World

from kandev_sched.domain.record import Record, field_types
from kandev_sched.domain.runs import Lane, RunStatus
from kandev_sched.domain.supervision import SupervisorPhase
from kandev_sched.store.sql import NoRows


def _tables(world: World) -> dict[str, str]:
    found = world.ask("SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    return dict(found)


def _checks(world: World) -> dict[str, set[str]]:
    """table.column → the words of its CHECK."""
    found = {}
    for table, sql in _tables(world).items():
        for column, words in re.findall(r"CHECK\s*\((\w+) IN\s*\(([^)]*'[^)]*)\)", sql):
            found[f"{table}.{column}"] = set(re.findall(r"'([^']*)'", words))
    return found


def _enum_columns() -> dict[str, type[StrEnum]]:
    """table.column → its enum, for each record that a table fills."""
    found = {}
    for sql in STATEMENTS:
        table = re.match(r"SELECT \* FROM (\w+)", sql.text)
        if table is not None and sql.into is not NoRows:
            found |= {f"{table[1]}.{name}": enum for name, enum in _enums_of(sql.into).items()}
    found["supervisor.state"] = SupervisorPhase
    return found


def _enums_of(record: type[Record]) -> dict[str, type[StrEnum]]:
    return {
        name: kind
        for name, field in field_types(record).items()
        for kind in getattr(field, "__args__", (field,))
        if isinstance(kind, type) and issubclass(kind, StrEnum)
    }


ENUMS = _enum_columns()


def test_the_columns_of_enums_are_really_found() -> None:
    """The test below must not pass because it finds nothing."""
    assert {"runs.status", "run_steps.name", "wakeup_requests.ending", "triggers.kind"} <= set(ENUMS)


@pytest.mark.parametrize("column", ENUMS)
def test_the_words_that_a_column_takes_are_those_of_its_enum(schema: World, column: str) -> None:
    """architecture Storage: a `CHECK` for each enum."""
    assert _checks(schema)[column] == set(ENUMS[column])


def test_a_participant_is_a_reviewer_or_an_approver(schema: World) -> None:
    """architecture Storage: the assignee stands in the task itself."""
    assert _checks(schema)["task_participants.capacity"] == {"reviewer", "approver"}


def test_instants_are_integers_in_columns_named_so_and_durations_carry_their_unit(schema: World) -> None:
    """architecture Storage: instants are INTEGER UTC milliseconds in columns named `…_at`."""
    for table in _tables(schema):
        for _, name, kind, *_ in schema.ask(f"PRAGMA table_xinfo({table})"):
            if name.endswith(("_at", "_s")) or name == "at":
                assert kind == "INTEGER", f"{table}.{name}"
            if name.endswith("_ms"):
                assert kind == "REAL", f"{table}.{name}"


def test_every_table_is_strict(schema: World) -> None:
    """architecture Storage: `STRICT` tables."""
    loose = [row[1] for row in schema.ask("PRAGMA table_list") if row[0] == "main" and not row[5]]
    assert [name for name in loose if not name.startswith("sqlite_")] == []


def test_a_value_of_the_wrong_kind_is_refused(world: World) -> None:
    """architecture Storage: STRICT tables and checks keep a hand from writing nonsense."""
    world.given_agent()
    for change in ("status = 'asleep'", "cooldown_s = 'long'", "max_concurrent_sessions = 0", "name = NULL"):
        with pytest.raises(apsw.ConstraintError):
            world.change(f"UPDATE agents SET {change}")


def test_foreign_keys_are_on_and_the_log_is_written_ahead_and_synced(world: World) -> None:
    """architecture Storage: WAL, foreign keys on, `synchronous=FULL` for whatever is acknowledged."""
    assert world.ask("PRAGMA foreign_keys") == [(1,)]
    assert world.ask("PRAGMA journal_mode") == [("wal",)]
    assert world.ask("PRAGMA synchronous") == [(2,)]
    world.given_agent()
    with pytest.raises(apsw.ConstraintError):
        world.change("UPDATE agents SET profile_id = 'nobody'")


# --- what the triggers keep -------------------------------------------------------------------------------

INSERT = (
    "INSERT INTO runs (id, workspace_id, agent_id, reason, source, status, coalesced_count, requested_at,"
    " eligible_at, finished_at)"
    " VALUES ('{id}', '{ws}', '{agent}', 'event', 'user', '{status}', 1, 0, 0, {end})"
)
ENDED = (RunStatus.FINISHED, RunStatus.FAILED, RunStatus.CANCELLED)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    actions=st.lists(
        st.tuples(
            st.sampled_from(["insert", "update", "move", "wait", "delete"]),
            st.integers(0, 4),
            st.integers(0, 1),
            st.sampled_from(list(RunStatus)),
            st.sampled_from(list(Lane)),
        ),
        max_size=25,
    )
)
def test_the_counts_of_an_agent_are_right_whatever_changes_its_runs(
    world: World, actions: list[tuple[str, int, int, RunStatus, Lane]]
) -> None:
    """behaviour §2 Claim: the claim looks at counts, so they must always be true."""
    if not world.ask("SELECT 1 FROM agents"):
        world.given_agent("one"), world.given_agent("two")
    world.change("DELETE FROM runs")
    agents = [row[0] for row in world.ask("SELECT id FROM agents ORDER BY name")]
    workspace_id = world.workspace().id
    alive: dict[int, RunStatus] = {}
    for kind, number, agent, status, lane in actions:
        end = 1 if status in ENDED else "NULL"
        may_change = number in alive and alive[number] not in ENDED
        if kind == "insert" and number not in alive:
            world.change(
                INSERT.format(id=number, ws=workspace_id, agent=agents[agent], status=status, end=end)
            )
            alive[number] = status
        elif kind == "update" and may_change:
            world.change(
                f"UPDATE runs SET status = '{status}', lane = '{lane}', finished_at = {end}"
                f" WHERE id = '{number}'"
            )
            alive[number] = status
        elif kind == "move" and may_change:
            world.change(f"UPDATE runs SET lane = '{lane}' WHERE id = '{number}'")
        elif kind == "wait" and may_change:
            world.change(f"UPDATE runs SET eligible_at = {agent} WHERE id = '{number}'")
        elif kind == "delete" and number in alive:
            world.change(f"DELETE FROM runs WHERE id = '{number}'")
            del alive[number]
    of_agent = "(SELECT count(*) FROM runs WHERE agent_id = a.id AND"
    counted = world.ask(
        f"SELECT a.queued_count - {of_agent} status = 'queued'),"
        f" a.claimable_count - {of_agent} status = 'queued' AND lane = 'claimable'),"
        f" a.claimed_count - {of_agent} status = 'claimed') FROM agents a"
    )
    assert counted == [(0, 0, 0), (0, 0, 0)]


def test_an_agent_works_exactly_as_long_as_a_run_of_it_is_claimed(world: World) -> None:
    """S0 Claim query: a.status IN ('idle', 'working'); the step between them follows the runs."""
    bot = world.given_agent()
    world.request("user", bot)
    assert world.agent(bot).status == "idle"
    run = world.process()
    assert world.agent(bot).status == "working"
    world.finish(run)
    assert world.agent(bot).status == "idle"


@pytest.mark.parametrize("act", ["pause", "stop", "archive"])
def test_the_end_of_a_run_does_not_wake_an_agent_that_a_person_set_aside(world: World, act: str) -> None:
    """behaviour §2 Un-claim: paused, stopped and archived stay so."""
    bot = world.given_agent()
    world.request("user", bot)
    run = world.process()
    getattr(world, act)(bot)
    before = world.agent(bot).status
    world.finish(run)
    assert world.agent(bot).status == before


# --- what never changes -----------------------------------------------------------------------------------


def test_a_finished_run_never_changes(world: World) -> None:
    """I8: terminal rows (`finished_at` set) never change."""
    world.request("user", world.given_agent())
    world.finish(world.process())
    for change in ("status = 'queued', finished_at = NULL", "error = 'x'", "finished_at = finished_at"):
        with pytest.raises(apsw.ConstraintError, match="a finished run never changes"):
            world.change(f"UPDATE runs SET {change}")


def test_a_finished_request_never_changes(world: World) -> None:
    """I8: terminal rows (`finished_at` set) never change."""
    world.request("user", world.given_agent())
    world.finish(world.process())
    with pytest.raises(apsw.ConstraintError, match="a finished wakeup request never changes"):
        world.change("UPDATE wakeup_requests SET reason = 'x'")


def test_a_reason_is_never_demoted(world: World) -> None:
    """I7: promoted only from periodic to event, never back."""
    bot = world.given_agent()
    world.fire_by_schedule(world.given_routine(agent=bot))
    world.change("UPDATE runs SET reason = 'event'")
    with pytest.raises(apsw.ConstraintError, match="a reason is never demoted"):
        world.change("UPDATE runs SET reason = 'periodic'")


def test_an_ending_without_its_instant_is_refused_and_so_is_the_reverse(world: World) -> None:
    """I1: a request ends visibly in exactly one way; delivered only if it was delivered."""
    world.request("user", world.given_agent())
    for change in ("ending = 'failed'", "finished_at = 1", "ending = 'delivered', finished_at = 1"):
        with pytest.raises(apsw.ConstraintError):
            world.change(f"UPDATE wakeup_requests SET {change}")


def test_an_occurrence_exists_once_for_ever(world: World) -> None:
    """I2: an idempotency key and an occurrence id exist once."""
    routine = world.given_routine(agent=world.given_agent())
    world.fire(routine, key="k")
    copy = "INSERT INTO routine_runs SELECT {id}, " + ", ".join(
        name for _, name, *_ in world.ask("PRAGMA table_info(routine_runs)")[1:]
    )
    for new_id in ("id", "'rr_other'"):
        with pytest.raises(apsw.ConstraintError):
            world.change(copy.format(id=new_id) + " FROM routine_runs")


def test_a_checkout_names_both_its_run_and_its_agent(world: World) -> None:
    """I4: a task has at most one checkout; its holder is one run."""
    world.given_task(agent=world.given_agent())
    with pytest.raises(apsw.ConstraintError):
        world.change("UPDATE tasks SET checkout_agent_id = assignee_agent_id")
