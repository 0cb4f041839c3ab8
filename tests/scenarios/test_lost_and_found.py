"""The supervisor dies and comes back; shims vanish; a stopping supervisor ends its agents."""

from __future__ import annotations

import pytest
from world import MINUTE, World

from kandev_sched.domain.runs import RunStatus, SessionState
from kandev_sched.launch.executor import AttemptRef, AttemptState, Ending
from kandev_sched.policy.recovery import STARTING_LIMIT_MS


def test_queued_runs_and_retries_survive_a_restart(world: World) -> None:
    """S3 Persistence guarantees: queued and scheduled-retry runs survive restart, never failed by it."""
    bot, other = world.given_agent(), world.given_agent("other")
    world.request("user", bot)
    retried = world.process()
    world.fail(retried)
    queued = world.request("user", other)
    before = [world.run(run) for run in (retried, queued.run_id)]
    world.restart()
    assert [world.run(run) for run in (retried, queued.run_id)] == before
    assert world.process().id == queued.run_id
    world.advance(120)
    assert world.process().id == retried.id


def test_an_agent_that_works_on_is_attached_to_and_settled_when_it_ends(world: World) -> None:
    """behaviour §6 Lost and found: the next supervisor re-attaches to running ones. I11."""
    request = world.request("user", world.given_agent())
    run = world.process()
    world.restart()
    assert world.run(run) == run
    assert world.attempt(run).submit_count == 1
    assert world.machine.fenced == []
    world.finish(run)
    assert world.ending_of(request) == ("delivered", None)


def test_a_live_run_is_never_requeued_because_of_its_age(world: World) -> None:
    """behaviour §6 Lost and found: a live run is never requeued because of its age."""
    world.request("user", world.given_agent())
    run = world.process()
    world.advance(30 * 86_400)
    world.attend()
    world.restart()
    assert world.run(run).status is RunStatus.CLAIMED
    assert world.machine.fenced == []


def test_an_agent_that_ended_meanwhile_is_settled_by_the_next_supervisor(world: World) -> None:
    """behaviour §6 Lost and found: settles finished ones."""
    request = world.request("user", world.given_agent())
    run = world.process()
    world.close()
    world.machine.finish(AttemptRef(run_id=run.id, attempt=1))
    world.restart()
    assert world.run(run).status is RunStatus.FINISHED
    assert world.ending_of(request) == ("delivered", None)


def test_a_run_that_was_claimed_but_never_started_is_un_claimed_and_fenced(world: World) -> None:
    """behaviour §6 Lost and found, §2 Un-claim: un-claims those without a directory (unborn)."""
    bot = world.given_agent(cooldown_s=10)
    task = world.given_task(agent=bot)
    requests = [world.request("user", bot, task=task) for _ in range(2)]
    claimed = world.claim()
    world.advance(1)
    world.restart()
    run = world.run(claimed)
    assert (run.status, run.retry_count, run.lost_count) == (RunStatus.QUEUED, 0, 0)
    assert run.requested_at == claimed.requested_at
    assert [request.id for request in world.requests_of(run)] == [request.id for request in requests]
    assert world.task(task).checkout_run_id is None
    assert world.agent(bot).last_wakeup_finished_at is None
    assert world.machine.fenced == [AttemptRef(run_id=run.id, attempt=1)]
    assert world.process().attempt == 2
    world.finish(run)
    assert {world.ending_of(request) for request in requests} == {("delivered", None)}


def test_a_shim_that_starts_too_late_cannot_start_any_more(world: World) -> None:
    """behaviour §6 Lost and found: fences the attempt, so that a late shim cannot start. I11."""
    world.request("user", world.given_agent())
    world.machine.starts_slowly = True
    run = world.process()
    late = world.ref(run)
    world.restart()
    assert world.run(run).status is RunStatus.QUEUED
    world.machine.appear(late)
    assert world.machine.poll(late).state is AttemptState.DONE
    world.machine.starts_slowly = False
    world.process()
    assert world.machine.running() == [world.ref(run)]


