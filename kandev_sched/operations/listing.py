"""The lists of the nouns."""

from __future__ import annotations

from kandev_sched.operations import lookup
from kandev_sched.store import agents, routines, runs, triggers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.domain.agents import Agent, Profile
    from kandev_sched.domain.routines import Routine
    from kandev_sched.domain.runs import Run
    from kandev_sched.domain.schedules import Trigger
    from kandev_sched.store.db import Reader

NEWEST = 100


def list_agents(reader: Reader, *, workspace: str) -> list[Agent]:
    """The living agents of a workspace, by name."""
    return agents.of_workspace(reader, lookup.the_workspace(reader, workspace).id)


def list_profiles(reader: Reader, *, workspace: str) -> list[Profile]:
    """The profiles of a workspace, by name."""
    return agents.profiles(reader, lookup.the_workspace(reader, workspace).id)


def list_routines(reader: Reader, *, workspace: str) -> list[Routine]:
    """The living routines of a workspace, by name."""
    return routines.of_workspace(reader, lookup.the_workspace(reader, workspace).id)


def list_triggers(reader: Reader, *, workspace: str, routine: str | None = None) -> list[Trigger]:
    """The triggers of a workspace, or of one routine, oldest first."""
    place = lookup.the_workspace(reader, workspace)
    if routine is None:
        return triggers.of_workspace(reader, place.id)
    return triggers.of_routine(reader, lookup.the_routine(reader, place, routine).id)


def newest_runs(reader: Reader, *, workspace: str) -> list[Run]:
    """The newest runs of a workspace, newest first."""
    place = lookup.the_workspace(reader, workspace)
    return runs.recent(reader, workspace_id=place.id, limit=NEWEST)
