"""kill -9 of the supervisor at each of the twelve steps: before its commit, after it, around the launch."""

from __future__ import annotations

import signal

import pytest
from crash_site import Site
from invariants import check_all

from kandev_sched.domain.runs import StepName

BEFORE_COMMIT = [f"in {step}" for step in StepName]
# The transactions are claim, admit (2 to 6), prepare (7 to 10), launched (11) and settle (12).
AFTER_COMMIT = [
    f"after {step}"
    for step in (StepName.CLAIM, StepName.BUDGET, StepName.SESSION, StepName.LAUNCH, StepName.FINISH)
]


@pytest.mark.parametrize("cut", [*BEFORE_COMMIT, *AFTER_COMMIT, "before submit"])
def test_a_kill_at_a_step_loses_nothing_and_the_agent_runs_exactly_once(site: Site, cut: str) -> None:
    """I1, I4, I9, I11: `in launch` is the moment between the submit and its stamp."""
    bot = site.agent()
    wake = site.wake(bot, task=site.task(bot))
    before = site.state()

    assert site.start(cut=cut).wait(20) == -signal.SIGKILL, site.log()
    left = check_all(site.path, runs_root=site.runs_root, before=before, acknowledged=[wake])

    site.finish()
    state = site.demand_all_is_well(before=left, acknowledged=[wake])
    run = state.runs[state.requests[wake]["run_id"]]
    assert state.requests[wake]["ending"] == "delivered"
    assert (run["status"], run["retry_count"], run["lost_count"]) == ("finished", 0, 0)
    assert site.launches() == {run["id"]: 1}


@pytest.mark.parametrize("cut", ["in claim", "after session", "in launch", "in finish"])
def test_kills_in_a_row_at_the_same_step_lose_nothing_either(site: Site, cut: str) -> None:
    """Each supervisor dies where the one before died; the fourth one lives."""
    bot = site.agent()
    wake = site.wake(bot)
    for _ in range(3):
        if site.state().runs_in("queued", "claimed"):
            assert site.start(cut=cut, until_idle=True).wait(20) in (-signal.SIGKILL, 0), site.log()
    site.finish()
    state = site.demand_all_is_well(acknowledged=[wake])
    assert state.requests[wake]["ending"] == "delivered"
    assert site.launches() == {state.requests[wake]["run_id"]: 1}
