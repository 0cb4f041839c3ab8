"""The installed `sched` as a process, with a home of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

SCHED = str(Path(sys.executable).with_name("sched"))


class Done(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    err: str


class Sched:
    """A user: a home, a config place, a database."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.db = home / "sched.db"
        self.env = {
            "PATH": f"{Path(SCHED).parent}:/usr/bin:/bin",
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "SCHED_DB": str(self.db),
        }

    def __call__(self, *words: str, stdin: str | None = "", env: Mapping[str, str] | None = None) -> Done:
        """Run a command to its end."""
        ended = subprocess.run(
            [SCHED, *words],
            env={**self.env, **(env or {})},
            cwd=self.home,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Done(ended.returncode, ended.stdout, ended.stderr)

    def json(self, *words: str, status: int = 0) -> Any:
        """Run a command with --json; its one document."""
        done = self(*words, "--json")
        assert done.status == status, done
        return json.loads(done.out)

    def start(self, *words: str, **options: Any) -> subprocess.Popen[str]:
        """Start a command that goes on."""
        return subprocess.Popen(
            [SCHED, *words],
            env=self.env,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    @contextmanager
    def serving(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """A supervisor; it is asked to stop at the end, and must stop well."""
        with self.start("serve", *words) as process:
            try:
                wait_until(lambda: self.is_supervised() or process.poll() is not None)
                assert process.poll() is None, process.communicate()
                yield process
            finally:
                process.terminate()
                _, said = process.communicate(timeout=30)
            assert process.returncode == 0, said

    def is_supervised(self) -> bool:
        """Whether a supervisor has started all that it starts."""
        done = self("status", "--json")
        return bool(done.out) and json.loads(done.out)["supervisor"]["phase"] == "running"

    def rows(self) -> dict[str, int]:
        """How many rows each table has."""
        found: dict[str, int] = self.json("inspect", "db")["rows"]
        return found


def wait_until(question: Callable[[], bool], timeout_s: float = 30) -> None:
    """Poll until something is true; the only place of these tests that sleeps."""
    deadline = time.monotonic() + timeout_s
    while not question():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def with_agent(sched: Sched, command: str = "sh -c 'cat; echo done'") -> Sched:
    """The same user, with an agent `coder` and a routine `review` that is fired by hand."""
    added = sched("agent", "add", "coder", "--command", command, "--cooldown", "0s", "--quiet")
    assert added.status == 0, added
    added = sched("routine", "add", "review", "--agent", "coder", "--var", "branch:text=main")
    assert added.status == 0, added
    return sched
