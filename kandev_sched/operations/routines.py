"""Routines: add (with a first trigger), set, pause, resume, archive."""

from __future__ import annotations

from kandev_sched.domain.errors import Conflict, Invalid, SchedError
from kandev_sched.domain.plain import from_plain
from kandev_sched.domain.record import Record, field_types
from kandev_sched.domain.routines import (
    CatchUpPolicy,
    ConcurrencyPolicy,
    Routine,
    RoutineStatus,
    Variable,
    VariableType,
)
from kandev_sched.domain.schedules import Trigger
from kandev_sched.flow.arming import arm, next_unfired, set_aside
from kandev_sched.flow.settle import cancel_if_empty, cancel_request
from kandev_sched.operations import lookup
from kandev_sched.operations.resources import (
    ROUTINE_FIELDS,
    definition_of_routine,
    note_revision,
    refuse_stale,
    the_revision,
)
from kandev_sched.operations.schedules import Schedule
from kandev_sched.operations.triggers import add_trigger_to
from kandev_sched.policy import naming, template
from kandev_sched.store import activity, agents, routines, triggers, wakeups
from kandev_sched.store.db import Tx

CATCH_UP_MAX = (1, 1000)


class AddRoutine(Record):
    """A new routine; with a `task_title` each fire makes a task. `schedule` is its first trigger."""

    workspace: str = lookup.DEFAULT_WORKSPACE
    namespace: str = "default"
    name: str
    agent: str
    description: str = ""
    task_title: str | None = None
    task_description: str | None = None
    variables: tuple[Variable, ...] = ()
    concurrency: ConcurrencyPolicy = ConcurrencyPolicy.COALESCE_IF_ACTIVE
    catch_up: CatchUpPolicy = CatchUpPolicy.ENQUEUE_MISSED_WITH_CAP
    catch_up_max: int = 25
    misfire_grace_s: int = 60
    catch_up_max_age_s: int | None = None
    is_paused: bool = False
    schedule: Schedule | None = None


class AddedRoutine(Record):
    """The routine and its first trigger."""

    routine: Routine
    trigger: Trigger | None = None


def add_routine(tx: Tx, command: AddRoutine) -> AddedRoutine:
    """Raises Invalid for values that cannot be, NotFound for the agent, Conflict when the name is taken."""
    workspace = lookup.workspace_for_writing(tx, command.workspace)
    name = naming.checked_name("routine", command.name)
    namespace = naming.checked_name("namespace", command.namespace)
    if "/" in name + namespace:
        raise Invalid(f"{name!r:.60} contains a slash", hint="a slash stands between namespace and name")
    if routines.by_name(tx, workspace_id=workspace.id, name=name, namespace=namespace) is not None:
        raise Conflict(
            f"there is a routine {name!r} already", hint="choose another name, or `sched routine set`"
        )
    agent = lookup.the_agent(tx, workspace, command.agent)
    texts = (command.description, command.task_title, command.task_description)
    routine = Routine(
        id=tx.new_id("rt"),
        workspace_id=workspace.id,
        namespace=namespace,
        name=name,
        description=naming.checked_text("description", command.description),
        agent_id=agent.id,
        status=RoutineStatus.PAUSED if command.is_paused else RoutineStatus.ACTIVE,
        concurrency_policy=command.concurrency,
        catch_up_policy=command.catch_up,
        catch_up_max=_within_cap(command.catch_up_max),
        misfire_grace_s=_grace(command.misfire_grace_s),
        catch_up_max_age_s=_age(command.catch_up_max_age_s),
        task_title=_text_or_none("task title", command.task_title),
        task_description=_text_or_none("task description", command.task_description),
        variables=template.declare_missing(checked_variables(command.variables), *texts),
        created_at=tx.now,
        updated_at=tx.now,
    )
    if routine.task_description and not routine.task_title:
        raise Invalid("a task description was given without a task title", hint="add --task-title")
    routines.add(tx, routine)
    note_revision(tx, routine.id, 1, definition_of_routine(tx, routine))
    trigger = add_trigger_to(tx, routine, command.schedule) if command.schedule else None
    return AddedRoutine(routine=routine, trigger=trigger)


class SetRoutine(Record):
    """Change what is given, leave the rest; the schedule is not touched (behaviour.md §3 Editing).

    `if_match`: the etag that the caller saw; another one is a Conflict that changes nothing.
    """

    workspace: str = lookup.DEFAULT_WORKSPACE
    routine: str
    agent: str | None = None
    description: str | None = None
    task_title: str | None = None
    task_description: str | None = None
    variables: tuple[Variable, ...] | None = None
    concurrency: ConcurrencyPolicy | None = None
    catch_up: CatchUpPolicy | None = None
    catch_up_max: int | None = None
    misfire_grace_s: int | None = None
    catch_up_max_age_s: int | None = None
    if_match: str | None = None


