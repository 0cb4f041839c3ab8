"""Composition: config → host → database → pipeline → loops."""

from __future__ import annotations

from kandev_sched.config import runs_path
from kandev_sched.domain.host import MachineHost
from kandev_sched.store.db import open_database

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.config import Config
    from kandev_sched.launch.local import LocalExecutor
    from kandev_sched.store.db import Database
    from kandev_sched.supervisor.supervisor import Supervisor


def open_for_command(config: Config, *, create: bool) -> Database:
    """The database of one command. Raises NotFound when it does not exist and `create` is False."""
    return open_database(config.database, host=MachineHost(), create=create)


def local_executor(config: Config) -> LocalExecutor:
    """This machine, with the files of the runs beside the database."""
    from pathlib import Path

    from kandev_sched.launch.local import LocalExecutor

    return LocalExecutor(Path(runs_path(config.database)))


def supervisor(config: Config) -> Supervisor:
    """The supervisor of `sched serve`; it holds the database from here on."""
    from kandev_sched.domain.agents import ExecutorKind
    from kandev_sched.store.shared import open_shared
    from kandev_sched.supervisor.supervisor import Supervisor

    host = MachineHost()
    return Supervisor(
        open_db=lambda on_work: open_shared(config.database, host=host, create=True, on_work=on_work),
        executors={ExecutorKind.LOCAL: local_executor(config)},
        settings=config.settings,
        host=host,
    )
