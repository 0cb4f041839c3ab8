"""One supervisor per database: a lock on the file's inode, so that symlinks and hard links cannot fool it.

The lock is taken on SQLite's own file descriptor: opening the file a second time, and closing that, would
drop SQLite's locks (architecture rule 12). The kernel drops it with the process.
"""

from __future__ import annotations

import fcntl
import os

from kandev_sched.domain.errors import Conflict


def lock_inode(path: str) -> None:
    """Lock the database that this process has open at `path`, for as long as it is open. Raises Conflict."""
    for fd in _descriptors_of(path):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict("another supervisor serves this database already", code="supervised") from None
        return
    raise RuntimeError(f"{path} is not open in this process")


def _descriptors_of(path: str) -> list[int]:
    wanted = os.stat(path)
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            seen = os.fstat(int(name))
        except OSError:  # the descriptor with which the folder itself was listed
            continue
        if (seen.st_dev, seen.st_ino) == (wanted.st_dev, wanted.st_ino):
            found.append(int(name))
    return found
