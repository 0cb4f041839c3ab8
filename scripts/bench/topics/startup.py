"""How long a command takes to start, do its work and end, beside a Python that does nothing."""

from __future__ import annotations

import compileall
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from harness import Bench

ROOT = Path(__file__).resolve().parents[3]
SCHED = Path(sys.prefix) / "bin" / "sched"
FIRE_EXTRA_MS = 30.0
HELP_MS = 200.0


def run(bench: Bench) -> None:
    """Interleaved rounds, the byte code compiled before, as an installation has it."""
    compileall.compile_dir(ROOT / "kandev_sched", quiet=2)
    with bench.scratch() as folder:
        environ = environment(folder)
        prepare(environ)
        commands: dict[str, list[str]] = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "sched fire": [str(SCHED), "fire", "daily"],
            "sched --help": [str(SCHED), "--help"],
            "sched inspect runs": [str(SCHED), "inspect", "runs"],
        }
        taken: dict[str, list[float]] = {case: [] for case in commands}
        cpu: dict[str, list[float]] = {case: [] for case in commands}
        for _ in range(bench.pick(40, 8)):
            bench.probe_fsync(folder, 5)
            for case, command in commands.items():
                began, used = time.perf_counter(), children_cpu_s()
                quietly(command, environ)
                taken[case].append((time.perf_counter() - began) * 1000)
                cpu[case].append((children_cpu_s() - used) * 1000)
    report(bench, taken, cpu)


def children_cpu_s() -> float:
    """What the commands so far have used of a core; other work on this machine disturbs it less."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def environment(folder: Path) -> dict[str, str]:
    """As a user's: byte code may be used and kept, and the database is in our folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SCHED_"))}
    return {**kept, "SCHED_DB": str(folder / "sched.db"), "XDG_CONFIG_HOME": str(folder), "NO_COLOR": "1"}


def quietly(command: list[str], environ: dict[str, str]) -> None:
    """Run it; it must succeed."""
    subprocess.run(command, env=environ, check=True, stdin=subprocess.DEVNULL, capture_output=True)


def prepare(environ: dict[str, str]) -> None:
    """An agent and a routine; each command once, so that all byte code is there."""
    for words in (
        ["agent", "add", "bot", "--command", "true"],
        ["routine", "add", "daily", "--agent", "bot"],
        ["fire", "daily"],
        ["--help"],
        ["inspect", "runs"],
    ):
        quietly([str(SCHED), *words], environ)


def report(bench: Bench, taken: dict[str, list[float]], cpu: dict[str, list[float]]) -> None:
    """Targets are held against the median of the same rounds."""
    bare = statistics.median(taken["python -c pass"])
    targets: dict[str, tuple[str, Callable[[float], bool]]] = {
        "sched fire": (f"<= python + {FIRE_EXTRA_MS:g} ms", lambda ms: ms <= bare + FIRE_EXTRA_MS),
        "sched --help": (f"< {HELP_MS:g} ms", lambda ms: ms < HELP_MS),
    }
    for case, samples in taken.items():
        target, met = targets.get(case, ("", None))
        extra = round(statistics.median(samples) - bare, 2)
        bench.row(
            case,
            samples,
            "ms",
            target=target,
            met=met,
            over_python_ms=extra,
            best_ms=round(min(samples), 2),
            cpu_ms=round(statistics.median(cpu[case]), 2),
            best_cpu_ms=round(min(cpu[case]), 2),
        )
