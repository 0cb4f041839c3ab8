"""Random histories keep every invariant. SCHED_LONG_MODEL=1: many more, and longer ones."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings
from machine import Machine

IS_LONG = bool(os.environ.get("SCHED_LONG_MODEL"))

QUICK = settings(
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    derandomize=False,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
LONG = settings(QUICK, max_examples=5_000, stateful_step_count=80)

TestRandomHistories = Machine.TestCase
TestRandomHistories.settings = LONG if IS_LONG else QUICK
if IS_LONG:
    import pytest

    TestRandomHistories.pytestmark = [pytest.mark.timeout(6 * 3600)]
