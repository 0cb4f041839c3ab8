"""The listener: wakes the loops when another process has written (or a shim has ended)."""

from __future__ import annotations

from collections.abc import Callable

from kandev_sched.store.shared import SharedDatabase
from kandev_sched.store.wake import WakeListener

POLL_EVERY_S = 1.0


class Listener:
    """`tick` is the body of the listener's loop: it waits inside, for a byte or for a second."""

    def __init__(self, db: SharedDatabase, fifo: WakeListener, *, on_news: Callable[[], None]) -> None:
        self._db = db
        self._fifo = fifo
        self._on_news = on_news
        self._version: int | None = None

    def tick(self) -> float:
        """Wait for news, pass it on. A lost byte is found by the data version within a second."""
        poked = self._fifo.wait(POLL_EVERY_S)
        version = self._db.data_version()
        if poked or version != self._version:
            self._version = version
            self._on_news()
        return 0.0
