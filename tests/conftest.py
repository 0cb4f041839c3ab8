"""A world for each test; nothing of it is left behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A machine with an empty database; when the test is done the file must be sound."""
    made = World(tmp_path)
    yield made
    made.open()
    verdict = made.ask("PRAGMA integrity_check"), made.ask("PRAGMA foreign_key_check")
    made.close()
    assert verdict == ([("ok",)], [])


@pytest.fixture
def shared_world(tmp_path: Path) -> Iterator[World]:
    """As `world`, its database opened as the supervisor opens it; no thread may be left."""
    before = set(threading.enumerate())
    made = World(tmp_path, is_shared=True)
    yield made
    made.close()
    assert set(threading.enumerate()) <= before
