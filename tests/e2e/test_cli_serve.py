"""`serve` as a process: its log, its end, and that there is one of it."""

from __future__ import annotations

import json
import re
import signal

from .support import Sched, wait_until

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (DEBUG|INFO|WARNING|ERROR|CRITICAL) .+")


def test_until_idle_carries_out_what_is_queued_and_ends_with_0(ready: Sched) -> None:
    run_id = ready.json("fire", "review")["run"]["id"]
    done = ready("serve", "--until-idle")
    assert done.status == 0
    assert ready.json("run", "show", run_id)["status"] == "finished"


def test_the_log_is_on_stderr_one_line_a_record(ready: Sched) -> None:
    for words in (["serve", "--until-idle"], ["serve", "--until-idle", "--json"]):
        done = ready(*words)
        assert done.out == ""
        lines = done.err.splitlines()
        assert all(LINE.fullmatch(line) for line in lines), done.err
        assert lines[-1].endswith("Graceful shutdown complete")


def test_quiet_logs_nothing_when_all_is_well(ready: Sched) -> None:
    assert ready("serve", "--until-idle", "--quiet").err == ""


def test_a_second_supervisor_ends_with_4_and_names_the_first(ready: Sched) -> None:
    with ready.serving("--no-http") as first:
        done = ready("serve", "--json")
        assert done.status == 4
        error = json.loads(done.err.splitlines()[-1])["error"]
        assert error["code"] == "supervised"
        assert f"pid {first.pid}, since " in error["message"]
        assert first.poll() is None


def test_sigint_stops_it_as_well(ready: Sched) -> None:
    with ready.start("serve") as process:
        wait_until(ready.is_supervised)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 0
    assert said.splitlines()[-1].endswith("Graceful shutdown complete")


def test_it_makes_the_database_on_first_use(sched: Sched) -> None:
    assert sched("serve", "--until-idle").status == 0
    assert sched("status").status == 0


def test_status_names_the_supervisor_and_is_0_while_all_is_well(ready: Sched) -> None:
    with ready.serving() as process:
        status = ready.json("status")
        assert status["supervisor"]["pid"] == process.pid
        assert status["supervisor"]["is_running"] is True
        assert status["problems"] == []
    assert ready.json("status")["supervisor"]["is_running"] is False


def test_status_is_1_when_something_waits_for_a_supervisor(ready: Sched) -> None:
    ready("fire", "review")
    done = ready("status")
    assert done.status == 1
    assert "sched serve" in done.out


def test_logs_are_followed_to_the_end_of_the_run(sched: Sched) -> None:
    from .support import with_agent

    gate = sched.home / "go"
    with_agent(sched, command=f"sh -c 'echo first; until [ -e {gate} ]; do sleep 0.05; done; echo last'")
    with sched.serving():
        run_id = sched.json("fire", "review")["run"]["id"]
        wait_until(lambda: "first" in sched("run", "logs", run_id).out)
        following = sched.start("run", "logs", run_id, "--follow")
        gate.touch()
        out, _ = following.communicate(timeout=30)
    assert out == "first\nlast\n"
    assert following.returncode == 0


def test_inspect_run_shows_prompt_output_steps_and_wakeups(ready: Sched) -> None:
    run_id = ready.json("fire", "review")["run"]["id"]
    ready("serve", "--until-idle", "--quiet")
    whole = ready.json("inspect", "run", run_id)
    assert whole["prompt"].startswith("You are coder")
    assert whole["output_tail"].endswith("done\n")
    assert [step["name"] for step in whole["steps"]][:2] == ["claim", "guard"]
    assert len(whole["steps"]) == 12
    assert all(step["verdict"] and step["duration_ms"] >= 0 for step in whole["steps"])
    assert [wakeup["ending"] for wakeup in whole["wakeups"]] == ["delivered"]


def test_a_held_run_is_explained(ready: Sched) -> None:
    ready("agent", "pause", "coder", "--reason", "holidays")
    run_id = ready.json("fire", "review")["run"]["id"]
    assert ready.json("run", "explain", run_id)["sentence"] == "held: agent coder is paused (holidays)"
    assert ready.json("inspect", "queue")[0]["waiting_for"] == "held: agent coder is paused (holidays)"


def test_an_agent_that_reports_half_a_character_holds_nothing_up(sched: Sched) -> None:
    from .support import with_agent

    agent = sched.home / "agent"
    agent.write_text('#!/bin/sh\necho \'{"summary": "half \\ud800 done"}\'\n')
    agent.chmod(0o755)
    with_agent(sched, command=str(agent))
    run_id = sched.json("fire", "review")["run"]["id"]
    assert sched("serve", "--until-idle").status == 0
    assert sched.json("inspect", "run", run_id)["result"] == {"summary": "half ? done"}
