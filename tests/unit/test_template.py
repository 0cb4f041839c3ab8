"""policy.template: placeholders, declarations, values, one pass."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_sched.domain.errors import Invalid
from kandev_sched.domain.routines import Variable, VariableType
from kandev_sched.policy.template import (
    built_ins,
    checked,
    declare_missing,
    placeholders,
    render,
    resolve,
)

NOW = 1_796_115_600_000
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,5}", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("{{a}} and {{ b }} and {{a}}", ["a", "b"]),
        ("{a} {{1a}} {{a-b}} {{}} {{ }}", []),
        ("{{{a}}}", ["a"]),
        ("{{a}}{{b}}", ["a", "b"]),
        ("{{a", []),
    ],
)
def test_which_names_a_text_uses(text: str, names: list[str]) -> None:
    """S0 Variables: `{{name}}` syntax."""
    assert placeholders(text) == names


def test_names_of_several_texts_come_once_each_in_order() -> None:
    """S0 Variables: in title and description."""
    assert placeholders("{{b}}", None, "{{a}}{{b}}") == ["b", "a"]


def test_a_placeholder_without_a_declaration_is_declared_and_built_ins_are_not() -> None:
    """S0 Variables: auto-creates the variable declaration (text, no default, not required)."""
    own = Variable(name="a", type=VariableType.NUMBER)
    assert declare_missing([own], "{{a}} {{b}} {{date}} {{datetime}}") == (own, Variable(name="b"))


@given(st.dictionaries(NAMES, st.text(max_size=12), max_size=4), st.text(max_size=30))
def test_a_value_is_inserted_as_it_stands_and_never_scanned_again(
    values: dict[str, str], between: str
) -> None:
    """behaviour §3 Templates: one pass, never re-scanned."""
    between = between.replace("{", "").replace("}", "")
    text = between.join(f"{{{{{name}}}}}" for name in values)
    assert render(text, values) == between.join(values.values())


def test_an_unknown_placeholder_stands_as_it_is() -> None:
    """S0 Variables: what is not declared is not a variable."""
    assert render("{{a}} {{ b }}", {"a": "1"}) == "1 {{ b }}"


@given(st.text())
def test_a_text_without_placeholders_is_not_changed(text: str) -> None:
    """behaviour §3 Templates."""
    plain = text.replace("{{", "")
    assert render(plain, {"a": "1"}) == plain


# --- values -----------------------------------------------------------------------------------------------


def test_provided_wins_over_default_and_what_is_missing_is_empty() -> None:
    """S0 Variables: declared defaults → provided values, later wins."""
    variables = [Variable(name="a", default="1"), Variable(name="b", default="2"), Variable(name="c")]
    assert resolve(variables, {"b": "x"}) == {"a": "1", "b": "x", "c": ""}


def test_a_required_variable_without_value_is_refused() -> None:
    """S0 Variables: required."""
    with pytest.raises(Invalid, match="'a' has no value"):
        resolve([Variable(name="a", required=True)], {})
    assert resolve([Variable(name="a", required=True, default="1")], {}) == {"a": "1"}
    assert resolve([Variable(name="a", required=True)], {"a": ""}) == {"a": ""}


def test_a_name_that_is_not_declared_is_refused_and_the_declared_ones_named() -> None:
    """behaviour §3 Templates: a provided name counts only if it is declared."""
    with pytest.raises(Invalid) as caught:
        resolve([Variable(name="area")], {"aera": "x"})
    assert "'aera'" in caught.value.message
    assert "area" in caught.value.hint


@pytest.mark.parametrize(
    ("kind", "value", "fits"),
    [
        ("text", "anything\nat all", True),
        ("number", "12", True),
        ("number", "-1.5e3", True),
        ("number", ".5", True),
        ("number", "1,5", False),
        ("number", "", False),
        ("number", "nan", False),
        ("number", "0x10", False),
        ("number", "١٢", False),
        ("number", "12\n", False),
        ("boolean", "true", True),
        ("boolean", "false", True),
        ("boolean", "True", False),
        ("boolean", "1", False),
        ("select", "red", True),
        ("select", "Red", False),
        ("select", "", False),
    ],
)
def test_types_are_checked(kind: str, value: str, fits: bool) -> None:
    """behaviour §3 Templates: types are checked before anything is written."""
    variable = Variable(
        name="v", type=VariableType(kind), options=("red", "blue") if kind == "select" else ()
    )
    if fits:
        assert checked(variable, value) == value
    else:
        with pytest.raises(Invalid, match="v is "):
            checked(variable, value)


# --- dates ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("zone", "date", "datetime"),
    [
        ("UTC", "2026-12-01", "2026-12-01T09:00:00Z"),
        ("Pacific/Auckland", "2026-12-01", "2026-12-01T22:00:00+13:00"),
        ("Pacific/Kiritimati", "2026-12-01", "2026-12-01T23:00:00+14:00"),
        ("Pacific/Pago_Pago", "2026-11-30", "2026-11-30T22:00:00-11:00"),
    ],
)
def test_dates_follow_the_zone(zone: str, date: str, datetime: str) -> None:
    """behaviour §3 Templates: dates follow the trigger's zone."""
    assert built_ins(NOW, zone) == {"date": date, "datetime": datetime}
