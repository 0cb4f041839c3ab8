"""`sched fire --wait`: fire, then follow the request to its end, through retries and follow-up runs."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager

from kandev_sched.domain.wakeups import Ending
from kandev_sched.interfaces.cli import asking
from kandev_sched.interfaces.cli.following import states
from kandev_sched.interfaces.cli.reporting import printable
from kandev_sched.interfaces.errors import EXIT_DONE, EXIT_NOT_SUCCESSFUL
from kandev_sched.operations.outlook import Outlook, fired_now, outlook_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kandev_sched.flow.firing import Fired
    from kandev_sched.interfaces.cli.asking import FireWords
    from kandev_sched.interfaces.cli.invocation import Invocation

    Tell = Callable[[str], None]


def fire_and_wait(here: Invocation, words: FireWords, *, patience_s: int | None) -> int:
    """0 only if the request was delivered to an agent that succeeded, else 7."""
    until = None if patience_s is None else time.monotonic() + patience_s
    fired = asking.ask_to_fire(here, words)
    last = _follow(here, fired, until=until)
    fired = here.read(lambda reader: fired_now(reader, fired))
    here.tell(f"{words.routine}: {last.sentence}", asking.fired_row(here, fired) if here.is_json else None)
    return EXIT_DONE if last.ending is Ending.DELIVERED else EXIT_NOT_SUCCESSFUL


def _follow(here: Invocation, fired: Fired, *, until: float | None) -> Outlook:
    looks = states(here, lambda reader: outlook_of(reader, fired, here.circumstances()), until=until)
    with _telling(here) as tell:
        for look in looks:
            tell(look.sentence)
            if look.is_over:
                break
        looks.close()
    return look


@contextmanager
def _telling(here: Invocation) -> Iterator[Tell]:
    """Says each change on stderr: on a terminal in one live line, else a line each."""
    if here.options.is_quiet:
        yield lambda _: None
    elif sys.stderr is not None and sys.stderr.isatty():
        with _live_line(here) as tell:
            yield tell
    else:
        yield _Lines(here.note)


class _Lines:
    """A line for each sentence that differs from the one before."""

    def __init__(self, note: Tell) -> None:
        self._note = note
        self._last: str | None = None

    def __call__(self, sentence: str) -> None:
        if sentence != self._last:
            self._note(sentence)
        self._last = sentence


@contextmanager
def _live_line(here: Invocation) -> Iterator[Tell]:
    from rich.text import Text

    from kandev_sched.interfaces.tables import console_of

    with console_of(sys.stderr, is_plain=here.options.is_plain).status(Text("fired")) as status:
        yield lambda sentence: status.update(Text(printable(sentence)))
