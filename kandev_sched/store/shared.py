"""SharedDatabase: the database inside the supervisor, for many threads.

One writer thread serves all others: closures are queued, executed each in its own savepoint, committed
together (group commit, one fsync), and acknowledged only after COMMIT. Reads use one connection a thread.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import apsw

from kandev_sched.domain.errors import SchedError
from kandev_sched.domain.host import Host
from kandev_sched.store.db import Database, Tx, connect, gate_path, in_transaction, open_file, raise_explained
from kandev_sched.store.gate import Gate
from kandev_sched.store.inode_lock import lock_inode

T = TypeVar("T")
GROUP_LIMIT = 64
WRITER_CACHE_KIB = 16 * 1024  # the leaves of the indexes by agent, which every enqueue touches
WAL_LIMIT_BYTES = 64 * 1024 * 1024


class _Asked:
    """A closure, and what came out before COMMIT made it true. Its caller sleeps on a bare lock: a Future
    with its condition would cost as much as two statements.
    """

    __slots__ = ("_turn", "error", "result", "work")

    def __init__(self, work: Callable[[Tx], Any]) -> None:
        self.work = work
        self.result: Any = None
        self.error: BaseException | None = None
        self._turn = threading.Lock()
        self._turn.acquire()

    def reply(self) -> None:
        """Wake the caller: what is noted is durable now, or failed."""
        self._turn.release()

    def outcome(self) -> BaseException | None:
        """Sleep until the reply; the error, if there is one."""
        self._turn.acquire()
        return self.error


class _GroupLostError(Exception):
    """SQLite rolled the whole group back (disk full, interrupt), not one savepoint."""


class SharedDatabase(Database):
    """`on_work` is called after each COMMIT that made work for the loops."""

    def __init__(
        self, path: str, *, host: Host, connection: apsw.Connection, gate: Gate, on_work: Callable[[], None]
    ) -> None:
        super().__init__(path, host=host, connection=connection, gate=gate)
        connection.execute(f"PRAGMA cache_size=-{WRITER_CACHE_KIB}")
        self._on_work = on_work
        self._asked: queue.SimpleQueue[_Asked | None] = queue.SimpleQueue()
        self._local = threading.local()
        self._readers: list[apsw.Connection] = []
        self._state = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="writer")
        self._thread.start()

    def close(self) -> None:
        """Commit what was accepted, join the writer, then close every connection. Idempotent."""
        with self._state:
            if self._closed:
                return
            self._closed = True
            self._asked.put(None)
        self._thread.join()
        for reader in self._readers:
            reader.close()
        with self._gate:
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        super().close()

    def checkpoint(self) -> None:
        """Move the log into the file, and cut the log short when it grew beyond its limit."""
        connection = self._reader_connection()
        if self.wal_bytes() <= WAL_LIMIT_BYTES:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            return
        gate = Gate(gate_path(self.path), patience_s=None)
        with gate:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        gate.close()

    def wal_bytes(self) -> int:
        """The size of the log."""
        try:
            return os.stat(f"{self.path}-wal").st_size
        except FileNotFoundError:
            return 0

    def _reader_connection(self) -> apsw.Connection:
        connection: apsw.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = connect(self.path)
            with self._state:
                self._refuse_when_closed()
                self._readers.append(connection)
            self._local.connection = connection
        return connection

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise RuntimeError("the database was asked after it was closed")

    def _write(self, work: Callable[[Tx], T]) -> T:
        asked = self._ask(work)
        error = asked.outcome()
        if error is not None:
            raise error
        result: T = asked.result
        return result

    def _ask(self, work: Callable[[Tx], Any]) -> _Asked:
        if threading.current_thread() is self._thread:
            raise RuntimeError("a transaction asked for another transaction")
        asked = _Asked(work)
        with self._state:
            self._refuse_when_closed()
            self._asked.put(asked)
        return asked

    def write_each(self, works: Sequence[Callable[[Tx], object]]) -> list[BaseException | None]:
        """All at once into the queue: they share one COMMIT, each in its own savepoint."""
        asked = [self._ask(work) for work in works]
        return [self._explained(one.outcome()) for one in asked]

    def _explained(self, error: BaseException | None) -> BaseException | None:
        """As `write` would raise it: a full disk must not look like a fault of the closure."""
        if isinstance(error, apsw.Error):
            try:
                raise_explained(error, self.path)
            except SchedError as explained:
                return explained
        return error

    def _serve(self) -> None:
        """The writer thread: take what has gathered during the last fsync, commit it, answer."""
        is_open = True
        while is_open:
            group, is_open = self._next_group()
            if not group:
                continue
            wakes = self._commit(group)
            for asked in group:
                asked.reply()
            if wakes:
                self._on_work()

    def _next_group(self) -> tuple[list[_Asked], bool]:
        group: list[_Asked] = []
        while not group or (len(group) < GROUP_LIMIT and not self._asked.empty()):
            asked = self._asked.get()
            if asked is None:
                return group, False
            group.append(asked)
        return group, True

    def _commit(self, group: list[_Asked]) -> bool:
        """Execute and commit the group, leaving in each what to reply; whether it made work."""
        try:
            with self._gate:
                return self._commit_together(group)
        except _GroupLostError:
            return any([self._commit_alone(asked) for asked in group])
        except (apsw.Error, OSError) as error:
            # The gate, BEGIN or COMMIT failed: nobody may be told that his write counts.
            for asked in group:
                asked.error = error
            return False

    def _commit_together(self, group: list[_Asked]) -> bool:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            now = self.host.now()
            wakes = False
            for asked in group:
                now = max(now, self.host.now())
                wakes |= self._run_in_savepoint(asked, now)
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        return wakes

    def _run_in_savepoint(self, asked: _Asked, now: int) -> bool:
        tx = Tx(self._connection, host=self.host, now=now)
        self._connection.execute("SAVEPOINT one")
        try:
            asked.result, asked.error = asked.work(tx), None
        except BaseException as error:
            if not self._connection.in_transaction:
                raise _GroupLostError from error
            self._connection.execute("ROLLBACK TO one")
            asked.error, tx.wakes_supervisor = error, False
        self._connection.execute("RELEASE one")
        return tx.wakes_supervisor

    def _commit_alone(self, asked: _Asked) -> bool:
        try:
            with self._gate:
                tx, asked.result = in_transaction(self._connection, self.host, asked.work)
        except BaseException as error:  # noqa: BLE001 - it belongs to the caller, who gets it
            asked.error = error
            return False
        asked.error = None
        return tx.wakes_supervisor


def open_shared(path: str, *, host: Host, create: bool, on_work: Callable[[], None]) -> SharedDatabase:
    """Open the database for the supervisor, which waits for the gate as long as it takes.

    Raises Conflict when another supervisor serves it.
    """
    connection, gate = open_file(path, create=create, patience_s=None, before_migrating=lock_inode)
    return SharedDatabase(path, host=host, connection=connection, gate=gate, on_work=on_work)
