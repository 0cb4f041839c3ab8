"""The gate of the writers, and the lock of the one supervisor: across processes, so with processes."""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from world import FakeHost

from kandev_sched.store.db import open_database
from kandev_sched.store.gate import Gate, gate_holder

Child = subprocess.Popen[str]

HOLD = """
import sys
from kandev_sched.store.gate import Gate
with Gate(sys.argv[1], patience_s=None):
    print("held", flush=True)
    sys.stdin.readline()
"""
TRY = """
import sys, time
from kandev_sched.domain.errors import Unavailable
from kandev_sched.store.gate import Gate
began = time.monotonic()
try:
    with Gate(sys.argv[1], patience_s=float(sys.argv[2])):
        print("got it")
except Unavailable as error:
    print(f"{error.code} {time.monotonic() - began:.2f} {error.message}")
"""
SERVE = """
import sys
from kandev_sched.domain.errors import Conflict
from kandev_sched.domain.host import MachineHost
from kandev_sched.store.shared import open_shared
try:
    db = open_shared(sys.argv[1], host=MachineHost(), create=True, on_work=lambda: None)
except Conflict as error:
    print(f"{error.code}: {error.message}", flush=True)
else:
    print("serving", flush=True)
    sys.stdin.readline()
    db.close()
"""


@pytest.fixture
def children() -> Iterator[list[Child]]:
    started: list[Child] = []
    yield started
    for child in started:
        child.kill()
        child.communicate()


def start(children: list[Child], script: str, *args: object) -> Child:
    child = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    children.append(child)
    return child


def says(child: Child) -> str:
    """The next line of a child."""
    assert select.select([child.stdout], [], [], 30)[0], "the child says nothing"
    return child.stdout.readline().strip()


# --- the gate ---------------------------------------------------------------------------------------------


def test_a_writer_waits_for_the_gate_and_gets_it(tmp_path: Path, children: list[Child]) -> None:
    """architecture Storage: a blocking `flock` around each write transaction."""
    path = tmp_path / "x.gate"
    holder = start(children, HOLD, path)
    assert says(holder) == "held"
    waiter = start(children, TRY, path, 30)
    assert not select.select([waiter.stdout], [], [], 0.3)[0]
    holder.communicate("done\n", timeout=10)
    assert says(waiter) == "got it"


def test_a_command_gives_up_within_its_patience_and_names_who_holds_the_gate(
    tmp_path: Path, children: list[Child]
) -> None:
    """architecture Storage: the CLI gives up with a clear message; no user sees "database is locked"."""
    path = tmp_path / "x.gate"
    holder = start(children, HOLD, path)
    assert says(holder) == "held"
    waiter = start(children, TRY, path, 0.5)
    code, waited, sentence = says(waiter).split(" ", 2)
    assert code == "busy"
    assert 0.5 <= float(waited) < 2
    assert f"(pid {holder.pid})" in sentence
    assert "waited 0.5 s" in sentence
    assert waiter.wait(timeout=5) == 0


def test_status_names_the_holder_and_since_when(tmp_path: Path, children: list[Child]) -> None:
    """behaviour §7: a holder of the gate records itself in it."""
    path = tmp_path / "x.gate"
    assert gate_holder(str(path)) is None
    holder = start(children, HOLD, path)
    assert says(holder) == "held"
    seen = gate_holder(str(path))
    assert seen is not None
    assert (seen.pid, seen.command) == (holder.pid, "-c")
    assert 0 <= time.time_ns() // 1_000_000 - seen.since_at < 30_000
    holder.communicate("done\n", timeout=10)
    assert gate_holder(str(path)) is None


def test_the_gate_is_free_when_its_holder_is_killed(tmp_path: Path, children: list[Child]) -> None:
    """I9: the kernel drops it with its process."""
    path = tmp_path / "x.gate"
    holder = start(children, HOLD, path)
    assert says(holder) == "held"
    holder.kill()
    holder.wait()
    assert says(start(children, TRY, path, 10)) == "got it"


