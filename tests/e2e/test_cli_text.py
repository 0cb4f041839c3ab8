"""What people read: tables, times on their clock, what is said when a thing is made, shell completion."""

from __future__ import annotations

import os
import pty
import re
import subprocess

import pytest

from .support import SCHED, Sched


def on_a_terminal(
    sched: Sched, *words: str, answer: str = "", env: dict[str, str] | None = None
) -> tuple[int, str]:
    """Run a command whose three streams are one terminal; its exit status and all that it showed."""
    master, slave = pty.openpty()
    with subprocess.Popen(
        [SCHED, *words],
        env={**sched.env, "TERM": "xterm-256color", "COLUMNS": "200", **(env or {})},
        cwd=sched.home,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    ) as process:
        os.close(slave)
        os.write(master, answer.encode())
        shown = b""
        while True:
            try:
                shown += os.read(master, 65536)
            except OSError:  # the other end is closed
                break
    os.close(master)
    return process.returncode, shown.decode()


def test_a_pipe_gets_no_colour_and_a_line_a_thing(ready: Sched) -> None:
    ready("fire", "review")
    shown = ready("inspect", "runs").out
    assert "\x1b" not in shown
    assert len(shown.splitlines()) == 2


def test_a_terminal_gets_colour_unless_it_is_not_wanted(ready: Sched) -> None:
    ready("agent", "pause", "coder")
    assert "\x1b[33m" in on_a_terminal(ready, "agent", "list")[1]
    assert "\x1b[33m" not in on_a_terminal(ready, "agent", "list", "--no-color")[1]
    assert "\x1b[33m" not in on_a_terminal(ready, "agent", "list", env={"NO_COLOR": "1"})[1]


def test_markup_in_a_name_is_shown_as_it_is(ready: Sched) -> None:
    ready("task", "add", "[red]x[/red] :smile:")
    assert "[red]x[/red] :smile:" in ready("task", "list").out


@pytest.mark.parametrize(
    ("words", "env", "offset"),
    [
        ([], {}, r"\+00:00"),
        ([], {"TZ": "Asia/Shanghai"}, r"\+08:00"),
        (["--utc"], {"TZ": "Asia/Shanghai"}, r"\+00:00"),
        (["--show-tz", "Asia/Kolkata"], {"TZ": "Asia/Shanghai"}, r"\+05:30"),
    ],
)
def test_times_are_shown_on_the_clock_that_was_asked_for(
    ready: Sched, words: list[str], env: dict[str, str], offset: str
) -> None:
    ready("fire", "review")
    shown = ready("inspect", "runs", *words, env=env).out
    assert re.search(rf"\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d {offset}", shown), shown


def test_the_zone_of_the_workspace_is_used_when_it_has_one(ready: Sched) -> None:
    ready("workspace", "set", "--tz", "Asia/Tokyo")
    ready("fire", "review")
    assert "+09:00" in ready("inspect", "runs").out


def test_a_new_schedule_says_its_zone_and_the_next_five_fires_on_both_clocks(ready: Sched) -> None:
    words = ("trigger", "add", "review", "--cron", "0 9 * * *", "--tz", "Asia/Tokyo")
    shown = ready(*words, env={"TZ": "Asia/Shanghai"}).out
    fires = re.findall(r"09:00:00 \+09:00 Asia/Tokyo = \d{4}-\d\d-\d\d 08:00:00 \+08:00 here", shown)
    assert len(fires) == 5


def test_the_default_zone_is_said_aloud(ready: Sched) -> None:
    shown = ready("routine", "add", "nightly", "--agent", "coder", "--cron", "0 9 * * *").out
    assert "UTC time (no --tz was given)" in shown


@pytest.mark.parametrize(
    ("cron", "zone", "is_said"),
    [
        ("*/5 * * * *", "Europe/Berlin", True),
        ("0 * * * *", "America/New_York", True),
        ("30 2 * * *", "Europe/Berlin", False),
        ("0 9 * * *", "Europe/Berlin", False),
        ("*/5 9-17 * * *", "Europe/Berlin", False),
        ("*/5 * * * *", "UTC", False),
        ("*/5 * * * *", "Asia/Shanghai", False),
    ],
)
def test_a_schedule_that_falls_silent_in_a_repeated_hour_says_so(
    sched: Sched, cron: str, zone: str, is_said: bool
) -> None:
    assert ("repeats" in sched("cron", "explain", cron, "--tz", zone).out) is is_said


def test_a_new_agent_says_where_it_works_when_nothing_was_said(sched: Sched) -> None:
    done = sched("agent", "add", "coder", "--command", "true")
    assert str(sched.home) in done.err
    assert sched.json("agent", "show", "coder")["cwd"] == str(sched.home)


