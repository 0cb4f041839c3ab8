"""Steps 2 to 12: guard, staleness, idle skip, budget, context, placement, session, launch, and the trace."""

from __future__ import annotations

import json
import logging
import os

import pytest
from world import MINUTE, World

from kandev_sched.domain.agents import AgentRole, Executor
from kandev_sched.domain.runs import RunStatus, SessionState, StepName
from kandev_sched.domain.tasks import TaskState
from kandev_sched.domain.wakeups import Capacity, WakeupStatus
from kandev_sched.operations import agents as agent_operations
from kandev_sched.operations import workspaces as workspace_operations
from kandev_sched.policy.coalesce import ConcurrencyPolicy
from kandev_sched.store import workspaces

# --- the trace --------------------------------------------------------------------------------------------


def test_the_twelve_steps_leave_their_lines_in_order(world: World) -> None:
    """S0 pipeline: twelve steps in order; architecture rule 2: every step leaves a line in `run_steps`."""
    bot = world.given_agent()
    world.request("user", bot, task=world.given_task(agent=bot))
    run = world.process()
    world.finish(run)
    lines = world.steps_of(run)
    assert [line.name for line in lines] == [
        "claim",
        "guard",
        "staleness",
        "idle_skip",
        "checkout",
        "budget",
        "context",
        "executor",
        "execution_agent",
        "session",
        "launch",
        "finish",
    ]
    assert [line.position for line in lines] == list(range(1, 13))
    assert [line.verdict for line in lines] == ["ok"] * 11 + ["succeeded"]
    assert {line.attempt for line in lines} == {1}
    assert all(line.duration_ms >= 0 and line.started_at == world.now for line in lines)


def test_every_attempt_leaves_its_own_lines(world: World) -> None:
    """architecture rule 2: the trace tells what each attempt passed."""
    world.request("user", world.given_agent())
    run = world.process()
    world.fail(run)
    world.advance(150)
    world.process()
    world.finish(run)
    lines = world.steps_of(run)
    assert [line.name for line in lines] == list(StepName) * 2
    assert [line.verdict for line in lines if line.name is StepName.FINISH] == ["failed", "succeeded"]


@pytest.mark.parametrize(
    ("how", "step", "verdict"),
    [
        ("paused", StepName.GUARD, "unclaimed"),
        ("stale", StepName.STALENESS, "cancelled"),
        ("idle", StepName.IDLE_SKIP, "idle_skipped"),
        ("no profile", StepName.EXECUTION_AGENT, "failed"),
        ("cancelled before the prompt", StepName.CONTEXT, "cancelled"),
        ("cancelled before the launch", StepName.LAUNCH, "cancelled"),
    ],
)
def test_a_step_that_ends_the_run_is_the_last_line_before_finish(
    world: World, how: str, step: StepName, verdict: str
) -> None:
    """architecture rule 2: a step that must end the run raises Stop; only settle writes endings."""
    bot = world.given_agent(argv=None if how == "no profile" else ("agent",))
    if how == "idle":
        run_id = world.fire_by_schedule(world.given_routine(agent=bot)).run.id
    else:
        task = world.given_task(agent=bot)
        run_id = world.request("user", bot, task=task).run_id
    if how == "stale":
        world.move(task, TaskState.DONE)
    if how == "paused":
        world.meanwhile("admit", lambda: world.pause(bot))
    if how == "cancelled before the prompt":
        world.meanwhile("prepare", lambda: world.cancel(run_id))
    if how == "cancelled before the launch":
        world.meanwhile("launch", lambda: world.cancel(run_id))
    run = world.process()
    lines = world.steps_of(run)
    stopped = list(StepName).index(step)
    assert [line.name for line in lines] == [*list(StepName)[: stopped + 1], StepName.FINISH]
    assert lines[-2].verdict == "stop"
    assert lines[-2].detail
    assert lines[-1].verdict == verdict
    assert world.machine.specs == []


