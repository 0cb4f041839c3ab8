"""Once and only once: births, fences, and what is left when a supervisor or a shim is killed."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from kandev_sched.launch import rundir, strays
from kandev_sched.launch.executor import AttemptState, Ending
from kandev_sched.launch.local import _IMPORT_ROOT, _START, LocalExecutor

from .support import World, alive, new_run_id, pids_in, wait_until

RUN = new_run_id()
COUNT = 'echo started >> "$LOG"; sleep 0.3'


def start_shims(world: World, number: int) -> list[subprocess.Popen[bytes]]:
    """Bare shims on the attempt's directory, as several supervisors would start them."""
    command = [sys.executable, "-I", "-S", "-c", _START, _IMPORT_ROOT, str(world.dir)]
    return [subprocess.Popen(command, start_new_session=True) for _ in range(number)]


def log_of(world: World) -> Path:
    return world.root.parent / "log"


def counted(world: World, **changes: object) -> dict[str, object]:
    return {"env": {"PATH": os.environ["PATH"], "LOG": str(log_of(world))}, **changes}


def unborn(world: World) -> None:
    """All files are written, but the supervisor died before it started the shim."""
    world.executor._python = "/bin/true"
    world.sh(COUNT, **counted(world))
    wait_until(lambda: world.state() is AttemptState.LOST)
    world.executor = LocalExecutor(world.root)
    assert world.state() is AttemptState.UNBORN


def kill_shim(world: World) -> None:
    os.kill(world.shim()["pid"], signal.SIGKILL)
    wait_until(lambda: world.state() is AttemptState.LOST)


def test_an_attempt_without_a_directory_is_unborn(world: World) -> None:
    assert world.state() is AttemptState.UNBORN
    assert not world.root.exists()


def test_the_same_attempt_twice_is_started_once(world: World) -> None:
    for _ in range(3):
        world.sh(COUNT, **counted(world))
    wait_until(lambda: world.state() is AttemptState.RUNNING)
    LocalExecutor(world.root).submit(world.spec("/bin/sh", "-c", COUNT, **counted(world)))
    world.result()
    world.sh(COUNT, **counted(world))
    assert world.state() is AttemptState.DONE
    assert log_of(world).read_text() == "started\n"


def test_two_shims_started_at_once_run_the_agent_once(world: World) -> None:
    unborn(world)
    shims = start_shims(world, 5)
    world.result()
    assert [shim.wait() for shim in shims] == [0] * 5
    assert log_of(world).read_text() == "started\n"


def test_an_attempt_that_was_lost_is_never_started_again(world: World) -> None:
    world.sh(COUNT + "; sleep 60", **counted(world))
    wait_until(log_of(world).exists)
    kill_shim(world)
    world.sh(COUNT, **counted(world))
    assert [shim.wait() for shim in start_shims(world, 2)] == [0, 0]
    assert world.state() is AttemptState.LOST
    assert world.executor.end_strays(world.ref) >= 1
    assert log_of(world).read_text() == "started\n"


def test_an_unborn_attempt_may_be_submitted_again(world: World) -> None:
    unborn(world)
    world.sh(COUNT, **counted(world))
    assert world.result().ending is Ending.EXITED


@pytest.mark.parametrize("python", ["/no/such/python", "/bin/false"])
def test_a_shim_that_dies_before_its_birth_is_lost_not_unborn_for_ever(world: World, python: str) -> None:
    world.executor = LocalExecutor(world.root, python)
    world.start("true")
    wait_until(lambda: world.state() is AttemptState.LOST)
    assert world.executor.fence(world.ref).state is AttemptState.DONE


def test_a_cancel_before_the_start_keeps_the_agent_from_starting(world: World) -> None:
    world.executor.cancel(world.ref)
    world.sh(COUNT, **counted(world))
    result = world.result()
    assert (result.ending, result.started_at, result.exit_code) == (Ending.CANCELLED, None, None)
    assert not log_of(world).exists()


def test_a_revoked_late_shim_never_starts_the_agent(world: World) -> None:
    unborn(world)
    observation = world.executor.fence(world.ref)
    assert observation.state is AttemptState.DONE
    assert observation.result is not None
    assert (observation.result.ending, observation.result.started_at) == (Ending.REVOKED, None)
    assert [shim.wait() for shim in start_shims(world, 2)] == [0, 0]
    world.sh(COUNT, **counted(world))
    assert world.executor.poll(world.ref) == observation
    assert not log_of(world).exists()


