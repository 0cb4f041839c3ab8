"""Fire a routine by hand, wake an agent: the two operations that people and programs ask for all day."""

from __future__ import annotations

from kandev_sched.domain.errors import Conflict, Invalid
from kandev_sched.domain.record import Record
from kandev_sched.domain.routines import FireSource
from kandev_sched.domain.schedules import TriggerKind
from kandev_sched.domain.wakeups import WakeupRequest, WakeupSource
from kandev_sched.domain.workspaces import Permission
from kandev_sched.flow.dispatch import request_wakeup
from kandev_sched.flow.firing import Fired, Firing, fire
from kandev_sched.operations import lookup
from kandev_sched.policy import dedup
from kandev_sched.policy.naming import checked_text
from kandev_sched.store import triggers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.domain.runs import Run
    from kandev_sched.domain.settings import Settings
    from kandev_sched.store.db import Tx


class FireRoutine(Record):
    """Fire `routine` now. `key`: asking again with the same key returns the first fire."""

    workspace: str = lookup.DEFAULT_WORKSPACE
    routine: str
    variables: dict[str, str]
    key: str | None = None


def fire_routine(tx: Tx, command: FireRoutine, settings: Settings) -> Fired:
    """A manual fire is an occurrence of its own and never moves the schedule (S1 Manual Run now)."""
    workspace = lookup.workspace_for_writing(tx, command.workspace)
    routine = lookup.the_routine(tx, workspace, command.routine)
    principal = lookup.acting_principal(tx, workspace.id, Permission.RUNS_EXECUTE)
    for name, value in command.variables.items():
        checked_text(f"value of {name}", value)
    zones = {t.zone for t in triggers.of_routine(tx, routine.id) if t.kind is TriggerKind.SCHEDULE}
    firing = Firing(
        routine=routine,
        source=FireSource.MANUAL,
        provided=command.variables,
        key=command.key,
        zone=zones.pop() if len(zones) == 1 else "UTC",
        principal_id=principal.id,
        window_s=settings.coalesce_window_s,
    )
    return fire(tx, firing)


class WakeAgent(Record):
    """Wake `agent` for a reason. `as_self`: the agent asks for itself."""

    workspace: str = lookup.DEFAULT_WORKSPACE
    agent: str
    reason: str
    user: str
    task: str | None = None
    payload: dict[str, object] | None = None
    key: str | None = None
    as_self: bool = False


class Woken(Record):
    """The request, and the run that holds it."""

    wakeup: WakeupRequest
    run: Run
    is_duplicate: bool = False


def wake_agent(tx: Tx, command: WakeAgent, settings: Settings) -> Woken:
    """A `user` wakeup, or a `self` one. Raises NotFound, Invalid, Conflict."""
    workspace = lookup.workspace_for_writing(tx, command.workspace)
    agent = lookup.the_agent(tx, workspace, command.agent)
    task = lookup.the_task(tx, workspace, command.task) if command.task else None
    if not command.reason.strip():
        raise Invalid("the reason is empty", hint="say why with --reason 'look at the failing build'")
    if task is not None and task.archived_at is not None:
        raise Conflict(f"task {task.id} is archived")
    request = WakeupRequest(
        id=tx.new_id("wk"),
        workspace_id=workspace.id,
        agent_id=agent.id,
        source=WakeupSource.SELF if command.as_self else WakeupSource.USER,
        payload=_payload(command),
        task_id=task.id if task else None,
        idempotency_key=dedup.checked_key(command.key),
        requested_at=tx.now,
    )
    given = request_wakeup(tx, request, window_s=settings.coalesce_window_s)
    return Woken(wakeup=given.request, run=given.run, is_duplicate=given.is_duplicate)


def _payload(command: WakeAgent) -> dict[str, object]:
    checked_text("reason", command.reason)
    if command.as_self:
        given = {"payload": command.payload} if command.payload is not None else {}
        return {"reason": command.reason, **given}
    return {"user_id": command.user, "context": {"reason": command.reason, **(command.payload or {})}}
