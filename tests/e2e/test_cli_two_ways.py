"""The short way of `fire` and `wake` and the long way through typer give the same answers."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from .support import Done, Sched, with_agent

CASES = [
    ["fire", "review"],
    ["fire", "review", "--var", "branch=topic"],
    ["fire", "review", "--var=branch=topic", "--key=k"],
    ["fire", "--key", "k", "review", "--json"],
    ["fire", "review", "--json"],
    ["--json", "fire", "review"],
    ["--quiet", "fire", "review"],
    ["fire", "review", "--workspace", "default"],
    ["fire", "review", "--workspace", "defualt"],
    ["fire", "reveiw"],
    ["fire", "reveiw", "--json"],
    ["fire", "paused"],
    ["fire", "review", "--var", "branch"],
    ["fire", "review", "--var", "nobody=1"],
    ["fire", "review", "--var", "branch=a", "--var", "branch=b"],
    ["fire", "review", "--var", "branch=\x1b[31m"],
    ["fire", "review", "--key", "k" * 300],
    ["fire", "review", "--db", "/dev/null/sched.db"],
    ["fire", "review", "--config", "/nowhere/config.toml"],
    ["fire", "review", "--show-tz", "Nowhere/Else"],
    ["fire"],
    ["fire", "review", "again"],
    ["fire", "review", "--var"],
    ["fire", "review", "--nonsense"],
    ["fire", "review", "--db"],
    ["fire", "--", "review"],
    ["fire", "--help"],
    ["wake", "coder", "--reason", "look"],
    ["wake", "coder", "--reason", "look", "--json"],
    ["wake", "coder", "--reason=look", "--payload", '{"a": [1, null]}', "--key", "k"],
    ["wake", "coder", "--reason", "look", "--as-self", "--json"],
    ["wake", "coder", "--reason", "-1"],
    ["wake", "coder", "--reason", "--"],
    ["wake", "coder", "--reason", " "],
    ["wake", "coder"],
    ["wake", "coder", "--json"],
    ["wake", "codre", "--reason", "look"],
    ["wake", "coder", "--reason", "look", "--payload", "[1]"],
    ["wake", "coder", "--reason", "look", "--payload", "{"],
    ["wake", "coder", "--reason", "look", "--payload", '{"a": NaN}'],
    ["wake", "coder", "--reason", "look", "--task", "task_0"],
]


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database from which each case starts."""
    sched = with_agent(Sched(tmp_path_factory.mktemp("example")), command="true")
    assert sched("routine", "add", "paused", "--agent", "coder", "--paused").status == 0
    return sched.db


def normal(done: Done, home: Path) -> Done:
    """Without what differs from run to run: ids, instants, the place."""
    texts = [
        re.sub(
            r"\d{4}-\d\d-\d\dT[0-9:.]+Z",
            "<instant>",
            re.sub(r"\b([a-z]{2,4})_[0-9a-z]{26}\b", r"<\1>", text).replace(str(home), "<home>"),
        )
        for text in (done.out, done.err)
    ]
    return Done(done.status, *texts)


@pytest.mark.parametrize("words", CASES, ids=lambda words: " ".join(words)[:60].replace("\x1b", "ESC"))
def test_both_ways_answer_alike(example: Path, tmp_path: Path, words: list[str]) -> None:
    answers = []
    for way, env in (("short", {}), ("long", {"SCHED_SLOW_PATH": "1"})):
        home = tmp_path / way
        home.mkdir()
        sched = Sched(home)
        shutil.copy(example, sched.db)
        answers.append(normal(sched(*words, env=env), home))
    assert answers[0] == answers[1]
