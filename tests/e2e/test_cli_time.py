"""What a user sees of time on the command line: previews, listings, refusals, calendars, revisions, doctor.

Commands that end by themselves are carried out in this process, which is ten times faster than one each.
"""

from __future__ import annotations

import io
import os
import re
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import chdir, redirect_stderr, redirect_stdout
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest import mock

import pytest

from kandev_sched.interfaces.cli.app import run

from .support import Done, Sched, with_agent

BERLIN = "Europe/Berlin"


class Here(Sched):
    """The same user; each command runs in this process, with the user's environment and place."""

    def __call__(self, *words: str, stdin: str | None = "", env: Mapping[str, str] | None = None) -> Done:
        if words[0] == "serve":
            return super().__call__(*words, stdin=stdin, env=env)
        out, err = io.StringIO(), io.StringIO()
        place = {**self.env, **(env or {})}
        with mock.patch.dict(os.environ, place, clear=True), chdir(self.home):
            time.tzset()
            with (
                redirect_stdout(out),
                redirect_stderr(err),
                mock.patch("sys.stdin", io.StringIO(stdin or "")),
            ):
                status = run(list(words))
        return Done(status, out.getvalue(), err.getvalue())


@pytest.fixture
def user(tmp_path: Path) -> Iterator[Sched]:
    """A user with the agent `coder` and no routine that fires by itself."""
    yield with_agent(Here(tmp_path), "true")
    time.tzset()


def add(sched: Sched, name: str, *words: str, status: int = 0, **options) -> str:
    """Add a routine; what was said."""
    done = sched("routine", "add", name, "--agent", "coder", *words, **options)
    assert done.status == status, done
    assert "Traceback" not in done.out + done.err
    return done.out + done.err


def trigger_of(sched: Sched, routine: str) -> dict:
    (trigger,) = sched.json("trigger", "list", "--routine", routine)
    return trigger


def change(sched: Sched, sql: str) -> None:
    """What a hand writes."""
    connection = sqlite3.connect(sched.db)
    connection.execute(sql)
    connection.commit()
    connection.close()


def test_tz_08_a_forgotten_zone_is_said_at_creation_and_seen_in_every_listing(user: Sched) -> None:
    """Default UTC is said, with what it is on the user's clock; listings have zone and offset."""
    said = add(user, "brief", "--cron", "30 2 * * *", env={"TZ": "Asia/Shanghai"})
    assert "UTC time (no --tz was given)" in said
    assert len(re.findall(r"02:30:00 \+00:00 UTC = \S+ 10:30:00 \+08:00 here", said)) == 5
    told = user("trigger", "list", "--show-tz", "Asia/Shanghai").out
    assert re.search(r"30 2 \* \* \*\s+UTC\s+\S+ 10:30:00 \+08:00", told)
    assert "(no --tz was given)" not in add(user, "told", "--cron", "30 2 * * *", "--tz", "UTC")


def test_tz_02_the_gap_policy_is_shown(user: Sched) -> None:
    """`trigger show` prints the policies; the coming slots name the one that the clock skips."""
    add(user, "vital", "--cron", "30 2 * * *", "--tz", "America/New_York")
    trigger = trigger_of(user, "vital")
    shown = user("trigger", "show", trigger["id"]).out
    assert re.search(r"on gap\s+skip", shown)
    assert re.search(r"on repeat\s+first", shown)
    rows = user.json("trigger", "next", trigger["id"], "--from", "2027-03-13T12:00:00Z", "-n", "2")
    assert [(row["at"], row["skipped_reason"]) for row in rows] == [
        ("2027-03-14T07:00:00Z", "2027-03-14 02:30 does not exist in America/New_York: the clock skips it"),
        ("2027-03-15T06:30:00Z", None),
    ]


@pytest.mark.parametrize(
    ("zone", "hint"),
    [
        ("CST", ""),
        ("GMT+8", "Etc/GMT-8"),
        ("utc", "UTC"),
        ("Asia/Shangai", "Asia/Shanghai"),
        ("../../etc/passwd", ""),
    ],
)
def test_tz_09_what_is_no_iana_zone_ends_with_2_and_a_suggestion(user: Sched, zone: str, hint: str) -> None:
    """No traceback, nothing added."""
    said = add(user, "r", "--cron", "0 9 * * *", "--tz", zone, status=2)
    assert zone in said
    assert hint in said
    assert [row["name"] for row in user.json("routine", "list")] == ["review"]


