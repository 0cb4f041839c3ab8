"""`run cancel`, `agent stop`, and what becomes of what was late."""

from __future__ import annotations

import pytest
from world import World

from kandev_sched.domain.errors import Conflict
from kandev_sched.domain.runs import RunStatus
from kandev_sched.domain.wakeups import WakeupStatus
from kandev_sched.launch.executor import Ending


def test_cancelling_a_queued_run_ends_it_and_all_its_requests(world: World) -> None:
    """behaviour §2 Reassignment and cancellation, I1: cancelled (with a reason)."""
    bot = world.given_agent()
    requests = [world.request("user", bot) for _ in range(2)]
    run = world.cancel(requests[0].run_id, reason="not needed")
    assert (run.status, run.cancel_reason, run.finished_at) == (
        RunStatus.CANCELLED,
        "not needed",
        world.now,
    )
    assert [world.ending_of(request) for request in requests] == [("cancelled", "not needed")] * 2
    assert [world.wakeup(request).status for request in requests] == [
        WakeupStatus.CANCELLED,
        WakeupStatus.COALESCED,
    ]
    assert world.process() is None


def test_cancelling_a_run_that_waits_for_its_retry_ends_it(world: World) -> None:
    """behaviour §2 Reassignment and cancellation: a queued run is a queued run."""
    world.request("user", world.given_agent())
    run = world.process()
    world.fail(run)
    cancelled = world.cancel(run)
    assert (cancelled.status, cancelled.scheduled_retry_at) == (RunStatus.CANCELLED, None)
    world.advance(86_400)
    assert world.process() is None


def test_cancelling_a_run_that_has_ended_is_refused(world: World) -> None:
    """I8: terminal rows never change."""
    world.request("user", world.given_agent())
    run = world.finish(world.process())
    with pytest.raises(Conflict, match="ended already"):
        world.cancel(run)
    assert world.run(run) == run


def test_cancelling_a_run_at_work_is_noted_at_once_and_its_shim_is_told(world: World) -> None:
    """behaviour §2 Reassignment and cancellation: writes `cancel_requested`; the shim ends the agent."""
    bot = world.given_agent()
    task = world.given_task(agent=bot)
    request = world.request("user", bot, task=task)
    run = world.process()
    asked = world.cancel(run, reason="wrong task")
    assert (asked.status, asked.cancel_requested_at) == (RunStatus.CLAIMED, world.now)
    assert world.explain(run) == "it is being ended: wrong task"
    assert world.ending_of(request) is None
    world.attend()
    assert world.attempt(run).was_cancelled
    world.attend()
    ended = world.run(run)
    assert (ended.status, ended.cancel_reason) == (RunStatus.CANCELLED, "wrong task")
    assert world.ending_of(request) == ("cancelled", "wrong task")
    assert world.task(task).checkout_run_id is None


def test_the_request_to_the_shim_is_repeated_until_it_has_ended(world: World) -> None:
    """behaviour §2 Reassignment and cancellation: repeated until the shim has ended."""
    world.request("user", world.given_agent())
    run = world.process()
    world.machine.ignores_cancel = True
    world.cancel(run)
    for _ in range(3):
        world.attend()
    assert world.attempt(run).cancel_count == 3
    assert world.run(run).status is RunStatus.CLAIMED
    assert world.ends(run, ending=Ending.CANCELLED, exit_code=None).status is RunStatus.CANCELLED


@pytest.mark.parametrize("moment", ["prepare", "launch"])
def test_a_run_that_is_cancelled_before_its_launch_does_not_start(world: World, moment: str) -> None:
    """behaviour §2 Reassignment and cancellation: prepare re-reads it, launch checks it last."""
    bot = world.given_agent()
    task = world.given_task(agent=bot)
    request = world.request("user", bot, task=task)
    world.meanwhile(moment, lambda: world.cancel(request.run_id, reason="stop"))
    run = world.process()
    assert (run.status, run.cancel_reason) == (RunStatus.CANCELLED, "stop")
    assert world.ending_of(request) == ("cancelled", "stop")
    assert world.machine.specs == []
    assert world.task(task).checkout_run_id is None
    assert world.agent(bot).last_wakeup_finished_at is None


