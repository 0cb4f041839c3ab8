"""Wakeup requests meet runs: keys, merging, promotion, the window, scopes, and what comes too late."""

from __future__ import annotations

import pytest
from world import MINUTE, SECOND, World

from kandev_sched.domain.runs import Reason, RunStatus
from kandev_sched.domain.wakeups import WINDOWED_SOURCES, WakeupSource, WakeupStatus
from kandev_sched.policy.coalesce import ConcurrencyPolicy

TASKLESS = ("self", "user", "agent_error", "budget_alert", "approval_resolved")


# --- layer 1: keys ----------------------------------------------------------------------------------------


def test_the_same_key_wakes_an_agent_once_however_often_it_is_asked(world: World) -> None:
    """S0 Coalescing layer 1: duplicate inserts with the same source identity are rejected silently."""
    bot = world.given_agent()
    task = world.given_task(agent=bot)
    first = world.dispatch("comment", bot, task=task, key="comment:c1")
    again = world.dispatch("comment", bot, task=task, key="comment:c1")
    assert (again.is_duplicate, again.request, again.run) == (True, first.request, first.run)
    assert not first.is_duplicate
    assert world.run_of(first.request).coalesced_count == 1
    assert len(world.requests()) == 1


def test_a_key_stays_used_after_its_run_has_ended_and_after_24_hours(world: World) -> None:
    """S0 Wakeup queue: the persisted key remains unique for its lifetime."""
    bot = world.given_agent()
    first = world.request("user", bot, key="once")
    world.finish(world.process())
    world.advance(48 * 3600)
    again = world.dispatch("user", bot, key="once")
    assert again.is_duplicate
    assert again.request.id == first.id
    assert world.process() is None


def test_one_comment_wakes_each_agent_that_it_is_for(world: World) -> None:
    """behaviour §2 Idempotency keys: unique per (workspace, agent, key); a comment once for each agent."""
    ann, ben = world.given_agent("ann"), world.given_agent("ben")
    task = world.given_task(agent=ann)
    world.request("comment", ann, task=task, key="comment:c1")
    assert not world.dispatch("comment", ben, task=task, key="comment:c1").is_duplicate
    assert len(world.requests()) == 2


def test_requests_without_a_key_stay_distinct(world: World) -> None:
    """S0 Coalescing layer 1: manual and unkeyed fires remain distinct."""
    bot = world.given_agent()
    world.request("user", bot)
    world.request("user", bot)
    assert world.run_of(world.requests()[0]).coalesced_count == 2


def test_a_fire_by_hand_with_a_key_returns_what_came_of_it_the_first_time(world: World) -> None:
    """S0 Coalescing layer 1 (`Idempotency-Key`): a second fire with the same key is the first."""
    routine = world.given_routine(agent=world.given_agent())
    first = world.fire(routine, key="deploy-7")
    world.finish(world.process())
    again = world.fire(routine, key="deploy-7")
    assert again.is_duplicate
    assert again.routine_run.id == first.routine_run.id
    assert len(world.routine_runs_of(routine)) == 1
    assert world.process() is None


def test_the_key_of_a_schedule_names_routine_trigger_and_unix_minute(world: World) -> None:
    """S0 Coalescing layer 1: `routine:<routine_id>:<trigger_id>:<unix_minute>`."""
    routine = world.given_routine(agent=world.given_agent(), cron="*/5 * * * *")
    (trigger,) = world.triggers_of(routine)
    world.advance(300)
    world.tick()
    (request,) = world.requests()
    assert request.idempotency_key == f"routine:{routine.id}:{trigger.id}:{world.now // MINUTE}"


def test_one_slot_fires_once_even_if_its_trigger_is_set_back_by_hand(world: World) -> None:
    """I2, I6: one occurrence, one routine run; a slot fires at most once."""
    routine = world.given_routine(agent=world.given_agent(), cron="*/5 * * * *")
    (trigger,) = world.triggers_of(routine)
    world.advance(300)
    world.tick()
    world.change(f"UPDATE triggers SET next_run_at = {trigger.next_run_at}")
    world.tick()
    assert len(world.routine_runs_of(routine)) == 1
    assert len(world.requests()) == 1


