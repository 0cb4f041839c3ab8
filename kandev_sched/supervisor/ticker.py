"""The ticker: fires the slots that are due, then says when the next one is."""

from __future__ import annotations

from kandev_sched.domain.instant import SECOND_MS
from kandev_sched.flow.ticking import fire_due, next_due_at
from kandev_sched.store.db import Database
from kandev_sched.supervisor.loop import LONGEST_PAUSE_S


class Ticker:
    """`tick` is the body of the ticker's loop."""

    def __init__(self, db: Database, *, window_s: int) -> None:
        self._db = db
        self._window_s = window_s

    def tick(self) -> float:
        """Fire what is due; seconds until the next slot, re-checked every 30 s (the clock may jump)."""
        fire_due(self._db, window_s=self._window_s)
        next_at = self._db.read(next_due_at)
        if next_at is None:
            return LONGEST_PAUSE_S
        return (next_at - self._db.host.now()) / SECOND_MS
