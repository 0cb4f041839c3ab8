"""The list of rules that must each have a scenario, and the proof that each has one.

A scenario names its rules at the beginning of its docstring; a rule whose last scenario is deleted or renamed
makes this fail. Rules of later stages are added with their stage.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
FOLDERS = ("scenarios", "supervisor", "store")

INVARIANTS = ("I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I9", "I10", "I11", "I13")
RULES = (
    # S0
    "S0 Wakeup queue",
    "S0 Coalescing layer 1",
    "S0 Coalescing layer 2 (queued)",
    "S0 Coalescing layer 2 (claimed)",
    "S0 Coalescing layer 2 (claimed, no promotion needed)",
    "S0 Coalescing layer 3",
    "S0 Coalescing example",
    "S0 Coalescing window",
    "S0 Routines",
    "S0 Variables",
    "S0 Routine runs",
    "S0 Heavy vs lightweight",
    "S0 Concurrency policy skip_if_active",
    "S0 Concurrency policy coalesce_if_active",
    "S0 Concurrency policy always_enqueue",
    "S0 Catch-up policy enqueue_missed_with_cap",
    "S0 Catch-up policy skip_missed",
    "S0 Idle wakeup skip",
    "S0 Executor resolution",
    "S0 Staleness check",
    "S0 default backoff",
    "S0 pipeline: twelve steps",
    "pipeline step 6",
    "pipeline step 7",
    "pipeline step 8",
    "pipeline step 9",
    "pipeline step 10",
    "pipeline step 12",
    "S0 Atomic task checkout",
    "S0 Agent concurrency",
    "S0 Claim query",
    "One-shot session model",
    # S1
    "S1 Reconstruction",
    "S1 fireOnce",
    # S3
    "S3 Scheduler lifecycle",
    "S3 Persistence guarantees",
    "S3 Failure modes",
    "S3 Scenario 1",
    "S3 Scenario 2",
    "S3 Scenario 3",
    "S3 Scenario 5",
    "S3 Scenario 6",
    "S3 Scenario 7",
    "S3 Scenario 8",
    # behaviour.md
    "behaviour §2 Scope",
    "behaviour §2 Merging loses nothing",
    "behaviour §2 Dispatch 2",
    "behaviour §2 Dispatch 3",
    "behaviour §2 Delivery",
    "behaviour §2 Periodic or event",
    "behaviour §2 Coalescing window",
    "behaviour §2 Claim",
    "behaviour §2 Un-claim",
    "behaviour §2 Stale wakeups",
    "behaviour §2 Idempotency keys",
    "behaviour §2 Reassignment and cancellation",
    "behaviour §2 Explain",
    "behaviour §3 Occurrence id",
    "behaviour §3 Editing",
    "behaviour §3 Catch-up",
    "behaviour §3 Concurrency",
    "behaviour §3 Templates",
    "behaviour §3 lightweight",
    "behaviour §3 heavy",
    "behaviour §6 Lost and found",
    "behaviour §7: lock → open and migrate → recover → loops",
    "behaviour §7: drain requeues leave `retry_count` unchanged",
    "behaviour §7: `--until-idle`",
    "behaviour §7: pending instants",
)
REFERENCE = re.compile(r"^(S[013]\b|behaviour §\d|I\d|architecture |The flow )")


def scenarios() -> dict[str, str]:
    """file::test → its docstring, on one line."""
    found = {}
    for folder in FOLDERS:
        for path in sorted((TESTS / folder).glob("test_*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                    docstring = ast.get_docstring(node) or ""
                    found[f"{folder}/{path.name}::{node.name}"] = " ".join(docstring.split())
    return found


SCENARIOS = scenarios()


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_has_its_scenario(rule: str) -> None:
    """architecture Tests: one test per GIVEN/WHEN/THEN and per rule of the seeds."""
    assert any(rule in quoted for quoted in SCENARIOS.values())


@pytest.mark.parametrize("invariant", INVARIANTS)
def test_every_invariant_has_its_scenario(invariant: str) -> None:
    """behaviour §1: the invariants of this stage (I12 needs what one workspace may ask of another)."""
    assert any(re.search(rf"\b{invariant}\b", quoted) for quoted in SCENARIOS.values())


def test_every_scenario_says_which_rule_it_proves() -> None:
    """architecture Tests: its docstring quoting the rule's reference."""
    silent = [name for name, quoted in SCENARIOS.items() if not REFERENCE.search(quoted)]
    assert [name for name in silent if name.startswith("scenarios/")] == []
