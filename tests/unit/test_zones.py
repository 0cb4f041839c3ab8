"""Zones: which names are taken, and what a wall time means at the places where clocks jump."""

from __future__ import annotations

import struct
import time
import zoneinfo
from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
import tzdata

from kandev_sched.domain.errors import Invalid
from kandev_sched.policy import tzfile, zones
from kandev_sched.policy.tzfile import NEARBY, Offsets

MINUTE = timedelta(minutes=1)
FILES = Path(tzdata.__file__).parent / "zoneinfo"


def wall(text: str) -> datetime:
    return datetime.fromisoformat(text)


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


# ---- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("UTC", id="utc"),
        pytest.param("Asia/Shanghai", id="a place"),
        pytest.param("America/Argentina/Buenos_Aires", id="three parts"),
        pytest.param("Europe/Kyiv", id="a new name"),
        pytest.param("Asia/Saigon", id="an old name"),
        pytest.param("Etc/GMT+5", id="an IANA name that looks like an offset"),
        pytest.param("GMT", id="gmt"),
        pytest.param("Japan", id="a country"),
    ],
)
def test_an_iana_name_is_taken_as_it_stands(name: str) -> None:
    assert zones.zone(name).key == name


def test_an_empty_name_means_utc() -> None:
    assert zones.zone("") is zones.zone("UTC")


def test_every_allowed_name_can_be_loaded() -> None:
    assert len(zones.names()) > 550
    assert all(zones.zone(name).key == name for name in zones.names())


REFUSED = [
    ("CST", "abbreviation", "America/Chicago or Asia/Shanghai"),
    ("cst", "not in the IANA list", "America/Chicago or Asia/Shanghai"),
    ("EST", "abbreviation", "America/New_York"),
    ("CET", "abbreviation", "Europe/Berlin"),
    ("EST5EDT", "abbreviation", "America/New_York"),
    ("PST", "abbreviation", "America/Los_Angeles"),
    ("Z", "abbreviation", "UTC"),
    ("GMT+8", "offset", "Etc/GMT-8"),
    ("UTC-5", "offset", "Etc/GMT+5"),
    ("+02:00", "offset", "Etc/GMT-2"),
    ("-0330", "offset", "name a place"),
    ("+5:30", "offset", "name a place"),
    ("UTC+0", "offset", "UTC"),
    ("GMT0", "offset", "UTC"),
    ("utc", "not in the IANA list", "did you mean UTC?"),
    ("Asia/Shangai", "not in the IANA list", "did you mean Asia/Shanghai?"),
    ("asia/shanghai", "not in the IANA list", "did you mean Asia/Shanghai?"),
    ("America/New York", "not in the IANA list", "did you mean America/New_York?"),
    ("Berlin", "not in the IANA list", "did you mean Europe/Berlin?"),
    ("Asia/Beijing", "not in the IANA list", "did you mean Asia/Shanghai?"),
    ("right/Europe/Berlin", "not in the IANA list", "did you mean Europe/Berlin?"),
    ("posix/UTC", "not in the IANA list", "did you mean UTC?"),
    (" UTC ", "not in the IANA list", "did you mean UTC?"),
    ("America", "not in the IANA list", ""),
    ("localtime", "not in the IANA list", "name a place"),
    ("posixrules", "not in the IANA list", "name a place"),
    ("Mars/Olympus_Mons", "not in the IANA list", "name a place"),
    ("Factory", "placeholder", "name a place"),
    ("../../etc/passwd", "path", "name a place"),
    ("/etc/localtime", "path", "name a place"),
    ("Europe/../UTC", "path", ""),
    ("Europe\\Berlin", "path", ""),
    ("Asia/", "path", ""),
    (".", "path", "name a place"),
    ("UTC\0", "not in the IANA list", ""),
    ("Åsia/Shanghai", "not in the IANA list", "Asia/Shanghai"),
    ("x" * 5000, "not in the IANA list", "name a place"),
]


