"""Step 1: which run is claimed, when, and what a run that is not claimed waits for."""

from __future__ import annotations

import pytest
from world import SECOND, World

from kandev_sched.domain.agents import AgentStatus
from kandev_sched.domain.runs import RunStatus
from kandev_sched.domain.tasks import TaskState
from kandev_sched.operations import workspaces as workspace_operations
from kandev_sched.policy.coalesce import ConcurrencyPolicy

ALWAYS = ConcurrencyPolicy.ALWAYS_ENQUEUE


# --- order ------------------------------------------------------------------------------------------------


def test_runs_of_two_workspaces_are_claimed_in_request_order_one_for_each_agent(world: World) -> None:
    """S3 Scenario 1, I5: processes both workspaces in request order, at most one claimed run per agent."""
    world.given_workspace("other")
    ann = world.given_agent("ann")
    ben = world.given_agent("ben", workspace="other")
    asked = []
    for agent in (ben, ann, ann, ben):
        asked.append(world.run_of(world.request("user", agent, policy=ALWAYS)))
        world.advance(1)
    claimed = world.process_all()
    assert [run.id for run in claimed] == [asked[0].id, asked[1].id]
    assert {world.agent(agent).claimed_count for agent in (ann, ben)} == {1}
    world.finish(asked[1])
    assert world.process().id == asked[2].id
    assert world.process() is None


def test_of_two_runs_asked_for_in_the_same_millisecond_the_first_made_is_claimed(world: World) -> None:
    """I5: by `requested_at`, then id."""
    agents = [world.given_agent(name) for name in ("ann", "ben", "cid")]
    asked = [world.request("user", agent).run_id for agent in agents]
    assert [run.id for run in world.process_all()] == asked


def test_a_run_that_cannot_start_does_not_hold_up_younger_ones(world: World) -> None:
    """I5, I13: request order among the runs that could start in that instant."""
    ann, ben = world.given_agent("ann"), world.given_agent("ben")
    world.request("user", ann)
    world.advance(1)
    younger = world.request("user", ben)
    world.pause(ann)
    assert world.process().id == younger.run_id


def test_a_follow_up_keeps_the_place_of_its_oldest_request(world: World) -> None:
    """I5, behaviour §2 Delivery: whose `requested_at` is that of the oldest of them."""
    ann, ben = world.given_agent("ann"), world.given_agent("ben")
    world.set_settings(max_sessions=1)
    world.request("user", ann)
    run = world.process()
    late = world.request("user", ann)
    world.advance(1)
    younger = world.request("user", ben)
    world.finish(run)
    assert [world.process().id, world.process()] == [world.run_of(late).id, None]
    assert world.run_of(younger).status is RunStatus.QUEUED


# --- who may be claimed for -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "is_claimed"),
    [
        (AgentStatus.IDLE, True),
        (AgentStatus.WORKING, True),
        (AgentStatus.PAUSED, False),
        (AgentStatus.STOPPED, False),
        (AgentStatus.ARCHIVED, False),
    ],
)
def test_only_idle_and_working_agents_are_claimed_for(
    world: World, status: AgentStatus, is_claimed: bool
) -> None:
    """S0 Claim query: a.status IN ('idle', 'working')."""
    bot = world.given_agent(max_sessions=2)
    request = world.request("user", bot)
    world.change(f"UPDATE agents SET status = '{status}'")
    assert (world.claim() is not None) is is_claimed
    assert (world.run_of(request).status is RunStatus.CLAIMED) is is_claimed


def test_paused_agents_keep_their_queue_and_it_runs_after_resume(world: World) -> None:
    """behaviour §2 Un-claim: agents that are paused or stopped keep their queue; it runs after `resume`."""
    for act in (world.pause, world.stop):
        bot = world.given_agent(act.__name__)
        request = world.request("user", bot)
        act(bot)
        world.advance(90 * 86_400)
        assert world.process() is None
        assert world.explain(request.run_id).startswith("held: agent")
        world.resume(bot)
        assert world.process().id == request.run_id


