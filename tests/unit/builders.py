"""Records with every field that a test does not care for filled in."""

from __future__ import annotations

from typing import Any

from kandev_sched.domain.agents import Agent
from kandev_sched.domain.runs import Reason, Run
from kandev_sched.domain.tasks import Task
from kandev_sched.domain.wakeups import WakeupRequest, WakeupSource
from kandev_sched.domain.workspaces import Project, Workspace

NOW = 1_796_115_600_000  # 2026-12-01T09:00:00Z


def an_agent(**fields: Any) -> Agent:
    blank = {
        "id": "ag_1", "workspace_id": "ws_1", "name": "bot", "env": {}, "skip_idle_wakeups": True,
        "created_at": NOW, "updated_at": NOW,
    }  # fmt: skip
    return Agent(**{**blank, **fields})


def a_workspace(**fields: Any) -> Workspace:
    return Workspace(**{"id": "ws_1", "name": "default", "created_at": NOW, "updated_at": NOW, **fields})


def a_project(**fields: Any) -> Project:
    return Project(**{"id": "pj_1", "workspace_id": "ws_1", "name": "project", "created_at": NOW, **fields})


def a_task(**fields: Any) -> Task:
    blank = {"id": "task_1", "workspace_id": "ws_1", "title": "t", "created_at": NOW, "updated_at": NOW}
    return Task(**{**blank, **fields})


def a_run(**fields: Any) -> Run:
    blank = {
        "id": "run_1", "workspace_id": "ws_1", "agent_id": "ag_1", "reason": Reason.EVENT, "source": "user",
        "requested_at": NOW, "eligible_at": NOW,
    }  # fmt: skip
    return Run(**{**blank, **fields})


def a_request(source: str = "user", **fields: Any) -> WakeupRequest:
    payload = {"user_id": "ann"} if source == "user" else {}
    blank = {
        "id": "wk_1", "workspace_id": "ws_1", "agent_id": "ag_1", "source": WakeupSource(source),
        "payload": payload, "requested_at": NOW,
    }  # fmt: skip
    return WakeupRequest(**{**blank, **fields})
