"""The invariants of behaviour.md §1, each as a function over rows that were read in one snapshot.

Each yields a sentence for each breach. `check_all` is for a database file at rest or in motion; `History` is
for what only a sequence of snapshots shows (claims, promotions, terminal rows). Nothing here asks the program
for its own opinion: the rows are read with plain SQL, locks are probed and processes are found here.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import apsw

Row = dict[str, Any]
Told = Mapping[tuple[str, int], Iterable[str]]  # (run id, attempt) → the request ids in its wakeups file

TABLES = (
    "workspaces",
    "agents",
    "tasks",
    "task_participants",
    "routines",
    "triggers",
    "routine_runs",
    "runs",
    "wakeup_requests",
    "sessions",
    "supervisor",
)
LIVE = ("queued", "claimed")
PARALLEL_FREE = ("idle", "working")
WHY_CANCELLED_BY_STALENESS = frozenset(
    {"task_not_found", "task_terminal", "assignee_changed", "review_participant_changed"}
)


class Broken(AssertionError):
    """An invariant does not hold; the message names each breach."""


class State:
    """All rows of one instant."""

    def __init__(self, tables: dict[str, list[Row]]) -> None:
        self.tables = tables
        self.workspaces = _by_id(tables["workspaces"])
        self.agents = _by_id(tables["agents"])
        self.tasks = _by_id(tables["tasks"])
        self.routines = _by_id(tables["routines"])
        self.routine_runs = _by_id(tables["routine_runs"])
        self.runs = _by_id(tables["runs"])
        self.requests = _by_id(tables["wakeup_requests"])
        self.sessions = _by_id(tables["sessions"])
        self.members: dict[str, list[Row]] = defaultdict(list)
        for request in self.requests.values():
            if request["run_id"] is not None:
                self.members[request["run_id"]].append(request)

    def runs_in(self, *statuses: str) -> list[Row]:
        """The runs with one of these statuses."""
        return [run for run in self.runs.values() if run["status"] in statuses]

    def capacities(self, task_id: str, agent_id: str) -> set[str]:
        """As what an agent takes part in a task."""
        return {
            row["capacity"]
            for row in self.tables["task_participants"]
            if (row["task_id"], row["agent_id"]) == (task_id, agent_id)
        }


def _by_id(rows: list[Row]) -> dict[str, Row]:
    return {row["id"]: row for row in rows}


class Watcher:
    """A read-only connection of our own, which reads whole states."""

    def __init__(self, path: str) -> None:
        self._connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        self._connection.set_busy_timeout(10_000)
        self._columns = {
            table: [row[1] for row in self._connection.execute(f"PRAGMA table_info({table})")]
            for table in TABLES
        }

    def unannounced(self) -> set[str]:
        """The tables whose changes SQLite's update hook does not tell: those without rowids."""
        rows = self._connection.execute(
            "SELECT name, wr FROM pragma_table_list WHERE schema = 'main'"
        ).fetchall()
        return {name for name, without_rowid in rows if without_rowid} & set(TABLES)

    def version(self) -> int:
        """Changes when somebody has committed."""
        return int(self._connection.pragma("data_version"))

    def state(self, *, known: State | None = None, changed: Iterable[str] = TABLES) -> State:
        """Everything, in one snapshot. `known`: an earlier state, in which only `changed` tables are old."""
        execute = self._connection.execute
        tables = dict(known.tables) if known is not None else {}
        execute("BEGIN")
        try:
            for table in TABLES if known is None else changed:
                columns = self._columns[table]
                rows = execute(f"SELECT {', '.join(columns)} FROM {table}").fetchall()
                tables[table] = [dict(zip(columns, row, strict=True)) for row in rows]
        finally:
            execute("ROLLBACK")
        return State(tables)

    def sound(self) -> list[str]:
        """What SQLite itself says is wrong with the file."""
        rows = self._connection.execute("PRAGMA integrity_check").fetchall()
        broken = self._connection.execute("PRAGMA foreign_key_check").fetchall()
        return [f"integrity: {row[0]}" for row in rows if row[0] != "ok"] + [
            f"foreign key: {row}" for row in broken
        ]

    def close(self) -> None:
        self._connection.close()


def read_state(path: str) -> State:
    """The state of the file at `path` now."""
    watcher = Watcher(path)
    try:
        return watcher.state()
    finally:
        watcher.close()


