"""Exclusion calendars: dates, weekly quiet hours, windows; and how they are written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import hypothesis.strategies as st
import pytest
from hypothesis import given

from kandev_sched.domain.calendars import Calendar, QuietHours, Window
from kandev_sched.domain.errors import Invalid
from kandev_sched.policy.exclusion import excluded_by, parse_date, parse_quiet_hours, spell

BERLIN = "Europe/Berlin"


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def a_calendar(zone: str = BERLIN, **fields: object) -> Calendar:
    return Calendar(
        id="cal_1", workspace_id="ws_1", name="off", zone=zone, created_at=0, updated_at=0, **fields
    )


@pytest.mark.parametrize(
    ("slot", "is_out"),
    [
        ("2026-12-24T23:59:59+01:00", False),
        ("2026-12-25T00:00:00+01:00", True),
        ("2026-12-25T23:59:59+01:00", True),
        ("2026-12-25T23:30:00Z", False),
        ("2026-12-26T00:00:00+01:00", False),
    ],
)
def test_a_date_is_a_day_on_the_calendars_own_clock(slot: str, is_out: bool) -> None:
    why = excluded_by([a_calendar(dates=("2026-12-25",))], at(slot))
    assert why == ("calendar off: 2026-12-25 is excluded" if is_out else None)


@pytest.mark.parametrize(
    ("written", "slot", "is_out"),
    [
        ("FRI 22:00-07:00", "2026-12-04T21:59:00+01:00", False),
        ("FRI 22:00-07:00", "2026-12-04T22:00:00+01:00", True),
        ("FRI 22:00-07:00", "2026-12-05T06:59:59+01:00", True),
        ("FRI 22:00-07:00", "2026-12-05T07:00:00+01:00", False),
        ("FRI 22:00-07:00", "2026-12-05T22:00:00+01:00", False),
        ("SUN 22:00-07:00", "2026-12-07T06:00:00+01:00", True),
        ("SAT,SUN 00:00-24:00", "2026-12-06T23:59:59+01:00", True),
        ("SAT,SUN 00:00-24:00", "2026-12-07T00:00:00+01:00", False),
        ("MON 09:00-09:00", "2026-12-08T08:59:00+01:00", True),
        ("MON 09:00-09:00", "2026-12-08T09:00:00+01:00", False),
        ("SUN 02:00-03:00", "2027-10-31T02:30:00+02:00", True),
        ("SUN 02:00-03:00", "2027-10-31T02:30:00+01:00", True),
        ("SUN 02:00-03:00", "2027-03-28T03:00:00+02:00", False),
    ],
)
def test_quiet_hours_are_wall_time_and_may_end_on_the_next_day(written: str, slot: str, is_out: bool) -> None:
    calendar = a_calendar(quiet_hours=(parse_quiet_hours(written),))
    why = excluded_by([calendar], at(slot))
    assert (why is not None) is is_out
    assert why is None or why == f"calendar off: quiet hours {written}"


def test_a_window_has_its_beginning_and_not_its_end_and_its_note_is_told() -> None:
    window = Window(from_at=at("2026-12-01T10:00:00Z"), until_at=at("2026-12-01T12:00:00Z"), note="upgrade")
    calendar = a_calendar(windows=(window,))
    assert excluded_by([calendar], window.from_at - 1) is None
    assert excluded_by([calendar], window.from_at) == (
        "calendar off: inside the window 2026-12-01T10:00:00Z to 2026-12-01T12:00:00Z (upgrade)"
    )
    assert excluded_by([calendar], window.until_at) is None


def test_any_of_several_calendars_excludes_and_none_excludes_nothing() -> None:
    one, two = a_calendar(dates=("2026-12-25",)), a_calendar(dates=("2026-12-26",))
    assert excluded_by([one, two], at("2026-12-26T12:00:00Z")) is not None
    assert excluded_by([], at("2026-12-26T12:00:00Z")) is None


@given(
    st.sets(st.integers(0, 6), min_size=1),
    st.integers(0, 1439),
    st.integers(1, 1440),
    st.integers(0, 7 * 1440 - 1),
)
def test_quiet_hours_are_exactly_the_minutes_of_their_days(
    days: set[int], begin: int, end: int, minute: int
) -> None:
    """Against a plain enumeration of the week; the zone has no clock change in it."""
    hours = QuietHours(days=tuple(sorted(days)), from_minute=begin, until_minute=end)
    length = end - begin if end > begin else end - begin + 1440
    quiet = {(day * 1440 + begin + n) % (7 * 1440) for day in days for n in range(length)}
    wall = datetime(2026, 12, 7, tzinfo=ZoneInfo(BERLIN)) + timedelta(minutes=minute)  # a Monday
    slot = round(wall.astimezone(UTC).timestamp() * 1000)
    assert (excluded_by([a_calendar(quiet_hours=(hours,))], slot) is not None) is (minute in quiet)


@pytest.mark.parametrize(
    ("text", "days", "begin", "end"),
    [
        ("MON-FRI 22:00-07:00", (0, 1, 2, 3, 4), 1320, 420),
        ("sat,sun 00:00-24:00", (5, 6), 0, 1440),
        (" FRI-MON 08:30-09:00 ", (0, 4, 5, 6), 510, 540),
        ("MON,MON-TUE 00:00-00:01", (0, 1), 0, 1),
    ],
)
def test_quiet_hours_are_read(text: str, days: tuple[int, ...], begin: int, end: int) -> None:
    found = parse_quiet_hours(text)
    assert (found.days, found.from_minute, found.until_minute) == (days, begin, end)
    assert parse_quiet_hours(spell(found)) == found


@pytest.mark.parametrize(
    "text",
    [
        *("", "MON", "MON 22:00", "MON 22-07", "MON 25:00-07:00", "MON 22:60-23:00", "MON 24:01-07:00"),
        *("MONDAY 22:00-07:00", "22:00-07:00", "MON 22:00-7:00", "MON ٢٢:00-23:00", "MON- 22:00-23:00x"),
    ],
)
def test_what_cannot_be_read_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_quiet_hours(text)
    assert "MON-FRI 22:00-07:00" in refused.value.hint


def test_dates_are_read_and_others_refused() -> None:
    assert parse_date(" 2028-02-29 ") == "2028-02-29"
    for text in ("2027-02-29", "25.12.2026", "2026-12", "", "tomorrow"):
        with pytest.raises(Invalid, match="is not a date"):
            parse_date(text)
