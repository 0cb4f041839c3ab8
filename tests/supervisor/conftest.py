"""What the tests of the supervisor share."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator

import pytest

WAIT_S = 30


@pytest.fixture
def until() -> Callable[[Callable[[], object]], None]:
    """Wait until something is true."""
    never = threading.Event()

    def wait(condition: Callable[[], object]) -> None:
        for _ in range(WAIT_S * 500):
            if condition():
                return
            never.wait(0.002)
        raise AssertionError("it never became true")

    return wait


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """No thread, and the signals as they were."""
    threads = set(threading.enumerate())
    handlers = {
        number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGTSTP)
    }
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)
    left = set(threading.enumerate()) - threads
    assert left == set()
