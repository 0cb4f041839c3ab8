"""Once: which instants are accepted, and that there is one slot."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from kandev_sched.domain.errors import Invalid
from kandev_sched.policy import zones
from kandev_sched.policy.once import parse

TICK = timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("text", "zone"),
    [
        pytest.param("2026-08-21T08:00:00+02:00", "+02:00", id="an offset"),
        pytest.param("2026-08-21T06:00:00Z", "UTC", id="utc"),
        pytest.param("2026-08-21 06:00z", "UTC", id="blank, no seconds, lower case"),
        pytest.param("2026-08-21T06:00:00.000Z", "UTC", id="milliseconds"),
        pytest.param("2026-08-21T11:45:00+05:45", "+05:45", id="an offset with minutes"),
    ],
)
def test_an_instant_with_an_offset_is_taken(text: str, zone: str) -> None:
    once = parse(f" {text} ")
    assert once.at == datetime(2026, 8, 21, 6, tzinfo=UTC)
    assert (once.text, once.zone) == (text, zone)


@pytest.mark.parametrize(
    ("value", "message", "hint"),
    [
        pytest.param("2026-08-21T08:00:00", "has no offset", "+01:00, or with Z", id="no offset"),
        pytest.param(datetime(2026, 8, 21), "has no offset", "+01:00, or with Z", id="naive"),  # noqa: DTZ001
        pytest.param("2026-08-21", "cannot be read", "+01:00, or with Z", id="a date"),
        pytest.param("20260821T080000Z", "cannot be read", "+01:00, or with Z", id="basic format"),
        pytest.param("tomorrow", "'tomorrow' cannot be read", "+01:00, or with Z", id="words"),
        pytest.param("2026-02-29T08:00Z", "does not exist", "+01:00, or with Z", id="no such day"),
        pytest.param("2026-08-21T24:00Z", "does not exist", "+01:00, or with Z", id="hour 24"),
        pytest.param("2026-08-21T08:00:60Z", "does not exist", "+01:00, or with Z", id="leap second"),
        pytest.param("2026-08-21T08:00:00.0005Z", "too fine", "milliseconds", id="half a millisecond"),
        pytest.param("0001-01-01T00:00Z", "outside the calendar", "9998", id="year 1"),
        pytest.param("9999-12-31T23:59Z", "outside the calendar", "9998", id="year 9999"),
        pytest.param("\u0662026-08-21T08:00Z", "cannot be read", "+01:00, or with Z", id="arabic digit"),
        pytest.param("", "cannot be read", "+01:00, or with Z", id="empty"),
        pytest.param(1_787_000_000, "is a text or a datetime", "+01:00, or with Z", id="a number"),
        pytest.param(None, "is a text or a datetime", "+01:00, or with Z", id="none"),
    ],
)
def test_anything_else_is_refused_with_the_reason_and_a_hint(value: object, message: str, hint: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse(value)
    assert message in refused.value.message
    assert hint in (refused.value.hint or "")


def test_a_datetime_keeps_its_own_offset_though_it_equals_another() -> None:
    east = datetime(2026, 8, 21, 8, tzinfo=timezone(timedelta(hours=2)))
    assert parse(east).zone == "+02:00"
    assert parse(east.astimezone(UTC)).zone == "UTC"
    assert parse(east.astimezone(zones.zone("Asia/Tokyo"))).text == "2026-08-21T15:00:00+09:00"


def test_there_is_one_slot_and_every_question_knows_it() -> None:
    once = parse("2026-08-21T08:00:00+02:00")
    at = datetime(2026, 8, 21, 6, tzinfo=UTC)
    assert once.next_after(at - TICK) == at
    assert once.next_after(at) is None
    assert once.slots_between(at - TICK, at, 9) == once.latest_slots(at - TICK, at, 9) == [at]
    assert once.slots_between(at, at + TICK, 9) == once.slots_between(at - TICK, at, 0) == []
    assert once.count_between(zones.FIRST, zones.LAST) == 1
    assert once.count_between(at, zones.LAST) == 0
    assert once.skipped_between(zones.FIRST, zones.LAST, 9) == []


def test_it_is_explained_in_a_sentence() -> None:
    assert (
        parse("2026-08-21T08:00:30+02:00").explain()
        == "Once, on Friday, 21 August 2026 at 08:00:30 (+02:00)."
    )


def test_a_once_is_an_immutable_value_read_once() -> None:
    once = parse("2026-08-21T08:00Z")
    assert once is parse("2026-08-21T08:00Z")
    with pytest.raises(AttributeError):
        once.text = ""  # type: ignore[misc]
