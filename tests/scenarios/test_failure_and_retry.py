"""What follows a failed attempt: backoff, the end of patience, escalation."""

from __future__ import annotations

import pytest
from world import HOUR, MINUTE, World

from kandev_sched.domain.runs import Run, RunStatus
from kandev_sched.domain.wakeups import WakeupStatus
from kandev_sched.launch.executor import Ending

STEPS = [2 * MINUTE, 10 * MINUTE, 30 * MINUTE, 2 * HOUR]


def fail_until_the_end(world: World, run: Run) -> Run:
    """Fail the run as often as it is retried."""
    while world.fail(run).status is RunStatus.QUEUED:
        world.host.set_clock(world.run(run).scheduled_retry_at)
        world.process()
    return world.run(run)


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
def test_failures_are_retried_after_2m_10m_30m_2h_with_up_to_a_quarter_more(
    world: World, chance: float
) -> None:
    """S0 default backoff: 4 attempts at [2m, 10m, 30m, 2h] with 25 % jitter."""
    world.request("user", world.given_agent())
    run = world.process()
    for count, step in enumerate(STEPS, 1):
        world.host.chances = [chance]
        failed = world.fail(run)
        due_at = world.now + round(step * (1 + 0.25 * chance))
        assert (failed.status, failed.retry_count) == (RunStatus.QUEUED, count)
        assert failed.scheduled_retry_at == failed.eligible_at == due_at
        world.host.set_clock(due_at - 1)
        assert world.process() is None
        world.host.set_clock(due_at)
        assert world.process().attempt == count + 1


def test_the_fifth_failure_is_the_last_and_a_person_hears_of_it(world: World) -> None:
    """S0 default backoff: after MaxRetryCount (4) the wakeup is failed, an agent.error inbox item created."""
    bot = world.given_agent()
    task = world.given_task(agent=bot)
    request = world.request("user", bot, task=task)
    run = fail_until_the_end(world, world.process())
    assert (run.status, run.attempt, run.retry_count) == (RunStatus.FAILED, 5, 4)
    assert world.ending_of(request) == ("failed", None)
    assert world.wakeup(request).status is WakeupStatus.FAILED
    (item,) = world.inbox()
    assert (item.kind, item.run_id, item.agent_id, item.task_id) == ("agent.error", run.id, bot.id, task.id)
    assert "exit status 1" in item.body
    assert world.task(task).checkout_run_id is None
    world.advance(365 * 86_400)
    assert world.process() is None


def test_no_inbox_item_is_made_while_retries_are_left(world: World) -> None:
    """S0 default backoff: escalation comes after the last retry."""
    world.request("user", world.given_agent())
    world.fail(world.process())
    assert world.inbox() == []


def test_merged_requests_fail_with_their_run(world: World) -> None:
    """I1: failed, after retries; a coalesced one keeps that word."""
    bot = world.given_agent()
    requests = [world.request("user", bot) for _ in range(3)]
    fail_until_the_end(world, world.process())
    assert [world.ending_of(request) for request in requests] == [("failed", None)] * 3
    assert world.wakeup(requests[2]).status is WakeupStatus.COALESCED


def test_a_success_after_failures_delivers_everything(world: World) -> None:
    """behaviour §2 Delivery: on a retry all requests stay members."""
    bot = world.given_agent()
    requests = [world.request("user", bot) for _ in range(2)]
    run = world.process()
    world.fail(run)
    world.advance(120)
    done = world.finish(world.process())
    assert (done.status, done.retry_count, done.error) == (RunStatus.FINISHED, 1, None)
    assert {world.ending_of(request) for request in requests} == {("delivered", None)}
    assert world.inbox() == []


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        (Ending.TIMED_OUT, "max_run_s"),
        (Ending.IDLE_TIMED_OUT, "idle_output_s"),
    ],
)
def test_an_agent_that_was_ended_for_its_time_is_retried(world: World, ending: Ending, words: str) -> None:
    """behaviour §6: backoff for every failure of a run after it was claimed."""
    world.request("user", world.given_agent())
    run = world.ends(world.process(), ending=ending, exit_code=None)
    assert (run.status, run.retry_count) == (RunStatus.QUEUED, 1)
    assert words in run.error


def test_a_command_that_does_not_exist_is_not_retried(world: World) -> None:
    """behaviour §6: failures that waiting cannot mend are failed at once and escalated."""
    request = world.request("user", world.given_agent())
    run = world.ends(
        world.process(), ending=Ending.LAUNCH_FAILED, exit_code=None, error="agent: no such file"
    )
    assert (run.status, run.retry_count, run.error) == (RunStatus.FAILED, 0, "agent: no such file")
    assert world.ending_of(request) == ("failed", None)
    assert len(world.inbox()) == 1


def test_the_error_of_an_attempt_says_how_it_ended_and_what_it_wrote_last(world: World) -> None:
    """behaviour §5: judged by what the agent reported; the sentence helps a person."""
    world.request("user", world.given_agent())
    run = world.process()
    failed = world.finish(run, exit_code=3, output_tail="thinking\n\nno such model: gpt-0\n")
    assert failed.error == "exit status 3: thinking | no such model: gpt-0"
    assert failed.exit_code == 3
    world.advance(120)
    world.process()
    killed = world.ends(run, exit_code=None, signal=9)
    assert killed.error == "ended by signal 9"


def test_only_failed_runs_not_attempts_lengthen_the_streak(world: World) -> None:
    """behaviour §6: `failure_threshold` counts failed runs, not attempts."""
    bot = world.given_agent()
    world.request("user", bot)
    fail_until_the_end(world, world.process())
    assert world.agent(bot).failure_streak == 1
    world.request("user", bot)
    world.finish(world.process())
    assert world.agent(bot).failure_streak == 0


def test_a_retry_waits_its_turn_without_holding_up_other_agents(world: World) -> None:
    """I13, S0 Claim query: scheduled_retry_at <= now()."""
    ann, ben = world.given_agent("ann"), world.given_agent("ben")
    world.request("user", ann)
    world.fail(world.process())
    request = world.request("user", ben)
    assert world.process().id == request.run_id


def test_a_retry_takes_its_old_place_in_the_queue(world: World) -> None:
    """I5: `requested_at` is kept by a retry."""
    ann, ben = world.given_agent("ann"), world.given_agent("ben")
    first = world.request("user", ann)
    world.fail(world.process())
    world.advance(60)
    world.request("user", ben)
    world.pause(ben)
    world.advance(60)
    world.resume(ben)
    assert world.process().id == first.run_id
