"""Reading the fields of an expression: what cron and Quartz have in common before they differ."""

from __future__ import annotations

from kandev_sched.domain.errors import Invalid
from kandev_sched.domain.record import Record

MAX_LENGTH = 512

MONTHS = "January February March April May June July August September October November December".split()  # noqa: SIM905
WEEKDAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
MONTH_NAMES = tuple(month[:3].upper() for month in MONTHS)
WEEKDAY_NAMES = tuple(day[:3].upper() for day in WEEKDAYS)


class Field(Record):
    """`names[i]` is a spelling of low + i."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()


def plain(text: str, *, language: str) -> str:
    """The text without outer blanks: printable ASCII on one line, not too long."""
    if len(text) > MAX_LENGTH:
        message = f"the {language} expression has {len(text)} characters, {MAX_LENGTH} are allowed"
        raise Invalid(message, hint="write ranges and steps, such as 0-30 or */5, for long lists")
    for char in text:
        if not (" " <= char <= "~" or char == "\t"):
            hint = "use ASCII characters on one line, with blanks between the fields"
            raise Invalid(f"the {language} expression contains the character {char!a}", hint=hint)
    return text.strip(" \t")


def number(field: Field, text: str) -> int:
    """A value of the field, given as a number or by name."""
    if text.isdigit():
        if field.low <= int(text) <= field.high:
            return int(text)
        raise in_field(field, text, "is out of range", f"it takes {field.low} to {field.high}")
    name = text.upper()
    if name in field.names:
        return field.low + field.names.index(name)
    hint = f"it takes {', '.join(field.names) or 'only numbers'}"
    raise in_field(field, text, "is no name that it knows", hint)


def no_step(field: Field, item: str) -> Invalid:
    """The refusal of a step of zero."""
    return in_field(field, item, "has a step of zero", "a step is 1 or more")


def unreadable(field: Field, item: str, hint: str) -> Invalid:
    """The refusal of an item that has no meaning."""
    if not item:
        return Invalid(f"the list in the {field.name} field has an empty item", hint="write it as 1,3,5")
    return in_field(field, item, "cannot be read", hint)


def in_field(field: Field, item: str, why: str, hint: str) -> Invalid:
    """The refusal of one item."""
    return Invalid(f"{item!r:.60} in the {field.name} field {why}", hint=hint)
