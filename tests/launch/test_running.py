"""An agent that works: what it is given, what is kept of it, how its result is read."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable

import pytest

from kandev_sched.domain.errors import Conflict, Invalid
from kandev_sched.launch.executor import AttemptRef, AttemptState, Ending

from .support import World, children_in_state, new_run_id, wait_until


def test_an_agent_that_exits_gives_its_status_and_its_output(world: World) -> None:
    world.sh("echo out; echo err >&2; exit 3")
    result = world.result()
    assert (result.ending, result.exit_code, result.signal) == (Ending.EXITED, 3, None)
    assert (result.error, result.structured, result.stray_count) == (None, None, 0)
    assert (result.stdout_bytes, result.stderr_bytes) == (4, 4)
    assert sorted(result.output_tail.split()) == ["err", "out"]
    assert world.executor.read(world.ref, "stdout", 0, 100) == b"out\n"
    assert world.executor.read(world.ref, "stderr", 1, 2) == b"rr"
    assert result.started_at is not None
    assert result.started_at <= result.finished_at


def test_an_agent_that_dies_of_a_signal_gives_the_signal(world: World) -> None:
    world.sh("kill -KILL $$")
    result = world.result()
    assert (result.ending, result.exit_code, result.signal) == (Ending.EXITED, None, 9)


def test_the_environment_is_exactly_that_of_the_spec_and_the_run(world: World) -> None:
    world.start("/usr/bin/env", "-0", env={"PATH": "/bin", "TOKEN": "ä\udcff", "SCHED_RUN_ID": "other"})
    world.result()
    entries = [e for e in world.stdout().split(b"\0") if e]
    environment = dict(os.fsdecode(e).split("=", 1) for e in entries)
    assert environment == {
        "PATH": "/bin",
        "TOKEN": "ä\udcff",
        "SCHED_RUN_ID": world.ref.run_id,
        "SCHED_ATTEMPT": "1",
        "SCHED_PROMPT_FILE": str(world.dir / "prompt.md"),
        "SCHED_WAKEUPS_FILE": str(world.dir / "wakeups.json"),
        "SCHED_RESULT_FILE": str(world.dir / "agent_result.json"),
    }


def test_the_agent_has_no_descriptor_but_its_three_and_no_ignored_signal(world: World) -> None:
    world.python(
        "import os; print(sorted(int(fd) for fd in os.listdir('/proc/self/fd'))[:4]);"
        "print([l for l in open('/proc/self/status') if l[:6] in ('SigIgn', 'SigBlk')])"
    )
    world.result()
    first, second = world.stdout().decode().splitlines()
    assert first == "[0, 1, 2, 3]"  # 3 is the listing itself
    assert "SigBlk:\\t0000000000000000" in second
    ignored = int(second.split("SigIgn:\\t")[1][:16], 16) & 0x7FFFFFFF  # above are signals of the C library
    assert ignored == 0x01001000, "only SIGPIPE and SIGXFSZ, which this Python ignores itself"


def test_the_agent_leads_a_session_and_works_in_its_directory(world: World) -> None:
    world.root.mkdir()
    world.python("import os; print(os.getcwd(), os.getsid(0) == os.getpid())", cwd=str(world.root))
    world.result()
    assert world.stdout().decode().split() == [str(world.root), "True"]


def test_stdin_is_the_prompt_even_of_a_megabyte(world: World) -> None:
    prompt = "prömpt " * 150_000
    world.start("/usr/bin/sha256sum", prompt=prompt)
    world.result()
    from hashlib import sha256

    assert world.stdout().split()[0].decode() == sha256(prompt.encode()).hexdigest()


def test_stdin_cannot_be_written(world: World) -> None:
    world.python("import os; os.write(0, b'x')")
    assert world.result().exit_code == 1
    assert (world.dir / "prompt.md").read_text() == "Do it.\n"


def test_an_agent_that_never_reads_its_prompt_ends_well(world: World) -> None:
    world.start("true", prompt="x" * 1_000_000)
    assert world.result().exit_code == 0


def test_prompt_file_in_argv_is_replaced(world: World) -> None:
    world.start("cat", "--", "{prompt_file}", wakeups_json='[{"id": "w"}]')
    world.result()
    assert world.stdout() == b"Do it.\n"
    assert json.loads((world.dir / "wakeups.json").read_text()) == [{"id": "w"}]


def test_the_files_are_private(world: World) -> None:
    world.sh("echo hello")
    world.result()
    assert stat.S_IMODE(world.dir.stat().st_mode) == stat.S_IMODE(world.dir.parent.stat().st_mode) == 0o700
    modes = {f.name: stat.S_IMODE(f.stat().st_mode) for f in world.dir.iterdir()}
    assert {"spec.json", "lock", "shim.json", "stdout", "shim.err", "result.json", "events.jsonl"} <= set(
        modes
    )
    assert set(modes.values()) == {0o600}
    assert not [name for name in modes if name.startswith(".")], "a temporary file was left"


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("no-such-agent-x",), "was not found in PATH"),
        (("/no/such/agent",), "does not exist"),
        (("/etc/passwd",), "is not executable"),
        (("/etc",), "is a directory"),
        ((), "is empty"),
        (("true", "x" * 3_000_000), "Argument list too long"),
    ],
)
def test_a_command_that_cannot_start_fails_with_one_sentence(
    world: World, argv: tuple[str, ...], words: str
) -> None:
    world.start(*argv)
    result = world.result()
    assert (result.ending, result.exit_code, result.started_at) == (Ending.LAUNCH_FAILED, None, None)
    assert result.error is not None
    assert words in result.error
    assert result.error.endswith(".")
    assert "\n" not in result.error


def test_a_script_without_its_interpreter_says_so(world: World) -> None:
    script = world.root.parent / "agent"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    world.start(str(script))
    result = world.result()
    assert result.ending is Ending.LAUNCH_FAILED
    assert "interpreter" in str(result.error)


def test_a_missing_working_directory_fails_with_one_sentence(world: World) -> None:
    world.start("true", cwd="/no/such/place")
    result = world.result()
    assert result.ending is Ending.LAUNCH_FAILED
    assert (
        result.error == "The working directory '/no/such/place' cannot be entered: No such file or directory."
    )


def test_output_that_is_not_text_is_kept_and_shown(world: World) -> None:
    world.sh(r"printf 'a\377\000b\n\342\202'")
    result = world.result()
    assert world.stdout() == b"a\xff\x00b\n\xe2\x82"
    assert result.output_tail == "a\ufffd\x00b\n\ufffd"


def test_the_result_file_beats_the_last_line(world: World) -> None:
    world.sh("""echo '{"from": "file"}' > "$SCHED_RESULT_FILE"; echo '{"from": "stdout"}'""")
    result = world.result()
    assert (result.structured, result.note) == ({"from": "file"}, None)


def test_the_last_line_that_is_not_blank_is_a_result_if_it_is_an_object(world: World) -> None:
    world.sh("""echo '{"no": 1}'; printf '{"answer": 42}\\n\\n  \\n'""")
    assert world.result().structured == {"answer": 42}


def test_a_last_line_that_is_no_object_is_ordinary_output(world: World) -> None:
    world.start("true")
    world.result()
    for line in ("[1]", "{broken", "plain", "42", '{"a": 1} trailing', '{"a":' * 90_000, '{"a": "\n"}', ""):
        (world.dir / "stdout").write_text(line)
        result = world.result()
        assert (result.structured, result.note, result.ending) == (None, None, Ending.EXITED)


def test_a_result_file_of_rubbish_is_ignored_with_a_note(world: World) -> None:
    world.sh("""echo junk > "$SCHED_RESULT_FILE"; echo '{"from": "stdout"}'""")
    world.result()
    file = world.dir / "agent_result.json"
    makers: list[tuple[Callable[[], object], str]] = [
        (lambda: None, "no JSON object"),
        (lambda: file.write_text("[1]"), "no JSON object"),
        (lambda: file.write_bytes(b""), "no JSON object"),
        (lambda: file.write_bytes(b'{"\xff'), "no JSON object"),
        (lambda: file.write_bytes(b" " * 1048577), "larger"),
        (lambda: (file.unlink(), os.mkfifo(file)), "not a plain file"),
        (lambda: (file.unlink(), file.symlink_to("/dev/zero")), "not a plain file"),
        (lambda: (file.unlink(), file.mkdir()), "not a plain file"),
    ]
    for make, words in makers:
        make()
        result = world.result()
        assert result.structured == {"from": "stdout"}
        assert words in str(result.note)
        assert result.error is None


@pytest.mark.parametrize("make", ["mkfifo", "mkdir", "ln -s /dev/zero"])
def test_a_shim_survives_a_result_file_that_is_no_file(world: World, make: str) -> None:
    world.sh(f'{make} "$SCHED_RESULT_FILE"')
    assert world.result().exit_code == 0


def test_fifty_megabytes_are_drained_and_capped_and_their_end_is_known(world: World) -> None:
    world.sh(
        "head -c 52428800 /dev/zero; echo; echo '{\"last\": true}'", output_cap_bytes=1_000_000, max_run_s=20
    )
    result = world.result()
    assert result.ending is Ending.EXITED
    assert result.stdout_bytes == 52428800 + 1 + 15
    assert (world.dir / "stdout").stat().st_size == 1_000_000
    assert result.structured == {"last": True}
    assert result.output_tail.endswith('{"last": true}\n')


def test_the_cap_is_exact_and_counts_each_stream_alone(world: World) -> None:
    world.sh("printf 1234567890; printf abc >&2", output_cap_bytes=4)
    result = world.result()
    assert (result.stdout_bytes, result.stderr_bytes) == (10, 3)
    assert world.stdout() == b"1234"
    assert world.executor.read(world.ref, "stderr", 0, 100) == b"abc"


def test_output_can_be_read_while_it_comes(world: World) -> None:
    world.sh("echo one; sleep 20")
    world.said(b"one\n")
    assert world.state() is AttemptState.RUNNING


def test_a_full_disk_costs_output_but_never_the_result(world: World) -> None:
    """The agent's stdout goes to /dev/full: a shim whose disk is full."""
    world.dir.mkdir(parents=True)
    (world.dir / "stdout").symlink_to("/dev/full")
    world.sh("""echo lost; echo '{"kept": 1}'""")
    result = world.result()
    assert (result.ending, result.exit_code) == (Ending.EXITED, 0)
    assert result.structured == {"kept": 1}
    assert result.note == "Only 0 bytes of stdout were kept: No space left on device."


