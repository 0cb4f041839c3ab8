"""Configuration: flags > environment > file > defaults. An unknown key is an error, never ignored."""

from __future__ import annotations

import os

from kandev_sched.domain.errors import Invalid, Unusable
from kandev_sched.domain.plain import from_plain
from kandev_sched.domain.record import Record, as_dict
from kandev_sched.domain.settings import OnStop, Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class DispatchTable(Record):
    """`[dispatch]`"""

    coalesce_window_s: int | None = None


class SupervisorTable(Record):
    """`[supervisor]`"""

    max_sessions: int | None = None
    drain_s: int | None = None
    on_stop: OnStop | None = None
    safety_pass_s: int | None = None


class AgentsTable(Record):
    """`[agents]`: limits of agents and profiles that set none."""

    max_run_s: int | None = None
    grace_s: int | None = None
    output_cap_bytes: int | None = None


class ConfigFile(Record):
    """The file as it may be written; what is absent has its default."""

    database: str | None = None
    workspace: str | None = None
    dispatch: DispatchTable = DispatchTable()
    supervisor: SupervisorTable = SupervisorTable()
    agents: AgentsTable = AgentsTable()


class Config(Record):
    """What holds for this command. `database` is absolute, with symlinks followed."""

    database: str
    workspace: str
    config_path: str | None
    settings: Settings


LIMITS = {
    "coalesce_window_s": (0, 3600),
    "max_sessions": (1, 10_000),
    "drain_s": (0, 86_400),
    "safety_pass_s": (1, 60),
    "max_run_s": (1, 366 * 86_400),
    "grace_s": (0, 3600),
    "output_cap_bytes": (1024, 1 << 40),
}


def load(*, db: str | None, config: str | None, workspace: str | None, environ: Mapping[str, str]) -> Config:
    """The configuration of a command. Raises Unusable for a file that cannot be used, Invalid for a name."""
    wanted = config or environ.get("SCHED_CONFIG")
    path = wanted or default_config_path(environ)
    file = read_file(path) if wanted or os.path.exists(path) else ConfigFile()
    database = db or environ.get("SCHED_DB") or file.database or default_database_path(environ)
    if "\0" in database or not database:
        raise Invalid(f"{database!r:.60} is not a path", hint="name a file with --db")
    return Config(
        database=os.path.realpath(os.path.expanduser(database)),
        workspace=workspace or environ.get("SCHED_WORKSPACE") or file.workspace or "default",
        config_path=path if wanted or os.path.exists(path) else None,
        settings=_settings(file, path),
    )


def read_file(path: str) -> ConfigFile:
    """A config file, every key known and every value of its type. Raises Unusable."""
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError as error:
        raise Unusable(
            f"the config {path} cannot be read: {error.strerror}", hint="check --config"
        ) from error
    # As `sched init` wrote it: `sched fire` need not pay for a TOML parser.
    if all(not line.strip() or line.lstrip().startswith(b"#") for line in text.splitlines()):
        return ConfigFile()
    return _parsed(text, path)


def _parsed(text: bytes, path: str) -> ConfigFile:
    import tomllib

    try:
        plain = tomllib.loads(text.decode())
        read: ConfigFile = from_plain(ConfigFile, plain, "config")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Unusable(
            f"the config {path} is not TOML: {error}", hint="`sched init` writes an example"
        ) from error
    except Invalid as error:
        raise Unusable(f"the config {path} cannot be used: {error.message}", hint=error.hint) from error
    return read


def _settings(file: ConfigFile, path: str) -> Settings:
    given = {
        name: value
        for table in (file.dispatch, file.supervisor, file.agents)
        for name, value in as_dict(table).items()
        if value is not None
    }
    for name, value in given.items():
        low, high = LIMITS.get(name, (None, None))
        if low is not None and high is not None and not low <= value <= high:
            raise Unusable(
                f"the config {path} cannot be used: {name} is {value}",
                hint=f"it must be between {low} and {high}",
            )
    return Settings(**given)


def default_config_path(environ: Mapping[str, str]) -> str:
    """`$XDG_CONFIG_HOME/kandev-sched/config.toml`."""
    base = environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(base, "kandev-sched", "config.toml")


def default_database_path(environ: Mapping[str, str]) -> str:
    """`$XDG_STATE_HOME/kandev-sched/sched.db`; under systemd its STATE_DIRECTORY."""
    if environ.get("STATE_DIRECTORY"):
        return os.path.join(environ["STATE_DIRECTORY"].split(":")[0], "sched.db")
    base = environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(base, "kandev-sched", "sched.db")


def runs_path(database: str) -> str:
    """Where the files of the runs of a database are."""
    return f"{database}.runs"
