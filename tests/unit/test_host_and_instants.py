"""domain.host: ids of the machine. domain.instant: milliseconds as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_sched.domain.host import MachineHost, spell_id
from kandev_sched.domain.instant import rfc3339, rfc3339_or_none

EARLIEST, LATEST = 0, 253_402_300_799_999  # 1970 to 9999


@given(
    st.tuples(st.integers(0, 2**48 - 1), st.integers(0, 2**80 - 1)),
    st.tuples(st.integers(0, 2**48 - 1), st.integers(0, 2**80 - 1)),
)
def test_ids_sort_as_made(one: tuple[int, int], two: tuple[int, int]) -> None:
    """I5: by `requested_at`, then id: so ids must sort by the time of their making."""
    assert (spell_id("run", *one) < spell_id("run", *two)) is (one < two)
    assert len(spell_id("run", *one)) == len("run_") + 26


def test_many_ids_of_one_machine_are_all_different_and_sorted() -> None:
    """I5: ids made in the same millisecond count upwards."""
    host = MachineHost()
    ids = [host.new_id("wk") for _ in range(20_000)]
    assert sorted(set(ids)) == ids
    assert all(made.startswith("wk_") for made in ids)


def test_ids_go_on_upwards_when_the_clock_steps_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """I5, behaviour §7: clock steps in both directions."""
    host = MachineHost()
    now = host.now()
    first = host.new_id("wk")
    monkeypatch.setattr(host, "now", lambda: now - 3_600_000)
    assert host.new_id("wk") > first


def test_the_machine_tells_milliseconds_and_a_clock_that_only_goes_forward() -> None:
    host = MachineHost()
    assert abs(host.now() - datetime.now(UTC).timestamp() * 1000) < 5000
    readings = [host.monotonic() for _ in range(100)]
    assert readings == sorted(readings)


@given(st.floats(-100, 100), st.floats(0, 100))
def test_chance_stays_within_its_bounds(low: float, width: float) -> None:
    value = MachineHost().uniform(low, low + width)
    assert low <= value <= low + width


@given(st.integers(EARLIEST, LATEST))
def test_an_instant_is_spelled_as_rfc_3339_says(at: int) -> None:
    """architecture Storage: instants are INTEGER UTC milliseconds."""
    text = rfc3339(at)
    assert text.endswith("Z")
    assert datetime.fromisoformat(text) == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at)
    assert ("." in text) is bool(at % 1000)


def test_no_instant_is_none() -> None:
    assert rfc3339_or_none(None) is None
    assert rfc3339_or_none(0) == "1970-01-01T00:00:00Z"
