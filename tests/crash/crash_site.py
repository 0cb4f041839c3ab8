"""What the crash tests share: a database, real supervisors as processes, agents that leave a line each."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from invariants import Row, State, attempt_state, check_all, marked_processes, read_state

from kandev_sched.domain.host import MachineHost
from kandev_sched.domain.settings import Settings
from kandev_sched.operations.agents import AddAgent, add_agent
from kandev_sched.operations.firing import WakeAgent, wake_agent
from kandev_sched.operations.tasks import AddTask, add_task
from kandev_sched.store.db import Database, open_database

T = TypeVar("T")
HERE = Path(__file__).parent
SETTINGS = Settings(coalesce_window_s=0)
QUICK = 'cat > /dev/null; echo "$SCHED_RUN_ID $SCHED_ATTEMPT" >> {lines}'
# Goes on until its file `go` is there; `started` lines tell that it works.
PATIENT = (
    'cat > /dev/null; echo "$SCHED_RUN_ID $SCHED_ATTEMPT" >> {lines};'
    " while [ ! -e {go} ]; do sleep 0.02; done; echo done >> {lines}.ended"
)


def wait_until(predicate: Callable[[], T], timeout: float = 15.0, what: str = "it") -> T:
    """The first true answer; asked every 10 ms."""
    deadline = time.monotonic() + timeout
    while not (answer := predicate()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)
    return answer


def let_time_pass(seconds: float) -> None:
    """For a kill at a moment that nobody chose."""
    until = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= until, timeout=seconds + 10)


class Site:
    """One database, its agents' lines, and the supervisors that were started for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = str(folder / "sched.db")
        self.runs_root = Path(f"{self.path}.runs")
        self.lines, self.go = folder / "lines", folder / "go"
        self.supervisors: list[subprocess.Popen[bytes]] = []
        self.askers: list[subprocess.Popen[bytes]] = []
        self.db: Database = open_database(self.path, host=MachineHost(), create=True)

    # ---- given ----------------------------------------------------------------------------------

    def agent(self, name: str = "bot", script: str = QUICK, **changes: Any) -> str:
        """An agent that runs a shell script; `{lines}` and `{go}` are this site's files."""
        argv = ("/bin/sh", "-c", script.format(lines=self.lines, go=self.go))
        fields = {"cooldown_s": 0, "skip_idle": False, "cwd": "/", **changes}
        command = AddAgent(name=name, argv=argv, env={}, **fields)
        self.db.write(lambda tx: add_agent(tx, command))
        return name

    def task(self, agent: str, title: str = "work") -> str:
        """A task of the agent."""
        return self.db.write(lambda tx: add_task(tx, AddTask(title=title, agent=agent))).id

    def wake(self, agent: str, *, task: str | None = None) -> str:
        """A wakeup request, durable when this returns."""
        command = WakeAgent(agent=agent, reason="crash test", user="test", task=task)
        return self.db.write(lambda tx: wake_agent(tx, command, SETTINGS)).wakeup.id

    # ---- when -----------------------------------------------------------------------------------

    def start(
        self, *, until_idle: bool = False, cut: str = "", backoff_ms: int = 1, **settings: Any
    ) -> subprocess.Popen[bytes]:
        """A supervisor of its own process; its log goes to a file."""
        environ = {
            **os.environ,
            "CRASH_SETTINGS": json.dumps(settings),
            "CRASH_AT": cut,
            "CRASH_BACKOFF_MS": str(backoff_ms),
        }
        wishes = ["--until-idle"] if until_idle else []
        log = self.log_path(len(self.supervisors))
        with log.open("wb") as file:
            supervisor = subprocess.Popen(
                [sys.executable, str(HERE / "serve.py"), self.path, *wishes],
                env=environ, stderr=file, stdout=file, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        self.supervisors.append(supervisor)
        return supervisor

    def log_path(self, number: int) -> Path:
        return self.folder / f"supervisor-{number}.log"

    def log(self) -> str:
        """What the newest supervisor has said."""
        return self.log_path(len(self.supervisors) - 1).read_text()

    def has_said(self, text: str) -> None:
        """Wait until the newest supervisor has logged this."""
        wait_until(lambda: text in self.log(), what=f"{text!r} in the log")

    def finish(self, *, timeout: float = 30, **settings: Any) -> None:
        """A supervisor that ends by itself when nothing is left to do."""
        supervisor = self.start(until_idle=True, **settings)
        assert supervisor.wait(timeout) == 0, self.log()

    def kill(self, supervisor: subprocess.Popen[bytes]) -> None:
        """SIGKILL, and it is gone."""
        supervisor.kill()
        supervisor.wait(10)

    def stop(self, supervisor: subprocess.Popen[bytes], *, timeout: float = 20) -> None:
        """SIGTERM; it must end well."""
        supervisor.send_signal(signal.SIGTERM)
        assert supervisor.wait(timeout) == 0, self.log()

    def ask_from_elsewhere(self, count: int, seed: int) -> subprocess.Popen[bytes]:
        """Another process that wakes agents at random and prints what was acknowledged."""
        asker = subprocess.Popen(
            [sys.executable, str(HERE / "wake_many.py"), self.path, str(count), str(seed)],
            stdout=subprocess.PIPE,
        )
        self.askers.append(asker)
        return asker

    # ---- then -----------------------------------------------------------------------------------

    def state(self) -> State:
        return read_state(self.path)

    def the_run(self) -> Row:
        """The only run there is."""
        (run,) = self.state().runs.values()
        return run

    def launches(self) -> Counter[str]:
        """Run id → how often the agent's program ran for it."""
        if not self.lines.exists():
            return Counter()
        return Counter(line.split()[0] for line in self.lines.read_text().splitlines())

    def told(self) -> dict[tuple[str, int], list[str]]:
        """(run id, attempt) → the requests that its agent was told of, from the files of the attempts."""
        return {
            (file.parent.parent.name, int(file.parent.name)): [
                entry["id"] for entry in json.loads(file.read_text())
            ]
            for file in self.runs_root.glob("*/*/wakeups.json")
        }

    def kill_shim(self, run_id: str, attempt: int) -> None:
        """SIGKILL to the shim of a running attempt; its agent goes on."""
        who = json.loads((self.runs_root / run_id / str(attempt) / "shim.json").read_text())
        os.kill(who["pid"], signal.SIGKILL)
        wait_until(lambda: attempt_state(self.runs_root, run_id, attempt) == "lost", what="the shim's end")

    def marked(self) -> dict[tuple[str, int], set[tuple[int, int]]]:
        """The living processes of this site's runs."""
        mine = self.state().runs
        return {mark: pids for mark, pids in marked_processes().items() if mark[0] in mine}

    def demand_all_is_well(self, **options: Any) -> State:
        """Nothing is left to do, nothing runs, and every invariant holds; the last supervisor ended well."""
        assert self.marked() == {}
        return check_all(
            self.path, runs_root=self.runs_root, is_at_rest=True, is_drained=True, log=self.log(),
            told=self.told(), **options,
        )  # fmt: skip

    def close(self) -> None:
        """Leave nothing running."""
        self.go.touch()
        for supervisor in self.supervisors:
            if supervisor.poll() is None:
                self.kill(supervisor)
        for asker in self.askers:
            asker.kill()
            asker.wait()
            if asker.stdout is not None:
                asker.stdout.close()
        self.db.close()
        for processes in self.marked().values():
            for pid, _ in processes:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