@pytest.mark.parametrize(("name", "reason", "hint"), REFUSED, ids=[ascii(row[0])[:40] for row in REFUSED])
def test_anything_else_is_refused_with_the_reason_and_a_suggestion(name: str, reason: str, hint: str) -> None:
    with pytest.raises(Invalid) as refused:
        zones.zone(name)
    assert reason in refused.value.message
    assert repr(name)[:30] in refused.value.message
    assert hint in (refused.value.hint or "")
    assert len(refused.value.message) < 150


def test_a_suggestion_can_always_be_taken() -> None:
    suggested = [place for places in zones._PLACES.values() for place in places]
    assert {*suggested, *zones._CITIES.values()} <= zones.names()


# ---- the source -----------------------------------------------------------------------------------


def test_the_zoneinfo_of_the_machine_is_never_read(tmp_path: Path) -> None:
    (tmp_path / "Europe").mkdir()
    (tmp_path / "Europe/Vaduz").write_bytes((FILES / "Asia/Tokyo").read_bytes())
    zoneinfo.reset_tzpath(to=[tmp_path])
    try:
        assert zones.instant_of(wall("2026-01-01T12:00"), zones.zone("Europe/Vaduz")) == instant(
            "2026-01-01T11:00+00:00"
        )
    finally:
        zoneinfo.reset_tzpath()


