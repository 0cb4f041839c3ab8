"""`fire` and `wake`: what they print, what they exit with, and how they wait."""

from __future__ import annotations

import json
import re

import pytest

from .support import Sched, wait_until, with_agent

RUN_KEYS = [
    *("id", "agent", "agent_id", "workspace", "reason", "source", "status", "task_id", "routine_id"),
    *("coalesced_count", "retry_count", "requested_at", "eligible_at", "claimed_at", "started_at"),
    *("finished_at", "scheduled_retry_at", "cancel_reason", "error", "exit_code", "cost_cents"),
    "follow_up_of",
]


def test_fire_prints_the_six_things_as_one_object(ready: Sched) -> None:
    fired = ready.json("fire", "review", "--var", "branch=topic")
    assert set(fired) == {"routine_run", "wakeup", "run", "task", "duplicate", "supervisor_running"}
    assert fired["routine_run"]["trigger_payload"] == {"branch": "topic"}
    assert fired["run"]["status"] == "queued"
    assert fired["wakeup"]["run_id"] == fired["run"]["id"]
    assert fired["task"] is None
    assert fired["duplicate"] is False
    assert fired["supervisor_running"] is False


def test_a_run_has_the_keys_of_the_contract_everywhere(ready: Sched) -> None:
    fired = ready.json("fire", "review")["run"]
    listed = ready.json("inspect", "runs")[0]
    shown = ready.json("run", "show", fired["id"])
    whole = ready.json("inspect", "run", fired["id"])
    assert list(listed)[: len(RUN_KEYS)] == RUN_KEYS
    assert list(fired) == list(listed) == list(shown)
    assert list(whole)[: len(listed)] == list(listed)
    assert set(whole) - set(listed) == {"wakeups", "steps", "result", "prompt", "output_tail"}


def test_the_same_key_returns_the_first_fire(ready: Sched) -> None:
    first = ready.json("fire", "review", "--key", "build-17")
    again = ready.json("fire", "review", "--key", "build-17")
    assert again["duplicate"] is True
    assert again["routine_run"]["id"] == first["routine_run"]["id"]
    assert ready.rows()["routine_runs"] == 1


def test_instants_are_rfc_3339_in_utc(ready: Sched) -> None:
    run = ready.json("fire", "review")["run"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z", run["requested_at"])


def test_without_a_supervisor_it_says_that_the_run_waits(ready: Sched) -> None:
    assert "`sched serve`" in ready("fire", "review").err
    assert ready("fire", "review", "--quiet").err == ""


def test_with_a_supervisor_it_says_nothing_and_the_run_is_carried_out(ready: Sched) -> None:
    with ready.serving():
        fired = ready("fire", "review", "--json")
        assert fired.err == ""
        document = json.loads(fired.out)
        assert document["supervisor_running"] is True
        run_id = document["run"]["id"]
        wait_until(lambda: ready.json("run", "show", run_id)["status"] == "finished")


def test_wait_ends_with_0_when_the_agent_succeeded(ready: Sched) -> None:
    with ready.serving():
        done = ready("fire", "review", "--wait", "--json")
    assert done.status == 0
    document = json.loads(done.out)
    assert document["run"]["status"] == "finished"
    assert document["wakeup"]["ending"] == "delivered"
    assert document["routine_run"]["status"] == "done"


def test_wait_says_each_state_on_stderr_and_the_result_on_stdout(ready: Sched) -> None:
    with ready.serving():
        done = ready("fire", "review", "--wait")
    assert done.out.strip().endswith("finished")
    assert len(done.out.splitlines()) == 1
    assert done.err.splitlines()[-1].endswith("finished")


def test_wait_ends_with_7_when_the_command_does_not_exist(sched: Sched) -> None:
    with_agent(sched, command="/nowhere/agent")
    with sched.serving():
        done = sched("fire", "review", "--wait", "--json")
    assert done.status == 7
    assert json.loads(done.out)["run"]["status"] == "failed"


def test_wait_ends_with_7_when_the_run_is_cancelled(ready: Sched) -> None:
    waiting = ready.start("fire", "review", "--wait", "--json")
    wait_until(lambda: bool(ready.json("inspect", "runs")))
    ready.json("run", "cancel", ready.json("inspect", "runs")[0]["id"])
    out, _ = waiting.communicate(timeout=20)
    assert waiting.returncode == 7
    assert json.loads(out)["wakeup"]["ending"] == "cancelled"


def test_a_timeout_ends_with_7_and_prints_the_present_state(ready: Sched) -> None:
    done = ready("fire", "review", "--wait", "--timeout", "1s", "--json")
    assert done.status == 7
    assert json.loads(done.out)["run"]["status"] == "queued"


def test_a_coalesced_request_is_followed_to_the_run_that_serves_it(sched: Sched) -> None:
    gate = sched.home / "go"
    with_agent(sched, command=f"sh -c 'cat; until [ -e {gate} ]; do sleep 0.05; done'")
    with sched.serving():
        first = sched.json("fire", "review")["run"]["id"]
        wait_until(lambda: sched.json("run", "show", first)["started_at"] is not None)
        waiting = sched.start("fire", "review", "--wait", "--json")
        wait_until(lambda: sched.rows()["wakeup_requests"] == 2)
        gate.touch()
        out, said = waiting.communicate(timeout=30)
    assert waiting.returncode == 0, said
    document = json.loads(out)
    assert document["wakeup"]["status"] == "coalesced"
    assert document["run"]["follow_up_of"] == first


def test_wait_inside_a_run_is_refused_and_fires_nothing(ready: Sched) -> None:
    done = ready("fire", "review", "--wait", env={"SCHED_RUN_ID": "run_1"})
    assert done.status == 4
    assert ready.rows()["routine_runs"] == 0


def test_a_timeout_without_wait_is_refused(ready: Sched) -> None:
    assert ready("fire", "review", "--timeout", "1s").status == 2


def test_wake_records_who_asked_and_why(ready: Sched) -> None:
    woken = ready.json("wake", "coder", "--reason", "look", "--payload", '{"build": 17}')
    assert woken["wakeup"]["source"] == "user"
    assert woken["wakeup"]["payload"]["context"] == {"reason": "look", "build": 17}
    assert set(woken) == {"wakeup", "run", "duplicate", "supervisor_running"}


def test_wake_as_self_carries_the_reason_and_the_payload(ready: Sched) -> None:
    woken = ready.json("wake", "coder", "--reason", "later", "--as-self", "--payload", "{}")
    assert woken["wakeup"]["source"] == "self"
    assert woken["wakeup"]["payload"] == {"reason": "later", "payload": {}}


@pytest.mark.parametrize("module", ["typer", "rich", "msgspec", "typing", "datetime", "threading", "logging"])
def test_the_short_way_does_not_import(ready: Sched, module: str) -> None:
    done = ready("fire", "review", env={"PYTHONPROFILEIMPORTTIME": "1"})
    assert done.status == 0
    imported = {line.rpartition("|")[2].strip() for line in done.err.splitlines()}
    assert "kandev_sched.operations.firing" in imported
    assert module not in imported


def test_the_short_way_does_not_import_schedules(ready: Sched) -> None:
    done = ready("fire", "review", env={"PYTHONPROFILEIMPORTTIME": "1"})
    imported = {line.rpartition("|")[2].strip() for line in done.err.splitlines()}
    assert not {"kandev_sched.policy.cron", "kandev_sched.policy.zones"} & imported
