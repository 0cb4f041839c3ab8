"""How fast the next slot is found, beside croniter and APScheduler on the same vectors, and who is right.

Rates are of CPU time, the best of several passes. A vector asks for one slot after an instant in a zone; the
answers are judged by up to five slots in a row. Neither library is given what it cannot do (Quartz).
APScheduler is no dependency: `pip install --target DIR apscheduler`, then run with PYTHONPATH=DIR.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from zoneinfo import ZoneInfo

ROOT = Path(__file__).resolve().parents[3]
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "scripts" / "bench"), str(ROOT)]

from harness import Bench  # noqa: E402

from kandev_sched.policy import cron, quartz, zones  # noqa: E402
from kandev_sched.policy.tzfile import Offsets  # noqa: E402

NEW_YORK = "America/New_York"
CRON_TARGET, QUARTZ_TARGET, GAP_TARGET = 10_000, 5_000, 2.0
EXPRESSIONS = [
    "* * * * *",
    "*/5 * * * *",
    "0 9 * * 1-5",
    "30 2 * * *",
    "0 0 13 * 5",
    "0 0 1 * *",
    "15 10 1,15 */3 *",
    "0 0 29 2 *",
]
TEN_YEARS = timedelta(days=3653)
FIRE_LIMIT = 26  # what catch-up asks for by default, and one more
Row = dict[str, object]
Vector = tuple[str, str, datetime, list[datetime]]


def run(bench: Bench) -> None:
    """The topic of the suite."""
    for row in measure(passes=bench.pick(7, 2)):
        case, value, unit = str(row.pop("case")), float(str(row.pop("value"))), str(row.pop("unit"))
        met, target = row.pop("met"), str(row.pop("target"))
        verdict = None if met is None else (lambda _, is_met=bool(met): is_met)
        bench.row(case, [value], unit, target=target, met=verdict, **row)


def measure(passes: int = 7) -> list[Row]:
    """Every measurement as a row: case, value, unit, target, met, and what else there is to say."""
    crons, quartzes = vectors("cron_vectors"), vectors("quartz_vectors")
    return [
        *_next_after(crons, quartzes, passes),
        *_libraries(crons, passes),
        *_gaps(passes),
        _first_scan(passes),
    ]


def vectors(name: str) -> list[Vector]:
    """Expression, zone, instant, expected slots."""
    rows = json.loads((ROOT / "tests" / "data" / f"{name}.json").read_text("utf-8"))["vectors"]
    return [
        (row["expr"], row["tz"], _utc(row["after"]), [_utc(slot) for slot in row["expected"]]) for row in rows
    ]


def _utc(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _next_after(crons: list[Vector], quartzes: list[Vector], passes: int) -> Iterable[Row]:
    """Ours: parsing cached; croniter's days remembered from the pass before, and not."""
    target = f">= {CRON_TARGET:,}"
    for case, todo, module, least in (
        ("cron vectors", crons, cron, CRON_TARGET),
        ("quartz vectors", quartzes, quartz, QUARTZ_TARGET),
    ):
        value = rate(partial(_ask_all, module.parse, todo), len(todo), passes)
        yield _row(
            f"next_after, {case}",
            value,
            "1/s",
            f">= {least:,}",
            value >= least,
            wrong=_wrong(todo, _ours(module)),
        )
    value = rate(partial(_ask_all, cron.parse, crons), len(crons), passes, cron._first_day.cache_clear)
    yield _row("next_after, cron vectors, no day remembered", value, "1/s", target, value >= CRON_TARGET)
    asked = _random_instants(2_000)
    for text in EXPRESSIONS:
        todo = [(text, NEW_YORK, at, list[datetime]()) for at in asked]
        value = rate(partial(_ask_all, cron.parse, todo), len(todo), passes)
        yield _row(f"next_after, {text}, random instants", value, "1/s", target, value >= CRON_TARGET)


def _libraries(crons: list[Vector], passes: int) -> Iterable[Row]:
    """The others, on the cron vectors."""
    value = rate(lambda: [next(_croniter(*vector[:3])) for vector in crons], len(crons), passes)
    yield _row("croniter on aware datetimes, cron vectors", value, "1/s", wrong=_wrong(crons, _croniter))
    try:
        import apscheduler
    except ImportError:
        yield _row("APScheduler is missing: pip install --target DIR apscheduler; PYTHONPATH=DIR", 0, "1/s")
        return
    taken = [vector for vector in crons if _is_taken(vector)]
    value = rate(lambda: [next(_apscheduler(*vector[:3])) for vector in taken], len(taken), passes)
    refused = len(crons) - len(taken)
    yield _row(
        f"APScheduler {apscheduler.version}, cron vectors",
        value,
        "1/s",
        wrong=_wrong(taken, _apscheduler),
        refused=refused,
    )