# ---- I1 -------------------------------------------------------------------------------------------------


def i1_no_wakeup_is_lost(state: State) -> Iterator[str]:
    """Each request ended in exactly one visible way, or a live run holds it, or it is held for a reason."""
    for request in state.requests.values():
        run = state.runs.get(request["run_id"])
        if request["finished_at"] is None:
            is_held = request["held_by"] is not None and request["run_id"] is None
            if not is_held and (run is None or run["status"] not in LIVE):
                yield f"I1: {_name(request)} is open and unreachable: its run is {_status(run)}"
        else:
            yield from _why_badly_ended(request, run)


def _why_badly_ended(request: Row, run: Row | None) -> Iterator[str]:
    ending, name = request["ending"], _name(request)
    words = {"delivered": "finished", "cancelled": "cancelled", "failed": "failed"}
    if request["status"] not in ("coalesced", "skipped", "finished", "failed", "cancelled"):
        yield f"I1: {name} has ended ({ending}) and still is {request['status']}"
    if ending in words and request["status"] not in ("coalesced", words[ending]):
        yield f"I1: {name} ended {ending}, its status says {request['status']}"
    if ending in ("skipped", "cancelled") and not request["reason"]:
        yield f"I1: {name} was {ending} without a reason"
    if ending == "delivered":
        if run is None or run["status"] != "finished":
            yield f"I1: {name} counts as delivered, its run is {_status(run)}"
        elif request["delivered_at"] is None or request["delivered_attempt"] != run["attempt"]:
            yield f"I1: {name} counts as delivered, it was not in the prompt of attempt {run['attempt']}"
    if ending == "failed" and (run is None or run["status"] != "failed"):
        yield f"I1: {name} counts as failed, its run is {_status(run)}"


def i1_what_was_delivered_stood_in_a_prompt(state: State, told: Told) -> Iterator[str]:
    """`told`: what the executor was really handed."""
    for request in state.requests.values():
        if request["ending"] == "delivered":
            attempt = (request["run_id"], request["delivered_attempt"])
            if request["id"] not in told.get(attempt, ()):
                yield f"I1: {_name(request)} counts as delivered by {attempt}, which was never told of it"
    for (run_id, attempt), ids in told.items():
        if not ids:
            yield f"I1: attempt {attempt} of {run_id} was launched for no request at all"


def lists_are_counted(state: State) -> Iterator[str]:
    """`coalesced_count` is the number of requests in the run (§2 Merging loses nothing)."""
    for run in state.runs.values():
        if run["coalesced_count"] != len(state.members[run["id"]]):
            count = len(state.members[run["id"]])
            yield f"§2: run {run['id']} says it holds {run['coalesced_count']} requests, it holds {count}"


def reasons_are_true(state: State) -> Iterator[str]:
    """A periodic run holds no open event, so that idle skip cannot eat one (§2 Dispatch 5)."""
    for run in state.runs_in(*LIVE):
        if run["reason"] == "periodic" and run["prompted_at"] is None:
            for request in state.members[run["id"]]:
                if not request["periodic"] and request["finished_at"] is None:
                    yield f"§2: run {run['id']} is periodic and holds the event {_name(request)}"


# ---- I2 -------------------------------------------------------------------------------------------------


def i2_keys_and_occurrences_exist_once(state: State) -> Iterator[str]:
    """One idempotency key, one request; one occurrence, one routine run, one request."""
    keys = Counter(
        (r["workspace_id"], r["agent_id"], r["idempotency_key"])
        for r in state.requests.values()
        if r["idempotency_key"] is not None
    )
    fires = Counter(
        (r["routine_id"], r["idempotency_key"])
        for r in state.routine_runs.values()
        if r["idempotency_key"] is not None
    )
    made = Counter(r["routine_run_id"] for r in state.requests.values() if r["routine_run_id"] is not None)
    for counts, what in (
        (keys, "the key of a request"),
        (fires, "the key of a fire"),
        (made, "an occurrence"),
    ):
        for name, count in counts.items():
            if count > 1:
                yield f"I2: {what} {name} was used {count} times"


# ---- I3, I5, I13: the claim -----------------------------------------------------------------------------