def set_routine(tx: Tx, command: SetRoutine) -> Routine:
    """Raises Invalid, NotFound, Conflict."""
    workspace = lookup.workspace_for_writing(tx, command.workspace)
    routine = lookup.the_routine(tx, workspace, command.routine)
    refuse_stale(routine.id, routine.generation, command.if_match)
    checked = {
        "agent_id": lookup.the_agent(tx, workspace, command.agent).id if command.agent else None,
        "description": _text_or_none("description", command.description),
        "task_title": _text_or_none("task title", command.task_title),
        "task_description": _text_or_none("task description", command.task_description),
        "variables": checked_variables(command.variables) if command.variables is not None else None,
        "concurrency_policy": command.concurrency,
        "catch_up_policy": command.catch_up,
        "catch_up_max": _within_cap(command.catch_up_max) if command.catch_up_max is not None else None,
        "misfire_grace_s": _grace(command.misfire_grace_s) if command.misfire_grace_s is not None else None,
        "catch_up_max_age_s": _age(command.catch_up_max_age_s),
    }
    changed = routine.replace(**{name: value for name, value in checked.items() if value is not None})
    texts = (changed.description, changed.task_title, changed.task_description)
    return _saved(tx, changed.replace(variables=template.declare_missing(changed.variables, *texts)))


def roll_back(tx: Tx, routine: Routine, number: int) -> Routine:
    """Give the routine the definition of an earlier revision, as a new one; its status stays."""
    wanted = the_revision(tx, routine.id, number).definition
    agent = agents.by_id(tx, str(wanted["agent_id"]))
    if agent is None or agent.archived_at is not None:
        raise Conflict(
            f"the agent of revision {number} is archived", hint="set another agent with `routine set`"
        )
    fields = [name for name in ROUTINE_FIELDS if name != "status" and name in wanted]
    types = field_types(Routine)
    earlier = {name: from_plain(types[name], wanted[name], name) for name in fields}
    return _saved(tx, routine.replace(agent_id=agent.id, **earlier))


def pause_routine(tx: Tx, routine: Routine, *, note: str | None = None) -> Routine:
    """Nothing fires until `resume`; what is queued stays queued. `note` says why."""
    checked = _text_or_none("note", note)
    return _with_status(tx, routine.replace(status_note=checked), RoutineStatus.PAUSED)


def resume_routine(tx: Tx, routine: Routine) -> Routine:
    """Pause is not downtime: nothing is caught up."""
    return _with_status(tx, routine.replace(status_note=None), RoutineStatus.ACTIVE)


def archive_routine(tx: Tx, routine: Routine) -> Routine:
    """Gone for good; its requests that were not prompted yet are cancelled, and runs that held nothing else
    (`routine_deleted`).
    """
    for request in wakeups.open_of_routine(tx, routine.id):
        if request.delivered_attempt is None:
            cancel_request(tx, request, reason="routine_deleted")
            cancel_if_empty(tx, request.run_id or "", reason="routine_deleted")
    tx.wake_supervisor()
    return _with_status(tx, routine, RoutineStatus.ARCHIVED)


def _with_status(tx: Tx, routine: Routine, status: RoutineStatus) -> Routine:
    if routine.status is status:
        return routine
    changed = routine.replace(status=status)
    for trigger in triggers.of_routine(tx, routine.id):
        try:
            at = arm(trigger, changed, now=tx.now)
            triggers.set_next(tx, trigger.id, None if at is None else next_unfired(tx, trigger, tx.now))
        except SchedError as error:
            set_aside(tx, trigger, error.message)
    activity.record(
        tx,
        f"routine_{status}",
        f"routine {routine.name} is {status}{f': {changed.status_note}' if changed.status_note else ''}",
        workspace_id=routine.workspace_id,
        routine_id=routine.id,
    )
    return _saved(tx, changed)


def _saved(tx: Tx, routine: Routine) -> Routine:
    routines.save(tx, routine)
    tx.wake_supervisor()
    changed = routines.by_id(tx, routine.id)
    assert changed is not None
    note_revision(tx, changed.id, changed.generation, definition_of_routine(tx, changed))
    return changed


def checked_variables(variables: tuple[Variable, ...]) -> tuple[Variable, ...]:
    """Declarations that make sense, each name once. Raises Invalid."""
    seen: set[str] = set()
    for variable in variables:
        if not variable.name.isidentifier() or not variable.name.isascii():
            raise Invalid(f"{variable.name!r:.60} is not a variable name", hint="use letters, digits and _")
        if variable.name in seen:
            raise Invalid(f"the variable {variable.name!r} is declared twice", hint="declare it once")
        if (variable.type is VariableType.SELECT) != bool(variable.options):
            raise Invalid(
                f"the variable {variable.name!r} is of type {variable.type}", hint="options go with select"
            )
        if variable.default is not None:
            template.checked(variable, variable.default)
        seen.add(variable.name)
    return variables


def _text_or_none(what: str, text: str | None) -> str | None:
    return None if text is None else naming.checked_text(what, text)


def _within_cap(value: int) -> int:
    low, high = CATCH_UP_MAX
    if not low <= value <= high:
        raise Invalid(f"catch-up-max is {value}", hint=f"it must be between {low} and {high}")
    return value


def _age(value: int | None) -> int | None:
    if value is not None and value < 1:
        raise Invalid(f"catch-up-max-age is {value}", hint="it must be at least 1s")
    return value


def _grace(value: int) -> int:
    if value < 0:
        raise Invalid(f"misfire-grace is {value}", hint="it must not be negative")
    return value
