"""Cron and Quartz against the oracle of the tests, in every IANA zone, around every change of its clocks.

Zones whose clocks show the same in these years are checked once for all of them; that the program knows their
changes is checked for each. With `--sample` only so many pairs of zone and expression are, drawn by `--seed`.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "unit"))

import oracle
import zone_check

from kandev_sched.policy import zones

Task = tuple[str, list[str]]

SHOWN = 20
PER_TASK = 40  # expressions at once, so that a zone is walked a few times only


def main() -> int:
    """Run what was asked for; status 1 when anything differs."""
    parser = argparse.ArgumentParser(prog="scripts/check-zones", description=__doc__)
    parser.add_argument("--all-names", action="store_true", help="do not leave out zones that are alike")
    parser.add_argument("--zone", action="append", help="only this zone; may be repeated")
    parser.add_argument("--sample", type=int, help="only so many pairs of zone and expression")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    began = time.monotonic()
    names = asked.zone or sorted(zones.names())
    wrong = [name for name in names if zone_check.known_changes(name) != transitions(name)]
    alike = {name: [name] for name in names} if asked.all_names else grouped(names)
    print(f"{len(names)} zones, {len(alike)} to check, {len(wrong)} with other changes: {wrong}", flush=True)
    failures = check(tasks_of(pairs(asked, alike), asked.seed), asked.jobs)
    print(f"{failures} failures in {time.monotonic() - began:.0f} s")
    return 1 if failures or wrong else 0


def transitions(name: str) -> list[int]:
    """As the oracle finds them."""
    return oracle.transitions(name, zone_check.SINCE, zone_check.UNTIL)


def grouped(names: list[str]) -> dict[str, list[str]]:
    """One zone for all that show the same in these years."""
    alike: dict[object, list[str]] = defaultdict(list)
    for name in names:
        clock, changes = oracle.clock_of(name), transitions(name)
        instants = [int(zone_check.SINCE.timestamp()), *changes]
        alike[tuple((at, oracle.offset(clock, at) or timedelta()) for at in instants)].append(name)
    return {group[0]: group for group in alike.values()}


def pairs(asked: argparse.Namespace, alike: dict[str, list[str]]) -> list[tuple[str, str]]:
    """Zone and expression, zone by zone."""
    found = list(product(alike, zone_check.expressions()))
    if asked.sample is None:
        return found
    return sorted(random.Random(asked.seed).sample(found, min(asked.sample, len(found))))


def tasks_of(todo: list[tuple[str, str]], seed: int) -> list[Task]:
    """A zone with some expressions each, in no order: a run that is stopped has seen some of everything."""
    texts: dict[str, list[str]] = defaultdict(list)
    for zone, text in todo:
        texts[zone].append(text)
    tasks = [
        (zone, some[at : at + PER_TASK])
        for zone, some in texts.items()
        for at in range(0, len(some), PER_TASK)
    ]
    random.Random(seed).shuffle(tasks)
    return tasks


def check(tasks: list[Task], jobs: int) -> int:
    """Check them, telling how far it is; how many answers differ."""
    total, done, cases, failures = sum(len(some) for _, some in tasks), 0, 0, 0
    with ProcessPoolExecutor(jobs) as pool:
        for (zone, some), differing in zip(tasks, pool.map(check_task, tasks), strict=True):
            done += len(some)
            cases += len(some) * len(zone_check.changes(zone)) * len(zone_check.POLICIES)
            for line in differing[: max(SHOWN - failures, 0)]:
                print(line)
            failures += len(differing)
            print(f"{done}/{total} pairs, {cases} cases, {failures} failures; {zone}", flush=True)
    return failures


def check_task(task: Task) -> list[str]:
    """The disagreements of one zone, for some expressions."""
    zone, texts = task
    found = [
        line for text in texts for line in zone_check.disagreements(text, zone, zone_check.changes(zone))
    ]
    zone_check.window.cache_clear()
    return found


if __name__ == "__main__":
    sys.exit(main())