def test_tz_15_the_hole_of_the_repeated_hour_is_said_when_the_schedule_is_made(user: Sched) -> None:
    """A note with the date, and none when there is no hole."""
    assert "nothing fires in the repeated time" in add(user, "beat", "--cron", "*/5 * * * *", "--tz", BERLIN)
    assert "Note" not in add(user, "beat utc", "--cron", "*/5 * * * *")
    words = ("--cron", "*/5 * * * *", "--tz", BERLIN, "--on-repeat", "both")
    assert "Note" not in add(user, "beat both", *words)
    assert "Note" not in add(user, "daily", "--cron", "30 2 * * *", "--tz", BERLIN)


def test_tz_16_a_cron_expression_is_explained_with_its_next_fires_or_why_not(user: Sched) -> None:
    """In words, five fires with the weekday rule visible; what is refused says why and what to write."""
    done = user("cron", "explain", "0 9 * * 7", "--tz", BERLIN)
    assert (done.status, done.out.count(BERLIN)) == (0, 6)
    assert "Sunday" in done.out
    found = user.json("cron", "explain", "0 9 */2 * 1", "-n", "9")
    days = [datetime.fromisoformat(at) for at in found["next_at"]]
    assert all(day.weekday() == 0 and day.day % 2 == 1 for day in days)
    for expression, why in (
        ("0 0 30 2 *", "never fires"),
        ("0 0 9 * * MON", "quartz"),
        ("61 * * * *", "61"),
        ("@reboot", "@reboot"),
    ):
        done = user("cron", "explain", expression)
        assert (done.status, done.out) == (2, "")
        assert why in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--quartz", "0 0 9 ? * 2", "--tz", BERLIN), "Monday"),
        (("--every", "PT6H", "--start-at", "2026-08-01T00:00:00Z"), "6 hours"),
        (("--at", "2099-01-31T09:00:00+01:00"), "31 January 2099"),
        (("--at", "2020-01-31T09:00:00+01:00"), "it has passed"),
        (("--cron", "0 * * * *", "--spread", "50m"), "later (spread)"),
    ],
)
def test_every_kind_of_schedule_is_previewed_when_it_is_made(user: Sched, words: tuple, said: str) -> None:
    """behaviour §3: the next five fires are shown on creation."""
    told = add(user, "r", *words)
    assert said in told
    expected = 0 if "passed" in said else 1 if "2099" in said else 5
    assert len(re.findall(r"^  \d{4}-\d\d-\d\d ", told, re.MULTILINE)) == expected


def test_next_lists_the_coming_fires_of_all_triggers_in_time_order(user: Sched) -> None:
    """`--in`, `--routine`, `-n`, `--json`; a paused routine does not fire."""
    add(user, "a", "--cron", "*/10 * * * *")
    add(user, "b", "--cron", "*/15 * * * *")
    add(user, "c", "--cron", "* * * * *", "--paused")
    rows = user.json("next", "--in", "2h", "-n", "100")
    assert [row["at"] for row in rows] == sorted(row["at"] for row in rows)
    assert {row["routine"] for row in rows} == {"a", "b"}
    assert 18 <= len(rows) <= 21
    assert {row["routine"] for row in user.json("next", "--routine", "b", "-n", "3")} == {"b"}
    assert len(user.json("next", "-n", "3")) == 3


def test_an_edit_with_an_old_etag_ends_with_4_and_changes_nothing(user: Sched) -> None:
    """`--if-match`, for triggers and routines."""
    add(user, "r", "--cron", "0 9 * * *")
    trigger = trigger_of(user, "r")["id"]
    old = user.json("trigger", "show", trigger)["metadata"]["etag"]
    assert user("trigger", "set", trigger, "--cron", "0 10 * * *", "--if-match", old).status == 0
    before = user.json("trigger", "show", trigger)
    assert before["metadata"]["generation"] == 2
    assert user("trigger", "disable", trigger, "--if-match", old).status == 4
    assert user.json("trigger", "show", trigger) == before
    etag = user.json("routine", "show", "r")["metadata"]["etag"]
    assert user("routine", "set", "r", "--description", "x", "--if-match", etag).status == 0
    assert user("routine", "set", "r", "--description", "y", "--if-match", etag).status == 4
    assert user.json("routine", "show", "r")["definition"]["description"] == "x"


