"""Strays: find and end the processes of one attempt, wherever they went.

Rule kept here: a process of the attempt is one that carries its mark (SCHED_RUN_ID and SCHED_ATTEMPT, both)
in its environment, or descends from one that does; `setsid` and double forks do not help it. A signal goes
through a pidfd after the start time was compared, so a pid that was used again is never hit; and never to
the caller itself. Stdlib only: the shim imports this without site-packages.
"""

from __future__ import annotations

import os
import select
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_WATCHED = 200  # descriptors used at once to wait for ends
_SETTLE_S = 0.01  # longer than an exec takes, during which a process shows no environment


class Process:
    """One line of the process table. Its identity is (pid, start time), within this boot."""

    __slots__ = ("group", "parent", "pid", "session", "starttime")

    def __init__(self, pid: int, parent: int, group: int, session: int, starttime: int) -> None:
        self.pid, self.parent, self.group, self.session = pid, parent, group, session
        self.starttime = starttime

    @property
    def identity(self) -> tuple[int, int]:
        return self.pid, self.starttime


def _read(path: str) -> bytes:
    """A whole /proc file; empty when the process is gone or is not ours to look at."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""  # gone, or another user's
    try:
        parts = [os.read(fd, 65536)]
        while parts[-1]:
            parts.append(os.read(fd, 65536))
        return b"".join(parts)
    except OSError:
        return b""  # gone while we read (ESRCH), or another user's (EACCES)
    finally:
        os.close(fd)


def process(pid: int) -> Process | None:
    """The process of that pid while it lives; a zombie with no thread left is dead."""
    text = _read(f"/proc/{pid}/stat")
    fields = text[text.rfind(b")") + 2 :].split()
    if len(fields) < 20 or (fields[0] in b"ZX" and int(fields[17]) <= 1):
        return None
    return Process(pid, int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


def starttime(pid: int) -> int:
    """Clock ticks from boot to the start of a process that exists, zombie or not; 0 when it does not."""
    text = _read(f"/proc/{pid}/stat")
    fields = text[text.rfind(b")") + 2 :].split()
    return int(fields[19]) if len(fields) >= 20 else 0


def boot_id() -> str:
    return _read("/proc/sys/kernel/random/boot_id").decode().strip()


def _table() -> dict[int, Process]:
    pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
    return {pid: found for pid in pids if (found := process(pid)) is not None}


def _marked(pid: int, marks: tuple[bytes, ...]) -> bool:
    environment = b"\0" + _read(f"/proc/{pid}/environ")
    return all(mark in environment for mark in marks)


def _with_descendants(table: dict[int, Process], seeds: set[int]) -> set[int]:
    """The caller is never entered, so what it started is safe unless it named itself as a seed."""
    me, family, newest = os.getpid(), set(seeds), set(seeds)
    while newest:
        newest = {p.pid for p in table.values() if p.parent in newest and p.pid != me} - family
        family |= newest
    return family


def find(run_id: str, attempt: int, roots: Iterable[Process] = ()) -> list[Process]:
    """The living processes of an attempt: marked ones, all of the roots' trees and sessions; not the caller.

    `roots` are processes that the caller knows to be the attempt's: the shim names itself, which makes even
    descendants that wiped their environment findable, for as a subreaper it inherits all orphans.
    """
    marks = (f"\0SCHED_RUN_ID={run_id}\0".encode(), f"\0SCHED_ATTEMPT={attempt}\0".encode())
    table, me = _table(), os.getpid()
    known = {r.pid for r in roots if r.pid in table and table[r.pid].identity == r.identity}
    seeds = {p.pid for p in table.values() if p.session in known or _marked(p.pid, marks)}
    family = _with_descendants(table, (seeds - {me}) | known)
    return [table[pid] for pid in sorted(family) if pid in table and pid != me]


def open_pidfd(target: Process) -> int | None:
    """A descriptor of exactly this process; None when it is gone, even if its pid is used again."""
    try:
        fd = os.pidfd_open(target.pid)
    except ProcessLookupError:
        return None
    if starttime(target.pid) == target.starttime:
        return fd
    os.close(fd)
    return None


def send(target: Process, signum: int) -> bool:
    """Signal exactly this process; False when it is gone or belongs to another user."""
    fd = open_pidfd(target)
    if fd is None:
        return False
    try:
        signal.pidfd_send_signal(fd, signum)
    except (ProcessLookupError, PermissionError):
        return False  # it ended in between; or it became another user's, and then is not ours to end
    finally:
        os.close(fd)
    return True


def wait_until_gone(targets: Iterable[Process], timeout_s: float) -> bool:
    """Wait for ends by pidfd, without polling; False when the time was up first."""
    fds = [fd for target in list(targets)[:_MOST_WATCHED] if (fd := open_pidfd(target)) is not None]
    deadline = time.monotonic() + timeout_s
    try:
        return all(_ended(fd, deadline) for fd in fds)
    finally:
        for fd in fds:
            os.close(fd)


def _ended(fd: int, deadline: float) -> bool:
    waiting = select.poll()
    waiting.register(fd, select.POLLIN)
    return bool(waiting.poll(max(0.0, deadline - time.monotonic()) * 1000))


def end(run_id: str, attempt: int, roots: Iterable[Process] = (), limit_s: float = 5.0) -> int:
    """SIGKILL until none is found twice in a row, or the time is up; how many were hit."""
    hit: set[tuple[int, int]] = set()
    roots, deadline, clean = tuple(roots), time.monotonic() + limit_s, 0
    while clean < 2 and time.monotonic() < deadline:
        left = find(run_id, attempt, roots)
        clean = 0 if left else clean + 1
        hit.update(p.identity for p in left if send(p, signal.SIGKILL))
        wait_until_gone(left, 1.0)
        time.sleep(_SETTLE_S)
    return len(hit)
