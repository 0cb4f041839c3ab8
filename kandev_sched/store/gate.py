"""The gate: one writer at a time, in the order of arrival, across all processes.

SQLite's own busy handler starves writers for seconds; a blocking flock on `<db>.gate` does not, and the
kernel drops it with its process. The holder writes its name into the file, so that `status` can name it.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time

from kandev_sched.domain.errors import Unavailable
from kandev_sched.domain.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from types import TracebackType
else:
    import _signal as signal  # the C module beneath `signal`, without its enums: `sched fire` counts each ms


class GateHolder(Record):
    """Who holds the gate, and since when (wall clock, ms)."""

    pid: int
    command: str
    since_at: int


class Gate:
    """A context manager around each write transaction. `patience_s` None waits for ever (the supervisor)."""

    def __init__(self, path: str, *, patience_s: float | None) -> None:
        self._path = path
        self._patience_s = patience_s
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._note = f" {os.path.basename(sys.argv[0] or 'python')}\n"
        self._mask: set[signal.Signals] | set[int] = set()

    def __enter__(self) -> None:
        # Ctrl-Z between BEGIN and COMMIT would stop every other writer of this database.
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTSTP})
        try:
            self._acquire()
        except BaseException:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
            raise
        self._record_holder()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _record_holder(self) -> None:
        note = f"{os.getpid():>10} {time.time_ns() // 1_000_000:>15}{self._note}"
        try:
            os.pwrite(self._fd, note.encode(), 0)
        except OSError:  # the disk is full: the gate is held all the same, and must be let go of
            return

    def _acquire(self) -> None:
        if self._patience_s is None:
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            return
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._queue_for(self._patience_s)

    def _queue_for(self, patience_s: float) -> None:
        """Wait in the kernel's queue: polling would be overtaken by every blocked waiter."""
        import threading

        fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        turn = threading.Event()

        def wait_for_turn() -> None:
            fcntl.flock(fd, fcntl.LOCK_EX)
            turn.set()

        threading.Thread(target=wait_for_turn, name="gate", daemon=True).start()
        if not turn.wait(patience_s):
            # The thread still queues on `fd`; it dies with this command, and the lock with it.
            raise _busy(self._path, patience_s)
        os.close(self._fd)
        self._fd = fd

    def close(self) -> None:
        """Give the file back."""
        os.close(self._fd)


def _busy(path: str, patience_s: float) -> Unavailable:
    holder = gate_holder(path)
    who = f"{holder.command} (pid {holder.pid})" if holder else "another process"
    return Unavailable(
        f"the database is held by {who}; waited {patience_s:g} s for it",
        hint="try again; `sched status` names a holder that keeps it",
        code="busy",
    )


def gate_holder(path: str) -> GateHolder | None:
    """Who holds the gate right now. None: nobody does."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        pid, since_at, command = (
            os.pread(fd, 200, 0).decode(errors="replace").split("\n")[0].split(maxsplit=2)
        )
        return GateHolder(pid=int(pid), command=command, since_at=int(since_at))
    else:
        return None
    finally:
        os.close(fd)
