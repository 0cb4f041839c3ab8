"""Verdict: what an attempt left → Outcome. Success is what the agent reported, not exit status alone."""

from __future__ import annotations

from kandev_sched.flow.settle import Outcome, OutcomeKind
from kandev_sched.launch.executor import AttemptResult, Ending

TAIL_LINES = 5
FAILED_WORDS = frozenset({"failed", "failure", "error"})


def outcome_of(result: AttemptResult, *, cancel_reason: str | None) -> Outcome:
    """The outcome of an attempt that has a result. `cancel_reason`: why somebody asked for the run's end.

    An attempt that was cancelled although nobody asked for its run's end was ended by a stopping supervisor
    (or the machine's shutdown): it goes back to the queue, with `retry_count` unchanged.
    """
    match result.ending:
        case Ending.EXITED:
            return _of_exit(result)
        case Ending.CANCELLED:
            return _of_cancel(result, cancel_reason)
        case Ending.REVOKED:
            return _ended(result, OutcomeKind.UNCLAIMED, "revoked before it started")
        case Ending.TIMED_OUT:
            return _ended(result, OutcomeKind.FAILED, "ran longer than max_run_s allows")
        case Ending.IDLE_TIMED_OUT:
            return _ended(result, OutcomeKind.FAILED, "wrote nothing for as long as idle_output_s allows")
        case Ending.LAUNCH_FAILED:
            # A command or directory that does not exist: waiting cannot mend it.
            return _ended(result, OutcomeKind.FAILED, "could not be started").replace(is_permanent=True)


def _ended(result: AttemptResult, kind: OutcomeKind, why: str) -> Outcome:
    return Outcome(
        kind=kind,
        reason=why if kind in (OutcomeKind.CANCELLED, OutcomeKind.UNCLAIMED) else None,
        error=result.error or why if kind is OutcomeKind.FAILED else None,
        exit_code=result.exit_code,
        result=result.structured,
        cost_cents=_cost(result),
    )


def _of_cancel(result: AttemptResult, reason: str | None) -> Outcome:
    if reason is None:
        return _ended(result, OutcomeKind.UNCLAIMED, "its supervisor stopped")
    return _ended(result, OutcomeKind.CANCELLED, reason)


def _of_exit(result: AttemptResult) -> Outcome:
    reported = _reported_error(result.structured or {})
    if result.exit_code == 0 and reported is None:
        return _ended(result, OutcomeKind.SUCCEEDED, "")
    return _ended(result, OutcomeKind.FAILED, reported or _exit_sentence(result))


def _reported_error(structured: dict[str, object]) -> str | None:
    """The error that the agent itself reports in its JSON result, if it reports one."""
    status = structured.get("status")
    says_failed = structured.get("is_error") is True or (
        isinstance(status, str) and status.lower() in FAILED_WORDS
    )
    error = structured.get("error")
    if says_failed or error:
        return str(error or structured.get("summary") or "the agent reported a failure")
    return None


def _exit_sentence(result: AttemptResult) -> str:
    how = f"ended by signal {result.signal}" if result.signal else f"exit status {result.exit_code}"
    tail = " | ".join(line.strip() for line in result.output_tail.splitlines()[-TAIL_LINES:] if line.strip())
    return f"{how}: {tail}" if tail else how


def _cost(result: AttemptResult) -> int | None:
    cost = (result.structured or {}).get("cost_cents")
    return cost if type(cost) is int and cost >= 0 else None
