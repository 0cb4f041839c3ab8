"""`sched agent …`."""

from __future__ import annotations

from typing import Annotated

import typer

from kandev_sched.domain.agents import Agent, AgentRole
from kandev_sched.interfaces.cli import common, completion
from kandev_sched.interfaces.cli.asking import pairs
from kandev_sched.interfaces.cli.common import invocation
from kandev_sched.interfaces.cli.values import argv_of
from kandev_sched.interfaces.times import seconds_of, seconds_or_none
from kandev_sched.operations import agents, lookup
from kandev_sched.operations.agents import AddAgent, SetAgent
from kandev_sched.operations.listing import list_agents
from kandev_sched.operations.views import row_of, rows_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from kandev_sched.interfaces.cli.invocation import Invocation
    from kandev_sched.store.db import Reader, Tx

app = typer.Typer(help="Who is woken.", rich_markup_mode=None, add_completion=False)
COLUMNS = ("name", "status", "status_reason", "queued_count", "claimed_count", "role", "profile", "id")

Profile = Annotated[
    str | None, typer.Option("--profile", help="A shared profile.", autocompletion=completion.profiles)
]
Command = Annotated[
    str | None, typer.Option("--command", metavar="'ARGV…'", help="What is started, quoted as in a shell.")
]
Executor = Annotated[
    str | None, typer.Option("--executor", help="Where it runs.", autocompletion=completion.executors)
]
Cwd = Annotated[str | None, typer.Option("--cwd", metavar="DIR", help="Where it works; default: here.")]
Timeout = Annotated[
    str | None, typer.Option("--timeout", metavar="1h", help="The longest that a run may take.")
]
SkipIdle = Annotated[
    bool | None,
    typer.Option("--skip-idle/--no-skip-idle", help="Skip periodic wakeups while it has no task to do."),
]


@app.command("add")
def add(
    context: typer.Context,
    *,
    name: common.NewName,
    role: Annotated[AgentRole, typer.Option("--role")] = AgentRole.WORKER,
    profile: Profile = None,
    command: Command = None,
    executor: Executor = None,
    max_sessions: Annotated[int, typer.Option("--max-sessions", metavar="N", help="Runs at a time.")] = 1,
    cooldown: Annotated[
        str, typer.Option("--cooldown", metavar="10s", help="Pause between two runs.")
    ] = "10s",
    skip_idle: SkipIdle = None,
    cwd: Cwd = None,
    env: common.Environment = None,
    timeout: Timeout = None,
) -> None:
    """Add an agent."""
    here, argv = invocation(context), argv_of(command)
    asked = AddAgent(
        workspace=here.workspace,
        name=name,
        role=role,
        profile=profile,
        argv=argv,
        executor=executor,
        cwd=cwd or common.present_directory(),
        env=pairs(tuple(env or ()), option="--env"),
        max_sessions=max_sessions,
        cooldown_s=seconds_of(cooldown, option="--cooldown"),
        skip_idle=skip_idle,
        max_run_s=seconds_or_none(timeout, option="--timeout"),
    )
    agent = _changed(here, "added", lambda tx: agents.add_agent(tx, asked))
    if cwd is None:
        here.note(f"{name} works in {agent.cwd}, the present directory; --cwd names another")
    common.warn_if_missing(here, argv, env=agent.env, cwd=agent.cwd)


def _changed(here: Invocation, what: str, change: Callable[[Tx], Agent]) -> Agent:
    def work(tx: Tx) -> tuple[Agent, dict[str, object]]:
        agent = change(tx)
        return agent, row_of(tx, agent)

    agent, row = here.write(work)
    here.tell(f"Agent {agent.name} ({agent.id}) is {what}", row)
    return agent


@app.command("list")
def list_(context: typer.Context) -> None:
    """List the agents."""
    here = invocation(context)
    rows = here.read(lambda reader: rows_of(reader, list_agents(reader, workspace=here.workspace)))
    here.show_list(rows, COLUMNS, empty="there are no agents yet; `sched agent add` makes one")


@app.command("show")
def show(context: typer.Context, agent: common.AgentName) -> None:
    """Show one agent."""
    here = invocation(context)
    here.show(here.read(lambda reader: row_of(reader, _named(reader, here, agent))))


def _named(reader: Reader, here: Invocation, agent: str) -> Agent:
    return lookup.the_agent(reader, lookup.the_workspace(reader, here.workspace), agent)


@app.command("set")
def set_(
    context: typer.Context,
    *,
    agent: common.AgentName,
    role: Annotated[AgentRole | None, typer.Option("--role")] = None,
    profile: Profile = None,
    command: Command = None,
    executor: Executor = None,
    max_sessions: Annotated[
        int | None, typer.Option("--max-sessions", metavar="N", help="Runs at a time.")
    ] = None,
    cooldown: Annotated[
        str | None, typer.Option("--cooldown", metavar="10s", help="Pause between runs.")
    ] = None,
    skip_idle: SkipIdle = None,
    cwd: Annotated[str | None, typer.Option("--cwd", metavar="DIR", help="Where it works.")] = None,
    env: common.Environment = None,
    timeout: Timeout = None,
) -> None:
    """Change what is given, leave the rest; --env replaces all variables."""
    here, argv = invocation(context), argv_of(command)
    asked = SetAgent(
        workspace=here.workspace,
        agent=agent,
        role=role,
        profile=profile,
        argv=argv,
        executor=executor,
        cwd=cwd,
        env=pairs(tuple(env), option="--env") if env else None,
        max_sessions=max_sessions,
        cooldown_s=seconds_or_none(cooldown, option="--cooldown"),
        skip_idle=skip_idle,
        max_run_s=seconds_or_none(timeout, option="--timeout"),
    )
    changed = _changed(here, "changed", lambda tx: agents.set_agent(tx, asked))
    common.warn_if_missing(here, argv, env=changed.env, cwd=changed.cwd)


Reason = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Shown where its runs wait.")]


@app.command("pause")
def pause(context: typer.Context, agent: common.AgentName, reason: Reason = None) -> None:
    """Start nothing more; keep the queue. A live run goes on."""
    here = invocation(context)
    _changed(here, "paused", lambda tx: agents.pause_agent(tx, _named(tx, here, agent), reason=reason))


@app.command("stop")
def stop(context: typer.Context, agent: common.AgentName, reason: Reason = None) -> None:
    """As pause, and end the live runs, which go back to the queue."""
    here = invocation(context)
    _changed(here, "stopped", lambda tx: agents.stop_agent(tx, _named(tx, here, agent), reason=reason))


@app.command("resume")
def resume(context: typer.Context, agent: common.AgentName) -> None:
    """Let the kept queue run."""
    here = invocation(context)
    _changed(here, "resumed", lambda tx: agents.resume_agent(tx, _named(tx, here, agent)))


@app.command("archive")
def archive(
    context: typer.Context, agent: common.AgentName, dry_run: common.DryRun = False, yes: common.Yes = False
) -> None:
    """Put an agent away for good: its queued requests are cancelled, its live runs ended."""
    here = invocation(context)
    found = here.read(lambda reader: _named(reader, here, agent))
    runs = f"{found.queued_count} queued and {found.claimed_count} live runs"
    if dry_run:
        row = here.read(lambda reader: row_of(reader, found))
        here.tell(f"Agent {found.name} would be archived, and {runs} cancelled", {**row, "dry_run": True})
        return
    common.confirm(f"Archive agent {found.name} and cancel its {runs}?", is_sure=yes)
    _changed(here, "archived", lambda tx: agents.archive_agent(tx, _named(tx, here, found.id)))
