"""policy.dedup: keys, occurrence ids, fingerprints."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_sched.domain.errors import Invalid
from kandev_sched.policy.dedup import checked_key, fingerprint, manual_key, occurrence_id, schedule_key

NOW = 1_796_115_600_000


def test_the_keys_are_those_of_the_requirements() -> None:
    """S0 Coalescing layer 1."""
    slot_key = schedule_key(routine_id="rt_1", trigger_id="trg_1", slot_at=NOW)
    assert slot_key == f"routine:rt_1:trg_1:{NOW // 60_000}"
    assert manual_key(routine_id="rt_1", key="rr_9") == "routine:rt_1:manual:rr_9"


@given(st.integers(0, 4_000_000_000_000 // 60_000), st.integers(0, 59_999), st.integers(0, 59_999))
def test_a_minute_has_one_key_and_the_next_another(minute: int, one: int, two: int) -> None:
    """I6: a wall-clock slot of a trigger fires at most once."""

    def key(at: int) -> str:
        return schedule_key(routine_id="r", trigger_id="t", slot_at=at)

    assert key(minute * 60_000 + one) == key(minute * 60_000 + two)
    assert key(minute * 60_000) != key((minute + 1) * 60_000)


@given(st.text(max_size=20), st.text(max_size=20), st.integers(0, 253_000_000_000))
def test_an_occurrence_id_is_the_uuid5_of_workspace_trigger_and_slot(
    workspace: str, trigger: str, second: int
) -> None:
    """behaviour §3 Occurrence id: uuid5(NAMESPACE_URL, …)."""
    from datetime import UTC, datetime, timedelta

    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
    name = f"sched:{workspace}:{trigger}:{at:%Y-%m-%dT%H:%M:%SZ}"
    if at.year < 1000:
        return
    made = occurrence_id(workspace_id=workspace, trigger_id=trigger, slot_at=second * 1000)
    assert made == f"rr_{uuid.uuid5(uuid.NAMESPACE_URL, name).hex}"


@pytest.mark.parametrize(
    ("given_key", "kept"), [(None, None), ("", None), ("k", "k"), ("k" * 255, "k" * 255)]
)
def test_an_empty_key_is_absent(given_key: str | None, kept: str | None) -> None:
    """behaviour §2 Idempotency keys: empty = absent."""
    assert checked_key(given_key) == kept


@pytest.mark.parametrize("key", ["k" * 256, "ü" * 128], ids=["256 letters", "256 bytes in 128 letters"])
def test_a_key_longer_than_255_bytes_is_refused(key: str) -> None:
    """behaviour §2 Idempotency keys: longer than 255 bytes is refused."""
    with pytest.raises(Invalid, match="too long"):
        checked_key(key)


@given(st.lists(st.text(), max_size=4), st.lists(st.text(), max_size=4))
def test_a_fingerprint_is_the_same_exactly_for_the_same_texts(one: list[str], two: list[str]) -> None:
    """S0 Routine runs: hash of resolved template + assignee; each text apart from its neighbours."""
    assert (fingerprint(*one) == fingerprint(*two)) is (one == two)


def test_a_fingerprint_takes_what_a_command_line_may_hold() -> None:
    """Bytes that are no UTF-8 come from argv as lone surrogates; they must not crash a fire."""
    assert fingerprint("\udcff") != fingerprint("\udcfe")
