"""RunDir: the files of one attempt, `<root>/<run id>/<attempt>/`, and the lock that tells who lives.

Rules kept here: state is read, never guessed. A file appears whole or not at all. The lock is *born held*
(made under another name, locked, then linked into place), so no reader ever sees a lock that its shim has
not taken yet; and since a name can be linked only once, an attempt is started at most once, for ever.
Readers probe the lock and never take it. Stdlib only: the shim imports this without site-packages.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SPEC = "spec.json"  # what to start, written by the executor
PROMPT = "prompt.md"  # the agent's stdin
WAKEUPS = "wakeups.json"  # why it was woken, for the agent to read
LOCK = "lock"  # held by the shim for its whole life
SHIM = "shim.json"  # who the shim and the agent are: pid, start time, boot
STDOUT = "stdout"
STDERR = "stderr"
SHIM_ERR = "shim.err"  # what went wrong in the shim itself
AGENT_RESULT = "agent_result.json"  # SCHED_RESULT_FILE: what the agent reports
RESULT = "result.json"  # how the attempt ended, written once
CANCEL = "cancel"  # its presence asks the shim to end the agent
CONTROL = "control"  # a FIFO that wakes the shim
EVENTS = "events.jsonl"  # what the shim did, line by line

ABSENT, FREE, HELD = "absent", "free", "held"

_FLOCK = "hhqqi4x"  # struct flock of 64-bit Linux: type, whence, start, length, pid (0 for OFD locks)
_NEW_FILE = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC


def _whole_file(kind: int) -> bytes:
    return struct.pack(_FLOCK, kind, os.SEEK_SET, 0, 0, 0)


def _take(fd: int) -> bool:
    """Try to lock; the lock belongs to the open file, so closing other descriptors never drops it."""
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _whole_file(fcntl.F_WRLCK))
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def encode(value: dict[str, Any]) -> bytes:
    """JSON in ASCII, so that even text that is not Unicode (odd file names) passes unchanged."""
    return json.dumps(value).encode("ascii")


def fsync_directory(path: str) -> None:
    """Make the names in a directory survive a power cut."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class Reserved:
    """A file whose room on the disk is already taken: writing it later cannot meet a full disk."""

    __slots__ = ("_fd", "_name", "_run_dir", "_temporary")

    def __init__(self, run_dir: RunDir, name: str, size: int) -> None:
        self._run_dir, self._name = run_dir, name
        self._temporary = run_dir.temporary(name)
        self._fd = os.open(self._temporary, _NEW_FILE, 0o600)
        try:
            if size:
                os.posix_fallocate(self._fd, 0, size)
        except OSError:
            self.discard()  # do not sit on the last bytes of a full disk
            raise

    def commit(self, data: bytes, *, durable: bool = True) -> None:
        """Write the content and give the file its name, in one step for every reader."""
        try:
            _write_all(self._fd, data)
            os.ftruncate(self._fd, len(data))
            if durable:
                os.fsync(self._fd)
            os.rename(self._temporary, self._run_dir.file(self._name))
        except OSError:
            self.discard()
            raise
        os.close(self._fd)
        if durable:
            fsync_directory(self._run_dir.path)

    def discard(self) -> None:
        """Leave no rubbish."""
        os.close(self._fd)
        os.unlink(self._temporary)


class RunDir:
    """The directory of one attempt (mode 0700, its files 0600)."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    def file(self, name: str) -> str:
        return f"{self.path}/{name}"

    def temporary(self, name: str) -> str:
        return self.file(f".{name}.{os.urandom(6).hex()}")

    def create(self) -> None:
        """Make the directory and, private too, the one of its run."""
        os.makedirs(os.path.dirname(os.path.dirname(self.path)), 0o700, exist_ok=True)
        for path in (os.path.dirname(self.path), self.path):
            try:
                os.mkdir(path, 0o700)
            except FileExistsError:
                continue
            fsync_directory(os.path.dirname(path))

    def has(self, name: str) -> bool:
        return os.path.lexists(self.file(name))

    def put(self, name: str, data: bytes, *, durable: bool = True) -> None:
        """Write a file atomically; a failure leaves the old one."""
        Reserved(self, name, 0).commit(data, durable=durable)

    def put_json(self, name: str, value: dict[str, Any], *, durable: bool = True) -> None:
        self.put(name, encode(value), durable=durable)

    def get_json(self, name: str) -> dict[str, Any] | None:
        """The object that a file of ours holds, or None when there is no such file or no such object."""
        try:
            with open(self.file(name), "rb") as file:
                value = json.loads(file.read())
        except (FileNotFoundError, NotADirectoryError, ValueError, RecursionError):
            return None  # the agent can write here too, so rubbish is an answer and not a surprise
        return value if isinstance(value, dict) else None

    def append_event(self, event: dict[str, Any]) -> None:
        """One line, written with one call, so lines never mix."""
        fd = os.open(self.file(EVENTS), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, encode(event) + b"\n")
        finally:
            os.close(fd)

    # --- the lock -------------------------------------------------------------------------------

    def be_born(self) -> int | None:
        """Create the lock, already held; None when this attempt was born before (alive or dead)."""
        temporary = self.temporary(LOCK)
        fd = os.open(temporary, _NEW_FILE, 0o600)
        try:
            _take(fd)
            os.link(temporary, self.file(LOCK))
        except FileExistsError:
            os.close(fd)
            return None
        finally:
            os.unlink(temporary)
        return fd

    def seize(self) -> int | None:
        """Hold the lock instead of a shim that never came or is dead; None while a shim lives."""
        fd = self.be_born()
        if fd is not None:
            return fd
        fd = os.open(self.file(LOCK), os.O_RDWR | os.O_CLOEXEC)
        if _take(fd):
            return fd
        os.close(fd)
        return None

    def lock_state(self) -> str:
        """ABSENT, FREE or HELD: asked of the kernel, without touching the lock."""
        try:
            fd = os.open(self.file(LOCK), os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return ABSENT
        try:
            answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _whole_file(fcntl.F_WRLCK))
        finally:
            os.close(fd)
        return FREE if struct.unpack(_FLOCK, answer)[0] == fcntl.F_UNLCK else HELD

    # --- the control FIFO -----------------------------------------------------------------------

    def open_control(self) -> int:
        """The shim's end. Opened for reading and writing, so that it never sees end-of-file."""
        os.mkfifo(self.file(CONTROL), 0o600)
        return os.open(self.file(CONTROL), os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


def poke(path: str) -> None:
    """Put one byte in a FIFO. A reader that is gone or has bytes waiting needs none: errors mean nothing."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return  # ENOENT: no FIFO; ENXIO: nobody reads
    try:
        if stat.S_ISFIFO(os.fstat(fd).st_mode):
            os.write(fd, b"\n")
    except OSError:
        pass  # EAGAIN: it is full, so its reader wakes anyway; EPIPE: its reader has just gone
    finally:
        os.close(fd)


def open_regular(path: str) -> int | None:
    """A descriptor of a plain file that someone else wrote; None for a link, FIFO, device or nothing."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None  # absent, a symbolic link (ELOOP), a socket (ENXIO), unreadable: not a file to read
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None


def sync_file(path: str) -> None:
    """Bring a plain file's content to the disk, if there is one."""
    fd = open_regular(path)
    if fd is not None:
        try:
            os.fdatasync(fd)
        finally:
            os.close(fd)
