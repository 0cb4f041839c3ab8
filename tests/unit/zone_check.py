"""All answers of cron and Quartz against the oracle's, near a change of the clocks, under each DST policy."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import product
from pathlib import Path

import oracle
from oracle import HOUR, Meaning, Window

from kandev_sched.domain.schedules import OnGap, OnRepeat
from kandev_sched.policy import cron, quartz, zones
from kandev_sched.policy.wallclock import WallClock

DATA = Path(__file__).parents[1] / "data"
SINCE, UNTIL = datetime(2020, 1, 1, tzinfo=UTC), datetime(2038, 1, 1, tzinfo=UTC)
QUIET = int(datetime(2026, 3, 29, 1, tzinfo=UTC).timestamp())  # for a zone without changes
LIMIT = 12
AROUND = 30 * HOUR
POLICIES = list(product(OnGap, OnRepeat))
# From the change of the clocks: when a schedule is asked for its next slot, and for those before.
PROBES = (-1, 0, 1, HOUR // 2, HOUR - 1, HOUR, 2 * HOUR, -HOUR // 2, -HOUR, 24 * HOUR)


def expressions() -> list[str]:
    """Those of the vectors."""
    vectors = [
        vector
        for name in ("cron_vectors", "quartz_vectors")
        for vector in json.loads((DATA / f"{name}.json").read_text("utf-8"))["vectors"]
    ]
    return sorted({vector["expr"] for vector in vectors})


@cache
def changes(zone: str) -> tuple[int, ...]:
    """When the zone's clocks change in the years that are checked; a quiet moment if never."""
    return tuple(oracle.transitions(zone, SINCE, UNTIL)) or (QUIET,)


def known_changes(zone: str) -> list[int]:
    """The same, as the product knows them."""
    found = zones.changes_between(SINCE, UNTIL, zones.zone(zone))
    return [int(change.at.timestamp()) for change in found]


@cache
def window(zone: str, change: int) -> Window:
    """The days around a change."""
    return oracle.walk(zone, change - AROUND, change + AROUND)


def disagreements(text: str, zone: str, at: Sequence[int]) -> Iterator[str]:
    """In what the product and the oracle differ for an expression around these changes."""
    meaning = oracle.meaning_of(text)
    for on_gap, on_repeat in POLICIES:
        module = quartz if len(text.split()) > 5 else cron
        schedule = module.parse(text, zone, on_gap=on_gap, on_repeat=on_repeat)
        for change in at:
            for question, ours, theirs in answers(schedule, meaning, change):
                if ours != theirs:
                    policies = f"{on_gap}/{on_repeat}"
                    yield f"{text!r} {zone} {policies} {change} {question}: {ours!r:.300} not {theirs!r:.300}"


def answers(schedule: WallClock, meaning: Meaning, change: int) -> Iterator[tuple[str, object, object]]:
    """Question, the product's answer, the oracle's."""
    shift, both = schedule.on_gap is OnGap.SHIFT, schedule.on_repeat is OnRepeat.BOTH
    here = window(schedule.zone, change)
    slots, span = oracle.slots(meaning, here, shift=shift, both=both), (here.after, here.until)
    yield "slots_between", schedule.slots_between(*span, LIMIT), oracle.instants(slots.first(LIMIT))
    yield "latest_slots", schedule.latest_slots(*span, LIMIT), oracle.instants(slots.last(LIMIT))
    yield "count_between", schedule.count_between(*span), len(slots)
    yield "skipped_between", schedule.skipped_between(*span, LIMIT), slots.skipped[:LIMIT]
    for second in (change + probe for probe in PROBES):
        asked = datetime.fromtimestamp(second, UTC)
        following = slots.next_after(second)
        found = schedule.next_after(asked)
        if following is None:
            yield f"next_after {asked} is beyond", found is None or found > here.until, True
        else:
            yield f"next_after {asked}", found, datetime.fromtimestamp(following, UTC)
        count, last = slots.upto(second)
        latest = [] if last is None else [datetime.fromtimestamp(last, UTC)]
        yield f"count_between until {asked}", schedule.count_between(here.after, asked), count
        yield f"latest_slots until {asked}", schedule.latest_slots(here.after, asked, 1), latest
