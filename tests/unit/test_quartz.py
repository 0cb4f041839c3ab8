"""Quartz: what is accepted, what it means, and when it fires.

400 vectors come from an oracle that shares no code with the product, checked against Java Quartz; 275 cases
from the tests of Quartz.NET and its users. Near changes of the clocks, `test_every_zone` has a third source.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kandev_sched.domain.errors import Invalid
from kandev_sched.policy import zones
from kandev_sched.policy.quartz import Quartz, parse

DATA = Path(__file__).parents[1] / "data"
VECTORS = json.loads((DATA / "quartz_vectors.json").read_text("utf-8"))["vectors"]
CASES = json.loads((DATA / "quartz_upstream_cases.json").read_text("utf-8"))["cases"]
SECOND = timedelta(seconds=1)
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def instants(*texts: str) -> list[datetime]:
    return [instant(text) for text in texts]


def first(quartz: Quartz, after: str, count: int) -> list[datetime]:
    return quartz.slots_between(instant(after), zones.LAST, count)


def refused(text: object, zone: str = "UTC") -> Invalid:
    with pytest.raises(Invalid) as caught:
        parse(text, zone)
    return caught.value


# ---- the oracle's vectors -------------------------------------------------------------------------


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["id"] for vector in VECTORS])
def test_the_slots_of_a_vector_are_found_forward_backward_and_by_counting(vector) -> None:
    quartz = parse(vector["expr"], vector["tz"])
    after, expected = instant(vector["after"]), instants(*vector["expected"])
    assert quartz.next_after(after) == (expected[0] if expected else None)
    assert quartz.slots_between(after, zones.LAST, len(expected) + vector["exhausted"]) == expected
    until = zones.LAST if vector["exhausted"] else expected[-1]
    assert quartz.latest_slots(after, until, 100) == expected
    assert quartz.count_between(after, until) == len(expected)


# ---- cases of Quartz.NET --------------------------------------------------------------------------

NO_HASH = "refused: H stands for a time chosen by hash, which no preview could show before creation"
STEP_OF_NAME = (
    "refused: the weeks of FRI/2 are counted from whenever one asks; an interval of P14D is anchored"
)
BOTH_DAYS = (
    "refused: only one of two versions takes both day fields, as a union that surprises (a * makes it daily)"
)
SKIPPED = "a time in a gap is skipped (on_gap), where Quartz.NET moves it: the row's expected_gap_skip"
ONCE = "a repeated time fires the first time only (on_repeat)"
DIFFERENT = {
    "Q027": STEP_OF_NAME,
    "Q028": STEP_OF_NAME,
    "Q073": ONCE,
    "Q074": BOTH_DAYS,
    "Q075": BOTH_DAYS,
    "Q076": BOTH_DAYS,
    "Q077": BOTH_DAYS,
    "Q078": BOTH_DAYS,
    "Q081": SKIPPED,
    "Q084": ONCE,
    "Q085": SKIPPED,
    "Q086": SKIPPED,
    "Q087": SKIPPED,
    "Q100": ONCE,
    "Q102": ONCE,
    "Q103": ONCE,
    "Q104": ONCE,
    "Q215": NO_HASH,
    "Q216": NO_HASH,
    "Q217": NO_HASH,
    "Q250": "refused: 30 February never comes",
    "Q271": SKIPPED,
}
# Where the row does not say what our rule gives: an answer of ours for it.
OURS = {
    "Q073": ["2023-10-29T00:59:00Z"],
    "Q100": [],
    "Q102": 1439,
    "Q103": 23,
    "Q104": 89,
}


def agrees(case) -> bool:
    """Whether the row is what we do."""
    try:
        quartz = parse(case["expr"], case.get("tz", "UTC"))
    except Invalid:
        return not case.get("valid", case.get("valid_with_hash_key"))
    if not case.get("valid", case.get("valid_with_hash_key")):
        return False
    return ANSWERS[case["kind"]](quartz, case)


def agrees_on_next(quartz: Quartz, case) -> bool:
    expected = instants(*case["expected"])
    return quartz.slots_between(instant(case["after"]), zones.LAST, len(expected) or 1) == expected


def matching(quartz: Quartz, texts: list[str]) -> list[str]:
    return [text for text in texts if quartz.count_between(instant(text) - SECOND, instant(text))]


def agrees_on_matches(quartz: Quartz, case) -> bool:
    return matching(quartz, case["at"]) == case["at"] and not matching(quartz, case["not_at"])


def count(quartz: Quartz, case) -> int:
    return quartz.count_between(instant(case["after"]), instant(case["until_exclusive"]) - SECOND)


def agrees_on_previous(quartz: Quartz, case) -> bool:
    before = instant(case["before"]) - SECOND
    return quartz.latest_slots(zones.FIRST, before, 1) == instants(*case["expected"])


ANSWERS = {
    "next": agrees_on_next,
    "matches": agrees_on_matches,
    "count": lambda quartz, case: count(quartz, case) == case["count"],
    "prev": agrees_on_previous,
    "validity": lambda quartz, case: True,
    "hash_validity": lambda quartz, case: True,
    "interval_semantics": lambda quartz, case: True,  # how two versions repeat; ours is on_repeat
}


@pytest.mark.parametrize("case", CASES, ids=[f"{case['id']} {case['expr']}" for case in CASES])
def test_a_case_of_quartz_net_is_answered_alike_or_differs_for_a_reason(case) -> None:
    assert agrees(case) != (case["id"] in DIFFERENT)


@pytest.mark.parametrize(
    "case", [case for case in CASES if "expected_gap_skip" in case], ids=lambda c: c["id"]
)
def test_where_quartz_net_shifts_or_repeats_our_rule_gives_what_the_case_says_for_it(case) -> None:
    expected = instants(*case["expected_gap_skip"])
    assert DIFFERENT[case["id"]] in (SKIPPED, ONCE)
    assert first(parse(case["expr"], case["tz"]), case["after"], len(expected)) == expected


@pytest.mark.parametrize("case", [case for case in CASES if case["id"] in OURS], ids=lambda c: c["id"])
def test_where_quartz_net_repeats_our_rule_fires_once(case) -> None:
    quartz = parse(case["expr"], case["tz"])
    ours = count(quartz, case) if case["kind"] == "count" else matching(quartz, case["at"])
    assert ours == OURS[case["id"]]


REFUSED_ROWS = [case for case in CASES if DIFFERENT.get(case["id"], "").startswith("refused")]


@pytest.mark.parametrize("case", REFUSED_ROWS, ids=lambda c: c["id"])
def test_what_quartz_net_takes_and_we_refuse_is_refused_with_a_hint(case) -> None:
    assert refused(case["expr"]).hint


# ---- the language ---------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [None, 5, b"0 0 9 * * ?", ["0 0 9 * * ?"], object], ids=repr)
def test_what_is_not_text_is_refused(value: object) -> None:
    assert "is text, not" in refused(value).message


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        pytest.param("0 0 9 ? * FRI/2", "'FRI/2' in the day-of-week field", "6/2; for every", id="week step"),
        pytest.param("0 0 9 ? * MON-FRI/2", "'MON-FRI/2' in the day-of-week", "2-6/2", id="step of days"),
        pytest.param("0 0 9 1 JAN/2 ?", "'JAN/2' in the month field has a step", "1/2", id="month step"),
        pytest.param("0 0 9 1 JAN-MAY/2 ?", "'JAN-MAY/2' in the month field", "1-5/2", id="step of months"),
        pytest.param("0 0 9 1 JANUARY ?", "'JANUARY' in the month field", "JAN", id="long name"),
        pytest.param("0 0 9 ? * 2-FRI", "'2-FRI' in the day-of-week field", "ranges", id="mixed range"),
        pytest.param("0 15,, * * * ?", "the minute field has an empty item", "1,3,5", id="empty items"),
        pytest.param("0 0 9 1, * ?", "the day-of-month field has an empty item", "1,3,5", id="empty date"),
        pytest.param(
            "*/0 * * * * ?", "'*/0' in the second field has a step of zero", "1 or more", id="by zero"
        ),
        pytest.param("0 0/0 * * * ?", "'0/0' in the minute field has a step of zero", "1 or more", id="0/0"),
        pytest.param("0 0-10/120 * * * ?", "'0-10/120' in the minute field", "1 to 59", id="step too wide"),
        pytest.param("0 0 9 * * *", "neither day field of", "? for the day-of-week", id="two stars"),
        pytest.param("0 0 9 1 * *", "neither day field of", "? for the day-of-week", id="date and star"),
        pytest.param("0 0 9 * * MON", "neither day field of", "? for the day-of-month", id="star and day"),
        pytest.param("0 0 9 13 * FRI", "restricts both", "two triggers", id="both days"),
        pytest.param("0 0 9 ? * ?", "both day fields", "*", id="two question marks"),
        pytest.param("0 ? 9 * * ?", "'?' in the minute field", "stands alone", id="misplaced question mark"),
        pytest.param("0 0 9 ?,1 * ?", "'?' in the day-of-month field", "stands alone", id="? in a list"),
        pytest.param(
            "0 0 9 ? * MON,L", "'L' in the day-of-week field must stand alone", "each", id="L in a list"
        ),
        pytest.param("0 0 9 ? * 2,6#3", "'6#3' in the day-of-week field must", "each", id="# in a list"),
        pytest.param("0 0 9 ? * 8#1", "'8' in the day-of-week field", "1 to 7", id="eighth day"),
        pytest.param(
            "0 0 9 ? * 6#6", "'6#6' in the day-of-week field names no week", "#1 to #5", id="sixth week"
        ),
        pytest.param("0 0 9 ? * 0", "'0' in the day-of-week field", "1 to 7", id="Sunday as in cron"),
        pytest.param("0 0 9 32W * ?", "'32' in the day-of-month field", "1 to 31", id="day 32"),
        pytest.param("0 0 9 L-31 * ?", "'31' in the day-of-month field", "0 to 30", id="L-31"),
        pytest.param("0 0 9 1 * ? 2030-2027", "runs backwards", "2027-2030", id="years backwards"),
        pytest.param("0 0 9 1 * ? 1969", "'1969' in the year field", "1970 to 2199", id="year"),
        pytest.param("0 0 9 1 L ?", "'L' in the month field", "JAN", id="last month"),
        pytest.param("H * * * * ?", "'H' in the second field", "numbers", id="hash"),
        pytest.param("0 9 * * 1-5", "is cron, not quartz", "--cron", id="cron"),
        pytest.param("@daily", "is cron, not quartz", "--cron", id="macro"),
        pytest.param("0 0 9", "3 fields", "six fields", id="three fields"),
        pytest.param("", "no fields", "six fields", id="empty"),
        pytest.param("0 0 9 * * ? 2027 x", "8 fields", "six fields", id="eight fields"),
        pytest.param("0 0 0 30 2 ?", "'0 0 0 30 2 ?' never fires", "no date", id="30 February"),
        pytest.param("0 0 0 29 2 ? 2027", "never fires", "no date", id="no leap year"),
        pytest.param("0 0 0 ? 2 6#5 2027", "never fires", "no date", id="no fifth Friday"),
        pytest.param("0 0 0 L-30 2 ?", "never fires", "no date", id="30 days before the end of February"),
        pytest.param("0\n0 9 * * ?", "'\\n'", "ASCII", id="newline"),
        pytest.param("0 0 9 * * ?\u00a0", "'\\xa0'", "ASCII", id="no-break space"),
        pytest.param("0 0 9 \u0661 * ?", "'\\u0661'", "ASCII", id="arabic digit"),
        pytest.param("*" * 513, "513 characters", "ranges", id="too long"),
    ],
)
def test_each_kind_of_refusal_says_what_is_wrong_and_what_would_be_right(
    text: str, message: str, hint: str
) -> None:
    error = refused(text)
    assert message in error.message
    assert hint in (error.hint or "")
    assert "\n" not in error.message
    assert len(error.message) < 150


def test_a_time_that_a_zone_skips_in_its_only_year_never_fires() -> None:
    text = "0 30 2 29 3 ? 2026"
    assert "Europe/Berlin skips that time" in (refused(text, "Europe/Berlin").hint or "")
    assert parse(text, "UTC")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(" 0 0 9 * * ? ", id="outer blanks"),
        pytest.param("0\t0   9 * * ?", id="tabs and blanks"),
        pytest.param("0 0 9 ? jan-feb mon-fri", id="names in lower case"),
        pytest.param("0 0 9 lw * ?", id="letters in lower case"),
        pytest.param("00 00 09 01 01 ? 2027", id="leading zeros"),
        pytest.param("/5 /5 /5 /5 /5 ? /5", id="bare steps"),
        pytest.param("0 0 9 * * ? *", id="every year"),
    ],
)
def test_what_quartz_writes_otherwise_is_accepted(text: str) -> None:
    quartz = parse(text, "")
    assert (quartz.text, quartz.zone) == (text.strip(), "UTC")


def test_an_unknown_zone_is_refused_with_a_suggestion() -> None:
    assert refused("0 0 9 * * ?", "Asia/Shangai").hint == "did you mean Asia/Shanghai?"


def test_a_quartz_is_an_immutable_value_read_once() -> None:
    quartz = parse("0 0 9 LW * ?", "Europe/Berlin")
    assert quartz is parse("0 0 9 LW * ?", "Europe/Berlin")
    assert quartz != parse("0 0 9 LW * ?", "Europe/Paris")
    with pytest.raises(AttributeError):
        quartz.zone = "UTC"  # type: ignore[misc]


# ---- meaning --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "days"),
    [
        pytest.param("0 0 12 ? * 1", [7, 14, 21], id="one is Sunday"),
        pytest.param("0 0 12 ? * 2", [1, 8, 15], id="two is Monday"),
        pytest.param("0 0 12 ? * FRI-MON", [1, 5, 6, 7, 8], id="over the weekend"),
        pytest.param("0 0 12 28-3 * ?", [1, 2, 3, 28, 29, 30], id="over the end of the month"),
        pytest.param("0 0 12 ? * L", [6, 13, 20], id="L alone is Saturday"),
        pytest.param("0 0 12 ? * FRIL", [26], id="the last Friday"),
        pytest.param("0 0 12 ? * 6#3", [19], id="the third Friday"),
        pytest.param("0 0 12 L * ?", [30], id="the last day"),
        pytest.param("0 0 12 L-3,15 * ?", [15, 27], id="three days before the last, and the 15th"),
        pytest.param("0 0 12 6W * ?", [5], id="a Saturday moves back"),
        pytest.param("0 0 12 7W,28W * ?", [8, 29], id="Sundays move on"),
        pytest.param("0 0 12 L-2W * ?", [29], id="a Sunday near the end moves on"),
        pytest.param("0 0 12 LW-10 * ?", [20], id="days before the last weekday are any days"),
        pytest.param("0 0 12 1/10 * ?", [1, 11, 21], id="every ten days from the first"),
    ],
)
def test_the_day_fields_are_read_as_quartz_does(text: str, days: list[int]) -> None:
    june = [datetime(2026, 6, day, 12, tzinfo=UTC) for day in days]
    assert first(parse(text, "UTC"), "2026-06-01T00:00Z", len(days)) == june


def test_a_nearest_weekday_stays_in_its_month() -> None:
    ends = first(parse("0 0 12 31W * ?", "UTC"), "2026-05-01T00:00Z", 2)
    assert ends == instants("2026-05-29T12:00Z", "2026-06-30T12:00Z")
    assert first(parse("0 0 12 1W 8 ?", "UTC"), "2026-05-01T00:00Z", 1) == instants("2026-08-03T12:00Z")


def test_over_midnight_and_over_new_year_ranges_wrap() -> None:
    quartz = parse("0 0 22-2/2 1 NOV-FEB ?", "UTC")
    hours = instants("2026-11-01T00:00Z", "2026-11-01T02:00Z", "2026-11-01T22:00Z", "2026-12-01T00:00Z")
    assert first(quartz, "2026-03-01T00:00Z", 4) == hours


def test_years_end_a_schedule() -> None:
    quartz = parse("0 0 0 1 1 ? 2027,2030", "UTC")
    assert first(quartz, "2026-01-01T00:00Z", 9) == instants("2027-01-01T00:00Z", "2030-01-01T00:00Z")
    assert quartz.next_after(instant("2030-01-01T00:00Z")) is None
    assert quartz.count_between(zones.FIRST, zones.LAST) == 2
    assert quartz.latest_slots(zones.FIRST, zones.LAST, 9) == instants(
        "2027-01-01T00:00Z", "2030-01-01T00:00Z"
    )


def test_a_leap_day_that_is_a_fifth_monday_is_found_over_a_century() -> None:
    quartz = parse("0 0 0 ? 2 2#5", "UTC")
    assert first(quartz, "2072-03-01T00:00Z", 1) == instants("2112-02-29T00:00Z")
    assert quartz.latest_slots(zones.FIRST, instant("2112-02-28T00:00Z"), 1) == instants("2072-02-29T00:00Z")


def test_an_instant_within_a_second_is_after_the_slot_of_that_second() -> None:
    quartz = parse("* * * * * ?", "UTC")
    assert quartz.next_after(instant("2026-01-01T00:00:00.5Z")) == instant("2026-01-01T00:00:01Z")
    assert quartz.next_after(instant("2026-01-01T00:00:00Z")) == instant("2026-01-01T00:00:01Z")


def test_fifty_years_of_seconds_are_counted_exactly_and_their_newest_found_without_a_walk() -> None:
    """1.6 thousand million slots."""
    quartz = parse("* * * * * ?", "America/New_York")
    after, until = instants("2026-12-01T09:00Z", "2076-12-01T09:00Z")
    began = time.process_time()
    assert quartz.count_between(after, until) == (until - after) // SECOND - 50 * 3600
    assert quartz.latest_slots(after, until, 2) == [until - SECOND, until]
    assert time.process_time() - began < 1


# ---- properties -----------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="0123456789*/-,? LW#HMONFRISJ", max_size=30))
def test_any_text_is_either_refused_or_fires(text: str) -> None:
    try:
        quartz = parse(text, "UTC")
    except Invalid:
        return
    assert quartz.next_after(zones.FIRST)


@st.composite
def expressions(draw: st.DrawFn) -> str:
    """Parts of the vectors, put together anew."""
    columns = list(zip(*(vector["expr"].split()[:6] for vector in VECTORS), strict=True))
    parts = [draw(st.sampled_from(sorted(set(column)))) for column in columns[:3]]
    days = draw(st.sampled_from(sorted({tuple(vector["expr"].split()[3:6]) for vector in VECTORS})))
    return " ".join([*parts, *days])


@settings(max_examples=100, deadline=None)
@given(
    expressions(),
    st.sampled_from(["UTC", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca"]),
    st.datetimes(datetime(1950, 1, 1), datetime(2150, 1, 1)),  # noqa: DTZ001
    st.integers(0, 400),
)
def test_walking_forward_looking_back_and_counting_agree(
    text: str, zone: str, start: datetime, count: int
) -> None:
    quartz, after = parse(text, zone), start.replace(tzinfo=UTC)
    slots = quartz.slots_between(after, zones.LAST, count)
    until = slots[-1] if slots else after
    assert quartz.latest_slots(after, until, count) == slots
    assert quartz.count_between(after, until) == len(slots)
    for slot, later in pairwise(slots):
        assert slot < later
        assert quartz.next_after(slot + (later - slot) / 2) == later


# ---- words ----------------------------------------------------------------------------------------

SAID = [
    ("* * * * * ?", "Every second"),
    ("*/10 * * * * ?", "Every 10 seconds"),
    ("30 * * * * ?", "At second 30 of every minute"),
    ("30 * 9 * * ?", "At second 30 of every minute in hour 9"),
    ("*/10 0-5 9-17 * * ?", "Every 10 seconds in minutes 0 to 5 of hours 9 to 17"),
    ("0 0/15 9-17 ? * MON-FRI", "Every 15 minutes in hours 9 to 17 on Monday to Friday"),
    ("0 0 9 * * ?", "At 09:00 every day"),
    ("15,45 59 23 * * ?", "At 23:59:15 and 23:59:45 every day"),
    ("0 0 9 LW * ?", "At 09:00 on the last weekday of the month"),
    ("0 0 9 L * ?", "At 09:00 on the last day of the month"),
    (
        "0 0 9 1,15W,L-2 * ?",
        "At 09:00 on day 1, the day 2 days before the last day and the weekday nearest day 15 of the month",
    ),
    ("0 0 9 L-1W * ?", "At 09:00 on the weekday nearest to the day 1 day before the last day of the month"),
    ("0 0 9 LW-2 * ?", "At 09:00 on the day 2 days before the last weekday of the month"),
    ("0 0 9 ? * 6#3", "At 09:00 on the third Friday of the month"),
    ("0 0 9 ? * 2L", "At 09:00 on the last Monday of the month"),
    ("0 0 9 ? * L", "At 09:00 on Saturday"),
    ("0 0 9 1 1 ? 2027-2030", "At 09:00 on day 1 of the month, in January only, in 2027 to 2030 only"),
]


@pytest.mark.parametrize(("text", "said"), SAID, ids=[row[0] for row in SAID])
def test_a_schedule_is_explained_in_a_sentence(text: str, said: str) -> None:
    assert parse(text, "Europe/Berlin").explain() == f"{said}, Europe/Berlin time."
