"""What architecture.md asks of every file, checked by reading the files."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import kandev_sched

PACKAGE = Path(kandev_sched.__file__).parent
TESTS = Path(__file__).parent.parent
SOURCES = {str(path.relative_to(PACKAGE)): path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}
TEST_SOURCES = {str(path.relative_to(TESTS)): path.read_text() for path in sorted(TESTS.rglob("*.py"))}

SQL = re.compile(
    r"\b(SELECT\s.+\sFROM|INSERT\s+(OR\s+\w+\s+)?INTO|UPDATE\s+\w+\s+SET|DELETE\s+FROM|PRAGMA\s+\w+"
    r"|(CREATE|DROP|ALTER)\s+(TABLE|INDEX|TRIGGER)|BEGIN\s+IMMEDIATE)\b",
    re.DOTALL,
)
CLOCK = re.compile(r"\b(time\.time(_ns)?|datetime\.(now|utcnow|today)|date\.today)\(")


def texts_of(source: str) -> Iterator[str]:
    """The string constants of a file that are no docstrings."""
    tree = ast.parse(source)
    docstrings = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def calls_of(source: str) -> Iterator[str]:
    """What a file calls, as it is written: `print`, `threading.Thread`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


def test_the_files_are_really_found() -> None:
    """The tests below must not pass because they find nothing."""
    assert {"flow/pipeline.py", "store/db.py", "domain/host.py"} <= set(SOURCES)
    assert any(SQL.search(text) for text in texts_of(SOURCES["store/runs.py"]))
    assert CLOCK.search(SOURCES["domain/host.py"])


def offenders(
    files: dict[str, str], is_wrong: Callable[[str], object], *, but: tuple[str, ...] = ()
) -> list[str]:
    """The files that break a rule, save those whose names begin with `but`."""
    return [name for name, source in files.items() if not name.startswith(but) and is_wrong(source)]


def test_only_the_store_speaks_sql() -> None:
    """architecture The tree: `store/` holds every line of SQL."""
    assert offenders(SOURCES, lambda s: any(SQL.search(text) for text in texts_of(s)), but=("store/",)) == []


def test_nobody_writes_inside_with_connection() -> None:
    """architecture Storage: never `with connection:`; apsw would hold the GIL while it waits."""
    wrong = re.compile(r"^\s*with\s+(self\.)?_?(connection|conn|db\._connection)\b\s*[:,]", re.MULTILINE)
    assert offenders(SOURCES, wrong.search) == []


def test_only_the_host_reads_the_clock() -> None:
    """architecture rule 6: `datetime.now()` is never asked elsewhere than in `Host`.

    The gate's note tells other processes since when it is held; shims and agents are processes of their own.
    """
    assert offenders(SOURCES, CLOCK.search, but=("domain/host.py", "store/gate.py", "launch/")) == []


def test_only_the_interfaces_print() -> None:
    """architecture The tree: HOW ONE ASKS is the interfaces' business."""
    assert offenders(SOURCES, lambda source: "print" in calls_of(source), but=("interfaces/",)) == []


def test_threads_are_made_in_three_places() -> None:
    """architecture The tree: `loop.py` is the only place that makes loop threads."""
    makers = offenders(SOURCES, lambda source: "threading.Thread" in calls_of(source))
    assert set(makers) == {"supervisor/loop.py", "store/shared.py", "store/gate.py"}


def test_apsw_is_never_told_to_make_its_helpers_at_import() -> None:
    """architecture Storage: no `apsw.ext` or `apsw.bestpractice` at import."""
    assert offenders(SOURCES, re.compile(r"apsw\.(ext|bestpractice)").search) == []


def _sleeps(source: str) -> list[int]:
    tree = ast.parse(source)
    patient = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "wait_until"]
    allowed = {id(inner) for node in patient for inner in ast.walk(node)}
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "time.sleep" and id(node) not in allowed
    ]


def test_no_test_sleeps() -> None:
    """architecture Tests: no `time.sleep` outside `crash/` and `e2e/`, there only inside `wait_until`."""
    assert offenders(TEST_SOURCES, _sleeps, but=("launch/",)) == []
