"""`on_gap` and `on_repeat`: what a trigger asks for where a clock skips or repeats (and: test_every_zone)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from kandev_sched.domain.schedules import OnGap, OnRepeat
from kandev_sched.policy import cron, quartz, zones
from kandev_sched.policy.wallclock import WallClock

SHIFT, SKIP, BOTH, FIRST = OnGap.SHIFT, OnGap.SKIP, OnRepeat.BOTH, OnRepeat.FIRST


def instants(*texts: str) -> list[datetime]:
    return [datetime.fromisoformat(text).astimezone(UTC) for text in texts]


def as_cron(text: str, zone: str, **policies: object) -> WallClock:
    return cron.parse(text, zone, **policies)


def as_quartz(text: str, zone: str, **policies: object) -> WallClock:
    """The same expression in the other language, for those without days."""
    return quartz.parse(f"0 {text.removesuffix('*')}?", zone, **policies)


ROWS = [
    ("30 2 * * *", "Europe/Berlin", SKIP, FIRST, "2026-03-28T12:00Z", ["2026-03-30T00:30Z"], "skip"),
    (
        "30 2 * * *",
        "Europe/Berlin",
        SHIFT,
        FIRST,
        "2026-03-28T12:00Z",
        ["2026-03-29T01:00Z", "2026-03-30T00:30Z"],
        "shift to the first instant after the gap",
    ),
    (
        "0,30 2,3 * * *",
        "Europe/Berlin",
        SHIFT,
        FIRST,
        "2026-03-28T12:00Z",
        ["2026-03-29T01:00Z", "2026-03-29T01:30Z", "2026-03-30T00:00Z"],
        "shifted slots are one, and one with a slot that exists",
    ),
    (
        "0 0 * * *",
        "America/Santiago",
        SHIFT,
        FIRST,
        "2026-09-05T12:00Z",
        ["2026-09-06T04:00Z", "2026-09-07T03:00Z"],
        "midnight is skipped",
    ),
    (
        "15 2 * * *",
        "Australia/Lord_Howe",
        SHIFT,
        FIRST,
        "2026-10-03T12:00Z",
        ["2026-10-03T15:30Z", "2026-10-04T15:15Z"],
        "a gap of half an hour",
    ),
    (
        "0 12 * * *",
        "Pacific/Apia",
        SHIFT,
        FIRST,
        "2011-12-29T12:00Z",
        ["2011-12-29T22:00Z", "2011-12-30T10:00Z", "2011-12-30T22:00Z"],
        "a skipped day",
    ),
    (
        "30 2 * * *",
        "Europe/Berlin",
        SKIP,
        FIRST,
        "2026-10-24T12:00Z",
        ["2026-10-25T00:30Z", "2026-10-26T01:30Z"],
        "first",
    ),
    (
        "30 2 * * *",
        "Europe/Berlin",
        SKIP,
        BOTH,
        "2026-10-24T12:00Z",
        ["2026-10-25T00:30Z", "2026-10-25T01:30Z", "2026-10-26T01:30Z"],
        "both",
    ),
    (
        "*/30 * * * *",
        "Europe/Berlin",
        SKIP,
        BOTH,
        "2026-10-25T00:00Z",
        ["2026-10-25T00:30Z", "2026-10-25T01:00Z", "2026-10-25T01:30Z", "2026-10-25T02:00Z"],
        "a heartbeat goes on through the repeated hour (TZ-15)",
    ),
    (
        "45 1 * * *",
        "Australia/Lord_Howe",
        SKIP,
        BOTH,
        "2026-04-04T12:00Z",
        ["2026-04-04T14:45Z", "2026-04-04T15:15Z", "2026-04-05T15:15Z"],
        "a repeat of half an hour",
    ),
]


@pytest.mark.parametrize("parse", [as_cron, as_quartz], ids=["cron", "quartz"])
@pytest.mark.parametrize("row", ROWS, ids=[row[-1] for row in ROWS])
def test_every_question_honours_the_policies(parse: Callable[..., WallClock], row) -> None:
    text, zone, on_gap, on_repeat, start, slots, _ = row
    schedule = parse(text, zone, on_gap=on_gap, on_repeat=on_repeat)
    after, expected = instants(start)[0], instants(*slots)
    assert schedule.next_after(after) == expected[0]
    assert schedule.slots_between(after, zones.LAST, len(expected)) == expected
    assert schedule.latest_slots(after, expected[-1], 99) == expected
    assert schedule.count_between(after, expected[-1]) == len(expected)


def test_nothing_is_skipped_under_shift() -> None:
    span = instants("2026-01-01T00:00Z", "2027-01-01T00:00Z")
    assert len(cron.parse("*/10 2 * * *", "Europe/Berlin").skipped_between(*span, 99)) == 6
    assert cron.parse("*/10 2 * * *", "Europe/Berlin", on_gap=SHIFT).skipped_between(*span, 99) == []


def test_an_hourly_job_fires_25_times_on_the_day_of_25_hours_under_both() -> None:
    """TZ-03."""
    day = instants("2026-10-24T21:59Z", "2026-10-25T22:59Z")
    assert cron.parse("0 * * * *", "Europe/Berlin").count_between(*day) == 24
    assert cron.parse("0 * * * *", "Europe/Berlin", on_repeat=BOTH).count_between(*day) == 25


def test_with_both_and_shift_fifty_years_of_minutes_have_no_hole() -> None:
    schedule = cron.parse("* * * * *", "America/New_York", on_gap=SHIFT, on_repeat=BOTH)
    after, until = instants("2026-12-01T09:00Z", "2076-12-01T09:00Z")
    assert schedule.count_between(after, until) == (until - after).total_seconds() // 60


def test_a_count_may_begin_and_end_inside_the_repeated_hour() -> None:
    first, second = instants("2026-10-25T00:30Z", "2026-10-25T01:30Z")
    for on_repeat, count in ((FIRST, 29), (BOTH, 60)):
        schedule = cron.parse("* * * * *", "Europe/Berlin", on_repeat=on_repeat)
        assert schedule.count_between(first, second) == count
        assert len(schedule.slots_between(first, second, 99)) == count
        assert len(schedule.latest_slots(first, second, 99)) == count


def test_the_last_slot_of_all_may_come_twice() -> None:
    schedule = quartz.parse("0 30 2 25 10 ? 2026", "Europe/Berlin", on_repeat=BOTH)
    first, second = instants("2026-10-25T00:30Z", "2026-10-25T01:30Z")
    assert schedule.slots_between(zones.FIRST, zones.LAST, 9) == [first, second]
    assert schedule.next_after(first) == second
    assert schedule.next_after(second) is None


def test_the_only_slot_is_behind_while_its_hour_repeats() -> None:
    asked, slot = instants("2026-10-25T01:15Z", "2026-10-25T00:30Z")
    for on_repeat in OnRepeat:
        schedule = quartz.parse("0 30 2 25 10 ? 2026", "Europe/Berlin", on_repeat=on_repeat)
        assert schedule.latest_slots(zones.FIRST, asked, 9) == [slot]
        assert schedule.count_between(zones.FIRST, asked) == 1


@pytest.mark.parametrize("module", [cron, quartz], ids=["cron", "quartz"])
def test_policies_are_part_of_the_value(module) -> None:
    text = "0 9 * * *" if module is cron else "0 0 9 * * ?"
    plain, shifted = module.parse(text, "UTC"), module.parse(text, "UTC", on_gap=SHIFT)
    assert plain is module.parse(text, "UTC", on_gap=SKIP, on_repeat=FIRST)
    assert plain != shifted
    assert (plain.on_gap, plain.on_repeat, shifted.on_gap) == (SKIP, FIRST, SHIFT)


def test_policies_other_than_the_default_are_explained() -> None:
    said = cron.parse("30 2 * * *", "Europe/Berlin", on_gap=SHIFT, on_repeat=BOTH).explain()
    assert said == (
        "At 02:30 every day, Europe/Berlin time."
        " A time that the clock skips fires as soon as the clock goes on."
        " A time that the clock repeats fires both times."
    )
