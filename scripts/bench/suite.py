"""The command line of the benchmarks, their order, and the table at the end."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from contextlib import ExitStack
from pathlib import Path

from harness import Bench, Row, machine

TOPICS = ("enqueue", "claim", "pipeline", "latency", "ticker", "due", "startup", "idle", "schedules")
DEFAULT_FOLDER = "/work/tmp-bench" if os.path.isdir("/work") else "/var/tmp/sched-bench"


def main(argv: list[str]) -> int:
    """Run what was asked for; status 1 when a target was missed."""
    parser = argparse.ArgumentParser(prog="scripts/bench/run", description=__doc__)
    parser.add_argument("--only", action="append", choices=TOPICS, help="one topic; may be repeated")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and smaller sizes")
    parser.add_argument("--out", type=Path, help="write the JSON lines to this file, not to stdout")
    parser.add_argument("--dir", type=Path, default=Path(DEFAULT_FOLDER), help="scratch space on a real disk")
    asked = parser.parse_args(argv)
    with ExitStack() as stack:
        out = stack.enter_context(asked.out.open("a")) if asked.out else sys.stdout
        bench = Bench(quick=asked.quick, out=out, folder=asked.dir)
        print(json.dumps({"machine": machine()}), file=out, flush=True)
        for topic in asked.only or TOPICS:
            run_topic(bench, topic)
    print_table(bench.rows)
    return 1 if any(row.met is False for row in bench.rows) else 0


def run_topic(bench: Bench, topic: str) -> None:
    """One module; the fsync of its disk is noted after it."""
    bench.name = topic
    print(f"… {topic} (load {os.getloadavg()[0]:.2f})", file=sys.stderr, flush=True)
    importlib.import_module(f"topics.{topic}").run(bench)
    bench.close_topic()


def print_table(rows: list[Row]) -> None:
    """Bench, case, median, p99, unit, target, verdict."""
    lines = [("BENCH", "CASE", "VALUE", "P99", "UNIT", "N", "TARGET", "MET")]
    verdicts = {True: "yes", False: "NO", None: ""}
    for row in rows:
        p99 = "" if row.p99 is None else f"{row.p99:,.3g}" if row.p99 < 1000 else f"{row.p99:,.0f}"
        value = f"{row.value:,.3g}" if row.value < 1000 else f"{row.value:,.0f}"
        lines.append((row.bench, row.case, value, p99, row.unit, str(row.n), row.target, verdicts[row.met]))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        cells = (
            cell.rjust(width) if column in (2, 3, 5) else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        print("  ".join(cells).rstrip())
