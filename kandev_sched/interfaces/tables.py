"""Pages of text: tables and details, through rich; on a terminal with colour, in a pipe without."""

from __future__ import annotations

import json
import os
import shlex
import sys

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kandev_sched.domain.plain import to_plain
from kandev_sched.interfaces.cli.reporting import printable
from kandev_sched.interfaces.render import is_instant
from kandev_sched.interfaces.times import wall_text, zone_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO

    Row = Mapping[str, object]

PIPE_WIDTH = 100_000  # whoever reads a pipe cuts lines himself; an id is never broken in two
NOTHING = "-"
_STATE_STYLES = {
    "finished": "green",
    "done": "green",
    "delivered": "green",
    "failed": "red",
    "claimed": "cyan",
    "working": "cyan",
    "paused": "yellow",
    "stopped": "yellow",
    "cancelled": "yellow",
}


def console_of(stream: TextIO | None, *, is_plain: bool) -> Console:
    """A console that prints what it is given: no markup in names, no guessed colours."""
    is_terminal = stream is not None and stream.isatty()
    return Console(
        file=stream if stream is not None else open(os.devnull, "w"),
        width=None if is_terminal else PIPE_WIDTH,
        no_color=is_plain or None,
        markup=False,
        emoji=False,
        highlight=False,
        soft_wrap=not is_terminal,
    )


class Page:
    """Prints on stdout; times stand in `zone` (None: the machine's)."""

    def __init__(self, *, zone: str | None, is_plain: bool) -> None:
        self.zone = zone_of(zone)
        self.console = console_of(sys.stdout, is_plain=is_plain)

    def table(self, rows: Sequence[Row], columns: Sequence[str]) -> None:
        """Several things of one kind, one a line."""
        table = Table(
            box=SIMPLE_HEAD if self.console.is_terminal else None, pad_edge=False, padding=(0, 2, 0, 0)
        )
        for column in columns:
            is_id = column == "id" or column.endswith("_id")
            table.add_column(heading(column), overflow="fold", no_wrap=is_id or not self.console.is_terminal)
        for row in rows:
            table.add_row(*(self.cell(column, row.get(column)) for column in columns))
        self.console.print(table)

    def details(self, row: Row) -> None:
        """One thing, a line for each of its values; lists of things as tables below."""
        width = max(len(heading(key)) for key in row)
        below = {key: value for key, value in row.items() if _is_rows(value)}
        for key, value in row.items():
            if key not in below:
                self.line(f"{heading(key):{width}}  ", self.cell(key, value))
        for key, rows in below.items():
            self.line(f"\n{heading(key)}:")
            assert isinstance(rows, list)
            self.table(rows, [column for column in rows[0] if any(row[column] is not None for row in rows)])

    def line(self, text: str, rest: Text | None = None) -> None:
        """One line, or a block, as it is."""
        shown = Text(printable(text))
        self.console.print(shown.append_text(rest) if rest is not None else shown)

    def cell(self, key: str, value: object) -> Text:
        """One value as people read it."""
        text = self._said(key, value)
        return Text(printable(text), style=_STATE_STYLES.get(text, "") if key in ("status", "state") else "")

    def _said(self, key: str, value: object) -> str:
        if value is None or value in ({}, ()):
            return NOTHING
        if is_instant(key, value):
            return self.time(int(str(value))) if value else NOTHING
        if isinstance(value, bool):
            return "yes" if value else "no"
        if key == "argv" and isinstance(value, tuple):
            return shlex.join(value)
        if isinstance(value, float):
            return f"{value:.1f}"
        return str(value) if isinstance(value, str | int) else json.dumps(to_plain(value), ensure_ascii=False)

    def time(self, at_ms: int) -> str:
        """An instant on the page's clock."""
        return wall_text(at_ms, self.zone)


def heading(column: str) -> str:
    """`requested_at` as `requested`."""
    return column.removesuffix("_at").replace("_", " ")


def _is_rows(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)
