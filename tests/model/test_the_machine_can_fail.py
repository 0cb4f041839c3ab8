"""With one rule of the program switched off, random histories must find what that breaks.

A model that cannot fail proves nothing. Each case switches one rule off and names the invariant that the
machine must see broken; the seeds are fixed, and only generation runs, so that a case takes a moment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from machine import Machine

from kandev_sched.flow import attend, dispatch, settle, steps
from kandev_sched.policy import admission
from kandev_sched.store import agents, runs, tasks, wakeups
from kandev_sched.store.sql import Sql

SEED = 1
FEW = settings(
    max_examples=300,
    stateful_step_count=40,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
)


def nothing(*_: Any, **__: Any) -> None:
    """The rule, switched off."""


def follow_ups_are_dropped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(settle, "follow_up", nothing)


def an_ending_counts_for_every_request(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(settle, "_was_judged", lambda *_: True)


def a_claim_takes_no_checkout(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(steps, "claim", lambda tx, *, max_sessions: runs.claim_next(tx, max_sessions=max_sessions))


def keys_are_global(patch: pytest.MonkeyPatch) -> None:
    any_agent = Sql("SELECT * FROM wakeup_requests WHERE idempotency_key = :key", wakeups._BY_KEY.into)
    patch.setattr(wakeups, "by_key", lambda reader, *, key, **_: reader.one(any_agent, key=key))


def nothing_is_promoted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(runs, "promote", nothing)


def an_unclaim_ends_the_run(patch: pytest.MonkeyPatch) -> None:
    def finish(tx: Any, run: Any, outcome: Any) -> None:
        settle._finish(tx, run, outcome.replace(kind=settle.OutcomeKind.IDLE, reason="agent_paused",
                                                judged=settle._every_open(tx, run)))  # fmt: skip

    patch.setattr(settle, "_unclaim", finish)


def checkouts_are_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tasks, "free_checkout", nothing)


def there_is_no_cooldown(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(agents, "stamp_finished", nothing)


def the_newest_run_is_claimed(patch: pytest.MonkeyPatch) -> None:
    text = runs._CLAIM.text.replace("ORDER BY head.requested_at, head.id", "ORDER BY head.requested_at DESC")
    assert text != runs._CLAIM.text
    patch.setattr(runs._CLAIM, "text", text)


def the_lost_are_not_fenced_nor_cleared(patch: pytest.MonkeyPatch) -> None:
    def requeue(pipeline: Any, run: Any, _ref: Any) -> None:
        pipeline.finish(run, settle.Outcome(kind=settle.OutcomeKind.UNCLAIMED, reason="lost"))

    patch.setattr(attend, "_fence", requeue)


def one_stale_request_cancels_the_whole_run(patch: pytest.MonkeyPatch) -> None:
    def all_or_nothing(tx: Any, run: Any) -> Any:
        requests = wakeups.open_of_run(tx, run.id)
        task = tasks.by_id(tx, run.task_id) if run.task_id else None
        capacities = steps._capacities(tx, run)
        for request in requests:
            reason = admission.staleness(request, task, capacities)
            if reason is not None:
                raise steps.stop(settle.OutcomeKind.CANCELLED, requests, reason=reason)
        return requests, []

    patch.setattr(steps, "drop_stale", all_or_nothing)


def follow_ups_outlive_their_agent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(settle, "_is_gone", lambda *_: False)


def late_requests_count_as_told(patch: pytest.MonkeyPatch) -> None:
    merge = dispatch._merge

    def joined(tx: Any, request: Any, run: Any) -> Any:
        given = merge(tx, request, run)
        wakeups.mark_prompted(tx, run.id, run.attempt)
        wakeups.mark_delivered(tx, run.id, run.attempt)
        return given

    patch.setattr(dispatch, "_merge", joined)


class Dense(Machine):
    """Fewer agents, and nearly everything is about what is worked on just now."""

    focused = 8
    names = ("ann", "ben", "dan")


class Archiving(Dense):
    interferes = ("archive", "none")


class Reassigning(Machine):
    """Of queued runs: staleness is judged when they are claimed."""

    focused = 60
    interferes = ("assign", "leave", "move")


class Ticking(Dense):
    """Schedules fire all the time."""

    def clock_back(self) -> None:
        self.world.advance(3601)
        self.tick()


CASES: list[tuple[Callable[[pytest.MonkeyPatch], None], str]] = [
    (follow_ups_are_dropped, "I1: "),
    (an_ending_counts_for_every_request, "I11: .* stays claimed|I1: |§2: "),
    (a_claim_takes_no_checkout, "I4: "),
    (keys_are_global, "I2: "),
    (nothing_is_promoted, "is periodic and holds the event"),
    (an_unclaim_ends_the_run, "which no rule knows"),
    (checkouts_are_kept, "I4: "),
    (there_is_no_cooldown, "I3: "),
    (the_newest_run_is_claimed, "I5: "),
    (the_lost_are_not_fenced_nor_cleared, "I11: "),
    (one_stale_request_cancels_the_whole_run, "nothing asked for that"),
    (follow_ups_outlive_their_agent, "I13: |I1: "),
    (late_requests_count_as_told, "I1: "),
]


MACHINES = {
    follow_ups_outlive_their_agent: Archiving,
    one_stale_request_cancels_the_whole_run: Reassigning,
    nothing_is_promoted: Ticking,
}


@pytest.mark.parametrize(("switch_off", "sign"), CASES, ids=lambda part: getattr(part, "__name__", ""))
def test_a_rule_that_is_switched_off_is_missed(
    monkeypatch: pytest.MonkeyPatch, switch_off: Callable[[pytest.MonkeyPatch], None], sign: str
) -> None:
    """The machine sees the breach, and says which invariant it is."""
    switch_off(monkeypatch)
    machine = MACHINES.get(switch_off, Dense)
    with pytest.raises(Exception, match=sign):
        run_state_machine_as_test(seed(SEED)(machine), settings=FEW)
