"""The world of the model: a real database whose every commit is seen, and moments to interfere."""

from __future__ import annotations

import atexit
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from invariants import TABLES, Broken, History, State, Watcher
from world import World

from kandev_sched.domain.agents import AgentRole
from kandev_sched.domain.routines import CatchUpPolicy, ConcurrencyPolicy
from kandev_sched.domain.runs import Run
from kandev_sched.domain.settings import Settings
from kandev_sched.launch.executor import LaunchSpec
from kandev_sched.store.db import Tx

FAST = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
SETTINGS = Settings(max_sessions=3, coalesce_window_s=5)
NAMES = ("ann", "ben", "cem", "dan", "eve")  # eve lives in another workspace
ROUTINES = ("hourly", "skipping", "always", "heavy", "heavy skipping", "once", "eves")
WRITES = ("claim", "admit", "prepare", "note launch")


class Complaints(logging.Handler):
    """What the program reports as an error is one: here no disk fails and no executor refuses."""

    def __init__(self, broken: list[Exception]) -> None:
        super().__init__(logging.ERROR)
        self._broken = broken

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self._broken.append(error if isinstance(error, Exception) else Broken(record.getMessage()))


class KilledError(BaseException):
    """The supervisor is killed: nothing of it is executed any more."""


class MachineWorld(World):
    """A world whose every commit is seen, and in which something may happen before and after each."""

    def __init__(self, folder: Path) -> None:
        self.history = History(max_sessions=SETTINGS.max_sessions)
        self.before_write: Callable[[], None] | None = None
        self.after_write: Callable[[], None] | None = None
        self.judge: Callable[[State, State], list[str]] | None = None
        self.broken: list[Exception] = []
        self.changed: set[str] = set()
        super().__init__(folder, settings=SETTINGS)
        self.machine.ignores_cancel = True
        self._watcher = Watcher(self.path)
        self._version, self._unannounced = 0, self._watcher.unannounced()

    def open(self) -> None:
        if self._is_open:
            return
        super().open()
        self.db._connection.set_update_hook(lambda _kind, _db, table, _row: self.changed.add(table))
        write = self.db.write

        def observed(work: Callable[[Tx], Any]) -> Any:
            if self.before_write is not None:
                self.before_write()
            try:
                return write(work)
            finally:
                self.observe()
                if self.after_write is not None:
                    self.after_write()

        self.db.write = observed  # type: ignore[method-assign]

    def observe(self) -> None:
        """Judge the last commit."""
        if not hasattr(self, "_watcher"):
            return  # the template is being made
        before, version = self.history.state, self._watcher.version()
        if before is not None and version == self._version:
            return
        self._version = version
        changed = self.changed & set(TABLES) | self._unannounced
        after = self._watcher.state(known=before, changed=changed)
        self.changed.clear()
        found = self.history.observe(after, self.now)
        if self.judge is not None and before is not None:
            found += self.judge(before, after)
        if found:
            self.broken.append(Broken("\n".join(found)))  # the program may catch what is raised here
            raise self.broken[0]

    @property
    def state(self) -> State:
        """The state after the last commit."""
        assert self.history.state is not None
        return self.history.state

    def told(self) -> dict[tuple[str, int], list[str]]:
        """What each attempt's agent was told."""
        return {
            (ref.run_id, ref.attempt): [entry["id"] for entry in json.loads(attempt.spec.wakeups_json)]
            for ref, attempt in self.machine.attempts.items()
            if attempt.spec is not None
        }

    def process_with(self, happens: Callable[[str], None], *, is_slow: bool) -> Run | None:
        """`Pipeline.process`, telling `happens` of each moment: before a write (its name), after it
        (`… committed`), and around the launch (`launch`, `launched`). `is_slow`: the shim takes its time.
        """
        names, now = iter(WRITES), {"moment": ""}

        def before() -> None:
            now["moment"] = next(names, "end")
            happens(now["moment"])

        machine, submit = self.machine, self.machine.submit

        def watched_submit(spec: LaunchSpec) -> None:
            happens("launch")
            submit(spec)
            happens("launched")

        machine.starts_slowly, machine.submit = is_slow, watched_submit  # type: ignore[method-assign]
        try:
            with self.hooks(before, lambda: happens(f"{now['moment']} committed")):
                return self.pipeline.process()
        finally:
            machine.submit = submit  # type: ignore[method-assign]

    @contextmanager
    def hooks(
        self, before: Callable[[], None] | None = None, after: Callable[[], None] | None = None
    ) -> Iterator[None]:
        """What is called before and after each write, for a while."""
        former = self.before_write, self.after_write
        self.before_write, self.after_write = before, after
        try:
            yield
        finally:
            self.before_write, self.after_write = former

    def demand(self, sentences: Iterable[str] = ()) -> None:
        """Raise what was broken, also when the program caught it; or what these sentences say."""
        if self.broken:
            raise self.broken[0]
        found = list(sentences)
        if found:
            raise Broken("\n".join(found))

    def give_back(self) -> None:
        """Close everything."""
        self.close()
        self._watcher.close()


@cache
def template() -> str:
    """A database with two workspaces, five agents, five tasks and seven routines; copied for each history."""
    folder = tempfile.mkdtemp(prefix="sched-model-", dir=FAST)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    world = World(Path(folder), settings=SETTINGS)
    world.given_workspace("other")
    agents = {
        "ann": world.given_agent("ann", cooldown_s=10),
        "ben": world.given_agent("ben", cooldown_s=0, max_sessions=2, skip_idle=False),
        "cem": world.given_agent("cem", cooldown_s=60, role=AgentRole.COORDINATOR),
        "dan": world.given_agent("dan", cooldown_s=0),
        "eve": world.given_agent("eve", cooldown_s=10, workspace="other"),
    }
    for title, name in (("one", "ann"), ("two", "ben"), ("three", "cem"), ("four", "dan"), ("five", "eve")):
        world.given_task(title, agent=agents[name])
    _add_routines(world, agents)
    world.close()
    return world.path


def _add_routines(world: World, agents: dict[str, Any]) -> None:
    coalesce, skip = ConcurrencyPolicy.COALESCE_IF_ACTIVE, ConcurrencyPolicy.SKIP_IF_ACTIVE
    hello = {"description": "Say hello to {{who}} on {{date}}"}
    world.given_routine("hourly", agent=agents["ann"], cron="0 * * * *", concurrency=coalesce, **hello)
    world.given_routine("skipping", agent=agents["ann"], cron="*/30 * * * *", concurrency=skip, **hello)
    world.given_routine(
        "always", agent=agents["ben"], cron="*/20 * * * *", concurrency=ConcurrencyPolicy.ALWAYS_ENQUEUE,
        catch_up_max=3, **hello,
    )  # fmt: skip
    heavy = {"task_title": "For {{who}}", "task_description": "made by {{date}}"}
    world.given_routine("heavy", agent=agents["ben"], cron="10 */2 * * *", concurrency=coalesce, **heavy)
    world.given_routine("heavy skipping", agent=agents["cem"], concurrency=skip, **heavy)
    world.given_routine(
        "once", agent=agents["dan"], cron="*/5 * * * *", catch_up=CatchUpPolicy.FIRE_ONCE, **hello
    )
    world.given_routine(
        "eves", agent=agents["eve"], cron="*/15 * * * *", catch_up=CatchUpPolicy.SKIP_MISSED, **hello
    )
