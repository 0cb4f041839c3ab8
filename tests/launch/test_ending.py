"""How an agent is ended: limits, cancel, and that nothing of it is left."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from kandev_sched.launch.executor import AttemptState, Ending

from .support import World, alive, pids_in, wait_until

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); "
DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        time.sleep(60)
    os._exit(0)
os.wait()
"""


def test_max_run_s_ends_the_run(world: World) -> None:
    world.sh("sleep 60", max_run_s=1)
    result = world.result()
    assert (result.ending, result.signal) == (Ending.TIMED_OUT, signal.SIGTERM)
    assert result.error == "The run was ended after 1 s (max_run_s)."
    assert result.finished_at - (result.started_at or 0) >= 1000
    trace = [json.loads(line) for line in (world.dir / "events.jsonl").read_text().splitlines()]
    assert [event["event"] for event in trace] == ["started", "ending", "finished"]


def test_idle_output_s_ends_a_silent_run(world: World) -> None:
    """STK-05: an agent that prints `Please log in` and waits for ever."""
    world.sh("echo Please log in; sleep 60", idle_output_s=1)
    result = world.result()
    assert result.ending is Ending.IDLE_TIMED_OUT
    assert result.error == "The run was ended after 1 s without output (idle_output_s)."
    assert result.output_tail == "Please log in\n"


def test_output_of_either_stream_keeps_a_run_from_being_idle(world: World) -> None:
    world.sh("for i in 1 2; do echo .; sleep 0.4; echo . >&2; sleep 0.4; done", idle_output_s=1)
    assert world.result().ending is Ending.EXITED


def test_an_agent_that_stopped_itself_is_idle_and_still_ends(world: World) -> None:
    """ORP-07: a stopped process looks alive to kill -0."""
    world.sh("kill -STOP $$; sleep 60", idle_output_s=1)
    result = world.result()
    assert (result.ending, result.signal) == (Ending.IDLE_TIMED_OUT, signal.SIGTERM)


def test_cancel_ends_the_whole_group(world: World) -> None:
    """ORP-01: the children of the leader die with it."""
    world.sh("sleep 61 & echo $!; sleep 62 & echo $!; echo up; wait")
    world.said(b"up")
    children = pids_in(world.stdout())
    world.executor.cancel(world.ref)
    world.executor.cancel(world.ref)
    result = world.result()
    assert (result.ending, result.error) == (Ending.CANCELLED, "The run was cancelled.")
    assert [pid for pid in children if alive(pid)] == []
    assert world.processes() == []


def test_cancel_is_heard_at_once(world: World) -> None:
    world.sh("exec sleep 60")
    world.shim()
    before = time.monotonic()
    world.executor.cancel(world.ref)
    world.result()
    assert time.monotonic() - before < 1.0, "less than a tick: the FIFO woke it"


def test_a_cancel_whose_byte_was_lost_is_found_by_the_file(world: World) -> None:
    world.sh("exec sleep 60")
    world.shim()
    (world.dir / "cancel").touch()
    assert world.result().ending is Ending.CANCELLED


def test_an_agent_may_use_the_grace_to_end_well(world: World) -> None:
    world.sh("trap 'echo saved; exit 7' TERM; echo up; while :; do sleep 0.02; done", grace_s=5)
    world.said(b"up")
    world.executor.cancel(world.ref)
    result = world.result()
    assert (result.ending, result.exit_code) == (Ending.CANCELLED, 7)
    assert world.stdout() == b"up\nsaved\n"


def test_an_agent_that_ignores_sigterm_is_killed_after_the_grace(world: World) -> None:
    world.python(STUBBORN + "time.sleep(60)", grace_s=0.5)
    world.said(b"up")
    before = time.monotonic()
    world.executor.cancel(world.ref)
    result = world.result()
    assert (result.ending, result.signal) == (Ending.CANCELLED, signal.SIGKILL)
    assert 0.5 <= time.monotonic() - before < 3


def test_a_child_that_ignores_sigterm_is_killed_after_the_grace(world: World) -> None:
    world.sh("(trap '' TERM; echo up; while :; do sleep 1; done) & echo $!; wait", grace_s=0.4)
    world.said(b"up")
    child = wait_until(lambda: pids_in(world.stdout()))[0]
    world.executor.cancel(world.ref)
    result = world.result()
    assert result.signal == signal.SIGTERM
    assert not alive(child)


def test_a_child_that_called_setsid_is_ended(world: World) -> None:
    """ORP-02."""
    world.sh("setsid sleep 63 & echo $!; echo up; wait")
    world.said(b"up")
    stray = wait_until(
        lambda: [p for p in world.processes() if p.group == p.pid and p.pid != world.shim()["agent_pid"]]
    )
    world.executor.cancel(world.ref)
    result = world.result()
    assert result.stray_count == 1
    assert not alive(stray[0].pid)


