"""The database inside the supervisor: many threads, one writer, group commit, and its end."""

from __future__ import annotations

import errno
import fcntl
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import pytest
from world import World

from kandev_sched.domain.errors import Conflict, Unavailable
from kandev_sched.domain.workspaces import Workspace
from kandev_sched.store import shared, workspaces
from kandev_sched.store.db import Reader, Tx

WAIT_S = 30


def add_workspace(tx: Tx, name: str) -> str:
    workspaces.add(tx, Workspace(id=tx.new_id("ws"), name=name, created_at=tx.now, updated_at=tx.now))
    return name


def adding(name: str) -> Callable[[Tx], str]:
    return lambda tx: add_workspace(tx, name)


def names(world: World) -> list[str]:
    return [row[0] for row in world.ask("SELECT name FROM workspaces ORDER BY name")]


class Crowd:
    """Threads that ask for writes while the writer is held, so that they land in one group."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._threads = ThreadPoolExecutor(max_workers=64)
        self._go_on = threading.Event()
        self._is_held = threading.Event()
        self.holder = self._threads.submit(world.db.write, self._hold)
        assert self._is_held.wait(WAIT_S)

    def _hold(self, tx: Tx) -> str:
        self._is_held.set()
        assert self._go_on.wait(WAIT_S)
        return "held"

    def asks(self, work: Callable[[Tx], Any]) -> Future[Any]:
        """Ask in a thread of its own; returns once the question stands in the queue."""
        queue: Any = self._world.db._asked  # type: ignore[attr-defined]
        count = queue.qsize() + 1
        answer = self._threads.submit(self._world.db.write, work)
        while queue.qsize() < count:
            assert not self._go_on.wait(0.001)
        return answer

    def go_on(self) -> None:
        self._go_on.set()

    def leave(self) -> None:
        self._go_on.set()
        self._threads.shutdown()


def test_what_gathered_during_one_commit_is_committed_together(shared_world: World) -> None:
    """architecture Storage (group commit): executed each in its own savepoint, committed together."""
    commits: list[int] = []
    crowd = Crowd(shared_world)
    answers = [crowd.asks(adding(f"w{number:02}")) for number in range(30)]
    shared_world.db._connection.set_commit_hook(lambda: bool(commits.append(1)))
    crowd.go_on()
    assert [answer.result(WAIT_S) for answer in answers] == [f"w{number:02}" for number in range(30)]
    crowd.leave()
    assert len(commits) == 2  # the one that held the others, then all of them
    assert names(shared_world) == [f"w{number:02}" for number in range(30)]


@pytest.mark.parametrize("error", [Conflict("taken"), ValueError("bug"), KeyboardInterrupt("ctrl-c")])
def test_one_bad_closure_fails_alone_and_the_others_commit(shared_world: World, error: BaseException) -> None:
    """architecture Storage (group commit), behaviour §6: one failing handler never stops the others."""

    def bad(tx: Tx) -> None:
        add_workspace(tx, "bad")
        raise error

    crowd = Crowd(shared_world)
    before, failing, after = crowd.asks(adding("a")), crowd.asks(bad), crowd.asks(adding("b"))
    crowd.go_on()
    assert (before.result(WAIT_S), after.result(WAIT_S)) == ("a", "b")
    assert failing.exception(WAIT_S) is error
    crowd.leave()
    assert names(shared_world) == ["a", "b"]
    assert shared_world.db.write(adding("c")) == "c"


def test_when_sqlite_rolls_the_whole_group_back_the_others_still_commit(shared_world: World) -> None:
    """architecture Storage: FULL and INTERRUPT roll all of it back: then one transaction a closure."""

    def interrupted(tx: Tx) -> None:
        tx._connection.execute("ROLLBACK")  # what SQLite does by itself
        raise apsw.InterruptError("interrupted")

    crowd = Crowd(shared_world)
    before, lost, after = crowd.asks(adding("a")), crowd.asks(interrupted), crowd.asks(adding("b"))
    crowd.go_on()
    assert (before.result(WAIT_S), after.result(WAIT_S)) == ("a", "b")
    assert isinstance(lost.exception(WAIT_S), apsw.InterruptError)
    assert crowd.holder.result(WAIT_S) == "held"
    crowd.leave()
    assert names(shared_world) == ["a", "b"]


def test_a_closure_that_fills_the_disk_fails_alone(shared_world: World) -> None:
    """architecture Storage, behaviour §6: one full disk never stops the others."""
    pages = shared_world.db._connection.pragma("page_count")

    def limit(tx: Tx) -> None:
        tx._connection.pragma("max_page_count", pages + 3)

    def huge(tx: Tx) -> None:
        for number in range(1000):
            add_workspace(tx, f"huge{number}" + "x" * 4000)

    crowd = Crowd(shared_world)
    limited = crowd.asks(limit)
    before, full, after = crowd.asks(adding("a")), crowd.asks(huge), crowd.asks(adding("b"))
    crowd.go_on()
    assert limited.result(WAIT_S) is None
    assert (before.result(WAIT_S), after.result(WAIT_S)) == ("a", "b")
    assert isinstance(full.exception(WAIT_S), Unavailable)
    crowd.leave()
    assert names(shared_world) == ["a", "b"]
    assert shared_world.ask("PRAGMA integrity_check") == [("ok",)]


def test_a_commit_that_fails_tells_everybody_that_his_write_does_not_count(shared_world: World) -> None:
    """I9, architecture Storage: acknowledged only after COMMIT."""
    crowd = Crowd(shared_world)
    answers = [crowd.asks(adding(name)) for name in "ab"]
    refusals = iter([False, True])  # the holder's commit goes through, that of the group does not
    shared_world.db._connection.set_commit_hook(lambda: next(refusals))
    crowd.go_on()
    assert all(isinstance(answer.exception(WAIT_S), apsw.Error) for answer in answers)
    crowd.leave()
    shared_world.db._connection.set_commit_hook(None)
    assert names(shared_world) == []
    assert shared_world.db.write(adding("c")) == "c"


def test_a_gate_that_cannot_be_locked_is_an_error_of_that_write_and_not_the_end_of_the_writer(
    shared_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """behaviour §6: one failing handler never stops the others; no caller waits for ever."""

    def refuse(*_args: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", refuse)
        with ThreadPoolExecutor(1) as threads:
            answer = threads.submit(shared_world.db.write, adding("a"))
            assert isinstance(answer.exception(WAIT_S), OSError)
    assert shared_world.db.write(adding("b")) == "b"
    assert names(shared_world) == ["b"]


def test_each_closure_has_its_own_now_never_lower_than_the_one_before(shared_world: World) -> None:
    """architecture Storage: each closure has its own `tx.now`, never lower than the one before."""
    crowd = Crowd(shared_world)

    def step(seconds: float) -> Callable[[Tx], int]:
        def work(tx: Tx) -> int:
            shared_world.advance(seconds)
            return tx.now

        return work

    answers = [crowd.asks(step(seconds)) for seconds in (5, -60, 1, 0)]
    began = shared_world.now
    crowd.go_on()
    assert [answer.result(WAIT_S) - began for answer in answers] == [0, 5000, 5000, 5000]
    crowd.leave()


def test_the_loops_are_told_of_work_once_a_group_after_its_commit(shared_world: World) -> None:
    """architecture Storage: the signal follows COMMIT."""
    seen: list[list[str]] = []
    shared_world.db._on_work = lambda: seen.append(names(shared_world))  # type: ignore[attr-defined]

    def loud(name: str) -> Callable[[Tx], None]:
        def work(tx: Tx) -> None:
            add_workspace(tx, name)
            tx.wake_supervisor()

        return work

    def failing(tx: Tx) -> None:
        tx.wake_supervisor()
        raise Conflict("no")

    with pytest.raises(Conflict):
        shared_world.db.write(failing)
    shared_world.db.write(adding("quiet"))
    crowd = Crowd(shared_world)
    answers = [crowd.asks(loud(name)) for name in "abc"]
    crowd.go_on()
    for answer in answers:
        answer.result(WAIT_S)
    crowd.leave()
    shared_world.db.write(adding("next"))  # the writer comes to it when it has told the loops
    assert seen == [["a", "b", "c", "quiet"]]


def test_a_transaction_cannot_ask_for_another(shared_world: World) -> None:
    """architecture Storage: the one writer would wait for itself."""
    with pytest.raises(RuntimeError, match="asked for another transaction"):
        shared_world.db.write(lambda _tx: shared_world.db.write(adding("inner")))
    assert shared_world.db.write(adding("a")) == "a"


# --- reading ----------------------------------------------------------------------------------------------


def test_a_read_sees_one_state_whatever_is_written_meanwhile(shared_world: World) -> None:
    """architecture Storage: readers are consistent snapshots, one connection a thread."""
    shared_world.db.write(adding("a"))

    def work(reader: Reader) -> list[int]:
        first = len(reader.rows(workspaces._ALL))
        with ThreadPoolExecutor(1) as threads:
            threads.submit(shared_world.db.write, adding("b")).result(WAIT_S)
        return [first, len(reader.rows(workspaces._ALL))]

    assert shared_world.db.read(work) == [1, 1]
    assert names(shared_world) == ["a", "b"]


def test_a_write_that_was_acknowledged_is_seen_by_every_reader(shared_world: World) -> None:
    """I9: acknowledged only after COMMIT."""
    with ThreadPoolExecutor(4) as threads:
        for number in range(20):
            shared_world.db.write(adding(f"w{number:02}"))
            seen = [threads.submit(names, shared_world) for _ in range(4)]
            assert all(len(future.result(WAIT_S)) == number + 1 for future in seen)


def test_another_process_is_noticed_by_the_data_version(shared_world: World, tmp_path: Path) -> None:
    """architecture Storage: a `PRAGMA data_version` poll covers a lost byte."""
    db: Any = shared_world.db
    before = db.data_version()
    assert db.data_version() == before
    other = World(tmp_path)
    other.db.write(adding("elsewhere"))
    other.close()
    assert db.data_version() != before


def test_a_log_that_grew_beyond_its_limit_is_cut(
    shared_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """architecture Storage: the -wal is checkpointed and kept below 64 MB."""
    assert shared.WAL_LIMIT_BYTES == 64 * 1024 * 1024
    monkeypatch.setattr(shared, "WAL_LIMIT_BYTES", 10_000)
    db: Any = shared_world.db
    for number in range(20):
        db.write(adding(f"w{number}"))
    assert db.wal_bytes() > 10_000
    db.checkpoint()
    assert db.wal_bytes() == 0
    assert len(names(shared_world)) == 20


# --- the end ----------------------------------------------------------------------------------------------


def test_closing_commits_what_was_accepted_then_refuses(shared_world: World) -> None:
    """I9, I10: nothing touches the database after it is closed; what was accepted counts."""
    crowd = Crowd(shared_world)
    answers = [crowd.asks(adding(f"w{number}")) for number in range(5)]
    db: Any = shared_world.db
    with ThreadPoolExecutor(1) as closer:
        closing = closer.submit(db.close)
        while not db._closed:
            assert not closing.done()
        with pytest.raises(RuntimeError, match="after it was closed"):
            db.write(adding("too late"))
        crowd.go_on()
        assert [answer.result(WAIT_S) for answer in answers] == [f"w{number}" for number in range(5)]
        closing.result(WAIT_S)
    crowd.leave()
    db.close()
    with pytest.raises((RuntimeError, apsw.ConnectionClosedError)):
        names(shared_world)
    with ThreadPoolExecutor(1) as other, pytest.raises(RuntimeError, match="after it was closed"):
        other.submit(names, shared_world).result(WAIT_S)
    assert not [thread for thread in threading.enumerate() if thread.name == "writer"]
    shared_world._is_open = False
    shared_world.open()
    assert names(shared_world) == [f"w{number}" for number in range(5)]


def test_closing_from_many_threads_is_closing_once(shared_world: World) -> None:
    """I10: idempotent."""
    with ThreadPoolExecutor(8) as threads:
        for future in [threads.submit(shared_world.db.close) for _ in range(8)]:
            future.result(WAIT_S)


def test_closing_leaves_no_log_behind(shared_world: World) -> None:
    """architecture Storage: a clean end leaves one file that can be copied."""
    shared_world.db.write(adding("a"))
    folder = Path(shared_world.path).parent
    shared_world.close()
    assert {path.name for path in folder.iterdir()} == {"sched.db", "sched.db.gate"}


# --- other processes --------------------------------------------------------------------------------------

WRITE = """
import sys, time
from kandev_sched.domain.host import MachineHost
from kandev_sched.domain.workspaces import Workspace
from kandev_sched.store import workspaces
from kandev_sched.store.db import open_database