def test_a_launch_that_was_never_noted_is_noted_when_its_agent_is_found(world: World) -> None:
    """behaviour §2 Delivery, §6: the launch of a supervisor that died before it could note it."""
    request = world.request("user", world.given_agent())
    died = KeyboardInterrupt()

    def die() -> None:
        raise died

    world.meanwhile("note launch", die)
    with pytest.raises(KeyboardInterrupt):
        world.pipeline.process()
    (run,) = world.runs()
    assert (run.started_at, world.wakeup(request).delivered_at) == (None, None)
    world.restart()
    assert world.run(run).started_at == world.wakeup(request).delivered_at == world.now
    assert world.sessions_of(run)[0].state is SessionState.RUNNING
    assert [line.name for line in world.steps_of(run)][-1] == "launch"
    world.finish(run)
    assert world.ending_of(request) == ("delivered", None)


def test_an_agent_whose_launch_was_not_noted_and_that_has_ended_is_settled_as_launched(
    world: World,
) -> None:
    """behaviour §2 Claim: launched runs stamp the cooldown; I1: delivered only with `delivered_at`."""
    bot = world.given_agent(cooldown_s=10)
    request = world.request("user", bot)

    def die() -> None:
        raise KeyboardInterrupt

    world.meanwhile("note launch", die)
    with pytest.raises(KeyboardInterrupt):
        world.pipeline.process()
    (run,) = world.runs()
    world.machine.finish(world.ref(run))
    world.restart()
    assert world.ending_of(request) == ("delivered", None)
    assert world.agent(bot).last_wakeup_finished_at == world.now


@pytest.mark.parametrize("is_restart", [False, True], ids=["seen by the watcher", "found by the next"])
def test_a_lost_attempt_is_fenced_its_strays_ended_and_its_run_retried(
    world: World, is_restart: bool
) -> None:
    """behaviour §6 Lost and found: treats a lost one as a failure `claim_lost`. I11."""
    bot = world.given_agent()
    task = world.given_task(agent=bot)
    request = world.request("user", bot, task=task)
    run = world.process()
    world.lose(run, strays=3, attends=False)
    if is_restart:
        world.restart()
    else:
        world.attend()
    lost = world.run(run)
    assert (lost.status, lost.retry_count, lost.lost_count) == (RunStatus.QUEUED, 1, 1)
    assert lost.scheduled_retry_at == world.now + 2 * MINUTE
    assert world.machine.fenced == [AttemptRef(run_id=run.id, attempt=1)]
    assert world.attempt(run, 1).strays_ended == 3
    assert world.task(task).checkout_run_id is None
    finish = [line for line in world.steps_of(run) if line.name == "finish"]
    assert [line.verdict for line in finish] == ["claim_lost"]
    world.advance(120)
    world.process()
    assert "seen in attempt 1; it may have acted" in world.prompt_of(run)
    world.finish(run)
    assert world.ending_of(request) == ("delivered", None)


def test_a_run_that_is_lost_three_times_in_a_row_fails_and_a_person_hears_of_it(world: World) -> None:
    """behaviour §6 Lost and found: three times in a row lost: failed and escalated."""
    request = world.request("user", world.given_agent())
    run = world.process()
    for count in (1, 2):
        assert world.lose(run).lost_count == count
        world.advance(24 * 3600)
        world.process()
    assert world.lose(run).status is RunStatus.FAILED
    assert world.ending_of(request) == ("failed", None)
    assert [item.kind for item in world.inbox()] == ["agent.error"]


def test_a_failure_of_another_kind_between_two_losses_starts_the_count_over(world: World) -> None:
    """behaviour §6 Lost and found: in a row."""
    world.request("user", world.given_agent())
    run = world.process()
    for lost in (True, False, True, True):
        (world.lose if lost else world.fail)(run)
        world.advance(24 * 3600)
        world.process()
    assert world.run(run).status is RunStatus.CLAIMED
    assert world.run(run).lost_count == 2


def test_a_shim_that_takes_its_lock_while_it_is_being_fenced_lives(world: World) -> None:
    """behaviour §6 Lost and found: a living one is left alone."""
    world.request("user", world.given_agent())
    world.machine.starts_slowly = True
    run = world.process()
    world.machine.when_fenced = world.machine.appear
    world.restart()
    assert world.run(run).status is RunStatus.CLAIMED
    assert world.machine.running() == [world.ref(run)]


