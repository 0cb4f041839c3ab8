"""Agents, and the profiles that say how one is started: add, set, pause, resume, stop, archive."""

from __future__ import annotations

import os

from kandev_sched.domain.agents import COORDINATING_ROLES, Agent, AgentRole, AgentStatus, Profile
from kandev_sched.domain.errors import Conflict, Invalid
from kandev_sched.domain.record import Record
from kandev_sched.domain.workspaces import Workspace
from kandev_sched.flow.settle import AGENT_STOPPED, cancel_queued
from kandev_sched.operations import lookup
from kandev_sched.policy import naming
from kandev_sched.store import activity, agents, runs
from kandev_sched.store.db import Tx

SESSIONS = (1, 1000)
COOLDOWN_S = (0, 604_800)
ENV_NAME_LIMIT = 1000


class AddAgent(Record):
    """A new agent. `argv` makes a profile of its own; `profile` names a shared one."""

    workspace: str = lookup.DEFAULT_WORKSPACE
    name: str
    role: AgentRole = AgentRole.WORKER
    profile: str | None = None
    argv: tuple[str, ...] | None = None
    executor: str | None = None
    cwd: str | None = None
    env: dict[str, str]
    max_sessions: int = 1
    cooldown_s: int = 10
    skip_idle: bool | None = None
    max_run_s: int | None = None


def add_agent(tx: Tx, command: AddAgent) -> Agent:
    """Raises Invalid for values out of range, NotFound for names, Conflict when the name is taken."""
    workspace = lookup.workspace_for_writing(tx, command.workspace)
    name = naming.checked_name("agent", command.name)
    if agents.by_name(tx, workspace_id=workspace.id, name=name) is not None:
        raise Conflict(
            f"there is an agent {name!r} already", hint="choose another name, or change it: sched agent set"
        )
    if command.profile and command.argv:
        raise Invalid("both a profile and a command were given", hint="give one of them")
    executor = lookup.the_executor(tx, workspace, command.executor) if command.executor else None
    skips_idle = command.role not in COORDINATING_ROLES if command.skip_idle is None else command.skip_idle
    agent = Agent(
        id=tx.new_id("ag"),
        workspace_id=workspace.id,
        name=name,
        role=command.role,
        profile_id=_profile_id(tx, workspace, command),
        executor_id=executor.id if executor else None,
        cwd=_checked_cwd(command.cwd),
        env=checked_env(command.env),
        max_concurrent_sessions=_within("max-sessions", command.max_sessions, SESSIONS),
        cooldown_s=_within("cooldown", command.cooldown_s, COOLDOWN_S),
        skip_idle_wakeups=skips_idle,
        max_run_s=_positive("timeout", command.max_run_s),
        created_at=tx.now,
        updated_at=tx.now,
    )
    agents.add(tx, agent)
    return agent


def _profile_id(tx: Tx, workspace: Workspace, command: AddAgent) -> str | None:
    if command.profile:
        return lookup.the_profile(tx, workspace, command.profile).id
    if command.argv is None:
        return None
    return add_profile_in(
        tx, workspace, name=free_profile_name(tx, workspace, command.name), argv=command.argv
    ).id


def free_profile_name(tx: Tx, workspace: Workspace, wanted: str) -> str:
    """The agent's own name, or the first of `name-2`, `name-3` … that no profile has."""
    taken = {profile.name for profile in agents.profiles(tx, workspace.id)}
    numbered = (f"{wanted}-{number}" for number in range(2, len(taken) + 3))
    return next(name for name in (wanted, *numbered) if name not in taken)


class SetAgent(Record):
    """Change what is given, leave the rest. `argv` replaces the profile by one of its own."""

    workspace: str = lookup.DEFAULT_WORKSPACE
    agent: str
    role: AgentRole | None = None
    profile: str | None = None
    argv: tuple[str, ...] | None = None
    executor: str | None = None
    cwd: str | None = None
    env: dict[str, str] | None = None
    max_sessions: int | None = None
    cooldown_s: int | None = None
    skip_idle: bool | None = None
    max_run_s: int | None = None