# --- layer 2: merging -------------------------------------------------------------------------------------


def test_a_request_without_a_run_in_flight_gets_a_fresh_run_and_is_claimed_against_it(world: World) -> None:
    """S0 Coalescing layer 2: if no in-flight run exists at all, create the corresponding run."""
    bot = world.given_agent()
    request = world.request("user", bot)
    run = world.run_of(request)
    assert (request.status, run.status, run.coalesced_count) == (WakeupStatus.CLAIMED, RunStatus.QUEUED, 1)


def test_a_request_joins_the_queued_run_and_the_prompt_names_all_of_them(world: World) -> None:
    """behaviour §2 Merging loses nothing: a run holds a list, and the prompt is built from the list."""
    bot = world.given_agent()
    requests = [world.request(source, bot) for source in TASKLESS]
    assert [request.status for request in requests] == [WakeupStatus.CLAIMED] + [WakeupStatus.COALESCED] * 4
    run = world.process()
    assert run.coalesced_count == 5
    assert world.wakeups_told(run) == [request.id for request in requests]
    prompt = world.prompt_of(run)
    for word in ("self-reason-of-", "user-of-", "failed-for-", "spender-of-", "approval-of-"):
        assert word in prompt
    assert world.process() is None


def test_five_merged_children_events_each_reach_the_prompt(world: World) -> None:
    """S0 Coalescing example: 5 wakeups within 3 seconds, coalesced into 1 with coalesced_count=5."""
    bot = world.given_agent()
    task = world.given_task(agent=bot)
    for _ in range(5):
        world.request("task_blockers_resolved", bot, task=task)
        world.advance(0.6)
    world.advance(5)
    run = world.process()
    assert run.coalesced_count == 5
    prompt = world.prompt_of(run)
    assert all(f"blocker-of-{request.id}" in prompt for request in world.requests_of(run))
    world.finish(run)
    assert [world.ending_of(r) for r in world.requests_of(run)] == [("delivered", None)] * 5


def test_merged_requests_keep_the_word_coalesced_when_their_run_ends(world: World) -> None:
    """behaviour §2 Delivery: a claimed request becomes finished with its run, a coalesced one stays so."""
    bot = world.given_agent()
    own, merged = world.request("user", bot), world.request("user", bot)
    world.finish(world.process())
    assert world.wakeup(own).status is WakeupStatus.FINISHED
    assert world.wakeup(merged).status is WakeupStatus.COALESCED
    assert world.wakeup(own).finished_at == world.wakeup(merged).finished_at == world.now


def test_a_request_joins_the_queued_run_before_the_claimed_one(world: World) -> None:
    """behaviour §2 Dispatch 3: candidates are in-flight runs of the scope, queued before claimed."""
    bot = world.given_agent()
    routine = world.given_routine(agent=bot)
    world.given_task(agent=bot)
    world.fire_by_schedule(routine)
    at_work = world.process()
    queued = world.run_of(world.request("user", bot))
    assert queued.id != at_work.id
    assert world.run_of(world.request("self", bot)).id == queued.id


def test_of_several_queued_runs_the_oldest_takes_the_request(world: World) -> None:
    """behaviour §2 Dispatch 3: then oldest."""
    bot = world.given_agent()
    oldest = world.request("user", bot, policy=ConcurrencyPolicy.ALWAYS_ENQUEUE)
    world.advance(1)
    world.request("user", bot, policy=ConcurrencyPolicy.ALWAYS_ENQUEUE)
    world.advance(1)
    assert world.request("self", bot).run_id == oldest.run_id


