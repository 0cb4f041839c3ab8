"""SIGTERM: what is drained, what is requeued, what is left running, and the silence after the end."""

from __future__ import annotations

import signal
import time

from crash_site import PATIENT, Site, wait_until

# Outlives any drain, and is quick when `go` is there.
SLOW = 'cat > /dev/null; echo "$SCHED_RUN_ID $SCHED_ATTEMPT" >> {lines}; [ -e {go} ] || sleep 30'
DEAF = "trap '' TERM; " + PATIENT


def test_sigterm_under_load_ends_well_and_the_next_supervisor_finishes_everything(site: Site) -> None:
    """S3 Shutdown, §7: nothing lost, nothing failed, drained runs back in the queue as they were."""
    for number in range(3):
        site.agent(f"slow-{number}", SLOW)
        site.agent(f"quick-{number}")
    slow = [site.wake(f"slow-{number}", task=site.task(f"slow-{number}")) for number in range(3)]
    supervisor = site.start(drain_s=0, grace_s=0, max_sessions=8)
    askers = [site.ask_from_elsewhere(25, seed) for seed in (1, 2)]
    wait_until(lambda: len(site.launches()) >= 4, what="work")
    before = site.state()

    site.stop(supervisor)
    acknowledged = [line.decode() for asker in askers for line in asker.communicate()[0].split()]
    log = site.log()
    drained = site.state()
    assert site.marked() == {}
    assert drained.runs_in("claimed", "failed") == []
    for wake in slow:
        run = drained.runs[drained.requests[wake]["run_id"]]
        assert (run["status"], run["retry_count"], run["lost_count"], run["error"]) == ("queued", 0, 0, None)
    assert "database is closed" not in log
    assert log.rstrip().endswith("Graceful shutdown complete")

    site.go.touch()
    site.finish()
    state = site.demand_all_is_well(before=before, acknowledged=[*slow, *acknowledged])
    assert {request["ending"] for request in state.requests.values()} == {"delivered"}
    assert len(acknowledged) == 50


def test_agents_that_end_within_the_drain_are_settled_and_not_started_again(site: Site) -> None:
    """§7 `drain_s`: agents may end by themselves; nothing new is started meanwhile."""
    wake = site.wake(site.agent(script=PATIENT))
    supervisor = site.start(drain_s=20)
    wait_until(site.launches, what="the agent's start")
    supervisor.send_signal(signal.SIGTERM)
    site.has_said("Waiting up to 20 s for 1 agents")
    later = site.wake("bot")
    site.go.touch()
    assert supervisor.wait(15) == 0, site.log()
    state = site.state()
    assert state.requests[wake]["ending"] == "delivered"
    assert state.requests[later]["ending"] is None
    site.finish()
    site.demand_all_is_well(acknowledged=[wake, later])


def test_a_second_signal_ends_the_drain_at_once(site: Site) -> None:
    """§7: a second signal ends the agents' drain; the run goes back to the queue, with its retry_count."""
    wake = site.wake(site.agent(script=PATIENT))
    supervisor = site.start(drain_s=60)
    wait_until(site.launches, what="the agent's start")
    supervisor.send_signal(signal.SIGTERM)
    site.has_said("Waiting up to 60 s")
    began = time.monotonic()
    supervisor.send_signal(signal.SIGTERM)
    assert supervisor.wait(20) == 0, site.log()
    assert time.monotonic() - began < 10
    assert (site.the_run()["status"], site.the_run()["retry_count"]) == ("queued", 0)
    assert site.marked() == {}
    site.go.touch()
    site.finish()
    assert site.demand_all_is_well().requests[wake]["ending"] == "delivered"


def test_an_agent_that_is_deaf_to_sigterm_is_killed_after_its_grace(site: Site) -> None:
    """§5 Ending: SIGTERM, grace, SIGKILL; a stopping supervisor leaves nothing behind (I11)."""
    site.wake(site.agent(script=DEAF))
    supervisor = site.start(drain_s=0, grace_s=1)
    wait_until(site.launches, what="the agent's start")
    site.stop(supervisor)
    assert site.marked() == {}
    assert (site.the_run()["status"], site.the_run()["retry_count"]) == ("queued", 0)


def test_detach_leaves_agents_at_work_and_the_next_supervisor_attaches_to_them(site: Site) -> None:
    """§7 `on_stop = "detach"`: left running for the next supervisor, started once."""
    wake = site.wake(site.agent(script=PATIENT))
    supervisor = site.start(on_stop="detach")
    wait_until(lambda: site.launches() and site.the_run()["started_at"], what="the agent's start")
    site.stop(supervisor)
    assert list(site.marked()) == [(site.the_run()["id"], 1)]
    assert site.the_run()["status"] == "claimed"

    site.start(until_idle=True)
    site.has_said("attended to 1 runs")
    site.go.touch()
    assert site.supervisors[-1].wait(20) == 0
    state = site.demand_all_is_well(acknowledged=[wake])
    assert (site.the_run()["attempt"], state.requests[wake]["ending"]) == (1, "delivered")
    assert site.launches() == {site.the_run()["id"]: 1}


def test_nothing_is_logged_after_the_end_however_many_signals_come(site: Site) -> None:
    """I10, S3 Shutdown: `Graceful shutdown complete` is the last line."""
    site.agent()
    supervisor = site.start()
    site.has_said("Serving")

    def ended() -> bool:
        if supervisor.poll() is None:
            supervisor.send_signal(signal.SIGTERM)
        return supervisor.poll() is not None

    wait_until(ended, what="the end")
    assert supervisor.returncode == 0, site.log()
    assert site.log().rstrip().endswith("Graceful shutdown complete")
    assert "database is closed" not in site.log()


def test_a_signal_during_the_start_stops_it_as_well(site: Site) -> None:
    """§7 Stop order: from any moment of its life a supervisor ends by the same path."""
    site.wake(site.agent())
    supervisor = site.start()
    wait_until(lambda: site.state().tables["supervisor"] != [], what="the start")
    site.stop(supervisor)
    site.finish()
    site.demand_all_is_well()
