"""Attend to claimed runs: attach, settle, un-claim the unborn, fence the lost.

The same function serves the watcher of a living supervisor and the recovery of its successor: state is
read from the attempt's own files, never guessed.
"""

from __future__ import annotations

import logging

from kandev_sched.domain.runs import Run, RunStatus
from kandev_sched.flow.pipeline import Pipeline
from kandev_sched.flow.settle import Outcome, OutcomeKind
from kandev_sched.launch.executor import AttemptRef, AttemptState, Ending, Observation
from kandev_sched.policy.recovery import Next, next_for
from kandev_sched.store import runs

log = logging.getLogger("kandev_sched.attend")


def attend(pipeline: Pipeline, run: Run, *, is_restart: bool) -> None:
    """Do what one claimed run's attempt calls for."""
    ref = AttemptRef(run_id=run.id, attempt=run.attempt)
    seen = pipeline.executor_of(run).poll(ref)
    launched_ago_ms = None if run.started_at is None else pipeline.db.host.now() - run.started_at
    match next_for(state=seen.state, is_restart=is_restart, launched_ago_ms=launched_ago_ms):
        case Next.WAIT:
            _pass_on_cancel(pipeline, run, ref)
        case Next.ATTACH:
            _attach(pipeline, run)
            _pass_on_cancel(pipeline, run, ref)
        case Next.SETTLE:
            _attach(pipeline, run)
            _settle(pipeline, run, seen)
        case Next.FENCE:
            _fence(pipeline, run, ref)


def attend_all(pipeline: Pipeline, *, is_restart: bool) -> int:
    """Attend to every claimed run that the drainer has not in hand; how many. One bad run stops no other."""
    claimed = [run for run in pipeline.db.read(runs.claimed) if not pipeline.has_in_hand(run.id)]
    for listed in claimed:
        try:
            run = _as_it_stands(pipeline, listed)
            if run is not None:
                attend(pipeline, run, is_restart=is_restart)
        except Exception:
            log.exception("run %s could not be attended to; trying again", listed.id)
    return len(claimed)


def _as_it_stands(pipeline: Pipeline, listed: Run) -> Run | None:
    """Read again, now that nobody has it in hand: between the list and that look it may have been launched,
    and a launch that was not seen would look like one that never was.
    """
    run = pipeline.db.read(lambda reader: runs.by_id(reader, listed.id))
    is_same = run is not None and run.status is RunStatus.CLAIMED and run.attempt == listed.attempt
    return run if is_same else None


def _attach(pipeline: Pipeline, run: Run) -> None:
    """The launch of a supervisor that died before it could note it."""
    if run.started_at is None:
        pipeline.note_launch(run)


def _pass_on_cancel(pipeline: Pipeline, run: Run, ref: AttemptRef) -> None:
    if run.cancel_requested_at is not None:
        pipeline.executor_of(run).cancel(ref)


def _settle(pipeline: Pipeline, run: Run, seen: Observation) -> None:
    assert seen.result is not None
    pipeline.finish_with(run, seen.result)


def _fence(pipeline: Pipeline, run: Run, ref: AttemptRef) -> None:
    """First make sure that a late shim cannot start, then end what is left, then requeue."""
    executor = pipeline.executor_of(run)
    was_born = executor.poll(ref).state is AttemptState.LOST
    fenced = executor.fence(ref)
    if fenced.state is AttemptState.RUNNING:
        return  # the shim took its lock in this moment: it lives
    if fenced.result is not None and fenced.result.ending is not Ending.REVOKED:
        _attach(pipeline, run)  # it was born and ended in this moment
        _settle(pipeline, run, fenced)
        return
    if not was_born:
        pipeline.finish(run, Outcome(kind=OutcomeKind.UNCLAIMED, reason="its agent was never started"))
        return
    count = executor.end_strays(ref)
    error = f"the agent's shim is gone without a result; {count} of its processes were ended"
    pipeline.finish(run, Outcome(kind=OutcomeKind.LOST, error=error))
