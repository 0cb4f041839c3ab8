"""Configuration: flags over environment over file over defaults; what is wrong is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from kandev_sched.config import Config, load
from kandev_sched.domain.errors import Invalid, Unusable
from kandev_sched.domain.settings import OnStop, Settings


def loaded(
    tmp_path: Path,
    text: str | None = None,
    *,
    db: str | None = None,
    workspace: str | None = None,
    environ: dict[str, str] | None = None,
) -> Config:
    """The configuration of a user whose config file says `text`."""
    config = tmp_path / "kandev-sched" / "config.toml"
    if text is not None:
        config.parent.mkdir()
        config.write_text(text)
    places = {"XDG_CONFIG_HOME": str(tmp_path), "XDG_STATE_HOME": "/state"}
    return load(db=db, config=None, workspace=workspace, environ={**places, **(environ or {})})


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    assert loaded(tmp_path) == Config(
        database="/state/kandev-sched/sched.db", workspace="default", config_path=None, settings=Settings()
    )


def test_the_file_is_read(tmp_path: Path) -> None:
    text = 'database = "/a.db"\nworkspace = "w"\n[supervisor]\nmax_sessions = 3\non_stop = "detach"\n'
    found = loaded(tmp_path, text)
    assert (found.database, found.workspace) == ("/a.db", "w")
    assert found.settings == Settings(max_sessions=3, on_stop=OnStop.DETACH)
    assert found.config_path == str(tmp_path / "kandev-sched" / "config.toml")


def test_the_environment_wins_over_the_file_and_a_flag_over_both(tmp_path: Path) -> None:
    text = 'database = "/file.db"\nworkspace = "file"\n'
    environ = {"SCHED_DB": "/environment.db", "SCHED_WORKSPACE": "environment"}
    by_environment = loaded(tmp_path, text, environ=environ)
    assert (by_environment.database, by_environment.workspace) == ("/environment.db", "environment")
    by_flag = load(
        db="/flag.db", config=None, workspace="flag", environ={"XDG_CONFIG_HOME": str(tmp_path), **environ}
    )
    assert (by_flag.database, by_flag.workspace) == ("/flag.db", "flag")


def test_under_systemd_the_database_is_in_its_state_directory(tmp_path: Path) -> None:
    assert loaded(tmp_path, environ={"STATE_DIRECTORY": "/var/lib/s:/x"}).database == "/var/lib/s/sched.db"


def test_a_file_of_comments_is_a_file_of_defaults(tmp_path: Path) -> None:
    found = loaded(tmp_path, "# max_sessions = 3\n\n   # on_stop\n")
    assert found.settings == Settings()
    assert found.config_path is not None


def test_the_path_of_the_database_follows_links_and_the_tilde(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert loaded(tmp_path, db=str(tmp_path / "link" / "s.db")).database == str(tmp_path / "real" / "s.db")
    assert "~" not in loaded(tmp_path, db="~/s.db").database


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max_sessions = 3", "max_sessions"),
        ("[supervisor]\nmax_sesions = 3", "max_sesions"),
        ("[superviser]\n", "superviser"),
        ("[supervisor]\nmax_sessions = 0", "max_sessions is 0"),
        ("[supervisor]\nmax_sessions = '3'", "'3'"),
        ("[supervisor]\nmax_sessions = true", "True"),
        ("[supervisor]\non_stop = 'kill'", "kill"),
        ("[dispatch]\ncoalesce_window_s = -1", "coalesce_window_s is -1"),
        ("database = 3", "3"),
        ("database = ", "not TOML"),
        ("\ufeffdatabase", "not TOML"),
        ("supervisor = 3", "supervisor"),
    ],
)
def test_what_is_wrong_in_the_file_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(Unusable) as refused:
        loaded(tmp_path, text)
    assert said in refused.value.message
    assert "config.toml" in refused.value.message


def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kandev-sched").mkdir()
    (tmp_path / "kandev-sched" / "config.toml").write_bytes(b"database = '\xff'")
    with pytest.raises(Unusable, match="not TOML"):
        loaded(tmp_path)


def test_a_file_that_is_named_must_exist(tmp_path: Path) -> None:
    with pytest.raises(Unusable, match="cannot be read"):
        load(db=None, config=str(tmp_path / "no.toml"), workspace=None, environ={})


def test_a_path_with_nul_is_refused() -> None:
    with pytest.raises(Invalid, match="not a path"):
        load(db="a\0b", config=None, workspace=None, environ={"XDG_CONFIG_HOME": "/nowhere"})