def test_a_paused_or_disabled_workspace_keeps_its_queue(world: World) -> None:
    """behaviour §2 Claim: workspace enabled and not paused."""
    bot = world.given_agent()
    request = world.request("user", bot)
    world.db.write(lambda tx: workspace_operations.pause_workspace(tx, "default"))
    assert world.process() is None
    assert "paused since" in world.explain(request.run_id)
    world.db.write(lambda tx: workspace_operations.resume_workspace(tx, "default"))
    world.db.write(
        lambda tx: workspace_operations.set_workspace(
            tx, workspace_operations.SetWorkspace(name="default", enabled=False)
        )
    )
    assert world.process() is None
    assert world.explain(request.run_id) == "held: workspace default is disabled"
    world.db.write(
        lambda tx: workspace_operations.set_workspace(
            tx, workspace_operations.SetWorkspace(name="default", enabled=True)
        )
    )
    assert world.process().id == request.run_id


def test_archiving_an_agent_cancels_its_queue(world: World) -> None:
    """behaviour §2 Un-claim: archiving an agent cancels its requests (`agent_gone`)."""
    bot = world.given_agent()
    requests = [world.request("user", bot, policy=ALWAYS) for _ in range(3)]
    world.archive(bot)
    assert [world.ending_of(request) for request in requests] == [("cancelled", "agent_gone")] * 3
    assert {run.status for run in world.runs(bot)} == {RunStatus.CANCELLED}


def test_archiving_an_agent_also_cancels_what_would_follow_up_later(world: World) -> None:
    """behaviour §2 Un-claim: also those that would follow up later."""
    bot = world.given_agent()
    told = world.request("user", bot)
    run = world.process()
    late = world.request("user", bot)
    world.archive(bot)
    world.attend()
    world.attend()
    assert world.ending_of(told) == ("cancelled", "agent_gone")
    assert world.ending_of(late) == ("cancelled", "agent_gone")
    assert [r.id for r in world.runs(bot)] == [run.id]


def test_a_run_that_succeeds_after_its_agent_was_archived_leaves_no_follow_up(world: World) -> None:
    """I1, behaviour §2 Un-claim: no request may wait for an agent that is gone."""
    bot = world.given_agent()
    told = world.request("user", bot)
    run = world.process()
    late = world.request("user", bot)
    world.archive(bot)
    world.finish(run)
    assert world.ending_of(told) == ("delivered", None)
    assert world.ending_of(late) == ("cancelled", "agent_gone")
    assert [r.id for r in world.runs(bot)] == [run.id]


# --- concurrency ------------------------------------------------------------------------------------------


def test_an_agent_works_on_one_run_at_a_time_by_default(world: World) -> None:
    """S0 Agent concurrency: max_concurrent_sessions (default 1)."""
    bot = world.given_agent()
    assert bot.max_concurrent_sessions == 1
    for _ in range(3):
        world.request("user", bot, policy=ALWAYS)
    assert len(world.process_all()) == 1


def test_an_agent_never_has_more_claimed_runs_than_max_concurrent_sessions(world: World) -> None:
    """I3, S0 Agent concurrency."""
    bot = world.given_agent(max_sessions=3)
    for _ in range(5):
        world.request("user", bot, policy=ALWAYS)
    claimed = world.process_all()
    assert len(claimed) == 3
    world.finish(claimed[1])
    assert len(world.process_all()) == 1
    assert world.agent(bot).claimed_count == 3


def test_a_slow_agent_with_twenty_tasks_works_through_them_one_after_another(world: World) -> None:
    """S0 Agent concurrency: no re-queuing, no retry limits, no expiry: it processes them sequentially."""
    qa = world.given_agent("qa")
    tasks = [world.given_task(f"task {number}", agent=qa) for number in range(20)]
    for task in tasks:
        world.request("task_assigned", qa, task=task)
    order = []
    for _ in range(20):
        world.advance(7200)
        (run,) = world.process_all()
        order.append(run.task_id)
        world.finish(run)
    assert order == [task.id for task in tasks]
    assert {run.attempt for run in world.runs(qa)} == {1}


def test_the_supervisor_has_at_most_max_sessions_agents_at_work(world: World) -> None:
    """behaviour §2 Claim: supervisor below `max_sessions`."""
    world.set_settings(max_sessions=2)
    agents = [world.given_agent(name) for name in ("ann", "ben", "cid")]
    requests = [world.request("user", agent) for agent in agents]
    claimed = world.process_all()
    assert [run.id for run in claimed] == [request.run_id for request in requests[:2]]
    assert world.explain(requests[2].run_id) == "waiting: all 2 sessions of the supervisor are taken"
    world.finish(claimed[0])
    assert world.process().id == requests[2].run_id


# --- cooldown ---------------------------------------------------------------------------------------------


