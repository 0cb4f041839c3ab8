"""Names and texts that people give: what may be one, and how close a wrong one came."""

from __future__ import annotations

from kandev_sched.domain.errors import Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

NAME_LIMIT = 200
TEXT_LIMIT = 1_000_000


def checked_name(kind: str, name: str) -> str:
    """`name` if it can name a thing. Raises Invalid."""
    if not name or name != name.strip():
        raise Invalid(
            f"{name!r:.60} is not a {kind} name", hint="a name is not empty and has no blanks around it"
        )
    if len(name) > NAME_LIMIT:
        raise Invalid(
            f"the {kind} name {name[:20]!r}… has {len(name)} characters",
            hint=f"at most {NAME_LIMIT} are allowed",
        )
    if not name.isprintable():
        raise Invalid(f"the {kind} name {name!r:.60} has control characters", hint="use printable characters")
    if name.startswith("-") or looks_like_id(name):
        raise Invalid(
            f"the {kind} name {name!r:.60} reads like an option or an id", hint="choose another name"
        )
    return name


def checked_text(what: str, text: str) -> str:
    """`text` if it can be stored and shown: printable, line breaks and tabs allowed. Raises Invalid."""
    if len(text) > TEXT_LIMIT:
        raise Invalid(f"the {what} has {len(text)} characters", hint=f"at most {TEXT_LIMIT} are allowed")
    bad = next((c for c in text if not c.isprintable() and c not in "\n\r\t" and not c.isspace()), None)
    if bad is not None:
        raise Invalid(f"the {what} has the control character {bad!r}", hint="use printable characters")
    return text


def looks_like_id(text: str) -> bool:
    """Whether the text has the form of an id of ours (`<prefix>_<26 to 32 characters>`)."""
    prefix, _, rest = text.partition("_")
    return prefix.isalpha() and prefix.islower() and len(rest) in (26, 32) and rest.isalnum()


def suggestion(wrong: str, right: Iterable[str], *, kind: str) -> str:
    """A hint for a name that does not exist."""
    import difflib

    names = sorted(right)
    close = difflib.get_close_matches(wrong, names, n=1)
    if close:
        return f"did you mean {close[0]}?"
    return f"there are: {', '.join(names[:20])}" if names else f"there is no {kind} yet"
