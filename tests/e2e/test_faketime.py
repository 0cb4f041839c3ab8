"""A real supervisor with a clock that is not the present one (libfaketime): it crosses a clock change."""

from __future__ import annotations

import glob
import time
from pathlib import Path

import pytest

from .support import Sched, wait_until, with_agent

LIBRARY = next(iter(glob.glob("/usr/lib/*/faketime/libfaketime.so.1")), None)
pytestmark = pytest.mark.skipif(
    LIBRARY is None, reason="libfaketime is not installed (apt-get install faketime)"
)
BERLIN = "Europe/Berlin"


AUTUMN, SPRING = 1_824_944_400, 1_806_195_600  # 2027-10-31T01:00:00Z, 2027-03-28T01:00:00Z


def live_at(sched: Sched, second: int) -> None:
    """From now on each process of this user lives at another time; they share one timeline."""
    sched.env |= {
        "LD_PRELOAD": str(LIBRARY),
        "FAKETIME": f"{second - int(time.time()):+d}s",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


@pytest.fixture
def user(tmp_path: Path) -> Sched:
    """A user with an agent."""
    return with_agent(Sched(tmp_path), "true")


def fires(sched: Sched, routine: str) -> list[tuple[str, str]]:
    return [(row["scheduled_for_at"], row["status"]) for row in sched.json("routine", "runs", routine)]


def test_the_repeated_hour_begins_under_a_real_supervisor_and_each_slot_fires_once(user: Sched) -> None:
    """I6 with the real clock: 02:00 comes again in Berlin; only `both` fires, once, also after a restart."""
    sched = user
    live_at(sched, AUTUMN - 3700)  # before either pass of 02:00
    for name, rule in (("first", "first"), ("both", "both")):
        words = ("--cron", "0 2 * * *", "--tz", BERLIN, "--on-repeat", rule)
        assert sched("routine", "add", name, "--agent", "coder", *words).status == 0
    live_at(sched, AUTUMN - 4)  # the clock is about to go back
    with sched.serving("--no-http"):
        wait_until(lambda: len(fires(sched, "both")) == 2)
    with sched.serving("--no-http"):
        wait_until(lambda: "received" not in [status for _, status in fires(sched, "both")])
    slots = {name: sorted(slot for slot, _ in fires(sched, name)) for name in ("first", "both")}
    assert slots == {
        "first": ["2027-10-31T00:00:00Z"],
        "both": ["2027-10-31T00:00:00Z", "2027-10-31T01:00:00Z"],
    }
    (trigger,) = sched.json("trigger", "list", "--routine", "first")
    assert trigger["next_run_at"] == "2027-11-01T01:00:00Z"


def test_a_gap_is_crossed_under_a_real_supervisor(user: Sched) -> None:
    """02:30 does not come; `shift` fires once at the end of the gap, together with what is due then."""
    sched = user
    live_at(sched, SPRING - 600)
    for name, words in {
        "skip": ("--cron", "30 2 * * *"),
        "shift": ("--cron", "30 2 * * *", "--on-gap", "shift"),
        "three": ("--cron", "0 3 * * *"),
    }.items():
        assert sched("routine", "add", name, "--agent", "coder", "--tz", BERLIN, *words).status == 0
    live_at(sched, SPRING - 4)  # the clock is about to go forward
    with sched.serving("--no-http"):
        wait_until(lambda: fires(sched, "shift") != [] and fires(sched, "three") != [])
    for name in ("shift", "three"):
        assert [slot for slot, _ in fires(sched, name)] == ["2027-03-28T01:00:00Z"]
    assert fires(sched, "skip") == []
    (trigger,) = sched.json("trigger", "list", "--routine", "skip")
    assert trigger["next_run_at"] == "2027-03-29T00:30:00Z"