# --- 2 guard ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("act", ["pause", "stop", "pause workspace", "disable workspace"])
def test_a_hold_found_by_the_guard_un_claims_and_loses_nothing(world: World, act: str) -> None:
    """behaviour §2 Un-claim: list and `requested_at` kept, no `retry_count`, no cooldown, checkout freed."""
    bot = world.given_agent(cooldown_s=10)
    task = world.given_task(agent=bot)
    requests = [world.request("user", bot, task=task) for _ in range(3)]
    asked_at = world.now
    world.advance(1)
    hold = {
        "pause": lambda: world.pause(bot),
        "stop": lambda: world.stop(bot),
        "pause workspace": lambda: world.db.write(
            lambda tx: workspace_operations.pause_workspace(tx, "default")
        ),
        "disable workspace": lambda: world.db.write(
            lambda tx: workspace_operations.set_workspace(
                tx, workspace_operations.SetWorkspace(name="default", enabled=False)
            )
        ),
    }
    world.meanwhile("admit", hold[act])
    run = world.process()
    assert (run.status, run.requested_at, run.retry_count) == (RunStatus.QUEUED, asked_at, 0)
    assert (run.claimed_at, run.scheduled_retry_at, run.error) == (None, None, None)
    assert [request.id for request in world.requests_of(run)] == [request.id for request in requests]
    assert {request.ending for request in world.requests_of(run)} == {None}
    assert world.agent(bot).last_wakeup_finished_at is None
    assert world.task(task).checkout_run_id is None
    assert world.explain(run).startswith("held: ")
    assert world.machine.specs == []
    guard = next(line for line in world.steps_of(run) if line.name is StepName.GUARD)
    assert ("workspace" in guard.detail) is ("workspace" in act)
    world.resume(bot)
    world.db.write(lambda tx: workspace_operations.resume_workspace(tx, "default"))
    world.db.write(
        lambda tx: workspace_operations.set_workspace(
            tx, workspace_operations.SetWorkspace(name="default", enabled=True)
        )
    )
    assert world.process().id == run.id
    world.finish(run)
    assert {world.ending_of(request) for request in requests} == {("delivered", None)}


def test_an_agent_that_was_archived_meanwhile_gets_its_requests_cancelled(world: World) -> None:
    """behaviour §2 Un-claim: archived → agent_gone."""
    bot = world.given_agent()
    request = world.request("user", bot)
    world.meanwhile("admit", lambda: world.archive(bot))
    run = world.process()
    assert (run.status, run.cancel_reason) == (RunStatus.CANCELLED, "agent_gone")
    assert world.ending_of(request) == ("cancelled", "agent_gone")


# --- 3 staleness ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("Task assignee changed", "assignee_changed"),
        ("Task has no assignee any more", "assignee_changed"),
        ("Task reached terminal state DONE", "task_terminal"),
        ("Task reached terminal state CANCELLED", "task_terminal"),
        ("Task reached terminal state ARCHIVED", "task_terminal"),
        ("Task's review-stage participant changed", "review_participant_changed"),
    ],
)
def test_a_stale_wakeup_is_cancelled_with_its_reason_and_not_retried(
    world: World, how: str, reason: str
) -> None:
    """S0 Staleness check: each condition produces a distinct cancel reason; any held checkout is released."""
    bot, other = world.given_agent(), world.given_agent("other")
    task = world.given_task(agent=bot)
    capacity = Capacity.REVIEWER if "participant" in how else Capacity.ASSIGNEE
    request = world.request("user", bot, task=task, capacity=capacity)
    if "assignee changed" in how:
        world.assign(task, other)
    elif "no assignee" in how:
        world.assign(task, None)
    elif "ARCHIVED" in how:
        world.archive_task(task)
    elif "terminal" in how:
        world.move(task, TaskState(how.rsplit(" ", 1)[1]))
    run = world.process()
    assert (run.status, run.cancel_reason) == (RunStatus.CANCELLED, reason)
    assert (run.retry_count, run.scheduled_retry_at) == (0, None)
    assert world.ending_of(request) == ("cancelled", reason)
    assert world.wakeup(request).status is WakeupStatus.CANCELLED
    assert world.task(task).checkout_run_id is None
    assert world.machine.specs == []
    assert world.process() is None


