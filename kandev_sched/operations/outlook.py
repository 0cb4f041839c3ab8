"""How a fire is getting on: followed from its wakeup request, which may move on to a follow-up run."""

from __future__ import annotations

from kandev_sched.domain.record import Record
from kandev_sched.domain.wakeups import Ending
from kandev_sched.operations.runs import explain_run
from kandev_sched.store import routines, runs, tasks, wakeups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.domain.runs import Run
    from kandev_sched.domain.wakeups import WakeupRequest
    from kandev_sched.flow.firing import Fired
    from kandev_sched.operations.inspection import Circumstances
    from kandev_sched.store.db import Reader


class Outlook(Record):
    """Where a request stands, in a sentence. `is_over`: nothing will change it any more."""

    sentence: str
    is_over: bool
    ending: Ending | None = None


def outlook_of(reader: Reader, fired: Fired, at: Circumstances) -> Outlook:
    """How the request that a fire made is getting on."""
    request = wakeups.by_id(reader, fired.wakeup.id) if fired.wakeup is not None else None
    if request is None:
        return Outlook(sentence=fired.routine_run.reason or fired.routine_run.status, is_over=True)
    run = runs.by_id(reader, request.run_id) if request.run_id else None
    if run is None:
        sentence = f"{request.status}: {request.reason or 'no run holds it'}"
    else:
        sentence = _sentence(reader, request, run, at)
    return Outlook(sentence=sentence, is_over=request.finished_at is not None, ending=request.ending)


def _sentence(reader: Reader, request: WakeupRequest, run: Run, at: Circumstances) -> str:
    said = explain_run(reader, run, settings=at.settings, is_supervised=at.is_supervised, now=at.now).sentence
    if request.ending in (Ending.SKIPPED, Ending.CANCELLED) and request.reason:
        said = f"{request.ending}: {request.reason}"
    return f"run {run.id}, {said}"


def fired_now(reader: Reader, fired: Fired) -> Fired:
    """A fire with its rows as they stand now."""
    request = wakeups.by_id(reader, fired.wakeup.id) if fired.wakeup is not None else None
    return fired.replace(
        routine_run=routines.run_by_id(reader, fired.routine_run.id),
        wakeup=request,
        run=runs.by_id(reader, request.run_id) if request is not None and request.run_id else None,
        task=tasks.by_id(reader, fired.task.id) if fired.task is not None else None,
    )
