"""ComputeExecutor: where agents run. The protocol that every place keeps, and the values it speaks in.

Rule kept here: an attempt is started at most once, whoever asks however often; its state is read from the
place where it runs, so any process may ask, after any crash. Lost is not dead: `fence`, then `end_strays`.
"""

from __future__ import annotations

from enum import StrEnum

from kandev_sched.domain.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol
else:
    Protocol = object


class AttemptState(StrEnum):
    """Unborn: not started yet. Lost: its shim is gone without a result, its agent perhaps not."""

    UNBORN = "unborn"
    RUNNING = "running"
    DONE = "done"
    LOST = "lost"


class Ending(StrEnum):
    """What ended the attempt. `exited`: the agent by itself, whatever its exit status."""

    EXITED = "exited"
    TIMED_OUT = "timed_out"
    IDLE_TIMED_OUT = "idle_timed_out"
    CANCELLED = "cancelled"
    LAUNCH_FAILED = "launch_failed"
    REVOKED = "revoked"


class Stream(StrEnum):
    STDOUT = "stdout"
    STDERR = "stderr"


class AttemptRef(Record):
    """The name of an attempt, everywhere."""

    run_id: str
    attempt: int


class LaunchSpec(Record):
    """What to start. `env` is the whole environment (see `command.agent_environment`)."""

    run_id: str
    attempt: int
    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: str
    prompt: str
    wakeups_json: str
    max_run_s: int | None
    idle_output_s: int | None
    grace_s: float = 10
    output_cap_bytes: int = 10 * 1024 * 1024
    wake_path: str | None = None


class AttemptResult(Record):
    """How an attempt ended. Byte counts are what the agent wrote, kept or not.

    `structured` is what the agent reported as a JSON object; `stray_count` the processes outside the
    agent's process group that had to be ended; `note` what is worth knowing and is no error.
    """

    ending: Ending
    exit_code: int | None
    signal: int | None
    started_at: int | None
    finished_at: int
    structured: dict[str, Any] | None
    output_tail: str
    error: str | None
    stdout_bytes: int
    stderr_bytes: int
    stray_count: int
    note: str | None = None


class Observation(Record):
    """What is known of an attempt now; `result` exactly when it is done."""

    state: AttemptState
    result: AttemptResult | None = None


AttemptRefs = list[AttemptRef]  # inside the protocol, `list` is a method


class ComputeExecutor(Protocol):
    """A place where agents run."""

    def submit(self, spec: LaunchSpec) -> None:
        """Start the attempt, unless it was ever started, cancelled or revoked before."""

    def poll(self, ref: AttemptRef) -> Observation:
        """The state now; after a restart the same call re-attaches."""

    def read(self, ref: AttemptRef, stream: str, offset: int, limit: int) -> bytes:
        """Output that was kept; empty at its present end."""

    def cancel(self, ref: AttemptRef) -> None:
        """Ask for the end, durably; also before the start. May be repeated."""

    def fence(self, ref: AttemptRef) -> Observation:
        """Make sure that an unborn or lost attempt never starts; a living one is left alone."""

    def end_strays(self, ref: AttemptRef) -> int:
        """End what a lost attempt left running; how many processes that were."""

    def list(self) -> AttemptRefs:
        """Every attempt that has files here."""

    def forget(self, run_id: str) -> None:
        """Remove the files of a run, none of whose attempts is running."""