db = open_database(sys.argv[1], host=MachineHost(), create=False)
print("ready", flush=True)
sys.stdin.readline()
slowest = 0.0
for number in range(10):
    def add(tx):
        name = f"{sys.argv[2]}-{number}"
        workspaces.add(tx, Workspace(id=tx.new_id("ws"), name=name, created_at=tx.now, updated_at=tx.now))
    began = time.monotonic()
    db.write(add)
    slowest = max(slowest, time.monotonic() - began)
db.close()
print(f"{slowest:.3f}", flush=True)
"""


def test_eight_processes_write_while_the_supervisor_is_busy_and_none_starves(shared_world: World) -> None:
    """architecture Storage (gate): no user ever sees "database is locked", and none waits for seconds."""
    children = [
        subprocess.Popen(
            [sys.executable, "-c", WRITE, shared_world.path, f"p{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(8)
    ]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    is_over = threading.Event()

    def keep_busy() -> int:
        count = 0
        while not is_over.is_set():
            shared_world.db.write(adding(f"busy{count}"))
            count += 1
        return count

    with ThreadPoolExecutor(1) as threads:
        busy = threads.submit(keep_busy)
        for child in children:
            child.stdin.write("go\n")
            child.stdin.flush()
        ended = [(*child.communicate(timeout=60), child.returncode) for child in children]
        is_over.set()
        count = busy.result(WAIT_S)
    assert [(errors, code) for _, errors, code in ended] == [("", 0)] * 8
    assert max(float(slowest) for slowest, _, _ in ended) < 1
    assert count > 0
    assert len(names(shared_world)) == 80 + count


def test_a_full_disk_is_said_as_such_to_each_of_several_closures(shared_world: World) -> None:
    """behaviour §6: the ticker sets a trigger aside for its own faults, never for those of the disk."""
    pages = shared_world.db._connection.pragma("page_count")
    shared_world.db.write(lambda tx: tx._connection.pragma("max_page_count", pages + 3))

    def huge(tx: Tx) -> None:
        for number in range(1000):
            add_workspace(tx, f"huge{number}" + "x" * 4000)

    fine, full = shared_world.db.write_each([adding("a"), huge])
    assert fine is None
    assert isinstance(full, Unavailable)
