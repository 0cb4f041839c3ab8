"""`sched init`."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from kandev_sched.domain.errors import Unavailable
from kandev_sched.interfaces.cli.common import invocation
from kandev_sched.interfaces.cli.settings import wanted_path
from kandev_sched.operations.setup import demonstrate, first_workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.interfaces.cli.invocation import Invocation

app = typer.Typer(rich_markup_mode=None, add_completion=False)

TEMPLATE = """\
# The config of sched. Every line is a comment that shows a default; take its '# ' away to change it.
# `sched config check` says whether the file is right, `sched config show` what holds.
#
# database = "~/.local/state/kandev-sched/sched.db"
# workspace = "default"
#
# [dispatch]
# coalesce_window_s = 5        # a burst of events within so many seconds lands in one run; 0: off
#
# [supervisor]
# max_sessions = 8             # agents at work at the same time
# drain_s = 30                 # how long a stopping supervisor waits for them
# on_stop = "drain"            # or "detach": leave them running for the next supervisor
# safety_pass_s = 5            # how often it looks, whatever it was told
#
# [agents]                     # limits of agents and profiles that set none
# max_run_s = 3600
# grace_s = 10                 # between SIGTERM and SIGKILL
# output_cap_bytes = 10485760
"""


@app.command()
def init(
    context: typer.Context,
    demo: Annotated[
        bool, typer.Option("--demo", help="Add an agent and two routines that need nothing installed.")
    ] = False,
) -> None:
    """Create config, database and the default workspace; twice is harmless."""
    here = invocation(context)
    path = wanted_path(here)
    has_written = _write_template(path)
    here.write(demonstrate if demo else first_workspace)
    database = here.config.database
    here.tell(f"Database {database} is ready", {"config_path": path, "database": database, "demo": demo})
    here.say(f"Config {path} is {'written' if has_written else 'kept as it is'}")
    _say_what_next(here, is_demo=demo)


def _say_what_next(here: Invocation, *, is_demo: bool) -> None:
    here.say("Next:")
    if is_demo:
        here.say("  sched serve                     # in another terminal")
        here.say("  sched fire demo-by-hand --wait")
    else:
        here.say("  sched agent add NAME --command 'your-agent --its-options'")
        here.say("  sched routine add ROUTINE --agent NAME --cron '0 9 * * 1-5' --tz Europe/Berlin")
        here.say("  sched serve")
    here.say("  sched status")


def _write_template(path: str) -> bool:
    """False when there is a config already, which is never overwritten."""
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(path, "x", encoding="utf-8", opener=_private) as file:
            file.write(TEMPLATE)
    except FileExistsError:
        return False
    except OSError as error:
        raise Unavailable(
            f"the config {path} cannot be written: {error.strerror}",
            hint="choose another place with --config",
        ) from error
    return True


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
