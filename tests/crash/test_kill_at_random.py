"""kill -9 at moments that nobody chose, under load, again and again. SCHED_LONG_CRASH=1: many more rounds."""

from __future__ import annotations

import os
import random

from crash_site import Site, let_time_pass
from invariants import check_all

ROUNDS = 80 if os.environ.get("SCHED_LONG_CRASH") else 10
BUSY = 'cat > /dev/null; sleep 0.0{pause}; echo "$SCHED_RUN_ID $SCHED_ATTEMPT" >> '


def test_supervisors_killed_at_random_under_load_lose_nothing_and_start_nothing_twice(site: Site) -> None:
    """I1, I2, I4, I9, I11: what other processes were told is there, ends, and each agent ran once a run."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for number in range(4):
        script = BUSY.replace("{pause}", str(number * 3)) + "{lines}"
        site.agent(f"agent-{number}", script, max_sessions=1 + number % 2)
        site.task(f"agent-{number}")
    acknowledged: list[str] = []
    before = site.state()

    for number in range(ROUNDS):
        supervisor = site.start()
        askers = [site.ask_from_elsewhere(8, chance.randrange(1 << 30)) for _ in range(2)]
        let_time_pass(chance.uniform(0.25, 1.0))
        site.kill(supervisor)
        if number % 3 == 0:
            askers[0].kill()
        acknowledged += [line.decode() for asker in askers for line in asker.communicate()[0].split()]
        before = check_all(site.path, runs_root=site.runs_root, before=before, acknowledged=acknowledged)

    site.finish(timeout=60)
    state = site.demand_all_is_well(before=before, acknowledged=acknowledged)
    assert {request["ending"] for request in state.requests.values()} == {"delivered"}
    assert site.launches() == {run_id: 1 for run_id in state.runs}