def test_history_diff_and_rollback(user: Sched) -> None:
    """Numbered revisions with what each changed."""
    add(user, "r", "--cron", "0 9 * * *", "--description", "one")
    user("routine", "set", "r", "--description", "two")
    assert [(row["number"], row["changed"]) for row in user.json("routine", "history", "r")] == [
        (1, ["created"]),
        (2, ["description"]),
    ]
    assert user.json("routine", "diff", "r")["changes"] == {"description": ["one", "two"]}
    assert user("routine", "rollback", "r", "--to", "1").status == 0
    assert user.json("routine", "show", "r")["description"] == "one"
    assert user("routine", "rollback", "r", "--to", "9").status == 3


@pytest.mark.parametrize(
    ("option", "spelling", "key", "kept"),
    [
        ("--concurrency", "skip", "concurrency_policy", "skip_if_active"),
        ("--concurrency", "allow", "concurrency_policy", "always_enqueue"),
        ("--concurrency", "always_create", "concurrency_policy", "always_enqueue"),
        ("--concurrency", "cancel_active", "concurrency_policy", "cancel_active"),
        ("--catch-up", "skip", "catch_up_policy", "skip_missed"),
        ("--catch-up", "fireOnce", "catch_up_policy", "fire_once"),
    ],
)
def test_the_spellings_of_both_requirements_are_accepted(
    user: Sched, option: str, spelling: str, key: str, kept: str
) -> None:
    """S0 and S1 name the same policies differently."""
    add(user, "r", "--cron", "0 9 * * *", option, spelling)
    assert user.json("routine", "show", "r")[key] == kept


def test_who_is_disabled_fires_nothing_by_hand_and_comes_back(user: Sched) -> None:
    """S1: exit 5 and the reason; doctor names the triggers concerned."""
    add(user, "r", "--cron", "0 9 * * *")
    (me,) = user.json("principal", "list")
    assert me["role"] == "owner"
    assert user("principal", "disable", me["name"]).status == 0
    done = user("fire", "r")
    assert done.status == 5
    assert "is disabled" in done.err
    (finding,) = user.json("doctor", status=1)
    assert finding["code"] == "trigger-denied"
    assert user("principal", "enable", me["name"]).status == 0
    assert user("workspace", "disable").status == 0
    assert user("fire", "r").status == 5
    assert user("workspace", "enable").status == 0
    assert user("fire", "r").status == 0
    assert user.json("doctor") == []


def test_a_calendar_is_read_from_a_file_named_by_triggers_and_kept_while_in_use(user: Sched) -> None:
    """Holidays, quiet hours, windows; `sched next` shows what they leave out."""
    soon = datetime.now(UTC).date()
    dates = [soon + timedelta(days=n) for n in range(3)]
    (user.home / "days").write_text("# off\n" + "".join(f"{day}\n" for day in dates))
    done = user("calendar", "add", "holidays", "--dates-file", "days", "--quiet-hours", "SAT,SUN 00:00-24:00")
    assert done.status == 0, done
    (calendar,) = user.json("calendar", "list")
    assert calendar["dates"] == [str(day) for day in dates]
    add(user, "r", "--cron", "0 */6 * * *", "--calendar", "holidays")
    rows = user.json("next", "--in", "24h")
    assert {bool(row["skipped_reason"]) for row in rows} == {True}
    assert rows[0]["skipped_reason"].startswith("calendar holidays: ")
    assert user("calendar", "delete", "holidays", "--yes").status == 4
    (user.home / "days").write_text("2026-13-01\n")
    bad = user("calendar", "add", "bad", "--dates-file", "days")
    assert (bad.status, "line 1" in bad.err) == (2, True)
    assert user("calendar", "add", "empty").status == 2


def test_a_backfill_shows_fires_and_then_leaves_alone(user: Sched) -> None:
    """--dry-run writes nothing; the second time nothing is left; too much or too late is refused."""
    add(user, "r", "--cron", "0 * * * *")
    words = ("routine", "backfill", "r", "--from", "2026-01-01T00:00:00Z", "--to", "2026-01-01T03:00:00Z")
    dry = user.json(*words, "--dry-run")
    assert [(row["at"], row["is_fired"]) for row in dry] == [
        (f"2026-01-01T0{hour}:00:00Z", False) for hour in range(3)
    ]
    assert user.json("routine", "runs", "r") == []
    assert len(user.json(*words, "--concurrency", "always_enqueue")) == 3
    assert user.json(*words) == []
    assert {row["is_fired"] for row in user.json(*words, "--dry-run")} == {True}
    for begin, end in (
        ("2020-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:00:00Z", "2099-01-01T00:00:00Z"),
    ):
        assert user("routine", "backfill", "r", "--from", begin, "--to", end).status == 2


