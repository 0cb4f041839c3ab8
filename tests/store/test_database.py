"""Database, Tx and Reader as a command uses them; the wake FIFO."""

from __future__ import annotations

import os
from pathlib import Path

import apsw
import pytest
from world import World

from kandev_sched.domain.errors import Conflict, Unavailable
from kandev_sched.domain.supervision import SupervisorPhase
from kandev_sched.domain.workspaces import Workspace
from kandev_sched.store import supervision, workspaces
from kandev_sched.store.db import Tx, wake_path
from kandev_sched.store.wake import WakeListener, is_listened_to, poke


def add_workspace(tx: Tx, name: str) -> None:
    workspaces.add(tx, Workspace(id=tx.new_id("ws"), name=name, created_at=tx.now, updated_at=tx.now))


def names(world: World) -> list[str]:
    return [row[0] for row in world.ask("SELECT name FROM workspaces ORDER BY name")]


@pytest.mark.parametrize("error", [Conflict("no"), ValueError("bug"), KeyboardInterrupt()])
def test_a_transaction_that_raises_leaves_nothing(world: World, error: BaseException) -> None:
    """architecture rule 7: a failing one rolls back the whole command."""

    def work(tx: Tx) -> None:
        add_workspace(tx, "half")
        raise error

    with pytest.raises(type(error)):
        world.db.write(work)
    assert names(world) == []
    world.db.write(lambda tx: add_workspace(tx, "whole"))
    assert names(world) == ["whole"]


def test_a_transaction_has_one_now(world: World) -> None:
    """architecture rule 6: one `now` per transaction, handed to every statement."""

    def work(tx: Tx) -> list[int]:
        first = tx.now
        world.advance(60)
        return [first, tx.now]

    began = world.now
    assert world.db.write(work) == [began, began]


def test_what_was_acknowledged_is_there_for_the_next_who_opens_the_file(world: World) -> None:
    """I9: what was acknowledged to a caller is there after."""
    world.db.write(lambda tx: add_workspace(tx, "kept"))
    world.close()
    world.open()
    assert names(world) == ["kept"]


def test_a_read_sees_one_state(tmp_path: Path) -> None:
    """architecture Storage: `work` inside one read transaction, its statements see the same state."""
    one, two = World(tmp_path), World(tmp_path)

    def work(reader: object) -> list[list[tuple[str]]]:
        first = reader.rows(workspaces._ALL)  # type: ignore[attr-defined]
        two.db.write(lambda tx: add_workspace(tx, "meanwhile"))
        return [first, reader.rows(workspaces._ALL)]  # type: ignore[attr-defined]

    seen = one.db.read(work)
    assert seen[0] == seen[1]
    assert names(one) == ["meanwhile"]
    one.close()
    two.close()


def test_trouble_with_the_file_is_told_in_one_sentence(world: World) -> None:
    """architecture rule 8: disk full is `Unavailable`, never a traceback of SQLite's."""

    def work(tx: Tx) -> None:
        raise apsw.FullError("database or disk is full")

    with pytest.raises(Unavailable, match="the disk is full"):
        world.db.write(work)


def test_a_disk_that_is_full_leaves_the_database_whole_and_usable(world: World) -> None:
    """behaviour §6: one full disk never stops the others."""
    pages = world.db._connection.pragma("page_count")
    world.db._connection.pragma("max_page_count", pages)

    def fill(tx: Tx) -> None:
        for number in range(200):
            add_workspace(tx, f"w{number}" + "x" * 1000)

    with pytest.raises(Unavailable):
        world.db.write(fill)
    assert names(world) == []
    world.db._connection.pragma("max_page_count", 1_000_000)
    world.db.write(lambda tx: add_workspace(tx, "after"))
    assert "after" in names(world)


# --- the wake byte ----------------------------------------------------------------------------------------


def test_the_supervisor_is_poked_after_commit_and_only_when_asked(world: World) -> None:
    """architecture Storage: a writer puts one byte in it after COMMIT."""
    listener = WakeListener(wake_path(world.path))
    world.db.write(lambda tx: add_workspace(tx, "quiet"))
    assert not listener.wait(0)

    def loud(tx: Tx) -> None:
        add_workspace(tx, "loud")
        tx.wake_supervisor()
        assert not listener.wait(0), "before COMMIT there is nothing to see"

    world.db.write(loud)
    assert listener.wait(0)
    assert not listener.wait(0)

    def failing(tx: Tx) -> None:
        tx.wake_supervisor()
        raise Conflict("no")

    with pytest.raises(Conflict):
        world.db.write(failing)
    assert not listener.wait(0)
    listener.close()


def test_a_poke_without_a_listener_is_no_error(tmp_path: Path) -> None:
    """architecture Storage: the command line needs no running supervisor to record work."""
    path = str(tmp_path / "x.wake")
    assert not poke(path)
    assert not is_listened_to(path)
    os.mkfifo(path)
    assert not poke(path)
    assert not is_listened_to(path)


def test_many_pokes_are_taken_at_once_and_never_block(tmp_path: Path) -> None:
    """architecture Storage: one is as good as many; a full FIFO is no error."""
    path = str(tmp_path / "x.wake")
    listener = WakeListener(path)
    assert is_listened_to(path)
    results = [poke(path) for _ in range(70_000)]
    listener.poke()
    assert results[0]
    assert not results[-1]
    assert listener.wait(0)
    assert not listener.wait(0)
    listener.close()


def test_a_supervisor_that_goes_away_while_it_is_poked_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I9: the write is durable already; its command must not fail."""
    path = str(tmp_path / "x.wake")
    listener = WakeListener(path)
    write = os.write

    def going(fd: int, data: bytes) -> int:
        listener.close()
        return write(fd, data)

    monkeypatch.setattr(os, "write", going)
    assert not poke(path)


# --- what the supervisor notes ----------------------------------------------------------------------------


def test_the_high_water_mark_of_the_clock_is_kept(world: World) -> None:
    """behaviour §7: the stored high-water mark."""
    seen = world.now
    world.host.set_clock(seen - 3_600_000)
    world.db.write(lambda tx: supervision.set_phase(tx, SupervisorPhase.RECOVERING, pid=7))
    state = world.db.read(supervision.state)
    assert (state.seen_at, state.pid, state.started_at) == (seen, 7, world.now)
