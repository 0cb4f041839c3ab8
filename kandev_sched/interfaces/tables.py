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
GAP = 3
# These may go over several lines on a terminal; everything else stands on one.
SENTENCES = frozenset({"waiting_for", "error", "last_error", "sentence", "title", "skipped_reason", "argv"})
SENTENCE_WIDTH = 20
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


class _Console(Console):
    """Leaves a closed pipe to `reporting.guarded`, which knows that it is no failure."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console_of(stream: TextIO | None, *, is_plain: bool) -> Console:
    """A console that prints what it is given: no markup in names, no guessed colours."""
    is_terminal = stream is not None and stream.isatty()
    return _Console(
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
        """Several things of one kind, one a line; `columns` in the order of their importance."""
        cells = {column: [self._short(column, row.get(column)) for row in rows] for column in columns}
        if self.console.is_terminal:
            cells = _that_fit(cells, self.console.width)
        table = Table(
            box=SIMPLE_HEAD if self.console.is_terminal else None, pad_edge=False, padding=(0, 2, 0, 0)
        )
        for column in cells:
            is_whole = column not in SENTENCES or not self.console.is_terminal
            table.add_column(heading(column), overflow="fold", no_wrap=is_whole)
        for line in zip(*cells.values(), strict=True):
            table.add_row(*line)
        self.console.print(table)

    def _short(self, column: str, value: object) -> Text:
        cell = self.cell(column, value)
        return Text(" ".join(cell.plain.split("\n")), style=cell.style)

    def details(self, row: Row, tables: Mapping[str, Sequence[str]]) -> None:
        """One thing, a line for each of its values; below it its lists, with the columns of each."""
        width = max(len(heading(key)) for key in row)
        for key, value in row.items():
            if key not in tables:
                self.line(f"{heading(key):{width}}  ", self.cell(key, value))
        for key, columns in tables.items():
            rows = row[key]
            assert isinstance(rows, list)
            self.line(f"\n{heading(key)}:" if rows else f"\n{heading(key)}: none")
            if rows:
                self.table(rows, columns)

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


def _that_fit(cells: dict[str, list[Text]], width: int) -> dict[str, list[Text]]:
    """For a terminal: without columns that say nothing, and without the least important that do not fit."""
    kept = {
        name: column for name, column in cells.items() if any(c.plain != NOTHING for c in column)
    } or cells
    while len(kept) > 2 and sum(_least_width(name, column) for name, column in kept.items()) > width:
        kept.popitem()
    return kept


def _least_width(name: str, column: list[Text]) -> int:
    longest = max(len(heading(name)), *(cell.cell_len for cell in column))
    return GAP + (min(longest, SENTENCE_WIDTH) if name in SENTENCES else longest)
