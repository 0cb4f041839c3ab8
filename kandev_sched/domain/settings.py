"""Settings: the knobs of the program, with their defaults. `config.py` fills them."""

from __future__ import annotations

from enum import StrEnum

from kandev_sched.domain.record import Record


class OnStop(StrEnum):
    """What a stopping supervisor does with live agents."""

    DRAIN = "drain"
    DETACH = "detach"


class Settings(Record):
    """Durations carry their unit; `max_run_s` is the limit of agents and profiles that set none."""

    coalesce_window_s: int = 5
    max_sessions: int = 8
    max_run_s: int = 3600
    grace_s: int = 10
    output_cap_bytes: int = 10_485_760
    drain_s: int = 30
    on_stop: OnStop = OnStop.DRAIN
    safety_pass_s: int = 5
