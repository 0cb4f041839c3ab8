"""Agents (who is woken), profiles (how one is started) and executors (where)."""

from __future__ import annotations

from enum import StrEnum

from kandev_sched.domain.record import Record


class AgentRole(StrEnum):
    """What an agent is for; it decides the default of `skip_idle_wakeups`."""

    WORKER = "worker"
    SPECIALIST = "specialist"
    ASSISTANT = "assistant"
    COORDINATOR = "coordinator"
    CEO = "ceo"
    SECURITY = "security"
    QA = "qa"
    DEVOPS = "devops"


COORDINATING_ROLES = frozenset({AgentRole.COORDINATOR, AgentRole.CEO})


class AgentStatus(StrEnum):
    """`idle` and `working` may be claimed for; the others keep or lose their queue."""

    IDLE = "idle"
    WORKING = "working"
    PAUSED = "paused"
    STOPPED = "stopped"
    ARCHIVED = "archived"


class Agent(Record):
    """One agent instance of a workspace; the counts are kept by the store."""

    id: str
    workspace_id: str
    name: str
    role: AgentRole = AgentRole.WORKER
    status: AgentStatus = AgentStatus.IDLE
    status_reason: str | None = None
    profile_id: str | None = None
    executor_id: str | None = None
    cwd: str | None = None
    env: dict[str, str]
    max_concurrent_sessions: int = 1
    cooldown_s: int = 10
    skip_idle_wakeups: bool
    max_run_s: int | None = None
    last_wakeup_finished_at: int | None = None
    failure_streak: int = 0
    queued_count: int = 0
    claimed_count: int = 0
    created_at: int
    updated_at: int
    archived_at: int | None = None
    claimable_count: int = 0
    ready_at: int = 0


class Protocol(StrEnum):
    """How the shim talks to the agent program."""

    COMMAND = "command"


class Profile(Record):
    """The execution agent: what is started, with which environment and limits."""

    id: str
    workspace_id: str
    name: str
    protocol: Protocol = Protocol.COMMAND
    argv: tuple[str, ...]
    env: dict[str, str]
    provider_account: str | None = None
    max_run_s: int | None = None
    idle_output_s: int | None = None
    created_at: int
    updated_at: int


class ExecutorKind(StrEnum):
    """Where agent programs run."""

    LOCAL = "local"


class Executor(Record):
    """A named place where agent programs run."""

    id: str
    workspace_id: str
    name: str
    kind: ExecutorKind = ExecutorKind.LOCAL
    created_at: int
