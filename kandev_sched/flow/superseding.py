"""Superseding: `cancel_active` ends what an earlier fire of the same fingerprint started, then starts anew.

Only the routine's own requests end; others that share the run follow up (behaviour.md §2).
"""

from __future__ import annotations

from kandev_sched.domain.routines import RoutineRunStatus
from kandev_sched.domain.runs import RunStatus
from kandev_sched.domain.tasks import TaskState
from kandev_sched.flow.settle import SUPERSEDED, cancel_if_empty, cancel_request
from kandev_sched.store import routines, runs, tasks, wakeups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.domain.routines import RoutineRun
    from kandev_sched.store.db import Tx


def supersede(tx: Tx, active: RoutineRun) -> None:
    """End the active occurrence's task or requests, and the runs that serve nothing else."""
    if active.linked_task_id is not None:
        tasks.set_state(tx, active.linked_task_id, TaskState.CANCELLED)
        routines.end_runs_of_task(tx, active.linked_task_id, RoutineRunStatus.CANCELLED)
    touched = set()
    for request in wakeups.open_of_routine(tx, active.routine_id):
        occurrence = routines.run_by_id(tx, request.routine_run_id) if request.routine_run_id else None
        if occurrence is not None and occurrence.dispatch_fingerprint == active.dispatch_fingerprint:
            cancel_request(tx, request, reason=SUPERSEDED)
            touched.add(request.run_id)
    for run_id in sorted(filter(None, touched)):
        _end_run(tx, run_id)


def _end_run(tx: Tx, run_id: str) -> None:
    run = runs.by_id(tx, run_id)
    if run is not None and run.status is RunStatus.CLAIMED:
        runs.ask_cancel(tx, run.id, reason=SUPERSEDED)
        tx.wake_supervisor()
    cancel_if_empty(tx, run_id, reason=SUPERSEDED)
