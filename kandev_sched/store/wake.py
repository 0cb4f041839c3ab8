"""Wake-up across processes: a FIFO `<db>.wake`. A writer puts one byte in it after COMMIT.

A lost byte is covered by the supervisor's data_version poll, everything else by its safety pass.
"""

from __future__ import annotations

import os


def poke(path: str) -> bool:
    """Tell the supervisor that there is work. False: nobody listens (or a poke is pending already)."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # no FIFO, or no reader (ENXIO): the next supervisor reads the rows themselves
        return False
    try:
        os.write(fd, b"w")
    except OSError:  # full of pokes, of which one is as good as many; or the reader went away just now
        return False
    finally:
        os.close(fd)
    return True


def is_listened_to(path: str) -> bool:
    """Whether a supervisor has the FIFO open for reading."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError:
        return False
    return True


class WakeListener:
    """The supervisor's end of the FIFO."""

    def __init__(self, path: str) -> None:
        if not os.path.exists(path):
            os.mkfifo(path, 0o600)
        # Open for writing too, so that the FIFO never reports end-of-file between two writers.
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def wait(self, timeout_s: float) -> bool:
        """Whether a poke came within `timeout_s`; all pending pokes are taken at once."""
        import select

        ready, _, _ = select.select([self._fd], [], [], timeout_s)
        if ready:
            os.read(self._fd, 65536)
        return bool(ready)

    def poke(self) -> None:
        """Wake the waiting thread from inside this process."""
        try:
            os.write(self._fd, b"w")
        except BlockingIOError:  # full of pokes already
            return

    def close(self) -> None:
        """Give the file back."""
        os.close(self._fd)
