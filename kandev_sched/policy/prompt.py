"""The prompt: why the agent was woken, one entry a wakeup, in order. Nothing that was merged is left out."""

from __future__ import annotations

import json

from kandev_sched.domain.instant import rfc3339
from kandev_sched.domain.payloads import (
    AgentErrorPayload,
    ApprovalResolvedPayload,
    BudgetAlertPayload,
    CommentPayload,
    RoutinePayload,
    SelfPayload,
    TaskAssignedPayload,
    TaskBlockersResolvedPayload,
    TaskChildrenCompletedPayload,
    UserPayload,
    decode,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kandev_sched.domain.agents import Agent
    from kandev_sched.domain.payloads import Payload
    from kandev_sched.domain.routines import Routine
    from kandev_sched.domain.tasks import Task
    from kandev_sched.domain.wakeups import WakeupRequest

ENTRY_LIMIT = 50


def build(
    *,
    agent: Agent,
    task: Task | None,
    requests: Sequence[WakeupRequest],
    routines: Mapping[str, Routine],
    attempt: int,
) -> str:
    """The text that the agent gets on its standard input."""
    parts = [f"You are {agent.name} ({agent.role}), woken by sched."]
    if task is not None:
        parts.append(_task_part(task))
    parts.append(_wakeups_part(requests, routines, attempt))
    return "\n\n".join(parts) + "\n"


def _task_part(task: Task) -> str:
    text = f"Your task: {task.title} ({task.id}, {task.state})"
    return f"{text}\n\n{quoted(task.description)}" if task.description else text


def _wakeups_part(requests: Sequence[WakeupRequest], routines: Mapping[str, Routine], attempt: int) -> str:
    count = len(requests)
    head = "Why you were woken:" if count == 1 else f"Why you were woken ({count} wakeups, oldest first):"
    groups = _grouped(requests)
    lines = [f"{number}. {_entry(group, routines, attempt)}" for number, group in enumerate(groups, 1)]
    shown, left = lines[:ENTRY_LIMIT], len(lines) - ENTRY_LIMIT
    if left > 0:
        shown.append(f"… and {left} more: sched inspect run {requests[0].run_id} lists them all")
    return "\n".join([head, *shown])


def _grouped(requests: Sequence[WakeupRequest]) -> list[list[WakeupRequest]]:
    """One entry an event; the ticks of a routine's schedule are one entry, where the first of them stands."""
    groups: dict[str, list[WakeupRequest]] = {}
    for request in requests:
        is_tick = request.periodic and request.routine_id is not None
        groups.setdefault(f"{request.routine_id}" if is_tick else request.id, []).append(request)
    return list(groups.values())


def _entry(group: Sequence[WakeupRequest], routines: Mapping[str, Routine], attempt: int) -> str:
    """A wakeup with its facts; of several ticks the newest one's, with how many there are and since when."""
    request = max(group, key=_instant)
    instants = sorted(map(_instant, group))
    text = f"[{rfc3339(instants[-1])}] {request.source}: "
    if len(group) > 1:
        text += f"{len(group)} ticks from {rfc3339(instants[0])} to {rfc3339(instants[-1])} of "
    text += _sentence(decode(request.source, request.payload), routines)
    seen = [r for r in group if r.delivered_at is not None and r.delivered_attempt not in (None, attempt)]
    if seen:
        text += f"\n   (seen in attempt {seen[-1].delivered_attempt}; it may have acted)"
    return text


def _instant(request: WakeupRequest) -> int:
    return request.scheduled_for_at or request.requested_at


def _sentence(payload: Payload, routines: Mapping[str, Routine]) -> str:  # noqa: C901, PLR0911 - one arm a source
    match payload:
        case RoutinePayload():
            return _routine_sentence(payload, routines.get(payload.routine_id))
        case CommentPayload():
            return f"comment {payload.comment_id} on task {payload.task_id}"
        case AgentErrorPayload():
            return f"agent {payload.failed_agent_id} failed\n{quoted(payload.error)}"
        case SelfPayload():
            return f"you asked for it\n{quoted(payload.reason)}{_quoted_json(payload.payload)}"
        case UserPayload():
            return f"{payload.user_id} asks for you{_quoted_json(payload.context)}"
        case TaskAssignedPayload():
            return f"task {payload.task_id} is yours"
        case TaskBlockersResolvedPayload():
            return f"task {payload.task_id} is no longer blocked by {', '.join(payload.resolved_blocker_ids)}"
        case TaskChildrenCompletedPayload():
            return f"all children of task {payload.task_id} have ended"
        case ApprovalResolvedPayload():
            return f"approval {payload.approval_id} was {payload.status}\n{quoted(payload.decision_note)}"
        case BudgetAlertPayload():
            return f"agent {payload.agent_instance_id} has used {payload.budget_pct:g} % of its budget"


def _routine_sentence(payload: RoutinePayload, routine: Routine | None) -> str:
    text = f"routine {routine.name if routine else payload.routine_id}"
    if payload.missed_ticks:
        text += f"; you missed {payload.missed_ticks} ticks since {payload.missed_since}"
    if routine and routine.description:
        from kandev_sched.policy.template import render

        text += f"\n{quoted(render(routine.description, payload.variables))}"
    for name, value in payload.variables.items():
        text += f"\n   {name} ="
        text += f"\n{quoted(value)}" if len(value.splitlines()) > 1 else f" {value}"
    return text


def quoted(text: str) -> str:
    """People's words, marked as such on every line, so that they cannot be taken for ours."""
    return "\n".join(f"   > {line}" for line in text.splitlines())


def _quoted_json(value: object) -> str:
    return f"\n{quoted(json.dumps(value, ensure_ascii=False, indent=2))}" if value else ""
