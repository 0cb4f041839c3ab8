"""Every zone x expression x change of the clocks: a random sample. All of them: `scripts/check-zones`."""

from __future__ import annotations

import json
from datetime import datetime
from random import Random

import oracle
import pytest
import zone_check
from hypothesis import given, settings
from hypothesis import strategies as st

from kandev_sched.policy import zones

NAMES = sorted(zones.names())
EXPRESSIONS = zone_check.expressions()
DAY = 24 * oracle.HOUR


def vectors() -> list[dict[str, object]]:
    """Those whose slots lie near enough together to be walked to, every 20th of them."""
    found = []
    for name in ("cron_vectors", "quartz_vectors"):
        for vector in json.loads((zone_check.DATA / f"{name}.json").read_text("utf-8"))["vectors"]:
            after = datetime.fromisoformat(vector["after"])
            slots = [datetime.fromisoformat(slot) for slot in vector["expected"]]
            if slots and (slots[-1] - after).days < 10:
                found.append({**vector, "after": after, "slots": slots})
    return found[::20]


VECTORS = vectors()


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(NAMES), st.randoms(use_true_random=False))
def test_near_a_change_of_the_clocks_all_answers_are_those_of_the_oracle(zone: str, random: Random) -> None:
    """TZ-01, TZ-02, TZ-03, TZ-05."""
    change = random.choice(zone_check.changes(zone))
    for text in random.sample(EXPRESSIONS, 12):
        assert not list(zone_check.disagreements(text, zone, [change]))


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["id"] for vector in VECTORS])
def test_the_oracle_itself_agrees_with_the_vectors(vector: dict[str, object]) -> None:
    after, expected = vector["after"], vector["slots"]
    first, last = (int(at.timestamp()) // oracle.MINUTE * oracle.MINUTE for at in (after, expected[-1]))
    window = oracle.walk(vector["tz"], first, last + oracle.MINUTE)
    slots = oracle.instants(oracle.slots(oracle.meaning_of(vector["expr"]), window).first(600))
    assert [slot for slot in slots if after < slot <= expected[-1]] == expected


@pytest.mark.parametrize("name", ["Europe/Berlin", "Australia/Lord_Howe", "Africa/Casablanca", "UTC"])
def test_the_product_knows_the_changes_that_the_oracle_finds(name: str) -> None:
    assert zone_check.known_changes(name) == oracle.transitions(name, zone_check.SINCE, zone_check.UNTIL)
