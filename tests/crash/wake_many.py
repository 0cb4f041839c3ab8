"""Another process that asks: `python wake_many.py DB COUNT SEED`, printing each id once it is durable."""

from __future__ import annotations

import random
import sys

from kandev_sched.domain.host import MachineHost
from kandev_sched.domain.settings import Settings
from kandev_sched.operations.firing import WakeAgent, wake_agent
from kandev_sched.store import agents, tasks
from kandev_sched.store.db import open_database


def main() -> None:
    path, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    chance = random.Random(seed)
    db = open_database(path, host=MachineHost(), create=False)
    names = [(agent.name, agent.workspace_id) for agent in db.read(agents.every)]
    settings = Settings(coalesce_window_s=0)
    for number in range(count):
        name, workspace_id = chance.choice(names)
        found = db.read(lambda reader, place=workspace_id: tasks.of_workspace(reader, place, archived=False))
        task = chance.choice([None, *found])
        command = WakeAgent(
            agent=name, reason=f"{seed}-{number}", user="test", task=task.id if task else None,
            as_self=chance.random() < 0.3,
        )  # fmt: skip
        woken = db.write(lambda tx, command=command: wake_agent(tx, command, settings))
        print(woken.wakeup.id, flush=True)
    db.close()


if __name__ == "__main__":
    main()
