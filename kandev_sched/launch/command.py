"""Command: what a `command` profile's program is given, where it is found, and how it is started.

Rule kept here: the environment is an allow-list. What the scheduler itself was started with, secrets
above all, reaches an agent only if its profile names it. Stdlib only: the shim imports this.
"""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ALLOWED = ("PATH", "HOME", "LANG", "TZ", "USER", "LOGNAME", "SHELL", "TMPDIR")
_ALLOWED_PREFIX = "LC_"
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"

# Ignored signals stay ignored in the program that is started (Python ignores SIGPIPE, the shim SIGINT).
_FRESH = (
    signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ,
    signal.SIGCHLD, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU,
)  # fmt: skip


class LaunchFailed(Exception):
    """The program could not be started, for a reason that is the profile's and not ours: one sentence."""


def agent_environment(
    base: Mapping[str, str], profile_env: Mapping[str, str], sched_env: Mapping[str, str]
) -> dict[str, str]:
    """The allow-listed part of `base`, then what the profile adds, then SCHED_*, which always wins."""
    allowed = {k: v for k, v in base.items() if k in ALLOWED or k.startswith(_ALLOWED_PREFIX)}
    return {**allowed, **profile_env, **sched_env}


def _candidates(argv0: str, path: str, cwd: str) -> list[str]:
    """Where a shell in `cwd` would look; an empty PATH entry is the directory itself."""
    if "/" in argv0:
        return [os.path.join(cwd, argv0)]
    return [os.path.join(cwd, entry, argv0) for entry in path.split(":")] if argv0 else []


def find_command(argv0: str, path: str, cwd: str) -> str | None:
    """The program that `argv0` names, as an absolute path; None when there is none that can be executed."""
    for candidate in _candidates(argv0, path, cwd):
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    return None


def why_not_found(argv0: str, path: str, cwd: str) -> str:
    """One sentence for a person whose command `find_command` did not find."""
    if not argv0:
        return "The command is empty."
    for candidate in _candidates(argv0, path, cwd):
        if os.path.isdir(candidate):
            return f"The command {candidate!r} is a directory."
        if os.path.exists(candidate):
            return f"The command {candidate!r} is not executable."
    place = "does not exist" if "/" in argv0 else f"was not found in PATH ({path})"
    return f"The command {argv0!r} {place}."


def enter_and_find(argv: Sequence[str], env: Mapping[str, str], cwd: str) -> str:
    """Enter the working directory (a child inherits it); the program, looked for from there."""
    try:
        os.chdir(cwd)
    except (OSError, ValueError) as error:
        raise LaunchFailed(f"The working directory {cwd!r} cannot be entered: {_why(error)}.") from error
    place = (argv[0] if argv else "", env.get("PATH", DEFAULT_PATH), os.getcwd())
    program = find_command(*place)
    if program is None:
        raise LaunchFailed(why_not_found(*place))
    return program


def spawn(program: str, argv: Sequence[str], env: Mapping[str, str], ends: Sequence[int]) -> int:
    """Start it in its own session, with `ends` as descriptors 0, 1, 2, … and no other; its pid."""
    try:
        return os.posix_spawn(
            program, list(argv), env,
            file_actions=[(os.POSIX_SPAWN_DUP2, end, fd) for fd, end in enumerate(ends)],
            setsid=True, setsigmask=(), setsigdef=_FRESH,
        )  # fmt: skip
    except FileNotFoundError as error:  # the program is there: it is a script
        reason = "the interpreter that its first line names does not exist"
        raise LaunchFailed(f"The command {program!r} could not be started: {reason}.") from error
    except (OSError, ValueError) as error:
        raise LaunchFailed(f"The command {program!r} could not be started: {_why(error)}.") from error


def _why(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