def test_quiet_prints_only_what_was_asked_for(ready: Sched) -> None:
    done = ready("agent", "pause", "coder", "--quiet")
    assert (done.status, done.out, done.err) == (0, "", "")
    assert ready("config", "path", "--quiet").out != ""
    assert "coder" in ready("agent", "list", "--quiet").out


def test_init_twice_is_harmless_and_never_overwrites_a_config(sched: Sched) -> None:
    config = sched.home / ".config" / "kandev-sched" / "config.toml"
    assert sched("init", "--demo").status == 0
    config.write_text(config.read_text() + "\n[supervisor]\nmax_sessions = 3\n")
    before = sched.rows()
    again = sched("init", "--demo")
    assert again.status == 0
    assert "Next:" in again.out
    assert sched.rows() == before
    assert sched.json("config", "show")["max_sessions"] == 3


def test_the_example_in_a_new_config_is_right_when_its_comments_are_taken_away(sched: Sched) -> None:
    assert sched("init").status == 0
    config = sched.home / ".config" / "kandev-sched" / "config.toml"
    lines = config.read_text().splitlines()
    wanted = [line[2:] for line in lines if re.match(r"# (\[|\w+ = )", line)]
    assert len(wanted) >= 10
    config.write_text("\n".join(wanted))
    checked = sched("config", "check")
    assert checked.status == 0, checked
    defaults = sched.json("config", "show", status=0)
    config.unlink()
    assert {**sched.json("config", "show"), "config_path": None, "database": None} == {
        **defaults,
        "config_path": None,
        "database": None,
    }


def test_the_demonstration_runs(sched: Sched) -> None:
    assert sched("init", "--demo").status == 0
    with sched.serving():
        assert sched("fire", "demo-by-hand", "--wait").status == 0
    run_id = sched.json("run", "list")[0]["id"]
    assert "Hello from the demo agent" in sched("run", "logs", run_id).out


def test_deleting_asks_on_a_terminal(ready: Sched) -> None:
    status, shown = on_a_terminal(ready, "routine", "delete", "review", answer="n\n")
    assert status == 1
    assert "Archive routine review?" in shown
    assert len(ready.json("routine", "list")) == 1
    status, _ = on_a_terminal(ready, "routine", "delete", "review", answer="y\n")
    assert status == 0
    assert ready.json("routine", "list") == []


def test_deleting_a_routine_keeps_its_occurrences_and_frees_its_name(ready: Sched) -> None:
    ready("fire", "review")
    deleted = ready.json("routine", "delete", "review", "--yes")
    assert deleted["status"] == "archived"
    assert ready.json("inspect", "routine-runs")[0]["status"] == "cancelled"
    assert ready("routine", "add", "review", "--agent", "coder").status == 0


def test_a_wait_on_a_terminal_shows_one_live_line(ready: Sched) -> None:
    with ready.serving():
        status, shown = on_a_terminal(ready, "fire", "review", "--wait")
    assert status == 0
    assert "finished" in shown
    assert "\x1b[2K" in shown


def completed(sched: Sched, line: str) -> tuple[list[str], str]:
    """What bash would offer at the end of the line."""
    words = line.split(" ")
    done = sched(
        env={
            "_SCHED_COMPLETE": "complete_bash",
            "COMP_WORDS": " ".join(words),
            "COMP_CWORD": str(len(words) - 1),
        }
    )
    assert done.status == 0
    return done.out.split(), done.err


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("sched ro", ["routine"]),
        ("sched agent pa", ["pause"]),
        ("sched agent add --ro", ["--role"]),
        ("sched agent add x --role co", ["coordinator"]),
        ("sched fire re", ["review"]),
        ("sched agent show c", ["coder"]),
        ("sched routine add x --agent c", ["coder"]),
        ("sched routine add x --tz Europe/Berl", ["Europe/Berlin"]),
        ("sched routine add x --concurrency sk", ["skip_if_active"]),
        ("sched workspace show d", ["default"]),
    ],
)
def test_completion_knows(ready: Sched, line: str, offered: list[str]) -> None:
    assert completed(ready, line) == (offered, "")


def test_completion_knows_ids(ready: Sched) -> None:
    run_id = ready.json("fire", "review")["run"]["id"]
    assert completed(ready, "sched run show run_") == ([run_id], "")


def test_completion_reads_the_database_that_was_typed(
    ready: Sched, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = Sched(tmp_path_factory.mktemp("other"))
    assert completed(other, f"sched fire --db {ready.db} re") == (["review"], "")
    assert completed(other, f"sched --db {ready.db} fire re") == (["review"], "")


def test_completion_never_complains_and_never_makes_a_file(sched: Sched) -> None:
    assert completed(sched, "sched fire re") == ([], "")
    sched.db.write_text("no database")
    assert completed(sched, "sched fire re") == ([], "")
    assert completed(sched, "sched fire 'unclosed") == ([], "")
    assert [
        path.name for path in sched.home.iterdir() if path.suffix != ".db" and path.suffix != ".gate"
    ] == []
