"""policy.naming: what may be a name, and how close a wrong one came."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_sched.domain.errors import Invalid
from kandev_sched.domain.host import spell_id
from kandev_sched.policy.naming import checked_name, checked_text, looks_like_id, suggestion


@pytest.mark.parametrize("name", ["bot", "Coordinator heartbeat", "käfer-7", "日本", "a" * 200, "a_b"])
def test_what_people_call_things_is_a_name(name: str) -> None:
    assert checked_name("agent", name) == name


UNFIT = {
    "empty": "",
    "blank": " ",
    "blank before": " bot",
    "blank after": "bot ",
    "line break": "bot\n",
    "tab": "b\tot",
    "NUL": "b\0t",
    "escape": "b\x1b[31mot",
    "too long": "a" * 201,
    "option": "-v",
    "id": "ag_" + "0" * 26,
}


@pytest.mark.parametrize("name", UNFIT.values(), ids=UNFIT)
def test_what_would_confuse_a_terminal_or_a_command_is_no_name(name: str) -> None:
    with pytest.raises(Invalid) as caught:
        checked_name("agent", name)
    assert caught.value.hint
    assert caught.value.message.isprintable()


@given(st.text(max_size=250))
def test_a_name_is_taken_as_it_stands_or_refused_in_one_short_line(name: str) -> None:
    try:
        taken = checked_name("agent", name)
    except Invalid as error:
        refusal = error.message
    else:
        refusal, name = "", taken
    assert len(refusal) < 200
    assert "\n" not in refusal


@pytest.mark.parametrize("text", ["", "two\nlines", "tab\there", "\r\n", "ünï", "no-break\u00a0space"])
def test_what_people_write_is_a_text(text: str) -> None:
    assert checked_text("reason", text) == text


@pytest.mark.parametrize("text", ["\x1b[31m", "a\0b", "\x07", "x" * 1_000_001, "\udcff"])
def test_control_characters_and_endless_texts_are_refused(text: str) -> None:
    with pytest.raises(Invalid):
        checked_text("reason", text)


@given(st.sampled_from(["ag", "run", "wk", "task"]), st.integers(0, 2**48 - 1), st.integers(0, 2**80 - 1))
def test_every_id_of_ours_looks_like_one(prefix: str, at: int, chance: int) -> None:
    assert looks_like_id(spell_id(prefix, at, chance))


def test_an_occurrence_id_looks_like_one() -> None:
    assert looks_like_id("rr_" + "0f" * 16)


@pytest.mark.parametrize("name", ["bot", "a_b", "my_agent", "AG_" + "0" * 26, "ag-" + "0" * 26])
def test_a_name_does_not_look_like_an_id(name: str) -> None:
    assert not looks_like_id(name)


@pytest.mark.parametrize(
    ("wrong", "right", "hint"),
    [
        ("bto", ["bot", "reviewer"], "did you mean bot?"),
        ("xyz", ["bot", "anna"], "there are: anna, bot"),
        ("xyz", [], "there is no agent yet"),
    ],
)
def test_a_wrong_name_gets_a_hint(wrong: str, right: list[str], hint: str) -> None:
    """architecture rule 8: errors carry a hint."""
    assert suggestion(wrong, right, kind="agent") == hint