def test_the_wake_fifo_gets_a_byte_when_the_result_stands(world: World) -> None:
    import select

    fifo = world.root.parent / "wake"
    os.mkfifo(fifo)
    fd = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        world.start("true", wake_path=str(fifo))
        assert select.select([fd], [], [], 10)[0]
        assert world.state() is AttemptState.DONE
    finally:
        os.close(fd)


@pytest.mark.parametrize("kind", ["missing", "unread", "file"])
def test_a_wake_path_that_leads_nowhere_is_harmless(world: World, kind: str) -> None:
    path = world.root.parent / "wake"
    if kind == "unread":
        os.mkfifo(path)
    elif kind == "file":
        path.write_text("precious")
    world.start("true", wake_path=str(path))
    assert world.result().exit_code == 0
    assert kind != "file" or path.read_text() == "precious"
    assert world.complaints() == ""


def test_no_zombie_is_left_after_a_poll_that_says_done(world: World) -> None:
    for attempt in range(1, 4):
        world.ref = AttemptRef(run_id=world.ref.run_id, attempt=attempt)
        world.start("true", attempt=attempt)
        world.result()
        assert children_in_state("Z") == []


def test_the_list_names_every_attempt_and_forget_removes_a_run(world: World) -> None:
    one, two = sorted((new_run_id(), new_run_id()))
    refs = [AttemptRef(run_id=run, attempt=n) for run, n in ((one, 1), (one, 2), (two, 10))]
    for ref in refs:
        world.executor.submit(world.spec("true", run_id=ref.run_id, attempt=ref.attempt))
    for world.ref in refs:
        world.result()
    assert world.executor.list() == refs
    world.executor.forget(one)
    assert world.executor.list() == refs[2:]
    world.executor.forget(one)
    assert not (world.root / one).exists()


