"""policy.catchup: which due slots fire, and which are missed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_sched.domain.routines import CatchUpPolicy
from kandev_sched.policy.catchup import CatchUp, Due, decide, slots_wanted

CAP, SKIP, ONCE = (
    CatchUpPolicy.ENQUEUE_MISSED_WITH_CAP,
    CatchUpPolicy.SKIP_MISSED,
    CatchUpPolicy.FIRE_ONCE,
)
SLOTS = st.lists(st.integers(0, 10_000_000), min_size=1, max_size=60, unique=True).map(sorted)


def decided(
    policy: CatchUpPolicy, slots: list[int], *, now: int, cap: int = 25, grace_s: int = 60
) -> CatchUp:
    """Decide as the ticker does: only the newest slots are looked at, the others counted."""
    wanted = slots_wanted(policy, catch_up_max=cap)
    due = Due(newest=tuple(slots[-wanted:]), count=len(slots), first_at=slots[0])
    return decide(policy, due, now=now, catch_up_max=cap, misfire_grace_s=grace_s)


@given(
    policy=st.sampled_from(list(CatchUpPolicy)),
    slots=SLOTS,
    late_ms=st.integers(0, 120_000),
    cap=st.integers(1, 70),
)
def test_each_due_slot_either_fires_or_is_missed_and_the_newest_are_those_that_fire(
    policy: CatchUpPolicy, slots: list[int], late_ms: int, cap: int
) -> None:
    """behaviour §3 Catch-up, I6: nothing is dropped silently, nothing counted twice."""
    plan = decided(policy, slots, now=slots[-1] + late_ms, cap=cap)
    count = len(plan.fires)
    assert list(plan.fires) == (slots[-count:] if count else [])
    assert plan.missed_count == len(slots) - count
    missed = slots[: len(slots) - count]
    assert (plan.missed_first_at, plan.missed_last_at) == (
        (missed[0], missed[-1]) if missed else (None, None)
    )
    expected = {CAP: min(cap, len(slots)), ONCE: 1, SKIP: int(late_ms <= 60_000)}[policy]
    assert count == expected


def test_a_cap_of_one_fires_the_newest_slot_alone() -> None:
    """S0 Catch-up policy: up to the cap."""
    assert decided(CAP, [1, 2, 3], now=3, cap=1) == CatchUp(
        fires=(3,), missed_count=2, missed_first_at=1, missed_last_at=2
    )


@pytest.mark.parametrize(("grace_s", "late_s", "fires"), [(0, 0, True), (0, 1, False), (3600, 3600, True)])
def test_the_grace_is_that_of_the_routine(grace_s: int, late_s: int, fires: bool) -> None:
    """behaviour §3 Catch-up: `misfire_grace_s` (default 60)."""
    plan = decided(SKIP, [0], now=late_s * 1000, grace_s=grace_s)
    assert bool(plan.fires) is fires


@pytest.mark.parametrize(
    ("policy", "cap", "wanted"), [(CAP, 25, 26), (CAP, 1000, 1001), (SKIP, 25, 2), (ONCE, 25, 2)]
)
def test_only_so_many_slots_are_looked_at(policy: CatchUpPolicy, cap: int, wanted: int) -> None:
    """behaviour §3 Catch-up: counting is bounded."""
    assert slots_wanted(policy, catch_up_max=cap) == wanted