def test_an_attempt_without_a_directory_can_be_fenced(world: World) -> None:
    assert world.executor.fence(world.ref).state is AttemptState.DONE
    world.sh(COUNT, **counted(world))
    assert world.result().ending is Ending.REVOKED


def test_a_fence_leaves_a_living_shim_alone(world: World) -> None:
    world.sh("sleep 0.3; exit 5")
    world.shim()
    assert world.executor.fence(world.ref).state is AttemptState.RUNNING
    assert world.executor.end_strays(world.ref) == 0
    assert world.result().exit_code == 5
    done = world.executor.fence(world.ref)
    assert done == world.executor.poll(world.ref)


def test_a_killed_shim_is_lost_and_what_it_left_is_found_and_ended(world: World) -> None:
    world.sh("echo $$; setsid sleep 65 & sleep 66 & echo up; wait")
    world.said(b"up")
    wait_until(lambda: len(world.processes()) == 3)
    kill_shim(world)
    left = world.processes()
    assert len(left) == 3, "lost is not dead"
    revoked = world.executor.fence(world.ref).result
    assert revoked is not None
    assert revoked.ending is Ending.REVOKED
    assert revoked.started_at == world.shim()["started_at"]
    assert world.executor.end_strays(world.ref) == 3
    assert [p for p in left if alive(p.pid)] == []
    assert world.executor.end_strays(world.ref) == 0


def test_even_unmarked_children_of_a_lost_agent_are_found_by_the_agents_identity(world: World) -> None:
    world.sh("env -i sh -c 'echo $$; exec sleep 67' & wait")
    child = wait_until(lambda: pids_in(world.stdout()))[0]
    kill_shim(world)
    world.executor.end_strays(world.ref)
    assert not alive(child)


def test_kill_9_of_the_supervisor_leaves_the_agent_at_work(world: World) -> None:
    script = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from kandev_sched.launch.local import LocalExecutor\n"
        "from kandev_sched.launch.executor import LaunchSpec\n"
        "LocalExecutor(Path(sys.argv[1])).submit(LaunchSpec(run_id=sys.argv[3], attempt=1,\n"
        "  cwd='/', prompt='p',\n"
        "  argv=('/bin/sh', '-c', 'echo one; read go < ' + sys.argv[2] + '; echo two; cat'),\n"
        "  env={'PATH': '/bin:/usr/bin'}, wakeups_json='[]', max_run_s=20, idle_output_s=None))\n"
        "print('submitted', flush=True); time.sleep(60)\n"
    )
    go = world.root.parent / "go"
    os.mkfifo(go)
    supervisor = subprocess.Popen(
        [sys.executable, "-c", script, str(world.root), str(go), world.ref.run_id],
        stdout=subprocess.PIPE,
        cwd=_IMPORT_ROOT,
    )
    assert supervisor.stdout is not None
    with supervisor.stdout as said:
        assert said.readline() == b"submitted\n"
    world.said(b"one\n")
    os.killpg(os.getpgid(supervisor.pid), 0)
    supervisor.kill()
    supervisor.wait()
    assert world.state() is AttemptState.RUNNING
    go.write_text("go\n")
    result = world.result()
    assert (result.ending, result.exit_code) == (Ending.EXITED, 0)
    assert world.stdout() == b"one\ntwo\np"


def test_another_executor_can_cancel_what_it_did_not_start(world: World) -> None:
    world.sh("sleep 60")
    world.shim()
    LocalExecutor(world.root).cancel(world.ref)
    assert world.result().ending is Ending.CANCELLED


def test_a_result_of_rubbish_is_lost_and_can_be_fenced(world: World) -> None:
    """An agent can write into its own directory."""
    world.sh('echo "{}" > "${SCHED_RESULT_FILE%/*}/result.json"; sleep 60')
    wait_until((world.dir / "result.json").exists)
    assert world.state() is AttemptState.RUNNING
    kill_shim(world)
    assert world.executor.fence(world.ref).state is AttemptState.DONE
    assert world.executor.end_strays(world.ref) >= 1


def run_dir_of(world: World) -> rundir.RunDir:
    run_dir = rundir.RunDir(str(world.dir))
    run_dir.create()
    return run_dir


def test_the_probe_never_disturbs_the_lock(world: World) -> None:
    run_dir = run_dir_of(world)
    assert run_dir.lock_state() == rundir.ABSENT
    lock = run_dir.be_born()
    assert lock is not None
    for _ in range(3):
        assert run_dir.lock_state() == rundir.HELD
    with open(run_dir.file(rundir.LOCK)):
        pass  # a POSIX lock of this process would be gone now
    assert run_dir.lock_state() == rundir.HELD
    assert run_dir.seize() is None
    os.close(lock)
    assert run_dir.lock_state() == rundir.FREE


