"""A real supervisor for the crash tests: `python serve.py DB [--until-idle]`, told by its environment.

CRASH_SETTINGS  JSON of `Settings`
CRASH_AT        where it kills itself with SIGKILL: `in <step>` (the step is done, its transaction is not
                committed), `after <step>` (the transaction that holds it is committed), `before submit`
CRASH_BACKOFF_MS  the first backoff step, so that a lost attempt does not cost two minutes

The product is not touched: the cuts wrap its trace, its writes and its executor from here.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any

from kandev_sched.domain.agents import ExecutorKind
from kandev_sched.domain.errors import SchedError
from kandev_sched.domain.host import MachineHost
from kandev_sched.domain.settings import OnStop, Settings
from kandev_sched.flow import settle, trace
from kandev_sched.launch.local import LocalExecutor
from kandev_sched.policy import retry
from kandev_sched.store.shared import SharedDatabase, open_shared
from kandev_sched.supervisor.supervisor import Supervisor


def die() -> None:
    """As a power cut of one process."""
    os.kill(os.getpid(), signal.SIGKILL)


def cut_in(step: str) -> None:
    """Die when the step has done its work, before anything of it is committed."""
    leave = trace._Line.__exit__

    def leave_and_die(line: Any, *error: Any) -> None:
        leave(line, *error)
        if line.name == step:
            die()

    trace._Line.__exit__ = leave_and_die  # type: ignore[method-assign, assignment]


def cut_after(step: str) -> None:
    """Die when the transaction with the step's line has been committed."""
    seen: list[str] = []
    write_lines, write = trace.Trace.write, SharedDatabase.write

    def noted(self: Any, tx: Any, run: Any) -> None:
        seen.extend(str(line.name) for line in self._lines[self._durable_count :])
        write_lines(self, tx, run)

    def committed(self: Any, work: Any) -> Any:
        result = write(self, work)
        if step in seen:
            die()
        return result

    trace.Trace.write = noted  # type: ignore[method-assign]
    SharedDatabase.write = committed  # type: ignore[method-assign]


def cut_before_submit() -> None:
    """Die when everything is prepared and nothing is started."""
    LocalExecutor.submit = lambda *_: die()  # type: ignore[method-assign, assignment]


def arm(cut: str) -> None:
    """Install the cut."""
    where, _, step = cut.partition(" ")
    match where:
        case "in":
            cut_in(step)
        case "after":
            cut_after(step)
        case "before":
            cut_before_submit()


def settings_of(environ: Any) -> Settings:
    """Small numbers, so that nothing waits."""
    given = {"coalesce_window_s": 0, "drain_s": 1, "grace_s": 1, "max_sessions": 4}
    given |= json.loads(environ.get("CRASH_SETTINGS", "{}"))
    if "on_stop" in given:
        given["on_stop"] = OnStop(given["on_stop"])
    return Settings(**given)


def main() -> int:
    path = os.path.realpath(sys.argv[1])
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    if "CRASH_BACKOFF_MS" in os.environ:
        steps = (int(os.environ["CRASH_BACKOFF_MS"]),) * 4
        retry.BACKOFF_MS = settle.BACKOFF_MS = steps
    arm(os.environ.get("CRASH_AT", ""))
    host = MachineHost()
    try:
        supervisor = Supervisor(
            open_db=lambda on_work: open_shared(path, host=host, create=True, on_work=on_work),
            executors={ExecutorKind.LOCAL: LocalExecutor(Path(f"{path}.runs"))},
            settings=settings_of(os.environ),
            host=host,
        )
    except SchedError as error:
        print(error.message, file=sys.stderr)
        return 4
    return supervisor.run(until_idle="--until-idle" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