def could_start(state: State, run: Row, now: int) -> bool:
    """Whether §2 Claim lets this queued run start, the supervisor's own limit aside."""
    agent, workspace = state.agents[run["agent_id"]], state.workspaces[run["workspace_id"]]
    task = state.tasks.get(run["task_id"])
    claimed = sum(other["agent_id"] == agent["id"] for other in state.runs_in("claimed"))
    last = agent["last_wakeup_finished_at"]
    return (
        run["status"] == "queued"
        and run["eligible_at"] <= now
        and agent["status"] in PARALLEL_FREE
        and claimed < agent["max_concurrent_sessions"]
        and (last is None or last + agent["cooldown_s"] * 1000 <= now)
        and bool(workspace["enabled"])
        and workspace["paused_at"] is None
        and (task is None or task["checkout_run_id"] is None)
    )


def next_to_claim(state: State, now: int, max_sessions: int) -> Row | None:
    """The run that the rules say is claimed now: the oldest of those that could start."""
    if len(state.runs_in("claimed")) >= max_sessions:
        return None
    able = [run for run in state.runs_in("queued") if could_start(state, run, now)]
    return min(able, key=lambda run: (run["requested_at"], run["id"]), default=None)


def claims_are_right(before: State, after: State, now: int, max_sessions: int) -> Iterator[str]:
    """I3 and I5 for the claim (if any) that lies between two states with one commit between them."""
    for run_id, run in after.runs.items():
        was = before.runs.get(run_id)
        if run["status"] != "claimed" or (was is not None and was["status"] == "claimed"):
            continue
        if was is None or was["status"] != "queued":
            yield f"I3: run {run_id} was claimed and was {_status(was)} before"
        elif not could_start(before, was, now) or len(before.runs_in("claimed")) >= max_sessions:
            yield f"I3: run {run_id} was claimed and could not start: {_why_not(before, was, now)}"
        else:
            right = next_to_claim(before, now, max_sessions)
            if right is not None and right["id"] != run_id:
                yield f"I5: run {run_id} was claimed before run {right['id']}, which is older"


def _why_not(state: State, run: Row, now: int) -> str:
    agent = state.agents[run["agent_id"]]
    claimed = sum(other["agent_id"] == agent["id"] for other in state.runs_in("claimed"))
    return (
        f"agent {agent['name']} is {agent['status']} with {claimed} of {agent['max_concurrent_sessions']} "
        f"sessions, cooldown until {(agent['last_wakeup_finished_at'] or 0) + agent['cooldown_s'] * 1000}, "
        f"run eligible at {run['eligible_at']}, now {now}, {len(state.runs_in('claimed'))} claimed in all"
    )


def i13_nothing_that_could_start_waits(state: State, now: int, max_sessions: int) -> Iterator[str]:
    """For a moment when the drainer has just said that there is nothing to claim."""
    run = next_to_claim(state, now, max_sessions)
    if run is not None:
        yield f"I13: run {run['id']} could start and was not claimed"


def i13_nothing_is_left(state: State) -> Iterator[str]:
    """For a database whose every obstacle was removed and that was given all the time it needs."""
    for request in state.requests.values():
        if request["finished_at"] is None:
            yield f"I13: {_name(request)} never ends; its run is {_status(state.runs.get(request['run_id']))}"
    for run in state.runs_in(*LIVE):
        yield f"I13: run {run['id']} stays {run['status']}"


# ---- I4 -------------------------------------------------------------------------------------------------


def i4_a_checkout_is_held_by_its_claimed_run(state: State) -> Iterator[str]:
    """A checked-out task ⇔ one claimed run of that task; no checkout outlives its run."""
    for task in state.tasks.values():
        holder = state.runs.get(task["checkout_run_id"])
        if task["checkout_run_id"] is None:
            continue
        if holder is None or holder["status"] != "claimed":
            yield f"I4: task {task['id']} is held by {task['checkout_run_id']}, which is {_status(holder)}"
        elif (holder["task_id"], holder["agent_id"]) != (task["id"], task["checkout_agent_id"]):
            yield f"I4: task {task['id']} is held by run {holder['id']} of another task or agent"
    for run in state.runs_in("claimed"):
        if run["task_id"] is not None and state.tasks[run["task_id"]]["checkout_run_id"] != run["id"]:
            yield f"I4: run {run['id']} is claimed and does not hold its task {run['task_id']}"


# ---- I6 -------------------------------------------------------------------------------------------------


def _fired_slots(state: State) -> Counter[tuple[str, int]]:
    return Counter(
        (r["trigger_id"], r["scheduled_for_at"])
        for r in state.routine_runs.values()
        if r["scheduled_for_at"] is not None and r["trigger_id"] is not None and r["status"] != "missed"
    )


