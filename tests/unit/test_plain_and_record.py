"""domain.plain: plain values ↔ records, strictly. domain.record: the frozen values themselves."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any

import pytest
from builders import NOW, a_run
from hypothesis import given
from hypothesis import strategies as st

from kandev_sched.domain.errors import Invalid
from kandev_sched.domain.payloads import PAYLOADS, decode
from kandev_sched.domain.plain import from_plain, to_plain
from kandev_sched.domain.record import Record, as_dict, field_names, field_types
from kandev_sched.domain.wakeups import WakeupSource


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Inner(Record):
    number: int
    note: str | None = None


class Thing(Record):
    name: str
    ratio: float = 1.0
    is_big: bool = False
    colour: Colour = Colour.RED
    inner: Inner | None = None
    many: tuple[Inner, ...] = ()
    words: dict[str, str] = {}  # noqa: RUF012 - a default of a field, never changed


THINGS = st.builds(
    Thing,
    name=st.text(),
    ratio=st.floats(allow_nan=False, allow_infinity=False),
    is_big=st.booleans(),
    colour=st.sampled_from(Colour),
    inner=st.none() | st.builds(Inner, number=st.integers(), note=st.none() | st.text()),
    many=st.lists(st.builds(Inner, number=st.integers()), max_size=3).map(tuple),
    words=st.dictionaries(st.text(), st.text(), max_size=3),
)


@given(THINGS)
def test_a_record_comes_back_from_json_as_it_was(thing: Thing) -> None:
    """architecture rule 9: payloads are typed."""
    assert from_plain(Thing, json.loads(json.dumps(to_plain(thing)))) == thing


@pytest.mark.parametrize(
    ("plain", "path"),
    [
        ({}, r"\$ is incomplete"),
        ({"name": 7}, r"\$\.name is 7"),
        ({"name": None}, r"\$\.name is None"),
        ({"name": "x", "nmae": "y"}, r"\$\.nmae is not a known key"),
        ({"name": "x", "ratio": "1"}, r"\$\.ratio"),
        ({"name": "x", "ratio": True}, r"\$\.ratio"),
        ({"name": "x", "is_big": 1}, r"\$\.is_big"),
        ({"name": "x", "colour": "green"}, r"\$\.colour"),
        ({"name": "x", "colour": ["red"]}, r"\$\.colour"),
        ({"name": "x", "inner": {"number": 1.5}}, r"\$\.inner\.number"),
        ({"name": "x", "inner": {"number": True}}, r"\$\.inner\.number"),
        ({"name": "x", "inner": []}, r"\$\.inner"),
        ({"name": "x", "many": [{"number": 1}, {"number": "2"}]}, r"\$\.many\[1\]\.number"),
        ({"name": "x", "many": {"number": 1}}, r"\$\.many"),
        ({"name": "x", "words": {"a": 1}}, r"\$\.words\.a"),
        ([], r"\$ is \[\]"),
        (None, r"\$ is None"),
    ],
)
def test_what_does_not_fit_is_refused_by_its_path(plain: object, path: str) -> None:
    """architecture rule 9: unknown fields and wrong types are refused with the path that is wrong."""
    with pytest.raises(Invalid, match=path) as caught:
        from_plain(Thing, plain)
    assert caught.value.hint or "incomplete" in caught.value.message


def test_a_whole_number_is_a_number() -> None:
    assert from_plain(Thing, {"name": "x", "ratio": 2}) == Thing(name="x", ratio=2.0)


def test_every_source_has_its_payload() -> None:
    """architecture rule 9: ten wakeup sources are one tagged union."""
    assert set(PAYLOADS) == set(WakeupSource)
    assert len(WakeupSource) == 10


@pytest.mark.parametrize("source", list(WakeupSource))
def test_a_payload_with_a_field_too_many_is_refused(source: WakeupSource) -> None:
    """architecture rule 9: unknown fields are refused."""
    with pytest.raises(Invalid, match=r"payload\.surprise"):
        decode(source, {"surprise": 1})


# --- records ----------------------------------------------------------------------------------------------


def test_a_record_is_frozen_keyword_only_and_knows_its_fields() -> None:
    thing: Any = Thing(name="x")
    with pytest.raises(AttributeError, match="frozen"):
        thing.name = "y"
    with pytest.raises(AttributeError):
        thing.other = 1
    with pytest.raises(TypeError, match="needs name"):
        Thing()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="has no colr"):
        Thing(name="x", colr="red")  # type: ignore[call-arg]
    assert field_names(Thing) == ("name", "ratio", "is_big", "colour", "inner", "many", "words")
    assert not hasattr(thing, "__dict__")


@given(THINGS, THINGS)
def test_records_are_equal_when_type_and_fields_are(one: Thing, two: Thing) -> None:
    assert (one == two) is (as_dict(one) == as_dict(two))
    assert one == one.replace()
    assert one.replace(name=one.name + "!") != one


def test_records_of_different_types_are_never_equal() -> None:
    class Other(Record):
        number: int
        note: str | None = None

    assert Inner(number=1) != Other(number=1)


def test_equal_records_hash_alike_and_show_their_fields() -> None:
    assert hash(Inner(number=1)) == hash(Inner(number=1, note=None))
    assert repr(Inner(number=1)) == "Inner(number=1, note=None)"


def test_a_record_inherits_fields_with_the_types_of_where_they_were_written() -> None:
    class Wider(Inner):
        extra: bool = True

    assert field_names(Wider) == ("number", "note", "extra")
    assert field_types(Wider)["extra"] is bool
    assert Wider(number=1).replace(extra=False).extra is False


def test_replace_keeps_the_rest() -> None:
    run = a_run(task_id="t")
    assert run.replace(attempt=3).task_id == "t"
    assert run.attempt == 0
    assert run.requested_at == NOW
