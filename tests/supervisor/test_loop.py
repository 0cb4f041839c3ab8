"""One loop: start, wake, stop-and-join; errors and death. No time is waited for: loops are told, or end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from kandev_sched.supervisor.loop import LONGEST_PAUSE_S, Loop

WAIT_S = 30


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


class Ticks:
    """A tick that counts, and on which a test can wait."""

    def __init__(self, pause_s: float = 3600) -> None:
        self.pause_s = pause_s
        self.count = 0
        self._changed = threading.Condition()

    def __call__(self) -> float:
        with self._changed:
            self.count += 1
            self._changed.notify_all()
        return self.pause_s

    def wait_for(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.count >= count, WAIT_S)


def in_threads(count: int, act: Callable[[int], None]) -> None:
    """`act` in so many threads at once; an error of one is the test's."""
    with ThreadPoolExecutor(count) as threads:
        for done in [threads.submit(act, number) for number in range(count)]:
            done.result(WAIT_S)


def test_a_started_loop_ticks_at_once_and_a_stopped_one_no_more() -> None:
    """S3 Scheduler lifecycle: stopped → running → stopping → stopped."""
    ticks = Ticks()
    loop = Loop("t", ticks)
    assert not loop.is_running
    loop.start()
    ticks.wait_for(1)
    assert loop.is_running
    loop.stop()
    assert not loop.is_running
    loop.wake()
    assert (ticks.count, loop.tick_count) == (1, 1)


def test_a_duplicate_start_is_a_no_op() -> None:
    """S3 Scheduler lifecycle: Start owns exactly one loop; a duplicate `Start` while running is a no-op."""
    before = threading.active_count()
    ticks = Ticks()
    loop = Loop("t", ticks)
    for _ in range(5):
        loop.start()
    ticks.wait_for(1)
    assert threading.active_count() == before + 1
    loop.stop()
    assert ticks.count == 1


def test_a_duplicate_stop_is_a_no_op_also_before_the_first_start() -> None:
    """S3 Scheduler lifecycle: a duplicate `Stop` is a no-op."""
    loop = Loop("t", Ticks())
    loop.stop()
    loop.start()
    for _ in range(5):
        loop.stop()
    assert not loop.is_running


def test_a_stopped_loop_can_be_started_again() -> None:
    """S3 Scheduler lifecycle: `Start` moves stopped → running."""
    ticks = Ticks()
    loop = Loop("t", ticks)
    for count in range(1, 4):
        loop.start()
        ticks.wait_for(count)
        loop.stop()
    assert ticks.count == 3


def test_stop_waits_for_the_tick_in_progress_without_deadline() -> None:
    """S3 Scheduler lifecycle: waits for an in-progress tick to return; no internal join deadline."""
    began, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def slow() -> float:
        began.set()
        assert may_end.wait(WAIT_S)
        ended.set()
        return 0.0

    loop = Loop("t", slow)
    loop.start()
    assert began.wait(WAIT_S)
    stopper = threading.Thread(target=loop.stop)
    stopper.start()
    stopper.join(0.2)
    assert stopper.is_alive()
    may_end.set()
    stopper.join(WAIT_S)
    assert ended.is_set()
    assert loop.tick_count == 1


def test_stop_interrupts_a_loop_that_waits_inside_its_tick() -> None:
    """S3 Failure modes: shutdown while idle cancels the wait and joins."""
    news, inside = threading.Event(), threading.Event()

    def listening() -> float:
        inside.set()
        assert news.wait(WAIT_S)
        return 0.0

    loop = Loop("t", listening, interrupt=news.set)
    loop.start()
    assert inside.wait(WAIT_S)
    loop.stop()
    assert not loop.is_running


def test_a_wake_ends_the_pause() -> None:
    """S3: an in-process queue signal wakes it immediately."""
    ticks = Ticks()
    loop = Loop("t", ticks)
    loop.start()
    for count in range(1, 20):
        ticks.wait_for(count)
        loop.wake()
    ticks.wait_for(20)
    loop.stop()