def i6_a_slot_fires_once(state: State) -> Iterator[str]:
    """Each slot of a trigger has at most one routine run."""
    for (trigger_id, slot_at), count in _fired_slots(state).items():
        if count > 1:
            yield f"I6: slot {slot_at} of trigger {trigger_id} fired {count} times"


def i6_a_missed_slot_does_not_fire(state: State) -> Iterator[str]:
    """As long as no clock was set back: then a slot that a wrong clock missed is still to come."""
    for missed in (r for r in state.routine_runs.values() if r["status"] == "missed"):
        for trigger_id, slot_at in _fired_slots(state):
            is_within = missed["missed_first_at"] <= slot_at <= missed["missed_last_at"]
            if trigger_id == missed["trigger_id"] and is_within:
                yield f"I6: slot {slot_at} of trigger {trigger_id} is recorded as missed, and fired"


# ---- I7, I8 ---------------------------------------------------------------------------------------------


def i7_a_reason_is_only_promoted(before: State, after: State) -> Iterator[str]:
    """From periodic to event, never back."""
    for run_id, was in before.runs.items():
        if was["reason"] == "event" and after.runs[run_id]["reason"] == "periodic":
            yield f"I7: run {run_id} was demoted to periodic"


def i8_terminal_rows_stay(before: State, after: State) -> Iterator[str]:
    """What has `finished_at` (a session: `ended_at`) never changes and never goes."""
    for table, end in (
        ("runs", "finished_at"),
        ("wakeup_requests", "finished_at"),
        ("routine_runs", "finished_at"),
        ("sessions", "ended_at"),
    ):
        if after.tables[table] is before.tables[table]:
            continue
        now = _by_id(after.tables[table])
        for was in before.tables[table]:
            if was[end] is not None and now.get(was["id"]) != was:
                changed = {k: (v, (now.get(was["id"]) or {}).get(k)) for k, v in was.items()}
                differs = {k: pair for k, pair in changed.items() if pair[0] != pair[1]}
                yield f"I8: {table} {was['id']} had ended and changed: {differs}"


# ---- I9 -------------------------------------------------------------------------------------------------


def i9_what_was_acknowledged_is_there(state: State, acknowledged: Iterable[str]) -> Iterator[str]:
    """`acknowledged`: ids (of requests, runs, routine runs, tasks) that a caller was told of."""
    known = state.requests.keys() | state.runs.keys() | state.routine_runs.keys() | state.tasks.keys()
    for thing_id in acknowledged:
        if thing_id not in known:
            yield f"I9: {thing_id} was acknowledged and is gone"


# ---- I10 ------------------------------------------------------------------------------------------------


def i10_nothing_follows_the_close(log: str) -> Iterator[str]:
    """The log of a supervisor that stopped gracefully."""
    for sign in ("database is closed", "after it was closed", "ConnectionClosedError", "Traceback"):
        if sign in log:
            yield f"I10: the log says {sign!r}: …{log[log.index(sign) - 300 :][:900]}"
    _, end, rest = log.partition("Graceful shutdown complete")
    if not end:
        yield f"I10: the log does not end with a graceful shutdown: …{log[-500:]}"
    if rest.strip():
        yield f"I10: something was logged after the shutdown: {rest.strip()!r}"


def i10_a_stopped_supervisor_says_so(state: State) -> Iterator[str]:
    """The row that a supervisor keeps of itself."""
    for row in state.tables["supervisor"]:
        if (row["state"], row["pid"]) != ("stopped", None):
            yield f"I10: the supervisor has stopped and its row says {row['state']}, pid {row['pid']}"


# ---- I11 ------------------------------------------------------------------------------------------------

_FLOCK = "hhqqi4x"


def _is_lock_held(path: Path) -> bool:
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        probe = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        return struct.unpack(_FLOCK, fcntl.fcntl(fd, fcntl.F_OFD_GETLK, probe))[0] != fcntl.F_UNLCK
    finally:
        os.close(fd)


def attempt_state(runs_root: Path, run_id: str, attempt: int) -> str:
    """What the files of an attempt say: unborn, running, done or lost."""
    folder = runs_root / run_id / str(attempt)
    if (folder / "result.json").exists():
        return "done"
    if not (folder / "lock").exists():
        return "unborn"
    if _is_lock_held(folder / "lock"):
        return "running"
    return "done" if (folder / "result.json").exists() else "lost"


