"""Database, Tx and Reader: how the rest of the program reads and writes the one SQLite file.

Rules kept here: one `now` a transaction; writers pass the gate; never `with connection:` (apsw would hold
the GIL while it waits); a COMMIT that raised is an unknown outcome; the wake byte follows COMMIT.
"""

from __future__ import annotations

import os

import apsw

from kandev_sched.domain.errors import NotFound, Unavailable, Unusable
from kandev_sched.store.gate import Gate
from kandev_sched.store.migrate import SCHEMA_VERSION, migrate, schema_version
from kandev_sched.store.sql import Sql, Statement, bindings, bound
from kandev_sched.store.wake import poke

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    from kandev_sched.domain.errors import SchedError
    from kandev_sched.domain.host import Host
    from kandev_sched.domain.record import Record

    R = TypeVar("R", bound=Record)
    T = TypeVar("T")

COMMAND_PATIENCE_S = 10.0
_PRAGMAS = """
PRAGMA foreign_keys=ON;
PRAGMA synchronous=FULL;
PRAGMA journal_size_limit=16777216;
PRAGMA temp_store=MEMORY;
"""


class Reader:
    """Asks questions of one connection. Every cursor is read to its end, so that no snapshot stays pinned."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def rows(self, sql: Statement, **params: object) -> list[tuple[Any, ...]]:
        """The bare rows."""
        return self._connection.execute(sql.text, params).fetchall()

    def value(self, sql: Statement, **params: object) -> Any:
        """The first column of the first row, or None."""
        rows = self.rows(sql, **params)
        return rows[0][0] if rows else None

    def all(self, sql: Sql[R], **params: object) -> list[R]:
        """The rows as records."""
        return [sql.fill(row) for row in self._connection.execute(sql.text, params).fetchall()]

    def one(self, sql: Sql[R], **params: object) -> R | None:
        """The first row as a record, or None."""
        rows = self._connection.execute(sql.text, params).fetchall()
        return sql.fill(rows[0]) if rows else None


class Tx(Reader):
    """One write transaction, with the one `now` (UTC ms) that all its statements are given."""

    def __init__(self, connection: apsw.Connection, *, host: Host, now: int) -> None:
        super().__init__(connection)
        self.host = host
        self.now = now
        self.wakes_supervisor = False

    def run(self, sql: Statement, **params: object) -> int:
        """Change rows; how many were changed."""
        self._connection.execute(sql.text, {name: bound(value) for name, value in params.items()}).fetchall()
        return self._connection.changes()

    def insert(self, sql: Statement, record: Record) -> None:
        """Insert one record."""
        self._connection.execute(sql.text, bindings(record)).fetchall()

    def new_id(self, prefix: str) -> str:
        """A fresh id."""
        return self.host.new_id(prefix)

    def wake_supervisor(self) -> None:
        """After COMMIT, tell the supervisor that there is work."""
        self.wakes_supervisor = True


class Database:
    """The file at `path`, as a command uses it: one connection, one transaction a write."""

    def __init__(self, path: str, *, host: Host, connection: apsw.Connection, gate: Gate) -> None:
        self.path = path
        self.host = host
        self._connection = connection
        self._gate = gate

    def write(self, work: Callable[[Tx], T]) -> T:
        """Run `work` in a write transaction and return its result once it is durable.

        Raises what `work` raises (and then nothing is written), or Unavailable. `work` may run twice.
        """
        try:
            return self._write(work)
        except apsw.Error as error:
            raise_explained(error, self.path)
            raise

    def write_each(self, works: Sequence[Callable[[Tx], object]]) -> list[BaseException | None]:
        """Run each of `works` as `write` does; what each raised. The supervisor commits them together."""
        return [_error_of(self.write, work) for work in works]

    def read(self, work: Callable[[Reader], T]) -> T:
        """Run `work` on one consistent snapshot."""
        try:
            return in_snapshot(self._reader_connection(), work)
        except apsw.Error as error:
            raise_explained(error, self.path)
            raise

    def data_version(self) -> int:
        """Changes when another connection has committed."""
        return int(self._reader_connection().pragma("data_version"))

    def close(self) -> None:
        """Let go of the file (I10)."""
        self._connection.close()
        self._gate.close()

    def _reader_connection(self) -> apsw.Connection:
        return self._connection

    def _write(self, work: Callable[[Tx], T]) -> T:
        with self._gate:
            tx, result = in_transaction(self._connection, self.host, work)
        if tx.wakes_supervisor:
            poke(wake_path(self.path))
        return result


def _error_of(write: Callable[[Callable[[Tx], T]], T], work: Callable[[Tx], T]) -> Exception | None:
    try:
        write(work)
    except Exception as error:  # noqa: BLE001 - the caller is given it
        return error
    return None


def in_transaction(connection: apsw.Connection, host: Host, work: Callable[[Tx], T]) -> tuple[Tx, T]:
    """BEGIN, `work`, COMMIT; rolled back when `work` raises. The caller holds the gate."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        tx = Tx(connection, host=host, now=host.now())
        result = work(tx)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return tx, result


