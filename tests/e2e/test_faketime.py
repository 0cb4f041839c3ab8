"""A real supervisor with a real clock that is not the present one (libfaketime): it crosses a clock change."""

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


@pytest.fixture
def at(tmp_path: Path):
    """A user whose every process lives at another time; all share one timeline."""

    def user(instant: int) -> Sched:
        made = Sched(tmp_path)
        made.env |= {
            "LD_PRELOAD": str(LIBRARY),
            "FAKETIME": f"{instant - int(time.time()):+d}s",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        return with_agent(made, "true")

    return user


def fires(sched: Sched, routine: str) -> list[tuple[str, str]]:
    return [(row["scheduled_for_at"], row["status"]) for row in sched.json("routine", "runs", routine)]


def test_the_repeated_hour_begins_under_a_real_supervisor_and_each_slot_fires_once(at) -> None:
    """I6 with the real clock: 02:00 comes again in Berlin; only `both` fires, once, also after a restart."""
    sched = at(1_825_030_795)  # 2027-10-31T00:59:55Z, five seconds before the clock goes back
    for name, rule in (("first", "first"), ("both", "both")):
        words = ("--cron", "0 2 * * *", "--tz", BERLIN, "--on-repeat", rule)
        assert sched("routine", "add", name, "--agent", "coder", *words).status == 0
    with sched.serving("--no-http"):
        wait_until(lambda: fires(sched, "both") != [], timeout_s=40)
    with sched.serving("--no-http"):
        wait_until(lambda: fires(sched, "both")[0][1] != "received")
    assert [slot for slot, _ in fires(sched, "both")] == ["2027-10-31T01:00:00Z"]
    assert fires(sched, "first") == []
    (trigger,) = sched.json("trigger", "list", "--routine", "first")
    assert trigger["next_run_at"] == "2027-11-01T01:00:00Z"


def test_a_gap_is_crossed_under_a_real_supervisor(at) -> None:
    """02:30 does not come; `shift` fires once at the end of the gap, together with what is due then."""
    sched = at(1_806_195_595)  # 2027-03-28T00:59:55Z, five seconds before the clock goes forward
    for name, words in {
        "skip": ("--cron", "30 2 * * *"),
        "shift": ("--cron", "30 2 * * *", "--on-gap", "shift"),
        "three": ("--cron", "0 3 * * *"),
    }.items():
        assert sched("routine", "add", name, "--agent", "coder", "--tz", BERLIN, *words).status == 0
    with sched.serving("--no-http"):
        wait_until(lambda: fires(sched, "shift") != [] and fires(sched, "three") != [], timeout_s=40)
    for name in ("shift", "three"):
        assert [slot for slot, _ in fires(sched, name)] == ["2027-03-28T01:00:00Z"]
    assert fires(sched, "skip") == []
    (trigger,) = sched.json("trigger", "list", "--routine", "skip")
    assert trigger["next_run_at"] == "2027-03-29T00:30:00Z"