def set_agent(tx: Tx, command: SetAgent) -> Agent:
    """Raises Invalid for values out of range, NotFound for names."""
    workspace = lookup.workspace_for_writing(tx, command.workspace)
    agent = lookup.the_agent(tx, workspace, command.agent)
    if command.profile and command.argv:
        raise Invalid("both a profile and a command were given", hint="give one of them")
    changes = _plain_changes(command)
    if command.profile:
        changes["profile_id"] = lookup.the_profile(tx, workspace, command.profile).id
    if command.argv is not None:
        name = free_profile_name(tx, workspace, agent.name)
        changes["profile_id"] = add_profile_in(tx, workspace, name=name, argv=command.argv).id
    if command.executor:
        changes["executor_id"] = lookup.the_executor(tx, workspace, command.executor).id
    changed = agent.replace(**changes)
    agents.save(tx, changed)
    tx.wake_supervisor()
    return lookup.the_agent(tx, workspace, agent.id)


def _plain_changes(command: SetAgent) -> dict[str, object]:
    checked = {
        "role": command.role,
        "cwd": _checked_cwd(command.cwd),
        "env": checked_env(command.env) if command.env is not None else None,
        "max_concurrent_sessions": _or_none(command.max_sessions, "max-sessions", SESSIONS),
        "cooldown_s": _or_none(command.cooldown_s, "cooldown", COOLDOWN_S),
        "skip_idle_wakeups": command.skip_idle,
        "max_run_s": _positive("timeout", command.max_run_s),
    }
    return {name: value for name, value in checked.items() if value is not None}


def pause_agent(tx: Tx, agent: Agent, *, reason: str | None = None) -> Agent:
    """Keep the queue, start nothing until `resume`. A live run goes on."""
    return _with_status(tx, agent, AgentStatus.PAUSED, reason=reason)


def stop_agent(tx: Tx, agent: Agent, *, reason: str | None = None) -> Agent:
    """As pause, and end the live attempts; their runs go back to the queue and go on after `resume`."""
    for run in runs.claimed(tx):
        if run.agent_id == agent.id:
            runs.ask_cancel(tx, run.id, reason=AGENT_STOPPED)
    return _with_status(tx, agent, AgentStatus.STOPPED, reason=reason)


def resume_agent(tx: Tx, agent: Agent) -> Agent:
    """Let the kept queue run."""
    status = AgentStatus.WORKING if agent.claimed_count else AgentStatus.IDLE
    return _with_status(tx, agent, status, reason=None)


def archive_agent(tx: Tx, agent: Agent) -> Agent:
    """The agent is gone: its queued requests are cancelled (`agent_gone`), its live runs ended."""
    changed = _with_status(tx, agent, AgentStatus.ARCHIVED, reason=None)
    for run in runs.queued_of_agent(tx, agent.id):
        cancel_queued(tx, run, reason="agent_gone")
    for run in runs.claimed(tx):
        if run.agent_id == agent.id:
            runs.ask_cancel(tx, run.id, reason="agent_gone")
    return changed


def _with_status(tx: Tx, agent: Agent, status: AgentStatus, *, reason: str | None) -> Agent:
    agents.set_status(tx, agent, status, reason=reason)
    activity.record(
        tx,
        f"agent_{status}",
        f"{agent.name} is {status}{f': {reason}' if reason else ''}",
        workspace_id=agent.workspace_id,
        agent_id=agent.id,
    )
    tx.wake_supervisor()
    changed = agents.by_id(tx, agent.id)
    assert changed is not None
    return changed


class AddProfile(Record):
    """A profile that several agents may share."""

    workspace: str = lookup.DEFAULT_WORKSPACE
    name: str
    argv: tuple[str, ...]
    env: dict[str, str]
    max_run_s: int | None = None
    idle_output_s: int | None = None


