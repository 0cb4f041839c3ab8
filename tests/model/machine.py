"""Random histories over the real store: what people, agents, clocks and crashes may do, in any order.

`Machine` is a hypothesis state machine around `world.World` (a real database file, a fake clock, agents that end
when the machine says so). Every commit is observed, from a connection of its own, and judged by `invariants`;
at the end everything is resumed, succeeds and gets all the time it needs, and then nothing may be left.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from invariants import (
    TABLES,
    WHY_CANCELLED_BY_STALENESS,
    Broken,
    History,
    Row,
    State,
    Watcher,
    i1_what_was_delivered_stood_in_a_prompt,
    i6_a_missed_slot_does_not_fire,
    i13_nothing_is_left,
    i13_nothing_that_could_start_waits,
)
from world import TASK_SOURCES, World

from kandev_sched.domain.agents import AgentRole
from kandev_sched.domain.routines import CatchUpPolicy, ConcurrencyPolicy, RoutineStatus
from kandev_sched.domain.settings import Settings
from kandev_sched.domain.tasks import Task, TaskState, is_closed
from kandev_sched.domain.wakeups import Capacity, WakeupSource
from kandev_sched.flow.sweep import adopt_stranded
from kandev_sched.launch.executor import AttemptRef, AttemptState, Ending, LaunchSpec
from kandev_sched.operations import agents as agent_operations
from kandev_sched.operations import routines as routine_operations
from kandev_sched.operations import workspaces as workspace_operations
from kandev_sched.policy.recovery import STARTING_LIMIT_MS
from kandev_sched.store import tasks
from kandev_sched.store.db import Tx
from kandev_sched.supervisor.sweeper import mend_clock

FAST = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
SETTINGS = Settings(max_sessions=3, coalesce_window_s=5)
BY_USER = "cancelled by the user"
SOURCES = tuple(source for source in WakeupSource if source is not WakeupSource.ROUTINE)
PAUSES_S = (1, 4, 6, 11, 31, 61, 150, 700, 3601, 7300)
ENDS = ("success", "success", "success", "failure", "error", "permanent", "lost", "timeout")
NAMES = ("ann", "ben", "cem", "dan", "eve")  # eve lives in another workspace
ROUTINES = ("hourly", "skipping", "always", "heavy", "heavy skipping", "once", "eves")
CROWD = ("none", "archive", "stop", "pause", "resume", "cancel", "assign", "move", "leave", "archive routine")
CAPACITIES = (Capacity.ASSIGNEE, Capacity.MENTIONED, Capacity.REVIEWER, Capacity.ASSIGNEE, Capacity.NONE)
ANY = st.integers(0, 59)


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
        before = self.history.state
        if before is not None and not self.changed:
            return
        # Tables without rowids are not announced; they are small.
        changed = self.changed & set(TABLES) | {"task_participants"}
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

    def give_back(self) -> None:
        """Close everything."""
        self.close()
        self._watcher.close()


@cache
def template() -> str:
    """A database with two workspaces, five agents, five tasks and seven routines; copied for each history."""
    folder = tempfile.mkdtemp(prefix="sched-model-", dir=FAST)
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


PEOPLE = (
    "set_agent_status",
    "set_agent_status",
    "move_task",
    "assign_task",
    "leave_task",
    "set_routine_status",
    "pause_workspace",
    "set_agent",
    "archive_agent",
    "cancel",
)
ACTIONS = ("wake", "wake_task", "wake_task", "fire", "tick", "end", "watch", "advance", *PEOPLE)
MOMENTS = ("admit", "prepare", "launch", "launched", "note launch")
DEATHS = (None,) * 12 + (
    "claim committed", "admit", "admit committed", "prepare", "prepare committed",
    "launch", "launched", "note launch", "note launch committed",
)  # fmt: skip
MEANWHILE = st.lists(st.tuples(st.sampled_from(MOMENTS), st.sampled_from(ACTIONS), ANY, ANY), max_size=3)


class Machine(RuleBasedStateMachine):
    """One history. Every number from `focused` on means what is worked on just now: there the rules meet."""

    focused = 25
    names: tuple[str, ...] = NAMES
    interferes: tuple[str, ...] = CROWD

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp(prefix="sched-model-", dir=FAST)
        shutil.copy(template(), self.folder)
        self.world = MachineWorld(Path(self.folder))
        self.world.host._numbers = itertools.count(100_000)
        self.world.judge = self.judge
        self.complaints = Complaints(self.world.broken)
        logging.getLogger("kandev_sched").addHandler(self.complaints)
        logging.getLogger("kandev_sched").propagate = False
        self.world.observe()
        self.may_cancel: dict[str, set[str]] = {}  # request id → why it may be cancelled
        self.keys = itertools.count()
        self.was_set_back = False

    # ---- who and what ---------------------------------------------------------------------------

    def pick(self, things: Sequence[Any], number: int) -> Any:
        return things[number % len(things)] if things else None

    def focus(self, number: int) -> Row | None:
        return self.pick(self.world.state.runs_in("claimed"), number) if number >= self.focused else None

    def agent(self, number: int) -> Row:
        run = self.focus(number)
        if run is not None:
            return self.world.state.agents[run["agent_id"]]
        return next(a for a in self.world.state.agents.values() if a["name"] == self.names[number % len(self.names)])

    def task(self, number: int) -> Row:
        run = self.focus(number)
        tasks = self.world.state.tasks
        if run is not None and run["task_id"] is not None:
            return tasks[run["task_id"]]
        return self.pick(list(tasks.values()), number)

    def routine(self, number: int) -> Row:
        run = self.focus(number)
        if run is not None and run["routine_id"] is not None:
            return self.world.state.routines[run["routine_id"]]
        name = ROUTINES[number % len(ROUTINES)]
        return next(r for r in self.world.state.routines.values() if r["name"] == name)

    # ---- requests -------------------------------------------------------------------------------

    @rule(how=st.sampled_from(("wake", "wake_task", "wake_task", "fire")), x=ANY, y=ANY)
    def ask(self, how: str, x: int, y: int) -> None:
        """Somebody is to be woken."""
        getattr(self, how)(x, y)

    @rule(
        asked=st.lists(
            st.tuples(st.sampled_from(("wake", "wake_task", "fire")), ANY, ANY), min_size=2, max_size=5
        )
    )
    def ask_much(self, asked: list[tuple[str, int, int]]) -> None:
        """A burst."""
        for how, x, y in asked:
            getattr(self, how)(x, y)

    def wake(self, what: int, who: int) -> None:
        """A taskless request; one in four has a key, which may have been used."""
        source = self.pick([s for s in SOURCES if s not in TASK_SOURCES], what)
        self._request(source, self.agent(who), task=None, key=self._key(what // 5, source))

    def wake_task(self, what: int, which: int) -> None:
        """A request about a task, for its assignee, a participant, or someone who was named."""
        task = self.task(which)
        source = self.pick(list(SOURCES), what)
        peers = [a for a in self.world.state.agents.values() if a["workspace_id"] == task["workspace_id"]]
        capacity = self.pick(
            [Capacity.ASSIGNEE, Capacity.ASSIGNEE, Capacity.REVIEWER, Capacity.APPROVER, Capacity.MENTIONED],
            what // len(SOURCES),
        )
        agent = self.world.state.agents.get(task["assignee_agent_id"] or "")
        if capacity is not Capacity.ASSIGNEE or agent is None:
            agent = self.pick(peers, which // 7)
        if capacity in (Capacity.REVIEWER, Capacity.APPROVER):
            self.world.given_reviewer(self.world.task(task["id"]), self.world.agent(agent["id"]), capacity)
        self._request(source, agent, task=task, key=self._key(which // 6, source), capacity=capacity)

    @rule(which=ANY, whats=st.lists(ANY, min_size=1, max_size=3), act=st.sampled_from(CROWD), how=ANY, is_over=ANY)
    def crowd(self, which: int, whats: list[int], act: str, how: int, is_over: int) -> None:
        """Several requests for what one live run is about, then somebody interferes with just that."""
        run = self.focus(which) or self.pick(self.world.state.runs_in("queued", "claimed"), which)
        if run is None:
            return
        agent, task = self.world.state.agents[run["agent_id"]], self.world.state.tasks.get(run["task_id"])
        for what in whats:
            self._request_about(agent, task, what)
        self._interfere(act, run, how)
        if is_over % 3:
            ref = AttemptRef(run_id=run["id"], attempt=run["attempt"])
            if ref in self.attempts(AttemptState.RUNNING):
                self._end_as(ref, ENDS[how % len(ENDS)])
            self.watch()

    def _request_about(self, agent: Row, task: Row | None, what: int) -> None:
        source = self.pick([s for s in SOURCES if task is not None or s not in TASK_SOURCES], what)
        capacity = self.pick(CAPACITIES, what // 10) if task is not None else Capacity.NONE
        if capacity is Capacity.REVIEWER and agent["archived_at"] is None:
            self.world.given_reviewer(self.world.task(task["id"]), self.world.agent(agent["id"]))
        self._request(source, agent, task=task, key=None, capacity=capacity)

    def _interfere(self, act: str, run: Row, how: int) -> None:
        agent = self.world.agent(run["agent_id"])
        doing = self.interferes[CROWD.index(act) % len(self.interferes)]
        match doing:
            case "archive" if agent.archived_at is None and agent.name != "ben":
                self.world.archive(agent)
            case "stop" | "pause" | "resume" if agent.archived_at is None:
                getattr(self.world, doing)(agent)
            case "cancel":
                self.cancel_this(self.world.state.runs[run["id"]])
            case "assign" | "move" | "leave" if run["task_id"] is not None:
                self._interfere_with_task(doing, self.world.task(run["task_id"]), how)
            case "archive routine" if run["routine_id"] is not None:
                routine = self.world.routine(run["routine_id"])
                if routine.archived_at is None:
                    self.world.db.write(lambda tx: routine_operations.archive_routine(tx, routine))

    def _interfere_with_task(self, act: str, task: Task, how: int) -> None:
        if act == "assign" and not is_closed(task):
            self.world.assign(task, None)
        elif act == "move" and task.archived_at is None:
            self.world.move(task, (TaskState.DONE, TaskState.TODO)[how % 2])
        elif act == "leave":
            for row in self.world.state.tables["task_participants"]:
                if row["task_id"] == task.id:
                    gone = {**row, "capacity": Capacity(row["capacity"])}
                    self.world.db.write(lambda tx, gone=gone: tasks.remove_participant(tx, **gone))

    def _key(self, number: int, source: str) -> str | None:
        return (None, None, f"{source}:a", f"{source}:{next(self.keys)}")[number % 4]

    def _request(
        self, source: str, agent: Row, *, task: Row | None, key: str | None, capacity: Capacity | None = None
    ) -> None:
        if agent["archived_at"] is not None:
            return  # whoever asks is told so
        before = self.world.state
        given = self.world.dispatch(
            source,
            self.world.agent(agent["id"]),
            task=self.world.task(task["id"]) if task else None,
            key=key,
            capacity=capacity,
        )
        used = [
            r["id"]
            for r in before.requests.values()
            if key is not None and (r["agent_id"], r["idempotency_key"]) == (agent["id"], key)
        ]
        if given.is_duplicate != bool(used) or (used and given.request.id != used[0]):
            raise Broken(
                f"I2: key {key} of {agent['name']} was used by {used}, the answer is {given.request.id}"
            )
        if not used and given.request.id not in self.world.state.requests:
            raise Broken(f"I9: request {given.request.id} was accepted and is not there")

    def fire(self, which: int, how: int) -> None:
        """By hand, perhaps with a key that was used; refused where nothing may be fired."""
        routine = self.routine(which)
        agent = self.world.state.agents[routine["agent_id"]]
        is_open = self.world.state.workspaces[routine["workspace_id"]]["enabled"]
        if routine["status"] == "active" and agent["archived_at"] is None and is_open:
            key = (None, None, "again", f"fire:{next(self.keys)}")[how % 4]
            who = ("you", "them")[how // 4 % 2]
            self.world.fire(self.world.routine(routine["id"]), key=key, who=who)

    def tick(self) -> None:
        """The ticker looks once."""
        self.world.tick()
        late = [
            t["id"]
            for t in self.world.state.tables["triggers"]
            if t["next_run_at"] is not None and t["next_run_at"] <= self.world.now
        ]
        if late:
            raise Broken(f"I6: triggers {late} are due after a tick")

    # ---- time -----------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from(PAUSES_S))
    def time(self, seconds: int) -> None:
        """Time passes."""
        self.world.advance(seconds)

    @rule(what=st.sampled_from(("clock_back", "sweep", "tick", "be_born")), x=ANY)
    def happen(self, what: str, x: int) -> None:
        """Nobody asked for it."""
        getattr(self, what)(*([x] if what == "be_born" else []))

    def advance(self, number: int, _: int = 0) -> None:
        self.world.advance(PAUSES_S[number % len(PAUSES_S)])

    def clock_back(self) -> None:
        """The clock was an hour fast; the sweeper looks while it is right, and when it was set back."""
        self.sweep()
        self.was_set_back = True
        self.world.host.set_clock(self.world.now - 3_600_000)
        self.world.history.shift(3_600_000, self.world.now)
        self.sweep()

    def sweep(self) -> None:
        """The safety pass; in a healthy system it adopts nothing."""
        self.world.db.write(mend_clock)
        self.world.advance(6)
        if self.world.db.write(lambda tx: adopt_stranded(tx, window_s=SETTINGS.coalesce_window_s)):
            raise Broken("I1: the sweep found a request that no run held")

    # ---- the supervisor -------------------------------------------------------------------------

    @rule(meanwhile=MEANWHILE, death=st.sampled_from(DEATHS), is_slow=st.sampled_from((False, False, True)))
    def process(self, meanwhile: list[tuple[str, str, int, int]], death: str | None, is_slow: bool) -> None:
        """Steps 1 to 11 for one run, with what happens meanwhile, and perhaps the supervisor's death."""
        moments = itertools.chain(("claim", "admit", "prepare", "note launch"), itertools.repeat("end"))
        now_at = {"moment": ""}

        def at(moment: str) -> None:
            for when, action, x, y in meanwhile:
                if when == moment:
                    self._aside(action, x, y)
            if moment == death:
                raise KilledError(moment)

        def before_write() -> None:
            now_at["moment"] = next(moments)
            at(now_at["moment"])

        def after_write() -> None:
            if death == f"{now_at['moment']} committed":
                raise KilledError(death)

        def submitted(_: LaunchSpec) -> None:
            at("launch")

        machine = self.world.machine
        machine.starts_slowly = is_slow
        submit = machine.submit

        def watched_submit(spec: LaunchSpec) -> None:
            submit(spec)
            at("launched")

        self._hooks(before_write, after_write)
        machine.when_submitted, machine.submit = submitted, watched_submit  # type: ignore[method-assign]
        died = False
        try:
            run = self.world.pipeline.process()
        except KilledError:
            died = True
        finally:
            self._hooks(None, None)
            machine.when_submitted, machine.submit = None, submit  # type: ignore[method-assign]
        if died:
            self.restart()
        elif run is None:
            self._demand(
                i13_nothing_that_could_start_waits(self.world.state, self.world.now, SETTINGS.max_sessions)
            )

    def _hooks(self, before: Callable[[], None] | None, after: Callable[[], None] | None) -> None:
        self.world.before_write, self.world.after_write = before, after

    def _aside(self, action: str, x: int, y: int) -> None:
        """Something that another thread or process does between two steps."""
        hooks = self.world.before_write, self.world.after_write
        self._hooks(None, None)
        try:
            if action in ("tick", "watch"):
                getattr(self, action)()
            else:
                getattr(self, action)(x, y)
        except Exception as error:
            self.world.broken.append(error)
            raise
        finally:
            self._hooks(*hooks)

    @rule(seconds=st.sampled_from((1, 11, 61)))
    def serve(self, seconds: int) -> None:
        """The drainer takes what it can."""
        self.world.advance(seconds)
        while self.world.pipeline.process() is not None:
            self._demand([])
        self._demand(
            i13_nothing_that_could_start_waits(self.world.state, self.world.now, SETTINGS.max_sessions)
        )

    @rule(hows=st.lists(ANY, min_size=1, max_size=3))
    def work(self, hows: list[int]) -> None:
        """A while of ordinary life: runs start, agents end, the watcher sees it, runs start."""
        self.serve(1)
        for how in hows:
            self.end(0, how)
        self.watch()
        self.serve(11)

    @rule()
    def watch(self) -> None:
        """The watcher looks at every claimed run; then no result is left unsettled (I11)."""
        in_hand = set(self.world.pipeline._in_hand)
        self.world.attend()
        for run in self.world.state.runs_in("claimed"):
            attempt = self.world.machine.attempts.get(AttemptRef(run_id=run["id"], attempt=run["attempt"]))
            state = attempt.state if attempt else AttemptState.UNBORN
            started_at = run["started_at"]
            is_starting = started_at is not None and self.world.now - started_at < STARTING_LIMIT_MS
            may_stay = state is AttemptState.RUNNING or (state is AttemptState.UNBORN and is_starting)
            if run["id"] not in in_hand and not may_stay:
                raise Broken(f"I11: run {run['id']} stays claimed, its attempt is {state}")

    @rule(moment=st.sampled_from(("before", "after", "idle")))
    def die(self, moment: str) -> None:
        """The supervisor is killed around the first commit of its watcher, or while it has nothing to do."""
        if moment == "idle":
            self.restart()
            return

        def kill() -> None:
            raise KilledError(moment)

        self._hooks(kill if moment == "before" else None, kill if moment == "after" else None)
        try:
            self.world.attend()
        except KilledError:
            self._hooks(None, None)
            self.restart()
        finally:
            self._hooks(None, None)

    def restart(self) -> None:
        """The supervisor dies; the next one finds what it left. No claimed run is unborn or lost then (I11)."""
        self.world.restart()
        for run in self.world.state.runs_in("claimed"):
            attempt = self.world.machine.attempts.get(AttemptRef(run_id=run["id"], attempt=run["attempt"]))
            if attempt is None or attempt.state is not AttemptState.RUNNING:
                state = attempt.state if attempt else "unborn"
                raise Broken(f"I11: after a restart run {run['id']} is claimed and its attempt is {state}")

    # ---- agents ---------------------------------------------------------------------------------

    def attempts(self, *states: AttemptState) -> list[AttemptRef]:
        machine = self.world.machine
        return [ref for ref in machine.list() if machine.attempts[ref].state in states]

    def end(self, which: int, how: int) -> None:
        """An agent ends by itself, because it was asked to, or with its shim."""
        ref = self.pick(self.attempts(AttemptState.RUNNING), which)
        if ref is None:
            return
        if self.world.machine.attempts[ref].was_cancelled and how % 3:
            self.world.machine.finish(ref, ending=Ending.CANCELLED, exit_code=143)
            return
        self._end_as(ref, ENDS[how % len(ENDS)])

    def _end_as(self, ref: AttemptRef, how: str) -> None:
        machine = self.world.machine
        match how:
            case "success":
                machine.finish(ref)
            case "failure":
                machine.finish(ref, exit_code=1, output_tail="it broke")
            case "error":
                machine.finish(ref, structured={"is_error": True, "error": "no luck"})
            case "permanent":
                machine.finish(ref, ending=Ending.LAUNCH_FAILED, exit_code=None, error="no such command")
            case "lost":
                machine.lose(ref, strays=1)
            case "timeout":
                machine.finish(ref, ending=Ending.TIMED_OUT, exit_code=None)

    @rule(hows=st.lists(st.tuples(ANY, ANY), min_size=1, max_size=3), is_seen=st.booleans())
    def agents_end(self, hows: list[tuple[int, int]], is_seen: bool) -> None:
        """Agents end, and perhaps the watcher sees it at once."""
        for which, how in hows:
            self.end(which, how)
        if is_seen:
            self.watch()

    def be_born(self, which: int) -> None:
        """A slow shim takes its lock."""
        unborn = [
            ref
            for ref in self.attempts(AttemptState.UNBORN)
            if self.world.machine.attempts[ref].spec is not None
        ]
        ref = self.pick(unborn, which)
        if ref is not None:
            self.world.machine.appear(ref)

    # ---- people ---------------------------------------------------------------------------------

    @rule(action=st.sampled_from(PEOPLE), x=ANY, y=ANY)
    def person(self, action: str, x: int, y: int) -> None:
        """Somebody changes something."""
        getattr(self, action)(x, y)

    def cancel(self, which: int, _: int = 0) -> None:
        """A person cancels a run: what it holds now (or was prompted with), not what comes later."""
        run = self.focus(which) or self.pick(self.world.state.runs_in("queued", "claimed"), which)
        if run is not None:
            self.cancel_this(run)

    def cancel_this(self, run: Row) -> None:
        if run["status"] not in ("queued", "claimed"):
            return
        is_first = run["cancel_requested_at"] is None or run["cancel_reason"] == "agent_stopped"
        for request in self.world.state.members[run["id"]]:
            is_prompted = request["delivered_attempt"] == run["attempt"]
            is_meant = run["prompted_at"] is None or (is_prompted and is_first)
            if is_meant and request["finished_at"] is None:
                self.may_cancel.setdefault(request["id"], set()).add(BY_USER)
        self.world.cancel(run["id"], reason=BY_USER)

    def set_agent_status(self, who: int, what: int) -> None:
        """Pause, stop, resume."""
        agent = self.agent(who)
        if agent["archived_at"] is None:
            do = (self.world.pause, self.world.stop, self.world.resume, self.world.resume)[what % 4]
            do(self.world.agent(agent["id"]))

    def archive_agent(self, who: int, _: int = 0) -> None:
        """Gone for good; not often, and never ben, so that something goes on."""
        agent = self.agent(who)
        if who % 3 == 0 and agent["archived_at"] is None and agent["name"] != "ben":
            self.world.archive(self.world.agent(agent["id"]))

    def set_agent(self, who: int, what: int) -> None:
        """Another cooldown, other sessions."""
        agent = self.agent(who)
        if agent["archived_at"] is not None:
            return
        changes = ({"cooldown_s": 0}, {"cooldown_s": 300}, {"max_sessions": 1}, {"max_sessions": 2})[what % 4]
        workspace = self.world.state.workspaces[agent["workspace_id"]]["name"]
        command = agent_operations.SetAgent(workspace=workspace, agent=agent["id"], **changes)
        self.world.db.write(lambda tx: agent_operations.set_agent(tx, command))

    def pause_workspace(self, what: int, _: int = 0) -> None:
        """Pause, resume, disable, enable."""
        name = ("default", "other")[what % 2]
        doing = (
            lambda tx: workspace_operations.pause_workspace(tx, name),
            lambda tx: workspace_operations.resume_workspace(tx, name),
            lambda tx: workspace_operations.set_workspace(
                tx, workspace_operations.SetWorkspace(name=name, enabled=False)
            ),
            lambda tx: workspace_operations.set_workspace(
                tx, workspace_operations.SetWorkspace(name=name, enabled=True)
            ),
        )
        self.world.db.write(doing[what // 2 % 4])

    def move_task(self, which: int, what: int) -> None:
        """Somebody moves or archives a task."""
        task = self.world.task(self.task(which)["id"])
        if task.archived_at is not None:
            return
        if what % 9 == 8:
            self.world.archive_task(task)
        else:
            self.world.move(task, list(TaskState)[what % len(TaskState)])

    def assign_task(self, which: int, who: int) -> None:
        """Somebody gives a task to another agent of its workspace, or to nobody."""
        task = self.world.task(self.task(which)["id"])
        if is_closed(task):
            return
        peers = [
            a
            for a in self.world.state.agents.values()
            if a["workspace_id"] == task.workspace_id and a["archived_at"] is None
        ]
        agent = self.pick([*peers, None], who)
        self.world.assign(task, self.world.agent(agent["id"]) if agent else None)

    def leave_task(self, which: int, _: int = 0) -> None:
        """A participant is removed."""
        row = self.pick(self.world.state.tables["task_participants"], which)
        if row is not None:
            gone = {**row, "capacity": Capacity(row["capacity"])}
            self.world.db.write(lambda tx: tasks.remove_participant(tx, **gone))

    def set_routine_status(self, which: int, what: int) -> None:
        """Pause, resume, and now and then archive."""
        routine = self.routine(which)
        if routine["status"] == "archived":
            return
        do = (
            routine_operations.pause_routine,
            routine_operations.resume_routine,
            routine_operations.resume_routine,
            routine_operations.archive_routine,
        )[what % 4]
        current = self.world.routine(routine["id"])
        self.world.db.write(lambda tx: do(tx, current))

    # ---- judging --------------------------------------------------------------------------------

    def check_invariants(self, *_: object) -> None:
        """After each rule: the program catches exceptions of single runs; here none is forgiven."""
        self._demand([])

    def judge(self, before: State, after: State) -> list[str]:
        """Each request that this commit ended: was it told, and was there a reason for that ending?"""
        ended = [
            sentence
            for request in after.requests.values()
            if request["finished_at"] is not None
            and before.requests.get(request["id"], request | {"finished_at": None})["finished_at"] is None
            for sentence in self._why_wrong(request, before, after)
        ]
        missed = [] if self.was_set_back else i6_a_missed_slot_does_not_fire(after)
        return [*ended, *self._agents_without_a_run(after), *missed]

    def _agents_without_a_run(self, after: State) -> Iterator[str]:
        """I11, for the agents of this machine."""
        for ref, attempt in self.world.machine.attempts.items():
            run = after.runs[ref.run_id]
            works = attempt.state is AttemptState.RUNNING or attempt.stray_count > 0
            if works and (run["status"], run["attempt"]) != ("claimed", ref.attempt):
                yield f"I11: {ref} works, its run is {run['status']} at attempt {run['attempt']}"

    def _demand(self, sentences: Iterable[str]) -> None:
        if self.world.broken:
            raise self.world.broken[0]
        found = list(sentences)
        if found:
            raise Broken("\n".join(found))

    def _why_wrong(self, request: Row, before: State, after: State) -> Iterator[str]:
        name = f"{request['source']} request {request['id']}"
        run = after.runs.get(request["run_id"])
        attempt = None if run is None else (run["id"], run["attempt"])
        told = () if attempt is None else self.world.told().get(attempt, ())
        match request["ending"], request["reason"]:
            case "delivered", _:
                result = self.world.machine.attempts[AttemptRef(run_id=attempt[0], attempt=attempt[1])].result
                if request["id"] not in told or result.exit_code != 0 or result.ending != Ending.EXITED:
                    yield f"I1: {name} ended delivered; attempt {attempt} was told {told} and left {result}"
            case "failed", _:
                if told and request["id"] not in told:
                    yield f"§2: {name} failed with attempt {attempt}, whose agent was not told of it"
            case "skipped", "served":
                routines = {after.requests[i]["routine_id"] for i in told} - {None}
                if not request["periodic"] or request["routine_id"] not in routines:
                    yield f"§2: {name} counts as served by {attempt}, which was told of {routines}"
            case "skipped", "no_actionable_tasks":
                yield from self._why_not_idle(name, request, after)
            case "skipped", "skip_if_active":
                if after.routines[request["routine_id"]]["concurrency_policy"] != "skip_if_active":
                    yield f"§2: {name} was skipped by a policy that its routine does not have"
            case "cancelled", reason:
                if not self._may_be_cancelled(request, reason, before, after):
                    yield f"I1: {name} was cancelled ({reason}) and nothing asked for that; run {run}"
            case ending, reason:
                yield f"I1: {name} ended {ending} ({reason}), which no rule knows"

    def _why_not_idle(self, name: str, request: Row, after: State) -> Iterator[str]:
        agent = after.agents[request["agent_id"]]
        work = [
            t["id"]
            for t in after.tasks.values()
            if t["assignee_agent_id"] == agent["id"]
            and t["state"] in ("TODO", "IN_PROGRESS")
            and t["archived_at"] is None
        ]
        if not request["periodic"] or not agent["skip_idle_wakeups"]:
            yield f"§2: {name} was skipped as idle; it is an event, or its agent does not skip"
        if work:
            yield f"§2: {name} was skipped as idle, its agent {agent['name']} has tasks {work}"

    def _may_be_cancelled(self, request: Row, reason: str, before: State, after: State) -> bool:
        agent_gone = after.agents[request["agent_id"]]["archived_at"] is not None
        match reason:
            case "agent_gone":
                return agent_gone
            case "routine_deleted":
                return after.routines[request["routine_id"]]["status"] == RoutineStatus.ARCHIVED
            case reason if reason == BY_USER:
                return BY_USER in self.may_cancel.get(request["id"], ()) or agent_gone
            case reason if reason in WHY_CANCELLED_BY_STALENESS:
                return self._is_stale(request, reason, before) or self._is_stale(request, reason, after)
        return False

    def _is_stale(self, request: Row, reason: str, state: State) -> bool:
        task = state.tasks.get(request["task_id"])
        if task is None:
            return False
        match reason:
            case "task_terminal":
                return task["state"] in ("DONE", "CANCELLED") or task["archived_at"] is not None
            case "assignee_changed":
                return task["assignee_agent_id"] != request["agent_id"]
            case "review_participant_changed":
                return request["capacity"] not in state.capacities(task["id"], request["agent_id"])
        return False

    # ---- the end --------------------------------------------------------------------------------

    def teardown(self) -> None:
        try:
            self.drain()
        finally:
            logging.getLogger("kandev_sched").removeHandler(self.complaints)
            logging.getLogger("kandev_sched").propagate = True
            self.world.give_back()
            shutil.rmtree(self.folder)

    def drain(self) -> None:
        """Remove every obstacle, let every agent succeed, give all the time it takes: nothing may be left."""
        if self.world.broken:
            return  # it was raised already
        self._hooks(None, None)
        for state in self._obstacles_removed():
            self.world.db.write(state)
        for _ in range(400):
            if not self._moved():
                break
        final = self.world.state
        self._demand(
            itertools.chain(
                i13_nothing_is_left(final),
                i1_what_was_delivered_stood_in_a_prompt(final, self.world.told()),
                self._prompts_name_everything(final),
            )
        )

    def _obstacles_removed(self) -> Iterator[Callable[[Tx], object]]:
        for name in ("default", "other"):
            yield lambda tx, name=name: workspace_operations.resume_workspace(tx, name)
            yield lambda tx, name=name: workspace_operations.set_workspace(
                tx, workspace_operations.SetWorkspace(name=name, enabled=True)
            )
        for agent in list(self.world.state.agents.values()):
            if agent["archived_at"] is None:
                current = self.world.agent(agent["id"])
                yield lambda tx, current=current: agent_operations.resume_agent(tx, current)

    def _moved(self) -> bool:
        """One round; False when nothing is left to do, now or later."""
        for ref in self.attempts(AttemptState.UNBORN):
            if self.world.machine.attempts[ref].spec is not None:
                self.world.machine.appear(ref)
        for ref in self.attempts(AttemptState.RUNNING):
            is_cancelled = self.world.machine.attempts[ref].was_cancelled
            self.world.machine.finish(ref, ending=Ending.CANCELLED if is_cancelled else Ending.EXITED)
        self.watch()
        if self.world.pipeline.process() is not None or self.world.state.runs_in("claimed"):
            self.world.advance(1)
            return True
        state = self.world.state
        ready = (
            (agent["last_wakeup_finished_at"] or 0) + agent["cooldown_s"] * 1000
            for agent in state.agents.values()
        )
        instants = itertools.chain((run["eligible_at"] for run in state.runs_in("queued")), ready)
        later = [at for at in instants if at > self.world.now]
        if not state.runs_in("queued") or not later:
            return False
        self.world.host.set_clock(min(later))
        return True

    def _prompts_name_everything(self, state: State) -> Iterator[str]:
        """Each request that an agent was told of stands in the text too, by its own facts."""
        for ref, attempt in self.world.machine.attempts.items():
            if attempt.spec is None:
                continue
            for entry in json.loads(attempt.spec.wakeups_json):
                marker = marker_of(state, entry)
                if marker not in attempt.spec.prompt:
                    yield f"I1: the prompt of {ref} does not name {entry['source']} {entry['id']} ({marker})"


def marker_of(state: State, entry: dict[str, Any]) -> str:
    """The words by which a prompt must name a request."""
    payload = entry["payload"]
    match WakeupSource(entry["source"]):
        case WakeupSource.ROUTINE:
            return str(state.routines[payload["routine_id"]]["name"])
        case WakeupSource.TASK_BLOCKERS_RESOLVED:
            return str(payload["resolved_blocker_ids"][0])
        case WakeupSource.TASK_ASSIGNED | WakeupSource.TASK_CHILDREN_COMPLETED:
            return str(payload["task_id"])
    names = ("comment_id", "failed_agent_id", "reason", "user_id", "approval_id", "agent_instance_id")
    return str(next(payload[name] for name in names if name in payload))
