"""The errors that a person may see: each is one sentence with the offending value, and a hint.

Misuse raises one of these; decisions (skipped, cancelled, held) are outcomes, never errors.
The exit status and HTTP status of each class stand in `interfaces/errors.py`.
"""

from __future__ import annotations


class SchedError(Exception):
    """Base: `code` is for programs, `message` one sentence for people, `hint` what would be right."""

    code = "error"

    def __init__(self, message: str, *, hint: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if code is not None:
            self.code = code


class Invalid(SchedError):
    """A value that cannot be used."""

    code = "invalid"


class NotFound(SchedError):
    """A name or id that does not exist."""

    code = "not_found"


class Conflict(SchedError):
    """The state of things forbids it: a taken name, a second supervisor, a stale etag."""

    code = "conflict"


class Denied(SchedError):
    """The caller may not do this."""

    code = "denied"


class Unavailable(SchedError):
    """The database cannot be used right now: locked, disk full, read-only."""

    code = "unavailable"


class Unusable(SchedError):
    """The database or the config cannot be used by this version of the program."""

    code = "unusable"