def add_profile(tx: Tx, command: AddProfile) -> Profile:
    """Raises Conflict when the name is taken."""
    workspace = lookup.workspace_for_writing(tx, command.workspace)
    name = naming.checked_name("profile", command.name)
    if any(profile.name == name for profile in agents.profiles(tx, workspace.id)):
        raise Conflict(f"there is a profile {name!r} already", hint="choose another name")
    return add_profile_in(
        tx,
        workspace,
        name=name,
        argv=command.argv,
        env=checked_env(command.env),
        max_run_s=_positive("timeout", command.max_run_s),
        idle_output_s=_positive("idle-timeout", command.idle_output_s),
    )


def add_profile_in(
    tx: Tx,
    workspace: Workspace,
    *,
    name: str,
    argv: tuple[str, ...],
    env: dict[str, str] | None = None,
    max_run_s: int | None = None,
    idle_output_s: int | None = None,
) -> Profile:
    """Insert a profile whose values were checked; the argv is checked here."""
    profile = Profile(
        id=tx.new_id("pf"),
        workspace_id=workspace.id,
        name=name,
        argv=checked_argv(argv),
        env=env or {},
        max_run_s=max_run_s,
        idle_output_s=idle_output_s,
        created_at=tx.now,
        updated_at=tx.now,
    )
    agents.add_profile(tx, profile)
    return profile


class SetProfile(Record):
    """Change what is given, leave the rest."""

    workspace: str = lookup.DEFAULT_WORKSPACE
    profile: str
    argv: tuple[str, ...] | None = None
    env: dict[str, str] | None = None
    max_run_s: int | None = None
    idle_output_s: int | None = None


def set_profile(tx: Tx, command: SetProfile) -> Profile:
    """Raises NotFound, Invalid."""
    workspace = lookup.workspace_for_writing(tx, command.workspace)
    profile = lookup.the_profile(tx, workspace, command.profile)
    checked = {
        "argv": checked_argv(command.argv) if command.argv is not None else None,
        "env": checked_env(command.env) if command.env is not None else None,
        "max_run_s": _positive("timeout", command.max_run_s),
        "idle_output_s": _positive("idle-timeout", command.idle_output_s),
    }
    changed = profile.replace(**{name: value for name, value in checked.items() if value is not None})
    agents.save_profile(tx, changed)
    return changed.replace(updated_at=tx.now)


def delete_profile(tx: Tx, profile: Profile) -> None:
    """Raises Conflict when an agent, a workspace or a run refers to it."""
    if not agents.delete_profile(tx, profile.id):
        raise Conflict(f"the profile {profile.name} is in use", hint="change the agents that use it first")


def checked_argv(argv: tuple[str, ...]) -> tuple[str, ...]:
    """A command line that can be executed. Raises Invalid."""
    if not argv or not argv[0]:
        raise Invalid("the command is empty", hint="give a program and its arguments: --command 'claude -p'")
    if any("\0" in part for part in argv):
        raise Invalid("the command contains a NUL character", hint="remove it")
    return argv


def checked_env(env: dict[str, str]) -> dict[str, str]:
    """Environment variables that a process can have, none of them ours. Raises Invalid."""
    for name, value in env.items():
        if not name or "=" in name or "\0" in name + value or len(name) > ENV_NAME_LIMIT:
            raise Invalid(f"{name!r:.60} cannot be an environment variable", hint="write NAME=value")
        if name.startswith("SCHED_"):
            raise Invalid(
                f"{name!r:.60} is set by sched itself", hint="choose a name that does not begin with SCHED_"
            )
    return env


def _checked_cwd(cwd: str | None) -> str | None:
    if cwd is None:
        return None
    path = os.path.abspath(os.path.expanduser(cwd))
    if not os.path.isdir(path):
        raise Invalid(f"{cwd!r:.200} is not a directory", hint="name an existing directory with --cwd")
    return path


def _within(what: str, value: int, bounds: tuple[int, int]) -> int:
    low, high = bounds
    if not low <= value <= high:
        raise Invalid(f"{what} is {value}", hint=f"it must be between {low} and {high}")
    return value


def _or_none(value: int | None, what: str, bounds: tuple[int, int]) -> int | None:
    return None if value is None else _within(what, value, bounds)


def _positive(what: str, value: int | None) -> int | None:
    return None if value is None else _within(what, value, (1, 366 * 86_400))
