"""The judge of the model: was each ending true, was each request told, does each agent have its run?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from invariants import WHY_CANCELLED_BY_STALENESS, Row, State, i6_a_missed_slot_does_not_fire
from model_world import MachineWorld

from kandev_sched.domain.wakeups import WakeupSource
from kandev_sched.launch.executor import AttemptRef, AttemptState, Ending

BY_USER = "cancelled by the user"


class Judge:
    """Looks at every commit of one history. `may_cancel`: the requests that a person wanted to end."""

    def __init__(self, world: MachineWorld) -> None:
        self.world = world
        self.may_cancel: set[str] = set()
        self.was_set_back = False  # the clock

    def __call__(self, before: State, after: State) -> list[str]:
        """Each request that this commit ended, and each agent that works after it."""
        ended = [
            sentence
            for request in after.requests.values()
            if request["finished_at"] is not None
            and before.requests.get(request["id"], request | {"finished_at": None})["finished_at"] is None
            for sentence in self._why_wrong(request, before, after)
        ]
        missed = [] if self.was_set_back else i6_a_missed_slot_does_not_fire(after)
        return [*ended, *self._agents_without_a_run(after), *missed]

    def _agents_without_a_run(self, after: State) -> Iterator[str]:
        """I11, for the agents of this machine."""
        for ref, attempt in self.world.machine.attempts.items():
            run = after.runs[ref.run_id]
            works = attempt.state is AttemptState.RUNNING or attempt.stray_count > 0
            if works and (run["status"], run["attempt"]) != ("claimed", ref.attempt):
                yield f"I11: {ref} works, its run is {run['status']} at attempt {run['attempt']}"

    def _why_wrong(self, request: Row, before: State, after: State) -> Iterator[str]:
        name = f"{request['source']} request {request['id']}"
        match request["ending"]:
            case "delivered" | "failed":
                yield from self._why_not_told(name, request)
            case "skipped":
                yield from self._why_not_skipped(name, request, after)
            case "cancelled":
                reason = request["reason"]
                if not self._may_be_cancelled(request, reason, before, after):
                    run = after.runs.get(request["run_id"])
                    yield f"I1: {name} was cancelled ({reason}) and nothing asked for that; run {run}"

    def _told_by(self, request: Row) -> tuple[AttemptRef, list[str]]:
        """The attempt that ended with the request, and what it was told."""
        state = self.world.state
        ref = AttemptRef(run_id=request["run_id"], attempt=state.runs[request["run_id"]]["attempt"])
        return ref, self.world.told().get((ref.run_id, ref.attempt), [])

    def _why_not_told(self, name: str, request: Row) -> Iterator[str]:
        ref, told = self._told_by(request)
        if request["ending"] == "failed":
            if told and request["id"] not in told:
                yield f"§2: {name} failed with {ref}, whose agent was not told of it"
            return
        result = self.world.machine.attempts[ref].result
        is_success = result is not None and (result.ending, result.exit_code) == (Ending.EXITED, 0)
        if request["id"] not in told or not is_success:
            yield f"I1: {name} ended delivered; {ref} was told {told} and left {result}"

    def _why_not_skipped(self, name: str, request: Row, after: State) -> Iterator[str]:
        match request["reason"]:
            case "served":
                ref, told = self._told_by(request)
                routines = {after.requests[i]["routine_id"] for i in told} - {None}
                if not request["periodic"] or request["routine_id"] not in routines:
                    yield f"§2: {name} counts as served by {ref}, which was told of {routines}"
            case "no_actionable_tasks":
                yield from self._why_not_idle(name, request, after)
            case "skip_if_active":
                if after.routines[request["routine_id"]]["concurrency_policy"] != "skip_if_active":
                    yield f"§2: {name} was skipped by a policy that its routine does not have"
            case reason:
                yield f"I1: {name} was skipped ({reason}), which no rule knows"

    def _why_not_idle(self, name: str, request: Row, after: State) -> Iterator[str]:
        agent = after.agents[request["agent_id"]]
        work = [
            t["id"]
            for t in after.tasks.values()
            if t["assignee_agent_id"] == agent["id"]
            and t["state"] in ("TODO", "IN_PROGRESS")
            and t["archived_at"] is None
        ]
        if not request["periodic"] or not agent["skip_idle_wakeups"]:
            yield f"§2: {name} was skipped as idle; it is an event, or its agent does not skip"
        if work:
            yield f"§2: {name} was skipped as idle, its agent {agent['name']} has tasks {work}"

    def _may_be_cancelled(self, request: Row, reason: str, before: State, after: State) -> bool:
        agent_gone = after.agents[request["agent_id"]]["archived_at"] is not None
        match reason:
            case "agent_gone":
                return agent_gone
            case "routine_deleted":
                return bool(after.routines[request["routine_id"]]["status"] == "archived")
            case reason if reason == BY_USER:
                return request["id"] in self.may_cancel or agent_gone
            case reason if reason in WHY_CANCELLED_BY_STALENESS:
                return self._is_stale(request, reason, before) or self._is_stale(request, reason, after)
        return False

    def _is_stale(self, request: Row, reason: str, state: State) -> bool:
        task = state.tasks.get(request["task_id"])
        if task is None:
            return False
        match reason:
            case "task_terminal":
                return task["state"] in ("DONE", "CANCELLED") or task["archived_at"] is not None
            case "assignee_changed":
                return request["capacity"] == "assignee" and task["assignee_agent_id"] != request["agent_id"]
            case "review_participant_changed":
                is_participant = request["capacity"] in state.capacities(task["id"], request["agent_id"])
                return request["capacity"] in ("reviewer", "approver") and not is_participant
        return False

    def prompts_name_everything(self, state: State) -> Iterator[str]:
        """Each request that an agent was told of stands in the text too, by its own facts."""
        for ref, attempt in self.world.machine.attempts.items():
            if attempt.spec is None:
                continue
            for entry in json.loads(attempt.spec.wakeups_json):
                marker = marker_of(state, entry)
                if marker not in attempt.spec.prompt:
                    yield f"I1: the prompt of {ref} does not name {entry['source']} {entry['id']} ({marker})"


def marker_of(state: State, entry: dict[str, Any]) -> str:
    """The words by which a prompt must name a request."""
    payload = entry["payload"]
    match WakeupSource(entry["source"]):
        case WakeupSource.ROUTINE:
            return str(state.routines[payload["routine_id"]]["name"])
        case WakeupSource.TASK_BLOCKERS_RESOLVED:
            return str(payload["resolved_blocker_ids"][0])
        case WakeupSource.TASK_ASSIGNED | WakeupSource.TASK_CHILDREN_COMPLETED:
            return str(payload["task_id"])
    names = ("comment_id", "failed_agent_id", "reason", "user_id", "approval_id", "agent_instance_id")
    return str(next(payload[name] for name in names if name in payload))
