"""Agents and profiles."""

from __future__ import annotations

from kandev_sched.domain.agents import Agent, Profile
from kandev_sched.store.sql import Sql, Statement, insert_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.domain.agents import AgentStatus
    from kandev_sched.store.db import Reader, Tx

_ADD = insert_of("agents", Agent, without=("ready_at",))
_ADD_PROFILE = insert_of("profiles", Profile)


def add(tx: Tx, agent: Agent) -> None:
    """Insert an agent."""
    tx.insert(_ADD, agent)


def add_profile(tx: Tx, profile: Profile) -> None:
    """Insert a profile."""
    tx.insert(_ADD_PROFILE, profile)


_BY_ID = Sql("SELECT * FROM agents WHERE id = :id", Agent)


def by_id(reader: Reader, agent_id: str) -> Agent | None:
    """The agent with that id, archived ones too."""
    return reader.one(_BY_ID, id=agent_id)


_BY_NAME = Sql(
    "SELECT * FROM agents WHERE workspace_id = :workspace_id AND name = :name AND archived_at IS NULL", Agent
)


def by_name(reader: Reader, *, workspace_id: str, name: str) -> Agent | None:
    """The living agent of that name."""
    return reader.one(_BY_NAME, workspace_id=workspace_id, name=name)


_OF_WORKSPACE = Sql(
    "SELECT * FROM agents WHERE workspace_id = :workspace_id AND archived_at IS NULL ORDER BY name", Agent
)


def of_workspace(reader: Reader, workspace_id: str) -> list[Agent]:
    """The living agents of a workspace, by name."""
    return reader.all(_OF_WORKSPACE, workspace_id=workspace_id)


_ALL = Sql("SELECT * FROM agents ORDER BY name", Agent)


def every(reader: Reader) -> list[Agent]:
    """All agents of all workspaces, archived ones too."""
    return reader.all(_ALL)


_SET_STATUS = Statement(
    "UPDATE agents SET status = :status, status_reason = :reason, updated_at = :now,"
    " archived_at = CASE WHEN :status = 'archived' THEN :now END WHERE id = :id"
)


def set_status(tx: Tx, agent: Agent, status: AgentStatus, *, reason: str | None) -> None:
    """Pause, stop, resume or archive an agent."""
    tx.run(_SET_STATUS, id=agent.id, status=status, reason=reason, now=tx.now)


_SET = Statement(
    "UPDATE agents SET role = :role, profile_id = :profile_id, executor_id = :executor_id, cwd = :cwd,"
    " env = :env, max_concurrent_sessions = :max_concurrent_sessions, cooldown_s = :cooldown_s,"
    " skip_idle_wakeups = :skip_idle_wakeups, max_run_s = :max_run_s, updated_at = :now WHERE id = :id"
)


def save(tx: Tx, agent: Agent) -> None:
    """Write what a person may change of an agent."""
    tx.run(
        _SET,
        id=agent.id,
        role=agent.role,
        profile_id=agent.profile_id,
        executor_id=agent.executor_id,
        cwd=agent.cwd,
        env=agent.env,
        max_concurrent_sessions=agent.max_concurrent_sessions,
        cooldown_s=agent.cooldown_s,
        skip_idle_wakeups=agent.skip_idle_wakeups,
        max_run_s=agent.max_run_s,
        now=tx.now,
    )


_FINISHED = Statement(
    "UPDATE agents SET last_wakeup_finished_at = :now,"
    " failure_streak = CASE WHEN :succeeded THEN 0 ELSE failure_streak + :failed END WHERE id = :id"
)


def stamp_finished(tx: Tx, agent_id: str, *, succeeded: bool, failed: bool) -> None:
    """Begin the cooldown; only launched runs do (behaviour.md §2 Claim)."""
    tx.run(_FINISHED, id=agent_id, succeeded=succeeded, failed=failed, now=tx.now)


_PROFILE = Sql("SELECT * FROM profiles WHERE id = :id", Profile)


def profile(reader: Reader, profile_id: str) -> Profile | None:
    """The profile with that id."""
    return reader.one(_PROFILE, id=profile_id)


_PROFILES = Sql("SELECT * FROM profiles WHERE workspace_id = :workspace_id ORDER BY name", Profile)


def profiles(reader: Reader, workspace_id: str) -> list[Profile]:
    """The profiles of a workspace."""
    return reader.all(_PROFILES, workspace_id=workspace_id)


_SET_PROFILE = Statement(
    "UPDATE profiles SET argv = :argv, env = :env, provider_account = :provider_account,"
    " max_run_s = :max_run_s, idle_output_s = :idle_output_s, updated_at = :now WHERE id = :id"
)


def save_profile(tx: Tx, profile: Profile) -> None:
    """Write what a person may change of a profile."""
    tx.run(
        _SET_PROFILE,
        id=profile.id,
        argv=profile.argv,
        env=profile.env,
        provider_account=profile.provider_account,
        max_run_s=profile.max_run_s,
        idle_output_s=profile.idle_output_s,
        now=tx.now,
    )


_DELETE_PROFILE = Statement("DELETE FROM profiles WHERE id = :id")
_USERS_OF_PROFILE = Statement(
    "SELECT (SELECT count(*) FROM agents WHERE profile_id = :id)"
    " + (SELECT count(*) FROM workspaces WHERE default_profile_id = :id)"
    " + (SELECT count(*) FROM runs WHERE profile_id = :id)"
)


def delete_profile(tx: Tx, profile_id: str) -> bool:
    """Delete a profile that nothing refers to; False when something does."""
    if tx.value(_USERS_OF_PROFILE, id=profile_id):
        return False
    return bool(tx.run(_DELETE_PROFILE, id=profile_id))
