"""The supervisor: start order, stop order, signals.

Start: lock → open and migrate → recover → loops → running. Stop: loops (joined, no deadline) → agents
(drained, then ended and requeued, or left running for the next supervisor) → database. Shutdown never marks
queued work failed, and nothing is logged after `Graceful shutdown complete` (S3).
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Mapping
from types import FrameType

from kandev_sched.domain.agents import ExecutorKind
from kandev_sched.domain.host import Host
from kandev_sched.domain.runs import Run
from kandev_sched.domain.settings import OnStop, Settings
from kandev_sched.domain.supervision import SupervisorPhase
from kandev_sched.flow.arming import rearm
from kandev_sched.flow.attend import attend_all
from kandev_sched.flow.pipeline import Pipeline
from kandev_sched.launch.executor import AttemptRef, ComputeExecutor
from kandev_sched.store import runs, supervision, triggers
from kandev_sched.store.db import Reader, wake_path
from kandev_sched.store.shared import SharedDatabase
from kandev_sched.store.wake import WakeListener
from kandev_sched.supervisor.drainer import Drainer
from kandev_sched.supervisor.listener import Listener
from kandev_sched.supervisor.loop import Loop
from kandev_sched.supervisor.sweeper import Sweeper, mend_clock
from kandev_sched.supervisor.ticker import Ticker
from kandev_sched.supervisor.watcher import Watcher

log = logging.getLogger("kandev_sched.supervisor")
LOOK_EVERY_S = 0.2


class Supervisor:
    """Owns the loops of one database. `open_db` is given what to call when there is work for them."""

    def __init__(
        self,
        *,
        open_db: Callable[[Callable[[], None]], SharedDatabase],
        executors: Mapping[ExecutorKind, ComputeExecutor],
        settings: Settings,
        host: Host,
    ) -> None:
        self._settings = settings
        self._host = host
        self._stop_asked = threading.Event()
        self._hurry_asked = threading.Event()
        self._has_died = False
        self._has_stopped = False
        self._hears_signals = False
        self._signals: list[int] = []
        self.db = open_db(self._on_work)
        self.pipeline = Pipeline(self.db, executors=executors, settings=settings)
        self._fifo = WakeListener(wake_path(self.db.path))
        self._loops = self._make_loops()

    def _make_loops(self) -> dict[str, Loop]:
        window_s = self._settings.coalesce_window_s
        sweeper = Sweeper(self.db, window_s=window_s, loops=lambda: list(self._loops.values()))
        listener = Listener(self.db, self._fifo, on_news=self._on_news)
        ticks: dict[str, Callable[[], float]] = {
            "drainer": Drainer(self.pipeline, on_launch=self._on_launch).tick,
            "ticker": Ticker(self.db, window_s=window_s).tick,
            "sweeper": sweeper.tick,
            "watcher": Watcher(self.pipeline).tick,
            "listener": listener.tick,
        }
        interrupts = {"listener": self._fifo.poke}
        return {
            name: Loop(name, tick, interrupt=interrupts.get(name), on_death=self._on_death)
            for name, tick in ticks.items()
        }

    def _on_work(self) -> None:
        if hasattr(self, "_loops"):  # the writer may commit before the loops exist
            self._loops["drainer"].wake()

    def _on_launch(self) -> None:
        self._loops["watcher"].wake()

    def _on_news(self) -> None:
        for name in ("drainer", "ticker", "watcher"):
            self._loops[name].wake()

    def _on_death(self) -> None:
        self._has_died = True
        self._stop_asked.set()

    # ---- life -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Recover what the former supervisor left, then start the loops."""
        self._set_phase(SupervisorPhase.RECOVERING)
        self.db.write(mend_clock)
        left = attend_all(self.pipeline, is_restart=True)
        if left:
            log.info("attended to %d runs that the former supervisor left", left)
        self.db.write(rearm)
        for loop in self._loops.values():
            loop.start()
        self._set_phase(SupervisorPhase.RUNNING)
        log.info("Serving %s, pid %d", self.db.path, os.getpid())

    def run(self, *, until_idle: bool = False) -> int:
        """Start, serve until a signal (or until idle), stop; the exit status."""
        self._install_signals()
        try:
            self.start()
            self._wait(until_idle=until_idle)
        finally:
            self.stop()
        return 1 if self._has_died else 0

    def ask_stop(self) -> None:
        """Stop soon; asked twice, do not wait for the agents."""
        if self._stop_asked.is_set():
            self._hurry_asked.set()
        self._stop_asked.set()

    def stop(self) -> None:
        """Loops → agents → database. A duplicate stop is a no-op (S3)."""
        if self._has_stopped:
            return
        self._has_stopped = True
        log.info("Stopping")
        try:
            self._set_phase(SupervisorPhase.STOPPING)
            self._stop_loops_and_agents()
            self._set_phase(SupervisorPhase.STOPPED)
        finally:
            self._stop_loops()
            self._fifo.close()
            self.db.close()
        self._ignore_signals()
        log.info("Graceful shutdown complete")

    def _stop_loops_and_agents(self) -> None:
        self._stop_loops()
        if self._settings.on_stop is OnStop.DRAIN:
            self._drain()

    def _stop_loops(self) -> None:
        for loop in self._loops.values():
            loop.stop()

    def _set_phase(self, phase: SupervisorPhase) -> None:
        pid = None if phase is SupervisorPhase.STOPPED else os.getpid()
        self.db.write(lambda tx: supervision.set_phase(tx, phase, pid=pid))

    def _install_signals(self) -> None:
        def on_signal(number: int, _frame: FrameType | None) -> None:
            self._signals.append(number)  # takes no lock: it may interrupt whoever holds one

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, on_signal)
        # A supervisor that is stopped while it holds the gate would stop every other writer.
        signal.signal(signal.SIGTSTP, signal.SIG_IGN)
        self._hears_signals = True

    def _ignore_signals(self) -> None:
        """All is done: a late signal shall neither log after the end nor change the exit status."""
        if self._hears_signals:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)

    def _take_signals(self) -> None:
        """Act on the signals that came since the last look."""
        while self._signals:
            log.info("%s received", signal.Signals(self._signals.pop(0)).name)
            self.ask_stop()

    def _wait(self, *, until_idle: bool) -> None:
        """Looks for signals often: one that comes just before the main thread sleeps does not wake it."""
        while not self._stop_asked.wait(LOOK_EVERY_S):
            self._take_signals()
            if until_idle and not self.db.read(lambda reader: is_busy(reader, self._host.now())):
                queued_count, _ = self.db.read(runs.counts)
                log.info("Nothing is due, queued or running; %d runs are held", queued_count)
                return

    # ---- agents -----------------------------------------------------------------------------------------

    def _drain(self) -> None:
        """Let the agents end by themselves for `drain_s`, then end them; their runs go back to the queue."""
        deadline = self._host.monotonic() + self._settings.drain_s
        if self._claimed():
            log.info("Waiting up to %d s for %d agents", self._settings.drain_s, len(self._claimed()))
        while self._claimed() and self._host.monotonic() < deadline and not self._hurry_asked.is_set():
            self._attend_once()
        while claimed := self._claimed():
            for run in claimed:
                ref = AttemptRef(run_id=run.id, attempt=run.attempt)
                self.pipeline.executor_of(run).cancel(ref)
            self._attend_once()

    def _claimed(self) -> list[Run]:
        return self.db.read(runs.claimed)

    def _attend_once(self) -> None:
        self._fifo.wait(LOOK_EVERY_S)
        self._take_signals()
        attend_all(self.pipeline, is_restart=False)


def is_busy(reader: Reader, now: int) -> bool:
    """Whether anything is due, queued or running that no person holds; what is timed counts as queued."""
    return runs.has_work(reader) or bool(triggers.due(reader, now=now, limit=1))