def test_the_zone_of_the_process_plays_no_part(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        monkeypatch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        assert zones.instant_of(wall("2026-01-01T12:00"), zones.zone("")) == instant("2026-01-01T12:00+00:00")
    finally:
        monkeypatch.undo()
        time.tzset()


def test_the_version_is_that_of_the_iana_release() -> None:
    assert zones.tzdata_version() == tzdata.IANA_VERSION


# ---- walls and instants ---------------------------------------------------------------------------

MAPPED = [
    ("Europe/Berlin", "2026-07-01T12:00", "2026-07-01T10:00Z", "an ordinary time"),
    ("Europe/Berlin", "2026-03-29T01:59", "2026-03-29T00:59Z", "the minute before a gap"),
    ("Europe/Berlin", "2026-03-29T02:00", None, "the first minute of a gap"),
    ("Europe/Berlin", "2026-03-29T02:59", None, "the last minute of a gap"),
    ("Europe/Berlin", "2026-03-29T03:00", "2026-03-29T01:00Z", "the minute after a gap"),
    ("Europe/Berlin", "2026-10-25T02:30", "2026-10-25T00:30Z", "the first of two"),
    ("Pacific/Apia", "2011-12-30T12:00", None, "inside a day that never was"),
    ("Australia/Lord_Howe", "2026-10-04T02:15", None, "a gap of half an hour"),
    ("America/Santiago", "2026-09-06T00:00", None, "a gap at midnight"),
    ("Africa/Monrovia", "1971-06-01T12:00", "1971-06-01T12:44:30Z", "an offset with seconds"),
]


@pytest.mark.parametrize(
    ("name", "local", "expected"), [row[:3] for row in MAPPED], ids=[r[3] for r in MAPPED]
)
def test_a_wall_time_is_its_first_occurrence_or_none(name: str, local: str, expected: str | None) -> None:
    found = zones.instant_of(wall(local), zones.zone(name))
    assert found == (instant(expected) if expected else None)


def test_a_wall_time_is_taken_the_first_time_even_when_marked_as_the_second() -> None:
    second = wall("2026-10-25T02:30").replace(fold=1)
    assert zones.instant_of(second, zones.zone("Europe/Berlin")) == instant("2026-10-25T00:30Z")


def test_a_wall_time_without_an_offset_is_no_instant() -> None:
    with pytest.raises(ValueError, match="not an instant"):
        zones.second_of(wall("2026-01-01T00:00"))


def test_an_instant_lies_in_its_second_and_a_second_has_its_instant() -> None:
    at = instant("2026-01-01T00:00Z")
    assert zones.second_of(at) == zones.second_of(at + timedelta(microseconds=999_999)) == int(at.timestamp())
    assert zones.second_of(at - timedelta(microseconds=1)) == int(at.timestamp()) - 1
    assert zones.at_second(int(at.timestamp())) == at


def test_instants_outside_the_calendar_count_as_its_ends() -> None:
    assert zones.clamped(datetime.max.replace(tzinfo=zones.zone("America/New_York"))) == zones.LAST
    assert zones.clamped(datetime.min.replace(tzinfo=zones.zone("Asia/Tokyo"))) == zones.FIRST


def test_the_gap_of_a_skipped_wall_is_found_and_an_existing_wall_has_none() -> None:
    apia = zones.zone("Pacific/Apia")
    gap = zones.gap_at(wall("2011-12-30T12:00"), apia)
    assert (gap.old_wall, gap.new_wall) == (wall("2011-12-30T00:00"), wall("2011-12-31T00:00"))
    assert gap.at == instant("2011-12-30T10:00Z")
    with pytest.raises(ValueError, match="exists"):
        zones.gap_at(wall("2011-12-29T12:00"), apia)


def test_changes_are_those_after_the_start_up_to_and_with_the_end() -> None:
    berlin = zones.zone("Europe/Berlin")
    spring, autumn = instant("2026-03-29T01:00Z"), instant("2026-10-25T01:00Z")
    assert [c.at for c in zones.changes_between(spring, autumn, berlin)] == [autumn]
    just_before = spring - timedelta(microseconds=1)
    assert [c.is_gap for c in zones.changes_between(just_before, autumn, berlin)] == [True, False]


# ---- against the files themselves -----------------------------------------------------------------


def offsets_in_file(name: str) -> list[tuple[int, int]]:
    """(second, new offset) of each real change that a TZif file lists; an independent reader."""
    data = (FILES / name).read_bytes()

    def counts(at: int) -> tuple[int, ...]:
        return struct.unpack_from(">6l", data, at + 20)

    isut, isstd, leap, times, types, chars = counts(0)
    at = 44 + times * 5 + types * 6 + chars + leap * 8 + isstd + isut
    isut, isstd, leap, times, types, chars = counts(at)
    at += 44
    seconds = struct.unpack_from(f">{times}q", data, at)
    kinds = data[at + 8 * times : at + 9 * times]
    offset = [struct.unpack_from(">l", data, at + 9 * times + 6 * kind)[0] for kind in range(types)]
    steps = [(0, offset[0]), *((second, offset[kind]) for second, kind in zip(seconds, kinds, strict=True))]
    return [new for old, new in pairwise(steps) if old[1] != new[1]]


def test_between_two_changes_of_a_zone_there_is_more_time_than_any_change_takes() -> None:
    """What schedules rely on; a tzdata that breaks it must fail here."""
    nearest = min(
        b[0] - a[0] for name in zones.names() for a, b in pairwise(offsets_in_file(name)) if a[0] > -(2**35)
    )
    assert nearest > NEARBY


@pytest.mark.parametrize(
    "name",
    [
        "Africa/Casablanca",
        "America/New_York",
        "Asia/Gaza",
        "Europe/Dublin",
        "Pacific/Apia",
        "Pacific/Kwajalein",
    ],
)
def test_changes_agree_with_the_file(name: str) -> None:
    first = instant("1900-01-01T00:00Z")
    listed = [second for second, _ in offsets_in_file(name) if second > first.timestamp()]
    last = datetime.fromtimestamp(listed[-1], UTC)  # later ones follow a rule
    found = list(zones.changes_between(first, last, zones.zone(name)))
    assert [int(change.at.timestamp()) for change in found] == listed


def test_the_offset_of_every_zone_is_that_of_zoneinfo() -> None:
    """Around its changes of a hundred years, half of them by the rule at the end of the file."""
    last = zones.second_of(instant("2080-01-01T00:00Z"))
    for name in zones.names():
        zone, (at, offset) = zones.zone(name), zones.offsets(name).through(last)
        nearby = [second for change in at[-120:] for second in (change - 1, change)]
        for second in [-(2**35), 0, *nearby]:
            found = timedelta(seconds=offset[bisect_right(at, second)])
            assert found == zones.at_second(second).astimezone(zone).utcoffset(), (name, second)


def test_a_longer_look_ahead_begins_with_the_shorter_one() -> None:
    fresh = Offsets((FILES / "Europe/Berlin").read_bytes())
    near, far = fresh.through(0), fresh.through(zones.second_of(instant("2500-01-01T00:00Z")))
    assert far[0][: len(near[0])] == near[0]
    assert far[1][: len(near[1])] == near[1]
    assert fresh.through(zones.second_of(zones.LAST))[0][-1] > zones.second_of(instant("9998-10-01T00:00Z"))


RULES = [
    ("EST5EDT,M3.2.0,M11.1.0", ["2027-03-14T07:00Z", "2027-11-07T06:00Z"], "weeks of months"),
    (
        "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0",
        ["2027-10-02T15:30Z", "2027-04-03T15:00Z"],
        "half an hour, south",
    ),
    ("IST-1GMT0,M10.5.0,M3.5.0/1", ["2027-10-31T01:00Z", "2027-03-28T01:00Z"], "summer is the standard"),
    ("<-02>2<-01>,M3.5.0/-1,M10.5.0/0", ["2027-03-28T01:00Z", "2027-10-31T01:00Z"], "the evening before"),
    ("EET-2EEST,M3.4.4/50,M10.4.4/50", ["2027-03-27T00:00Z", "2027-10-29T23:00Z"], "two days later"),
    ("AAA3BBB,J60,J365/23:30:15", ["2027-03-01T05:00Z", "2028-01-01T01:30:15Z"], "days without 29 February"),
    ("AAA3BBB,59,0/0", ["2027-03-01T05:00Z", "2027-01-01T02:00Z"], "days from nought"),
]


@pytest.mark.parametrize(("rule", "expected"), [row[:2] for row in RULES], ids=[row[2] for row in RULES])
def test_the_rule_of_a_file_gives_the_changes_of_each_year(rule: str, expected: list[str]) -> None:
    yearly = tzfile._yearly(rule)
    assert yearly
    assert [zones.at_second(at) for at, _ in yearly(2027)] == [instant(text) for text in expected]


def test_a_day_number_of_a_rule_leaves_29_february_out_or_counts_it() -> None:
    days = [tzfile._day(text, year) for year in (2027, 2028) for text in ("J59", "J60", "59")]
    named = [zones.at_second(day * tzfile.DAY).strftime("%m-%d") for day in days]
    assert named == ["02-28", "03-01", "03-01", "02-28", "03-01", "02-29"]


def test_a_file_with_an_unknown_rule_is_not_guessed_at() -> None:
    with pytest.raises(ValueError, match="'EST5EDT,later' is no rule"):
        tzfile._yearly("EST5EDT,later")


JUMPS = ["Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Pyongyang"]


@pytest.mark.parametrize("name", JUMPS)
def test_around_each_change_walls_rise_with_instants_and_none_means_gap(name: str) -> None:
    zone = zones.zone(name)
    for change in zones.changes_between(instant("2009-01-01T00:00Z"), instant("2019-01-01T00:00Z"), zone):
        near = [min(change.old_wall, change.new_wall) + MINUTE * m for m in range(-90, 1560, 3)]
        found = [(local, zones.instant_of(local, zone)) for local in near]
        gap = [local for local in near if change.old_wall <= local < change.new_wall]
        assert [local for local, at in found if at is None] == gap
        instants = [at for _, at in found if at is not None]
        assert instants == sorted(set(instants))
