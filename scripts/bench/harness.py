"""What every benchmark uses: a place on the real disk, rows of results, what an fsync costs meanwhile."""

from __future__ import annotations

import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

import apsw

PROBE_BYTES = 1 << 20


@dataclass(frozen=True)
class Row:
    """One measurement. `value` is the median unless the case says otherwise; `met` is None without target."""

    bench: str
    case: str
    value: float
    unit: str
    n: int
    p50: float | None = None
    p99: float | None = None
    target: str = ""
    met: bool | None = None
    more: dict[str, object] = field(default_factory=dict)


def percentile(samples: Sequence[float], share: float) -> float:
    """The nearest-rank percentile."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def timed(work: Callable[[], object]) -> float:
    """Seconds that `work` took."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


class Bench:
    """Where one run of the suite puts its files and its results."""

    def __init__(self, *, quick: bool, out: IO[str], folder: Path) -> None:
        self.quick = quick
        self.rows: list[Row] = []
        self.fsync_ms: list[float] = []
        self._out = out
        self._folder = folder
        self.name = ""

    def pick(self, full: int, quick: int) -> int:
        """How many: by whether this is a quick run."""
        return quick if self.quick else full

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A fresh folder on the real disk, removed afterwards."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = Path(tempfile.mkdtemp(prefix=f"{self.name}-", dir=self._folder))
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def probe_fsync(self, folder: Path, count: int = 100) -> None:
        """Measure what this disk asks for one fdatasync right now; rounds call it again and again."""
        path = folder / "fsync.probe"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(fd).st_size < PROBE_BYTES:
                os.pwrite(fd, bytes(PROBE_BYTES), 0)
                os.fsync(fd)
            for index in range(count):
                os.pwrite(fd, os.urandom(4096), index * 4096 % PROBE_BYTES)
                self.fsync_ms.append(timed(lambda: os.fdatasync(fd)) * 1000)
        finally:
            os.close(fd)

    def fsync_p99_ms(self) -> float:
        """Of the probes of this benchmark so far."""
        return percentile(self.fsync_ms, 0.99)

    def row(
        self,
        case: str,
        samples: Sequence[float],
        unit: str,
        *,
        target: str = "",
        met: Callable[[float], bool] | None = None,
        value: float | None = None,
        **more: object,
    ) -> float:
        """Note one measurement and print it; `met` judges the value, which is the median if not given."""
        number = statistics.median(samples) if value is None else value
        several = len(samples) > 1
        self._emit(
            Row(
                bench=self.name,
                case=case,
                value=round(number, 4),
                unit=unit,
                n=len(samples),
                p50=round(percentile(samples, 0.5), 4) if several else None,
                p99=round(percentile(samples, 0.99), 4) if several else None,
                target=target,
                met=met(number) if met else None,
                more=more,
            )
        )
        return number

    def close_topic(self) -> None:
        """Note the disk's fsync of this topic, if it was probed."""
        if self.fsync_ms:
            self.row("fdatasync of 4 KiB on the same disk", self.fsync_ms, "ms")
        self.fsync_ms = []

    def _emit(self, row: Row) -> None:
        self.rows.append(row)
        fields = {**asdict(row), "load": round(os.getloadavg()[0], 2), "at": round(time.time())}
        more = fields.pop("more")
        print(json.dumps({**fields, **more}), file=self._out, flush=True)


def machine() -> dict[str, object]:
    """The facts without which a figure means little."""
    model = next(
        (line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")),
        platform.machine(),
    )
    return {
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "apsw": apsw.apsw_version(),
        "cpu_count": os.cpu_count(),
        "cpu": model.rpartition(":")[2].strip(),
        "kernel": platform.release(),
        "switch_interval_s": sys.getswitchinterval(),
    }