def test_a_running_run_is_not_forgotten(world: World) -> None:
    world.sh("sleep 20")
    wait_until(lambda: world.state() is AttemptState.RUNNING)
    with pytest.raises(Conflict):
        world.executor.forget(world.ref.run_id)


def test_reading_what_is_not_there_gives_nothing(world: World) -> None:
    assert world.executor.read(world.ref, "stdout", 0, 10) == b""
    assert world.executor.list() == []
    with pytest.raises(Invalid):
        world.executor.read(world.ref, "../lock", 0, 10)


@pytest.mark.parametrize("run_id", ["", "..", "a/b", ".hidden", "a\0b"])
def test_a_run_id_never_leaves_the_root(world: World, run_id: str) -> None:
    with pytest.raises(Invalid):
        world.executor.poll(AttemptRef(run_id=run_id, attempt=1))


def test_the_shim_carries_no_secret_of_the_supervisor(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_SECRET", "hush")
    world.sh("sleep 20")
    pid = world.shim()["pid"]
    with open(f"/proc/{pid}/environ", "rb") as file:
        assert b"hush" not in file.read()


def test_the_shim_needs_no_site_packages(world: World) -> None:
    world.sh("sleep 20")
    with open(f"/proc/{world.shim()['pid']}/maps") as file:
        assert "site-packages" not in file.read()
    assert sys.executable
