"""What a fire does: concurrency policies, fingerprints, lightweight and heavy routines, variables."""

from __future__ import annotations

import pytest
from world import START, World

from kandev_sched.domain.errors import Conflict, Invalid
from kandev_sched.domain.routines import (
    ConcurrencyPolicy,
    FireSource,
    Routine,
    RoutineRunStatus,
    RoutineStatus,
    Variable,
    VariableType,
)
from kandev_sched.domain.runs import Reason
from kandev_sched.domain.tasks import TaskState
from kandev_sched.domain.wakeups import WakeupStatus
from kandev_sched.operations import routines as routine_operations
from kandev_sched.operations import triggers as trigger_operations
from kandev_sched.operations.schedules import Schedule
from kandev_sched.policy import dedup

SKIP = ConcurrencyPolicy.SKIP_IF_ACTIVE
COALESCE = ConcurrencyPolicy.COALESCE_IF_ACTIVE
ALWAYS = ConcurrencyPolicy.ALWAYS_ENQUEUE


# --- lightweight ------------------------------------------------------------------------------------------


def test_a_lightweight_fire_makes_a_taskless_run_and_no_task(world: World) -> None:
    """S0 Heavy vs lightweight: fire produces a taskless agent run."""
    fired = world.fire(world.given_routine(agent=world.given_agent()))
    assert fired.task is None
    assert fired.run.task_id is None
    assert world.tasks() == []
    assert fired.routine_run.status is RoutineRunStatus.RECEIVED


@pytest.mark.parametrize(
    ("by_schedule", "reason"),
    [(True, Reason.PERIODIC), (False, Reason.EVENT)],
    ids=["cron-triggered is periodic", "manual is an event"],
)
def test_only_a_schedule_makes_a_periodic_request(world: World, by_schedule: bool, reason: Reason) -> None:
    """behaviour §2 Periodic or event: `routine` fired by a schedule, lightweight; all else is an event."""
    routine = world.given_routine(agent=world.given_agent())
    fired = world.fire_by_schedule(routine) if by_schedule else world.fire(routine)
    assert (fired.wakeup.periodic, fired.run.reason) == (by_schedule, reason)


def test_a_heavy_fire_by_schedule_is_an_event(world: World) -> None:
    """behaviour §2 Periodic or event: a heavy routine's request carries a task."""
    routine = world.given_routine(agent=world.given_agent(), task_title="daily review")
    fired = world.fire_by_schedule(routine)
    assert (fired.wakeup.periodic, fired.run.reason) == (False, Reason.EVENT)


@pytest.mark.parametrize(
    ("how", "status"),
    [
        ("delivered", RoutineRunStatus.DONE),
        ("failed", RoutineRunStatus.FAILED),
        ("skipped", RoutineRunStatus.SKIPPED),
        ("cancelled", RoutineRunStatus.CANCELLED),
    ],
)
def test_a_lightweight_routine_run_ends_with_its_request(
    world: World, how: str, status: RoutineRunStatus
) -> None:
    """behaviour §3 lightweight: it ends with its request, each ending with its own status."""
    bot = world.given_agent(argv=None if how == "failed" else ("agent",))
    routine = world.given_routine(agent=bot)
    fired = world.fire_by_schedule(routine) if how == "skipped" else world.fire(routine)
    if how == "cancelled":
        world.cancel(fired.run)
    run = world.process()
    if how == "delivered":
        assert world.routine_run(fired.routine_run).status is RoutineRunStatus.RECEIVED
        world.finish(run)
    ended = world.routine_run(fired.routine_run)
    assert (ended.status, ended.finished_at) == (status, world.now)
    assert world.ending_of(fired.wakeup)[0] == how


def test_the_prompt_names_the_routine_and_its_values(world: World) -> None:
    """S0 Routine runs: the resolved variable values go with the fire."""
    routine = world.given_routine("checks", agent=world.given_agent(), description="look at {{what}}")
    fired = world.fire(routine, what="upstream PRs")
    assert fired.routine_run.trigger_payload == {"what": "upstream PRs"}
    prompt = world.prompt_of(world.process())
    assert "routine checks" in prompt
    assert "look at upstream PRs" in prompt


# --- heavy ------------------------------------------------------------------------------------------------


