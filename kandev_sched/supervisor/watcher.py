"""The watcher: sees agents end, and passes on what people ask of them.

Woken by each shim's byte in the wake FIFO when its result is durable; it also looks every second while
agents work, so that a lost byte costs a second.
"""

from __future__ import annotations

from kandev_sched.flow.attend import attend_all
from kandev_sched.flow.pipeline import Pipeline
from kandev_sched.supervisor.loop import LONGEST_PAUSE_S

LOOK_EVERY_S = 1.0


class Watcher:
    """`tick` is the body of the watcher's loop."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    def tick(self) -> float:
        """Attend to every claimed run."""
        return LOOK_EVERY_S if attend_all(self._pipeline, is_restart=False) else LONGEST_PAUSE_S
