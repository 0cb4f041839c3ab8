"""How soon a supervisor claims what another process has committed.

The child commits one wake after another through `open_database`, as a command does, and notes the instant
after its COMMIT and before it pokes the supervisor. The supervisor here notes when the claim is durable.
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fakes import NoOpExecutor, supervised
from harness import Bench
from world import add_agents

from kandev_sched.domain.runs import Run
from kandev_sched.flow.pipeline import Pipeline
from kandev_sched.flow.settle import Outcome

LONGEST_S = 30.0
GRACE_MS = 10.0


def run(bench: Bench) -> None:
    """One wake at a time: the next when the former has ended and the supervisor is idle again."""
    count = bench.pick(500, 60)
    claims, launches = list[float](), list[float]()
    with bench.scratch() as folder:
        launched: dict[str, int] = {}
        executor = NoOpExecutor(lambda spec: launched.__setitem__(spec.run_id, time.monotonic_ns()))
        with supervised(folder, executor) as supervisor, waker(folder) as wake:
            add_agents(supervisor.db, 1)
            watch = Watch(supervisor.pipeline)
            for number in range(count):
                if number % 10 == 0:
                    bench.probe_fsync(folder, 10)
                run_id, committed_ns = wake()
                claimed_ns = watch.ended(run_id)
                claims.append((claimed_ns - committed_ns) / 1e6)
                launches.append((launched[run_id] - committed_ns) / 1e6)
    limit = GRACE_MS + 2 * bench.fsync_p99_ms()
    p99 = sorted(claims)[int(0.99 * len(claims))]
    bench.row(
        "commit in another process to durable claim",
        claims,
        "ms",
        target=f"p99 < {limit:.2f} ms (10 + 2 fsync p99)",
        met=lambda _median: p99 < limit,
        slowest_ms=round(max(claims), 2),
    )
    bench.row("commit in another process to launch", launches, "ms", slowest_ms=round(max(launches), 2))


class Watch:
    """Notes the instant of each durable claim, and hears of endings."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._claimed: dict[str, int] = {}
        self._ended: queue.SimpleQueue[str] = queue.SimpleQueue()
        claim: Callable[..., Run | None] = pipeline._claim
        finish: Callable[..., None] = pipeline.finish

        def noted_claim(trace: object) -> Run | None:
            found = claim(trace)
            if found is not None:
                self._claimed[found.id] = time.monotonic_ns()
            return found

        def noted_finish(run: Run, outcome: Outcome, trace: object = None) -> None:
            finish(run, outcome, trace)
            self._ended.put(run.id)

        pipeline._claim = noted_claim  # type: ignore[method-assign]
        pipeline.finish = noted_finish  # type: ignore[method-assign]

    def ended(self, run_id: str) -> int:
        """Wait until the run has ended; when it was claimed."""
        assert self._ended.get(timeout=LONGEST_S) == run_id
        return self._claimed[run_id]


@contextmanager
def waker(folder: Path) -> Iterator[Callable[[], tuple[str, int]]]:
    """A process that commits a wake each time it is asked; it answers with the run and the instant."""
    here = Path(__file__).resolve()
    child = subprocess.Popen(
        [sys.executable, str(here), str(folder / "sched.db")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": ":".join([str(here.parents[1]), str(here.parents[3])])},
        text=True,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    asking, answers = child.stdin, child.stdout

    def wake() -> tuple[str, int]:
        asking.write("wake\n")
        asking.flush()
        run_id, at_ns = json.loads(answers.readline())
        return run_id, at_ns

    try:
        yield wake
    finally:
        asking.close()
        child.wait(timeout=LONGEST_S)
        answers.close()


def serve_wakes(path: str) -> None:
    """The child."""
    from world import wake

    from kandev_sched.domain.host import MachineHost
    from kandev_sched.store import db as store_db
    from kandev_sched.store.wake import poke

    committed_ns = 0

    def noted_poke(path: str) -> bool:
        nonlocal committed_ns
        committed_ns = time.monotonic_ns()
        return poke(path)

    vars(store_db)["poke"] = noted_poke
    db = store_db.open_database(path, host=MachineHost(), create=False)
    for _ in sys.stdin:
        woken = wake(db, "agent-0")
        print(json.dumps([woken.run.id, committed_ns]), flush=True)
    db.close()


if __name__ == "__main__":
    serve_wakes(sys.argv[1])