def test_a_probe_takes_no_lock_that_could_turn_a_shim_away(world: World) -> None:
    """While many probe, nobody who tries to take a free lock is ever refused."""
    run_dir = run_dir_of(world)
    os.close(run_dir.be_born() or -1)
    probing = subprocess.Popen(
        [sys.executable, "-c",
         "import sys; from kandev_sched.launch.rundir import RunDir; d = RunDir(sys.argv[1])\n"
         "print('up', flush=True)\n"
         "while True: d.lock_state()", run_dir.path],
        cwd=_IMPORT_ROOT, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert probing.stdout is not None
    with probing, probing.stdout as said:
        said.readline()
        for _ in range(2000):
            fd = run_dir.seize()
            assert fd is not None
            os.close(fd)
        probing.kill()


def test_a_lock_is_never_seen_before_it_is_held(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that comes between the making and the locking of the lock sees no lock at all."""
    run_dir, seen = run_dir_of(world), []
    take = rundir._take

    def slow_take(fd: int) -> bool:
        seen.append(run_dir.lock_state())
        return take(fd)

    monkeypatch.setattr(rundir, "_take", slow_take)
    os.close(run_dir.be_born() or -1)
    assert seen == [rundir.ABSENT]


def test_a_lock_can_be_born_only_once(world: World) -> None:
    run_dir = run_dir_of(world)
    os.close(run_dir.be_born() or -1)
    assert run_dir.be_born() is None
    assert sorted(os.listdir(run_dir.path)) == ["lock"]


def test_the_lock_belongs_to_the_open_file_not_to_the_process(world: World) -> None:
    run_dir = run_dir_of(world)
    lock = run_dir.be_born()
    assert lock is not None
    fd = os.open(run_dir.file(rundir.LOCK), os.O_RDWR)
    with pytest.raises(BlockingIOError):
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
    os.close(fd)
    os.close(lock)


def test_a_failed_write_leaves_the_old_file_and_no_rubbish(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = run_dir_of(world)
    run_dir.put("spec.json", b"old")

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space"):
            run_dir.put("spec.json", b"new")
    assert os.listdir(run_dir.path) == ["spec.json"]
    assert Path(run_dir.file("spec.json")).read_bytes() == b"old"
    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full)
        with pytest.raises(OSError, match="No space"):
            rundir.Reserved(run_dir, "result.json", 100)
    assert os.listdir(run_dir.path) == ["spec.json"]


def test_a_signal_never_hits_a_pid_that_was_used_again(world: World) -> None:
    """ORP-05: an innocent process with the right pid and another start time."""
    innocent = subprocess.Popen(["sleep", "68"], env={"SCHED_RUN_ID": "other", "SCHED_ATTEMPT": "1"})
    try:
        found = strays.process(innocent.pid)
        assert found is not None
        old = strays.Process(found.pid, found.parent, found.group, found.session, found.starttime - 1)
        assert not strays.send(old, signal.SIGKILL)
        assert strays.end(RUN, 1, [old]) == 0
        assert alive(innocent.pid)
        assert strays.send(found, signal.SIGKILL)
    finally:
        innocent.wait()
    assert not strays.send(found, signal.SIGKILL)


@pytest.mark.parametrize(
    "env",
    [
        {"SCHED_RUN_ID": RUN},
        {"SCHED_RUN_ID": RUN, "SCHED_ATTEMPT": "2"},
        {"SCHED_RUN_ID": RUN + "1", "SCHED_ATTEMPT": "1"},
        {"XSCHED_RUN_ID": RUN, "SCHED_ATTEMPT": "1"},
    ],
)
def test_only_the_whole_mark_counts(env: dict[str, str]) -> None:
    process = subprocess.Popen(["sleep", "69"], env=env)
    try:
        wait_until(lambda: b"sleep" in Path(f"/proc/{process.pid}/cmdline").read_bytes())
        assert strays.find(RUN, 1) == []
    finally:
        process.kill()
        process.wait()


def test_the_caller_is_never_a_stray_of_its_own() -> None:
    """A supervisor that was itself started by the run."""
    script = f"from kandev_sched.launch import strays; print(strays.end('{RUN}', 1))"
    env = {"SCHED_RUN_ID": RUN, "SCHED_ATTEMPT": "1"}
    command = [sys.executable, "-c", script]
    assert subprocess.check_output(command, env=env, cwd=_IMPORT_ROOT) == b"0\n"
