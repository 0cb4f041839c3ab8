"""policy.coalesce: request and in-flight runs → Fresh | Merge | Promote | Late."""

from __future__ import annotations

import pytest
from builders import NOW, a_request, a_run
from hypothesis import given
from hypothesis import strategies as st

from kandev_sched.domain.routines import ConcurrencyPolicy
from kandev_sched.domain.runs import Reason, Run, RunStatus
from kandev_sched.policy.coalesce import (
    FireVerdict,
    Fresh,
    Late,
    Merge,
    Promote,
    decide,
    decide_fire,
    reason_of,
    waits_for_window,
)

COALESCE, SKIP, ALWAYS = (
    ConcurrencyPolicy.COALESCE_IF_ACTIVE,
    ConcurrencyPolicy.SKIP_IF_ACTIVE,
    ConcurrencyPolicy.ALWAYS_ENQUEUE,
)
QUEUED, CLAIMED = RunStatus.QUEUED, RunStatus.CLAIMED
PERIODIC, EVENT = Reason.PERIODIC, Reason.EVENT


@pytest.mark.parametrize(
    ("status", "reason", "is_prompted", "request_is_periodic", "decision"),
    [
        (QUEUED, PERIODIC, False, False, Promote),
        (QUEUED, PERIODIC, False, True, Merge),
        (QUEUED, EVENT, False, False, Merge),
        (QUEUED, EVENT, False, True, Merge),
        (CLAIMED, PERIODIC, False, False, Fresh),
        (CLAIMED, PERIODIC, True, False, Fresh),
        (CLAIMED, PERIODIC, False, True, Merge),
        (CLAIMED, PERIODIC, True, True, Late),
        (CLAIMED, EVENT, False, False, Merge),
        (CLAIMED, EVENT, True, False, Late),
        (CLAIMED, EVENT, False, True, Merge),
        (CLAIMED, EVENT, True, True, Late),
    ],
)
def test_what_becomes_of_a_request_that_meets_one_run(
    status: RunStatus, reason: Reason, is_prompted: bool, request_is_periodic: bool, decision: type
) -> None:
    """S0 Coalescing layer 2, behaviour §2 Dispatch 4 to 6."""
    run = a_run(status=status, reason=reason, prompted_at=NOW if is_prompted else None)
    decided = decide(a_request(periodic=request_is_periodic), [run], policy=COALESCE)
    assert type(decided) is decision
    assert getattr(decided, "run", run) == run


def test_without_a_run_in_flight_it_is_fresh() -> None:
    """behaviour §2 Dispatch 4."""
    assert decide(a_request(), [], policy=COALESCE) == Fresh()


def test_always_enqueue_is_always_fresh() -> None:
    """behaviour §2 Dispatch 2."""
    assert decide(a_request(), [a_run()], policy=ALWAYS) == Fresh()


@pytest.mark.parametrize(
    ("of_run", "of_request", "may_share"),
    [
        (None, None, True),
        (None, "rt_a", True),
        ("rt_a", None, True),
        ("rt_a", "rt_a", True),
        ("rt_a", "rt_b", False),
    ],
)
def test_requests_of_different_routines_never_share(
    of_run: str | None, of_request: str | None, may_share: bool
) -> None:
    """behaviour §2 Dispatch 3."""
    decided = decide(a_request(routine_id=of_request), [a_run(routine_id=of_run)], policy=COALESCE)
    assert (decided != Fresh()) is may_share


RUNS = st.lists(
    st.builds(
        lambda number, status, reason, at, routine: a_run(
            id=f"run_{number}", status=status, reason=reason, requested_at=at, routine_id=routine
        ),
        st.integers(0, 99),
        st.sampled_from([QUEUED, CLAIMED]),
        st.sampled_from([PERIODIC, EVENT]),
        st.integers(0, 5),
        st.sampled_from([None, "rt_a", "rt_b"]),
    ),
    max_size=6,
    unique_by=lambda run: run.id,
)


@given(runs=RUNS, periodic=st.booleans(), routine=st.sampled_from([None, "rt_a"]))
def test_the_candidate_is_queued_before_claimed_then_oldest_then_by_id(
    runs: list[Run], periodic: bool, routine: str | None
) -> None:
    """behaviour §2 Dispatch 3, I7: and nothing is ever demoted."""
    decided = decide(a_request(periodic=periodic, routine_id=routine), runs, policy=COALESCE)
    allowed = [run for run in runs if not (routine and run.routine_id not in (None, routine))]
    queued = [run for run in allowed if run.status is QUEUED]
    best = min(queued or allowed, key=lambda run: (run.requested_at, run.id), default=None)
    if isinstance(decided, Fresh):
        assert best is None or (best.status is CLAIMED and best.reason is PERIODIC and not periodic)
    else:
        assert decided.run == best
    if isinstance(decided, Promote):
        assert (decided.run.status, decided.run.reason, periodic) == (QUEUED, PERIODIC, False)


@pytest.mark.parametrize(
    ("policy", "is_active", "verdict"),
    [
        (COALESCE, False, FireVerdict.PROCEED),
        (COALESCE, True, FireVerdict.COALESCE),
        (SKIP, False, FireVerdict.PROCEED),
        (SKIP, True, FireVerdict.SKIP),
        (ALWAYS, False, FireVerdict.PROCEED),
        (ALWAYS, True, FireVerdict.PROCEED),
    ],
)
def test_what_a_fire_does_while_an_earlier_one_is_active(
    policy: ConcurrencyPolicy, is_active: bool, verdict: FireVerdict
) -> None:
    """S0 Concurrency policy."""
    assert decide_fire(policy, is_active=is_active) is verdict


def test_only_periodic_requests_make_a_periodic_run() -> None:
    """behaviour §2 Periodic or event."""
    assert reason_of(a_request(periodic=True)) is PERIODIC
    assert reason_of(a_request(periodic=False)) is EVENT


def test_the_person_does_not_wait_and_the_burst_does() -> None:
    """behaviour §2 Coalescing window."""
    assert not waits_for_window(a_request("user"))
    assert waits_for_window(a_request("comment"))
