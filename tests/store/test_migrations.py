"""From an empty file to the schema of this program, and what is refused untouched."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import apsw
import pytest
from world import FakeHost, World

from kandev_sched.domain.errors import NotFound, Unavailable, Unusable
from kandev_sched.store import db as store_db
from kandev_sched.store import migrate
from kandev_sched.store.db import Database, open_database
from kandev_sched.store.migrate import SCHEMA_VERSION


def opened(path: Path, *, create: bool = True) -> Database:
    return open_database(str(path), host=FakeHost(), create=create)


def facts_of(path: Path) -> tuple[bytes, int, list[str]]:
    """Bytes, mtime, and the files beside it; read only while nobody has it open (architecture rule 12)."""
    beside = sorted(p.name for p in path.parent.iterdir() if not p.name.endswith(".gate"))
    return path.read_bytes(), path.stat().st_mtime_ns, beside


def test_a_new_file_is_brought_to_the_schema_of_this_program(tmp_path: Path) -> None:
    """architecture Storage: schema version in `user_version`."""
    db = opened(tmp_path / "sched.db")
    assert db._connection.pragma("user_version") == SCHEMA_VERSION
    assert db._connection.pragma("application_id") == migrate.APPLICATION_ID
    assert db._connection.pragma("integrity_check") == "ok"
    db.close()


def test_an_empty_file_becomes_ours(tmp_path: Path) -> None:
    """architecture Storage: `touch sched.db` is no reason to fail."""
    path = tmp_path / "sched.db"
    path.touch()
    db = opened(path)
    assert db._connection.pragma("user_version") == SCHEMA_VERSION
    db.close()


def test_opening_again_changes_nothing(tmp_path: Path) -> None:
    """architecture Storage: forward-only numbered migrations, each once."""
    path = tmp_path / "sched.db"
    opened(path).close()
    before = facts_of(path)
    opened(path).close()
    assert facts_of(path) == before


def test_the_files_are_readable_by_their_owner_alone(tmp_path: Path) -> None:
    """architecture Storage: agents' payloads are nobody else's business, whatever the umask."""
    old = os.umask(0)
    try:
        db = opened(tmp_path / "sub" / "sched.db")
        modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "sub").iterdir()}
        db.close()
    finally:
        os.umask(old)
    assert set(modes) >= {"sched.db", "sched.db-wal", "sched.db-shm", "sched.db.gate"}
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE((tmp_path / "sub").stat().st_mode) == 0o700


def test_a_database_that_does_not_exist_is_not_made_unless_asked(tmp_path: Path) -> None:
    """architecture rule 8: misuse is an error with a hint; nothing is left behind."""
    with pytest.raises(NotFound) as caught:
        opened(tmp_path / "no" / "sched.db", create=False)
    assert "sched init" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("what", ["a folder", "below a file"])
def test_a_path_that_cannot_be_a_database_is_refused_in_one_sentence(tmp_path: Path, what: str) -> None:
    """architecture rule 8: never a traceback."""
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises((Unavailable, Unusable)):
        opened(tmp_path / ("folder" if what == "a folder" else "file/sched.db"))


def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    """architecture Storage: never touch what is not ours."""
    path = tmp_path / "letter.txt"
    path.write_text("Dear reader,\n" * 1000)
    before = facts_of(path)
    with pytest.raises(Unusable, match="is not a SQLite database"):
        opened(path)
    assert facts_of(path) == before


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_a_database_of_another_program_is_refused_and_left_as_it_is(tmp_path: Path, journal: str) -> None:
    """architecture Storage: never touch what is not ours."""
    path = tmp_path / "other.db"
    other = apsw.Connection(str(path))
    other.pragma("journal_mode", journal)
    other.execute("CREATE TABLE letters (text)")
    other.close()
    before = facts_of(path)
    with pytest.raises(Unusable, match="of another program"):
        opened(path)
    assert facts_of(path) == before


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_a_newer_schema_is_refused_and_left_as_it_is(tmp_path: Path, journal: str) -> None:
    """architecture Storage: a database newer than the program is refused, untouched."""
    path = tmp_path / "sched.db"
    opened(path).close()
    newer = apsw.Connection(str(path))
    newer.pragma("user_version", SCHEMA_VERSION + 1)
    newer.pragma("journal_mode", journal)
    newer.close()
    before = facts_of(path)
    with pytest.raises(Unusable, match=f"schema version {SCHEMA_VERSION + 1}") as caught:
        opened(path)
    assert "newer sched" in caught.value.hint
    assert facts_of(path) == before
    assert before[2] == ["sched.db"]


def test_a_refused_file_is_not_held_open(tmp_path: Path) -> None:
    """I10: what was refused is let go of, also in a process that lives on."""
    path = tmp_path / "letter.txt"
    path.write_text("Dear reader,\n" * 1000)
    descriptors = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with pytest.raises(Unusable):
            opened(path)
    assert len(os.listdir("/proc/self/fd")) == descriptors


# --- upgrades ---------------------------------------------------------------------------------------------


@pytest.fixture
def next_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program one schema version ahead; its second script."""
    folder = tmp_path / "scripts"
    folder.mkdir()
    first = Path(migrate.migration_file(1))
    (folder / first.name).write_text(first.read_text())
    script = folder / f"{SCHEMA_VERSION + 1:04}_next.sql"
    script.write_text("ALTER TABLE agents ADD COLUMN nickname TEXT;")
    monkeypatch.setattr(migrate, "_FOLDER", str(folder))
    return script