def marked_processes() -> dict[tuple[str, int], set[tuple[int, int]]]:
    """(run id, attempt) → its living processes as (pid, start time), found by their environment."""
    found: dict[tuple[str, int], set[tuple[int, int]]] = defaultdict(set)
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            environ = Path(f"/proc/{name}/environ").read_bytes()
            fields = Path(f"/proc/{name}/stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue  # gone, or not ours
        marks = dict(part.partition(b"=")[::2] for part in environ.split(b"\0") if part.startswith(b"SCHED_"))
        if b"SCHED_RUN_ID" in marks and b"SCHED_ATTEMPT" in marks and fields[0] not in "ZX":
            mark = (marks[b"SCHED_RUN_ID"].decode(), int(marks[b"SCHED_ATTEMPT"]))
            found[mark].add((int(name), int(fields[19])))
    return found


def i11_each_process_belongs_to_its_claimed_run(path: str) -> Iterator[str]:
    """Only what was seen twice, with the state read in between, counts: things move."""
    first, state, second = marked_processes(), read_state(path), marked_processes()
    for (run_id, attempt), processes in first.items():
        run = state.runs.get(run_id)
        if run is None or not processes & second.get((run_id, attempt), set()):
            continue  # another database's, or gone
        if run["status"] != "claimed":
            yield f"I11: run {run_id} is {run['status']}, attempt {attempt} left processes: {processes}"
        elif run["attempt"] != attempt:
            yield f"I11: run {run_id} is at attempt {run['attempt']}, {attempt} works too: {processes}"


def i11_a_claimed_run_is_worked_on(state: State, runs_root: Path, *, is_at_rest: bool) -> Iterator[str]:
    """A claimed run has a live shim or a result to settle; unborn only while somebody starts it."""
    for run in state.runs_in("claimed"):
        seen = attempt_state(runs_root, run["id"], run["attempt"])
        if seen == "lost" or (is_at_rest and seen == "unborn"):
            yield f"I11: run {run['id']} is claimed and its attempt {run['attempt']} is {seen}"


# ---- I12 ------------------------------------------------------------------------------------------------


def i12_nothing_crosses_workspaces_or_scopes(state: State) -> Iterator[str]:
    """A request, its run, its agent and its task belong together."""
    for run in state.runs.values():
        places = {run["workspace_id"], state.agents[run["agent_id"]]["workspace_id"]}
        if run["task_id"] is not None:
            places.add(state.tasks[run["task_id"]]["workspace_id"])
        for request in state.members[run["id"]]:
            places.add(request["workspace_id"])
            if (request["agent_id"], request["task_id"]) != (run["agent_id"], run["task_id"]):
                yield f"I12: run {run['id']} holds {_name(request)} of another agent or task"
        if len(places) > 1:
            yield f"I12: run {run['id']} spans the workspaces {sorted(places)}"
        routines = {r["routine_id"] for r in state.members[run["id"]] if r["routine_id"] is not None}
        if len(routines) > 1:
            yield f"§2: run {run['id']} holds requests of several routines: {sorted(routines)}"


# ---- what the store counts ------------------------------------------------------------------------------


def counters_are_true(state: State) -> Iterator[str]:
    """The counts of an agent are those of its runs; `working` means that there is a claimed one."""
    for agent in state.agents.values():
        mine = [run for run in state.runs.values() if run["agent_id"] == agent["id"]]
        counts = tuple(sum(run["status"] == status for run in mine) for status in LIVE)
        if counts != (agent["queued_count"], agent["claimed_count"]):
            said = (agent["queued_count"], agent["claimed_count"])
            yield f"counters: agent {agent['name']} has {counts} runs queued and claimed, it says {said}"
        if agent["status"] in PARALLEL_FREE and (agent["status"] == "working") != (counts[1] > 0):
            yield f"counters: agent {agent['name']} is {agent['status']} with {counts[1]} claimed runs"


def sessions_end_with_their_attempts(state: State) -> Iterator[str]:
    """An open session belongs to the present attempt of a claimed run."""
    for session in state.sessions.values():
        run = state.runs[session["run_id"]]
        if session["ended_at"] is None and (run["status"], run["attempt"]) != ("claimed", session["attempt"]):
            yield f"sessions: session {session['id']} is open, its run {run['id']} is {run['status']}"


# ---- all together ---------------------------------------------------------------------------------------

AT_ANY_TIME = (
    i1_no_wakeup_is_lost,
    i2_keys_and_occurrences_exist_once,
    i4_a_checkout_is_held_by_its_claimed_run,
    i6_a_slot_fires_once,
    i12_nothing_crosses_workspaces_or_scopes,
    lists_are_counted,
    reasons_are_true,
    counters_are_true,
    sessions_end_with_their_attempts,
)


def breaches(state: State) -> list[str]:
    """What one state shows."""
    return [sentence for invariant in AT_ANY_TIME for sentence in invariant(state)]


def demand(sentences: Iterable[str]) -> None:
    """Raise Broken if there is any sentence."""
    found = list(sentences)
    if found:
        raise Broken("\n".join(found))


def check_all(
    path: str,
    *,
    runs_root: Path | None = None,
    is_at_rest: bool = False,
    is_drained: bool = False,
    before: State | None = None,
    acknowledged: Iterable[str] = (),
    log: str | None = None,
    told: Told | None = None,
) -> State:
    """Demand every invariant that can be seen from here; the state that was seen.

    `is_at_rest`: no supervisor runs. `is_drained`: all work was given the chance to end. `before`: an
    earlier state. `log`: of a supervisor that stopped gracefully. `runs_root`: where the attempts' files are.
    """
    watcher = Watcher(path)
    try:
        state = watcher.state()
        found = [*watcher.sound(), *breaches(state)]
    finally:
        watcher.close()
    found += i9_what_was_acknowledged_is_there(state, acknowledged)
    if before is not None:
        found += [*i7_a_reason_is_only_promoted(before, state), *i8_terminal_rows_stay(before, state)]
    if told is not None:
        found += i1_what_was_delivered_stood_in_a_prompt(state, told)
    if runs_root is not None:
        found += i11_each_process_belongs_to_its_claimed_run(path)
        found += i11_a_claimed_run_is_worked_on(state, runs_root, is_at_rest=is_at_rest and is_drained)
    if log is not None:
        found += [*i10_nothing_follows_the_close(log), *i10_a_stopped_supervisor_says_so(state)]
    if is_drained:
        found += i13_nothing_is_left(state)
    demand(found)
    return state


class History:
    """Snapshots in a row, one for each commit: claims, cooldowns, promotions and terminal rows."""

    def __init__(self, *, max_sessions: int) -> None:
        self.max_sessions = max_sessions
        self.state: State | None = None
        self._ended_at: dict[str, int] = {}  # when the last launched attempt of an agent ended

    def observe(self, after: State, now: int) -> list[str]:
        """What this commit broke."""
        before, self.state = self.state, after
        found = breaches(after)
        if before is not None:
            found += i7_a_reason_is_only_promoted(before, after)
            found += i8_terminal_rows_stay(before, after)
            found += claims_are_right(before, after, now, self.max_sessions)
            found += self._cooldowns(before, after, now)
        return found

    def shift(self, step_ms: int, now: int) -> None:
        """The clock was set back, and everybody knows it now."""
        self._ended_at = {agent: at - step_ms if at > now else at for agent, at in self._ended_at.items()}

    def _cooldowns(self, before: State, after: State, now: int) -> Iterator[str]:
        """From the endings that we saw ourselves, not from the column that the program keeps."""
        for run_id, run in after.runs.items():
            was = before.runs.get(run_id)
            if was is None:
                continue
            agent = after.agents[run["agent_id"]]
            if run["status"] == "claimed" and was["status"] == "queued":
                ended_at = self._ended_at.get(agent["id"])
                if ended_at is not None and ended_at + agent["cooldown_s"] * 1000 > now:
                    yield f"I3: run {run_id} was claimed at {now}, in the cooldown that began at {ended_at}"
            is_over = run["status"] not in LIVE or run["retry_count"] > was["retry_count"]
            if was["status"] == "claimed" and was["started_at"] is not None and is_over:
                self._ended_at[agent["id"]] = now


def _name(request: Row) -> str:
    kind = "periodic" if request["periodic"] else "event"
    return f"{kind} {request['source']} request {request['id']} (task {request['task_id']})"


def _status(run: Row | None) -> str:
    return "missing" if run is None else f"{run['id']} ({run['status']})"