def test_a_daemon_is_ended_when_the_agent_exits(world: World) -> None:
    world.python(DAEMON)
    result = world.result()
    (daemon,) = pids_in(world.stdout())
    assert (result.ending, result.exit_code, result.stray_count) == (Ending.EXITED, 0, 1)
    assert not alive(daemon)


def test_a_daemon_without_the_mark_is_ended_too(world: World) -> None:
    """A wiped environment hides it from the mark, not from its ancestors."""
    world.sh("env -i setsid sh -c 'echo $$; exec sleep 64' & sleep 0.2; exit 0")
    result = world.result()
    (daemon,) = pids_in(world.stdout())
    assert result.stray_count == 1
    assert not alive(daemon)


def test_a_daemon_that_ignores_sigterm_is_killed(world: World) -> None:
    world.python(DAEMON.replace("import os, time", STUBBORN + "import os"))
    result = world.result()
    assert result.exit_code == 0
    assert [pid for pid in pids_in(world.stdout()) if alive(pid)] == []


def test_a_daemon_that_keeps_forking_away_is_caught(world: World) -> None:
    world.python(
        "import os, time\n"
        "if os.fork(): time.sleep(0.3); os._exit(0)\n"
        "os.setsid()\n"
        "while True:\n"
        "    if os.fork(): os._exit(0)\n"
        "    time.sleep(0.002)\n"
    )
    result = world.result()
    assert result.exit_code == 0
    assert world.processes() == []


def test_a_pipe_that_a_child_keeps_open_does_not_hold_the_run(world: World) -> None:
    """ORP-03: `(sleep 600 &); exit 0`."""
    before = time.monotonic()
    world.sh("(sleep 600 & echo $!); exit 0", grace_s=10)
    result = world.result()
    assert (result.ending, result.exit_code, result.stray_count) == (Ending.EXITED, 0, 0)
    assert time.monotonic() - before < 3
    assert not alive(pids_in(world.stdout())[0])


def test_a_pipe_that_a_stranger_keeps_open_does_not_hold_the_run(world: World) -> None:
    """Someone outside of the run opened the agent's stdout through /proc."""
    world.sh("echo up; exec sleep 60")
    world.said(b"up")
    fd = os.open(f"/proc/{world.shim()['agent_pid']}/fd/1", os.O_WRONLY)
    try:
        world.executor.cancel(world.ref)
        assert world.result().ending is Ending.CANCELLED
    finally:
        os.close(fd)


def test_the_last_words_of_a_slow_child_are_kept(world: World) -> None:
    """A `tee` that outlives the shell by a moment is not cut off."""
    world.sh("(sleep 0.1; echo '{\"late\": 1}') & exit 0")
    result = world.result()
    assert result.structured == {"late": 1}


def test_orphans_are_reaped_while_the_agent_works(world: World) -> None:
    world.sh("for i in 1 2 3 4 5; do (sleep 0.01 &) ; done; sleep 0.2; echo up; sleep 60")
    world.said(b"up")
    shim = world.shim()["pid"]

    def zombies() -> list[int]:
        children = Path(f"/proc/{shim}/task/{shim}/children").read_text().split()
        return [int(pid) for pid in children if not alive(int(pid))]

    wait_until(lambda: not zombies(), timeout=5)


def test_sigterm_to_the_shim_is_a_cancel(world: World) -> None:
    world.sh("exec sleep 60")
    os.kill(world.shim()["pid"], signal.SIGTERM)
    result = world.result()
    assert (result.ending, result.error) == (Ending.CANCELLED, "The shim was terminated (SIGTERM).")


@pytest.mark.parametrize("signum", [signal.SIGHUP, signal.SIGINT])
def test_hangup_and_ctrl_c_do_not_end_the_agent(world: World, signum: signal.Signals) -> None:
    world.sh("echo up; sleep 0.4; echo done")
    shim = world.shim()["pid"]
    os.kill(shim, signum)
    assert os.getsid(shim) == shim, "its own session: the terminal's Ctrl-C does not reach it"
    assert world.result().exit_code == 0
    assert world.stdout() == b"up\ndone\n"


def test_a_cancel_after_the_end_changes_nothing(world: World) -> None:
    world.start("true")
    before = world.result()
    world.executor.cancel(world.ref)
    assert world.result() == before


def test_limits_may_be_absent(world: World) -> None:
    world.sh("sleep 0.1", max_run_s=None, idle_output_s=None)
    assert world.result().ending is Ending.EXITED


def test_a_shim_at_rest_sleeps(world: World) -> None:
    """No polling: at most a few wake-ups in a second."""
    world.sh("exec sleep 60")
    pid = world.shim()["pid"]

    def switches() -> int:
        status = Path(f"/proc/{pid}/status").read_text()
        return int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])

    wait_until(lambda: world.state() is AttemptState.RUNNING)
    started = time.monotonic()
    wait_until(lambda: time.monotonic() > started + 0.2)  # the work of starting is over
    before, until = switches(), time.monotonic() + 1
    wait_until(lambda: time.monotonic() > until)
    assert switches() - before <= 3
