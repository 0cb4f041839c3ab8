"""policy.retry: backoff and the end of patience."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_sched.policy.retry import GiveUp, RetryIn, after_failure

MINUTE = 60_000


@pytest.mark.parametrize(
    ("count", "base"), [(0, 2 * MINUTE), (1, 10 * MINUTE), (2, 30 * MINUTE), (3, 120 * MINUTE)]
)
@given(chance=st.floats(0, 1, exclude_max=True))
def test_the_delay_is_the_step_and_up_to_a_quarter_more(count: int, base: int, chance: float) -> None:
    """S0 default backoff: 4 attempts at [2m, 10m, 30m, 2h] with 25 % jitter."""
    decided = after_failure(retry_count=count, lost_count=0, is_permanent=False, chance=chance)
    assert isinstance(decided, RetryIn)
    assert base <= decided.delay_ms <= base * 1.25
    assert abs(decided.delay_ms - base * (1 + 0.25 * chance)) <= 1


@given(st.integers(4, 1000))
def test_after_four_retries_it_is_over(count: int) -> None:
    """S0 default backoff: after MaxRetryCount (4) failures."""
    decided = after_failure(retry_count=count, lost_count=0, is_permanent=False, chance=0)
    assert isinstance(decided, GiveUp)


@pytest.mark.parametrize(("lost", "is_over"), [(1, False), (2, False), (3, True), (4, True)])
def test_three_losses_in_a_row_are_the_end(lost: int, is_over: bool) -> None:
    """behaviour §6 Lost and found: three times in a row lost: failed and escalated."""
    decided = after_failure(retry_count=0, lost_count=lost, is_permanent=False, chance=0)
    assert isinstance(decided, GiveUp) is is_over


def test_what_waiting_cannot_mend_is_over_at_once() -> None:
    """behaviour §6: failures that waiting cannot mend are not retried."""
    assert isinstance(after_failure(retry_count=0, lost_count=0, is_permanent=True, chance=0), GiveUp)
