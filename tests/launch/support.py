"""What the tests of `launch` share: real agents, real processes, and waiting without guesses."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from kandev_sched.launch import strays
from kandev_sched.launch.executor import AttemptRef, AttemptResult, AttemptState, LaunchSpec
from kandev_sched.launch.local import LocalExecutor

T = TypeVar("T")
PATH = os.environ["PATH"]


def wait_until(predicate: Callable[[], T], timeout: float = 10.0) -> T:
    """The first true answer; asked every 5 ms."""
    deadline = time.monotonic() + timeout
    while not (answer := predicate()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)
    return answer


def new_run_id() -> str:
    """Unique on the machine, as real ones are: the mark of a run is looked for in all of /proc."""
    return f"run_{os.urandom(6).hex()}"


class World:
    """One root directory, an executor on it, and the names of its first attempt."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.executor = LocalExecutor(root)
        self.ref = AttemptRef(run_id=new_run_id(), attempt=1)

    @property
    def dir(self) -> Path:
        return self.root / self.ref.run_id / str(self.ref.attempt)

    def spec(self, *argv: str, **changes: Any) -> LaunchSpec:
        values: dict[str, Any] = {
            "run_id": self.ref.run_id,
            "attempt": self.ref.attempt,
            "argv": argv,
            "env": {"PATH": PATH},
            "cwd": "/",
            "prompt": "Do it.\n",
            "wakeups_json": "[]",
            "max_run_s": 30,
            "idle_output_s": None,
            "grace_s": 0.3,
        }
        return LaunchSpec(**{**values, **changes})

    def start(self, *argv: str, **changes: Any) -> None:
        self.executor.submit(self.spec(*argv, **changes))

    def sh(self, script: str, **changes: Any) -> None:
        self.start("/bin/sh", "-c", script, **changes)

    def python(self, script: str, **changes: Any) -> None:
        self.start(sys.executable, "-I", "-S", "-c", script, **changes)

    def state(self) -> AttemptState:
        return self.executor.poll(self.ref).state

    def result(self, timeout: float = 15.0) -> AttemptResult:
        def ended() -> AttemptResult | None:
            observation = self.executor.poll(self.ref)
            assert observation.state is not AttemptState.LOST, self.complaints()
            return observation.result

        return wait_until(ended, timeout)

    def complaints(self) -> str:
        errors = self.dir / "shim.err"
        return errors.read_text() if errors.exists() else ""

    def stdout(self) -> bytes:
        return self.executor.read(self.ref, "stdout", 0, 1 << 30)

    def said(self, text: bytes) -> None:
        """Wait until the agent has printed this."""
        wait_until(lambda: text in self.stdout())

    def shim(self) -> dict[str, Any]:
        """Who the shim and its agent are, once the agent has started."""
        file = self.dir / "shim.json"
        wait_until(file.exists)
        return dict(json.loads(file.read_text()))

    def processes(self) -> list[strays.Process]:
        return strays.find(self.ref.run_id, self.ref.attempt)


def alive(pid: int) -> bool:
    """Whether a process with that pid lives; zombies do not."""
    return strays.process(pid) is not None


def pids_in(output: bytes) -> list[int]:
    """The numbers that an agent printed, one a line."""
    return [int(line) for line in output.split() if line.isdigit()]


def children_in_state(letter: str) -> list[int]:
    """Our own children in a state of /proc, `Z` for zombies."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = Path(f"/proc/{name}/stat").read_text(errors="replace").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if fields[0] == letter and int(fields[1]) == os.getpid():
            found.append(int(name))
    return found
