"""Names and ids for shell completion, read from the database. Never an error, never a new file."""

from __future__ import annotations

import os
import shlex

from kandev_sched.domain.errors import SchedError
from kandev_sched.interfaces.cli.invocation import Invocation
from kandev_sched.interfaces.cli.options import hoist

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from kandev_sched.store.db import Reader

    Names = Callable[[Reader, str], list[tuple[str, str]]]


def _matching(incomplete: str, names: Names) -> list[tuple[str, str]]:
    try:
        here = _invocation()
        found = here.read(lambda reader: names(reader, here.workspace))
    except Exception:  # noqa: BLE001 - a half-typed line is no place for errors
        return []
    return [(name, about) for name, about in found if name.startswith(incomplete)]


def _invocation() -> Invocation:
    """The options that were typed so far, which say what database is meant."""
    typed = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    try:
        words = shlex.split(typed)
        options, _ = hoist(words)
    except (ValueError, SchedError):
        options, _ = hoist([])
    return Invocation(options)


def agents(incomplete: str) -> list[tuple[str, str]]:
    """Names of agents."""
    from kandev_sched.operations.listing import list_agents

    return _matching(
        incomplete,
        lambda reader, workspace: [(a.name, a.role) for a in list_agents(reader, workspace=workspace)],
    )


def routines(incomplete: str) -> list[tuple[str, str]]:
    """Names of routines."""
    from kandev_sched.operations.listing import list_routines

    return _matching(
        incomplete,
        lambda reader, workspace: [
            (r.name, r.description) for r in list_routines(reader, workspace=workspace)
        ],
    )


def profiles(incomplete: str) -> list[tuple[str, str]]:
    """Names of profiles."""
    from kandev_sched.operations.listing import list_profiles

    return _matching(
        incomplete,
        lambda reader, workspace: [(p.name, p.argv[0]) for p in list_profiles(reader, workspace=workspace)],
    )


def executors(incomplete: str) -> list[tuple[str, str]]:
    """Names of executors."""
    from kandev_sched.operations.workspaces import list_executors

    return _matching(
        incomplete,
        lambda reader, workspace: [(e.name, e.kind) for e in list_executors(reader, workspace=workspace)],
    )


def projects(incomplete: str) -> list[tuple[str, str]]:
    """Names of projects."""
    from kandev_sched.operations.workspaces import list_projects

    return _matching(
        incomplete,
        lambda reader, workspace: [(p.name, "") for p in list_projects(reader, workspace=workspace)],
    )


def workspaces(incomplete: str) -> list[tuple[str, str]]:
    """Names of workspaces."""
    from kandev_sched.operations.workspaces import list_workspaces

    return _matching(incomplete, lambda reader, _: [(w.name, w.time_zone) for w in list_workspaces(reader)])


def tasks(incomplete: str) -> list[tuple[str, str]]:
    """Ids of tasks."""
    from kandev_sched.operations.tasks import list_tasks

    return _matching(
        incomplete,
        lambda reader, workspace: [(t.id, t.title) for t in list_tasks(reader, workspace=workspace)],
    )


def triggers(incomplete: str) -> list[tuple[str, str]]:
    """Ids of triggers."""
    from kandev_sched.operations.listing import list_triggers

    return _matching(
        incomplete,
        lambda reader, workspace: [
            (t.id, t.expression or t.kind) for t in list_triggers(reader, workspace=workspace)
        ],
    )


def runs(incomplete: str) -> list[tuple[str, str]]:
    """Ids of the newest runs."""
    from kandev_sched.operations.listing import newest_runs

    return _matching(
        incomplete,
        lambda reader, workspace: [(r.id, r.status) for r in newest_runs(reader, workspace=workspace)],
    )


def zones(incomplete: str) -> list[str]:
    """Names of time zones."""
    from kandev_sched.policy.zones import names

    return sorted(name for name in names() if name.startswith(incomplete))


def calendars(incomplete: str) -> list[tuple[str, str]]:
    """Names of calendars."""
    from kandev_sched.operations.calendars import list_calendars

    return _matching(
        incomplete,
        lambda reader, workspace: [(c.name, c.zone) for c in list_calendars(reader, workspace=workspace)],
    )