def test_a_reviewer_who_is_still_one_is_woken(world: World) -> None:
    """behaviour §2 Stale wakeups: by what it asks: a reviewer's needs the participant still."""
    bot = world.given_agent()
    task = world.given_task()
    for capacity in (Capacity.REVIEWER, Capacity.APPROVER):
        world.given_reviewer(task, bot, capacity)
        world.request("user", bot, task=task, capacity=capacity)
        run = world.process()
        assert run.status is RunStatus.CLAIMED
        world.finish(run)


def test_an_approver_is_no_reviewer(world: World) -> None:
    """behaviour §2 Stale wakeups: judged by what it asks of the agent."""
    bot = world.given_agent()
    task = world.given_task()
    world.given_reviewer(task, bot, Capacity.APPROVER)
    request = world.request("user", bot, task=task, capacity=Capacity.REVIEWER)
    world.process()
    assert world.ending_of(request) == ("cancelled", "review_participant_changed")


@pytest.mark.parametrize("capacity", [Capacity.MENTIONED, Capacity.COORDINATOR, Capacity.NONE])
def test_an_agent_that_is_not_asked_as_assignee_needs_not_be_it(world: World, capacity: Capacity) -> None:
    """behaviour §2 Stale wakeups: an assignee's request needs the agent to be the assignee still."""
    bot = world.given_agent()
    task = world.given_task()
    world.request("user", bot, task=task, capacity=capacity)
    assert world.process().status is RunStatus.CLAIMED


def test_staleness_is_judged_per_request_and_the_rest_goes_on(world: World) -> None:
    """behaviour §2 Stale wakeups: the run is cancelled only when nothing remains."""
    bot, other = world.given_agent(), world.given_agent("other")
    task = world.given_task(agent=bot)
    stale = world.request("user", bot, task=task, capacity=Capacity.ASSIGNEE)
    valid = world.request("user", bot, task=task, capacity=Capacity.MENTIONED)
    world.assign(task, other)
    run = world.process()
    assert run.status is RunStatus.CLAIMED
    assert world.wakeups_told(run) == [valid.id]
    assert world.ending_of(stale) == ("cancelled", "assignee_changed")
    assert f"user-of-{stale.id}" not in world.prompt_of(run)
    (line,) = world.history("wakeup_cancelled")
    assert (line.wakeup_id, "assignee_changed" in line.sentence) == (stale.id, True)
    world.finish(run)
    assert world.ending_of(valid) == ("delivered", None)


def test_when_all_are_stale_each_is_cancelled_with_its_own_reason(world: World) -> None:
    """behaviour §2 Stale wakeups: stale requests are cancelled with their reason."""
    bot, other = world.given_agent(), world.given_agent("other")
    task = world.given_task(agent=bot)
    assignee = world.request("user", bot, task=task, capacity=Capacity.ASSIGNEE)
    reviewer = world.request("user", bot, task=task, capacity=Capacity.REVIEWER)
    world.assign(task, other)
    assert world.process().status is RunStatus.CANCELLED
    assert world.ending_of(assignee) == ("cancelled", "assignee_changed")
    assert world.ending_of(reviewer) == ("cancelled", "review_participant_changed")


def test_a_wakeup_about_the_end_of_a_task_is_not_stale_when_the_task_has_ended(world: World) -> None:
    """behaviour §2 Stale wakeups: save those that are *about* the end of a task."""
    bot = world.given_agent()
    task = world.given_task(agent=bot)
    world.request("approval_resolved", bot, task=task)
    world.move(task, TaskState.DONE)
    assert world.process().status is RunStatus.CLAIMED


def test_staleness_comes_before_the_idle_skip(world: World) -> None:
    """behaviour §2 Stale wakeups: idle skip looks at what remains."""
    bot = world.given_agent()
    periodic = world.fire_by_schedule(world.given_routine(agent=bot))
    event = world.request("user", bot)
    world.change(f"UPDATE wakeup_requests SET task_id = NULL, periodic = 1 WHERE id = '{event.id}'")
    assert world.process().outcome == "idle_skipped"
    assert world.ending_of(periodic.wakeup) == ("skipped", "no_actionable_tasks")


