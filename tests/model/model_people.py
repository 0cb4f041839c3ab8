"""The people of the model: who and what they mean, and what they change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from invariants import Row
from model_judge import BY_USER, Judge
from model_world import NAMES, ROUTINES, MachineWorld

from kandev_sched.domain.tasks import Task, TaskState, is_closed
from kandev_sched.domain.wakeups import Capacity
from kandev_sched.operations import agents as agent_operations
from kandev_sched.operations import routines as routine_operations
from kandev_sched.operations import workspaces as workspace_operations
from kandev_sched.store import tasks

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
CROWD = ("none", "archive", "stop", "pause", "resume", "cancel", "assign", "move", "leave", "archive routine")


class People:
    """Every number from `focused` on means what is worked on just now: there the rules meet."""

    focused = 25
    names: tuple[str, ...] = NAMES
    interferes: tuple[str, ...] = CROWD
    world: MachineWorld
    judge: Judge

    def pick(self, things: Sequence[Any], number: int) -> Any:
        return things[number % len(things)] if things else None

    def focus(self, number: int) -> Row | None:
        return self.pick(self.world.state.runs_in("claimed"), number) if number >= self.focused else None

    def agent(self, number: int) -> Row:
        run = self.focus(number)
        if run is not None:
            return self.world.state.agents[run["agent_id"]]
        return next(
            a for a in self.world.state.agents.values() if a["name"] == self.names[number % len(self.names)]
        )

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
                self.judge.may_cancel.add(request["id"])
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

    def interfere(self, act: str, run: Row, how: int) -> None:
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