def _gaps(passes: int) -> Iterable[Row]:
    """What catch-up asks after an outage, of a day and of ten years."""
    schedule, until = cron.parse("* * * * *", NEW_YORK), _utc("2036-06-01T12:00Z")

    def outage(span: timedelta, limit: int) -> None:
        for _ in range(100):
            schedule.latest_slots(until - span, until, limit)
            schedule.count_between(until - span, until)

    for limit in (FIRE_LIMIT, 2):
        day = 1e6 / rate(partial(outage, timedelta(days=1), limit), 100, 3 * passes)
        years = 1e6 / rate(partial(outage, TEN_YEARS, limit), 100, 3 * passes)
        case = f"an outage of ten years of * * * * *, {limit} slots wanted"
        target, met = f"<= {GAP_TARGET:g} x a day's", years <= GAP_TARGET * day
        yield _row(case, years, "µs", target, met, a_day_us=round(day, 1), times=round(years / day, 2))


def _first_scan(passes: int) -> Row:
    data = (Path(zones._tzdata().__path__[0]) / "zoneinfo" / NEW_YORK).read_bytes()
    second = zones.second_of(_utc("2036-06-01T12:00Z"))
    return _row(
        "reading the changes of a zone",
        1e6 / rate(lambda: Offsets(data).through(second), 1, 10 * passes),
        "µs",
    )


def _row(
    case: str, value: float, unit: str, target: str = "", met: bool | None = None, **more: object
) -> Row:
    return {"case": case, "value": round(value, 1), "unit": unit, "target": target, "met": met, **more}


def rate(work: Callable[[], object], count: int, passes: int, before: Callable[[], object] = int) -> float:
    """Items a second of CPU time, in the best pass; the first one only fills caches."""
    best = 0.0
    work()
    for _ in range(passes):
        before()
        began = time.process_time_ns()
        work()
        best = max(best, count * 1e9 / max(time.process_time_ns() - began, 1))
    return best


def _ask_all(parse: Callable[[str, str], cron.Cron | quartz.Quartz], todo: list[Vector]) -> None:
    for text, zone, after, _ in todo:
        parse(text, zone).next_after(after)


def _random_instants(count: int) -> list[datetime]:
    pick = random.Random(1)
    return [_utc("2026-01-01T00:00Z") + pick.random() * TEN_YEARS for _ in range(count)]


Slots = Callable[[str, str, datetime], Iterable[datetime | None]]


def _wrong(todo: list[Vector], slots: Slots) -> int:
    """How many vectors are answered otherwise, or by an exception."""
    return sum(not _is_right(vector, slots) for vector in todo)


def _is_right(vector: Vector, slots: Slots) -> bool:
    text, zone, after, expected = vector
    try:
        return list(islice(slots(text, zone, after), len(expected))) == expected
    except (ValueError, KeyError, TypeError, OverflowError):
        return False


def _ours(module: object) -> Slots:
    return lambda text, zone, after: module.parse(text, zone).slots_between(after, zones.LAST, 5)  # type: ignore[attr-defined]


def _croniter(text: str, zone: str, after: datetime) -> Iterable[datetime]:
    from croniter import croniter

    walk = croniter(text, after.astimezone(ZoneInfo(zone)), ret_type=datetime)
    while True:
        yield walk.get_next().astimezone(UTC)


def _apscheduler(text: str, zone: str, after: datetime) -> Iterable[datetime | None]:
    from apscheduler.triggers.cron import CronTrigger

    trigger, slot = CronTrigger.from_crontab(text, timezone=ZoneInfo(zone)), after.astimezone(ZoneInfo(zone))
    previous = None
    while slot is not None:
        slot = trigger.get_next_fire_time(previous, slot + timedelta(microseconds=1))
        previous = slot
        yield slot and slot.astimezone(UTC)


def _is_taken(vector: Vector) -> bool:
    from apscheduler.triggers.cron import CronTrigger

    try:
        CronTrigger.from_crontab(vector[0])
    except ValueError:
        return False
    return True


if __name__ == "__main__":
    for found in measure():
        print(json.dumps(found, ensure_ascii=False))
