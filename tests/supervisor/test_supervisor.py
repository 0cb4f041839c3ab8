"""A real Supervisor over a fake machine: start order, stop order, signals, draining, until-idle."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import apsw
import pytest
from world import MINUTE, World

from kandev_sched.domain.runs import RunStatus
from kandev_sched.domain.settings import OnStop
from kandev_sched.domain.supervision import SupervisorPhase
from kandev_sched.flow import ticking
from kandev_sched.launch.executor import AttemptRef
from kandev_sched.policy.coalesce import ConcurrencyPolicy
from kandev_sched.store import supervision
from kandev_sched.store.db import wake_path
from kandev_sched.supervisor.supervisor import Supervisor

WAIT_S = 30
LOOPS = ("drainer", "ticker", "sweeper", "watcher", "listener")
Until = Callable[[Callable[[], object]], None]


@pytest.fixture(autouse=True)
def _log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.DEBUG):
        yield


@pytest.fixture
def serve(world: World) -> Iterator[Callable[..., Supervisor]]:
    """Start a supervisor; what the test leaves running is stopped, its agents at once."""
    started: list[Supervisor] = []

    def serve(**settings: object) -> Supervisor:
        supervisor = world.supervisor(**{"drain_s": 0, **settings})
        started.append(supervisor)
        supervisor.start()
        return supervisor

    yield serve
    for supervisor in started:
        supervisor.ask_stop()
        supervisor.ask_stop()
        supervisor.stop()


def phase(world: World) -> SupervisorPhase:
    return world.db.read(supervision.state).state


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def assert_graceful(caplog: pytest.LogCaptureFixture) -> None:
    """I10: nothing is logged after the completion message, and nobody met a closed database."""
    assert messages(caplog)[-1] == "Graceful shutdown complete"
    assert "closed" not in caplog.text
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


# --- serving ----------------------------------------------------------------------------------------------


def test_queued_runs_of_a_former_process_are_taken_up(world: World, serve: Callable, until: Until) -> None:
    """S3 Scenario 8: GIVEN queued runs exist when the process exits, WHEN it starts again, THEN they run."""
    requests = [world.request("user", world.given_agent(name)) for name in ("ann", "ben")]
    world.close()
    world.open()
    serve()
    until(lambda: len(world.machine.running()) == 2)
    assert world.launched() == [request.run_id for request in requests]


def test_two_workspaces_are_served_in_request_order_one_run_for_each_agent(
    world: World, serve: Callable, until: Until
) -> None:
    """S3 Scenario 1: processes both workspaces in request order, at most one claimed run per agent."""
    world.given_workspace("other")
    ann, ben = world.given_agent("ann"), world.given_agent("ben", workspace="other")
    requests = []
    for agent in (ben, ann, ann, ben):
        requests.append(world.request("user", agent, policy=ConcurrencyPolicy.ALWAYS_ENQUEUE))
        world.advance(1)
    serve()
    until(lambda: len(world.machine.running()) == 2)
    assert world.launched() == [request.run_id for request in requests[:2]]
    for request in requests[:2]:
        world.machine.finish(world.ref(request.run_id))
    until(lambda: len(world.launched()) == 4)
    assert set(world.launched()[2:]) == {request.run_id for request in requests[2:]}


def test_an_idle_supervisor_launches_nothing_and_reports_no_error(
    world: World, serve: Callable, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    """S3 Scenario 2, Failure modes: it returns to waiting without an error, and no task is launched."""
    bot = world.given_agent()
    world.given_task(agent=bot)  # an ordinary task with an assignee makes nobody autonomous
    supervisor = serve()
    for count in range(1, 4):
        until(lambda count=count: all(loop.tick_count >= count for loop in supervisor._loops.values()))
        for loop in supervisor._loops.values():
            loop.wake()
        supervisor._fifo.poke()
    assert {loop.last_error for loop in supervisor._loops.values()} == {None}
    assert world.machine.specs == []
    assert world.runs() == []
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


def test_a_write_of_another_process_is_noticed_by_its_byte(
    world: World, serve: Callable, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """behaviour §7, S3: a queue signal wakes it immediately; here neither poll nor safety pass could."""
    bot = world.given_agent()
    supervisor = serve(safety_pass_s=60)
    monkeypatch.setattr(supervisor.db, "data_version", lambda: 0)
    until(lambda: supervisor._loops["listener"].tick_count > 1)
    request = world.request("user", bot)
    until(lambda: world.launched() == [request.run_id])


def test_a_lost_byte_is_found_by_the_data_version(world: World, serve: Callable, until: Until) -> None:
    """architecture Storage: a `PRAGMA data_version` poll each second covers a lost byte."""
    bot = world.given_agent()
    serve(safety_pass_s=60)
    os.rename(wake_path(world.path), world.path + ".hidden")
    request = world.request("user", bot)
    until(lambda: world.launched() == [request.run_id])
    os.rename(world.path + ".hidden", wake_path(world.path))


def test_a_missed_signal_is_found_by_the_safety_pass(world: World, serve: Callable, until: Until) -> None:
    """S3 Failure modes: the periodic safety pass eventually claims the persisted row."""
    bot = world.given_agent()
    supervisor = serve(safety_pass_s=1)
    supervisor._loops["listener"].stop()
    request = world.request("user", bot)
    until(lambda: world.launched() == [request.run_id])


def test_a_slot_that_comes_due_fires_and_its_agent_starts(
    world: World, serve: Callable, until: Until
) -> None:
    """The flow from trigger to agent, with every loop in its place."""
    bot = world.given_agent()
    world.given_task(agent=bot)
    routine = world.given_routine(agent=bot, cron="*/5 * * * *")
    supervisor = serve()
    world.advance(300)
    supervisor._loops["ticker"].wake()
    until(world.machine.running)
    world.machine.finish(world.machine.running()[0])
    until(lambda: [o.status for o in world.routine_runs_of(routine)] == ["done"])


def test_a_loop_whose_tick_fails_goes_on_and_the_error_is_noted(
    world: World, serve: Callable, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """behaviour §6: the loop reports and goes on."""
    bot = world.given_agent()
    supervisor = serve(safety_pass_s=1)
    process = supervisor.pipeline.process

    def failing() -> None:
        monkeypatch.setattr(supervisor.pipeline, "process", process)
        raise ValueError("a bad row")

    monkeypatch.setattr(supervisor.pipeline, "process", failing)
    request = world.request("user", bot)
    until(lambda: world.launched() == [request.run_id])
    until(lambda: supervisor._loops["drainer"].last_error is None)


# --- recovery ---------------------------------------------------------------------------------------------


def test_what_the_former_supervisor_left_is_attended_to_before_the_loops_start(
    world: World, serve: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """behaviour §7: lock → open and migrate → recover → loops; §6: before the loops start."""
    runs = []
    for name in ("works", "ended", "lost", "unborn"):
        world.request("user", world.given_agent(name))
        world.machine.starts_slowly = name == "unborn"
        runs.append(world.process())
    world.machine.finish(world.ref(runs[1]))
    world.machine.lose(world.ref(runs[2]))
    seen: list[list[str]] = []
    supervisor = world.supervisor(drain_s=0)
    for loop in supervisor._loops.values():
        monkeypatch.setattr(loop, "start", lambda: seen.append([world.run(run).status for run in runs]))
    supervisor.start()
    supervisor.stop()
    assert seen == [["claimed", "finished", "queued", "queued"]] * 5


def test_the_phases_are_there_for_others_to_read(world: World) -> None:
    """behaviour §7: the supervisor as `status` sees it."""
    supervisor = world.supervisor()
    supervisor.start()
    state = world.db.read(supervision.state)
    assert (state.state, state.pid, state.started_at) == (SupervisorPhase.RUNNING, os.getpid(), world.now)
    supervisor.stop()
    state = world.db.read(supervision.state)
    assert (state.state, state.pid) == (SupervisorPhase.STOPPED, None)


# --- stopping ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_all_loops_are_idle_stops_gracefully(
    world: World, until: Until, caplog: pytest.LogCaptureFixture, number: signal.Signals
) -> None:
    """S3 Scenario 6: GIVEN SIGINT while idle, WHEN shutdown completes, THEN the database closes after all."""
    supervisor = world.supervisor()

    def send() -> None:
        until(lambda: all(loop.tick_count for loop in supervisor._loops.values()))
        os.kill(os.getpid(), number)

    with ThreadPoolExecutor(1) as threads:
        sent = threads.submit(send)
        assert supervisor.run() == 0
        sent.result(WAIT_S)
    assert f"{number.name} received" in messages(caplog)
    assert_graceful(caplog)
    assert phase(world) is SupervisorPhase.STOPPED
    with pytest.raises((RuntimeError, apsw.ConnectionClosedError)):
        supervisor.db.write(lambda tx: tx.now)


def test_a_second_signal_ends_the_drain_at_once(
    world: World, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    """behaviour §7: a second signal ends the agents' drain at once."""
    request = world.request("user", world.given_agent())
    supervisor = world.supervisor(drain_s=3600)

    def send() -> None:
        until(world.machine.running)
        os.kill(os.getpid(), signal.SIGTERM)
        until(lambda: any("Waiting up to" in text for text in messages(caplog)))
        os.kill(os.getpid(), signal.SIGTERM)

    with ThreadPoolExecutor(1) as threads:
        sent = threads.submit(send)
        assert supervisor.run() == 0
        sent.result(WAIT_S)
    assert world.run(request.run_id).status is RunStatus.QUEUED
    assert_graceful(caplog)