def test_a_heavy_fire_creates_a_task_on_the_routine_workflow_and_one_request(world: World) -> None:
    """S0 Heavy vs lightweight: creates a task in the system `routine` workflow, starts a task-bound run."""
    bot = world.given_agent()
    routine = world.given_routine(agent=bot, task_title="review of {{date}}", task_description="of {{area}}")
    fired = world.fire(routine, area="billing")
    task = world.task(fired.task)
    assert (task.title, task.description) == ("review of 2026-12-01", "of billing")
    assert (task.workflow_id, task.state) == ("routine", TaskState.IN_PROGRESS)
    assert task.assignee_agent_id == bot.id
    assert fired.run.task_id == task.id
    assert len(world.requests()) == 1
    assert fired.routine_run.status is RoutineRunStatus.TASK_CREATED
    assert world.routine_run(fired.routine_run).linked_task_id == task.id


@pytest.mark.parametrize(
    ("state", "status"),
    [(TaskState.DONE, RoutineRunStatus.DONE), (TaskState.CANCELLED, RoutineRunStatus.CANCELLED)],
)
def test_a_heavy_routine_run_ends_with_its_task_not_with_its_run(
    world: World, state: TaskState, status: RoutineRunStatus
) -> None:
    """behaviour §3 heavy: is `task_created`, and ends with the task."""
    fired = world.fire(world.given_routine(agent=world.given_agent(), task_title="review"))
    world.finish(world.process())
    assert world.routine_run(fired.routine_run).status is RoutineRunStatus.TASK_CREATED
    world.advance(60)
    world.move(fired.task, state)
    ended = world.routine_run(fired.routine_run)
    assert (ended.status, ended.finished_at) == (status, world.now)


# --- skip_if_active ---------------------------------------------------------------------------------------


def test_skip_if_active_creates_neither_task_nor_run(world: World) -> None:
    """S0 Concurrency policy skip_if_active: do not create a new task / run; mark `skipped`."""
    routine = world.given_routine(agent=world.given_agent(), concurrency=SKIP)
    first, second = world.fire(routine), world.fire(routine)
    assert second.run is None
    assert (second.routine_run.status, second.routine_run.finished_at) == (
        RoutineRunStatus.SKIPPED,
        world.now,
    )
    assert first.routine_run.id in second.routine_run.reason
    assert world.ending_of(second.wakeup) == ("skipped", "skip_if_active")
    assert len(world.runs()) == 1
    assert world.run(first.run).coalesced_count == 1


@pytest.mark.parametrize("at_work", [False, True], ids=["queued", "claimed"])
def test_a_run_that_has_not_ended_is_active(world: World, at_work: bool) -> None:
    """S0 Concurrency policy: "active" means that the linked run is not in a terminal state."""
    routine = world.given_routine(agent=world.given_agent(), concurrency=SKIP)
    world.fire(routine)
    if at_work:
        world.process()
    world.advance(30 * 86_400)
    assert world.fire(routine).routine_run.status is RoutineRunStatus.SKIPPED


def test_a_run_that_has_ended_is_not_active(world: World) -> None:
    """S0 Concurrency policy: "active" means not in a terminal state."""
    routine = world.given_routine(agent=world.given_agent(), concurrency=SKIP)
    world.fire(routine)
    world.finish(world.process())
    assert world.fire(routine).routine_run.status is RoutineRunStatus.RECEIVED


def test_the_run_into_which_a_request_was_coalesced_is_active_too(world: World) -> None:
    """behaviour §3 Concurrency: its own run, or the run into which its request was coalesced."""
    bot = world.given_agent()
    routine = world.given_routine(agent=bot, concurrency=SKIP)
    host_run = world.run_of(world.request("user", bot))
    assert world.fire(routine).run.id == host_run.id
    assert world.fire(routine).routine_run.status is RoutineRunStatus.SKIPPED
    world.finish(world.process())
    assert world.fire(routine).routine_run.status is RoutineRunStatus.RECEIVED


# --- coalesce_if_active -----------------------------------------------------------------------------------


def test_coalesce_if_active_merges_into_the_existing_run_and_marks_coalesced(world: World) -> None:
    """S0 Concurrency policy coalesce_if_active: merge into the existing run; mark `coalesced`."""
    routine = world.given_routine(agent=world.given_agent())
    assert routine.concurrency_policy is COALESCE  # the default
    first, second = world.fire(routine), world.fire(routine)
    occurrence = world.routine_run(second.routine_run)
    assert (occurrence.status, occurrence.finished_at) == (RoutineRunStatus.COALESCED, world.now)
    assert occurrence.coalesced_into_run_id == first.run.id
    assert world.wakeup(second.wakeup).status is WakeupStatus.COALESCED
    assert world.run(first.run).coalesced_count == 2


