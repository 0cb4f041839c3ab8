"""`sched status`."""

from __future__ import annotations

import typer

from kandev_sched.domain.instant import SECOND_MS
from kandev_sched.domain.record import as_dict
from kandev_sched.interfaces.cli.common import invocation, plain_row
from kandev_sched.interfaces.errors import EXIT_DONE, EXIT_FAILED
from kandev_sched.interfaces.times import span_text
from kandev_sched.operations.status import Status
from kandev_sched.operations.status import status as status_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.interfaces.tables import Page
    from kandev_sched.operations.inspection import Circumstances

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def status(context: typer.Context) -> int:
    """Show whether all is well: supervisor, queue, triggers. Exit 1 when something needs a person."""
    here = invocation(context)
    at, holder = here.circumstances(), here.gate_holder()
    found = here.read(lambda reader: status_of(reader, at, path=here.config.database, holder=holder))
    if here.is_json:
        here.show(as_dict(found))
    else:
        _print(here.page(), found, at)
    return EXIT_FAILED if found.problems else EXIT_DONE


def _print(page: Page, found: Status, at: Circumstances) -> None:
    page.line(f"Supervisor  {_supervisor_said(page, found)}")
    page.line(f"Runs        {found.claimed_count} running, {_queue_said(found)}")
    due = page.time(found.next_trigger_at) if found.next_trigger_at else "none is armed"
    page.line(f"Next fire   {due}")
    page.line(f"Database    {_megabytes(found.database_bytes)}, log {_megabytes(found.wal_bytes)}")
    if found.loops and found.supervisor.is_running:
        ticks = [f"{loop.name} {span_text((at.now - loop.last_tick_at) / SECOND_MS)}" for loop in found.loops]
        page.line(f"Loops       {', '.join(ticks)} ago")
    for problem in found.problems:
        page.line(f"! {problem}")
    if found.overdue_triggers:
        page.table(
            [plain_row(trigger) for trigger in found.overdue_triggers], ("id", "expression", "next_run_at")
        )
    if found.inbox:
        page.table([plain_row(item) for item in found.inbox], ("id", "kind", "title", "created_at"))
    if not found.problems:
        page.line("All is well.")


def _supervisor_said(page: Page, found: Status) -> str:
    who = found.supervisor
    if not who.is_running:
        return "not running"
    since = f" since {page.time(who.started_at)}" if who.started_at else ""
    return f"{who.phase}, pid {who.pid}{since}"


def _queue_said(found: Status) -> str:
    if not found.queued_count:
        return "none queued"
    return f"{found.queued_count} queued ({found.held_count} held, {found.waiting_count} waiting)"


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:.1f} MB"
