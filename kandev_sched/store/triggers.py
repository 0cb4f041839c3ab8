"""Triggers and the slots at which they are due."""

from __future__ import annotations

from kandev_sched.domain.schedules import Trigger
from kandev_sched.store.sql import Sql, Statement, insert_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.store.db import Reader, Tx

_ADD = insert_of("triggers", Trigger)


def add(tx: Tx, trigger: Trigger) -> None:
    """Insert a trigger."""
    tx.insert(_ADD, trigger)


_BY_ID = Sql("SELECT * FROM triggers WHERE id = :id", Trigger)


def by_id(reader: Reader, trigger_id: str) -> Trigger | None:
    """The trigger with that id."""
    return reader.one(_BY_ID, id=trigger_id)


_OF_ROUTINE = Sql("SELECT * FROM triggers WHERE routine_id = :routine_id ORDER BY created_at, id", Trigger)


def of_routine(reader: Reader, routine_id: str) -> list[Trigger]:
    """The triggers of a routine, oldest first."""
    return reader.all(_OF_ROUTINE, routine_id=routine_id)


_OF_WORKSPACE = Sql(
    "SELECT t.* FROM triggers t JOIN routines r ON r.id = t.routine_id"
    " WHERE t.workspace_id = :workspace_id AND r.archived_at IS NULL ORDER BY t.created_at, t.id",
    Trigger,
)


def of_workspace(reader: Reader, workspace_id: str) -> list[Trigger]:
    """The triggers of all living routines of a workspace."""
    return reader.all(_OF_WORKSPACE, workspace_id=workspace_id)


_SET = Statement(
    "UPDATE triggers SET syntax = :syntax, expression = :expression, zone = :zone, enabled = :enabled,"
    " start_at = :start_at, end_at = :end_at, max_fires = :max_fires, on_gap = :on_gap,"
    " on_repeat = :on_repeat, spread_s = :spread_s, calendar_ids = :calendar_ids,"
    " input = :input, principal_id = :principal_id,"
    " next_run_at = :next_run_at, last_error = NULL, generation = generation + 1,"
    " observed_generation = generation + 1, updated_at = :now WHERE id = :id"
)


def save(tx: Tx, trigger: Trigger) -> None:
    """Write a changed definition and the projection that follows from it."""
    tx.run(
        _SET,
        id=trigger.id,
        syntax=trigger.syntax,
        expression=trigger.expression,
        zone=trigger.zone,
        enabled=trigger.enabled,
        start_at=trigger.start_at,
        end_at=trigger.end_at,
        max_fires=trigger.max_fires,
        on_gap=trigger.on_gap,
        on_repeat=trigger.on_repeat,
        spread_s=trigger.spread_s,
        calendar_ids=trigger.calendar_ids,
        input=trigger.input,
        principal_id=trigger.principal_id,
        next_run_at=trigger.next_run_at,
        now=tx.now,
    )


_DELETE = Statement("DELETE FROM triggers WHERE id = :id")
_FORGET = Statement("UPDATE routine_runs SET trigger_id = NULL WHERE trigger_id = :id")


def delete(tx: Tx, trigger_id: str) -> None:
    """Delete a trigger; its occurrences stay."""
    tx.run(_FORGET, id=trigger_id)
    tx.run(_DELETE, id=trigger_id)


_DUE = Sql(
    "SELECT * FROM triggers WHERE next_run_at IS NOT NULL AND next_run_at <= :now"
    " ORDER BY next_run_at LIMIT :limit",
    Trigger,
)


def due(reader: Reader, *, now: int, limit: int) -> list[Trigger]:
    """The triggers whose slot has come, oldest slot first."""
    return reader.all(_DUE, now=now, limit=limit)


_NEXT_AT = Statement("SELECT min(next_run_at) FROM triggers WHERE next_run_at IS NOT NULL")


def next_at(reader: Reader) -> int | None:
    """When the next trigger is due."""
    at: int | None = reader.value(_NEXT_AT)
    return at


# By row count: a second ticker, or an edit, that came first makes this a no-op.
_ADVANCE = Statement(
    "UPDATE triggers SET next_run_at = :next_run_at, last_fired_at = coalesce(:fired_at, last_fired_at),"
    " fire_count = fire_count + :count, observed_generation = generation"
    " WHERE id = :id AND next_run_at = :expected_at"
)


def advance(tx: Tx, trigger: Trigger, *, next_run_at: int | None, fired_at: int | None, count: int) -> bool:
    """Move a trigger past its due slots, `count` of which fired; False when someone else has."""
    return bool(
        tx.run(
            _ADVANCE,
            id=trigger.id,
            expected_at=trigger.next_run_at,
            next_run_at=next_run_at,
            fired_at=fired_at,
            count=count,
        )
    )


_QUARANTINE = Statement(
    "UPDATE triggers SET next_run_at = NULL, last_error = :error, observed_generation = generation"
    " WHERE id = :id"
)


def quarantine(tx: Tx, trigger_id: str, error: str) -> None:
    """Set a trigger aside that cannot be computed; every other trigger goes on."""
    tx.run(_QUARANTINE, id=trigger_id, error=error)


_ARMED = Sql("SELECT * FROM triggers WHERE next_run_at IS NOT NULL ORDER BY next_run_at", Trigger)


def armed(reader: Reader) -> list[Trigger]:
    """Every trigger that has a next slot."""
    return reader.all(_ARMED)


_UNARMED = Sql(
    "SELECT t.* FROM triggers t INDEXED BY triggers_unarmed JOIN routines r ON r.id = t.routine_id"
    " WHERE t.kind = 'schedule' AND t.enabled AND t.next_run_at IS NULL AND t.last_error IS NULL"
    " AND r.status = 'active'",
    Trigger,
)


def unarmed(reader: Reader) -> list[Trigger]:
    """Triggers that should have a next slot and have none (S1 Reconstruction)."""
    return reader.all(_UNARMED)


_SET_NEXT = Statement(
    "UPDATE triggers SET next_run_at = :next_run_at, observed_generation = generation,"
    " last_error = CASE WHEN :next_run_at IS NULL THEN last_error END WHERE id = :id"
)


def set_next(tx: Tx, trigger_id: str, next_run_at: int | None) -> None:
    """Write the projection: armed for that slot, or not armed."""
    tx.run(_SET_NEXT, id=trigger_id, next_run_at=next_run_at)


_SUCCEEDED = Statement("UPDATE triggers SET last_success_at = :now WHERE id = :id")


def stamp_success(tx: Tx, trigger_id: str) -> None:
    """A fire of the trigger led to a run that succeeded; firing alone does not count."""
    tx.run(_SUCCEEDED, id=trigger_id, now=tx.now)