# --- 4 idle skip ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fired", "is_skipped"),
    [
        ("routine, cron-triggered (lightweight, heartbeat-style)", True),
        ("routine, manual Fire now", False),
        ("routine, cron-triggered, heavy", False),
        ("self", False),
        ("user", False),
        ("agent_error", False),
        ("budget_alert", False),
        ("approval_resolved", False),
        ("comment", False),
        ("task_assigned", False),
        ("task_blockers_resolved", False),
        ("task_children_completed", False),
    ],
)
def test_the_idle_skip_applies_only_to_periodic_wakes(world: World, fired: str, is_skipped: bool) -> None:
    """S0 Idle wakeup skip: event-triggered wakeups always proceed."""
    bot = world.given_agent()
    if "heavy" in fired:
        world.fire_by_schedule(world.given_routine(agent=bot, task_title="review"))
    elif "cron" in fired:
        world.fire_by_schedule(world.given_routine(agent=bot))
    elif "manual" in fired:
        world.fire(world.given_routine(agent=bot))
    else:
        in_review = world.given_task(agent=bot, state=TaskState.IN_REVIEW)  # not actionable, not closed
        world.request(fired, bot, task=in_review)
    world.advance(5)
    run = world.process()
    assert (run.outcome == "idle_skipped") is is_skipped
    assert (world.machine.specs == []) is is_skipped


@pytest.mark.parametrize(
    ("state", "is_skipped"),
    [
        (TaskState.TODO, False),
        (TaskState.IN_PROGRESS, False),
        (TaskState.IN_REVIEW, True),
        (TaskState.BLOCKED, True),
        (TaskState.DONE, True),
        (TaskState.CANCELLED, True),
        ("ARCHIVED", True),
        ("of another agent", True),
    ],
)
def test_todo_and_in_progress_tasks_of_the_agent_are_actionable(
    world: World, state: str, is_skipped: bool
) -> None:
    """S0 Idle wakeup skip: actionable states TODO and IN_PROGRESS."""
    bot, other = world.given_agent(), world.given_agent("other")
    if state in list(TaskState):
        world.given_task(agent=bot, state=TaskState(state))
    elif state == "ARCHIVED":
        world.archive_task(world.given_task(agent=bot))
    else:
        world.given_task(agent=other)
    world.fire_by_schedule(world.given_routine(agent=bot))
    assert (world.process().outcome == "idle_skipped") is is_skipped


@pytest.mark.parametrize(
    ("role", "skips"),
    [
        (AgentRole.WORKER, True),
        (AgentRole.SPECIALIST, True),
        (AgentRole.ASSISTANT, True),
        (AgentRole.CEO, False),
        (AgentRole.COORDINATOR, False),
    ],
)
def test_coordinators_are_not_skipped_by_default(world: World, role: AgentRole, skips: bool) -> None:
    """S0 Idle wakeup skip, per-agent `skip_idle_wakeups` defaults."""
    bot = world.given_agent(role=role)
    assert bot.skip_idle_wakeups is skips
    world.fire_by_schedule(world.given_routine(agent=bot))
    assert (world.process().outcome == "idle_skipped") is skips


def test_a_person_can_override_the_skip_per_agent(world: World) -> None:
    """S0 Idle wakeup skip: users can override per agent."""
    worker = world.given_agent("worker", skip_idle=False)
    chief = world.given_agent("chief", role=AgentRole.COORDINATOR, skip_idle=True)
    for agent in (worker, chief):
        world.fire_by_schedule(world.given_routine(agent.name, agent=agent))
    runs = world.process_all()
    assert [run.outcome for run in runs] == [None, "idle_skipped"]


