"""A given/when/then vocabulary over a fake host and a real database file.

The clock, chance and the agents are given by the test; everything else is the program itself. `World.machine`
is what outlives a supervisor (the fake executor with its agents), so that `restart()` means what it says.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from kandev_sched.domain.activity import Activity, InboxItem
from kandev_sched.domain.agents import Agent, ExecutorKind
from kandev_sched.domain.calendars import Calendar
from kandev_sched.domain.host import spell_id
from kandev_sched.domain.payloads import decode
from kandev_sched.domain.routines import FireSource, Routine, RoutineRun, RoutineRunStatus
from kandev_sched.domain.runs import Run, RunStep, Session
from kandev_sched.domain.schedules import Trigger
from kandev_sched.domain.settings import Settings
from kandev_sched.domain.supervision import SupervisorPhase
from kandev_sched.domain.tasks import Task, TaskState
from kandev_sched.domain.wakeups import Capacity, WakeupRequest, WakeupSource
from kandev_sched.domain.workspaces import Project, Workspace
from kandev_sched.flow import arming, firing, steps, ticking
from kandev_sched.flow.attend import attend_all
from kandev_sched.flow.dispatch import Dispatched, request_wakeup
from kandev_sched.flow.pipeline import Pipeline
from kandev_sched.launch.executor import (
    AttemptRef,
    AttemptRefs,
    AttemptResult,
    AttemptState,
    Ending,
    LaunchSpec,
    Observation,
)
from kandev_sched.operations import agents as agent_operations
from kandev_sched.operations import calendars as calendar_operations
from kandev_sched.operations import firing as firing_operations
from kandev_sched.operations import lookup
from kandev_sched.operations import routines as routine_operations
from kandev_sched.operations import runs as run_operations
from kandev_sched.operations import tasks as task_operations
from kandev_sched.operations import triggers as trigger_operations
from kandev_sched.operations import workspaces as workspace_operations
from kandev_sched.operations.schedules import Schedule
from kandev_sched.policy.coalesce import ConcurrencyPolicy
from kandev_sched.store import (
    activity,
    agents,
    attempts,
    routines,
    runs,
    supervision,
    tasks,
    triggers,
    wakeups,
    workspaces,
)
from kandev_sched.store.db import Database, Reader, Tx, open_database
from kandev_sched.store.shared import SharedDatabase, open_shared
from kandev_sched.store.sql import Statement
from kandev_sched.store.wake import poke
from kandev_sched.supervisor.supervisor import Supervisor
from kandev_sched.supervisor.sweeper import mend_clock

START = 1_796_115_600_000  # 2026-12-01T09:00:00Z, a Tuesday
SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000

TASK_SOURCES = (
    WakeupSource.COMMENT,
    WakeupSource.TASK_ASSIGNED,
    WakeupSource.TASK_BLOCKERS_RESOLVED,
    WakeupSource.TASK_CHILDREN_COMPLETED,
)
COORDINATOR_SOURCES = (WakeupSource.AGENT_ERROR, WakeupSource.BUDGET_ALERT)


def ms(text: str) -> int:
    """`2026-12-01T09:00:00Z` as milliseconds; any offset will do."""
    return round(datetime.fromisoformat(text).timestamp() * SECOND)


class FakeHost:
    """A machine whose clock and chance the test sets. Ids count upwards, so they sort as made."""

    def __init__(self, at: int = START) -> None:
        self._now = at
        self._monotonic = 1000.0
        self._numbers = itertools.count(1)
        self.chances: list[float] = []
        self.person = "tester"

    def now(self) -> int:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def new_id(self, prefix: str) -> str:
        return spell_id(prefix, START, next(self._numbers))

    def user(self) -> str:
        return self.person

    def uniform(self, low: float, high: float) -> float:
        """The next scripted chance, 0 when none is left."""
        chance = self.chances.pop(0) if self.chances else 0.0
        return low + (high - low) * chance

    def advance(self, seconds: float) -> None:
        """Time passes."""
        self._now += round(seconds * SECOND)
        self._monotonic += seconds

    def set_clock(self, at: int) -> None:
        """Somebody sets the wall clock; the monotonic one does not move."""
        self._now = at


class Attempt:
    """One attempt as the machine knows it."""

    def __init__(self, spec: LaunchSpec | None = None) -> None:
        self.spec = spec
        self.state = AttemptState.UNBORN
        self.result: AttemptResult | None = None
        self.was_cancelled = False
        self.cancel_count = 0
        self.submit_count = 0
        self.stray_count = 0
        self.strays_ended = 0


class FakeExecutor:
    """`ComputeExecutor` in memory. Agents work until the test says `finish` or `lose`; a cancelled one ends.

    `refuses_with`: what `submit` raises. `starts_slowly`: a submitted attempt stays unborn until `appear`.
    `ignores_cancel`: agents go on until the test ends them. `when_submitted`: called before each start.
    """

    def __init__(self, host: FakeHost) -> None:
        self._host = host
        self._lock = threading.RLock()
        self.attempts: dict[AttemptRef, Attempt] = {}
        self.specs: list[LaunchSpec] = []
        self.fenced: list[AttemptRef] = []
        self.refuses_with: Exception | None = None
        self.starts_slowly = False
        self.ignores_cancel = False
        self.when_submitted: Callable[[LaunchSpec], None] | None = None
        self.when_fenced: Callable[[AttemptRef], None] | None = None

    # --- the protocol ---------------------------------------------------------------------------

    def submit(self, spec: LaunchSpec) -> None:
        if self.when_submitted is not None:
            self.when_submitted(spec)
        if self.refuses_with is not None:
            raise self.refuses_with
        ref = AttemptRef(run_id=spec.run_id, attempt=spec.attempt)
        with self._lock:
            attempt = self._attempt(ref)
            attempt.submit_count += 1
            if attempt.spec is not None or attempt.result is not None:
                return
            attempt.spec = spec
            self.specs.append(spec)
            if attempt.was_cancelled:
                self._end(ref, Ending.CANCELLED)
            elif not self.starts_slowly:
                attempt.state = AttemptState.RUNNING

    def poll(self, ref: AttemptRef) -> Observation:
        with self._lock:
            attempt = self.attempts.get(ref) or Attempt()
            return Observation(state=attempt.state, result=attempt.result)

    def read(self, ref: AttemptRef, stream: str, offset: int, limit: int) -> bytes:
        return b""

    def cancel(self, ref: AttemptRef) -> None:
        with self._lock:
            attempt = self._attempt(ref)
            attempt.was_cancelled = True
            attempt.cancel_count += 1
            if attempt.state is AttemptState.RUNNING and not self.ignores_cancel:
                self._end(ref, Ending.CANCELLED)

    def fence(self, ref: AttemptRef) -> Observation:
        if self.when_fenced is not None:
            self.when_fenced(ref)
        with self._lock:
            self.fenced.append(ref)
            attempt = self._attempt(ref)
            if attempt.state in (AttemptState.UNBORN, AttemptState.LOST):
                self._end(ref, Ending.REVOKED, error="The attempt was revoked.")
            return self.poll(ref)

    def end_strays(self, ref: AttemptRef) -> int:
        with self._lock:
            attempt = self._attempt(ref)
            attempt.strays_ended, attempt.stray_count = attempt.stray_count, 0
            return attempt.strays_ended

    def list(self) -> AttemptRefs:
        with self._lock:
            return sorted(self.attempts, key=lambda ref: (ref.run_id, ref.attempt))

    def forget(self, run_id: str) -> None:
        with self._lock:
            for ref in [ref for ref in self.attempts if ref.run_id == run_id]:
                del self.attempts[ref]

    # --- what the test says ---------------------------------------------------------------------

    def finish(
        self,
        ref: AttemptRef,
        *,
        ending: Ending = Ending.EXITED,
        exit_code: int | None = 0,
        structured: dict[str, Any] | None = None,
        output_tail: str = "",
        error: str | None = None,
        signal: int | None = None,
    ) -> None:
        """The agent of a running attempt ends."""
        with self._lock:
            state = self.attempts[ref].state
            assert state is AttemptState.RUNNING, f"{ref} is {state}, not running"
            self._end(
                ref,
                ending,
                exit_code=exit_code,
                structured=structured,
                output_tail=output_tail,
                error=error,
                signal=signal,
            )

    def lose(self, ref: AttemptRef, *, strays: int = 0) -> None:
        """The shim of a running attempt is killed; `strays` processes of its agent go on."""
        with self._lock:
            attempt = self.attempts[ref]
            assert attempt.state is AttemptState.RUNNING, f"{ref} is {attempt.state}, not running"
            attempt.state, attempt.stray_count = AttemptState.LOST, strays
        self._poke(ref)

    def appear(self, ref: AttemptRef) -> None:
        """A slow shim takes its lock, if nobody revoked or cancelled its attempt."""
        with self._lock:
            attempt = self.attempts[ref]
            if attempt.result is None:
                attempt.state = AttemptState.RUNNING

    def running(self) -> AttemptRefs:
        """The attempts whose agents are at work."""
        with self._lock:
            return [ref for ref in self.list() if self.attempts[ref].state is AttemptState.RUNNING]

    def _attempt(self, ref: AttemptRef) -> Attempt:
        return self.attempts.setdefault(ref, Attempt())

    def _end(self, ref: AttemptRef, ending: Ending, **facts: Any) -> None:
        attempt = self._attempt(ref)
        blank = {"exit_code": None, "signal": None, "structured": None, "output_tail": "", "error": None}
        attempt.result = AttemptResult(
            ending=ending,
            started_at=self._host.now(),
            finished_at=self._host.now(),
            stdout_bytes=0,
            stderr_bytes=0,
            stray_count=0,
            **{**blank, **facts},
        )
        attempt.state = AttemptState.DONE
        self._poke(ref)

    def _poke(self, ref: AttemptRef) -> None:
        spec = self._attempt(ref).spec
        if spec is not None and spec.wake_path is not None:
            poke(spec.wake_path)


class World:
    """One machine, one database, and what happens to them. Things are named by record or by id."""

    def __init__(
        self,
        folder: Path,
        *,
        settings: Settings | None = None,
        is_shared: bool = False,
        at: int = START,
    ) -> None:
        self.path = str(folder / "sched.db")
        self.host = FakeHost(at)
        self.machine = FakeExecutor(self.host)
        self.settings = settings or Settings()
        self.work_signals = 0
        self._is_shared = is_shared
        self._slots = itertools.count()
        self._is_open = False
        self.open()

    # --- life -----------------------------------------------------------------------------------

    def open(self) -> None:
        """Open the database, as a command does (or, `is_shared`, as the supervisor does)."""
        if self._is_open:
            return
        self.db: Database = self._open_shared() if self._is_shared else self._open_plain()
        self.pipeline = Pipeline(
            self.db, executors={ExecutorKind.LOCAL: self.machine}, settings=self.settings
        )
        self._is_open = True
        self._set_phase(SupervisorPhase.RUNNING)

    def _set_phase(self, phase: SupervisorPhase) -> None:
        self.db.write(lambda tx: supervision.set_phase(tx, phase, pid=None))

    def _open_plain(self) -> Database:
        return open_database(self.path, host=self.host, create=True)

    def _open_shared(self) -> SharedDatabase:
        return open_shared(self.path, host=self.host, create=True, on_work=self._note_work)

    def _note_work(self) -> None:
        self.work_signals += 1

    def close(self) -> None:
        """Let go of the database. Agents go on: they are the machine's."""
        if self._is_open:
            self._is_open = False
            self.db.close()

    def restart(self) -> None:
        """The supervisor dies; its successor recovers what it finds, in the order of `Supervisor.start`."""
        self.close()
        self.open()
        self.look_at_clock()
        self.attend(is_restart=True)
        self.db.write(arming.rearm)

    def supervisor(self, **changes: Any) -> Supervisor:
        """A supervisor of this database, with this machine; `changes` are settings. The caller stops it."""
        return Supervisor(
            open_db=lambda on_work: open_shared(self.path, host=self.host, create=True, on_work=on_work),
            executors={ExecutorKind.LOCAL: self.machine},
            settings=self.settings.replace(**changes),
            host=self.host,
        )

    def advance(self, seconds: float) -> None:
        """Time passes."""
        self.host.advance(seconds)

    def set_settings(self, **changes: Any) -> None:
        """Other settings from here on."""
        self.settings = self.settings.replace(**changes)
        self.pipeline.settings = self.settings

    @property
    def now(self) -> int:
        """The wall clock."""
        return self.host.now()

    # --- given ----------------------------------------------------------------------------------

    def given_workspace(self, name: str) -> Workspace:
        """Another workspace; `default` is made on first use."""
        return self.db.write(
            lambda tx: workspace_operations.add_workspace(tx, workspace_operations.AddWorkspace(name=name))
        )

    def given_agent(self, name: str = "bot", *, cooldown_s: int = 0, **fields: Any) -> Agent:
        """An agent with a profile of its own (`argv=None` gives it none), without cooldown."""
        given = {"argv": ("agent", name), "env": {}, **fields}
        command = agent_operations.AddAgent(name=name, cooldown_s=cooldown_s, **given)
        return self.db.write(lambda tx: agent_operations.add_agent(tx, command))

    def given_task(
        self,
        title: str = "write the report",
        *,
        agent: Agent | None = None,
        state: TaskState = TaskState.TODO,
        **fields: Any,
    ) -> Task:
        """A task, assigned to `agent` if one is given, in the workspace of that agent."""
        named = {"agent": agent.name, "workspace": self._workspace_of(agent)} if agent else {}
        command = task_operations.AddTask(title=title, **{**named, **fields})

        def work(tx: Tx) -> Task:
            task = task_operations.add_task(tx, command)
            return task_operations.move_task(tx, task, state)

        return self.db.write(work)

    def given_project(self, name: str = "project", **fields: Any) -> Project:
        """A project."""
        command = workspace_operations.AddProject(name=name, **fields)
        return self.db.write(lambda tx: workspace_operations.add_project(tx, command))

    def given_reviewer(self, task: Task, agent: Agent, capacity: Capacity = Capacity.REVIEWER) -> None:
        """The agent is a reviewer (or an approver) of the task."""
        self.db.write(
            lambda tx: tasks.add_participant(tx, task_id=task.id, agent_id=agent.id, capacity=capacity)
        )

    def given_routine(
        self,
        name: str = "look around",
        *,
        agent: Agent,
        cron: str | None = None,
        zone: str = "UTC",
        **fields: Any,
    ) -> Routine:
        """A routine of the agent, lightweight unless `task_title` is given; `cron` is its schedule."""
        schedule = fields.pop("schedule", Schedule(cron=cron, zone=zone) if cron else None)
        command = routine_operations.AddRoutine(
            name=name, agent=agent.name, workspace=self._workspace_of(agent), schedule=schedule, **fields
        )
        return self.db.write(lambda tx: routine_operations.add_routine(tx, command)).routine

    def given_trigger(self, routine: Routine, **schedule: Any) -> Trigger:
        """Another trigger of the routine."""
        asked = Schedule(**schedule)
        return self.db.write(lambda tx: trigger_operations.add_trigger_to(tx, routine, asked))

    def given_calendar(self, name: str, **fields: Any) -> Calendar:
        """A calendar of the default workspace."""
        command = calendar_operations.AddCalendar(name=name, **fields)
        return self.db.write(lambda tx: calendar_operations.add_calendar(tx, command))

    # --- when -----------------------------------------------------------------------------------

    def set_trigger(
        self,
        trigger: Trigger,
        *,
        enabled: bool | None = None,
        if_match: str | None = None,
        workspace: str = "default",
        **schedule: Any,
    ) -> Trigger:
        """Somebody changes a trigger."""
        command = trigger_operations.SetTrigger(
            workspace=workspace,
            trigger=trigger.id,
            enabled=enabled,
            if_match=if_match,
            schedule=Schedule(**schedule),
        )
        return self.db.write(lambda tx: trigger_operations.set_trigger(tx, command))

    def set_routine(self, routine: Routine, **fields: Any) -> Routine:
        """Somebody changes a routine."""
        command = routine_operations.SetRoutine(
            workspace=self._workspace_of(routine), routine=routine.id, **fields
        )
        return self.db.write(lambda tx: routine_operations.set_routine(tx, command))

    def pause_routine(self, routine: Routine, note: str | None = None) -> Routine:
        """Somebody pauses the routine."""
        return self.db.write(
            lambda tx: routine_operations.pause_routine(
                tx, _required(routines.by_id(tx, routine.id)), note=note
            )
        )

    def resume_routine(self, routine: Routine) -> Routine:
        """Somebody lets the routine go on."""
        return self.db.write(
            lambda tx: routine_operations.resume_routine(tx, _required(routines.by_id(tx, routine.id)))
        )

    def finish_all(self) -> None:
        """Everything that can start starts and ends well."""
        while self.process_all():
            for ref in self.machine.running():
                self.machine.finish(ref)
            self.attend()

    def live_until(self, at: int, *, works: bool = True) -> None:
        """Time passes as a supervisor lives it: each slot ticks when it is due, its agents end at once."""
        while (due := self.db.read(ticking.next_due_at)) is not None and due <= at:
            self.advance(max(due - self.now, 0) / SECOND)
            self.tick()
            if works:
                self.finish_all()
        self.advance((at - self.now) / SECOND)

    def request(
        self,
        source: str,
        agent: Agent,
        *,
        task: Task | None = None,
        routine: Routine | None = None,
        key: str | None = None,
        capacity: Capacity | None = None,
        payload: dict[str, object] | None = None,
        periodic: bool = False,
        policy: ConcurrencyPolicy = ConcurrencyPolicy.COALESCE_IF_ACTIVE,
    ) -> WakeupRequest:
        """A wakeup request is accepted, as an event of that kind would ask; the request as it then stands."""
        return self.dispatch(
            source,
            agent,
            task=task,
            routine=routine,
            key=key,
            capacity=capacity,
            payload=payload,
            periodic=periodic,
            policy=policy,
        ).request

    def dispatch(
        self,
        source: str,
        agent: Agent,
        *,
        policy: ConcurrencyPolicy = ConcurrencyPolicy.COALESCE_IF_ACTIVE,
        **fields: Any,
    ) -> Dispatched:
        """As `request`, with the run and whether the request existed before."""
        request = self.a_request(source, agent, **fields)
        window_s = self.settings.coalesce_window_s
        return self.db.write(
            lambda tx: request_wakeup(
                tx, request.replace(requested_at=tx.now), policy=policy, window_s=window_s
            )
        )

    def a_request(
        self,
        source: str,
        agent: Agent,
        *,
        task: Task | None = None,
        routine: Routine | None = None,
        key: str | None = None,
        capacity: Capacity | None = None,
        payload: dict[str, object] | None = None,
        periodic: bool = False,
    ) -> WakeupRequest:
        """A request that is not accepted yet."""
        kind = WakeupSource(source)
        wakeup_id = self.host.new_id("wk")
        facts = payload if payload is not None else self._payload(kind, wakeup_id, task, routine)
        decode(kind, facts)
        return WakeupRequest(
            id=wakeup_id,
            workspace_id=agent.workspace_id,
            agent_id=agent.id,
            source=kind,
            payload=facts,
            periodic=periodic,
            capacity=capacity if capacity is not None else _usual_capacity(kind, task),
            task_id=task.id if task else None,
            routine_id=routine.id if routine else None,
            idempotency_key=key,
            requested_at=self.now,
        )

    def _payload(
        self, kind: WakeupSource, wakeup_id: str, task: Task | None, routine: Routine | None
    ) -> dict[str, object]:
        assert task is not None or kind not in TASK_SOURCES, f"{kind} is about a task"
        task_id = task.id if task else ""
        payloads: dict[WakeupSource, dict[str, object]] = {
            WakeupSource.ROUTINE: {"routine_id": routine.id if routine else "", "variables": {}},
            WakeupSource.COMMENT: {"task_id": task_id, "comment_id": f"comment-of-{wakeup_id}"},
            WakeupSource.AGENT_ERROR: {"failed_agent_id": f"failed-for-{wakeup_id}", "error": "it broke"},
            WakeupSource.SELF: {"reason": f"self-reason-of-{wakeup_id}"},
            WakeupSource.USER: {"user_id": f"user-of-{wakeup_id}"},
            WakeupSource.TASK_ASSIGNED: {"task_id": task_id},
            WakeupSource.TASK_BLOCKERS_RESOLVED: {
                "task_id": task_id,
                "resolved_blocker_ids": [f"blocker-of-{wakeup_id}"],
            },
            WakeupSource.TASK_CHILDREN_COMPLETED: {"task_id": task_id},
            WakeupSource.APPROVAL_RESOLVED: {
                "approval_id": f"approval-of-{wakeup_id}",
                "status": "approved",
                "decision_note": "well done",
            },
            WakeupSource.BUDGET_ALERT: {"agent_instance_id": f"spender-of-{wakeup_id}", "budget_pct": 80.0},
        }
        return payloads[kind]

    def insert_stranded(self, source: str, agent: Agent, **fields: Any) -> WakeupRequest:
        """A row that no run holds: what a bug or a hand would leave."""
        request = self.a_request(source, agent, **fields)
        self.db.write(lambda tx: wakeups.add(tx, request))
        return request

    def fire(self, routine: Routine, *, key: str | None = None, **variables: str) -> firing.Fired:
        """A person fires the routine."""
        command = firing_operations.FireRoutine(
            workspace=self._workspace_of(routine), routine=routine.id, variables=variables, key=key
        )
        return self.db.write(lambda tx: firing_operations.fire_routine(tx, command, self.settings))

    def fire_by_schedule(self, routine: Routine, *, slot_at: int | None = None) -> firing.Fired:
        """One slot of the routine's trigger fires, a minute after the one before unless `slot_at` says so."""
        trigger = self._a_trigger_of(routine)
        at = slot_at if slot_at is not None else self.now // MINUTE * MINUTE + next(self._slots) * MINUTE
        slot = firing.Slot(trigger_id=trigger.id, at=at, zone=trigger.zone)
        window_s = self.settings.coalesce_window_s

        def work(tx: Tx) -> firing.Fired:
            current = routines.by_id(tx, routine.id)
            assert current is not None
            return firing.fire(
                tx, firing.Firing(routine=current, source=FireSource.CRON, slot=slot, window_s=window_s)
            )

        return self.db.write(work)

    def _a_trigger_of(self, routine: Routine) -> Trigger:
        found = self.triggers_of(routine)
        if found:
            return found[0]
        return self.db.write(lambda tx: trigger_operations.add_trigger_to(tx, routine, None))

    def look_at_clock(self) -> None:
        """The sweeper notes the clock, and mends what a step back has broken."""
        self.db.write(mend_clock)

    def tick(self) -> int:
        """The ticker looks at its triggers once; how many moved."""
        return ticking.fire_due(self.db, window_s=self.settings.coalesce_window_s)

    def claim(self) -> Run | None:
        """Step 1 alone: the run is claimed, and nobody has gone on with it."""
        return self.db.write(lambda tx: steps.claim(tx, max_sessions=self.settings.max_sessions))

    def process(self) -> Run | None:
        """Steps 1 to 11 for the next run that can start, as it then stands; None when none can."""
        run = self.pipeline.process()
        return None if run is None else self.run(run)

    def process_all(self) -> list[Run]:
        """`process` until nothing can start."""
        found = []
        while (run := self.process()) is not None:
            found.append(run)
        return found

    def meanwhile(self, moment: str, act: Callable[[], object]) -> None:
        """Once in the next `process`, just before `admit`, `prepare`, `launch` or `note launch`: `act`."""
        pipeline, seen = self.pipeline, {"count": 0}
        in_transaction, launch = pipeline._in_transaction, pipeline._launch
        moments = ("admit", "prepare", "note launch")
        assert moment in (*moments, "launch"), moment

        def once() -> None:
            pipeline._in_transaction, pipeline._launch = in_transaction, launch  # type: ignore[method-assign]
            act()

        def interposed(*args: Any, **options: Any) -> Any:
            seen["count"] += 1
            if moment in moments and seen["count"] == moments.index(moment) + 1:
                once()
            return in_transaction(*args, **options)

        def interposed_launch(*args: Any) -> None:
            if moment == "launch":
                once()
            launch(*args)

        pipeline._in_transaction = interposed  # type: ignore[method-assign, assignment]
        pipeline._launch = interposed_launch  # type: ignore[method-assign]

    def attend(self, *, is_restart: bool = False) -> int:
        """The watcher looks at every claimed run once."""
        return attend_all(self.pipeline, is_restart=is_restart)

    def ends(self, run: Run | str, *, attends: bool = True, **result: Any) -> Run:
        """The agent of a run ends (see `FakeExecutor.finish`), and the watcher sees it; the run then."""
        self.machine.finish(self.ref(run), **result)
        if attends:
            self.attend()
        return self.run(run)

    def finish(self, run: Run | str, *, exit_code: int = 0, **result: Any) -> Run:
        """The agent of a run exits, and the watcher sees it; the run as it then stands."""
        return self.ends(run, exit_code=exit_code, **result)

    def fail(self, run: Run | str, **result: Any) -> Run:
        """The agent of a run exits with status 1."""
        return self.finish(run, exit_code=1, **result)

    def lose(self, run: Run | str, *, strays: int = 0, attends: bool = True) -> Run:
        """The shim of a run is gone without a result, and the watcher sees it."""
        self.machine.lose(self.ref(run), strays=strays)
        if attends:
            self.attend()
        return self.run(run)

    def cancel(self, run: Run | str, *, reason: str = "cancelled by user") -> Run:
        """A person cancels a run."""
        return self.db.write(
            lambda tx: run_operations.cancel_run(tx, _required(runs.by_id(tx, _id(run))), reason=reason)
        )

    def cancel_and_end(self, run: Run | str, *, reason: str = "cancelled by user") -> Run:
        """A person cancels a run at work, the watcher tells its shim, and then sees the end."""
        self.cancel(run, reason=reason)
        self.attend()
        self.attend()
        return self.run(run)

    def pause(self, agent: Agent) -> Agent:
        """A person pauses the agent."""
        return self._with_agent(agent, agent_operations.pause_agent)

    def stop(self, agent: Agent) -> Agent:
        """A person stops the agent."""
        return self._with_agent(agent, agent_operations.stop_agent)

    def resume(self, agent: Agent) -> Agent:
        """A person lets the agent go on."""
        return self._with_agent(agent, agent_operations.resume_agent)

    def archive(self, agent: Agent) -> Agent:
        """A person archives the agent."""
        return self._with_agent(agent, agent_operations.archive_agent)

    def _with_agent(self, agent: Agent, act: Callable[[Tx, Agent], Agent]) -> Agent:
        return self.db.write(lambda tx: act(tx, _required(agents.by_id(tx, agent.id))))

    def move(self, task: Task, state: TaskState) -> Task:
        """Somebody moves the task."""
        return self.db.write(
            lambda tx: task_operations.move_task(tx, _required(tasks.by_id(tx, task.id)), state)
        )

    def assign(self, task: Task, agent: Agent | None) -> Task:
        """Somebody gives the task to an agent, or to nobody."""
        agent_id = agent.id if agent else None
        return self.db.write(
            lambda tx: task_operations.assign_task(tx, _required(tasks.by_id(tx, task.id)), agent_id)
        )

    def archive_task(self, task: Task) -> None:
        """Somebody archives the task."""
        self.change(f"UPDATE tasks SET archived_at = {self.now} WHERE id = '{task.id}'")

    def change(self, sql: str) -> None:
        """What a hand or another program writes, past every rule of ours."""
        self.db.write(lambda tx: tx.run(_unlisted(sql)))

    # --- then -----------------------------------------------------------------------------------

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """Bare rows."""
        return self.db.read(lambda reader: reader.rows(_unlisted(sql)))

    def run(self, run: Run | str) -> Run:
        """The run as it stands."""
        return self._found(runs.by_id, _id(run))

    def wakeup(self, request: WakeupRequest | str) -> WakeupRequest:
        """The request as it stands."""
        return self._found(wakeups.by_id, _id(request))

    def agent(self, agent: Agent | str) -> Agent:
        """The agent as it stands."""
        return self._found(agents.by_id, _id(agent))

    def task(self, task: Task | str) -> Task:
        """The task as it stands."""
        return self._found(tasks.by_id, _id(task))

    def routine(self, routine: Routine | str) -> Routine:
        """The routine as it stands."""
        return self._found(routines.by_id, _id(routine))

    def routine_run(self, routine_run: RoutineRun | str) -> RoutineRun:
        """The routine run as it stands."""
        return self._found(routines.run_by_id, _id(routine_run))

    def trigger(self, trigger: Trigger | str) -> Trigger:
        """The trigger as it stands."""
        return self._found(triggers.by_id, _id(trigger))

    def _found(self, by_id: Callable[[Reader, str], Any], thing_id: str) -> Any:
        return _required(self.db.read(lambda reader: by_id(reader, thing_id)))

    def run_of(self, request: WakeupRequest | str) -> Run:
        """The run that holds the request now."""
        return self.run(_required(self.wakeup(request).run_id))

    def ending_of(self, request: WakeupRequest | str) -> tuple[str, str | None] | None:
        """How the request ended, and the reason; None while it is open."""
        found = self.wakeup(request)
        return None if found.ending is None else (str(found.ending), found.reason)

    def requests_of(self, run: Run | str) -> list[WakeupRequest]:
        """The list of the run, in the order of asking."""
        return self.db.read(lambda reader: wakeups.of_run(reader, _id(run)))

    def steps_of(self, run: Run | str) -> list[RunStep]:
        """The trace of the run, all attempts."""
        return self.db.read(lambda reader: attempts.steps(reader, _id(run)))

    def sessions_of(self, run: Run | str) -> list[Session]:
        """The sessions of the run, oldest first."""
        found = self.db.read(lambda reader: attempts.sessions(reader, workspace_id=None, limit=10_000))
        return [session for session in reversed(found) if session.run_id == _id(run)]

    def runs(self, agent: Agent | None = None) -> list[Run]:
        """All runs (of the agent), in the order in which they were made."""
        found = self.db.read(
            lambda reader: runs.recent(
                reader, workspace_id=None, agent_id=agent.id if agent else None, limit=100_000
            )
        )
        return sorted(found, key=lambda run: run.id)

    def requests(self) -> list[WakeupRequest]:
        """All requests, in the order in which they were made."""
        found = self.db.read(
            lambda reader: wakeups.recent(reader, workspace_id=None, agent_id=None, limit=100_000)
        )
        return sorted(found, key=lambda request: request.id)

    def routine_runs_of(self, routine: Routine) -> list[RoutineRun]:
        """The occurrences of the routine, by their slots; those without a slot first, as made."""
        found = self.db.read(
            lambda reader: routines.recent_runs(
                reader, workspace_id=routine.workspace_id, routine_id=routine.id, limit=100_000
            )
        )
        return sorted(found, key=lambda occurrence: (occurrence.scheduled_for_at or 0, occurrence.id))

    def fired_slots(self, routine: Routine) -> list[int]:
        """The slots of the routine that led to anything but a missed record, in time order."""
        return [
            occurrence.scheduled_for_at
            for occurrence in self.routine_runs_of(routine)
            if occurrence.scheduled_for_at is not None
            and occurrence.status not in (RoutineRunStatus.MISSED, RoutineRunStatus.EXCLUDED)
        ]

    def missed_of(self, routine: Routine) -> list[RoutineRun]:
        """The missed records of the routine."""
        return [o for o in self.routine_runs_of(routine) if o.status is RoutineRunStatus.MISSED]

    def trigger_of(self, routine: Routine) -> Trigger:
        """The only trigger of the routine."""
        (trigger,) = self.triggers_of(routine)
        return trigger

    def coming(
        self, *, hours: float = 24, routine: Routine | None = None, n: int = 100, after: int | None = None
    ) -> list[trigger_operations.ComingFire]:
        """What `sched next` shows."""
        begin = self.now if after is None else after
        return self.db.read(
            lambda reader: trigger_operations.coming_fires(
                reader,
                workspace="default",
                now=begin,
                until=begin + round(hours * HOUR),
                routine=routine.name if routine else None,
                limit=n,
            )
        )

    def triggers_of(self, routine: Routine) -> list[Trigger]:
        """The triggers of the routine, oldest first."""
        return self.db.read(lambda reader: triggers.of_routine(reader, routine.id))

    def tasks(self, workspace: str = "default") -> list[Task]:
        """The tasks of a workspace, oldest first, archived ones too."""
        return self.db.read(
            lambda reader: tasks.of_workspace(
                reader, lookup.the_workspace(reader, workspace).id, archived=True
            )
        )

    def inbox(self) -> list[InboxItem]:
        """What needs a person."""
        return self.db.read(lambda reader: activity.open_inbox(reader, workspace_id=None))

    def history(self, kind: str | None = None) -> list[Activity]:
        """The activity lines (of that kind), oldest first."""
        found = self.db.read(
            lambda reader: activity.recent(reader, workspace_id=None, kind=kind, limit=100_000)
        )
        return found[::-1]

    def explain(self, run: Run | str, *, is_supervised: bool = True) -> str:
        """The sentence of `sched run explain`."""
        return self.db.read(
            lambda reader: run_operations.explain_run(
                reader,
                _required(runs.by_id(reader, _id(run))),
                settings=self.settings,
                is_supervised=is_supervised,
                now=self.now,
            )
        ).sentence

    def ref(self, run: Run | str) -> AttemptRef:
        """The present attempt of the run."""
        current = self.run(run)
        return AttemptRef(run_id=current.id, attempt=current.attempt)

    def attempt(self, run: Run | str, number: int | None = None) -> Attempt:
        """What the machine knows of an attempt of the run, the present one unless `number` says so."""
        ref = self.ref(run) if number is None else AttemptRef(run_id=_id(run), attempt=number)
        return self.machine.attempts[ref]

    def spec_of(self, run: Run | str, number: int | None = None) -> LaunchSpec:
        """What was handed to the executor."""
        return _required(self.attempt(run, number).spec)

    def prompt_of(self, run: Run | str, number: int | None = None) -> str:
        """The prompt that was handed over."""
        return self.spec_of(run, number).prompt

    def wakeups_told(self, run: Run | str, number: int | None = None) -> list[str]:
        """The ids of the requests that stand in the wakeups file of an attempt, in order."""
        return [entry["id"] for entry in json.loads(self.spec_of(run, number).wakeups_json)]

    def launched(self) -> list[str]:
        """The run ids that were launched, in order, each attempt once."""
        return [spec.run_id for spec in self.machine.specs]

    def workspace(self, name: str = "default") -> Workspace:
        """The workspace of that name."""
        return self.db.read(lambda reader: lookup.the_workspace(reader, name))

    def _workspace_of(self, thing: Agent | Routine) -> str:
        found = self.db.read(lambda reader: workspaces.by_id(reader, thing.workspace_id))
        return _required(found).name


def _unlisted(sql: str) -> Statement:
    """A statement of the test's own, kept out of the list of the program's statements."""
    statement = Statement.__new__(Statement)
    statement.text = sql
    return statement


def _usual_capacity(kind: WakeupSource, task: Task | None) -> Capacity:
    if kind in TASK_SOURCES:
        return Capacity.ASSIGNEE
    if kind in COORDINATOR_SOURCES:
        return Capacity.COORDINATOR
    return Capacity.NONE


def _id(thing: Any) -> str:
    return thing if isinstance(thing, str) else thing.id


def _required(thing: Any) -> Any:
    assert thing is not None, "it does not exist"
    return thing
