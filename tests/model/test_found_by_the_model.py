"""Histories that the model and the crash tests found, shrunk and named."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from invariants import Watcher, breaches, demand
from world import World

from kandev_sched.domain.errors import Unavailable
from kandev_sched.domain.runs import RunStatus
from kandev_sched.flow.settle import Outcome, OutcomeKind
from kandev_sched.operations.routines import archive_routine
from kandev_sched.store import runs
from kandev_sched.store.db import Tx


def demand_invariants(world: World) -> None:
    """Every invariant that one state shows."""
    watcher = Watcher(world.path)
    try:
        demand(breaches(watcher.state()))
    finally:
        watcher.close()


def test_a_wake_that_joined_late_outlives_the_cancel_of_an_unborn_run(world: World) -> None:
    """behaviour §2: `run cancel` cancels what was prompted; late ones follow up, after a crash too."""
    world.machine.starts_slowly = True
    bot = world.given_agent()
    first = world.request("user", bot)
    run = world.process()
    late = world.request("user", bot)
    world.cancel(run, reason="cancelled by the user")
    later = world.request("user", bot)

    world.restart()
    assert world.ending_of(first) == ("cancelled", "cancelled by the user")
    assert world.ending_of(late) is None
    assert world.run_of(late).id == world.run_of(later).id != run.id
    world.machine.starts_slowly = False
    world.finish(world.process())
    assert (world.ending_of(late), world.ending_of(later)) == (("delivered", None), ("delivered", None))
    demand_invariants(world)


def test_a_wake_after_the_cancel_of_a_run_that_was_only_claimed_is_not_cancelled_with_it(
    world: World,
) -> None:
    """behaviour §2: the supervisor died at step 1; a person cancels, then asks again, and that stands."""
    bot = world.given_agent()
    first = world.request("user", bot)
    run = world.claim()
    world.cancel(run, reason="cancelled by the user")
    again = world.request("user", bot)

    world.restart()
    assert world.ending_of(first) == ("cancelled", "cancelled by the user")
    assert world.run(run).status is RunStatus.CANCELLED
    world.finish(world.process())
    assert world.ending_of(again) == ("delivered", None)
    demand_invariants(world)


@pytest.mark.parametrize("moment", ["admit", "prepare"])
def test_a_wake_between_the_cancel_and_the_prompt_follows_up(world: World, moment: str) -> None:
    """behaviour §2: the ending counts only for what it judged."""
    bot = world.given_agent()
    first = world.request("user", bot)
    later = []

    def cancel_and_ask_again() -> None:
        world.cancel(world.run_of(first), reason="cancelled by the user")
        later.append(world.request("user", bot))

    world.meanwhile(moment, cancel_and_ask_again)
    world.process()
    assert world.ending_of(first) == ("cancelled", "cancelled by the user")
    assert world.ending_of(later[0]) is None
    world.finish(world.process())
    assert world.ending_of(later[0]) == ("delivered", None)
    demand_invariants(world)


@pytest.mark.parametrize("moment", ["admit", "prepare"])
def test_no_agent_is_started_for_a_run_whose_last_request_has_just_ended(world: World, moment: str) -> None:
    """I1, behaviour §2: archiving a routine cancels what was not prompted; then nothing is to be said."""
    bot = world.given_agent()
    routine = world.given_routine(agent=bot)
    fired = world.fire(routine)
    world.meanwhile(moment, lambda: world.db.write(lambda tx: archive_routine(tx, routine)))
    world.process()
    assert world.ending_of(fired.wakeup) == ("cancelled", "routine_deleted")
    assert world.launched() == []
    assert world.run(fired.run).status is RunStatus.CANCELLED
    demand_invariants(world)


def test_the_watcher_does_not_revoke_a_launch_that_happened_while_it_looked(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """behaviour §6: its list is older than its look at what is in hand; an unborn attempt may be starting."""
    world.machine.starts_slowly = True
    bot = world.given_agent()
    world.request("user", bot)
    listed = []
    world.meanwhile("launch", lambda: listed.extend(world.db.read(runs.claimed)))
    run = world.process()
    monkeypatch.setattr(runs, "claimed", lambda _: listed)
    world.attend()
    assert world.machine.fenced == []
    assert (world.run(run).status, world.run(run).attempt) == (RunStatus.CLAIMED, 1)


def test_the_end_of_one_attempt_is_never_taken_for_the_end_of_the_next(world: World) -> None:
    """I4, I11: settling compares the attempt too."""
    bot = world.given_agent()
    world.request("user", bot, task=world.given_task(agent=bot))
    first = world.process()
    world.pipeline.finish(first, Outcome(kind=OutcomeKind.UNCLAIMED, reason="revoked"))
    second = world.process()
    assert (second.id, second.attempt) == (first.id, 2)

    world.pipeline.finish(first, Outcome(kind=OutcomeKind.UNCLAIMED, reason="revoked"))
    assert world.run(second).status is RunStatus.CLAIMED
    demand_invariants(world)


def test_a_claim_whose_commit_is_in_doubt_is_left_to_the_watcher(world: World) -> None:
    """I11: COMMIT raised and counts all the same; the run must not stay in nobody's hand."""
    bot = world.given_agent()
    request = world.request("user", bot)
    write = world.db.write

    def doubtful(work: Callable[[Tx], object]) -> object:
        write(work)
        raise Unavailable("the disk said no, and yet")

    world.db.write = doubtful  # type: ignore[method-assign, assignment]
    with pytest.raises(Unavailable):
        world.pipeline.process()
    world.db.write = write  # type: ignore[method-assign]
    assert world.run_of(request).status is RunStatus.CLAIMED

    world.attend()
    world.finish(world.process())
    assert world.ending_of(request) == ("delivered", None)
    demand_invariants(world)


def test_archiving_a_routine_leaves_no_queued_run_that_holds_nothing(world: World) -> None:
    """behaviour §3: on a paused agent it would wait for ever; a run that holds another wake goes on."""
    bot = world.given_agent()
    alone, shared = world.given_routine("alone", agent=bot), world.given_routine("shared", agent=bot)
    by_itself, joined = world.fire(alone), world.fire(shared)
    other = world.request("user", bot)
    world.pause(bot)
    for routine in (alone, shared):
        world.db.write(lambda tx, routine=routine: archive_routine(tx, routine))
    assert {world.run(fired.run).status for fired in (by_itself, joined)} == {
        RunStatus.CANCELLED,
        RunStatus.QUEUED,
    }
    assert world.run_of(other).status is RunStatus.QUEUED
    world.resume(bot)
    world.finish(world.process())
    assert world.ending_of(other) == ("delivered", None)
    demand_invariants(world)