def test_a_run_that_was_cancelled_while_it_started_is_ended(world: World) -> None:
    """behaviour §2 Reassignment and cancellation: the request to the shim is repeated."""
    request = world.request("user", world.given_agent())
    world.meanwhile("note launch", lambda: world.cancel(request.run_id))
    run = world.process()
    assert run.status is RunStatus.CLAIMED
    world.attend()
    world.attend()
    assert world.ending_of(request) == ("cancelled", "cancelled by user")


def test_cancelling_cancels_what_was_prompted_and_late_ones_follow_up(world: World) -> None:
    """behaviour §2 Reassignment and cancellation: late ones follow up unless `--all`."""
    bot = world.given_agent()
    told = world.request("user", bot)
    run = world.process()
    late = world.request("user", bot)
    world.cancel_and_end(run)
    assert world.ending_of(told) == ("cancelled", "cancelled by user")
    assert world.ending_of(late) is None
    follow_up = world.process()
    assert (follow_up.follow_up_of, world.wakeups_told(follow_up)) == (run.id, [late.id])


def test_an_agent_that_finished_before_it_heard_of_the_cancel_has_finished(world: World) -> None:
    """I1: delivered is what stood in the prompt of a run that finished."""
    request = world.request("user", world.given_agent())
    run = world.process()
    world.cancel(run)
    assert world.finish(run).status is RunStatus.FINISHED
    assert world.ending_of(request) == ("delivered", None)


def test_an_agent_that_fails_while_it_is_being_cancelled_is_cancelled_not_retried(world: World) -> None:
    """behaviour §2 Reassignment and cancellation: a person ended it."""
    request = world.request("user", world.given_agent())
    run = world.process()
    world.cancel(run, reason="enough")
    assert world.fail(run).status is RunStatus.CANCELLED
    assert world.ending_of(request) == ("cancelled", "enough")
    assert world.inbox() == []


def test_stopping_an_agent_ends_its_attempt_and_its_run_goes_on_after_resume(world: World) -> None:
    """behaviour §2 Un-claim: agents that are stopped keep their queue."""
    bot = world.given_agent(cooldown_s=10)
    request = world.request("user", bot)
    run = world.process()
    world.stop(bot)
    world.attend()
    world.attend()
    stopped = world.run(run)
    assert (stopped.status, stopped.retry_count, stopped.cancel_requested_at) == (RunStatus.QUEUED, 0, None)
    assert world.ending_of(request) is None
    assert world.process() is None
    world.resume(bot)
    assert world.process().attempt == 2
    world.finish(run)
    assert world.ending_of(request) == ("delivered", None)


def test_a_person_can_cancel_the_run_of_an_agent_that_is_being_stopped(world: World) -> None:
    """behaviour §2 Reassignment and cancellation: a cancel that was acknowledged holds (I9)."""
    bot = world.given_agent()
    request = world.request("user", bot)
    run = world.process()
    world.stop(bot)
    world.cancel(run, reason="not needed")
    world.attend()
    world.attend()
    assert world.run(run).status is RunStatus.CANCELLED
    assert world.ending_of(request) == ("cancelled", "not needed")


def test_archiving_an_agent_that_is_being_stopped_cancels_its_run_as_gone(world: World) -> None:
    """behaviour §2 Un-claim: archiving cancels its requests (`agent_gone`)."""
    bot = world.given_agent()
    request = world.request("user", bot)
    world.process()
    world.stop(bot)
    world.archive(bot)
    world.attend()
    world.attend()
    assert world.ending_of(request) == ("cancelled", "agent_gone")


def test_pausing_an_agent_lets_its_live_run_go_on(world: World) -> None:
    """behaviour §2 Un-claim: a pause found by the guard un-claims; a live agent is left alone."""
    bot = world.given_agent()
    request = world.request("user", bot)
    run = world.process()
    world.pause(bot)
    world.attend()
    assert world.run(run).status is RunStatus.CLAIMED
    world.finish(run)
    assert world.ending_of(request) == ("delivered", None)
    assert world.agent(bot).status == "paused"
