"""Every command: its help, and with --json exactly one document on stdout and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
import typer

from kandev_sched.interfaces.cli.app import TABLE, run

from .support import Sched, with_agent

# One use of each command that prints; {names} are filled in from the example. Lists give a list.
LISTS = [
    "workspace list",
    "project list",
    "agent list",
    "profile list",
    "executor list",
    "routine list",
    "routine runs review",
    "trigger list",
    "trigger next {trigger}",
    "task list",
    "run list",
    "next",
    "inspect runs",
    "inspect wakeups",
    "inspect queue",
    "inspect routine-runs",
    "inspect sessions",
    "inspect activity",
    "routine history review",
    "calendar list",
    "principal list",
    "doctor",
    "routine backfill review --from 2026-11-01T00:00:00Z --to 2026-11-02T00:00:00Z --dry-run",
]
OBJECTS = [
    "init",
    "fire review",
    "wake coder --reason look",
    "workspace add other",
    "workspace show",
    "workspace set --tz Asia/Shanghai",
    "workspace pause",
    "workspace resume",
    "project add website",
    "agent add tester --command true",
    "agent show coder",
    "agent set coder --cooldown 1m",
    "agent pause coder",
    "agent stop coder",
    "agent resume coder",
    "agent archive coder --dry-run",
    "agent archive coder --yes",
    "profile add shared --command true",
    "profile show coder",
    "profile set coder --timeout 5m",
    "profile delete spare --dry-run",
    "profile delete spare --yes",
    "executor show local",
    "routine add nightly --agent coder --cron '0 9 * * *' --tz Europe/Berlin",
    "routine show review",
    "routine set review --description x",
    "routine pause review",
    "routine resume review",
    "routine archive review --dry-run",
    "routine archive review --yes",
    "routine delete review --yes",
    "trigger add review --cron '*/5 * * * *'",
    "trigger show {trigger}",
    "trigger set {trigger} --tz Asia/Tokyo",
    "trigger disable {trigger}",
    "trigger enable {trigger}",
    "trigger delete {trigger} --dry-run",
    "trigger delete {trigger} --yes",
    "task add 'Mend the roof'",
    "task show {task}",
    "task assign {task} coder",
    "task move {task} done",
    "run show {run}",
    "run explain {run}",
    "run logs {run}",
    "run cancel {run}",
    "inspect run {run}",
    "inspect db",
    "config check",
    "config show",
    "config path",
    "cron explain '*/5 * * * *'",
    "version",
    "status",
    "workspace enable",
    "workspace disable",
    "routine rollback review --to 1",
    "routine diff review",
    "workspace member ci --role viewer",
    "calendar add closed --date 2026-12-25",
    "calendar show holidays",
    "calendar set holidays --date 2026-12-26",
    "calendar delete holidays --dry-run",
    "calendar delete holidays --yes",
    "principal add deputy",
    "principal enable ci",
    "principal disable ci",
]
SILENT = {"serve"}


def commands() -> Iterator[list[str]]:
    """The words of every command."""
    for noun, lazy in TABLE.items():
        command: Any = typer.main.get_command(import_module(f"kandev_sched.interfaces.cli.{lazy.module}").app)
        if hasattr(command, "commands"):
            yield from ([noun, verb] for verb in command.commands)
        else:
            yield [noun]


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> tuple[Sched, dict[str, str]]:
    """A database with one of everything, never changed: the cases use copies."""
    sched = with_agent(Sched(tmp_path_factory.mktemp("example")), command="true")
    assert sched("profile", "add", "spare", "--command", "true").status == 0
    trigger = sched.json("trigger", "add", "review", "--cron", "0 9 * * *")["id"]
    assert sched("routine", "set", "review", "--description", "Look at it.").status == 0
    assert sched("principal", "add", "ci").status == 0
    assert sched("calendar", "add", "holidays", "--date", "2026-12-25").status == 0
    task = sched.json("task", "add", "Paint the door")["id"]
    run_id = sched.json("fire", "review")["run"]["id"]
    return sched, {"trigger": trigger, "task": task, "run": run_id}


@pytest.mark.parametrize("words", [[], *[[noun] for noun in TABLE], *commands()], ids=" ".join)
def test_help_is_printed_by(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*words, "--help"]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith(" ".join(["Usage: sched", *words]).rstrip())
    assert shown.err == ""


def test_every_command_has_a_case_here() -> None:
    cases = {tuple(case.split()[:2]) for case in LISTS + OBJECTS}
    missing = [
        words for words in commands() if not {tuple(words), (*words[:1],)} & {c[: len(words)] for c in cases}
    ]
    assert [words for words in missing if words[0] not in SILENT] == []


@pytest.mark.parametrize("case", LISTS + OBJECTS)
def test_exactly_one_document_is_printed_by(
    example: tuple[Sched, dict[str, str]],
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    case: str,
) -> None:
    import shlex
    import shutil

    sched, names = example
    shutil.copy(sched.db, tmp_path / "sched.db")
    monkeypatch.chdir(tmp_path)
    for name in ("SCHED_DB", "SCHED_CONFIG", "SCHED_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    words = [word.format(**names) for word in shlex.split(case)]
    status = run(["--db", str(tmp_path / "sched.db"), *words, "--json"])
    shown = capsys.readouterr()
    assert status == (1 if case == "status" else 0), shown.err
    document = json.loads(shown.out)
    assert isinstance(document, list if case in LISTS else dict)
    assert shown.out.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ["--json", "agent", "list"],
        ["agent", "--json", "list"],
        ["agent", "list", "--json"],
        ["agent", "list", "--json", "--db={db}"],
        ["agent", "list", "--db", "{db}", "--json"],
    ],
    ids=" ".join,
)
def test_global_options_stand_anywhere(ready: Sched, words: list[str]) -> None:
    done = ready(*(word.format(db=ready.db) for word in words))
    assert [agent["name"] for agent in json.loads(done.out)] == ["coder"]


def test_the_environment_names_the_workspace_and_a_flag_wins(ready: Sched) -> None:
    ready.json("workspace", "add", "other")
    assert json.loads(ready("agent", "list", "--json", env={"SCHED_WORKSPACE": "other"}).out) == []
    both = ready("agent", "list", "--json", "--workspace", "default", env={"SCHED_WORKSPACE": "other"})
    assert len(json.loads(both.out)) == 1


@pytest.mark.parametrize("word", ["show", "name", "id", "prefix"])
def test_a_thing_is_named_by_its_name_its_id_or_the_beginning_of_its_id(ready: Sched, word: str) -> None:
    agent = ready.json("agent", "show", "coder")
    named = {"name": "coder", "id": agent["id"], "prefix": agent["id"][:-4], "show": "coder"}[word]
    assert ready.json("agent", "show", named)["id"] == agent["id"]


def test_names_stand_beside_ids(ready: Sched) -> None:
    routine = ready.json("routine", "show", "review")
    assert (routine["agent"], routine["workspace"]) == ("coder", "default")
    occurrence = ready.json("fire", "review")["routine_run"]
    assert occurrence["routine"] == "review"


def test_a_failure_with_json_is_one_object_on_stderr_and_nothing_on_stdout(ready: Sched) -> None:
    for words in (["agent", "show", "nobody"], ["agent", "explode"], ["agent", "add"], ["fire"], []):
        done = ready(*words, "--json")
        assert done.status in (2, 3)
        assert done.out == ""
        assert set(json.loads(done.err)["error"]) == {"code", "message", "hint"}
