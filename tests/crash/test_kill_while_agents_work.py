"""kill -9 of the supervisor, of shims, of both, while agents work."""

from __future__ import annotations

from crash_site import PATIENT, Site, wait_until

from kandev_sched.operations.agents import archive_agent
from kandev_sched.operations.runs import cancel_run
from kandev_sched.store import agents, runs


def working_agent(site: Site) -> str:
    """A wake whose agent is at work, its launch noted, under the newest supervisor."""
    wake = site.wake(site.agent(script=PATIENT))
    supervisor = site.start()
    wait_until(lambda: site.launches() and site.the_run()["started_at"], what="the agent's start")
    site.kill(supervisor)
    return wake


def test_an_agent_works_on_without_its_supervisor_and_the_next_one_settles_it(site: Site) -> None:
    """§6 Lost and found: agents survive the supervisor; finished ones are settled."""
    wake = working_agent(site)
    assert len(site.marked()) == 1
    site.go.touch()
    wait_until(lambda: not site.marked(), what="the agent's end")
    assert site.the_run()["status"] == "claimed"

    site.finish()
    state = site.demand_all_is_well(acknowledged=[wake])
    assert state.requests[wake]["ending"] == "delivered"
    assert site.launches() == {site.the_run()["id"]: 1}


def test_the_next_supervisor_attaches_to_an_agent_that_still_works(site: Site) -> None:
    """§6 Lost and found: re-attached, not started again, however long it takes."""
    wake = working_agent(site)
    site.start(until_idle=True)
    site.has_said("attended to 1 runs")
    site.go.touch()
    assert site.supervisors[-1].wait(20) == 0

    state = site.demand_all_is_well(acknowledged=[wake])
    assert (site.the_run()["attempt"], site.the_run()["retry_count"]) == (1, 0)
    assert state.requests[wake]["ending"] == "delivered"
    assert site.launches() == {site.the_run()["id"]: 1}


def test_a_lost_attempt_is_ended_to_the_last_process_and_tried_again(site: Site) -> None:
    """§6 Lost and found: fence, end the strays, requeue as a retry; I11."""
    wake = working_agent(site)
    run = site.the_run()
    site.kill_shim(run["id"], 1)
    assert len(site.marked()) == 1

    site.start(until_idle=True)
    wait_until(lambda: site.launches()[run["id"]] == 2, what="the second attempt")
    assert set(site.marked()) == {(run["id"], 2)}
    site.go.touch()
    assert site.supervisors[-1].wait(20) == 0

    state = site.demand_all_is_well(acknowledged=[wake])
    assert (site.the_run()["status"], site.the_run()["retry_count"]) == ("finished", 1)
    assert state.requests[wake]["ending"] == "delivered"
    assert not (site.folder / "lines.ended").read_text().count("done") > 1


def test_a_shim_that_dies_under_a_living_supervisor_is_found_as_lost(site: Site) -> None:
    """§6 Lost and found: the watcher sees it too, and the task is free for the retry."""
    bot = site.agent(script=PATIENT)
    wake = site.wake(bot, task=site.task(bot))
    site.start(until_idle=True)
    wait_until(lambda: site.launches() and site.the_run()["started_at"], what="the agent's start")
    run_id = site.the_run()["id"]
    site.kill_shim(run_id, 1)
    wait_until(lambda: site.launches()[run_id] == 2, what="the second attempt")
    site.go.touch()
    assert site.supervisors[-1].wait(20) == 0
    state = site.demand_all_is_well(acknowledged=[wake])
    assert state.requests[wake]["ending"] == "delivered"


def test_three_losses_in_a_row_fail_the_run_and_ask_a_person(site: Site) -> None:
    """§6 Lost and found: three times in a row lost: failed and escalated; then nothing is left running."""
    wake = site.wake(site.agent(script=PATIENT))
    site.start(until_idle=True)
    for attempt in (1, 2, 3):
        wait_until(lambda n=attempt: sum(site.launches().values()) == n, what=f"attempt {attempt}")
        wait_until(lambda: site.the_run()["started_at"], what="its stamp")
        site.kill_shim(site.the_run()["id"], attempt)
    assert site.supervisors[-1].wait(20) == 0
    state = site.demand_all_is_well(acknowledged=[wake])
    assert (site.the_run()["status"], state.requests[wake]["ending"]) == ("failed", "failed")
    assert site.db.read(lambda reader: len(runs.claimed(reader))) == 0


def test_a_run_cancelled_while_no_supervisor_lives_is_ended_by_the_next(site: Site) -> None:
    """§2: the request to the shim is repeated until it has ended; later wakes are not meant."""
    wake = working_agent(site)
    run_id = site.the_run()["id"]
    site.db.write(lambda tx: cancel_run(tx, runs.by_id(tx, run_id), reason="cancelled by the user"))
    later = site.wake("bot")
    site.go.touch()  # for the later one; the first may end by itself now, which counts as success
    site.finish()
    state = site.demand_all_is_well(acknowledged=[wake, later])
    assert state.requests[wake]["ending"] in ("cancelled", "delivered")
    assert state.requests[later]["ending"] == "delivered"
    assert state.requests[later]["run_id"] != run_id


def test_an_agent_archived_while_no_supervisor_lives_ends_with_everything_that_it_does(site: Site) -> None:
    """§2: archiving cancels its requests, also those that would follow up later."""
    wake = working_agent(site)
    later = site.wake("bot")
    agent = site.db.read(agents.every)[0]
    site.db.write(lambda tx: archive_agent(tx, agent))
    site.finish()
    state = site.demand_all_is_well(acknowledged=[wake, later])
    assert [state.requests[w]["reason"] for w in (wake, later)] == ["agent_gone", "agent_gone"]
    assert not (site.folder / "lines.ended").exists()
