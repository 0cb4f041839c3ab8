"""The twelve steps of S0's pipeline, each public and testable alone; `pipeline.py` names them in order.

A step that must end the run raises `Stop(outcome)`, which rolls its transaction back; `settle` then writes
the ending.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kandev_sched.domain.agents import Agent, Executor, Profile
from kandev_sched.domain.record import Record
from kandev_sched.domain.routines import Routine, RoutineRun
from kandev_sched.domain.runs import Run, Session
from kandev_sched.domain.tasks import Task
from kandev_sched.domain.wakeups import Capacity, WakeupRequest
from kandev_sched.domain.workspaces import Workspace
from kandev_sched.flow.settle import Outcome, OutcomeKind, cancel_request
from kandev_sched.policy import admission, placement, prompt
from kandev_sched.store import agents, attempts, routines, runs, tasks, wakeups, workspaces
from kandev_sched.store.db import Reader, Tx

NOTHING_TO_DO = "no_open_request"


class Stop(Exception):
    """The run ends (or goes back to the queue) with this outcome."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.reason or outcome.error or outcome.kind)
        self.outcome = outcome


def stop(kind: OutcomeKind, requests: Sequence[WakeupRequest], **facts: object) -> Stop:
    """A Stop whose verdict counts for `requests`."""
    judged = frozenset(request.id for request in requests)
    return Stop(Outcome(kind=kind, judged=judged, **facts))  # type: ignore[arg-type]


# ---- 1 --------------------------------------------------------------------------------------------------


def claim(tx: Tx, *, max_sessions: int) -> Run | None:
    """Step 1: the oldest eligible run, queued → claimed; the same transaction takes its task's checkout."""
    run = runs.claim_next(tx, max_sessions=max_sessions)
    if run is not None and run.task_id is not None:
        taken = tasks.check_out(tx, task_id=run.task_id, agent_id=run.agent_id, run_id=run.id)
        assert taken, "the claim looks only at runs whose task is free"
    return run


# ---- 2 to 6: admit -----------------------------------------------------------------------------------------


def guard_agent(tx: Tx, run: Run) -> Agent:
    """Step 2: a paused or stopped agent keeps its queue, an archived one loses it."""
    agent, workspace = the_agent(tx, run), the_workspace(tx, run)
    is_open = workspace.enabled and workspace.paused_at is None
    match admission.guard(agent, is_workspace_open=is_open):
        case admission.Guard.HOLD:
            held = (
                f"agent {agent.name} is {agent.status}"
                if is_open
                else f"workspace {workspace.name} is closed"
            )
            raise Stop(Outcome(kind=OutcomeKind.UNCLAIMED, reason=held))
        case admission.Guard.GONE:
            raise stop(OutcomeKind.CANCELLED, wakeups.open_of_run(tx, run.id), reason="agent_gone")
        case admission.Guard.PROCEED:
            return agent


def drop_stale(tx: Tx, run: Run) -> tuple[list[WakeupRequest], list[str]]:
    """Step 3: cancel each request whose task scope no longer holds; what remains, and why the others went."""
    requests = wakeups.open_of_run(tx, run.id)
    task = tasks.by_id(tx, run.task_id) if run.task_id else None
    capacities = _capacities(tx, run)
    judged = [(request, admission.staleness(request, task, capacities)) for request in requests]
    reasons = {request.id: reason for request, reason in judged if reason}
    remaining = [request for request, reason in judged if reason is None]
    if not remaining:
        first = next(iter(reasons.values()), _why_cancelled(runs.by_id(tx, run.id)))
        raise stop(OutcomeKind.CANCELLED, requests, reason=first, reasons=reasons)
    for request, reason in judged:
        if reason is not None:
            cancel_request(tx, request, reason=reason)
    return remaining, list(reasons.values())


def _why_cancelled(run: Run | None) -> str:
    return (run.cancel_reason if run else None) or NOTHING_TO_DO


def _capacities(reader: Reader, run: Run) -> frozenset[Capacity]:
    if run.task_id is None:
        return frozenset()
    return tasks.capacities(reader, task_id=run.task_id, agent_id=run.agent_id)


def skip_idle(tx: Tx, agent: Agent, requests: Sequence[WakeupRequest]) -> str:
    """Step 4 (S0 Idle wakeup skip): periodic wakes of an agent without actionable tasks launch nothing."""
    if not admission.may_skip_idle(agent, requests):
        return "not skippable"
    count = tasks.count_actionable(tx, agent.id)
    if count:
        return f"{count} actionable tasks"
    raise stop(OutcomeKind.IDLE, requests, reason="no_actionable_tasks")