def test_a_wake_during_a_tick_is_never_lost() -> None:
    """architecture rule 3, S3: the tick in progress may have looked before the work came."""
    seen: list[int] = []
    second = threading.Event()

    def tick() -> float:
        seen.append(len(seen))
        if len(seen) == 1:
            loop.wake()  # work comes while it ticks
        else:
            second.set()
        return 3600

    loop = Loop("t", tick)
    loop.start()
    assert second.wait(WAIT_S)
    loop.stop()
    assert seen == [0, 1]


class _SignalClearedLate(threading.Event):
    """Someone stops the loop between its look at `stopping` and its `clear`: the race, made certain."""

    def __init__(self, before_clear: Callable[[], None]) -> None:
        super().__init__()
        self._before_clear: Callable[[], None] | None = before_clear

    def clear(self) -> None:
        act, self._before_clear = self._before_clear, None
        if act is not None:
            act()
        super().clear()


def test_a_stop_that_comes_just_before_a_tick_is_not_forgotten() -> None:
    """S3 Scheduler lifecycle: `Stop` cancels future ticks, and does not wait for a pause to pass."""
    ticks = Ticks(pause_s=LONGEST_PAUSE_S)
    loop = Loop("t", ticks)
    stopper = threading.Thread(target=loop.stop)
    is_asked = threading.Event()

    def stop_now() -> None:
        stopper.start()
        assert loop._stopping.wait(WAIT_S)
        assert loop._signal.wait(WAIT_S)
        is_asked.set()

    loop._signal = _SignalClearedLate(stop_now)
    loop.start()
    assert is_asked.wait(WAIT_S)
    stopper.join(5)
    was_prompt = not stopper.is_alive()
    loop.wake()
    stopper.join(WAIT_S)
    assert was_prompt
    assert ticks.count <= 1


def test_a_loop_looks_at_least_every_thirty_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """behaviour §7: loops re-check the wall clock at least every 30 s."""
    waits: list[float | None] = []
    ticks = Ticks(pause_s=10 * 86_400)
    loop = Loop("t", ticks)
    wait = loop._signal.wait

    def noted(timeout: float | None = None) -> bool:
        waits.append(timeout)
        return wait(timeout)

    monkeypatch.setattr(loop._signal, "wait", noted)
    loop.start()
    ticks.wait_for(1)
    loop.wake()
    ticks.wait_for(2)
    loop.stop()
    assert waits[0] == LONGEST_PAUSE_S == 30.0


def test_a_negative_pause_is_no_pause() -> None:
    """architecture rule 3: what is due already is done at once."""
    ticks = Ticks(pause_s=-5)
    loop = Loop("t", ticks)
    loop.start()
    ticks.wait_for(10)
    loop.stop()


def test_an_error_of_a_tick_is_reported_and_the_loop_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    """behaviour §6: one failing handler never stops the others: the loop reports and goes on."""
    ticks = Ticks()

    def failing() -> float:
        ticks()
        if ticks.count == 1:
            raise ValueError("the row is bad")
        return 3600

    loop = Loop("worker", failing)
    loop.start()
    ticks.wait_for(1)
    while loop.last_error is None:
        assert not threading.Event().wait(0.001)
    assert loop.last_error == "ValueError: the row is bad"
    loop.wake()
    ticks.wait_for(2)
    loop.stop()
    assert loop.last_error is None
    (record,) = (record for record in caplog.records if record.levelno == logging.ERROR)
    assert "worker" in record.getMessage()
    assert record.exc_info is not None


def test_only_what_is_no_exception_ends_a_loop_and_that_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """behaviour §6: a loop that dies takes the process down with a non-zero status."""
    died = threading.Event()

    def dying() -> float:
        raise SystemExit("out of memory")

    loop = Loop("worker", dying, on_death=died.set)
    loop.start()
    assert died.wait(WAIT_S)
    loop.stop()
    assert any(record.levelno == logging.CRITICAL for record in caplog.records)


def test_ten_threads_may_start_wake_and_stop_a_loop_as_they_like() -> None:
    """S3 Scheduler lifecycle: from any thread, however often."""
    ticks = Ticks(pause_s=LONGEST_PAUSE_S)
    loop = Loop("t", ticks)

    def act(number: int) -> None:
        for round_ in range(50):
            (loop.start, loop.wake, loop.stop)[(number + round_) % 3]()

    in_threads(10, act)
    loop.stop()
    assert not loop.is_running
    assert loop.tick_count == ticks.count
