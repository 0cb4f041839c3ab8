"""Cron: what is accepted, what it means, and when it fires.

The 900 vectors come from an oracle that shares no code with the product (tests/data/cron_vectors.json).
The properties compare with a second one: a walk over every UTC minute near a change of the clocks.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kandev_sched.domain.errors import Invalid
from kandev_sched.policy import zones
from kandev_sched.policy.cron import Cron, parse

DATA = Path(__file__).parents[1] / "data"
VECTORS = json.loads((DATA / "cron_vectors.json").read_text("utf-8"))["vectors"]
TEXTS = json.loads((DATA / "cron_invalid.json").read_text("utf-8"))
MINUTE = timedelta(minutes=1)
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def instants(*texts: str) -> list[datetime]:
    return [instant(text) for text in texts]


def walls(*texts: str) -> list[datetime]:
    return [datetime.fromisoformat(text) for text in texts]


def first(cron: Cron, after: str, count: int) -> list[datetime]:
    return cron.slots_between(instant(after), zones.LAST, count)


def refused(text: object) -> Invalid:
    with pytest.raises(Invalid) as caught:
        parse(text, "UTC")
    return caught.value


# ---- the oracle's vectors -------------------------------------------------------------------------


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["id"] for vector in VECTORS])
def test_the_slots_of_a_vector_are_found_forward_backward_and_by_counting(vector: dict[str, str]) -> None:
    cron = parse(vector["expr"], vector["tz"])
    after, expected = instant(vector["after"]), instants(*vector["expected"])
    assert cron.next_after(after) == expected[0]
    assert cron.slots_between(after, zones.LAST, len(expected)) == expected
    assert cron.slots_between(after, expected[-1], 100) == expected
    assert cron.latest_slots(after, expected[-1], 100) == expected
    assert cron.count_between(after, expected[-1]) == len(expected)


# ---- the language ---------------------------------------------------------------------------------

ACCEPTED = TEXTS["must_accept"]
REFUSED = TEXTS["invalid"]  # every row, those of tier "policy" too: none contradicts behaviour.md


@pytest.mark.parametrize("row", ACCEPTED, ids=[ascii(row["expr"])[:40] for row in ACCEPTED])
def test_a_legal_expression_that_others_get_wrong_is_read_right(row: dict[str, str]) -> None:
    expected = instants(*row["first_fires_utc"])
    cron = parse(row["expr"], "")
    assert cron.slots_between(NEW_YEAR, zones.LAST, len(expected)) == expected
    assert (cron.text, cron.zone) == (row["expr"].strip(), "UTC")


@pytest.mark.parametrize(
    "row", REFUSED, ids=[f"{ascii(row['expr'])[:40]} {row['reason']}" for row in REFUSED]
)
def test_anything_else_is_refused_in_one_short_sentence_with_a_hint(row: dict[str, str]) -> None:
    error = refused(row["expr"])
    assert "\n" not in error.message
    assert len(error.message) < 150
    assert error.hint


@pytest.mark.parametrize("value", [None, 5, 5.0, b"* * * * *", ["* * * * *"], {}, object], ids=repr)
def test_what_is_not_text_is_refused(value: object) -> None:
    assert "is text, not" in refused(value).message


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        pytest.param("0 0 12 * * ?", "6 fields", "--quartz", id="six fields"),
        pytest.param("0 0 12 1 1 ? 2027", "7 fields", "--quartz", id="seven fields"),
        pytest.param("0 0 L * *", "'L' in the day-of-month field", "--quartz", id="last day"),
        pytest.param("0 0 15W * *", "'15W' in the day-of-month field", "--quartz", id="nearest weekday"),
        pytest.param("0 0 * * FRIL", "'FRIL' in the day-of-week field", "--quartz", id="last friday"),
        pytest.param("0 0 * * 5#3", "'5#3' in the day-of-week field", "--quartz", id="third friday"),
        pytest.param("0 0 ? * 1", "'?' in the day-of-month field", "--quartz", id="question mark"),
        pytest.param("@reboot", "names no time", "manual trigger", id="reboot"),
        pytest.param("@every 1h30m", "is an interval", "--every PT1H30M", id="every"),
        pytest.param("@every soon", "is an interval", "such as PT5M", id="every without a duration"),
        pytest.param("TZ=Asia/Tokyo 0 9 * * *", "time zone", "--tz Asia/Tokyo with '0 9 * * *'", id="zone"),
        pytest.param("@fortnightly", "'@fortnightly'", "@hourly", id="unknown macro"),
        pytest.param("daily", "one field", "did you mean @daily?", id="macro without at"),
        pytest.param("* * * *", "4 fields", "minute hour day-of-month month day-of-week", id="four fields"),
        pytest.param("", "no fields", "write five fields", id="empty"),
        pytest.param("0 0 * * * /bin/true", "'/bin/true'", "without", id="command"),
        pytest.param("0 22-2 * * *", "'22-2' in the hour field", "22-23,0-2", id="over midnight"),
        pytest.param(
            "0 22-2/2 * * *",
            "'22-2/2' in the hour field",
            "22-23,0-2, each with its own step",
            id="over midnight by two",
        ),
        pytest.param("0 0 * * FRI-MON", "'FRI-MON'", "FRI-SAT,SUN-MON", id="over the weekend"),
        pytest.param("0 0 1 NOV-FEB *", "'NOV-FEB'", "NOV-DEC,JAN-FEB", id="over new year"),
        pytest.param("0 0 * * 7-2", "'7-2'", "0-2", id="from sunday as seven"),
        pytest.param("61 * * * *", "'61' in the minute field", "0 to 59", id="out of range"),
        pytest.param("*/0 * * * *", "'*/0' in the minute field", "1 or more", id="step of zero"),
        pytest.param("0 0 * * monday", "'monday' in the day-of-week field", "MON", id="long name"),
        pytest.param("MON * * * *", "'MON' in the minute field", "only numbers", id="name out of place"),
        pytest.param("1,,2 * * * *", "the minute field", "1,3,5", id="empty item"),
        pytest.param("5.0 * * * *", "'5.0' in the minute field", "ranges 1-5", id="unreadable"),
        pytest.param("0\u00a00 * * *", "'\\xa0'", "ASCII", id="no-break space"),
        pytest.param("0 0 30 2 *", "'0 0 30 2 *' never fires", "29 days", id="never"),
        pytest.param("*" * 513, "513 characters", "ranges", id="too long"),
    ],
)
def test_each_kind_of_refusal_says_what_is_wrong_and_what_would_be_right(
    text: str, message: str, hint: str
) -> None:
    error = refused(text)
    assert message in error.message
    assert hint in (error.hint or "")


@pytest.mark.parametrize("suggested", ["FRI-SAT,SUN-MON", "5-6,0-1", "0-2"])
def test_a_suggested_pair_of_ranges_can_be_taken(suggested: str) -> None:
    assert parse(f"0 0 * * {suggested}", "UTC")


def test_the_longest_text_is_accepted() -> None:
    text = "0,".ljust(503, "0") + " * * * *"
    assert len(text) == 511
    assert first(parse(text + " ", "UTC"), "2026-01-01T00:00Z", 1) == instants("2026-01-01T01:00Z")


def test_an_unknown_zone_is_refused_with_a_suggestion() -> None:
    with pytest.raises(Invalid) as error:
        parse("0 9 * * *", "Asia/Shangai")
    assert error.value.hint == "did you mean Asia/Shanghai?"


def test_a_cron_is_an_immutable_value_read_once() -> None:
    cron = parse(" 0 9 * * 1-5 ", "Europe/Berlin")
    assert (cron.text, cron.zone) == ("0 9 * * 1-5", "Europe/Berlin")
    assert cron is parse(" 0 9 * * 1-5 ", "Europe/Berlin")
    with pytest.raises(AttributeError):
        cron.zone = "UTC"  # type: ignore[misc]


def test_reading_and_importing_cost_no_croniter() -> None:
    code = "import sys; from kandev_sched.policy import cron; cron.parse('@daily', ''); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "croniter" not in loaded.split()


# ---- meaning: cases from the field ----------------------------------------------------------------

WEEK = "2026-06-01T00:00Z"  # just before Monday, 1 June 2026, 12:00


@pytest.mark.parametrize(
    ("text", "days"),
    [
        pytest.param("0 12 1-31 * 1", [1, 2, 3, 4, 5, 6, 7], id="TZ-10 a full range restricts, so OR"),
        pytest.param("0 12 */1 * 1", [1, 8, 15], id="TZ-10 a star with a step does not restrict"),
        pytest.param("0 12 */2 * 1", [1, 15, 29], id="TZ-16 odd days that are Mondays"),
        pytest.param("0 12 13 * 5", [5, 12, 13, 19, 26], id="TZ-10 the 13th and Fridays"),
        pytest.param("0 12 * * 7", [7, 14, 21], id="TZ-16 seven is Sunday"),
        pytest.param("0 12 * * 5-7", [5, 6, 7, 12], id="TZ-11 Friday to Sunday by number"),
        pytest.param("0 12 * * fri-Sun", [5, 6, 7, 12], id="TZ-11 Friday to Sunday by name"),
        pytest.param("0 12 * * 2/2", [2, 4, 6, 9], id="TZ-11 from Tuesday by two"),
        pytest.param("0 12 * * 1-7", [1, 2, 3, 4, 5, 6, 7, 8], id="TZ-11 every day"),
        pytest.param("0 12 * * */7", [7, 14, 21], id="TZ-11 star by seven is Sunday"),
    ],
)
def test_the_day_fields_are_read_as_crontab_does(text: str, days: list[int]) -> None:
    expected = [datetime(2026, 6, day, 12, tzinfo=UTC) for day in days]
    assert first(parse(text, "UTC"), WEEK, len(days)) == expected


def test_a_daily_job_fires_once_when_its_time_comes_twice() -> None:
    """TZ-01, autumn: at the first occurrence."""
    cron = parse("30 2 * * *", "Europe/Berlin")
    assert first(cron, "2026-10-24T12:00Z", 2) == instants("2026-10-25T00:30Z", "2026-10-26T01:30Z")
    assert first(cron, "2026-10-25T00:30Z", 1) == instants("2026-10-26T01:30Z")


def test_a_daily_job_is_skipped_when_its_time_does_not_come_and_the_skip_can_be_shown() -> None:
    """TZ-01 and TZ-02, spring."""
    cron = parse("30 2 * * *", "Europe/Berlin")
    after, until = instants("2026-03-28T12:00Z", "2026-03-30T12:00Z")
    assert cron.slots_between(after, until, 9) == instants("2026-03-30T00:30Z")
    assert cron.skipped_between(after, until, 9) == walls("2026-03-29T02:30")
    assert cron.skipped_between(after, instant("2026-03-29T00:59:59Z"), 9) == []
    assert cron.skipped_between(instant("2026-03-29T01:00Z"), until, 9) == []


def test_an_hourly_job_fires_24_times_on_the_day_of_25_hours() -> None:
    """TZ-03."""
    cron = parse("0 * * * *", "Europe/Berlin")
    assert cron.count_between(*instants("2026-10-24T21:59Z", "2026-10-25T22:59Z")) == 24


def test_a_heartbeat_pauses_for_the_repeated_hour() -> None:
    """TZ-15: the price of one fire a slot."""
    cron = parse("*/5 * * * *", "Europe/Berlin")
    assert first(cron, "2026-10-25T00:55Z", 1) == instants("2026-10-25T02:00Z")


@pytest.mark.parametrize("text", ["2-59/3 * * * *", "30 2 * * *"])
def test_a_tick_each_second_of_the_repeated_hour_sees_the_same_next_slot(text: str) -> None:
    """TZ-14: no busy loop."""
    cron, start = parse(text, "Europe/Berlin"), instant("2026-10-25T01:00Z")
    assert len({cron.next_after(start + timedelta(seconds=s)) for s in range(0, 3600, 20)}) == 1


def test_leap_days_and_impossible_looking_days_are_found() -> None:
    """TZ-12."""
    assert first(parse("0 0 29 2 *", "UTC"), "2096-03-01T00:00Z", 1) == instants("2104-02-29T00:00Z")
    assert first(parse("0 0 31 2 1-5", "UTC"), "2026-01-01T00:00Z", 1) == instants("2026-02-02T00:00Z")
    assert first(parse("0 0 29 2 */7", "UTC"), "2088-03-01T00:00Z", 1) == instants("2128-02-29T00:00Z")


def test_the_answer_does_not_depend_on_the_zone_in_which_the_instant_is_given() -> None:
    cron, asked = parse("30 2 * * *", "America/New_York"), instant("2026-11-01T05:45Z")
    names = ["UTC", "America/New_York", "Asia/Kolkata"]
    assert len({cron.next_after(asked.astimezone(zones.zone(name))) for name in names}) == 1
    assert cron.next_after(asked) == instant("2026-11-01T07:30Z")


def test_a_naive_time_is_refused() -> None:
    with pytest.raises(ValueError, match="not an instant"):
        parse("* * * * *", "UTC").next_after(datetime.fromisoformat("2026-01-01T00:00"))


# ---- spans and bounds -----------------------------------------------------------------------------


def test_a_span_has_its_end_and_not_its_start() -> None:
    cron, (nine, ten) = parse("0 * * * *", "UTC"), instants("2026-06-01T09:00Z", "2026-06-01T10:00Z")
    assert cron.slots_between(nine, ten, 9) == cron.latest_slots(nine, ten, 9) == [ten]
    assert cron.count_between(nine, ten) == 1


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_an_empty_or_backward_span_has_no_slots(zone: str) -> None:
    cron, (early, late) = parse("* * * * *", zone), instants("2026-01-01T00:00Z", "2026-12-01T00:00Z")
    for after, until in ((early, early), (late, early)):
        assert cron.slots_between(after, until, 9) == cron.latest_slots(after, until, 9) == []
        assert cron.skipped_between(after, until, 9) == []
        assert cron.count_between(after, until) == 0


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_gives_nothing(limit: int) -> None:
    cron, (after, until) = parse("* * * * *", "UTC"), instants("2026-01-01T00:00Z", "2026-12-01T00:00Z")
    assert cron.slots_between(after, until, limit) == cron.latest_slots(after, until, limit) == []
    assert cron.skipped_between(after, until, limit) == []


def test_oldest_and_newest_slots_keep_to_the_limit() -> None:
    cron, (after, until) = parse("0 0 1 * *", "UTC"), instants("2026-01-15T00:00Z", "2026-12-15T00:00Z")
    assert cron.slots_between(after, until, 2) == instants("2026-02-01T00:00Z", "2026-03-01T00:00Z")
    assert cron.latest_slots(after, until, 2) == instants("2026-11-01T00:00Z", "2026-12-01T00:00Z")


def test_fifty_years_of_minutes_are_counted_exactly_and_their_newest_found_without_a_walk() -> None:
    """26 million slots; a loop over them takes half a minute."""
    cron = parse("* * * * *", "America/New_York")
    after, until = instants("2026-12-01T09:00Z", "2076-12-01T09:00Z")
    began = time.process_time()
    minutes = int((until - after) / MINUTE)
    assert cron.count_between(after, until) == minutes - 50 * 60  # the repeated hour of each year
    assert cron.latest_slots(after, until, 3) == [until - 2 * MINUTE, until - MINUTE, until]
    assert time.process_time() - began < 2


def test_a_skipped_day_is_stepped_over() -> None:
    cron = parse("* * * * *", "Pacific/Apia")
    midnight = instant("2011-12-30T10:00Z")
    assert cron.next_after(midnight - MINUTE) == midnight
    assert cron.count_between(midnight - 5 * MINUTE, midnight + 5 * MINUTE) == 10
    assert len(cron.skipped_between(midnight - MINUTE, midnight, 9999)) == 1440
    assert cron.skipped_between(midnight - MINUTE, midnight, 1) == walls("2011-12-30T00:00")


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Pacific/Kiritimati"])
@pytest.mark.parametrize("text", ["* * * * *", "0 0 29 2 *", "0 0 29 2 */7", "0 0 1 1 *"])
def test_at_the_end_of_time_there_is_no_next_slot(text: str, zone: str) -> None:
    cron = parse(text, zone)
    for end in (datetime.max.replace(tzinfo=UTC), datetime.max.replace(tzinfo=zones.zone(zone)), zones.LAST):
        assert cron.next_after(end) is None
        assert cron.slots_between(end, end, 9) == []
    before = datetime(9957, 1, 1, tzinfo=UTC)
    assert cron.slots_between(before, zones.LAST, 9) == first(cron, "9957-01-01T00:00Z", 9)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Pacific/Kiritimati"])
def test_at_the_beginning_of_time_the_calendar_can_be_asked(zone: str) -> None:
    cron, begin = parse("0 0 1 1 *", zone), datetime.min.replace(tzinfo=UTC)
    found = cron.next_after(begin)
    assert found is not None
    assert found.year in (2, 3)
    assert cron.latest_slots(begin, instant("0100-01-01T00:00Z"), 1)


# ---- properties -----------------------------------------------------------------------------------

RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
ZONES = [
    "UTC",
    "Africa/Casablanca",
    "America/Havana",
    "America/New_York",
    "America/Santiago",
    "America/Sao_Paulo",
    "America/St_Johns",
    "Asia/Gaza",
    "Asia/Kathmandu",
    "Asia/Pyongyang",
    "Asia/Tehran",
    "Australia/Lord_Howe",
    "Europe/Dublin",
    "Pacific/Apia",
    "Pacific/Chatham",
    "Pacific/Kwajalein",
]


@st.composite
def items(draw: st.DrawFn, low: int, high: int) -> tuple[str, set[int]]:
    """One item with its meaning, written down apart from the parser."""
    a, b = sorted((draw(st.integers(low, high)), draw(st.integers(low, high))))
    step = draw(st.integers(1, 20))
    top = max(a, 6) if high == 7 else high
    every = range(low, min(high, 6) + 1 if high == 7 else high + 1)
    return draw(
        st.sampled_from(
            [
                ("*", set(every)),
                (f"*/{step}", set(every[::step])),
                (f"{a}", {a}),
                (f"{a}/{step}", set(range(a, top + 1, step))),
                (f"{a}-{b}", set(range(a, b + 1))),
                (f"{a}-{b}/{step}", set(range(a, b + 1, step))),
            ]
        )
    )


@st.composite
def fields(draw: st.DrawFn, low: int, high: int) -> tuple[str, set[int]]:
    drawn = draw(st.lists(items(low, high), min_size=1, max_size=3))
    values = set().union(*(values for _, values in drawn))
    return ",".join(text for text, _ in drawn), {v % 7 for v in values} if high == 7 else values


class Meaning:
    """An expression and what it matches, as plain sets."""

    def __init__(self, drawn: list[tuple[str, set[int]]]) -> None:
        self.text = " ".join(text for text, _ in drawn)
        self.minutes, self.hours, self.days, self.months, self.weekdays = (values for _, values in drawn)
        self.both = "*" in (drawn[2][0][0], drawn[4][0][0])

    def __repr__(self) -> str:
        return self.text

    def matches(self, wall: datetime) -> bool:
        day, weekday = wall.day in self.days, wall.isoweekday() % 7 in self.weekdays
        return (
            wall.minute in self.minutes
            and wall.hour in self.hours
            and wall.month in self.months
            and ((day and weekday) if self.both else (day or weekday))
        )

    @property
    def fires(self) -> bool:
        lengths = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
        return not self.both or any(min(self.days) <= lengths[month - 1] for month in self.months)


expressions = (
    st.tuples(*(fields(low, high) for low, high in RANGES)).map(list).map(Meaning).filter(lambda m: m.fires)
)


@st.composite
def moments(draw: st.DrawFn) -> tuple[str, datetime]:
    """A zone, and an instant within a day and a half of one of its changes."""
    name = draw(st.sampled_from(ZONES))
    span = instants("1975-01-01T00:00Z", "2045-01-01T00:00Z")
    changes = [change.at for change in zones.changes_between(*span, zones.zone(name))] or [NEW_YEAR]
    return name, draw(st.sampled_from(changes)) + timedelta(seconds=draw(st.integers(-130_000, 130_000)))


def brute_force(
    meaning: Meaning, zone: str, after: datetime, until: datetime
) -> tuple[list[datetime], list[datetime]]:
    """Slots and skipped walls, by looking at the clock in each UTC minute."""
    here = after.replace(second=0, microsecond=0)
    minutes = [here + MINUTE * n for n in range(int((until - here) / MINUTE) + 1)]
    clocks = [at.astimezone(zones.zone(zone)) for at in minutes]
    shown = [clock.replace(tzinfo=None, fold=0) for clock in clocks]
    slots = [
        at
        for at, clock, wall in zip(minutes, clocks, shown, strict=True)
        if after < at <= until and not clock.fold and meaning.matches(wall)
    ]
    never = [a + MINUTE * n for a, b in pairwise(shown) for n in range(1, int((b - a) / MINUTE))]
    return slots, [wall for wall in never if meaning.matches(wall)]


@settings(max_examples=100, deadline=None)
@given(expressions, moments(), st.integers(0, 2 * 24 * 60), st.integers(1, 30))
def test_near_a_change_of_the_clocks_all_answers_agree_with_a_walk_over_the_minutes(
    meaning: Meaning, moment: tuple[str, datetime], minutes: int, limit: int
) -> None:
    zone, after = moment
    cron, until = parse(meaning.text, zone), after + minutes * MINUTE
    slots, skipped = brute_force(meaning, zone, after, until)
    assert cron.slots_between(after, until, limit) == slots[:limit]
    assert cron.latest_slots(after, until, limit) == slots[-limit:]
    assert cron.count_between(after, until) == len(slots)
    assert cron.skipped_between(after, until, limit) == skipped[:limit]
    if slots:
        assert cron.next_after(after) == slots[0]


@settings(max_examples=60, deadline=None)
@given(expressions, moments())
def test_the_next_slot_is_later_and_is_the_next_of_any_instant_before_it(
    meaning: Meaning, moment: tuple[str, datetime]
) -> None:
    """TZ-05."""
    zone, after = moment
    cron = parse(meaning.text, zone)
    for _ in range(5):
        slot = cron.next_after(after)
        assert slot is not None
        assert slot > after
        assert meaning.matches(slot.astimezone(zones.zone(zone)))
        assert cron.next_after(slot - timedelta(microseconds=1)) == slot
        assert cron.next_after(after + (slot - after) / 2) == slot
        after = slot


@settings(max_examples=60, deadline=None)
@given(expressions, moments(), st.integers(0, 400 * 24 * 60))
def test_over_months_counting_and_looking_back_agree_with_walking_forward(
    meaning: Meaning, moment: tuple[str, datetime], minutes: int
) -> None:
    zone, after = moment
    cron = parse(meaning.text, zone)
    slots = cron.slots_between(after, after + minutes * MINUTE, 400)
    until = slots[-1] if len(slots) == 400 else after + minutes * MINUTE
    assert cron.count_between(after, until) == len(slots)
    assert cron.latest_slots(after, until, 400) == slots
    assert cron.latest_slots(after, until, 3) == slots[-3:]


@settings(max_examples=60, deadline=None)
@given(expressions, st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)))  # noqa: DTZ001
def test_our_bit_masks_and_croniter_read_a_calendar_alike(meaning: Meaning, start: datetime) -> None:
    """Walking forward, days come from croniter; looking back, from the masks."""
    cron, after = parse(meaning.text, "UTC"), start.replace(tzinfo=UTC)
    forward = cron.slots_between(after, zones.LAST, 60)
    assert cron.latest_slots(after, forward[-1], 61) == forward
    assert all(meaning.matches(slot) for slot in forward)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="0123456789*/-, LW#?@\tAMONSUJ", max_size=24))
def test_any_text_is_either_refused_or_fires(text: str) -> None:
    try:
        cron = parse(text, "UTC")
    except Invalid:
        return
    assert cron.next_after(NEW_YEAR)


# ---- words ----------------------------------------------------------------------------------------


SAID = [
    ("* * * * *", "Every minute"),
    ("*/5 * * * *", "Every 5 minutes"),
    ("*/15 9-17 * * 1-5", "Every 15 minutes in hours 9 to 17 on Monday to Friday"),
    ("@hourly", "Every hour"),
    ("5 * * * *", "At minute 5 of every hour"),
    ("*/13 * * * 6", "At minutes 0, 13, 26, 39 and 52 of every hour on Saturday"),
    ("30 2 * * *", "At 02:30 every day"),
    ("0 9,12,18 * * 6,0", "At 09:00, 12:00 and 18:00 on Saturday and Sunday"),
    ("0 9-17 * * *", "At minute 0 of hours 9 to 17 every day"),
    ("0 0 13 * 5", "At 00:00 on day 13 of the month, and also on Friday"),
    ("0 0 */10 * 1", "At 00:00 on days 1, 11, 21 and 31 of the month if it is Monday"),
    ("0 0 1-31 * 1", "At 00:00 every day"),
    ("0 0 1 1,6-8 *", "At 00:00 on day 1 of the month, in January and June to August only"),
]


@pytest.mark.parametrize(("text", "said"), SAID, ids=[row[0] for row in SAID])
def test_a_schedule_is_explained_in_a_sentence(text: str, said: str) -> None:
    assert parse(text, "Europe/Berlin").explain() == f"{said}, Europe/Berlin time."


@settings(max_examples=40, deadline=None)
@given(expressions)
def test_every_schedule_can_be_explained(meaning: Meaning) -> None:
    said = parse(meaning.text, "Asia/Shanghai").explain()
    assert said[0].isupper()
    assert said.endswith(", Asia/Shanghai time.")
