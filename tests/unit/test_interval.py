"""Intervals: which durations are accepted, and where their slots lie."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kandev_sched.domain.errors import Invalid
from kandev_sched.policy import zones
from kandev_sched.policy.interval import Interval, parse

DATA = Path(__file__).parents[1] / "data"
ROWS = json.loads((DATA / "interval_vectors.json").read_text("utf-8"))
CALENDAR = json.loads((DATA / "quartz_upstream_cases.json").read_text("utf-8"))["calendar_interval_cases"]
DURATIONS = json.loads((DATA / "quartz_upstream_cases.json").read_text("utf-8"))["xsd_duration_cases"]
START = "2026-01-01T00:00:00Z"


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def instants(*texts: str) -> list[datetime]:
    return [instant(text) for text in texts]


def refused(every: object, start_at: object = START, zone: str | None = None) -> Invalid:
    with pytest.raises(Invalid) as caught:
        parse(every, start_at, zone)
    return caught.value


# ---- the oracle's vectors -------------------------------------------------------------------------


@pytest.mark.parametrize("vector", ROWS["vectors"], ids=[vector["id"] for vector in ROWS["vectors"]])
def test_the_slots_of_a_vector_are_found_forward_backward_and_by_counting(vector) -> None:
    interval = parse(vector["every"], vector["startAt"], vector["tz"])
    after, expected = instant(vector["after"]), instants(*vector["expected"])
    assert interval.next_after(after) == expected[0]
    assert interval.slots_between(after, zones.LAST, len(expected)) == expected
    assert interval.latest_slots(after, expected[-1], 100) == expected
    assert interval.count_between(after, expected[-1]) == len(expected)
    assert interval.skipped_between(after, zones.LAST, 100) == []


@pytest.mark.parametrize(
    "row", ROWS["invalid"], ids=[f"{row['every']!a:.30} {row['reason']}" for row in ROWS["invalid"]]
)
def test_an_invalid_duration_is_refused_in_one_short_sentence_with_a_hint(row) -> None:
    error = refused(row["every"])
    assert "\n" not in error.message
    assert len(error.message) < 150
    assert error.hint


# ---- cases of Quartz.NET and of .NET --------------------------------------------------------------

MOVED = "we move a time in a gap forward by the gap (02:01 to 02:31), Quartz.NET to its end (02:30)"
NOT_SKIPPED = "a day whose time does not exist moves forward; Quartz.NET can leave it out instead"
DIFFERENT = {
    "CI09": NOT_SKIPPED,
    "CI10": NOT_SKIPPED,
    "CI11": NOT_SKIPPED,
    "CI12": NOT_SKIPPED,
    "CI23": NOT_SKIPPED,
    "CI27": MOVED,
}
UNITS = {
    "year": "P{}Y",
    "month": "P{}M",
    "week": "P{}W",
    "day": "P{}D",
    "hour": "PT{}H",
    "minute": "PT{}M",
    "second": "PT{}S",
}


@pytest.mark.parametrize("case", CALENDAR, ids=[case["id"] for case in CALENDAR])
def test_a_calendar_interval_of_quartz_net_has_the_same_slots_or_differs_for_a_reason(case) -> None:
    zone = case["tz"] if case["preserve_wall_clock"] else None
    interval = parse(UNITS[case["unit"]].format(case["every"]), case["start"], zone)
    first, expected = case["expected_from_index"], instants(*case["expected"])
    slots = interval.slots_between(
        instant(case["start"]) - timedelta(seconds=1), zones.LAST, first + len(expected)
    )
    assert (slots[first:] == expected) != (case["id"] in DIFFERENT)


@pytest.mark.parametrize(
    "row",
    [row for row in DURATIONS if row["seconds"] is None and "W" not in row["every"]],
    ids=lambda row: row["every"],
)
def test_what_dotnet_refuses_as_a_duration_is_refused(row) -> None:
    assert refused(row["every"]).hint


def test_a_month_is_a_month_of_the_calendar_and_not_30_days() -> None:
    interval = parse("P1M", "2026-01-31T09:00:00+01:00", "Europe/Paris")
    assert interval.slots_between(interval.start_at, zones.LAST, 3) == instants(
        "2026-02-28T09:00+01:00", "2026-03-31T09:00+02:00", "2026-04-30T09:00+02:00"
    )


# ---- reading --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("every", "start_at", "zone", "message", "hint"),
    [
        pytest.param("1h", START, None, "interval '1h' cannot be read", "PT15M", id="not ISO"),
        pytest.param("PT0S", START, None, "is zero", "PT1S", id="zero"),
        pytest.param("P9999Y", START, None, "is too long", "9999", id="too long"),
        pytest.param("P" + "1" * 600 + "D", START, None, "602 characters", "ISO-8601", id="too many digits"),
        pytest.param(5, START, None, "is text, not 5", "ISO-8601", id="a number"),
        pytest.param("P1D", None, None, "the start is a text or a datetime", "Z for UTC", id="no start"),
        pytest.param(
            "P1D", "soon", None, "the start 'soon' cannot be read", "Z for UTC", id="start in words"
        ),
        pytest.param(
            "P1D", "2026-01-01T00:00:00", None, "neither offset nor zone", "give a zone", id="naive"
        ),
        pytest.param("P1D", "2026-02-30T00:00Z", None, "does not exist", "Z for UTC", id="no such date"),
        pytest.param("P1D", "2026-01-01T00:00:00.0001Z", None, "too fine", "milliseconds", id="too fine"),
        pytest.param("P1D", "9999-06-01T00:00Z", None, "outside the calendar", "9998", id="year 9999"),
        pytest.param("P1D", START, "Europe/Berln", "'Europe/Berln' is not in", "Europe/Berlin", id="zone"),
        pytest.param(
            "P1D",
            "2026-03-29T02:30",
            "Europe/Berlin",
            "does not exist in Europe/Berlin",
            "02:30:00+01:00",
            id="gap",
        ),
        pytest.param(
            "P1D",
            "2026-10-25T02:30",
            "Europe/Berlin",
            "comes twice in Europe/Berlin",
            "02:30:00+02:00 or",
            id="repeat",
        ),
    ],
)
def test_each_kind_of_refusal_says_what_is_wrong_and_what_would_be_right(
    every: object, start_at: object, zone: str | None, message: str, hint: str
) -> None:
    error = refused(every, start_at, zone)
    assert message in error.message
    assert hint in (error.hint or "")
    assert len(error.message) < 150


def test_a_start_without_offset_is_on_the_clock_of_the_zone() -> None:
    interval = parse("P1D", "2026-07-01 09:00", "Asia/Tokyo")
    assert interval.start_at == instant("2026-07-01T00:00Z")
    assert (interval.text, interval.zone) == ("P1D", "Asia/Tokyo")


def test_a_start_given_as_a_datetime_keeps_its_own_offset() -> None:
    east, west = (datetime(2026, 1, 31, 20, tzinfo=timezone(timedelta(hours=h))) for h in (2, -5))
    same = east.astimezone(west.tzinfo)
    assert parse("P1M", east, None).zone == "+02:00"
    assert parse("P1M", same, None).zone == "-05:00"
    assert parse("P1M", datetime(2026, 1, 31, tzinfo=UTC), None).zone == "UTC"


def test_an_interval_is_an_immutable_value_read_once() -> None:
    interval = parse("P1D", START, "Europe/Berlin")
    assert interval is parse("P1D", START, "Europe/Berlin")
    with pytest.raises(AttributeError):
        interval.zone = "UTC"  # type: ignore[misc]


# ---- slots ----------------------------------------------------------------------------------------


def test_the_anchor_is_the_first_slot_even_inside_the_second_of_two_hours() -> None:
    start = instant("2026-11-01T01:30:00-05:00")
    for every in ("P1D", "PT30M", "P1DT1H"):
        interval = parse(every, start, "America/New_York")
        assert interval.next_after(instant("2020-01-01T00:00Z")) == start
        assert interval.latest_slots(zones.FIRST, start, 9) == [start]
    assert parse("PT30M", start, "America/New_York").next_after(start) == start + timedelta(minutes=30)


def test_passing_time_does_not_care_for_the_clock_and_days_do() -> None:
    start, after = "2026-03-28T12:00:00+01:00", instant("2026-03-28T11:00Z")
    assert parse("PT24H", start, "Europe/Berlin").next_after(after) == instant("2026-03-29T11:00Z")
    assert parse("P1D", start, "Europe/Berlin").next_after(after) == instant("2026-03-29T10:00Z")


def test_the_slots_of_a_skipped_day_and_of_the_day_after_are_one() -> None:
    interval = parse("P1D", "2011-12-28T12:00:00-10:00", "Pacific/Apia")
    after, until = instants("2011-12-28T00:00Z", "2012-01-03T22:00Z")
    slots = interval.slots_between(after, until, 99)
    assert slots == [instant("2011-12-28T22:00Z") + timedelta(days=n) for n in range(7)]
    assert interval.latest_slots(after, until, 99) == slots
    assert interval.count_between(after, until) == 7
    assert interval.count_between(slots[0], slots[1]) == 1
    assert interval.count_between(slots[1], slots[2]) == 1


@pytest.mark.parametrize("every", ["PT1S", "P1D", "P1M"])
def test_thousands_of_years_cost_no_walk(every: str) -> None:
    interval = parse(every, "1970-01-01T00:00:00Z", "America/New_York")
    began = time.process_time()
    assert interval.count_between(zones.FIRST, zones.LAST) > 90_000
    assert len(interval.latest_slots(zones.FIRST, zones.LAST, 3)) == 3
    assert time.process_time() - began < 1


def test_at_the_end_of_time_there_is_no_next_slot() -> None:
    interval = parse("P1Y", START, None)
    assert interval.next_after(zones.LAST) is None
    assert interval.next_after(instant("9998-06-01T00:00Z")) == zones.LAST
    assert interval.next_after(datetime.max.replace(tzinfo=UTC)) is None


def test_an_empty_or_backward_span_and_a_limit_below_one_give_nothing() -> None:
    interval, (early, late) = parse("PT1H", START, None), instants("2026-02-01T00:00Z", "2026-03-01T00:00Z")
    for after, until in ((early, early), (late, early)):
        assert interval.slots_between(after, until, 9) == interval.latest_slots(after, until, 9) == []
        assert interval.count_between(after, until) == 0
    assert interval.slots_between(early, late, 0) == interval.latest_slots(early, late, -1) == []


# ---- properties -----------------------------------------------------------------------------------

ZONES = [
    None,
    "UTC",
    "America/New_York",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Pacific/Kwajalein",
    "Africa/Cairo",
]


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    """Any duration that is not too small for a walk."""
    years, months, days = draw(st.integers(0, 2)), draw(st.integers(0, 14)), draw(st.integers(0, 40))
    hours, minutes, seconds = draw(st.integers(0, 50)), draw(st.integers(0, 90)), draw(st.integers(0, 90))
    parts = draw(st.sets(st.sampled_from("YMDhms"), min_size=1))
    date = "".join(f"{n}{u}" for n, u in ((years, "Y"), (months, "M"), (days, "D")) if u in parts)
    clock = "".join(
        f"{n}{u.upper()}" for n, u in ((hours, "h"), (minutes, "m"), (seconds, "s")) if u in parts
    )
    assume(any(n for n, u in ((years, "Y"), (months, "M"), (days, "D"), (hours, "h")) if u in parts))
    start = draw(st.datetimes(datetime(1960, 1, 1), datetime(2040, 1, 1)))  # noqa: DTZ001
    start = start.replace(microsecond=0, tzinfo=UTC)
    return parse(f"P{date}{'T' * bool(clock)}{clock}", start, draw(st.sampled_from(ZONES)))


def brute_force(interval: Interval, count: int) -> list[datetime]:
    """The first slots, each computed from the anchor one month at a time."""
    anchor, slots = interval.start_at, []
    for number in range(count):
        year, month = anchor.year, anchor.month
        for _ in range(number * interval.months):
            year, month = (year, month + 1) if month < 12 else (year + 1, 1)
        day = anchor.day
        while True:
            try:
                wall = datetime(year, month, day, anchor.hour, anchor.minute, anchor.second)  # noqa: DTZ001
                break
            except ValueError:
                day -= 1
        wall += timedelta(days=number * interval.days)
        moved = number and (interval.months or interval.days)
        at = wall.replace(tzinfo=anchor.tzinfo) if moved else anchor
        slots.append(at.astimezone(UTC) + timedelta(seconds=number * interval.seconds))
    return sorted({*slots})


@settings(max_examples=150, deadline=None)
@given(intervals(), st.integers(0, 30), st.integers(1, 10))
def test_all_answers_agree_with_slots_computed_one_by_one(interval: Interval, skip: int, limit: int) -> None:
    slots = brute_force(interval, 40)
    before = slots[0] - timedelta(days=400)
    assert interval.slots_between(before, zones.LAST, 35) == slots[:35]
    after = slots[skip]
    assert interval.next_after(after) == slots[skip + 1]
    assert interval.next_after(after - timedelta(microseconds=1)) == after
    assert interval.count_between(before, after) == skip + 1
    assert interval.count_between(after, slots[35]) == 35 - skip
    assert interval.latest_slots(before, after, limit) == slots[: skip + 1][-limit:]


@settings(max_examples=100, deadline=None)
@given(intervals(), st.datetimes(datetime(1900, 1, 1), datetime(9000, 1, 1)))  # noqa: DTZ001
def test_far_from_the_anchor_the_next_slot_is_the_next_of_any_instant_before_it(
    interval: Interval, asked: datetime
) -> None:
    after = asked.replace(tzinfo=UTC)
    slot = interval.next_after(after)
    assert slot is not None
    assert slot > after
    assert interval.count_between(after, slot) == 1
    assert interval.latest_slots(after, slot, 9) == [slot]
    assert interval.next_after(after + (slot - after) / 2) == slot


# ---- words ----------------------------------------------------------------------------------------

SAID = [
    ("PT15M", None, "Every 15 minutes from Thursday, 1 January 2026 at 00:00 (UTC)."),
    ("PT1H", None, "Every hour from Thursday, 1 January 2026 at 00:00 (UTC)."),
    ("P1W", None, "Every week from Thursday, 1 January 2026 at 00:00 (UTC)."),
    ("P1D", "Asia/Tokyo", "Every day from Thursday, 1 January 2026 at 09:00 (+09:00), Asia/Tokyo time."),
    ("P1DT12H", None, "Every 1 day and 12 hours from Thursday, 1 January 2026 at 00:00 (UTC)."),
    ("P13M", None, "Every 1 year and 1 month from Thursday, 1 January 2026 at 00:00 (UTC)."),
]


@pytest.mark.parametrize(("every", "zone", "said"), SAID, ids=[row[0] for row in SAID])
def test_a_schedule_is_explained_in_a_sentence(every: str, zone: str | None, said: str) -> None:
    assert parse(every, START, zone).explain() == said
