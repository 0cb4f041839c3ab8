"""Fixtures: a user with nothing, and a user with an agent and a routine."""

from __future__ import annotations

from pathlib import Path

import pytest

from .support import Sched, with_agent


@pytest.fixture
def sched(tmp_path: Path) -> Sched:
    """A user who has nothing yet."""
    return Sched(tmp_path)


@pytest.fixture
def ready(sched: Sched) -> Sched:
    """A user with the agent `coder` and the routine `review`."""
    return with_agent(sched)
