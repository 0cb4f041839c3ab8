"""Timing: bounds and spread around a schedule; the kinds of schedule that a trigger may have."""

from __future__ import annotations

from datetime import UTC, timedelta

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from kandev_sched.domain.errors import Invalid
from kandev_sched.domain.schedules import Syntax, Trigger, TriggerKind
from kandev_sched.policy import cron
from kandev_sched.policy.timing import (
    Timing,
    anchor_of,
    instant,
    millis,
    offset_of,
    spread_offset_ms,
    timing_of,
    zone_of,
)

START = 1_796_115_600_000  # 2026-12-01T09:00:00Z
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
HOURLY = cron.parse("0 * * * *", "UTC")


def a_trigger(**fields: object) -> Trigger:
    plain = {
        "id": "trg_1",
        "routine_id": "rt_1",
        "workspace_id": "ws_1",
        "kind": TriggerKind.SCHEDULE,
        "syntax": Syntax.CRON,
        "expression": "0 * * * *",
        "created_at": START,
        "updated_at": START,
    }
    return Trigger(**{**plain, **fields})


@given(st.integers(-2_000_000_000_000, 4_000_000_000_000))
def test_milliseconds_and_datetimes_are_the_same_instants(at: int) -> None:
    assert millis(instant(at)) == at
    assert instant(at).tzinfo is UTC


def test_a_slot_is_nominal_and_fires_later_by_the_offset() -> None:
    """The slot's name never depends on the spread."""
    timing = Timing(schedule=HOURLY, offset_ms=10 * MINUTE)
    assert timing.next_slot(START) == START
    assert timing.next_fire(START) == START + 10 * MINUTE
    assert timing.next_fire(START + 10 * MINUTE) == START + HOUR + 10 * MINUTE
    assert timing.next_fire(START + 10 * MINUTE - 1) == START + 10 * MINUTE


@settings(max_examples=60)
@given(
    st.integers(0, 3 * HOUR),
    st.integers(0, 40 * HOUR),
    st.integers(0, 3599),
    st.integers(1, 60),
    st.booleans(),
)
def test_slots_due_and_next_fire_agree(
    begin: int, span: int, offset_s: int, wanted: int, bounded: bool
) -> None:
    """Three questions about one span have one answer."""
    bounds = {"not_before": START + 2 * HOUR, "not_after": START + 30 * HOUR} if bounded else {}
    timing = Timing(schedule=HOURLY, offset_ms=offset_s * 1000, **bounds)
    after, until = START + begin, START + begin + span
    slots = timing.slots(after, until, 1000)
    stepped, at = [], timing.next_fire(after)
    while at is not None and at <= until:
        stepped.append(at - timing.offset_ms)
        at = timing.next_fire(at)
    assert slots == stepped
    due = timing.due(after, until, wanted)
    assert (due is None) is (slots == [])
    if due is not None:
        assert list(due.newest) == slots[-wanted:]
        assert (due.count, due.first_at) == (len(slots), slots[0])


def test_the_bounds_are_inside() -> None:
    timing = Timing(schedule=HOURLY, not_before=START, not_after=START + HOUR)
    assert timing.slots(START - DAY, START + DAY, 9) == [START, START + HOUR]
    assert timing.next_slot(START + HOUR) is None
    assert timing.due(START + HOUR, START + DAY, 3) is None


def test_the_bounds_are_of_nominal_slots() -> None:
    """The last slot fires although its delay ends after the bound."""
    timing = Timing(schedule=HOURLY, offset_ms=MINUTE, not_after=START + HOUR)
    assert timing.slots(START, START + DAY, 9) == [START, START + HOUR]


def test_what_a_gap_skips_is_asked_in_the_same_span() -> None:
    schedule = cron.parse("30 2 * * *", "Europe/Berlin")
    gap = 1_806_195_600_000  # 2027-03-28T01:00:00Z
    timing = Timing(schedule=schedule)
    assert [f"{wall:%m-%d %H:%M}" for wall in timing.skipped(gap - DAY, gap + DAY, 9)] == ["03-28 02:30"]
    assert timing.skipped(gap, gap + DAY, 9) == []
    assert Timing(schedule=schedule, not_after=gap - 1).skipped(gap - DAY, gap + DAY, 9) == []


@given(st.text(min_size=1, max_size=30), st.integers(2, 86_400))
def test_an_offset_is_fixed_whole_seconds_and_below_the_spread(trigger_id: str, spread_s: int) -> None:
    offset = spread_offset_ms(trigger_id, spread_s)
    assert offset == spread_offset_ms(trigger_id, spread_s)
    assert 0 <= offset < spread_s * 1000
    assert offset % 1000 == 0


def test_offsets_are_spread_evenly() -> None:
    """A thousand triggers over five minutes: no second is crowded."""
    offsets = [spread_offset_ms(f"trg_{n:026}", 300) // 1000 for n in range(3000)]
    assert len(set(offsets)) == 300
    assert max(offsets.count(second) for second in range(300)) < 30


@pytest.mark.parametrize("spread_s", [0, 1])
def test_no_spread_is_no_offset(spread_s: int) -> None:
    assert spread_offset_ms("trg_1", spread_s) == 0


@pytest.mark.parametrize(
    ("fields", "first"),
    [
        ({}, START + HOUR),
        ({"syntax": Syntax.QUARTZ, "expression": "30 0 * * * ?"}, START + 30_000),
        ({"syntax": Syntax.INTERVAL, "expression": "PT7M", "start_at": START - MINUTE}, START + 6 * MINUTE),
        ({"syntax": Syntax.ONCE, "expression": "2026-12-01T10:30:00+01:00"}, START + 30 * MINUTE),
        ({"start_at": START + 90 * MINUTE}, START + 2 * HOUR),
        ({"end_at": START + MINUTE}, None),
    ],
)
def test_a_trigger_of_each_syntax_has_its_timing(fields: dict, first: int | None) -> None:
    assert timing_of(a_trigger(**fields)).next_fire(START) == first


@pytest.mark.parametrize(
    "fields",
    [
        {"expression": "gone"},
        {"syntax": Syntax.QUARTZ, "expression": "0 * * * *"},
        {"syntax": Syntax.ONCE, "expression": "soon"},
        {"zone": "Mars/Phobos"},
        {"syntax": Syntax.INTERVAL, "expression": "PT0S", "start_at": START},
    ],
)
def test_a_row_that_was_damaged_by_hand_is_invalid(fields: dict) -> None:
    with pytest.raises(Invalid):
        timing_of(a_trigger(**fields))


def test_an_interval_without_a_zone_counts_on_its_anchors_own_clock() -> None:
    trigger = a_trigger(syntax=Syntax.INTERVAL, expression="P1M", zone="+02:00", start_at=START)
    assert anchor_of(trigger).utcoffset() == timedelta(hours=2)
    assert timing_of(trigger).next_slot(START) == START + 31 * DAY


def test_an_offset_is_a_zone_to_show_times_in_and_a_name_is_none() -> None:
    assert offset_of("UTC") is None
    assert offset_of("") is None
    assert offset_of("-03:30").utcoffset(None) == -timedelta(hours=3, minutes=30)
    assert zone_of("+02:00").utcoffset(instant(START)) == timedelta(hours=2)
    assert zone_of("Europe/Berlin").utcoffset(instant(START)) == timedelta(hours=1)