def test_other_values_are_other_work_so_a_fire_with_them_is_not_coalesced(world: World) -> None:
    """S0 Concurrency policy, by `dispatch_fingerprint`: hash of resolved template + assignee."""
    routine = world.given_routine(agent=world.given_agent(), task_title="review {{area}}")
    one, two = world.fire(routine, area="billing"), world.fire(routine, area="search")
    assert two.routine_run.status is RoutineRunStatus.TASK_CREATED
    assert one.task.id != two.task.id
    again = world.fire(routine, area="billing")
    assert again.routine_run.status is RoutineRunStatus.COALESCED
    assert again.task.id == one.task.id


def test_other_values_of_a_lightweight_routine_are_not_active_under_skip(world: World) -> None:
    """S0 Concurrency policy: an in-flight run for the same routine fingerprint."""
    bot = world.given_agent()
    routine = world.given_routine(agent=bot, description="check {{what}}", concurrency=SKIP)
    world.fire(routine, what="a")
    assert world.fire(routine, what="b").routine_run.status is RoutineRunStatus.RECEIVED
    assert world.fire(routine, what="a").routine_run.status is RoutineRunStatus.SKIPPED


def test_the_date_does_not_make_other_work_of_the_same_routine(world: World) -> None:
    """behaviour §3 Concurrency: built-ins are left as they stand in the fingerprint."""
    routine = world.given_routine(agent=world.given_agent(), task_title="{{datetime}}", concurrency=SKIP)
    world.fire(routine)
    world.advance(86_400)
    assert world.fire(routine).routine_run.status is RoutineRunStatus.SKIPPED


def test_another_assignee_is_other_work(world: World) -> None:
    """S0 Routine runs: the fingerprint hashes the assignee too."""
    ann, ben = world.given_agent("ann"), world.given_agent("ben")
    routine = world.given_routine(agent=ann, concurrency=SKIP)
    world.fire(routine)
    world.db.write(
        lambda tx: routine_operations.set_routine(
            tx, routine_operations.SetRoutine(routine=routine.id, agent=ben.name)
        )
    )
    fired = world.fire(world.routine(routine))
    assert fired.routine_run.status is RoutineRunStatus.RECEIVED
    assert fired.run.agent_id == ben.id


def test_coalescing_by_schedule_into_an_active_task_is_only_recorded(world: World) -> None:
    """behaviour §3 heavy: a fire that coalesces into an active task without a run is recorded."""
    routine = world.given_routine(agent=world.given_agent(), task_title="review")
    first = world.fire_by_schedule(routine)
    world.finish(world.process())
    second = world.fire_by_schedule(routine)
    occurrence = world.routine_run(second.routine_run)
    assert (occurrence.status, occurrence.linked_task_id) == (RoutineRunStatus.COALESCED, first.task.id)
    assert len(world.tasks()) == 1
    assert len(world.requests()) == 1
    assert world.process() is None


def test_coalescing_by_hand_into_an_active_task_wakes_its_assignee(world: World) -> None:
    """behaviour §3 heavy: by hand or webhook it also wakes the assignee."""
    routine = world.given_routine(agent=world.given_agent(), task_title="review")
    first = world.fire(routine)
    world.finish(world.process())
    second = world.fire(routine)
    assert world.routine_run(second.routine_run).status is RoutineRunStatus.COALESCED
    assert len(world.tasks()) == 1
    assert world.process().task_id == first.task.id


@pytest.mark.parametrize("state", [TaskState.BLOCKED, TaskState.IN_REVIEW, TaskState.TODO])
def test_a_task_that_is_not_terminal_is_active_whatever_its_age(world: World, state: TaskState) -> None:
    """S0 Concurrency policy: checks task state directly, does not release a live task because of its age."""
    routine = world.given_routine(agent=world.given_agent(), task_title="review", concurrency=SKIP)
    first = world.fire(routine)
    world.finish(world.process())
    world.move(first.task, state)
    world.advance(400 * 86_400)
    assert world.fire(routine).routine_run.status is RoutineRunStatus.SKIPPED