def test_an_agent_that_ends_while_its_attempt_is_being_fenced_has_ended(world: World) -> None:
    """I1, architecture rule 10: state is read, never guessed: what has a result is settled by it."""
    request = world.request("user", world.given_agent())
    world.machine.starts_slowly = True
    run = world.process()

    def appear_and_finish(ref: AttemptRef) -> None:
        world.machine.appear(ref)
        world.machine.finish(ref)

    world.machine.when_fenced = appear_and_finish
    world.restart()
    assert world.run(run).status is RunStatus.FINISHED
    assert world.ending_of(request) == ("delivered", None)


def test_an_attempt_that_is_just_starting_is_left_alone_by_the_watcher(world: World) -> None:
    """behaviour §6 Lost and found: to every reader a claimed run without a directory is "starting"."""
    world.request("user", world.given_agent())
    world.machine.starts_slowly = True
    run = world.process()
    world.advance(STARTING_LIMIT_MS / 1000 - 1)
    world.attend()
    assert world.run(run).status is RunStatus.CLAIMED
    assert world.machine.fenced == []
    world.machine.appear(world.ref(run))
    world.advance(10)
    world.attend()
    assert world.run(run).status is RunStatus.CLAIMED


def test_an_attempt_that_never_starts_goes_back_to_the_queue(world: World) -> None:
    """I11, I13: a run never stays `claimed` without a live shim or a result to settle."""
    world.request("user", world.given_agent())
    world.machine.starts_slowly = True
    run = world.process()
    world.advance(STARTING_LIMIT_MS / 1000)
    world.attend()
    assert world.run(run).status is RunStatus.QUEUED


def test_one_run_that_cannot_be_attended_to_stops_no_other(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """behaviour §6: one bad row, one failing handler never stops the others."""
    runs = []
    for name in ("ann", "ben"):
        world.request("user", world.given_agent(name))
        runs.append(world.process())
    world.machine.finish(world.ref(runs[1]))
    poll = world.machine.poll

    def failing_poll(ref: AttemptRef) -> object:
        if ref.run_id == runs[0].id:
            raise OSError("the directory cannot be read")
        return poll(ref)

    world.machine.poll = failing_poll  # type: ignore[method-assign, assignment]
    world.attend()
    assert [world.run(run).status for run in runs] == [RunStatus.CLAIMED, RunStatus.FINISHED]
    assert runs[0].id in caplog.text


@pytest.mark.parametrize("has_late", [False, True])
def test_an_agent_that_a_stopping_supervisor_ends_goes_back_to_the_queue(
    world: World, has_late: bool
) -> None:
    """behaviour §7: drain requeues leave `retry_count` unchanged; §2 Un-claim: shutdown."""
    bot = world.given_agent(cooldown_s=10)
    task = world.given_task(agent=bot)
    told = world.request("user", bot, task=task)
    run = world.process()
    late = [world.request("user", bot, task=task)] if has_late else []
    world.machine.cancel(world.ref(run))
    world.attend()
    requeued = world.run(run)
    assert (requeued.status, requeued.retry_count) == (RunStatus.QUEUED, 0)
    assert requeued.scheduled_retry_at is None
    assert world.agent(bot).last_wakeup_finished_at is None
    assert world.task(task).checkout_run_id is None
    world.restart()
    world.process()
    assert world.wakeups_told(run) == [request.id for request in [told, *late]]
    assert world.prompt_of(run).count("seen in attempt 1") == 1


def test_a_revoked_attempt_is_un_claimed(world: World) -> None:
    """behaviour §6 Lost and found: fenced by somebody else, its run is queued again."""
    world.request("user", world.given_agent())
    run = world.process()
    requeued = world.ends(run, ending=Ending.REVOKED, exit_code=None)
    assert (requeued.status, requeued.retry_count) == (RunStatus.QUEUED, 0)


def test_settling_twice_changes_nothing(world: World) -> None:
    """I8: terminal rows never change; losing a race is a normal answer."""
    world.request("user", world.given_agent())
    run = world.process()
    done = world.finish(run)
    world.advance(60)
    result = world.machine.poll(AttemptRef(run_id=run.id, attempt=1)).result
    world.pipeline.finish_with(run, result)
    assert world.run(run) == done