def test_an_agent_is_not_claimed_for_inside_its_cooldown(world: World) -> None:
    """I3, S0 Claim query: last_wakeup_finished_at <= now() - cooldown_sec."""
    bot = world.given_agent(cooldown_s=10)
    world.request("user", bot)
    world.finish(world.process())
    request = world.request("user", bot)
    assert world.process() is None
    assert world.explain(request.run_id) == "waiting: agent bot cools down until 2026-12-01T09:00:10Z"
    world.advance(9.999)
    assert world.process() is None
    world.advance(0.001)
    assert world.process().id == request.run_id


def test_the_default_cooldown_is_ten_seconds(world: World) -> None:
    """S0 Agent concurrency: cooldown_sec (default 10s)."""
    from kandev_sched.operations.agents import AddAgent

    assert AddAgent(name="x", env={}).cooldown_s == 10


@pytest.mark.parametrize("how", ["failed", "cancelled"])
def test_a_launched_run_that_did_not_succeed_begins_a_cooldown_too(world: World, how: str) -> None:
    """behaviour §2 Claim: only launched runs stamp it."""
    bot = world.given_agent(cooldown_s=10)
    world.request("user", bot)
    run = world.process()
    if how == "failed":
        world.fail(run)
    else:
        world.cancel_and_end(run)
    assert world.agent(bot).last_wakeup_finished_at == world.now


def test_runs_that_were_never_launched_begin_no_cooldown(world: World) -> None:
    """behaviour §2 Claim: only launched runs stamp it: not an idle skip, nor a stale or cancelled one."""
    bot = world.given_agent(cooldown_s=10)
    world.fire_by_schedule(world.given_routine(agent=bot))
    assert world.process().outcome == "idle_skipped"
    task = world.given_task(agent=bot)
    world.request("user", bot, task=task)
    world.move(task, TaskState.DONE)
    assert world.process().cancel_reason == "task_terminal"
    world.cancel(world.request("user", bot).run_id)
    assert world.agent(bot).last_wakeup_finished_at is None


def test_a_zero_cooldown_lets_the_next_run_start_at_once(world: World) -> None:
    """S0 Agent concurrency: cooldown_sec of 0."""
    bot = world.given_agent(cooldown_s=0)
    world.request("user", bot)
    world.finish(world.process())
    world.request("user", bot)
    assert world.process() is not None


# --- the task's checkout ----------------------------------------------------------------------------------


def test_the_claim_takes_the_task_and_a_second_run_waits_for_it(world: World) -> None:
    """S0 Atomic task checkout, I4: a task has at most one checkout; the other run stays queued, shown why."""
    ann, ben = world.given_agent("ann"), world.given_agent("ben")
    task = world.given_task(agent=ann)
    first, second = world.request("user", ann, task=task), world.request("user", ben, task=task)
    run = world.process()
    held = world.task(task)
    assert (held.checkout_run_id, held.checkout_agent_id, held.checkout_at) == (run.id, ann.id, world.now)
    assert run.id == first.run_id
    assert world.process() is None
    assert world.explain(second.run_id) == f"waiting: task held by run {run.id}"
    world.finish(run)
    assert world.process().id == second.run_id


def test_a_held_task_does_not_hold_up_the_same_agents_other_runs(world: World) -> None:
    """I13: nothing waits on what it does not need."""
    ann, ben = world.given_agent("ann"), world.given_agent("ben")
    task = world.given_task(agent=ann)
    world.request("user", ann, task=task)
    world.process()
    world.request("user", ben, task=task)
    world.advance(1)
    taskless = world.request("user", ben)
    assert world.process().id == taskless.run_id


@pytest.mark.parametrize("how", ["finished", "failed", "cancelled", "lost", "un-claimed"])
def test_no_checkout_outlives_its_run(world: World, how: str) -> None:
    """S0 Atomic task checkout, I4: released on finish or failure, cancel, loss and un-claim."""
    bot = world.given_agent()
    task = world.given_task(agent=bot)
    world.request("user", bot, task=task)
    if how == "un-claimed":
        world.meanwhile("admit", lambda: world.pause(bot))
    run = world.process()
    acts = {
        "finished": world.finish,
        "failed": world.fail,
        "cancelled": world.cancel_and_end,
        "lost": world.lose,
        "un-claimed": world.run,
    }
    assert (world.task(task).checkout_run_id is None) is (how == "un-claimed")
    acts[how](run)
    freed = world.task(task)
    assert (freed.checkout_run_id, freed.checkout_agent_id, freed.checkout_at) == (None, None, None)
    assert world.run(run).status is not RunStatus.CLAIMED