def test_always_enqueue_gives_each_request_a_run_of_its_own(world: World) -> None:
    """behaviour §2 Dispatch 2: `always_enqueue` → fresh run."""
    bot = world.given_agent()
    routine = world.given_routine(agent=bot, concurrency=ConcurrencyPolicy.ALWAYS_ENQUEUE)
    fired = [world.fire(routine) for _ in range(3)]
    assert len({f.run.id for f in fired}) == 3
    assert {f.wakeup.status for f in fired} == {WakeupStatus.CLAIMED}


# --- layer 2: promotion -----------------------------------------------------------------------------------


def test_an_event_that_joins_a_queued_periodic_run_promotes_it(world: World) -> None:
    """S0 Coalescing layer 2 (queued): promote the run's reason to the new request's classification."""
    bot = world.given_agent()
    periodic = world.fire_by_schedule(world.given_routine(agent=bot))
    assert world.run(periodic.run).reason is Reason.PERIODIC
    event = world.request("user", bot)
    run = world.run(periodic.run)
    assert (run.reason, run.source, run.coalesced_count) == (Reason.EVENT, "user", 2)
    assert (event.run_id, event.status) == (run.id, WakeupStatus.COALESCED)


def test_a_promoted_run_is_not_eaten_by_the_idle_skip(world: World) -> None:
    """S0 Coalescing layer 2: the agent sees the merged context and the promoted reason when it runs."""
    bot = world.given_agent()
    periodic = world.fire_by_schedule(world.given_routine(agent=bot))
    event = world.request("user", bot)
    run = world.process()
    assert world.launched() == [run.id]
    assert world.wakeups_told(run) == [periodic.wakeup.id, event.id]


def test_a_periodic_request_never_demotes_an_event_run(world: World) -> None:
    """I7, S0 Coalescing layer 2: monotonic, periodic → event only, never the reverse."""
    bot = world.given_agent()
    event = world.request("user", bot)
    fired = world.fire_by_schedule(world.given_routine(agent=bot))
    assert fired.run.id == event.run_id
    assert world.run_of(event).reason is Reason.EVENT


def test_an_event_for_a_claimed_periodic_run_gets_a_run_of_its_own(world: World) -> None:
    """S0 Coalescing layer 2 (claimed): it is not promoted or merged into; the request gets a fresh run."""
    bot = world.given_agent()
    world.given_task(agent=bot)
    periodic = world.fire_by_schedule(world.given_routine(agent=bot))
    claimed = world.claim()
    assert claimed.id == periodic.run.id
    event = world.request("user", bot)
    assert event.status is WakeupStatus.CLAIMED
    assert event.run_id != claimed.id
    assert world.run(claimed).reason is Reason.PERIODIC
    assert world.run(claimed).coalesced_count == 1


@pytest.mark.parametrize("second", ["user", "routine"], ids=["event into event", "periodic into event"])
def test_a_claimed_run_that_needs_no_promotion_takes_the_request(world: World, second: str) -> None:
    """S0 Coalescing layer 2 (claimed, no promotion needed): coalesced into exactly as before."""
    bot = world.given_agent()
    world.request("user", bot)
    claimed = world.claim()
    if second == "routine":
        request = world.fire_by_schedule(world.given_routine(agent=bot)).wakeup
    else:
        request = world.request(second, bot)
    assert (request.run_id, request.status) == (claimed.id, WakeupStatus.COALESCED)
    assert world.run(claimed).coalesced_count == 2


def test_a_periodic_request_joins_a_claimed_periodic_run_of_its_routine(world: World) -> None:
    """S0 Coalescing layer 2 (claimed, no promotion needed): the new request is itself periodic."""
    bot = world.given_agent()
    routine = world.given_routine(agent=bot)
    world.fire_by_schedule(routine)
    claimed = world.claim()
    assert world.fire_by_schedule(routine).run.id == claimed.id


# --- late ones --------------------------------------------------------------------------------------------


def test_what_joins_a_run_before_its_prompt_is_built_stands_in_the_prompt(world: World) -> None:
    """behaviour §2 Delivery: delivered when a prompt that contains it is handed to the agent."""
    bot = world.given_agent()
    world.request("user", bot)
    late: list[str] = []
    world.meanwhile("prepare", lambda: late.append(world.request("self", bot).id))
    run = world.process()
    assert world.wakeups_told(run)[1:] == late
    assert world.wakeup(late[0]).delivered_at == world.now


