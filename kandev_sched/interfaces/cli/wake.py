"""`sched wake`."""

from __future__ import annotations

from typing import Annotated

import typer

from kandev_sched.interfaces.cli import asking, common, completion

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def wake(
    context: typer.Context,
    *,
    agent: common.AgentName,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="What the agent is told.")],
    task: Annotated[
        str | None,
        typer.Option("--task", metavar="TASK", help="About a task.", autocompletion=completion.tasks),
    ] = None,
    payload: Annotated[
        str | None, typer.Option("--payload", metavar="JSON", help="An object that the agent is given too.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="Asking again with the same key returns the first wakeup.")
    ] = None,
    as_self: Annotated[bool, typer.Option("--as-self", help="The agent asks for itself.")] = False,
) -> None:
    """Wake an agent for a reason."""
    words = asking.WakeWords(agent=agent, reason=reason, task=task, payload=payload, key=key, as_self=as_self)
    asking.wake(common.invocation(context), words)
