"""Pipeline: the twelve steps of S0 in order, on one screen.

Few short transactions, none open while an agent runs: claim · admit (2 to 6) · prepare (7 to 10) ·
launched (11) · settle (12). The agent works under its shim, so step 12 comes when the watcher sees its
result, perhaps in another supervisor than the one that launched it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TypeVar

from kandev_sched.domain.agents import ExecutorKind
from kandev_sched.domain.runs import Run, StepName
from kandev_sched.domain.settings import Settings
from kandev_sched.flow import launching, steps
from kandev_sched.flow.settle import Outcome, OutcomeKind, settle
from kandev_sched.flow.steps import Stop
from kandev_sched.flow.trace import Trace
from kandev_sched.flow.verdict import outcome_of
from kandev_sched.launch.executor import AttemptRef, AttemptResult, ComputeExecutor, Ending, LaunchSpec
from kandev_sched.store import wakeups
from kandev_sched.store.db import Database, Tx

log = logging.getLogger("kandev_sched.pipeline")
T = TypeVar("T")


class Pipeline:
    """Takes runs from the queue to their agents, and from their agents to their endings."""

    def __init__(
        self, db: Database, *, executors: Mapping[ExecutorKind, ComputeExecutor], settings: Settings
    ) -> None:
        self.db = db
        self.executors = executors
        self.settings = settings
        self._in_hand: set[str] = set()

    def process(self) -> Run | None:
        """Steps 1 to 11 for the next run that can start; None when there is none."""
        trace = Trace(self.db.host)
        run = self._claim(trace)  # 1
        if run is None:
            return None
        try:
            self._in_transaction(run, trace, lambda tx: self._admit(tx, run, trace))  # 2 to 6
            spec = self._in_transaction(run, trace, lambda tx: self._prepare(tx, run, trace))  # 7 to 10
            self._launch(run, spec, trace)  # 11
        except Stop as stop:
            self.finish(run, stop.outcome, trace)  # 12, early
        except Exception as error:  # a bug, or a disk that is full: the run must not stay claimed
            log.exception("run %s could not be started", run.id)
            self._fail_unless_launched(run, error, trace)
        finally:
            self._in_hand.discard(run.id)
        return run

    def _claim(self, trace: Trace) -> Run | None:
        def claim(tx: Tx) -> Run | None:
            trace.rewind()
            with trace.step(StepName.CLAIM):
                run = steps.claim(tx, max_sessions=self.settings.max_sessions)
            if run is not None:
                self._in_hand.add(run.id)
                trace.write(tx, run)
            return run

        try:
            run = self.db.write(claim)
        except BaseException:
            self._in_hand.clear()  # perhaps it counts all the same: then the watcher attends to it
            raise
        trace.mark_durable()
        return run

    def _admit(self, tx: Tx, run: Run, trace: Trace) -> None:
        with trace.step(StepName.GUARD):
            agent = steps.guard_agent(tx, run)
        with trace.step(StepName.STALENESS) as line:
            requests, reasons = steps.drop_stale(tx, run)
            line.note("ok", f"{len(reasons)} stale: {', '.join(reasons)}" if reasons else None)
        with trace.step(StepName.IDLE_SKIP) as line:
            line.note("ok", steps.skip_idle(tx, agent, requests))
        with trace.step(StepName.CHECKOUT) as line:
            task = steps.confirm_checkout(tx, run)
            line.note("ok", task.id if task else "taskless")
        with trace.step(StepName.BUDGET) as line:
            line.note("ok", steps.check_budget(tx, run))

    def _prepare(self, tx: Tx, run: Run, trace: Trace) -> LaunchSpec:
        agent, task = steps.the_agent(tx, run), steps.confirm_checkout(tx, run)
        with trace.step(StepName.CONTEXT) as line:
            context = steps.build_context(tx, run, agent, task)
            line.note("ok", f"{len(context.requests)} wakeups, {len(context.prompt)} characters")
        with trace.step(StepName.EXECUTOR) as line:
            executor = steps.resolve_executor(tx, run, agent, task)
            line.note("ok", executor.name if executor else "this machine")
        with trace.step(StepName.EXECUTION_AGENT) as line:
            profile = steps.resolve_profile(tx, run, agent, context.requests)
            line.note("ok", profile.name)
        with trace.step(StepName.SESSION) as line:
            session = steps.create_session(tx, run)
            line.note("ok", session.id)
        launching.note_resolution(tx, run, executor=executor, profile=profile, session=session)
        return launching.spec_of(
            run,
            agent=agent,
            profile=profile,
            context=context,
            workspace=steps.the_workspace(tx, run),
            db_path=self.db.path,
            settings=self.settings,
        )

    def _launch(self, run: Run, spec: LaunchSpec, trace: Trace) -> None:
        with trace.step(StepName.LAUNCH) as line:
            self.db.read(lambda reader: launching.refuse_cancelled(reader, run))
            self.executor_of(run).submit(spec)
            line.note("ok", spec.argv[0])
        self._in_transaction(run, trace, lambda tx: launching.mark_launched(tx, run), rewinds=False)

    def note_launch(self, run: Run) -> None:
        """Step 11, found done: the attempt runs, but its launch was never noted."""
        trace = Trace(self.db.host)
        with trace.step(StepName.LAUNCH) as line:
            line.note("ok", "found running")
        self._in_transaction(run, trace, lambda tx: launching.mark_launched(tx, run), rewinds=False)

    def _fail_unless_launched(self, run: Run, error: Exception, trace: Trace) -> None:
        """Settle as a failure, unless the agent was started all the same: then the watcher attends to it."""
        seen = self.executor_of(run).fence(AttemptRef(run_id=run.id, attempt=run.attempt))
        if seen.result is None or seen.result.ending is not Ending.REVOKED:
            return
        open_requests = self.db.read(lambda reader: wakeups.open_of_run(reader, run.id))
        judged = frozenset(request.id for request in open_requests)
        outcome = Outcome(kind=OutcomeKind.FAILED, error=f"internal error: {error}", judged=judged)
        self.finish(run, outcome, trace)

    def finish(self, run: Run, outcome: Outcome, trace: Trace | None = None) -> None:
        """Step 12: settle the attempt, and write what is left of its trace."""
        lines = trace or Trace(self.db.host)

        def settle_it(tx: Tx) -> Run | None:
            lines.forget(StepName.FINISH)
            with lines.step(StepName.FINISH) as line:
                settled = settle(tx, run, outcome)
                line.note(outcome.kind, outcome.reason or outcome.error)
            if settled is not None:
                lines.write(tx, run)
            return settled

        if self.db.write(settle_it) is not None and outcome.kind is OutcomeKind.IDLE:
            self._log_idle_skip(run)

    def finish_with(self, run: Run, result: AttemptResult) -> None:
        """Step 12 for an attempt that left a result."""
        self.finish(run, outcome_of(result, cancel_reason=run.cancel_reason))

    def has_in_hand(self, run_id: str) -> bool:
        """Whether a run is between its claim and its launch in this very process."""
        return run_id in self._in_hand

    def executor_of(self, _run: Run) -> ComputeExecutor:
        """Where the run's attempt is."""
        return self.executors[ExecutorKind.LOCAL]

    def _log_idle_skip(self, run: Run) -> None:
        """S0 Idle wakeup skip: skipped wakeups are not silently discarded."""
        agent = self.db.read(lambda reader: steps.the_agent(reader, run))
        for request in self.db.read(lambda reader: wakeups.of_run(reader, run.id)):
            log.info(
                "wakeup skipped wakeup_id=%s agent_instance_id=%s agent_name=%s reason=no_actionable_tasks",
                request.id,
                agent.id,
                agent.name,
            )

    def _in_transaction(self, run: Run, trace: Trace, work: Callable[[Tx], T], *, rewinds: bool = True) -> T:
        def traced(tx: Tx) -> T:
            if rewinds:
                trace.rewind()
            result = work(tx)
            trace.write(tx, run)
            return result

        result = self.db.write(traced)
        trace.mark_durable()
        return result
