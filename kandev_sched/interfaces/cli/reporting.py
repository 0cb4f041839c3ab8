"""Every way in which a command can end, as an exit status and at most one sentence on stderr."""

from __future__ import annotations

import errno
import os
import sys

from kandev_sched.domain.errors import Invalid, SchedError, Unavailable
from kandev_sched.interfaces.errors import EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED, exit_status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO


def guarded(command: Callable[[], int], *, is_json: bool, is_verbose: bool) -> int:
    """Run a command; whatever it raises becomes an exit status."""
    try:
        return command()
    except SchedError as error:
        _trace(is_verbose)
        return report(error, is_json=is_json)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _discard(sys.stdout)
        return EXIT_DONE
    except Exception as error:  # noqa: BLE001 - the last line of defence: nobody sees a traceback
        _trace(is_verbose)
        return report(_explained(error), is_json=is_json)


def report(error: SchedError, *, is_json: bool) -> int:
    """Say what is wrong, and what would be right, on stderr."""
    if is_json:
        import json

        said = {"code": error.code, "message": error.message, "hint": error.hint}
        _complain(json.dumps({"error": said}))
    else:
        hint = f"\n  hint: {printable(error.hint)}" if error.hint else ""
        _complain(f"sched: {printable(error.message)}{hint}")
    return exit_status(error)


def note(text: str) -> None:
    """A remark for the person at the terminal, which is no part of the result."""
    _complain(f"sched: {printable(text)}")


def write_line(text: str) -> None:
    """Print a line of the result."""
    if sys.stdout is not None:  # a caller may have closed it: then nobody wants to know
        sys.stdout.write(f"{text}\n")


def finish(status: int) -> int:
    """Bring the output out; what goes wrong with that is reported like everything else."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except BrokenPipeError:
            _discard(stream)
        except OSError as error:
            _discard(stream)
            status = report(_explained(error), is_json=False)
    return status


def printable(text: str) -> str:
    """No control sequence of a name or an error text reaches the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


def _explained(error: Exception) -> SchedError:
    if isinstance(error, UnicodeEncodeError):
        return Invalid(f"{error.object[:40]!r} is not Unicode text", hint="use UTF-8")
    if isinstance(error, MemoryError):
        return Unavailable("the memory is used up")
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Unavailable(f"the output cannot be written: {error.strerror}", hint="free some space")
    said = str(error).split("\n")[0] or type(error).__name__
    hint = "`--verbose` shows where; please report it"
    return SchedError(f"{type(error).__name__}: {said}", hint=hint, code="failed")


def _trace(is_verbose: bool) -> None:
    if is_verbose:
        import traceback

        _complain(traceback.format_exc().rstrip())


def _complain(text: str) -> None:
    try:
        if sys.stderr is not None:
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()
    except (OSError, ValueError):  # stderr is closed or full: there is nowhere left to say it
        _discard(sys.stderr)


def _discard(stream: TextIO | None) -> None:
    """Nobody reads it any more: what is still buffered must not fail again when the interpreter ends."""
    if stream is None:
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


__all__ = ["EXIT_FAILED", "finish", "guarded", "note", "printable", "report"]
