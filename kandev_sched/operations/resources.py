"""Resources (S1): the envelope of routines and triggers, their etags, their numbered revisions.

A definition is what a person wants; what was observed (next slot, last fire) stands apart and never changes
the etag.
"""

from __future__ import annotations

import hashlib

from kandev_sched.domain.errors import Conflict, NotFound
from kandev_sched.domain.instant import rfc3339_or_none
from kandev_sched.domain.plain import to_plain
from kandev_sched.domain.record import as_dict
from kandev_sched.domain.revisions import Revision
from kandev_sched.store import agents, calendars, revisions, routines, workspaces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.domain.routines import Routine
    from kandev_sched.domain.schedules import Trigger
    from kandev_sched.store.db import Reader, Tx

API_VERSION = "sched/v1"
ROUTINE_FIELDS = (
    *("description", "concurrency_policy", "catch_up_policy", "catch_up_max", "misfire_grace_s"),
    *("catch_up_max_age_s", "task_title", "task_description", "variables", "status"),
)
TRIGGER_FIELDS = (
    *(
        "kind",
        "syntax",
        "expression",
        "zone",
        "enabled",
        "max_fires",
        "on_gap",
        "on_repeat",
        "spread_s",
        "input",
    ),
)


def etag_of(subject_id: str, generation: int) -> str:
    """Changes with each change of the definition, and with nothing else."""
    digest = hashlib.sha256(f"{subject_id}:{generation}".encode()).hexdigest()
    return f"{generation}-{digest[:12]}"


def refuse_stale(subject_id: str, generation: int, if_match: str | None) -> None:
    """Raises Conflict when the caller saw another definition than the present one."""
    if if_match is not None and if_match.strip('"') != etag_of(subject_id, generation):
        present = etag_of(subject_id, generation)
        raise Conflict(f"{subject_id} was changed meanwhile", hint=f"its etag is {present} now; look again")


def definition_of_routine(reader: Reader, routine: Routine) -> dict[str, object]:
    """What a person wants of a routine."""
    agent = agents.by_id(reader, routine.agent_id)
    fields: dict[str, object] = {name: to_plain(getattr(routine, name)) for name in ROUTINE_FIELDS}
    return {"agent": agent.name if agent else routine.agent_id, "agent_id": routine.agent_id, **fields}


def definition_of_trigger(reader: Reader, trigger: Trigger) -> dict[str, object]:
    """What a person wants of a trigger."""
    named = {calendar.id: calendar.name for calendar in calendars.of_workspace(reader, trigger.workspace_id)}
    fields: dict[str, object] = {name: to_plain(getattr(trigger, name)) for name in TRIGGER_FIELDS}
    return {
        **fields,
        "start_at": rfc3339_or_none(trigger.start_at),
        "end_at": rfc3339_or_none(trigger.end_at),
        "calendars": [named.get(calendar_id, calendar_id) for calendar_id in trigger.calendar_ids],
        "principal_id": trigger.principal_id,
    }


def note_revision(tx: Tx, subject_id: str, number: int, definition: dict[str, object]) -> None:
    """Keep the definition that holds from now on."""
    revision = Revision(subject_id=subject_id, number=number, definition=definition, created_at=tx.now)
    revisions.add(tx, revision)


def the_revision(reader: Reader, subject_id: str, number: int) -> Revision:
    """A numbered revision. Raises NotFound."""
    found = revisions.numbered(reader, subject_id, number)
    if found is None:
        known = [revision.number for revision in revisions.of_subject(reader, subject_id)]
        hint = f"there are revisions {known[0]} to {known[-1]}" if known else "there are none"
        raise NotFound(f"{subject_id} has no revision {number}", hint=hint)
    return found


def changes_between(before: Revision, after: Revision) -> dict[str, list[object]]:
    """Key → [before, after] for every key of the definition that differs."""
    names = sorted({*before.definition, *after.definition})
    pairs = {name: [before.definition.get(name), after.definition.get(name)] for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def revision_rows(reader: Reader, subject_id: str) -> list[dict[str, object]]:
    """The revisions of a subject, oldest first, each with the keys that it changed."""
    rows, before = [], None
    for revision in revisions.of_subject(reader, subject_id):
        changed = sorted(changes_between(before, revision)) if before is not None else ["created"]
        rows.append({**as_dict(revision), "changed": changed})
        before = revision
    return rows


def routine_resource(reader: Reader, routine: Routine) -> dict[str, object]:
    """The envelope of a routine."""
    last = routines.last_run(reader, routine.id)
    observed = {
        "observed_generation": routine.generation,
        "status_note": routine.status_note,
        "last_fired_at": rfc3339_or_none(last.fired_at) if last else None,
        "last_status": last.status if last else None,
    }
    metadata = _metadata(reader, routine.workspace_id, routine.id, routine.generation)
    return {
        "apiVersion": API_VERSION,
        "kind": "Routine",
        "metadata": {**metadata, "namespace": routine.namespace, "name": routine.name},
        "definition": definition_of_routine(reader, routine),
        "observed": observed,
    }


def trigger_resource(reader: Reader, trigger: Trigger) -> dict[str, object]:
    """The envelope of a trigger; it is named by its routine and its id."""
    routine = routines.by_id(reader, trigger.routine_id)
    assert routine is not None
    observed = {
        "observed_generation": trigger.observed_generation,
        "next_run_at": rfc3339_or_none(trigger.next_run_at),
        "last_fired_at": rfc3339_or_none(trigger.last_fired_at),
        "last_success_at": rfc3339_or_none(trigger.last_success_at),
        "last_error": trigger.last_error,
        "fire_count": trigger.fire_count,
        "armed": trigger.next_run_at is not None,
    }
    metadata = _metadata(reader, trigger.workspace_id, trigger.id, trigger.generation)
    return {
        "apiVersion": API_VERSION,
        "kind": "Trigger",
        "metadata": {**metadata, "namespace": routine.namespace, "name": f"{routine.name}/{trigger.id}"},
        "definition": definition_of_trigger(reader, trigger),
        "observed": observed,
    }


def _metadata(reader: Reader, workspace_id: str, uid: str, generation: int) -> dict[str, object]:
    workspace = workspaces.by_id(reader, workspace_id)
    return {
        "uid": uid,
        "workspace": workspace.name if workspace else workspace_id,
        "generation": generation,
        "etag": etag_of(uid, generation),
    }