@pytest.mark.parametrize("how", ["DONE", "CANCELLED", "archived"])
def test_a_task_that_is_terminal_or_archived_is_not_active(world: World, how: str) -> None:
    """S0 Concurrency policy: a linked task is also inactive when it is archived or missing."""
    routine = world.given_routine(agent=world.given_agent(), task_title="review", concurrency=SKIP)
    first = world.fire(routine)
    world.finish(world.process())
    if how == "archived":
        world.archive_task(first.task)
    else:
        world.move(first.task, TaskState(how))
    second = world.fire(routine)
    assert second.routine_run.status is RoutineRunStatus.TASK_CREATED
    assert second.task.id != first.task.id


# --- always_enqueue ---------------------------------------------------------------------------------------


def test_always_enqueue_always_proceeds(world: World) -> None:
    """S0 Concurrency policy always_enqueue: always proceed."""
    routine = world.given_routine(agent=world.given_agent(), concurrency=ALWAYS)
    fired = [world.fire(routine) for _ in range(3)]
    assert {f.routine_run.status for f in fired} == {RoutineRunStatus.RECEIVED}
    assert len({f.run.id for f in fired}) == 3


# --- who may fire -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [RoutineStatus.PAUSED, RoutineStatus.ARCHIVED])
def test_a_routine_that_is_not_active_is_not_fired_by_hand(world: World, status: RoutineStatus) -> None:
    """behaviour §3 Occurrence id: a manual fire is refused for a disabled routine."""
    routine = world.given_routine(agent=world.given_agent())
    act = {
        RoutineStatus.PAUSED: routine_operations.pause_routine,
        RoutineStatus.ARCHIVED: routine_operations.archive_routine,
    }[status]
    world.db.write(lambda tx: act(tx, routine))
    with pytest.raises(Conflict):
        world.fire_by_schedule(routine)
    assert world.routine_runs_of(routine) == []
    assert world.requests() == []


def test_a_manual_fire_never_moves_the_schedule(world: World) -> None:
    """behaviour §3 Occurrence id: a manual fire is an occurrence of its own and never moves the schedule."""
    routine = world.given_routine(agent=world.given_agent(), cron="0 * * * *")
    (before,) = world.triggers_of(routine)
    fired = world.fire(routine)
    assert world.triggers_of(routine) == [before]
    assert (fired.routine_run.source, fired.routine_run.trigger_id) == (FireSource.MANUAL, None)


def test_a_fire_by_hand_for_an_archived_agent_is_refused(world: World) -> None:
    """I1, behaviour §2 Un-claim: an archived agent's requests are cancelled; none may be left unreachable."""
    bot = world.given_agent()
    routine = world.given_routine(agent=bot)
    world.archive(bot)
    with pytest.raises(Conflict):
        world.fire(routine)
    assert world.requests() == []


def test_a_slot_for_an_archived_agent_leaves_its_record_and_nothing_else(world: World) -> None:
    """I1, behaviour §2 Un-claim: agent_gone."""
    bot = world.given_agent()
    routine = world.given_routine(agent=bot, cron="*/5 * * * *")
    world.archive(bot)
    world.advance(300)
    world.tick()
    (occurrence,) = world.routine_runs_of(routine)
    assert (occurrence.status, occurrence.reason) == (RoutineRunStatus.CANCELLED, "agent_gone")
    assert world.runs() == []
    assert world.triggers_of(routine)[0].next_run_at == world.now + 300_000


# --- variables --------------------------------------------------------------------------------------------


def test_provided_values_win_over_defaults_which_win_over_built_ins(world: World) -> None:
    """S0 Variables: built-ins → declared defaults → provided values, later wins."""
    date = Variable(name="date", default="someday")
    routine = world.given_routine(
        agent=world.given_agent(), task_title="{{date}} {{datetime}}", variables=(date,), concurrency=ALWAYS
    )
    assert world.fire(routine).task.title == "someday 2026-12-01T09:00:00Z"
    assert world.fire(routine, date="now").task.title == "now 2026-12-01T09:00:00Z"


