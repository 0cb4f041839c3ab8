"""policy.waiting: what a queued run waits for; the first thing that stops the claim is named."""

from __future__ import annotations

from typing import Any

import pytest
from builders import NOW, a_run, a_workspace, an_agent

from kandev_sched.domain.agents import AgentStatus
from kandev_sched.domain.runs import RunStatus
from kandev_sched.policy.waiting import Surroundings, waiting

LATER = NOW + 60_000
AT = "2026-12-01T09:01:00Z"


def around(**fields: Any) -> Surroundings:
    blank = {
        "agent": an_agent(),
        "workspace": a_workspace(),
        "holder_run_id": None,
        "claimed_count": 0,
        "max_sessions": 8,
        "older_run_id": "run_1",
        "is_supervised": True,
        "now": NOW,
    }
    return Surroundings(**{**blank, **fields})


DISABLED = {"workspace": a_workspace(enabled=False)}
PAUSED_WORKSPACE = {"workspace": a_workspace(paused_at=NOW)}
PAUSED = {"agent": an_agent(status=AgentStatus.PAUSED)}
STOPPED = {"agent": an_agent(status=AgentStatus.STOPPED, status_reason="broken")}
COOLING = {"agent": an_agent(ready_at=LATER)}
BUSY = {"agent": an_agent(claimed_count=2, max_concurrent_sessions=2)}
HELD_TASK = {"holder_run_id": "run_9"}
FULL = {"claimed_count": 8}
ALONE = {"is_supervised": False}
BEHIND = {"older_run_id": "run_0"}


@pytest.mark.parametrize(
    ("run", "circumstances", "sentence", "until", "is_held"),
    [
        ({}, DISABLED, "held: workspace default is disabled", None, True),
        ({}, PAUSED_WORKSPACE, "held: workspace default is paused since 2026-12-01T09:00:00Z", None, True),
        ({}, PAUSED, "held: agent bot is paused", None, True),
        ({}, STOPPED, "held: agent bot is stopped (broken)", None, True),
        (
            {"scheduled_retry_at": LATER, "retry_count": 2, "error": "exit status 1"},
            {},
            f"waiting: retry 2 at {AT}, after: exit status 1",
            LATER,
            False,
        ),
        (
            {"eligible_at": LATER, "window_open": True},
            {},
            f"waiting: its coalescing window ends at {AT}",
            LATER,
            False,
        ),
        ({"eligible_at": LATER}, {}, f"waiting: its time ends at {AT}", LATER, False),
        ({}, COOLING, f"waiting: agent bot cools down until {AT}", LATER, False),
        ({}, HELD_TASK, "waiting: task held by run run_9", None, False),
        ({}, BUSY, "waiting: agent bot is working (2 of 2 sessions)", None, False),
        ({}, FULL, "waiting: all 8 sessions of the supervisor are taken", None, False),
        ({}, ALONE, "waiting: no supervisor is running; start one with `sched serve`", None, False),
        ({}, BEHIND, "waiting: run run_0 of the same agent is older", None, False),
        ({}, {}, "ready: it is claimed next", NOW, False),
    ],
)
def test_the_sentence_of_each_cause(
    run: dict[str, Any], circumstances: dict[str, Any], sentence: str, until: int | None, is_held: bool
) -> None:
    """behaviour §2 Explain: one sentence, with the time when that may change."""
    found = waiting(a_run(**run), around(**circumstances))
    assert found is not None
    assert (found.sentence, found.until, found.is_held_by_person) == (sentence, until, is_held)


def test_what_a_person_holds_comes_before_what_passes_by_itself() -> None:
    """behaviour §2 Un-claim: it is shown as held."""
    run = a_run(scheduled_retry_at=LATER, eligible_at=LATER)
    found = waiting(run, around(**PAUSED, **HELD_TASK, **ALONE))
    assert found is not None
    assert found.sentence == "held: agent bot is paused"


def test_a_retry_that_is_due_is_no_reason_to_wait() -> None:
    """behaviour §2 Explain."""
    found = waiting(a_run(scheduled_retry_at=NOW, retry_count=1), around())
    assert found is not None
    assert found.sentence.startswith("ready")


@pytest.mark.parametrize("status", [status for status in RunStatus if status is not RunStatus.QUEUED])
def test_only_a_queued_run_waits(status: RunStatus) -> None:
    """behaviour §2 Explain."""
    assert waiting(a_run(status=status), around()) is None