def test_a_signal_that_interrupts_the_holder_of_a_lock_does_not_wait_for_it(world: World) -> None:
    """S3 Failure modes: a signal comes at any moment, also while the main thread is inside its own wait."""
    supervisor = world.supervisor()
    supervisor._install_signals()
    handler = signal.getsignal(signal.SIGTERM)
    assert callable(handler)
    supervisor.start()
    with ThreadPoolExecutor(1) as threads:
        with supervisor._stop_asked._cond:
            threads.submit(handler, signal.SIGTERM, None).result(WAIT_S)
    supervisor._wait(until_idle=False)
    supervisor.stop()


@pytest.mark.parametrize("where", ["a launch", "a cron handler inside its transaction", "the watcher"])
def test_shutdown_waits_for_a_tick_that_is_blocked(
    world: World, until: Until, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """S3 Scenario 7: GIVEN a tick is blocked, WHEN shutdown begins, THEN it waits before closing the db."""
    bot = world.given_agent()
    is_blocked, may_go_on = threading.Event(), threading.Event()

    def block() -> None:
        is_blocked.set()
        assert may_go_on.wait(WAIT_S)

    if where == "a launch":
        world.machine.when_submitted = lambda _spec: block()
        world.request("user", bot)
    elif where == "the watcher":
        world.request("user", bot)
        world.process()
    else:
        world.given_routine(agent=bot, cron="*/5 * * * *")
        fire = ticking.fire_trigger

        def slow_fire(*args: object, **options: object) -> None:
            block()
            fire(*args, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(ticking, "fire_trigger", slow_fire)
    supervisor = world.supervisor(on_stop=OnStop.DETACH)
    supervisor.start()
    if where == "the watcher":
        poll = world.machine.poll

        def slow_poll(ref: AttemptRef) -> object:
            block()
            return poll(ref)

        monkeypatch.setattr(world.machine, "poll", slow_poll)
        supervisor._loops["watcher"].wake()
    elif where != "a launch":
        world.advance(300)
        supervisor._loops["ticker"].wake()
    assert is_blocked.wait(WAIT_S)
    with ThreadPoolExecutor(1) as threads:
        stopped = threads.submit(supervisor.stop)
        until(lambda: "Stopping" in messages(caplog))
        never = threading.Event()
        assert not never.wait(0.3)
        assert not stopped.done()
        assert "Graceful shutdown complete" not in messages(caplog)
        may_go_on.set()
        stopped.result(WAIT_S)
    assert_graceful(caplog)
    assert phase(world) is SupervisorPhase.STOPPED
    if where == "a cron handler inside its transaction":
        assert len(world.requests()) == 1  # its work was finished, not cut


def test_a_second_stop_and_a_second_start_of_a_loop_change_nothing(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """S3 Scheduler lifecycle: a duplicate `Start` and a duplicate `Stop` are no-ops."""
    supervisor = world.supervisor()
    supervisor.start()
    for loop in supervisor._loops.values():
        loop.start()
    assert sorted(t.name for t in threading.enumerate() if t.name in LOOPS) == sorted(LOOPS)
    supervisor.stop()
    supervisor.stop()
    assert messages(caplog).count("Graceful shutdown complete") == 1
    assert_graceful(caplog)


def test_shutdown_fails_no_queued_work(world: World) -> None:
    """S3 Persistence guarantees: shutdown never deletes or terminally fails a queued run."""
    bot = world.given_agent()
    world.pause(bot)
    requests = [world.request("user", bot, policy=ConcurrencyPolicy.ALWAYS_ENQUEUE) for _ in range(3)]
    before = world.runs()
    supervisor = world.supervisor()
    supervisor.start()
    supervisor.stop()
    assert [run.replace(lane=old.lane) for run, old in zip(world.runs(), before, strict=True)] == before
    assert {world.ending_of(request) for request in requests} == {None}


def test_a_stopping_supervisor_lets_its_agents_end_by_themselves(
    world: World, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    """behaviour §7: agents are drained for `drain_s`."""
    request = world.request("user", world.given_agent())
    supervisor = world.supervisor(drain_s=30)
    supervisor.start()
    until(world.machine.running)
    with ThreadPoolExecutor(1) as threads:
        stopped = threads.submit(supervisor.stop)
        until(lambda: any("Waiting up to 30 s for 1 agents" in text for text in messages(caplog)))
        world.machine.finish(world.machine.running()[0])
        stopped.result(WAIT_S)
    assert world.ending_of(request) == ("delivered", None)
    assert world.attempt(request.run_id).was_cancelled is False
    assert_graceful(caplog)


@pytest.mark.parametrize("why", ["drain_s has passed", "a second signal came"])
def test_agents_that_do_not_end_in_time_are_ended_and_go_on_after_the_restart(
    world: World, until: Until, caplog: pytest.LogCaptureFixture, why: str
) -> None:
    """behaviour §7: then ended and requeued to resume; a second signal ends the drain at once."""
    bot = world.given_agent()
    task = world.given_task(agent=bot)
    request = world.request("user", bot, task=task)
    supervisor = world.supervisor(drain_s=30)
    supervisor.start()
    until(world.machine.running)
    with ThreadPoolExecutor(1) as threads:
        supervisor.ask_stop()
        stopped = threads.submit(supervisor.stop)
        until(lambda: any("Waiting up to" in text for text in messages(caplog)))
        assert not stopped.done()
        if why == "a second signal came":
            supervisor.ask_stop()
        else:
            world.advance(30)
        stopped.result(WAIT_S)
    run = world.run(request.run_id)
    assert (run.status, run.retry_count, run.scheduled_retry_at) == (RunStatus.QUEUED, 0, None)
    assert world.task(task).checkout_run_id is None
    assert world.agent(bot).last_wakeup_finished_at is None
    assert world.machine.running() == []
    assert_graceful(caplog)


def test_a_detaching_supervisor_leaves_its_agents_to_the_next(
    world: World, serve: Callable, until: Until
) -> None:
    """behaviour §7: with `on_stop = "detach"` left running for the next supervisor."""
    request = world.request("user", world.given_agent())
    supervisor = world.supervisor(on_stop=OnStop.DETACH)
    supervisor.start()
    until(world.machine.running)
    supervisor.stop()
    assert world.run(request.run_id).status is RunStatus.CLAIMED
    (ref,) = world.machine.running()
    serve()
    assert world.attempt(request.run_id).submit_count == 1
    world.machine.finish(ref)
    until(lambda: world.ending_of(request) == ("delivered", None))


def test_work_that_comes_while_it_stops_is_kept_for_the_next(
    world: World, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    """I9, S3 Persistence guarantees: intake ends first, what was accepted stays."""
    world.request("user", world.given_agent("ann"))
    ben = world.given_agent("ben")
    supervisor = world.supervisor(drain_s=30)
    supervisor.start()
    until(world.machine.running)
    with ThreadPoolExecutor(1) as threads:
        stopped = threads.submit(supervisor.stop)
        until(lambda: any("Waiting up to" in text for text in messages(caplog)))
        late = world.request("user", ben)
        world.machine.finish(world.machine.running()[0])
        stopped.result(WAIT_S)
    assert world.run_of(late).status is RunStatus.QUEUED
    assert world.process().id == late.run_id


# --- death ------------------------------------------------------------------------------------------------


def test_a_loop_that_dies_takes_the_process_down_with_a_status(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """behaviour §6: a loop that dies takes the process down with a non-zero status."""
    supervisor = world.supervisor()

    def dying() -> float:
        raise SystemExit("out of memory")

    monkeypatch.setattr(supervisor._loops["watcher"], "_tick", dying)
    assert supervisor.run() == 1
    assert any("loop watcher died" in text for text in messages(caplog))
    assert messages(caplog)[-1] == "Graceful shutdown complete"


def test_a_start_that_fails_leaves_nothing_behind(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """I10: no thread and no open database are left by a supervisor that could not start."""
    supervisor = world.supervisor()

    def failing(_tx: object) -> None:
        raise ValueError("a bad row")

    monkeypatch.setattr("kandev_sched.supervisor.supervisor.rearm", failing)
    with pytest.raises(ValueError, match="a bad row"):
        supervisor.run()
    with pytest.raises((RuntimeError, apsw.ConnectionClosedError)):
        supervisor.db.write(lambda tx: tx.now)


# --- until idle -------------------------------------------------------------------------------------------


def test_until_idle_returns_at_once_when_nothing_is_to_be_done(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """behaviour §7: `--until-idle`."""
    world.given_routine(agent=world.given_agent(), cron="0 0 1 1 *")  # far in the future
    assert world.supervisor().run(until_idle=True) == 0
    assert any("0 runs are held" in text for text in messages(caplog))
    assert_graceful(caplog)


def test_until_idle_waits_for_agents_and_for_what_they_leave(world: World, until: Until) -> None:
    """behaviour §7: `--until-idle` returns when nothing is due, queued or running."""
    bot = world.given_agent()
    first = world.request("user", bot)
    second = world.request("user", bot, policy=ConcurrencyPolicy.ALWAYS_ENQUEUE)

    def work() -> None:
        for request in (first, second):
            until(lambda request=request: world.machine.running() == [world.ref(request.run_id)])
            world.machine.finish(world.ref(request.run_id))

    supervisor = world.supervisor()
    with ThreadPoolExecutor(1) as threads:
        worked = threads.submit(work)
        assert supervisor.run(until_idle=True) == 0
        worked.result(WAIT_S)
    assert {world.ending_of(request) for request in (first, second)} == {("delivered", None)}


def test_until_idle_waits_for_what_is_timed(world: World, until: Until) -> None:
    """behaviour §7: waits for what is timed: a window, a retry."""
    bot = world.given_agent()
    request = world.request("comment", bot, task=world.given_task(agent=bot))
    supervisor = world.supervisor()

    def work() -> None:
        until(lambda: supervisor._loops["drainer"].tick_count)
        assert not threading.Event().wait(0.5)
        world.advance(5)
        supervisor._loops["drainer"].wake()
        until(world.machine.running)
        world.machine.finish(world.machine.running()[0])

    with ThreadPoolExecutor(1) as threads:
        worked = threads.submit(work)
        assert supervisor.run(until_idle=True) == 0
        worked.result(WAIT_S)
    assert world.ending_of(request) == ("delivered", None)


@pytest.mark.parametrize("hold", ["pause", "stop", "workspace"])
def test_until_idle_ignores_what_a_person_holds_and_says_how_much_it_left(
    world: World, caplog: pytest.LogCaptureFixture, hold: str
) -> None:
    """behaviour §7: `--until-idle` ignores what a person holds, and prints what it left."""
    from kandev_sched.operations.workspaces import pause_workspace

    bot = world.given_agent()
    world.request("user", bot)
    if hold == "workspace":
        world.db.write(lambda tx: pause_workspace(tx, "default"))
    else:
        getattr(world, hold)(bot)
    assert world.supervisor().run(until_idle=True) == 0
    assert any("1 runs are held" in text for text in messages(caplog))
    assert world.machine.specs == []


# --- stress -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOOPS)
def test_ten_threads_may_start_and_stop_each_loop_as_they_like(
    world: World, serve: Callable, until: Until, name: str
) -> None:
    """S3 Scheduler lifecycle: `Start` and `Stop` from any thread, fifty times each; then it still works."""
    supervisor = serve()
    loop = supervisor._loops[name]

    def act(number: int) -> None:
        for round_ in range(50):
            (loop.start, loop.stop, loop.wake)[(number + round_) % 3]()

    with ThreadPoolExecutor(10) as threads:
        for done in [threads.submit(act, number) for number in range(10)]:
            done.result(WAIT_S)
    loop.stop()
    assert not [thread for thread in threading.enumerate() if thread.name == name]
    loop.start()
    request = world.request("user", world.given_agent())
    until(world.machine.running)
    world.machine.finish(world.machine.running()[0])
    until(lambda: world.ending_of(request) == ("delivered", None))
    assert loop.last_error is None


def test_the_sweeper_notes_the_loops_for_status(world: World, serve: Callable, until: Until) -> None:
    """behaviour §7: the supervisor as `status` sees it."""
    supervisor = serve()
    until(lambda: all(loop.tick_count for loop in supervisor._loops.values()))
    supervisor._loops["sweeper"].wake()
    until(lambda: [loop.name for loop in world.db.read(supervision.loops)] == sorted(LOOPS))
    assert {loop.last_error for loop in world.db.read(supervision.loops)} == {None}


def test_the_clock_that_stepped_back_is_mended_by_the_sweeper(
    world: World, serve: Callable, until: Until
) -> None:
    """behaviour §7: pending instants are shifted by the step."""
    bot = world.given_agent()
    world.request("user", bot)
    supervisor = serve()
    until(world.machine.running)
    (ref,) = world.machine.running()
    world.machine.finish(ref, exit_code=1)
    until(lambda: world.run(ref.run_id).status is RunStatus.QUEUED)
    world.host.set_clock(world.now - 3_600_000)
    supervisor._loops["sweeper"].wake()
    until(lambda: world.run(ref.run_id).scheduled_retry_at == world.now + 2 * MINUTE)