@pytest.mark.parametrize(
    ("cron_zone", "date"), [("Pacific/Auckland", "2026-12-01"), ("America/Los_Angeles", "2026-12-01")]
)
def test_dates_of_a_slot_follow_the_zone_of_its_trigger(world: World, cron_zone: str, date: str) -> None:
    """behaviour §3 Templates: dates follow the trigger's zone."""
    routine = world.given_routine(
        agent=world.given_agent(), cron="0 12 * * *", zone=cron_zone, task_title="{{date}}"
    )
    (trigger,) = world.triggers_of(routine)
    world.host.set_clock(trigger.next_run_at)
    world.tick()
    title = world.tasks()[0].title
    noon_utc = {"Pacific/Auckland": 23, "America/Los_Angeles": 20}[cron_zone]
    assert (trigger.next_run_at // 3_600_000 - START // 3_600_000 + 9) % 24 == noon_utc
    assert title == ("2026-12-02" if cron_zone == "Pacific/Auckland" else date)


def test_a_manual_fire_uses_the_zone_of_the_only_schedule(world: World) -> None:
    """behaviour §3 Templates: the zone of the routine's schedule if it has exactly one, else UTC."""
    world.host.set_clock(START + 3 * 3_600_000)  # noon UTC, one in the morning of the 2nd in Auckland
    zoned = world.given_routine("zoned", agent=world.given_agent(), task_title="{{date}}")
    add = Schedule(cron="0 0 * * *", zone="Pacific/Auckland")
    assert world.fire(zoned).task.title == "2026-12-01"
    world.db.write(lambda tx: trigger_operations.add_trigger_to(tx, zoned, add))
    world.move(world.tasks()[0], TaskState.DONE)
    assert world.fire(zoned).task.title == "2026-12-02"


def test_a_placeholder_without_a_declaration_is_declared_on_save(world: World) -> None:
    """S0 Variables: adding {{new_var}} auto-creates the declaration (text, no default, not required)."""
    routine = world.given_routine(agent=world.given_agent(), description="{{who}} on {{date}}")
    assert routine.variables == (Variable(name="who", type=VariableType.TEXT),)
    assert world.fire(routine).routine_run.trigger_payload["who"] == ""


def test_wrong_values_are_refused_before_anything_is_written(world: World) -> None:
    """behaviour §3 Templates: types are checked before anything is written."""
    number = Variable(name="count", type=VariableType.NUMBER, required=True)
    routine = world.given_routine(agent=world.given_agent(), variables=(number,))
    for values in ({}, {"count": "many"}, {"count": "1", "other": "x"}):
        with pytest.raises(Invalid):
            world.fire(routine, **values)
    assert world.routine_runs_of(routine) == []
    assert world.requests() == []


def test_values_are_never_scanned_again(world: World) -> None:
    """behaviour §3 Templates: one pass, never re-scanned."""
    routine = world.given_routine(agent=world.given_agent(), task_title="{{a}}{{b}}")
    assert world.fire(routine, a="{{b}}", b="x").task.title == "{{b}}x"


# --- occurrences ------------------------------------------------------------------------------------------


def test_the_occurrence_id_follows_from_workspace_trigger_and_slot(world: World) -> None:
    """behaviour §3 Occurrence id: uuid5(NAMESPACE_URL, `sched:<workspace>:<trigger>:<slot>`)."""
    import uuid

    routine = world.given_routine(agent=world.given_agent(), cron="*/5 * * * *")
    (trigger,) = world.triggers_of(routine)
    world.advance(300)
    world.tick()
    (occurrence,) = world.routine_runs_of(routine)
    name = f"sched:{routine.workspace_id}:{trigger.id}:2026-12-01T09:05:00Z"
    assert occurrence.id == f"rr_{uuid.uuid5(uuid.NAMESPACE_URL, name).hex}"
    assert occurrence.id == dedup.occurrence_id(
        workspace_id=routine.workspace_id, trigger_id=trigger.id, slot_at=world.now
    )


def test_archiving_a_routine_cancels_what_was_not_prompted_and_leaves_what_was(world: World) -> None:
    """behaviour §2 Reassignment and cancellation: archiving cancels what was not yet prompted."""
    bot = world.given_agent()
    routine = world.given_routine(agent=bot, concurrency=ALWAYS)
    told, waiting = world.fire(routine), world.fire(routine)
    run = world.process()
    world.db.write(lambda tx: routine_operations.archive_routine(tx, routine))
    assert world.ending_of(waiting.wakeup) == ("cancelled", "routine_deleted")
    assert world.ending_of(told.wakeup) is None
    world.finish(run)
    assert world.ending_of(told.wakeup) == ("delivered", None)
    assert world.run(waiting.run).status == "cancelled"
    assert world.process_all() == []


def test_pausing_a_routine_leaves_what_is_queued(world: World) -> None:
    """behaviour §2 Reassignment and cancellation: pausing a routine leaves what is queued."""
    routine: Routine = world.given_routine(agent=world.given_agent())
    fired = world.fire(routine)
    world.db.write(lambda tx: routine_operations.pause_routine(tx, routine))
    assert world.process().id == fired.run.id
