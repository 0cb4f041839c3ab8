"""Invocation: one command being carried out: its options, its config, its database, its output."""

from __future__ import annotations

import os

from kandev_sched.app import open_for_command
from kandev_sched.config import load
from kandev_sched.domain.host import MachineHost
from kandev_sched.interfaces.cli import reporting
from kandev_sched.store.db import gate_path, wake_path
from kandev_sched.store.wake import is_listened_to

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import TypeVar

    from kandev_sched.config import Config
    from kandev_sched.interfaces.cli.options import GlobalOptions
    from kandev_sched.interfaces.tables import Page
    from kandev_sched.launch.executor import ComputeExecutor
    from kandev_sched.operations.inspection import Circumstances
    from kandev_sched.store.db import Database, Reader, Tx
    from kandev_sched.store.gate import GateHolder

    Row = Mapping[str, object]
    T = TypeVar("T")


class Invocation:
    """What every command is given."""

    def __init__(self, options: GlobalOptions) -> None:
        self.options = options
        self._config: Config | None = None

    @property
    def config(self) -> Config:
        """Read when first needed, so that `--help` works beside a broken config."""
        if self._config is None:
            asked = self.options
            self._config = load(
                db=asked.db, config=asked.config, workspace=asked.workspace, environ=os.environ
            )
        return self._config

    @property
    def workspace(self) -> str:
        """The name of the workspace that the command is about."""
        return self.config.workspace

    @property
    def is_json(self) -> bool:
        """Whether stdout is one JSON document."""
        return self.options.is_json

    # ---- the database -----------------------------------------------------------------------------------

    def open(self, *, create: bool = False) -> Database:
        """The database; who calls this closes it."""
        return open_for_command(self.config, create=create)

    def read(self, work: Callable[[Reader], T]) -> T:
        """Ask. Raises NotFound when there is no database."""
        db = self.open()
        try:
            return db.read(work)
        finally:
            db.close()

    def write(self, work: Callable[[Tx], T]) -> T:
        """Change, in one transaction; the database is made on first use."""
        db = self.open(create=True)
        try:
            return db.write(work)
        finally:
            db.close()

    def is_supervised(self) -> bool:
        """Whether a supervisor serves this database now."""
        return is_listened_to(wake_path(self.config.database))

    def gate_holder(self) -> GateHolder | None:
        """Who writes to this database now."""
        from kandev_sched.store.gate import gate_holder

        return gate_holder(gate_path(self.config.database))

    def run_files(self) -> ComputeExecutor:
        """Where the files of runs are."""
        from kandev_sched.app import local_executor

        return local_executor(self.config)

    def circumstances(self) -> Circumstances:
        """What the views of this moment depend on."""
        from kandev_sched.operations.inspection import Circumstances

        return Circumstances(
            settings=self.config.settings, is_supervised=self.is_supervised(), now=MachineHost().now()
        )

    # ---- the output -------------------------------------------------------------------------------------

    def tell(self, sentence: str, row: object) -> None:
        """The outcome of a change: a sentence for a person, the object for a program."""
        if self.is_json:
            self._print_json(row)
        elif not self.options.is_quiet:
            reporting.write_line(reporting.printable(sentence))

    def answer(self, text: str, row: object) -> None:
        """What was asked for, in a line: printed with --quiet too."""
        if self.is_json:
            self._print_json(row)
        else:
            reporting.write_line(reporting.printable(text))

    def say(self, line: str) -> None:
        """More about the outcome of a change; for a program it is a mere remark."""
        if self.is_json:
            self.note(line)
        elif not self.options.is_quiet:
            reporting.write_line(reporting.printable(line))

    def show(self, row: Row, **tables: Sequence[str]) -> None:
        """One thing, whole; `tables` are the columns of the lists in it."""
        if self.is_json:
            self._print_json(row)
        else:
            self.page().details(row, tables)

    def show_list(self, rows: Iterable[Row], columns: Sequence[str], *, empty: str) -> None:
        """Several things: a JSON array of whole objects, or a table of the columns that matter most."""
        listed = list(rows)
        if self.is_json:
            self._print_json(listed)
        elif listed:
            self.page().table(listed, columns)
        else:
            self.note(empty)

    def _print_json(self, value: object) -> None:
        from kandev_sched.interfaces.render import write_json

        write_json(value)

    def note(self, text: str) -> None:
        """A remark on stderr, unless --quiet."""
        if not self.options.is_quiet:
            reporting.note(text)

    def warn(self, text: str) -> None:
        """Something that will go wrong later; said with --quiet too."""
        reporting.note(f"warning: {text}")

    def page(self) -> Page:
        """Where text goes: a terminal or a pipe, in the time zone that was asked for."""
        from kandev_sched.interfaces.tables import Page

        return Page(zone=self.zone_shown(), is_plain=self.options.is_plain)

    def zone_shown(self) -> str | None:
        """The zone of printed times: asked for, else the workspace's own; None is the machine's."""
        if self.options.is_utc or self.options.show_tz:
            return "UTC" if self.options.is_utc else self.options.show_tz
        if not os.path.exists(self.config.database):
            return None
        from kandev_sched.operations.lookup import zone_shown

        return self.read(lambda reader: zone_shown(reader, self.workspace))
