"""The demo: an agent, two routines, a real `serve` until the minute has fired, a SIGTERM; what happened."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SCHED = str(Path(sys.executable).parent / "sched")
PATIENCE_S = 65
AGENT = 'cat > /dev/null; echo "$SCHED_AGENT was woken by a $SCHED_SOURCE wakeup ($SCHED_REASON)"'


def main() -> int:
    """Run the demo; 0 when both routines were run by the agent."""
    with tempfile.TemporaryDirectory(prefix="sched-demo-") as folder:
        os.environ["SCHED_DB"] = f"{folder}/sched.db"
        os.environ.pop("SCHED_CONFIG", None)
        os.environ["XDG_CONFIG_HOME"] = folder
        say("An agent, a routine for each minute, and one that is fired by hand:")
        sched("agent", "add", "scribe", "--command", f"sh -c '{AGENT}'", "--no-skip-idle", "--cooldown", "0s")
        sched("routine", "add", "each-minute", "--agent", "scribe", "--cron", "* * * * *")
        sched("routine", "add", "by-hand", "--agent", "scribe", "--description", "Say hello to {{who}}")
        sched("fire", "by-hand", "--var", "who=the reader")
        say("The supervisor, until the minute has fired:")
        serve()
        say("What happened, and the twelve steps of the last run:")
        sched("inspect", "runs")
        runs = finished_runs()
        sched("inspect", "run", runs[0]["id"])
        return 0 if sources_of(runs) == {"event", "periodic"} else 1


def serve() -> None:
    """`sched serve` until a scheduled run has finished, then SIGTERM."""
    supervisor = subprocess.Popen([SCHED, "serve"])
    deadline = time.monotonic() + PATIENCE_S
    while "periodic" not in sources_of(finished_runs()) and time.monotonic() < deadline:
        time.sleep(0.25)
    supervisor.send_signal(signal.SIGTERM)
    if supervisor.wait(timeout=60) != 0:
        sys.exit("demo: the supervisor did not stop cleanly")


def finished_runs() -> list[dict[str, str]]:
    """The finished runs, newest first."""
    command = [SCHED, "inspect", "runs", "--status", "finished", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def sources_of(runs: list[dict[str, str]]) -> set[str]:
    """The reasons of the runs."""
    return {run["reason"] for run in runs}


def sched(*arguments: str) -> None:
    """Show a command and run it."""
    print(f"\n$ sched {' '.join(repr(a) if ' ' in a else a for a in arguments)}", flush=True)
    subprocess.run([SCHED, *arguments], check=True)


def say(sentence: str) -> None:
    """A line between the commands."""
    print(f"\n— {sentence}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
