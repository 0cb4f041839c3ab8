"""The lists of the nouns."""

from __future__ import annotations

from kandev_sched.operations import lookup
from kandev_sched.operations.views import row_of
from kandev_sched.policy.arming_state import arming_state
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


def routine_rows(reader: Reader, *, workspace: str, now: int) -> list[dict[str, object]]:
    """As `list_routines`, each with whether it is armed, and its next and its last good fire."""
    return [_with_arming(reader, routine, now=now) for routine in list_routines(reader, workspace=workspace)]


def _with_arming(reader: Reader, routine: Routine, *, now: int) -> dict[str, object]:
    own = triggers.of_routine(reader, routine.id)
    fired = [trigger.last_fired_at for trigger in own if trigger.last_fired_at is not None]
    succeeded = [trigger.last_success_at for trigger in own if trigger.last_success_at is not None]
    return {
        **row_of(reader, routine),
        "arming": arming_state(routine, own, now=now),
        "next_run_at": min((t.next_run_at for t in own if t.next_run_at is not None), default=None),
        "last_fired_at": max(fired, default=None),
        "last_success_at": max(succeeded, default=None),
    }


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