def confirm_checkout(tx: Tx, run: Run) -> Task | None:
    """Step 5 (S0 Atomic task checkout): the claim took the task; confirm that it is ours."""
    if run.task_id is None:
        return None
    task = tasks.by_id(tx, run.task_id)
    if task is None or task.checkout_run_id != run.id:
        holder = task.checkout_run_id if task else None
        raise Stop(Outcome(kind=OutcomeKind.UNCLAIMED, reason=f"task held by run {holder}"))
    return task


def check_budget(_tx: Tx, _run: Run) -> str:
    """Step 6 (S0 Pre-execution budget check): no budget policies exist yet, so none can be exceeded."""
    return "no policies"


# ---- 7 to 10: prepare --------------------------------------------------------------------------------------


class Context(Record):
    """What the agent will be told."""

    prompt: str
    requests: tuple[WakeupRequest, ...]
    occurrences: Mapping[str, RoutineRun]


def build_context(tx: Tx, run: Run, agent: Agent, task: Task | None) -> Context:
    """Step 7: the prompt, from the list of requests; those that come later are late."""
    requests = wakeups.open_of_run(tx, run.id)
    current = runs.by_id(tx, run.id)
    if current is None or current.cancel_requested_at is not None:
        # What was meant has ended with the cancel; what joined after it follows up.
        raise stop(OutcomeKind.CANCELLED, (), reason=_why_cancelled(current))
    if not requests:  # the last one ended after step 3
        raise stop(OutcomeKind.CANCELLED, (), reason=NOTHING_TO_DO)
    text = prompt.build(
        agent=agent, task=task, requests=requests, routines=_routines_of(tx, requests), attempt=run.attempt
    )
    wakeups.mark_prompted(tx, run.id, run.attempt)
    return Context(prompt=text, requests=tuple(requests), occurrences=_occurrences_of(tx, requests))


def _occurrences_of(reader: Reader, requests: Sequence[WakeupRequest]) -> Mapping[str, RoutineRun]:
    ids = {request.routine_run_id for request in requests if request.routine_run_id}
    found = [routines.run_by_id(reader, routine_run_id) for routine_run_id in ids]
    return {occurrence.id: occurrence for occurrence in found if occurrence is not None}


def _routines_of(reader: Reader, requests: Sequence[WakeupRequest]) -> Mapping[str, Routine]:
    ids = {request.routine_id for request in requests if request.routine_id}
    found = [routines.by_id(reader, routine_id) for routine_id in ids]
    return {routine.id: routine for routine in found if routine is not None}


def resolve_executor(tx: Tx, run: Run, agent: Agent, task: Task | None) -> Executor | None:
    """Step 8: task → agent → project → workspace default; None is this machine."""
    project = workspaces.project(tx, task.project_id) if task and task.project_id else None
    executor_id = placement.executor_id(
        task=task, agent=agent, project=project, workspace=the_workspace(tx, run)
    )
    return workspaces.executor(tx, executor_id) if executor_id else None


def resolve_profile(tx: Tx, run: Run, agent: Agent, requests: Sequence[WakeupRequest]) -> Profile:
    """Step 9: the agent's profile, else the workspace's default."""
    profile_id = placement.profile_id(agent=agent, workspace=the_workspace(tx, run))
    profile = agents.profile(tx, profile_id) if profile_id else None
    if profile is None:
        error = f"agent {agent.name} has no profile: set one with `sched agent set {agent.name} --command …`"
        raise stop(OutcomeKind.FAILED, requests, error=error, is_permanent=True)
    return profile


def create_session(tx: Tx, run: Run) -> Session:
    """Step 10: one session an attempt."""
    session = Session(
        id=tx.new_id("se"),
        workspace_id=run.workspace_id,
        agent_id=run.agent_id,
        task_id=run.task_id,
        run_id=run.id,
        attempt=run.attempt,
        created_at=tx.now,
    )
    attempts.add_session(tx, session)
    return session


# ---- common ---------------------------------------------------------------------------------------------


def the_agent(reader: Reader, run: Run) -> Agent:
    """The agent of a run."""
    agent = agents.by_id(reader, run.agent_id)
    assert agent is not None, "agents are archived, never deleted"
    return agent


def the_workspace(reader: Reader, run: Run) -> Workspace:
    """The workspace of a run."""
    workspace = workspaces.by_id(reader, run.workspace_id)
    assert workspace is not None, "workspaces are disabled, never deleted"
    return workspace
