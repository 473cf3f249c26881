"""The command as people start it: in a process of its own, with a real pipe or terminal behind it."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import IO

import pytest

from mainspring.cli.flags import SUBCOMMANDS
from mainspring.version import __version__, describe_version, find_checkout_commit

COMMAND = [sys.executable, "-m", "mainspring"]
PATIENCE = 60  # seconds; only a hanging command takes so long


@pytest.fixture
def temp() -> Iterator[Path]:
    """Where the command makes its temporary folders. Its path is short, as a user's would be."""
    with tempfile.TemporaryDirectory(prefix="m-") as folder:
        yield Path(folder)


def run(*args: str, **extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *args], env=os.environ | extra, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


# --- arguments --------------------------------------------------------------------------------------


def test_version() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"mainspring {describe_version()}\n", "")


def test_help_fits_the_screen_and_needs_nothing() -> None:
    done = run("--help", COLUMNS="80")
    assert (done.returncode, done.stderr) == (0, "")
    assert all(f"\n  {name} " in done.stdout for name in SUBCOMMANDS)
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert run("-h").stdout == done.stdout


def test_help_and_version_come_first() -> None:
    assert run("-p", "hello", "--help").stdout.startswith("usage: ")
    assert run("-v", "-p", "hello").stdout == f"mainspring {describe_version()}\n"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--loud"], "unknown flag '--loud'"),
        (["talk", "--loud"], "unknown flag '--loud'"),
        (["demo", "--loud"], "'mainspring demo': unknown argument '--loud'"),
        (["demo", "twice"], "'mainspring demo': unknown argument 'twice'"),
        (["demo", "--model", "opus"], "'mainspring demo': unknown argument '--model'"),
        (["--online"], "unknown flag '--online'"),
    ],
)
def test_what_it_does_not_know_is_named_in_one_line(words: list[str], named: str) -> None:
    done = run(*words)
    assert (done.returncode, done.stdout) == (1, "")
    page = "mainspring demo --help" if words[0] == "demo" else "mainspring --help"
    assert done.stderr == f"mainspring: {named}. See '{page}'.\n"


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_every_subcommand_has_a_help_of_its_own(name: str) -> None:
    done = run(name, "--help", COLUMNS="80")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: mainspring {name} ")


# --- the demo ---------------------------------------------------------------------------------------


def test_the_demo_finds_and_fixes_a_real_bug(temp: Path) -> None:
    done = run("demo", TMPDIR=str(temp))
    assert (done.returncode, done.stderr) == (0, "")
    before, _, after = done.stdout.partition("Edit pages.py")
    assert "AssertionError: 2 != 3" in before
    assert "FAILED (failures=1)" in before
    assert "Ran 2 tests" in after
    assert "| OK" in after
    assert "the tests failed before and pass now" in after
    assert list(temp.iterdir()) == []


def test_the_demo_says_why_the_loop_went_on_and_why_it_ended() -> None:
    rules = [line for line in run("demo").stdout.splitlines() if line.startswith("-- ")]
    assert [rule.strip("- ").split(" -")[0] for rule in rules] == [
        "turn 1",
        "turn 2 | next_turn",
        "turn 2 | model_fallback",
        "turn 3 | next_turn",
        "turn 4 | next_turn",
        "turn 5 | next_turn",
        "completed | end_turn",
    ]


def test_the_demo_shows_calls_that_start_while_the_model_talks() -> None:
    shown = run("demo").stdout
    fallback = shown.split("model_fallback")[1].split("-- turn 3")[0]
    spans = re.findall(r"^(\w+ [\w.]+) +=+ +(\d+) - +(\d+) ms$", fallback, re.MULTILINE)
    reply, *reads = [(label, int(begin), int(end)) for label, begin, end in spans]
    assert [label for label, _, _ in (reply, *reads)] == [
        "the reply",
        "Read pages.py",
        "Read catalog.py",
        "Read test_pages.py",
    ]
    assert all(f"{label:<26} started at {begin:>4} ms\n" in fallback for label, begin, _ in reads)
    assert all(f"{label:<26} done at    {end:>4} ms\n" in fallback for label, _, end in reads)
    assert all(begin < reply[2] for _, begin, _ in reads)
    total, hidden = map(int, re.findall(r"Tools ran for (\d+) ms, (\d+) ms of it while", shown)[0])
    assert 0 < hidden < total