def test_the_list_of_routines_says_whether_each_will_fire(user: Sched) -> None:
    """armed, paused (with its note), disabled, event only, and what has run out."""
    add(user, "on", "--cron", "0 9 * * *")
    add(user, "held", "--cron", "0 9 * * *")
    add(user, "off", "--cron", "0 9 * * *")
    add(user, "hand")
    assert user("routine", "pause", "held", "--note", "until Monday").status == 0
    assert user("trigger", "disable", trigger_of(user, "off")["id"]).status == 0
    rows = {row["name"]: row for row in user.json("routine", "list") if row["name"] != "review"}
    assert {name: row["arming"] for name, row in rows.items()} == {
        "on": "armed",
        "held": "paused",
        "off": "disabled",
        "hand": "event only",
    }
    assert user.json("routine", "show", "held")["status_note"] == "until Monday"


def test_doctor_names_what_is_wrong_and_mends_what_is_a_projection(user: Sched) -> None:
    """Exit 1 while something is left; --fix says what it changed."""
    add(user, "r", "--cron", "0 9 * * *")
    assert user.json("doctor") == []
    next_run_at = trigger_of(user, "r")["next_run_at"]
    change(user, "UPDATE triggers SET next_run_at = NULL")
    (found,) = user.json("doctor", status=1)
    assert (found["code"], found["is_fixed"]) == ("trigger-unarmed", False)
    assert "doctor --fix" in found["remedy"]
    (mended,) = user.json("doctor", "--fix")
    assert mended["is_fixed"] is True
    assert trigger_of(user, "r")["next_run_at"] == next_run_at
    change(user, "UPDATE triggers SET expression = 'gone'")
    (found,) = user.json("doctor", "--fix", status=1)
    assert found["code"] == "trigger-invalid"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--cron", "0 9 * * *", "--input", "[1]"), "not an object"),
        (("--cron", "0 9 * * *", "--input", '{"password": "x"}'), "credential"),
        (("--cron", "0 9 * * *", "--max-fires", "0"), "max-fires"),
        (("--cron", "0 9 * * *", "--quartz", "0 0 9 ? * *"), "--cron and --quartz"),
        (("--every", "PT1H"), "--start-at"),
        (("--at", "2027-01-31T09:00:00"), "offset"),
        (("--quartz", "0 0 9 * * MON", "--tz", "UTC"), "?"),
        (("--quartz", "0 0 9 ? * FRI/2"), "FRI/2"),
        (("--quartz", "0 0 9 1 1 ? 2020"), "never fires"),
        (("--spread", "5m"), "without a schedule"),
        (("--cron", "0 9 * * *", "--calendar", "none"), "none"),
    ],
)
def test_what_cannot_be_a_schedule_is_refused_and_nothing_is_added(
    user: Sched, words: tuple, why: str
) -> None:
    """Usage and invalid values end with 2, unknown names with 3."""
    done = user("routine", "add", "r", "--agent", "coder", *words)
    assert done.status in (2, 3)
    assert why in done.err
    assert [row["name"] for row in user.json("routine", "list")] == ["review"]


def test_the_last_success_is_apart_from_the_last_fire(user: Sched) -> None:
    """A past instant fires at the first tick; when its run ended well that is told beside it."""
    user("task", "add", "work", "--agent", "coder")
    add(user, "r", "--at", "2020-01-31T09:00:00Z")
    assert user("serve", "--until-idle", "--no-http").status == 0
    trigger = trigger_of(user, "r")
    assert trigger["last_fired_at"] is not None
    assert trigger["last_success_at"] >= trigger["last_fired_at"]
    (run,) = user.json("routine", "runs", "r")
    assert (run["scheduled_for_at"], run["status"]) == ("2020-01-31T09:00:00Z", "done")
    assert user("serve", "--until-idle", "--no-http").status == 0
    assert len(user.json("routine", "runs", "r")) == 1