def test_a_skipped_wakeup_is_not_silently_discarded(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """S0 Idle wakeup skip: logged at INFO with its fields, marked finished, a `wakeup_idle_skipped` entry."""
    bot = world.given_agent()
    fired = world.fire_by_schedule(world.given_routine(agent=bot))
    with caplog.at_level(logging.INFO, "kandev_sched"):
        run = world.process()
    (record,) = (record for record in caplog.records if "no_actionable_tasks" in record.getMessage())
    assert record.levelno == logging.INFO
    for field in (
        f"wakeup_id={fired.wakeup.id}",
        f"agent_instance_id={bot.id}",
        f"agent_name={bot.name}",
        "reason=no_actionable_tasks",
    ):
        assert field in record.getMessage()
    assert (run.status, run.finished_at) == (RunStatus.FINISHED, world.now)
    request = world.wakeup(fired.wakeup)
    assert (request.status, world.ending_of(request)) == (
        WakeupStatus.FINISHED,
        ("skipped", "no_actionable_tasks"),
    )
    (line,) = world.history("wakeup_idle_skipped")
    assert (line.run_id, line.agent_id) == (run.id, bot.id)
    assert world.machine.specs == []
    assert world.sessions_of(run) == []


# --- 6 budget ---------------------------------------------------------------------------------------------


def test_the_budget_step_finds_no_policies(world: World) -> None:
    """S0 pipeline step 6: without budget policies none can be exceeded; the step leaves its line."""
    world.request("user", world.given_agent())
    run = world.process()
    (line,) = (line for line in world.steps_of(run) if line.name is StepName.BUDGET)
    assert (line.verdict, line.detail) == ("ok", "no policies")


# --- 7 context --------------------------------------------------------------------------------------------


def test_the_prompt_tells_who_is_woken_for_which_task_and_why_in_the_order_of_asking(world: World) -> None:
    """S0 pipeline step 7: assemble the prompt from source, payload and what was merged."""
    bot = world.given_agent("ann")
    task = world.given_task("mend the build", agent=bot, description="it is red\nsince Monday")
    assigned = world.request("task_assigned", bot, task=task)
    world.advance(1)
    comment = world.request("comment", bot, task=task)
    run = world.process()
    prompt = world.prompt_of(run)
    assert "You are ann" in prompt
    assert "mend the build" in prompt
    assert "   > it is red\n   > since Monday" in prompt
    assert f"task {task.id} is yours" in prompt
    assert prompt.index("task_assigned") < prompt.index(f"comment-of-{comment.id}")
    assert world.wakeups_told(run) == [assigned.id, comment.id]


def test_the_agent_is_told_its_run_by_its_environment(world: World) -> None:
    """behaviour §5: the attempt gets what it needs to ask back."""
    bot = world.given_agent("ann", env={"MINE": "1"}, max_run_s=77)
    task = world.given_task(agent=bot)
    world.request("user", bot, task=task)
    run = world.process()
    spec = world.spec_of(run)
    assert spec.argv == ("agent", "ann")
    told = {
        "SCHED_RUN_ID": run.id,
        "SCHED_AGENT": "ann",
        "SCHED_WORKSPACE": "default",
        "SCHED_TASK_ID": task.id,
        "SCHED_SOURCE": "user",
        "SCHED_REASON": "event",
        "SCHED_DB": os.path.abspath(world.path),
        "MINE": "1",
    }
    assert told.items() <= spec.env.items()
    assert spec.max_run_s == 77
    entry = json.loads(spec.wakeups_json)[0]
    assert (entry["source"], entry["task_id"], entry["requested_at"]) == (
        "user",
        task.id,
        "2026-12-01T09:00:00Z",
    )


# --- 8 and 9 placement ------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", range(5))
def test_the_executor_is_the_first_of_task_agent_project_and_workspace(world: World, given: int) -> None:
    """S0 Executor resolution, pipeline step 8: task → agent → project → workspace default."""
    bot = world.given_agent()
    project = world.given_project()
    task = world.given_task(agent=bot, project=project.id)
    workspace = world.workspace()
    owners = [("tasks", task.id), ("agents", bot.id), ("projects", project.id), ("workspaces", workspace.id)]

    def executor(name: str) -> Executor:
        made = Executor(id=f"ex_{name}", workspace_id=workspace.id, name=name, created_at=world.now)
        world.db.write(lambda tx: workspaces.add_executor(tx, made))
        return made

    world.change("UPDATE workspaces SET default_executor_id = NULL")
    for table, owner_id in owners[given:]:
        column = "default_executor_id" if table == "workspaces" else "executor_id"
        world.change(f"UPDATE {table} SET {column} = '{executor(table).id}' WHERE id = '{owner_id}'")
    world.request("user", bot, task=task)
    run = world.process()
    assert run.executor_id == (f"ex_{owners[given][0]}" if given < 4 else None)


def test_a_taskless_run_skips_task_and_project(world: World) -> None:
    """S0 Executor resolution: agent preference first, then the workspace default."""
    bot = world.given_agent()
    world.request("user", bot)
    assert world.process().executor_id == world.workspace().default_executor_id


@pytest.mark.parametrize("whose", ["agent", "workspace"])
def test_the_profile_is_the_agents_else_the_workspaces(world: World, whose: str) -> None:
    """S0 pipeline step 9, behaviour §5: profile agent → workspace default."""
    command = agent_operations.AddProfile(name="shared", argv=("shared-agent",), env={})
    world.given_agent("first")
    world.db.write(lambda tx: agent_operations.add_profile(tx, command))
    world.db.write(
        lambda tx: workspace_operations.set_workspace(
            tx, workspace_operations.SetWorkspace(name="default", default_profile="shared")
        )
    )
    bot = world.given_agent(argv=("own-agent",) if whose == "agent" else None)
    world.request("user", bot)
    run = world.process()
    assert world.spec_of(run).argv == (("own-agent",) if whose == "agent" else ("shared-agent",))
    assert run.profile_id is not None


def test_without_a_profile_the_run_fails_at_once_and_says_what_to_do(world: World) -> None:
    """S0 pipeline step 9, behaviour §6: failures that waiting cannot mend are not retried but escalated."""
    bot = world.given_agent(argv=None)
    request = world.request("user", bot)
    run = world.process()
    assert (run.status, run.retry_count) == (RunStatus.FAILED, 0)
    assert "bot has no profile" in run.error
    assert "sched agent set bot" in run.error
    assert world.ending_of(request) == ("failed", None)
    (item,) = world.inbox()
    assert (item.kind, item.run_id, item.agent_id) == ("agent.error", run.id, bot.id)
    assert item.body == run.error


# --- 10 session -------------------------------------------------------------------------------------------


def test_each_attempt_opens_one_session_which_ends_with_it(world: World) -> None:
    """S0 pipeline step 10, One-shot session model: a single agent session that runs to completion."""
    bot = world.given_agent()
    task = world.given_task(agent=bot)
    world.request("user", bot, task=task)
    states: list[str] = []
    world.machine.when_submitted = lambda _spec: states.extend(
        row[0] for row in world.ask("SELECT state FROM sessions")
    )
    run = world.process()
    assert states == ["STARTING"]
    (session,) = world.sessions_of(run)
    assert (session.state, session.task_id, session.agent_id) == (SessionState.RUNNING, task.id, bot.id)
    assert run.session_id == session.id
    world.fail(run)
    world.advance(150)
    world.machine.when_submitted = None
    world.process()
    first, second = world.sessions_of(run)
    assert (first.state, first.attempt, first.ended_at) == (SessionState.ENDED, 1, world.now - 150_000)
    assert (second.state, second.attempt) == (SessionState.RUNNING, 2)
    world.finish(run)
    assert {s.state for s in world.sessions_of(run)} == {SessionState.ENDED}


# --- 11 launch --------------------------------------------------------------------------------------------


def test_the_requests_are_delivered_when_the_prompt_is_handed_over(world: World) -> None:
    """behaviour §2 Delivery: `delivered_at` is stamped when the prompt is handed to the agent."""
    request = world.request("user", world.given_agent())
    seen: list[int | None] = []
    world.machine.when_submitted = lambda _spec: seen.append(world.wakeup(request).delivered_at)
    run = world.process()
    assert seen == [None]
    assert world.wakeup(request).delivered_at == run.started_at == world.now


def test_a_launch_that_cannot_be_done_is_a_failure_that_is_retried(world: World) -> None:
    """behaviour §6: backoff for every failure of a run after it was claimed, launch failures too."""
    bot = world.given_agent()
    task = world.given_task(agent=bot)
    request = world.request("user", bot, task=task)
    world.machine.refuses_with = OSError("no more processes")
    run = world.process()
    assert (run.status, run.retry_count) == (RunStatus.QUEUED, 1)
    assert run.scheduled_retry_at == world.now + 2 * MINUTE
    assert "no more processes" in run.error
    assert world.task(task).checkout_run_id is None
    world.machine.refuses_with = None
    world.advance(120)
    assert world.process().attempt == 2
    world.finish(run)
    assert world.ending_of(request) == ("delivered", None)


def test_a_launch_that_never_can_be_done_fails_for_good_and_does_not_follow_up(world: World) -> None:
    """I1: the request ends as failed, after retries; it does not start over in another run."""
    request = world.request("user", world.given_agent())
    world.machine.refuses_with = OSError("no more processes")
    for _ in range(5):
        world.process()
        world.advance(3 * 3600)
    assert world.ending_of(request) == ("failed", None)
    assert len(world.runs()) == 1
    assert len(world.inbox()) == 1
    assert world.process() is None


def test_a_bug_before_the_prompt_ends_as_a_failure_too(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """I1, behaviour §6: one bad row never stops the others, and no run stays claimed."""
    ann, ben = world.given_agent("ann"), world.given_agent("ben")
    bad = world.request("user", ann)
    world.change("UPDATE wakeup_requests SET payload = '{}'")
    good = world.request("user", ben)
    for _ in range(5):
        world.process_all()
        world.advance(3 * 3600)
    assert world.ending_of(bad) == ("failed", None)
    assert world.launched() == [good.run_id]
    assert len(world.runs(ann)) == 1
    assert "could not be started" in caplog.text


# --- 12 finish --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exit_code", "structured", "succeeds"),
    [
        (0, None, True),
        (1, None, False),
        (0, {"is_error": True, "error": "quota"}, False),
        (0, {"is_error": False, "summary": "done"}, True),
        (0, {"status": "failed"}, False),
        (0, {"status": "error", "summary": "no luck"}, False),
        (0, {"error": "no such model"}, False),
        (0, {"status": "success"}, True),
        (3, {"is_error": False}, False),
    ],
)
def test_success_is_what_the_agent_reported_not_its_exit_status_alone(
    world: World, exit_code: int, structured: dict[str, object] | None, succeeds: bool
) -> None:
    """S0 pipeline step 12, behaviour §5: success is judged by what the agent reported."""
    request = world.request("user", world.given_agent())
    run = world.finish(world.process(), exit_code=exit_code, structured=structured)
    assert (run.status is RunStatus.FINISHED) is succeeds
    assert (world.ending_of(request) == ("delivered", None)) is succeeds
    if succeeds:
        assert (run.exit_code, run.result, run.error) == (exit_code, structured, None)
    elif structured and structured.get("error"):
        assert run.error == structured["error"]


def test_the_cost_that_an_agent_reports_is_kept(world: World) -> None:
    """S0 pipeline step 12: parse output."""
    world.request("user", world.given_agent())
    assert world.finish(world.process(), structured={"cost_cents": 12}).cost_cents == 12


def test_the_history_tells_what_became_of_a_run(world: World) -> None:
    """behaviour §6: every ending leaves its line."""
    bot = world.given_agent()
    world.request("user", bot, policy=ConcurrencyPolicy.ALWAYS_ENQUEUE)
    world.finish(world.process())
    world.request("user", bot)
    world.cancel_and_end(world.process(), reason="not today")
    assert [line.kind for line in world.history()] == ["run_finished", "run_cancelled"]
    assert "not today" in world.history()[-1].sentence
