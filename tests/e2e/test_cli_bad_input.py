"""Bad input: an exit status, one clear sentence, no traceback, and nothing left behind."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .support import SCHED, Done, Sched, wait_until

# What is typed, the exit status, what the sentence or its hint says.
CASES = [
    ("routine add r --agent coder --cron '0 9 * * *' --tz Europe/Berln", 2, "Europe/Berlin"),
    ("routine add r --agent coder --cron '0 9 * * *' --tz EST", 2, "America/New_York"),
    ("routine add r --agent coder --tz Europe/Berlin", 2, "--cron"),
    ("routine add r --agent coder --cron '0 0 31 2 *'", 2, "never fires"),
    ("routine add r --agent coder --cron '0 0 9 * * ?'", 2, "quartz"),
    ("routine add r --agent coder --cron ''", 2, "five fields"),
    ("routine add r --agent codre", 3, "did you mean coder?"),
    ("routine add review --agent coder", 4, "'review'"),
    ("routine add a/b --agent coder", 2, "slash"),
    ("routine add r --agent coder --var 'a:colour'", 2, "NAME:TYPE"),
    ("routine add r --agent coder --var 'a:select'", 2, "options"),
    ("routine add r --agent coder --var 'a:number=x'", 2, "must be a number"),
    ("routine add r --agent coder --concurrency twice", 2, "skip_if_active"),
    ("routine add r --agent coder --catch-up-max 0", 2, "between 1 and 1000"),
    ("routine add r --agent coder --catch-up-max many", 2, "many"),
    ("trigger add review", 2, "--manual"),
    ("trigger add review --manual --cron '* * * * *'", 2, "--manual"),
    ("trigger show trg_0", 3, "trg_0"),
    ("agent add coder --command true", 4, "'coder'"),
    ("agent add '' --command true", 2, "not empty"),
    ("agent add ' x' --command true", 2, "blanks"),
    ("agent add --command true -- -x", 2, "option"),
    ("agent add x --command 'sh -c \"'", 2, "quot"),
    ("agent add x --command ''", 2, "empty"),
    ("agent add x --command true --profile coder", 2, "both"),
    ("agent add x --command true --cooldown soon", 2, "10s"),
    ("agent add x --command true --cooldown 9000000000d", 2, "hundred years"),
    ("agent add x --command true --cooldown 1000000s", 2, "cooldown is 1000000"),
    ("agent add x --command true --max-sessions 0", 2, "between 1 and 1000"),
    ("agent add x --command true --role king", 2, "king"),
    ("agent add x --command true --cwd /nowhere", 2, "/nowhere"),
    ("agent add x --command true --env A", 2, "NAME=VALUE"),
    ("agent add x --command true --env SCHED_A=1", 2, "SCHED_"),
    ("agent add x --command true --timeout 0s", 2, "timeout is 0"),
    ("agent show codre", 3, "did you mean coder?"),
    ("agent show ag_", 2, "beginning of several ids"),
    ("agent frobnicate", 2, "frobnicate"),
    ("agent", 2, "sched agent --help"),
    ("agnet list", 2, "agent"),
    ("fire reveiw", 3, "did you mean review?"),
    ("fire review --var branch", 2, "NAME=VALUE"),
    ("fire review --var colour=red", 2, "not a variable"),
    ("fire numbered --var count=many", 2, "must be a number"),
    ("fire numbered", 2, "--var count="),
    ("fire review --wait --timeout never", 2, "10s"),
    ("wake coder --reason x --payload '[1, 2]'", 2, "JSON object"),
    ("wake coder --reason x --payload '{'", 2, "JSON"),
    ('wake coder --reason x --payload \'{"a": "\\ud800"}\'', 2, "payload"),
    ("wake coder --reason x --task task_0", 3, "task_0"),
    ("run show run_nothing", 3, "run_nothing"),
    ("run explain nothing", 3, "nothing"),
    ("inspect runs --limit 0", 2, "--limit is 0"),
    ("inspect runs -n -3", 2, "--limit is -3"),
    ("inspect runs --since yesterday", 2, "1h30m"),
    ("inspect runs --status done", 2, "done"),
    ("inspect runs --agent codre", 3, "did you mean coder?"),
    ("next --in 1x", 2, "1x"),
    ("task add ''", 2, "title is empty"),
    ("task add 'a\nb'", 2, "one line"),
    ("task move task_0 DONE", 3, "task_0"),
    ("workspace show defualt", 3, "did you mean default?"),
    ("workspace add default", 4, "'default'"),
    ("workspace set --tz Nowhere", 2, "Nowhere"),
    ("agent list --workspace nowhere", 3, "nowhere"),
    ("agent list --show-tz Nowhere", 2, "Nowhere"),
    ("agent list --db", 2, "--db needs a value"),
    ("agent archive coder", 2, "--yes"),
    ("routine delete review", 2, "--yes"),
    ("profile delete coder", 2, "--yes"),
    ("profile delete coder --yes", 4, "in use"),
    ("cron explain '61 * * * *'", 2, "61"),
    ("cron explain", 2, "sched cron explain --help"),
    ("executor show lcoal", 3, "did you mean local?"),
]


@pytest.fixture(scope="module")
def stocked(tmp_path_factory: pytest.TempPathFactory) -> Sched:
    """A database that none of these commands may change."""
    sched = Sched(tmp_path_factory.mktemp("stocked"))
    sched("agent", "add", "coder", "--command", "true")
    sched("agent", "add", "tester", "--command", "true")
    sched("routine", "add", "review", "--agent", "coder", "--var", "branch:text=main")
    sched("routine", "add", "numbered", "--agent", "coder", "--var", "count:number!")
    return sched


def sentence_of(done: Done) -> str:
    """The one sentence; fails when there is more, or a traceback."""
    assert done.out == ""
    assert "Traceback" not in done.err
    first, *rest = done.err.splitlines()
    assert first.startswith("sched: ")
    assert len(rest) <= 1
    assert all(line.startswith("  hint: ") for line in rest)
    return done.err


@pytest.mark.parametrize(("typed", "status", "said"), CASES, ids=[case[0] for case in CASES])
def test_it_is_refused_with_one_sentence(stocked: Sched, typed: str, status: int, said: str) -> None:
    import shlex

    before = stocked.rows()
    done = stocked(*shlex.split(typed))
    assert said in sentence_of(done)
    assert done.status == status
    assert stocked.rows() == before


@pytest.mark.parametrize("bad", ["a\x1b[31mb", "a\x07", "a\nb", "a\u202eb", "x" * 100_000])
def test_a_name_that_cannot_be_shown_is_refused_and_never_reaches_the_terminal(
    stocked: Sched, bad: str
) -> None:
    done = stocked("agent", "add", bad, "--command", "true")
    assert done.status == 2
    assert "\x1b" not in done.err
    assert "\x07" not in done.err
    assert len(sentence_of(done)) < 1000


def test_a_name_of_ten_megabytes_is_refused_before_anything_is_written(stocked: Sched) -> None:
    from kandev_sched.domain.errors import Invalid
    from kandev_sched.policy.naming import checked_name

    with pytest.raises(Invalid, match="10000000 characters"):
        checked_name("agent", "x" * 10_000_000)


def test_bytes_that_are_not_text_are_refused(stocked: Sched) -> None:
    for words in (
        [b"agent", b"add", b"\xff", b"--command", b"true"],
        [b"agent", b"show", b"\xff"],
        [b"fire", b"\xff"],
    ):
        ended = subprocess.run(
            [SCHED.encode(), *words], env=stocked.env, capture_output=True, timeout=60, check=False
        )
        assert ended.returncode in (2, 3)
        assert b"Traceback" not in ended.stderr


def test_a_command_that_does_not_exist_is_a_warning(sched: Sched) -> None:
    done = sched("agent", "add", "ghost", "--command", "no-such-program --now")
    assert done.status == 0
    assert "no-such-program" in done.err
    assert "warning" in done.err


def test_reading_a_database_that_does_not_exist_says_so_and_makes_none(sched: Sched) -> None:
    done = sched("agent", "list")
    assert done.status == 3
    assert "there is no database at" in sentence_of(done)
    assert os.listdir(sched.home) == []


def test_an_unknown_config_key_is_named(sched: Sched) -> None:
    config = sched.home / "config.toml"
    config.write_text("[supervisor]\nmax_sesions = 3\n")
    for words in (["config", "check"], ["agent", "list"], ["fire", "review"]):
        done = sched(*words, "--config", str(config))
        assert done.status == 78
        assert "max_sesions" in sentence_of(done)


def test_a_config_that_is_named_and_missing_is_refused(sched: Sched) -> None:
    assert sched("agent", "list", "--config", "nowhere.toml").status == 78


@pytest.mark.parametrize(
    "words", [["agent", "list"], ["fire", "review"], ["serve", "--until-idle"]], ids=" ".join
)
def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(sched: Sched, words: list[str]) -> None:
    sched.db.write_bytes(b"My diary. " * 500)
    before = fingerprint(sched.db)
    done = sched(*words)
    assert done.status == 78
    assert "is not a SQLite database" in sentence_of(done)
    assert fingerprint(sched.db) == before


@pytest.mark.parametrize(
    "words", [["agent", "list"], ["fire", "review"], ["serve", "--until-idle"]], ids=" ".join
)
def test_the_database_of_another_program_is_refused_and_left_as_it_is(sched: Sched, words: list[str]) -> None:
    other = sqlite3.connect(sched.db)
    other.execute("CREATE TABLE songs (title)")
    other.close()
    before = fingerprint(sched.db)
    done = sched(*words)
    assert done.status == 78
    assert "another program" in sentence_of(done)
    assert fingerprint(sched.db) == before


@pytest.mark.parametrize(
    "words", [["agent", "list"], ["fire", "review"], ["serve", "--until-idle"]], ids=" ".join
)
def test_a_newer_schema_is_refused_and_left_as_it_is(ready: Sched, words: list[str]) -> None:
    newer = sqlite3.connect(ready.db)
    newer.execute("PRAGMA user_version=999")
    newer.commit()
    newer.close()
    before = fingerprint(ready.db)
    done = ready(*words)
    assert done.status == 78
    assert "999" in sentence_of(done)
    assert fingerprint(ready.db) == before


def fingerprint(path: Path) -> tuple[bytes, int]:
    """Its bytes and when they were last written."""
    return path.read_bytes(), path.stat().st_mtime_ns


def test_a_place_that_cannot_be_written_is_named(sched: Sched) -> None:
    (sched.home / "file").touch()
    done = sched("agent", "add", "x", "--command", "true", "--db", str(sched.home / "file" / "sched.db"))
    assert done.status == 6
    assert "cannot open the database" in sentence_of(done)


def test_a_directory_is_no_database(sched: Sched) -> None:
    sched.db.mkdir()
    assert sched("agent", "list").status in (6, 78)


def test_a_closed_pipe_ends_quietly(ready: Sched) -> None:
    for _ in range(3):
        ready("fire", "review")
    for words in ("inspect wakeups", "inspect wakeups --json", "--help", "fire review --json"):
        line = f"{SCHED} {words} | true; echo ${{PIPESTATUS[0]}}"
        ended = subprocess.run(
            ["bash", "-c", line], env=ready.env, cwd=ready.home, capture_output=True, text=True, check=False
        )
        assert ended.stdout == "0\n"
        assert "Broken" not in ended.stderr
        assert "Traceback" not in ended.stderr


def test_output_that_cannot_be_written_is_an_error(ready: Sched) -> None:
    for words in ("agent list", "agent list --json", "fire review", "--help", "version"):
        line = f"{SCHED} {words} > /dev/full"
        ended = subprocess.run(
            ["bash", "-c", line], env=ready.env, cwd=ready.home, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 6
        assert "No space left on device" in ended.stderr
        assert "Traceback" not in ended.stderr
        assert "Exception ignored" not in ended.stderr


def test_closed_standard_streams_are_no_reason_to_fail(ready: Sched) -> None:
    for words in ("agent list", "fire review", "agent show nobody", "version"):
        line = f"{SCHED} {words} >&- 2>&- <&-; echo $?"
        ended = subprocess.run(
            ["bash", "-c", line], env=ready.env, cwd=ready.home, capture_output=True, text=True, check=False
        )
        assert ended.stdout == ("3\n" if "nobody" in words else "0\n")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of half a megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"this machine does not let us mount a small disk: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_is_named_and_what_was_written_is_kept(sched: Sched, small_disk: Path) -> None:
    full = Sched(small_disk)
    assert full("agent", "add", "coder", "--command", "true").status == 0
    statuses = []
    for number in range(50):
        done = full("task", "add", f"task {number}", "--description", "x" * 20_000)
        statuses.append(done.status)
        if done.status:
            break
    assert statuses[-1] == 6, done
    assert "disk is full" in sentence_of(done) or "cannot be" in sentence_of(done)
    kept = full.json("task", "list")
    assert len(kept) == statuses.count(0)


def test_an_interrupted_wait_ends_with_130_and_no_word(ready: Sched) -> None:
    import signal

    waiting = ready.start("fire", "review", "--wait", "--quiet")
    wait_until(lambda: ready.rows()["runs"] == 1)
    waiting.send_signal(signal.SIGINT)
    out, said = waiting.communicate(timeout=20)
    assert (waiting.returncode, out, said) == (130, "", "")