def test_a_late_event_follows_up_in_a_fresh_run_asked_for_when_it_was(world: World) -> None:
    """behaviour §2 Delivery: undelivered requests follow up, `requested_at` is that of the oldest of them."""
    bot = world.given_agent()
    first = world.request("user", bot)
    run = world.process()
    world.advance(10)
    late, asked_at = world.request("user", bot), world.now
    assert (late.run_id, late.status) == (run.id, WakeupStatus.COALESCED)
    assert world.wakeup(late).delivered_at is None
    world.advance(10)
    finished = world.finish(run)
    follow_up = world.run_of(late)
    assert world.ending_of(first) == ("delivered", None)
    assert world.ending_of(late) is None
    assert (follow_up.follow_up_of, follow_up.requested_at, follow_up.status) == (run.id, asked_at, "queued")
    assert (finished.coalesced_count, follow_up.coalesced_count) == (1, 1)
    assert world.wakeups_told(world.process()) == [late.id]
    world.finish(follow_up)
    assert world.ending_of(late) == ("delivered", None)


def test_late_events_follow_up_into_the_queued_run_of_their_scope(world: World) -> None:
    """behaviour §2 Delivery: they join the scope's queued run, else a fresh one, never a claimed one."""
    bot = world.given_agent(max_sessions=2)
    world.request("user", bot)
    run = world.process()
    late = world.request("user", bot)
    other = world.request("user", bot, policy=ConcurrencyPolicy.ALWAYS_ENQUEUE)
    world.finish(run)
    assert world.wakeup(late).run_id == other.run_id
    assert world.run_of(other).coalesced_count == 2


def test_late_events_never_follow_up_into_a_claimed_run(world: World) -> None:
    """behaviour §2 Delivery: never a claimed one."""
    bot = world.given_agent(max_sessions=2)
    world.request("user", bot)
    run = world.process()
    late = world.request("user", bot)
    world.request("user", bot, policy=ConcurrencyPolicy.ALWAYS_ENQUEUE)
    at_work = world.process()
    world.finish(run)
    assert world.run_of(late).id not in (run.id, at_work.id)
    assert world.run_of(late).status is RunStatus.QUEUED


def test_a_late_event_that_joins_a_periodic_queued_run_promotes_it(world: World) -> None:
    """I7, behaviour §2 Delivery: a follow-up must not be eaten by the idle skip either."""
    bot = world.given_agent()
    world.request("user", bot)
    run = world.process()
    late = world.request("user", bot)
    routine = world.given_routine(agent=bot, concurrency=ConcurrencyPolicy.ALWAYS_ENQUEUE)
    periodic = world.fire_by_schedule(routine)
    assert world.run(periodic.run).reason is Reason.PERIODIC
    world.finish(run)
    assert world.wakeup(late).run_id == periodic.run.id
    assert world.run(periodic.run).reason is Reason.EVENT


def test_a_late_user_wake_makes_a_run_that_waits_for_its_window_eligible(world: World) -> None:
    """behaviour §2 Coalescing window: the other sources make such a run eligible at once."""
    bot = world.given_agent()
    world.request("user", bot)
    run = world.process()
    late = world.request("user", bot)
    waiting = world.request("budget_alert", bot, policy=ConcurrencyPolicy.ALWAYS_ENQUEUE)
    assert world.run_of(waiting).eligible_at == world.now + 5 * SECOND
    world.finish(run)
    assert world.run_of(late).id == waiting.run_id
    assert world.run_of(late).eligible_at == world.now


def test_a_late_periodic_request_of_the_same_routine_is_served_by_a_run_that_finished(world: World) -> None:
    """behaviour §2 Delivery: only such a request ends `skipped` (`served`)."""
    bot = world.given_agent()
    world.given_task(agent=bot)
    routine = world.given_routine(agent=bot)
    world.fire_by_schedule(routine)
    run = world.process()
    late = world.fire_by_schedule(routine)
    world.finish(run)
    assert world.ending_of(late.wakeup) == ("skipped", "served")
    assert world.process() is None


