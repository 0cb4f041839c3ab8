"""A world for each test, and the rule that no test leaves anything running."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kandev_sched.launch import rundir, strays

from .support import World, wait_until


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "runs")
    yield world
    for ref in world.executor.list():
        world.executor.cancel(ref)
        run_dir = rundir.RunDir(f"{world.root}/{ref.run_id}/{ref.attempt}")
        wait_until(lambda held=run_dir: held.lock_state() != rundir.HELD)
        world.executor.poll(ref)
        if strays.find(ref.run_id, ref.attempt):
            strays.end(ref.run_id, ref.attempt)
