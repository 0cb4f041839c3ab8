"""Random histories over the real store: what people, agents, clocks and crashes may do, in any order.

`Machine` is a hypothesis state machine around `world.World` (a real database file, a fake clock, agents that
end when the machine says so). Every commit is observed, from a connection of its own, and judged by
`invariants` and by `model_judge`; at the end everything is resumed, succeeds and gets all the time it needs,
and then nothing may be left.
"""

from __future__ import annotations

import itertools
import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from invariants import (
    Broken,
    Row,
    i1_what_was_delivered_stood_in_a_prompt,
    i13_nothing_is_left,
    i13_nothing_that_could_start_waits,
)
from model_judge import Judge
from model_people import CROWD, PEOPLE, People
from model_world import FAST, SETTINGS, Complaints, KilledError, MachineWorld, template
from world import TASK_SOURCES

from kandev_sched.domain.wakeups import Capacity, WakeupSource
from kandev_sched.flow.sweep import adopt_stranded
from kandev_sched.launch.executor import AttemptRef, AttemptState, Ending
from kandev_sched.operations import agents as agent_operations
from kandev_sched.operations import workspaces as workspace_operations
from kandev_sched.policy.recovery import STARTING_LIMIT_MS
from kandev_sched.store.db import Tx
from kandev_sched.supervisor.sweeper import mend_clock

SOURCES = tuple(source for source in WakeupSource if source is not WakeupSource.ROUTINE)
PAUSES_S = (1, 4, 6, 11, 31, 61, 150, 700, 3601, 7300)
ENDS = ("success", "success", "success", "failure", "error", "permanent", "lost", "timeout")
CAPACITIES = (Capacity.ASSIGNEE, Capacity.MENTIONED, Capacity.REVIEWER, Capacity.ASSIGNEE, Capacity.NONE)
ANY = st.integers(0, 59)
ACTIONS = ("wake", "wake_task", "wake_task", "fire", "tick", "end", "watch", "advance", *PEOPLE)
MOMENTS = ("admit", "prepare", "launch", "launched", "note launch")
DEATHS = (None,) * 12 + (
    "claim committed", "admit", "admit committed", "prepare", "prepare committed",
    "launch", "launched", "note launch", "note launch committed",
)  # fmt: skip
MEANWHILE = st.lists(st.tuples(st.sampled_from(MOMENTS), st.sampled_from(ACTIONS), ANY, ANY), max_size=3)


class Machine(People, RuleBasedStateMachine):
    """One history."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp(prefix="sched-model-", dir=FAST)
        shutil.copy(template(), self.folder)
        self.world = MachineWorld(Path(self.folder))
        self.world.host._numbers = itertools.count(100_000)
        self.judge = self.world.judge = Judge(self.world)
        self.complaints = Complaints(self.world.broken)
        logging.getLogger("kandev_sched").addHandler(self.complaints)
        logging.getLogger("kandev_sched").propagate = False
        self.keys = itertools.count()
        self.world.observe()

    def check_invariants(self, *_: object) -> None:
        """After each rule: the program catches exceptions of single runs; here none is forgiven."""
        self.world.demand()

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

    @rule(
        which=ANY,
        whats=st.lists(ANY, min_size=1, max_size=3),
        act=st.sampled_from(CROWD),
        how=ANY,
        is_over=ANY,
    )
    def crowd(self, which: int, whats: list[int], act: str, how: int, is_over: int) -> None:
        """Several requests for what one live run is about, then somebody interferes with just that."""
        run = self.focus(which) or self.pick(self.world.state.runs_in("queued", "claimed"), which)
        if run is None:
            return
        agent, task = self.world.state.agents[run["agent_id"]], self.world.state.tasks.get(run["task_id"])
        for what in whats:
            self._request_about(agent, task, what)
        self.interfere(act, run, how)
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
        self.judge.was_set_back = True
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

        def happens(moment: str) -> None:
            for when, action, x, y in meanwhile:
                if when == moment:
                    self._aside(action, x, y)
            if moment == death:
                raise KilledError(moment)

        try:
            run = self.world.process_with(happens, is_slow=is_slow)
        except KilledError:
            self.restart()
            return
        if run is None:
            self.demand_that_nothing_waits()

    def demand_that_nothing_waits(self) -> None:
        """I13, when the drainer has just said that there is nothing to do."""
        self.world.demand(
            i13_nothing_that_could_start_waits(self.world.state, self.world.now, SETTINGS.max_sessions)
        )

    def _aside(self, action: str, x: int, y: int) -> None:
        """Something that another thread or process does between two steps."""
        try:
            with self.world.hooks():
                if action in ("tick", "watch"):
                    getattr(self, action)()
                else:
                    getattr(self, action)(x, y)
        except Exception as error:
            self.world.broken.append(error)
            raise

    @rule(seconds=st.sampled_from((1, 11, 61)))
    def serve(self, seconds: int) -> None:
        """The drainer takes what it can."""
        self.world.advance(seconds)
        while self.world.pipeline.process() is not None:
            self.world.demand()
        self.demand_that_nothing_waits()

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

        before, after = (kill, None) if moment == "before" else (None, kill)
        try:
            with self.world.hooks(before, after):
                self.world.attend()
        except KilledError:
            self.restart()

    def restart(self) -> None:
        """The supervisor dies; the next one finds what it left: nothing stays unborn or lost (I11)."""
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
        for state in self._obstacles_removed():
            self.world.db.write(state)
        for _ in range(400):
            if not self._moved():
                break
        final = self.world.state
        self.world.demand(
            itertools.chain(
                i13_nothing_is_left(final),
                i1_what_was_delivered_stood_in_a_prompt(final, self.world.told()),
                self.judge.prompts_name_everything(final),
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