def test_checking_out_is_a_compare_and_set(world: World) -> None:
    """S0 Atomic task checkout: zero rows = another run holds the lock."""
    from kandev_sched.store import tasks

    bot = world.given_agent(max_sessions=2)
    task = world.given_task(agent=bot)
    runs = [world.run_of(world.request("user", bot, task=task, policy=ALWAYS)) for _ in range(2)]

    def check_out(run_id: str) -> bool:
        return world.db.write(lambda tx: tasks.check_out(tx, task_id=task.id, agent_id=bot.id, run_id=run_id))

    assert [check_out(run.id) for run in runs] == [True, False]
    assert world.task(task).checkout_run_id == runs[0].id


# --- explain ----------------------------------------------------------------------------------------------


def test_explain_says_what_a_run_waits_for_with_the_time_when_that_may_change(world: World) -> None:
    """behaviour §2 Explain: one sentence, with the time when that may change."""
    bot = world.given_agent()
    task = world.given_task(agent=bot)
    comment = world.request("comment", bot, task=task)
    assert world.explain(comment.run_id) == ("waiting: its coalescing window ends at 2026-12-01T09:00:05Z")
    world.advance(5)
    assert world.explain(comment.run_id) == "ready: it is claimed next"
    assert "no supervisor is running" in world.explain(comment.run_id, is_supervised=False)
    run = world.process()
    assert world.explain(run) == "its agent is at work"
    younger = world.request("user", bot)
    assert world.explain(younger.run_id) == "waiting: agent bot is working (1 of 1 sessions)"
    world.fail(run)
    assert world.explain(run) == "waiting: retry 1 at 2026-12-01T09:02:05Z, after: exit status 1"
    behind = world.request("user", bot, policy=ALWAYS)
    assert world.explain(behind.run_id) == f"waiting: run {younger.run_id} of the same agent is older"
    world.cancel(run, reason="not needed")
    assert world.explain(run) == "cancelled: not needed"


def test_explain_names_the_reason_of_a_paused_agent(world: World) -> None:
    """behaviour §2 Un-claim: shown as held."""
    from kandev_sched.operations.agents import pause_agent

    bot = world.given_agent()
    request = world.request("user", bot)
    world.db.write(lambda tx: pause_agent(tx, bot, reason="on holiday"))
    assert world.explain(request.run_id) == "held: agent bot is paused (on holiday)"


def test_what_time_alone_will_make_claimable_is_known(world: World) -> None:
    """I13: the drainer sleeps no longer than until a window, a retry or a cooldown ends."""
    from kandev_sched.store import runs

    bot = world.given_agent(cooldown_s=10)
    task = world.given_task(agent=bot)

    def next_at() -> int | None:
        return world.db.read(lambda reader: runs.next_claim_at(reader, world.now))

    assert next_at() is None
    world.request("comment", bot, task=task)
    assert next_at() == world.now + 5 * SECOND
    world.advance(5)
    run = world.process()
    assert next_at() is None
    world.finish(run)
    world.request("user", bot)
    assert world.process() is None
    assert next_at() == world.now + 10 * SECOND


# --- what makes nobody autonomous -------------------------------------------------------------------------


def test_an_ordinary_task_with_an_assignee_wakes_nobody(world: World) -> None:
    """S3 Scenario 3: GIVEN an ordinary TODO task with a runner, WHEN all have looked, THEN no run is made."""
    from kandev_sched.flow.sweep import adopt_stranded

    bot, other = world.given_agent(), world.given_agent("other")
    task = world.given_task(agent=bot)
    world.assign(task, other)
    world.advance(3600)
    world.tick()
    world.db.write(lambda tx: adopt_stranded(tx, window_s=5))
    world.restart()
    assert world.process() is None
    assert world.runs() == []


def test_a_run_that_is_asked_for_a_task_that_is_not_offices_is_processed(world: World) -> None:
    """S3 Scenario 5: GIVEN a row is persisted for any workflow's task, THEN the scheduler processes it."""
    bot = world.given_agent()
    task = world.given_task(agent=bot)
    assert (task.project_id, task.workflow_id) == (None, None)
    request = world.request("user", bot, task=task)
    assert world.process().id == request.run_id
