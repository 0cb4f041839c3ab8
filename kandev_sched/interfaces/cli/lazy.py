"""LazyGroup: a command is imported when it is called; `--help` needs only its line of the table."""

from __future__ import annotations

from importlib import import_module

import typer
from typer.core import TyperCommand, TyperGroup

from kandev_sched.domain.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Lazy(Record):
    """Where a command is (a module of this package), and what it is for."""

    module: str
    help: str
    panel: str


class LazyGroup(TyperGroup):
    """A group whose commands stand in `table`, a mapping of name → Lazy."""

    table: dict[str, Lazy] = {}  # noqa: RUF012 - replaced by each subclass, never changed

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - typer gives it
        """In the order of the table."""
        return list(self.table)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - typer gives it
        """For help and completion: the name and the help, nothing imported."""
        found = self.table.get(cmd_name)
        if found is None:
            return None
        return TyperCommand(cmd_name, help=found.help)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - typer gives it
        """A section a panel."""
        for panel in dict.fromkeys(lazy.panel for lazy in self.table.values()):
            with formatter.section(panel):
                formatter.write_dl(
                    [(name, lazy.help) for name, lazy in self.table.items() if lazy.panel == panel]
                )

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """For carrying out: the command itself."""
        name, stub, rest = super().resolve_command(ctx, args)
        if stub is None or name is None:
            return name, stub, rest
        app = import_module(f"kandev_sched.interfaces.cli.{self.table[name].module}").app
        command = typer.main.get_command(app)
        command.name = name
        return name, command, rest
