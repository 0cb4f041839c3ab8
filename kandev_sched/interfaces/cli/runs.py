"""`sched run …`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from kandev_sched.domain.runs import RunStatus
from kandev_sched.interfaces import render
from kandev_sched.interfaces.cli import common, inspect
from kandev_sched.interfaces.cli.common import invocation, plain_row
from kandev_sched.operations import inspection, lookup
from kandev_sched.operations.runs import cancel_run, explain_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.operations.inspection import RunView
    from kandev_sched.store.db import Tx

app = typer.Typer(help="What happened, and what is waiting.", rich_markup_mode=None, add_completion=False)
app.command("list")(inspect.runs)


@app.command("show")
def show(context: typer.Context, run: common.RunId) -> None:
    """Show one run; `sched inspect run` shows it whole."""
    here = invocation(context)
    at = here.circumstances()
    found = here.read(lambda reader: inspection.run_view(reader, lookup.the_run(reader, run), at))
    here.show(plain_row(found))


@app.command("explain")
def explain(context: typer.Context, run: common.RunId) -> None:
    """Say in one sentence what a run waits for, or what became of it."""
    here = invocation(context)
    at = here.circumstances()
    found = here.read(
        lambda reader: explain_run(
            reader,
            lookup.the_run(reader, run),
            settings=at.settings,
            is_supervised=at.is_supervised,
            now=at.now,
        )
    )
    row = {
        "id": found.run.id,
        "status": found.run.status,
        "sentence": found.sentence,
        "until_at": found.until,
        "is_held_by_person": found.is_held_by_person,
    }
    here.answer(f"{found.run.id}: {found.sentence}", row)


@app.command("cancel")
def cancel(
    context: typer.Context,
    run: common.RunId,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Kept with the run.")
    ] = "cancelled by user",
) -> None:
    """Cancel a run: a queued one at once, a live one when its agent has been ended."""
    here = invocation(context)
    at = here.circumstances()

    def work(tx: Tx) -> RunView:
        return inspection.run_view(tx, cancel_run(tx, lookup.the_run(tx, run), reason=reason), at)

    found = here.write(work)
    what = "cancelled" if found.status is RunStatus.CANCELLED else "being ended"
    here.tell(f"Run {found.id} is {what}", plain_row(found))


@app.command("logs")
def logs(
    context: typer.Context,
    run: common.RunId,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until the run has ended.")] = False,
    stderr: Annotated[bool, typer.Option("--stderr", help="What the agent wrote on stderr.")] = False,
) -> None:
    """Print what the agent wrote, of the last attempt."""
    from kandev_sched.interfaces.cli.following import output_of
    from kandev_sched.launch.executor import Stream

    here = invocation(context)
    stream = Stream.STDERR if stderr else Stream.STDOUT
    found = here.read(lambda reader: lookup.the_run(reader, run))
    chunks = output_of(here, found, stream, follow=follow)
    if here.is_json:
        text = b"".join(chunks).decode("utf-8", "replace")
        render.write_json({"run_id": found.id, "stream": stream, "text": text})
        return
    for chunk in chunks:
        _print_raw(chunk)


def _print_raw(chunk: bytes) -> None:
    """As the agent wrote it: whoever asks for a log wants its bytes."""
    if sys.stdout is not None:
        sys.stdout.buffer.write(chunk)
        sys.stdout.flush()
