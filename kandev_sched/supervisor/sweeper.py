"""The sweeper: the safety pass for what no signal announces: stranded requests, unarmed triggers, a clock
that stepped back, a log that grew, and the row that says the supervisor lives.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from kandev_sched.domain.instant import SECOND_MS, rfc3339
from kandev_sched.flow.arming import rearm, rearm_after_step_back
from kandev_sched.flow.sweep import adopt_stranded
from kandev_sched.store import activity, runs, supervision
from kandev_sched.store.db import Tx
from kandev_sched.store.shared import SharedDatabase
from kandev_sched.supervisor.loop import Loop

log = logging.getLogger("kandev_sched.sweeper")
SWEEP_EVERY_S = 30.0
STEP_BACK_TOLERANCE_MS = 2 * SECOND_MS


class Sweeper:
    """`tick` is the body of the sweeper's loop."""

    def __init__(self, db: SharedDatabase, *, window_s: int, loops: Callable[[], Sequence[Loop]]) -> None:
        self._db = db
        self._window_s = window_s
        self._loops = loops

    def tick(self) -> float:
        """One safety pass, in one transaction; then the checkpoint."""
        self._db.write(self._pass)
        self._db.checkpoint()
        return SWEEP_EVERY_S

    def _pass(self, tx: Tx) -> None:
        mend_clock(tx)
        adopt_stranded(tx, window_s=self._window_s)
        for trigger_id in rearm(tx):
            log.warning("trigger %s had no next slot; it was recomputed", trigger_id)
        self._note_loops(tx)

    def _note_loops(self, tx: Tx) -> None:
        for loop in self._loops():
            supervision.set_loop(tx, name=loop.name, at=tx.now, count=loop.tick_count, error=loop.last_error)


def mend_clock(tx: Tx) -> None:
    """When now falls below the highest instant ever seen, what waits is shifted by the step (§7)."""
    row = supervision.state(tx)
    step_ms = row.seen_at - tx.now if row else 0
    if step_ms > STEP_BACK_TOLERANCE_MS:
        runs.shift_pending(tx, step_ms)
        rearm_after_step_back(tx)
        step = f"{step_ms / SECOND_MS:g} s, to {rfc3339(tx.now)}"
        sentence = f"the clock stepped back by {step}; what waits was shifted"
        log.warning("%s", sentence)
        activity.record(tx, "clock_stepped_back", sentence, workspace_id=None)
    supervision.set_seen(tx)
