"""What the tests of the store share: every statement of the program, and how SQLite would run one."""

from __future__ import annotations

import importlib
import pkgutil
import re
from typing import Any

import kandev_sched.store
from kandev_sched.store.db import Database
from kandev_sched.store.sql import ALL_STATEMENTS, Sql

MODULES = tuple(
    importlib.import_module(f"kandev_sched.store.{found.name}")
    for found in pkgutil.iter_modules(kandev_sched.store.__path__)
)
STATEMENTS: tuple[Sql[Any], ...] = tuple(ALL_STATEMENTS)


def parameters(sql: Sql[Any]) -> set[str]:
    """The names that a statement must be given."""
    return set(re.findall(r"(?<![:\w]):([a-z_]+)", sql.text))


def named(sql: Sql[Any]) -> str:
    """The statement on one line, as the id of a test."""
    return re.sub(r"\s+", " ", sql.text).strip()[:70]


def plan(db: Database, sql: Sql[Any]) -> list[str]:
    """EXPLAIN QUERY PLAN, one line a step."""
    blank = dict.fromkeys(parameters(sql))
    rows = db._connection.execute(f"EXPLAIN QUERY PLAN {sql.text}", blank).fetchall()
    return [row[3] for row in rows]


def table_scans(steps: list[str]) -> list[str]:
    """The steps that walk a whole table, in any order or in that of an index."""
    return [step for step in steps if step.startswith("SCAN") and step != "SCAN CONSTANT ROW"]