def test_a_late_periodic_request_follows_up_when_the_run_did_not_finish(world: World) -> None:
    """behaviour §2 Delivery: `served` only by a run that finished."""
    bot = world.given_agent()
    world.given_task(agent=bot)
    routine = world.given_routine(agent=bot)
    world.fire_by_schedule(routine)
    run = world.process()
    late = world.fire_by_schedule(routine)
    assert world.cancel_and_end(run).status is RunStatus.CANCELLED
    assert world.ending_of(late.wakeup) is None
    assert world.run_of(late.wakeup).follow_up_of == run.id


def test_a_late_periodic_request_of_another_routine_follows_up(world: World) -> None:
    """behaviour §2 Delivery: of the same routine only."""
    bot = world.given_agent()
    world.request("user", bot)
    run = world.process()
    late = world.fire_by_schedule(world.given_routine(agent=bot))
    assert late.run.id == run.id
    world.finish(run)
    assert world.ending_of(late.wakeup) is None
    assert world.run_of(late.wakeup).follow_up_of == run.id


def test_a_follow_up_of_a_failed_run_starts_no_sooner_than_the_first_backoff_step(world: World) -> None:
    """behaviour §2 Delivery: no sooner than the first backoff step."""
    bot = world.given_agent()
    world.request("user", bot)
    run = world.process()
    for _ in range(4):
        world.fail(run)
        world.advance(3 * 3600)
        world.process()
    late = world.request("user", bot)
    assert world.fail(run).status is RunStatus.FAILED
    assert world.run_of(late).eligible_at == world.now + 2 * MINUTE


def test_on_a_retry_all_requests_stand_in_the_prompt_and_the_seen_ones_are_marked(world: World) -> None:
    """behaviour §2 Delivery: those of an earlier attempt marked "seen in attempt n; it may have acted"."""
    bot = world.given_agent()
    first = world.request("user", bot)
    run = world.process()
    late = world.request("user", bot)
    world.fail(run)
    world.advance(121)
    assert world.process().attempt == 2
    assert world.wakeups_told(run) == [first.id, late.id]
    told = world.prompt_of(run).splitlines()
    marks = [number for number, line in enumerate(told) if "seen in attempt 1; it may have acted" in line]
    assert len(marks) == 1
    assert f"user-of-{first.id}" in "\n".join(told[: marks[0]])
    assert f"user-of-{late.id}" in "\n".join(told[marks[0] :])


# --- the window -------------------------------------------------------------------------------------------


def test_five_comments_in_three_seconds_make_one_run_eligible_five_seconds_after_the_first(
    world: World,
) -> None:
    """S0 Coalescing window, behaviour §2 Coalescing window: never extended, so that a burst lands in one."""
    bot = world.given_agent()
    task = world.given_task(agent=bot)
    began = world.now
    for _ in range(5):
        world.request("comment", bot, task=task)
        world.advance(0.75)
    (run,) = world.runs(bot)
    assert (run.eligible_at, run.coalesced_count) == (began + 5 * SECOND, 5)
    assert world.process() is None
    world.advance(5 - 5 * 0.75)
    assert world.wakeups_told(world.process()) == [request.id for request in world.requests()]


def test_a_user_wake_opens_the_window_at_once(world: World) -> None:
    """behaviour §2 Coalescing window: the other sources make a waiting run eligible at once."""
    bot = world.given_agent()
    task = world.given_task(agent=bot)
    world.request("comment", bot, task=task)
    world.advance(1)
    assert world.process() is None
    world.request("user", bot, task=task)
    run = world.process()
    assert run is not None
    assert run.coalesced_count == 2