def in_snapshot(connection: apsw.Connection, work: Callable[[Reader], T]) -> T:
    """`work` inside one read transaction, so that its statements see the same state."""
    connection.execute("BEGIN")
    try:
        return work(Reader(connection))
    finally:
        connection.execute("ROLLBACK")


def gate_path(path: str) -> str:
    """Where the writers of the database at `path` queue."""
    return f"{path}.gate"


def wake_path(path: str) -> str:
    """The FIFO on which the supervisor of the database at `path` listens."""
    return f"{path}.wake"


def open_database(path: str, *, host: Host, create: bool) -> Database:
    """Open the database for one command. Raises NotFound when it does not exist and `create` is False."""
    connection, gate = open_file(path, create=create, patience_s=COMMAND_PATIENCE_S)
    return Database(path, host=host, connection=connection, gate=gate)


def open_file(
    path: str,
    *,
    create: bool,
    patience_s: float | None,
    before_migrating: Callable[[str], None] | None = None,
) -> tuple[apsw.Connection, Gate]:
    """The file and its gate, brought to this program's schema."""
    if not os.path.exists(path):
        _make_room(path, create=create)
    try:
        return _open_ours(path, patience_s, before_migrating)
    except OSError as error:
        raise _cannot_open(path, error.strerror or str(error)) from error
    except apsw.Error as error:
        raise_explained(error, path)
        raise


def _open_ours(
    path: str, patience_s: float | None, before_migrating: Callable[[str], None] | None
) -> tuple[apsw.Connection, Gate]:
    """A file that is refused is let go of, and nothing of ours is left beside it."""
    connection, gate = connect(path), None
    try:
        if before_migrating is not None:
            before_migrating(path)
        version = schema_version(connection, path)
        gate = Gate(gate_path(path), patience_s=patience_s)
        if version < SCHEMA_VERSION:
            _bring_up_to_date(connection, gate, path)
    except BaseException:
        connection.close()
        if gate is not None:
            gate.close()
        raise
    return connection, gate


def _make_room(path: str, *, create: bool) -> None:
    if not create:
        raise NotFound(
            f"there is no database at {path}", hint="create it with `sched init`, or name another with --db"
        )
    try:
        os.makedirs(os.path.dirname(path) or ".", mode=0o700, exist_ok=True)
    except OSError as error:
        raise _cannot_open(path, error.strerror or str(error)) from error


def _cannot_open(path: str, why: str) -> Unavailable:
    return Unavailable(f"cannot open the database {path}: {why}", hint="choose another place with --db")


def connect(path: str) -> apsw.Connection:
    """A connection with our settings. New files are readable by their owner alone."""
    mask = os.umask(0o077)
    try:
        connection = apsw.Connection(path)
        try:
            connection.set_busy_timeout(10_000)
            # Without this, SQLite looks at the values bound to an index's columns and prepares such a
            # statement anew each time: 5 to 14 times dearer here, and no plan of ours needs it.
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
            connection.execute(_PRAGMAS)
        except BaseException:
            connection.close()
            raise
    finally:
        os.umask(mask)
    return connection


def _bring_up_to_date(connection: apsw.Connection, gate: Gate, path: str) -> None:
    with gate:
        connection.execute("PRAGMA journal_mode=WAL")
        migrate(connection, path)


_EXPLAINED: dict[type[apsw.Error], tuple[type[SchedError], str, str]] = {
    apsw.NotADBError: (Unusable, "is not a SQLite database", "choose another file with --db"),
    apsw.CorruptError: (Unusable, "is damaged", "restore a backup; `sched doctor` says more"),
    apsw.BusyError: (Unavailable, "is locked by another program", "try again"),
    apsw.FullError: (Unavailable, "cannot grow: the disk is full", "free some space and try again"),
    apsw.ReadOnlyError: (Unavailable, "is read-only", "make it writable, or choose another with --db"),
    apsw.CantOpenError: (Unavailable, "cannot be opened", "check the path and its permissions"),
    apsw.IOError: (
        Unavailable,
        "cannot be read or written",
        "check the disk; the last write may or may not count",
    ),
}


def raise_explained(error: apsw.Error, path: str) -> None:
    """Raise SQLite's trouble with the file as ours; return for errors that are a bug of ours."""
    for kind, (ours, what, hint) in _EXPLAINED.items():
        if isinstance(error, kind):
            raise ours(f"the database {path} {what}", hint=hint) from error
