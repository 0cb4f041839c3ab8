"""Many commands write at once to a database whose supervisor is busy: none sees a lock, none waits long."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from invariants import check_all

from .support import Done, Sched, wait_until

WRITERS, COMMANDS_EACH, MEASURED = 8, 6, 60
LIMIT_S = 1.0
# One process that writes as the commands do, without their start: prints the slowest write, in seconds.
STOPWATCH = f"""
import sys, time
from kandev_sched.domain.host import MachineHost
from kandev_sched.domain.settings import Settings
from kandev_sched.operations.firing import WakeAgent, wake_agent
from kandev_sched.store.db import open_database

db = open_database(sys.argv[1], host=MachineHost(), create=False)
slowest = 0.0
for number in range({MEASURED}):
    began = time.monotonic()
    command = WakeAgent(agent="coder", reason=f"measured {{number}}", user="test")
    db.write(lambda tx: wake_agent(tx, command, Settings()))
    slowest = max(slowest, time.monotonic() - began)
db.close()
print(slowest)
"""


def write_in_turn(sched: Sched, writer: int) -> list[Done]:
    """What one person's shell script does: wake, fire, wake, fire …"""
    wake = ("wake", "coder", "--reason", f"writer {writer}", "--json")
    fire = ("fire", "review", "--var", f"branch=b{writer}", "--json")
    return [sched(*(fire if number % 2 else wake)) for number in range(COMMANDS_EACH)]


def test_eight_writers_beside_a_busy_supervisor_see_no_lock_and_no_write_takes_a_second(ready: Sched) -> None:
    """architecture, Storage: one gate for writers; no user ever sees "database is locked"."""
    assert ready("agent", "set", "coder", "--max-sessions", "4").status == 0
    with ready.serving("--no-http"):
        stopwatch = subprocess.Popen(
            [sys.executable, "-c", STOPWATCH, str(ready.db)], stdout=subprocess.PIPE, text=True
        )
        with ThreadPoolExecutor(WRITERS) as pool:
            done = [
                one for turn in pool.map(lambda n: write_in_turn(ready, n), range(WRITERS)) for one in turn
            ]
        slowest = float(stopwatch.communicate(timeout=60)[0])
        wait_until(lambda: ready.json("status")["queued_count"] == 0, timeout_s=60)
    assert [one for one in done if one.status != 0] == []
    assert [one.err for one in done if "lock" in one.err or "busy" in one.err] == []
    assert len(done) == WRITERS * COMMANDS_EACH
    assert slowest < LIMIT_S
    state = check_all(str(ready.db), runs_root=Path(f"{ready.db}.runs"), is_at_rest=True, is_drained=True)
    assert len(state.requests) == WRITERS * COMMANDS_EACH + MEASURED
    assert {request["ending"] for request in state.requests.values()} == {"delivered"}


def test_a_writer_that_holds_the_gate_for_a_moment_delays_others_and_refuses_none(ready: Sched) -> None:
    """architecture, Storage: writers queue for the gate, in the order of arrival."""
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(ready.db)], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdin is not None
    assert holder.stdout.readline() == "held\n"
    waiting = ready.start("wake", "coder", "--reason", "patience")
    began = time.monotonic()
    wait_until(lambda: time.monotonic() - began > 1)
    assert waiting.poll() is None
    holder.communicate("go\n")
    _, said = waiting.communicate(timeout=20)
    assert (waiting.returncode, "lock" in said) == (0, False)


_HOLD = """
import sys
from kandev_sched.store.db import gate_path
from kandev_sched.store.gate import Gate

with Gate(gate_path(sys.argv[1]), patience_s=None):
    print("held", flush=True)
    sys.stdin.readline()
"""


def test_a_second_supervisor_through_a_symlink_is_refused_with_4(ready: Sched) -> None:
    """I10: one supervisor per database, whatever the database is called."""
    link, folder = ready.home / "alias.db", ready.home / "elsewhere"
    link.symlink_to(ready.db)
    folder.symlink_to(ready.home, target_is_directory=True)
    with ready.serving("--no-http"):
        for name in (link, folder / "sched.db"):
            done = ready("serve", "--no-http", "--db", str(name))
            assert done.status == 4, done
        assert ready.is_supervised()


def test_a_second_supervisor_through_a_hard_link_is_refused_with_4(ready: Sched) -> None:
    """I10: the lock is on the file itself. SQLite's -wal goes by the name, so this must never be served."""
    link = ready.home / "hard.db"
    os.link(ready.db, link)
    with ready.serving("--no-http"):
        done = ready("serve", "--no-http", "--db", str(link))
        assert done.status == 4, done
