"""Runs a second through all twelve steps: without an agent, and with a shim that runs `true`."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path

from fakes import BENCH_SETTINGS, NoOpExecutor, supervised
from harness import Bench
from world import SETTINGS, add_agents, shared

from kandev_sched.domain.agents import Agent, ExecutorKind
from kandev_sched.domain.runs import Run
from kandev_sched.flow.attend import attend_all
from kandev_sched.flow.pipeline import Pipeline
from kandev_sched.flow.settle import Outcome
from kandev_sched.launch.executor import ComputeExecutor
from kandev_sched.launch.local import LocalExecutor
from kandev_sched.operations.firing import WakeAgent, wake_agent
from kandev_sched.store.db import Database, Tx

AGENTS = 32
LONGEST_S = 120.0


def run(bench: Bench) -> None:
    """One thread that does every step, then the supervisor's loops, then real processes."""
    rounds = bench.pick(5, 2)
    with bench.scratch() as folder, shared(folder) as db:
        pipeline = Pipeline(db, executors={ExecutorKind.LOCAL: NoOpExecutor()}, settings=BENCH_SETTINGS)
        agents = add_agents(db, AGENTS)
        rates = []
        for _ in range(rounds):
            bench.probe_fsync(folder)
            rates.append(one_thread_rate(pipeline, agents))
        bench.row("no-op executor, steps 1 to 12 in one thread", rates, "runs/s")
    with bench.scratch() as folder:
        supervised_rates(bench, folder, NoOpExecutor(), "no-op executor, supervisor's loops", rounds)
    with bench.scratch() as folder:
        local = LocalExecutor(folder / "runs")
        supervised_rates(bench, folder, local, "LocalExecutor, a shim that runs `true`", rounds)


def wake_all(db: Database, agents: list[Agent]) -> None:
    """One taskless run for each agent, all in one transaction."""

    def wake(tx: Tx) -> None:
        for agent in agents:
            wake_agent(tx, WakeAgent(agent=agent.name, reason="benchmark", user="user"), SETTINGS)

    db.write(wake)


def one_thread_rate(pipeline: Pipeline, agents: list[Agent]) -> float:
    """Claim to launch, then settle, run after run."""
    wake_all(pipeline.db, agents)
    began = time.perf_counter()
    count = 0
    while pipeline.process() is not None:
        count += attend_all(pipeline, is_restart=False)
    assert count == len(agents), "each agent has one run"
    return count / (time.perf_counter() - began)


def supervised_rates(bench: Bench, folder: Path, executor: ComputeExecutor, case: str, rounds: int) -> None:
    """From the commit of the wakeups to the last settlement, as the loops do it."""
    with supervised(folder, executor) as supervisor:
        agents = add_agents(supervisor.db, AGENTS, argv=("/bin/true",))
        ended = Endings(supervisor.pipeline)
        rates, lags = [], []
        for _ in range(rounds):
            ended.expect(len(agents))
            began = time.perf_counter()
            wake_all(supervisor.db, agents)
            took = ended.wait() - began
            rates.append(len(agents) / took)
            lags.extend(ended.took_ms(began))
    bench.row(case, rates, "runs/s")
    bench.row(f"{case}: wakeup to ending", lags, "ms", slowest_ms=round(max(lags), 1), rounds=len(rates),
              slowest_round_s=round(AGENTS / min(rates), 3), median_round_s=round(AGENTS / statistics.median(rates), 3))  # fmt: skip  # noqa: E501


class Endings:
    """Hears of each settlement of a pipeline."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._finish: Callable[..., None] = pipeline.finish
        self._all = threading.Event()
        self._at: list[float] = []
        self._wanted = 0
        pipeline.finish = self._heard  # type: ignore[method-assign]

    def _heard(self, run: Run, outcome: Outcome, trace: object = None) -> None:
        self._finish(run, outcome, trace)
        self._at.append(time.perf_counter())
        if len(self._at) >= self._wanted:
            self._all.set()

    def expect(self, count: int) -> None:
        """So many endings will come."""
        self._at, self._wanted = [], count
        self._all.clear()

    def wait(self) -> float:
        """The instant of the last of them."""
        assert self._all.wait(LONGEST_S), f"{len(self._at)} of {self._wanted} runs ended"
        return self._at[-1]

    def took_ms(self, began: float) -> list[float]:
        """How long after `began` each came."""
        return [(at - began) * 1000 for at in self._at]