def test_the_demo_recovers_from_an_overload() -> None:
    shown = run("demo").stdout
    before, after = shown.split("-- turn 2 | model_fallback")
    assert before.rstrip().endswith("(529 overloaded, attempt 2: retrying in 100 ms)")
    assert after.splitlines()[0].endswith(" scripted-fallback --")


def test_the_demo_fits_eighty_columns(temp: Path) -> None:
    lines = run("demo", TMPDIR=str(temp)).stdout.splitlines()
    assert [line for line in lines if len(line) > 80 and not line.startswith("project: ")] == []
    assert all(line.isascii() for line in lines)


def test_keep_keeps_the_repaired_project(temp: Path) -> None:
    done = run("demo", "--keep", TMPDIR=str(temp))
    [folder] = temp.iterdir()
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == f"kept: {folder}"
    tests = subprocess.run([sys.executable, "-m", "unittest"], cwd=folder, timeout=PATIENCE, check=False)
    assert tests.returncode == 0


def start(setup: str, temp: Path) -> subprocess.Popen[str]:
    """The demo in a world that `setup` changes first. It hears Ctrl-C even if the tests run in the background."""
    hear = "signal.signal(signal.SIGINT, signal.default_int_handler)"
    begin = "from mainspring.cli.main import main; sys.exit(main(['demo']))"
    return subprocess.Popen(
        [sys.executable, "-c", f"import os, signal, sys, tempfile; {hear}; {setup}; {begin}"],
        env=os.environ | {"TMPDIR": str(temp)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_demo_that_proves_nothing_does_not_exit_with_0(temp: Path) -> None:
    with start("sys.executable = '/bin/echo'", temp) as demo:  # a "Python" whose tests always pass
        output, _ = demo.communicate(timeout=PATIENCE)
    assert demo.returncode == 1
    assert "the tests passed before" in output


def test_without_room_for_a_project_it_says_so_in_one_line(temp: Path) -> None:
    nowhere = temp / "nowhere"
    with start(f"tempfile.tempdir = {str(nowhere)!r}", temp) as demo:
        output, errors = demo.communicate(timeout=PATIENCE)
    assert (demo.returncode, output) == (1, "")
    assert errors.startswith("mainspring: No such file or directory: ")
    assert errors.count("\n") == 1


# --- colour -----------------------------------------------------------------------------------------


def run_in_terminal(*args: str, **extra: str) -> str:
    ours, theirs = pty.openpty()
    shown = b""
    env = os.environ | {"TERM": "xterm"} | extra
    with subprocess.Popen([*COMMAND, *args], env=env, stdout=theirs) as process, os.fdopen(ours, "rb", 0) as screen:
        os.close(theirs)
        try:
            while chunk := screen.read(4096):
                shown += chunk
        except OSError:
            pass  # how Linux reports that nobody holds the other end any more
        assert process.wait(PATIENCE) == 0
    return shown.decode()


@pytest.mark.long
def test_colour_is_for_terminals_that_want_it() -> None:
    """Side by side: in a terminal the demo takes its time."""
    with ThreadPoolExecutor() as pool:
        coloured = pool.submit(run_in_terminal, "demo", NO_COLOR="")
        unwanted = pool.submit(run_in_terminal, "demo", NO_COLOR="1")
        unable = pool.submit(run_in_terminal, "demo", NO_COLOR="", TERM="dumb")
    assert "\x1b[" in coloured.result()
    assert "\x1b" not in unwanted.result()
    assert "\x1b" not in unable.result()
    assert "\x1b" not in run("demo", NO_COLOR="").stdout


# --- when someone leaves early ----------------------------------------------------------------------


# argparse ignores a write that fails, so that only buffered output, the usual kind, can tell.
BUFFERED = {"PYTHONUNBUFFERED": ""}


def run_into(stdout: IO[bytes], *args: str, **extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *args],
        env=os.environ | BUFFERED | extra,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.mark.parametrize("word", ["demo", "--help", "--version"])
def test_a_reader_that_leaves_is_no_reason_for_a_traceback(word: str, temp: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed_pipe:
        done = run_into(closed_pipe, word, TMPDIR=str(temp))
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")
    assert list(temp.iterdir()) == []


def test_a_reader_that_leaves_in_the_middle_of_a_reply(temp: Path) -> None:
    with start("pass", temp) as demo:
        assert demo.stdout is not None
        assert demo.stderr is not None
        while not demo.stdout.readline().startswith("-- turn 1"):
            pass
        demo.stdout.close()
        assert (demo.wait(PATIENCE), demo.stderr.read()) == (128 + signal.SIGPIPE, "")
    assert list(temp.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize("word", ["demo", "--help", "--version"])
def test_output_that_cannot_be_written_is_one_line(word: str, temp: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = run_into(full, word, TMPDIR=str(temp))
    assert (done.returncode, done.stderr) == (1, "mainspring: cannot write the output: No space left on device\n")
    assert list(temp.iterdir()) == []


def program(path: Path, *lines: str) -> str:
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o700)
    return str(path)


def test_ctrl_c_ends_the_demo_and_the_command_it_runs(tmp_path: Path, temp: Path) -> None:
    """No clock is needed: the command says more than a pipe holds, so that it gets no further until the demo reads,
    then opens a fifo, and never ends by itself."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    endless = program(tmp_path / "endless", "head -c 1000000 /dev/zero", f"exec sleep 1000 >'{fifo}'")
    with start(f"sys.executable = {endless!r}", temp) as demo, fifo.open() as held:
        demo.send_signal(signal.SIGINT)
        output, errors = demo.communicate(timeout=PATIENCE)
        assert held.read() == ""  # the end of the file: nobody holds it any more
    assert (demo.returncode, errors) == (128 + signal.SIGINT, "mainspring: interrupted\n")
    assert output.startswith("mainspring demo: ")
    assert list(temp.iterdir()) == []


def test_ctrl_c_ends_the_run_and_the_call_it_waits_for(tmp_path: Path, temp: Path) -> None:
    """The first command is the demo's own check; the second is the model's call, and never ends by itself."""
    fifo, checked = tmp_path / "fifo", tmp_path / "checked"
    os.mkfifo(fifo)
    check = f"[ -e '{checked}' ] || {{ touch '{checked}'; exit 1; }}"
    endless = program(tmp_path / "endless", check, f"sleep 1000 >'{fifo}'; true")
    with start(f"sys.executable = {endless!r}", temp) as demo, fifo.open() as held:
        demo.send_signal(signal.SIGINT)
        output, errors = demo.communicate(timeout=PATIENCE)
        assert held.read() == ""
    assert (demo.returncode, errors) == (128 + signal.SIGINT, "mainspring: interrupted\n")
    assert "-- turn 1" in output
    assert "-- turn 2" not in output
    assert list(temp.iterdir()) == []


def test_ctrl_c_when_the_command_ends_at_the_same_time(tmp_path: Path, temp: Path) -> None:
    """It was reported as "No such process" once: there was nothing left to kill."""
    pid = tmp_path / "pid"
    brief = program(tmp_path / "brief", "head -c 1000000 /dev/zero", f"kill -INT $(cat '{pid}')")
    setup = f"open({str(pid)!r}, 'w').write(str(os.getpid())); sys.executable = {brief!r}"
    with start(setup, temp) as demo:
        _, errors = demo.communicate(timeout=PATIENCE)
    assert (demo.returncode, errors) == (128 + signal.SIGINT, "mainspring: interrupted\n")
    assert list(temp.iterdir()) == []


def test_a_development_build_names_its_commit(tmp_path: Path) -> None:
    """Read from a checkout, also one with packed references, or a detached head."""
    git = partial(subprocess.run, cwd=tmp_path, check=True, capture_output=True, text=True)
    git(["git", "init", "-q", "-b", "main"])
    git(["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "One"])
    commit = git(["git", "rev-parse", "HEAD"]).stdout.strip()
    assert find_checkout_commit(str(tmp_path / ".git")) == commit
    git(["git", "pack-refs", "--all"])
    assert find_checkout_commit(str(tmp_path / ".git")) == commit
    git(["git", "checkout", "-q", "--detach"])
    assert find_checkout_commit(str(tmp_path / ".git")) == commit
    assert find_checkout_commit(str(tmp_path)) == ""
    assert describe_version() in (__version__, f"{__version__} (commit {describe_version()[-10:-1]})")
