"""A database that tests of one module only look at."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from world import World


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A fresh database, for questions that change nothing."""
    made = World(tmp_path_factory.mktemp("schema"))
    yield made
    made.close()
