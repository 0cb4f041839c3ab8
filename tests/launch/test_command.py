"""What an agent's program is given, and where it is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from kandev_sched.launch.command import agent_environment, find_command, why_not_found
from kandev_sched.launch.output import Tail


def test_the_environment_is_an_allow_list() -> None:
    base = {"PATH": "/bin", "HOME": "/h", "LC_ALL": "C", "TZ": "UTC", "API_KEY": "hush", "SCHED_DB": "x"}
    assert agent_environment(base, {}, {}) == {"PATH": "/bin", "HOME": "/h", "LC_ALL": "C", "TZ": "UTC"}


def test_the_profile_adds_and_overrides_but_never_what_the_run_says() -> None:
    environment = agent_environment(
        {"PATH": "/bin"},
        {"PATH": "/opt", "API_KEY": "k", "SCHED_RUN_ID": "forged"},
        {"SCHED_RUN_ID": "run_1"},
    )
    assert environment == {"PATH": "/opt", "API_KEY": "k", "SCHED_RUN_ID": "run_1"}


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    for name, mode in (("a/tool", 0o755), ("b/tool", 0o755), ("a/data", 0o644), ("b/data", 0o755)):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(mode)
    return tmp_path


def test_a_command_is_found_as_a_shell_would(tools: Path) -> None:
    path = f"{tools}/none:{tools}/a:{tools}/b"
    assert find_command("tool", path, "/") == f"{tools}/a/tool"
    assert find_command("data", path, "/") == f"{tools}/b/data"
    assert find_command("tool", "", f"{tools}/b") == f"{tools}/b/tool"
    assert find_command("a/tool", "/bin", str(tools)) == f"{tools}/a/tool"
    assert find_command(f"{tools}/a/tool", "", "/") == f"{tools}/a/tool"


@pytest.mark.parametrize(
    ("argv0", "words"), [("", "empty"), ("nothing", "PATH"), ("a/data", "executable"), ("a", "directory")]
)
def test_what_is_not_found_is_explained(tools: Path, argv0: str, words: str) -> None:
    path = f"{tools}/a:{tools}"
    assert find_command(argv0, path, str(tools)) is None
    assert words in why_not_found(argv0, path, str(tools))


def test_a_tail_never_begins_within_a_character() -> None:
    tail = Tail(4)
    tail.add("ab€€".encode())
    assert tail.text() == "€"
    whole = Tail(100)
    whole.add(b"\x80abc")
    assert whole.text() == "\ufffdabc"


def test_a_last_line_is_known_only_from_its_beginning() -> None:
    tail = Tail(8)
    tail.add(b"first\nlast\n\n")
    assert tail.last_line() == "last"
    tail.add(b"0123456789")
    assert tail.last_line() is None
