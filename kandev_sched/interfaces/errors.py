"""One table: error class → exit status (later also HTTP status and JSON-RPC code)."""

from __future__ import annotations

from kandev_sched.domain.errors import (
    Conflict,
    Denied,
    Invalid,
    NotFound,
    SchedError,
    Unavailable,
    Unusable,
)

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_NOT_SUCCESSFUL = 7
EXIT_INTERRUPTED = 130

EXIT_STATUS: dict[type[SchedError], int] = {
    Invalid: EXIT_USAGE,
    NotFound: 3,
    Conflict: 4,
    Denied: 5,
    Unavailable: 6,
    Unusable: 78,
}


def exit_status(error: SchedError) -> int:
    """The exit status of a command that ended with `error`."""
    return EXIT_STATUS.get(type(error), EXIT_FAILED)