def test_who_came_first_writes_first(tmp_path: Path) -> None:
    """architecture Storage: without it SQLite's own busy handler starves writers for seconds."""
    path = str(tmp_path / "x.gate")
    first = Gate(path, patience_s=None)
    order: list[int] = []
    gates = [Gate(path, patience_s=30) for _ in range(6)]

    def write(number: int) -> None:
        with gates[number]:
            order.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    with first:
        for count, thread in enumerate(threads, 1):
            thread.start()
            _wait_for_waiters(path, count)
    for thread in threads:
        thread.join()
    assert order == list(range(6))
    for gate in [first, *gates]:
        gate.close()


def _wait_for_waiters(path: str, count: int) -> None:
    """Until so many wait in the kernel's queue for the file (`->` in /proc/locks)."""
    inode = f":{os.stat(path).st_ino} "
    pause, deadline = threading.Event(), time.monotonic() + 10
    while time.monotonic() < deadline:
        with open("/proc/locks") as locks:
            waiting = sum("->" in line and inode in line for line in locks)
        if waiting >= count:
            return
        pause.wait(0.001)
    raise AssertionError(f"{count} waiters never came")


def test_ctrl_z_does_not_stop_a_process_that_holds_the_gate(tmp_path: Path) -> None:
    """behaviour §7: a holder of the gate blocks SIGTSTP."""
    gate = Gate(str(tmp_path / "x.gate"), patience_s=None)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with gate:
        assert signal.SIGTSTP in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
    gate.close()


def test_the_gate_is_let_go_of_when_the_work_raises(tmp_path: Path) -> None:
    """architecture Storage: a failing transaction stops nobody."""
    path = str(tmp_path / "x.gate")
    gate = Gate(path, patience_s=None)
    with pytest.raises(ValueError, match="bug"), gate:
        raise ValueError("bug")
    assert gate_holder(path) is None
    gate.close()


def test_a_holder_that_cannot_write_its_name_holds_the_gate_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """behaviour §6: one full disk never stops the others; the name is only a help."""
    path = str(tmp_path / "x.gate")
    gate = Gate(path, patience_s=None)

    def full(*_args: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    entered = False
    with gate:
        entered = True
    assert entered
    assert gate_holder(path) is None
    gate.close()


# --- one supervisor per database --------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["the same path", "a symlink", "a hard link"])
def test_a_second_supervisor_is_refused_by_whatever_name_it_comes(
    tmp_path: Path, children: list[Child], how: str
) -> None:
    """I10: one supervisor per database; symlinks and hard links cannot fool it."""
    path, other = tmp_path / "sched.db", tmp_path / "other.db"
    assert says(start(children, SERVE, path)) == "serving"
    if how == "a symlink":
        other.symlink_to(path)
    elif how == "a hard link":
        other.hardlink_to(path)
    second = start(children, SERVE, path if how == "the same path" else other)
    assert says(second) == "supervised: another supervisor serves this database already"


def test_a_command_may_write_while_a_supervisor_serves(tmp_path: Path, children: list[Child]) -> None:
    """I10: the lock is for supervisors; commands pass the gate."""
    path = tmp_path / "sched.db"
    assert says(start(children, SERVE, path)) == "serving"
    db = open_database(str(path), host=FakeHost(), create=False)
    assert db.write(lambda tx: tx.now) > 0
    db.close()


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_the_next_supervisor_may_serve_when_the_first_is_gone(
    tmp_path: Path, children: list[Child], how: str
) -> None:
    """I10: released after kill -9."""
    path = tmp_path / "sched.db"
    first = start(children, SERVE, path)
    assert says(first) == "serving"
    if how == "killed":
        first.kill()
        first.wait()
    else:
        first.communicate("stop\n", timeout=10)
        assert first.returncode == 0
    assert says(start(children, SERVE, path)) == "serving"
