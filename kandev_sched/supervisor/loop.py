"""Loop: start, wake, stop-and-join; the only place that makes loop threads.

A loop holds no logic: it calls one `tick()`, which does the work and returns how long to sleep. It re-checks
the wall clock at least every 30 s. An error of a tick is reported and the loop goes on; only an error that
is no Exception ends the thread, and then the supervisor.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

log = logging.getLogger("kandev_sched.loop")
LONGEST_PAUSE_S = 30.0
PAUSE_AFTER_ERROR_S = 1.0


class Loop:
    """stopped → running → stopping → stopped (S3 Scheduler lifecycle), from any thread."""

    def __init__(
        self,
        name: str,
        tick: Callable[[], float],
        *,
        interrupt: Callable[[], None] | None = None,
        on_death: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self.tick_count = 0
        self.last_error: str | None = None
        self._tick = tick
        self._interrupt = interrupt
        self._on_death = on_death
        self._lifecycle = threading.Lock()
        self._signal = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to tick; a no-op while running."""
        with self._lifecycle:
            if self._thread is not None:
                return
            self._stopping.clear()
            self._thread = threading.Thread(target=self._run, name=self.name)
            self._thread.start()

    def wake(self) -> None:
        """Tick soon, whatever pause was asked for; never lost, also during a tick."""
        self._signal.set()

    def stop(self) -> None:
        """No more ticks; returns when the one in progress has returned, without deadline (S3). Idempotent."""
        with self._lifecycle:
            if self._thread is None:
                return
            self._stopping.set()
            self._signal.set()
            if self._interrupt is not None:
                self._interrupt()
            self._thread.join()
            self._thread = None

    @property
    def is_running(self) -> bool:
        """Whether it ticks."""
        return self._thread is not None

    def _run(self) -> None:
        try:
            while True:
                self._signal.clear()
                if self._stopping.is_set():  # looked at after the clearing, or its signal might be lost
                    return
                pause_s = self._tick_once()
                self._signal.wait(min(max(pause_s, 0.0), LONGEST_PAUSE_S))
        except BaseException:
            log.critical("loop %s died", self.name, exc_info=True)
            if self._on_death is not None:
                self._on_death()

    def _tick_once(self) -> float:
        try:
            pause_s = self._tick()
        except Exception as error:
            self.last_error = f"{type(error).__name__}: {error}"
            log.exception("loop %s: a tick failed; going on", self.name)
            return PAUSE_AFTER_ERROR_S
        finally:
            self.tick_count += 1
        self.last_error = None
        return pause_s