def test_a_second_comment_does_not_open_the_window(world: World) -> None:
    """behaviour §2 Coalescing window: a burst waits for the end of its window."""
    bot = world.given_agent()
    task = world.given_task(agent=bot)
    world.request("comment", bot, task=task)
    world.advance(4.9)
    world.request("comment", bot, task=task)
    assert world.process() is None


@pytest.mark.parametrize("source", list(WakeupSource))
def test_only_the_five_sources_that_come_in_bursts_wait(world: World, source: WakeupSource) -> None:
    """behaviour §2 Coalescing window: comment, blockers, children, agent_error and budget_alert."""
    waits = source in (
        "comment",
        "task_blockers_resolved",
        "task_children_completed",
        "agent_error",
        "budget_alert",
    )
    assert (source in WINDOWED_SOURCES) is waits
    bot = world.given_agent()
    task = world.given_task(agent=bot)
    run = world.run_of(world.request(source, bot, task=task))
    assert (run.eligible_at - world.now, run.window_open) == (5 * SECOND * waits, waits)


def test_a_window_of_zero_is_off(world: World) -> None:
    """behaviour §2 Coalescing window: 0 = off."""
    world.set_settings(coalesce_window_s=0)
    bot = world.given_agent()
    world.request("comment", bot, task=world.given_task(agent=bot))
    assert world.process() is not None


def test_a_user_wake_does_not_hurry_a_run_that_waits_for_its_retry(world: World) -> None:
    """behaviour §2 Coalescing window: only a run that waits only for its window becomes eligible."""
    bot = world.given_agent()
    world.request("user", bot)
    run = world.process()
    world.fail(run)
    world.request("user", bot)
    assert world.process() is None
    assert world.run(run).eligible_at == world.now + 2 * MINUTE


# --- scopes -----------------------------------------------------------------------------------------------


def test_requests_of_different_tasks_never_share_a_run(world: World) -> None:
    """behaviour §2 Scope: a run has one scope for life; one task, or none."""
    bot = world.given_agent()
    one, two = world.given_task(agent=bot), world.given_task(agent=bot)
    requests = [world.request("comment", bot, task=task) for task in (one, two, one)]
    assert requests[0].run_id == requests[2].run_id != requests[1].run_id
    assert [run.task_id for run in world.runs(bot)] == [one.id, two.id]


def test_a_taskless_request_and_a_task_never_share_a_run(world: World) -> None:
    """behaviour §2 Scope: requests merge only inside a scope."""
    bot = world.given_agent()
    task = world.given_task(agent=bot)
    assert world.request("user", bot).run_id != world.request("user", bot, task=task).run_id


def test_requests_of_different_routines_never_share_a_run(world: World) -> None:
    """behaviour §2 Dispatch 3: requests of different routines never share a run."""
    bot = world.given_agent()
    one, two = (world.given_routine(name, agent=bot) for name in ("one", "two"))
    assert world.fire(one).run.id != world.fire(two).run.id
    assert world.fire(one).run.id == world.runs(bot)[0].id


def test_a_run_that_took_a_routine_in_takes_no_other_routine(world: World) -> None:
    """behaviour §2 Dispatch 3: one summary scope each, also in a run that an event began."""
    bot = world.given_agent()
    event = world.request("user", bot)
    one, two = (world.given_routine(name, agent=bot) for name in ("one", "two"))
    assert world.fire(one).run.id == event.run_id
    assert world.fire(two).run.id != event.run_id


def test_requests_of_different_agents_never_share_a_run(world: World) -> None:
    """S0 Coalescing layer 2: an in-flight run for the same agent."""
    ann, ben = world.given_agent("ann"), world.given_agent("ben")
    assert world.request("user", ann).run_id != world.request("user", ben).run_id


# --- layer 3 ----------------------------------------------------------------------------------------------


def test_the_database_itself_refuses_a_second_row_with_the_same_key(world: World) -> None:
    """S0 Coalescing layer 3: a defensive secondary key."""
    import apsw

    bot = world.given_agent()
    world.request("user", bot, key="k")
    with pytest.raises(apsw.ConstraintError):
        world.insert_stranded("user", bot, key="k")