def upgrade(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (migrate, store_db):
        monkeypatch.setattr(module, "SCHEMA_VERSION", SCHEMA_VERSION + 1)


def given_an_old_database(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    folder.mkdir()
    world = World(folder)
    world.given_agent("ann")
    world.close()
    return Path(world.path)


def test_an_upgrade_keeps_what_is_there_and_a_backup_of_what_was(
    tmp_path: Path, next_version: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """architecture Storage: with a backup (through SQLite's backup API) before."""
    path = given_an_old_database(tmp_path)
    upgrade(monkeypatch)
    db = opened(path)
    assert db._connection.pragma("user_version") == SCHEMA_VERSION + 1
    assert db._connection.execute("SELECT name, nickname FROM agents").fetchall() == [("ann", None)]
    db.close()
    (backup,) = path.parent.glob("sched.db.before-v*")
    assert f"before-v{SCHEMA_VERSION + 1}-" in backup.name
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    copy = apsw.Connection(str(backup), flags=apsw.SQLITE_OPEN_READONLY)
    assert copy.pragma("user_version") == SCHEMA_VERSION
    assert copy.execute("SELECT name FROM agents").fetchall() == [("ann",)]
    assert copy.pragma("integrity_check") == "ok"
    copy.close()


def test_an_upgrade_that_fails_leaves_the_old_schema(
    tmp_path: Path, next_version: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """architecture Storage: each migration in one transaction."""
    path = given_an_old_database(tmp_path)
    next_version.write_text("ALTER TABLE agents ADD COLUMN nickname TEXT; INSERT INTO nowhere VALUES (1);")
    upgrade(monkeypatch)
    with pytest.raises(apsw.SQLError):
        opened(path)
    monkeypatch.undo()
    db = opened(path)
    assert db._connection.pragma("user_version") == SCHEMA_VERSION
    columns = [row[1] for row in db._connection.execute("PRAGMA table_info(agents)").fetchall()]
    assert "nickname" not in columns
    db.close()


def test_a_new_database_is_made_without_a_backup(
    tmp_path: Path, next_version: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """architecture Storage: there is nothing to keep."""
    upgrade(monkeypatch)
    opened(tmp_path / "sched.db").close()
    assert list(tmp_path.glob("sched.db.before*")) == []


# --- many at once -----------------------------------------------------------------------------------------

CREATE = """
import sys
from kandev_sched.domain.host import MachineHost
from kandev_sched.store.db import open_database
from kandev_sched.operations.workspaces import AddWorkspace, add_workspace
sys.stdin.readline()
db = open_database(sys.argv[1], host=MachineHost(), create=True)
db.write(lambda tx: add_workspace(tx, AddWorkspace(name=sys.argv[2])))
db.close()
"""


def test_eight_first_commands_at_once_make_one_database(tmp_path: Path) -> None:
    """architecture Storage: two first commands do not create one database twice."""
    path = tmp_path / "sched.db"
    commands = [
        subprocess.Popen(
            [sys.executable, "-c", CREATE, str(path), f"w{number}"],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(8)
    ]
    for command in commands:
        command.stdin.write("go\n")
        command.stdin.flush()
    ended = [(command.communicate(timeout=60)[1], command.returncode) for command in commands]
    assert ended == [("", 0)] * 8
    db = opened(path)
    names = db._connection.execute("SELECT name FROM workspaces ORDER BY name").fetchall()
    assert names == [(f"w{number}",) for number in range(8)]
    assert db._connection.pragma("integrity_check") == "ok"
    db.close()
    assert list(tmp_path.glob("sched.db.before*")) == []


def test_a_file_that_is_refused_gets_nothing_of_ours_beside_it(tmp_path: Path) -> None:
    """A stray `.gate` beside another program's database would be litter that nobody explains."""
    path = tmp_path / "other.db"
    other = apsw.Connection(str(path))
    other.execute("CREATE TABLE theirs (x)")
    other.close()
    with pytest.raises(Unusable):
        open_database(str(path), host=FakeHost(), create=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["other.db"]
