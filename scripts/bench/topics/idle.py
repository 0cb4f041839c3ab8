"""What `sched serve` costs while there is nothing to do: its share of one core, and its memory."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from harness import Bench

from topics.startup import SCHED, environment, prepare

CPU_PERCENT = 0.3
RSS_MB = 60.0
SETTLE_S = 3.0
LONGEST_S = 30.0


def run(bench: Bench) -> None:
    """A database with an agent and a routine whose schedule is far away; then 45 s of silence."""
    with bench.scratch() as folder:
        environ = environment(folder)
        prepare(environ)
        log = (folder / "serve.log").open("wb")
        serve = subprocess.Popen([str(SCHED), "serve"], env=environ, stdout=log, stderr=log)
        try:
            wait_until(lambda: b"Serving" in (folder / "serve.log").read_bytes(), serve)
            time.sleep(SETTLE_S)  # the queued run of `prepare` is worked off
            measure(bench, serve.pid, float(bench.pick(45, 10)))
        finally:
            serve.send_signal(signal.SIGTERM)
            serve.wait(timeout=LONGEST_S)
            log.close()


def wait_until(done: Callable[[], bool], serve: subprocess.Popen[bytes]) -> None:
    """Until the supervisor says that it serves."""
    deadline = time.monotonic() + LONGEST_S
    while not done():
        assert serve.poll() is None, "serve ended"
        assert time.monotonic() < deadline, "serve did not start"
        time.sleep(0.05)


def measure(bench: Bench, pid: int, for_s: float) -> None:
    """utime + stime over the time that passed."""
    began, before, ticks = time.monotonic(), cpu_s(pid), ticks_s(pid)
    time.sleep(for_s)
    took = time.monotonic() - began
    percent = 100 * (cpu_s(pid) - before) / took
    coarse = round(100 * (ticks_s(pid) - ticks) / took, 3)
    bench.row("serve, idle: CPU", [percent], "% of a core", target=f"< {CPU_PERCENT:g} %",
              met=lambda value: value < CPU_PERCENT, seconds=for_s, utime_stime_percent=coarse)  # fmt: skip
    bench.row("serve, idle: VmRSS", [rss_mb(pid)], "MB", target=f"< {RSS_MB:g} MB",
              met=lambda value: value < RSS_MB, threads=thread_count(pid))  # fmt: skip


def cpu_s(pid: int) -> float:
    """Time on a core of all threads: as utime + stime, but finer than their ticks of 10 ms."""
    run_ns = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        run_ns += int((task / "schedstat").read_text().split()[0])
    return run_ns / 1e9


def ticks_s(pid: int) -> float:
    """utime + stime of /proc/PID/stat."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mb(pid: int) -> float:
    """Resident memory."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


def thread_count(pid: int) -> int:
    """How many threads it has."""
    return len(list(Path(f"/proc/{pid}/task").iterdir()))
