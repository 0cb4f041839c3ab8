"""Sweep: what the safety pass finds: stranded requests. In a healthy system it finds nothing."""

from __future__ import annotations

import logging

from kandev_sched.domain.instant import SECOND_MS
from kandev_sched.domain.routines import ConcurrencyPolicy
from kandev_sched.flow.dispatch import dispatch
from kandev_sched.store import activity, wakeups
from kandev_sched.store.db import Tx

log = logging.getLogger("kandev_sched.sweeper")
STRANDED_AFTER_MS = 5 * SECOND_MS
BATCH = 100


def adopt_stranded(tx: Tx, *, window_s: int) -> int:
    """Give each request that no run holds, and nothing explains, its run; how many there were (I1)."""
    found = wakeups.stranded(tx, before=tx.now - STRANDED_AFTER_MS, limit=BATCH)
    for request in found:
        given = dispatch(tx, request, policy=ConcurrencyPolicy.COALESCE_IF_ACTIVE, window_s=window_s)
        log.warning("wakeup %s was held by no run; run %s takes it", request.id, given.run.id)
        activity.record(
            tx,
            "wakeup_adopted",
            f"a {request.source} wakeup was held by no run; run {given.run.id} takes it",
            workspace_id=request.workspace_id,
            agent_id=request.agent_id,
            wakeup_id=request.id,
            run_id=given.run.id,
        )
    return len(found)
