"""Output: what the shim does with one stream of the agent.

Rule kept here: an agent is never blocked by its own output. It is read to the end, counted, and kept up to
the cap; beyond the cap, or on a full disk, only the end is remembered. Stdlib only: the shim imports this.
"""

from __future__ import annotations

import os

CHUNK = 65536
LINE_BYTES = 65536  # of a stream that is not kept whole, to find its last line


class Tail:
    """The last bytes of a stream."""

    def __init__(self, size: int) -> None:
        self._size, self._data, self._cut = size, b"", False

    def add(self, chunk: bytes) -> None:
        whole = self._data + chunk
        self._data, self._cut = whole[-self._size :], self._cut or len(whole) > self._size

    def text(self) -> str:
        data = self._data
        if self._cut:  # do not begin within a character
            start = next((i for i, byte in enumerate(data[:4]) if byte & 0xC0 != 0x80), 0)
            data = data[start:]
        return data.decode("utf-8", "replace")

    def last_line(self) -> str | None:
        """The last line that is not blank; None when its beginning is no longer known."""
        _, newline, line = self._data.rstrip().rpartition(b"\n")
        return None if self._cut and not newline else line.decode("utf-8", "replace")


class Output:
    """One stream of the agent: kept in a file up to the cap, counted and drained beyond it."""

    def __init__(self, pipe: int, path: str, cap: int, terminal: Tail) -> None:
        self.pipe: int | None = pipe
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._room, self._terminal, self._line = cap, terminal, Tail(LINE_BYTES)
        self.seen = self.kept = 0
        self.trouble: str | None = None

    def read(self) -> bool:
        """Move one chunk; False when the stream has ended."""
        assert self.pipe is not None
        try:
            chunk = os.read(self.pipe, CHUNK)
        except BlockingIOError:
            return True
        self.seen += len(chunk)
        self._terminal.add(chunk)
        self._line.add(chunk)
        self._keep(chunk[: self._room])
        return bool(chunk)

    def _keep(self, chunk: bytes) -> None:
        while chunk:
            try:
                written = os.write(self._file, chunk)
            except OSError as error:  # a full disk costs the rest of the output, never the run
                self._room, self.trouble = 0, error.strerror
                return
            self.kept, self._room, chunk = self.kept + written, self._room - written, chunk[written:]

    def last_line(self) -> str | None:
        """Only when the file does not have it."""
        return self._line.last_line() if self.kept < self.seen else None

    def close(self) -> None:
        assert self.pipe is not None
        os.close(self.pipe)
        self.pipe = None
