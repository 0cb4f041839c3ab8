"""What is printed, and what is read from the command line, without a process."""

from __future__ import annotations

import pytest

from kandev_sched.domain.errors import Invalid
from kandev_sched.domain.record import Record
from kandev_sched.domain.routines import RoutineStatus, Variable, VariableType
from kandev_sched.interfaces.cli.asking import json_object, pairs
from kandev_sched.interfaces.cli.options import hoist
from kandev_sched.interfaces.cli.reporting import printable
from kandev_sched.interfaces.cli.values import argv_of
from kandev_sched.interfaces.cli.variables import declared
from kandev_sched.interfaces.render import document
from kandev_sched.interfaces.times import seconds_of, span_text, wall_text, zone_of


class Slot(Record):
    """A record with an instant."""

    at: int
    ended_at: int | None = None


def test_instants_become_rfc_3339_by_the_name_of_their_column() -> None:
    assert document({"requested_at": 1_796_115_600_000, "count": 1_796_115_600_000}) == {
        "requested_at": "2026-12-01T09:00:00Z",
        "count": 1_796_115_600_000,
    }


def test_milliseconds_are_kept_and_no_instant_is_null() -> None:
    assert document({"at": 1_796_115_600_007, "ended_at": None, "ready_at": 0}) == {
        "at": "2026-12-01T09:00:00.007Z",
        "ended_at": None,
        "ready_at": None,
    }


def test_records_lists_and_words_are_plain_in_a_document() -> None:
    assert document([Slot(at=1_796_115_600_000)]) == [{"at": "2026-12-01T09:00:00Z", "ended_at": None}]
    assert document({"status": RoutineStatus.ACTIVE, "argv": ("a", "b")}) == {
        "status": "active",
        "argv": ["a", "b"],
    }


def test_what_people_wrote_is_never_taken_for_an_instant() -> None:
    assert document({"payload": {"created_at": 5}, "result": {"at": 7}}) == {
        "payload": {"created_at": 5},
        "result": {"at": 7},
    }


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10s", 10),
        ("5m", 300),
        ("1h", 3600),
        ("1h30m", 5400),
        ("2d", 172_800),
        ("1d2h3m4s", 93_784),
        ("0s", 0),
    ],
)
def test_durations_are_read(text: str, seconds: int) -> None:
    assert seconds_of(text, option="--in") == seconds


@pytest.mark.parametrize(
    "text", ["", "10", "s", "1.5h", "-5m", "5m1h", "1h 30m", "10S", "१s", "9" * 13 + "d"]
)
def test_what_is_no_duration_is_refused_by_name(text: str) -> None:
    with pytest.raises(Invalid, match="--in is"):
        seconds_of(text, option="--in")


@pytest.mark.parametrize("text", ["10s", "5m", "1h30m", "2d", "1d2h3m4s", "0s"])
def test_a_duration_is_said_as_it_is_typed(text: str) -> None:
    assert span_text(seconds_of(text, option="--in")) == text


@pytest.mark.parametrize(
    ("zone", "text"),
    [
        ("UTC", "2026-12-01 09:00:00 +00:00"),
        ("Asia/Shanghai", "2026-12-01 17:00:00 +08:00"),
        ("America/St_Johns", "2026-12-01 05:30:00 -03:30"),
    ],
)
def test_an_instant_is_shown_on_a_clock_with_its_offset(zone: str, text: str) -> None:
    assert wall_text(1_796_115_600_000, zone_of(zone)) == text


def test_no_control_character_is_printed_but_the_line_break() -> None:
    assert printable("a\x1b[31mb\x07\u202ec\nd\u4f60") == "a\\x1b[31mb\\x07\\u202ec\nd\u4f60"


def test_global_options_are_taken_from_anywhere() -> None:
    options, words = hoist(["--json", "fire", "--db", "x.db", "review", "--show-tz=UTC", "--var", "a=b"])
    assert (options.is_json, options.db, options.show_tz) == (True, "x.db", "UTC")
    assert words == ["fire", "review", "--var", "a=b"]


def test_nothing_is_taken_after_two_dashes_or_out_of_a_value() -> None:
    options, words = hoist(["wake", "--reason=--json", "--", "--quiet"])
    assert words == ["wake", "--reason=--json", "--", "--quiet"]
    assert not options.is_json
    assert not options.is_quiet


@pytest.mark.parametrize("argv", [["agent", "list", "--db"], ["--db="], ["--config", ""]])
def test_a_global_option_without_its_value_is_refused(argv: list[str]) -> None:
    with pytest.raises(Invalid, match="needs a value"):
        hoist(argv)


def test_a_command_line_is_split_as_a_shell_would() -> None:
    assert argv_of("sh -c 'echo \"a b\"'") == ("sh", "-c", 'echo "a b"')
    assert argv_of(None) is None


@pytest.mark.parametrize("text", ["'", 'a "b', "a\\"])
def test_quotes_that_do_not_close_are_refused(text: str) -> None:
    with pytest.raises(Invalid, match="--command is"):
        argv_of(text)


@pytest.mark.parametrize(
    ("word", "variable"),
    [
        ("branch", Variable(name="branch")),
        ("branch:text", Variable(name="branch")),
        ("branch:text=main", Variable(name="branch", default="main")),
        ("branch:text=", Variable(name="branch", default="")),
        ("count:number!", Variable(name="count", type=VariableType.NUMBER, required=True)),
        ("count:number=3!", Variable(name="count", type=VariableType.NUMBER, default="3", required=True)),
        (
            "level:select=low[low|high]",
            Variable(name="level", type=VariableType.SELECT, default="low", options=("low", "high")),
        ),
        (
            "level:select![low|high]",
            Variable(name="level", type=VariableType.SELECT, required=True, options=("low", "high")),
        ),
        ("when:text=a:b=c", Variable(name="when", default="a:b=c")),
    ],
)
def test_a_variable_is_declared_in_a_word(word: str, variable: Variable) -> None:
    assert declared([word]) == (variable,)


@pytest.mark.parametrize("word", ["", ":text", "a:colour", "a:", "=x", "a:text[b"])
def test_a_declaration_that_cannot_be_read_is_refused(word: str) -> None:
    with pytest.raises(Invalid, match="--var is"):
        declared([word])


def test_pairs_keep_what_stands_behind_the_first_equals_sign() -> None:
    assert pairs(("a=b=c", "d="), option="--env") == {"a": "b=c", "d": ""}


@pytest.mark.parametrize("words", [("a",), ("=b",), ("",), ("a=1", "a=2")])
def test_what_is_no_pair_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(Invalid, match="--env"):
        pairs(words, option="--env")


@pytest.mark.parametrize(
    "text", ["", "[]", "3", "null", "{", "{'a': 1}", '{"a": NaN}', "[" * 100_000, '{"a": "\\ud800"}']
)
def test_what_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="--payload is"):
        json_object(text, option="--payload")


def test_a_json_object_is_read() -> None:
    assert json_object('{"a": [1, "\\u4f60"]}', option="--payload") == {"a": [1, "\u4f60"]}
    assert json_object(None, option="--payload") is None
