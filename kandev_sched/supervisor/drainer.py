"""The drainer: takes runs from the queue as long as one can start, then says when the next one may."""

from __future__ import annotations

from collections.abc import Callable

from kandev_sched.domain.instant import SECOND_MS
from kandev_sched.flow.pipeline import Pipeline
from kandev_sched.store import runs


class Drainer:
    """`tick` is the body of the loop. Woken by the queue signal; the safety pass covers a lost one.

    `on_launch` is called after each run: the watcher leaves a run alone while the drainer has it in hand, so
    it may have passed over the byte of an agent that ended at once.
    """

    def __init__(self, pipeline: Pipeline, *, on_launch: Callable[[], None]) -> None:
        self._pipeline = pipeline
        self._on_launch = on_launch

    def tick(self) -> float:
        """Drain the queue; seconds until time alone may make another run claimable."""
        db = self._pipeline.db
        now = db.host.now()
        while self._pipeline.process() is not None:
            self._on_launch()
            now = db.host.now()
        # `now` is before the claim that found nothing: what became claimable since is not slept over.
        next_at = db.read(lambda reader: runs.next_claim_at(reader, now))
        safety_s = float(self._pipeline.settings.safety_pass_s)
        return safety_s if next_at is None else min((next_at - db.host.now()) / SECOND_MS, safety_s)
