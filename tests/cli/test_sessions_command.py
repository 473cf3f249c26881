"""Sessions are listed so that they fit, and found by what the list shows of them."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
from pathlib import Path

import pytest

from cli.stage import COMMAND, PATIENCE, Serve, Stage
from mainspring.agent.session_rows import format_age, unique_id_length
from mainspring.simulator.replies import Say

A, B, C = (f"{begin}-1111-4111-8111-111111111111" for begin in ("abcd1234", "abcd5678", "ef001234"))


def listed(stage: Stage, columns: int) -> list[str]:
    """As a terminal of this width gets it."""
    ours, theirs = pty.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        done = subprocess.run(
            [*COMMAND, "sessions"],
            stdin=theirs,
            stdout=theirs,
            cwd=stage.folder,
            env=stage.environment,
            timeout=PATIENCE,
            check=True,
        )
        assert done.returncode == 0
        return os.read(ours, 65_536).decode().replace("\r\n", "\n").splitlines()
    finally:
        os.close(ours)
        os.close(theirs)


def held(stage: Stage, *ids: str, prompt: str = "hello") -> None:
    for one in ids:
        done = stage.run("-p", prompt, f"--session-id={one}")
        assert done.returncode == 0, done.stderr


@pytest.mark.covers("L-05")
@pytest.mark.parametrize("short", ["abcd1", "abcd1234", "ABCD1", "abcd1234-1111"])
def test_the_beginning_of_an_id_is_enough(short: str, serve: Serve) -> None:
    stage = serve(*[Say.of("One.")] * 2, Say.of("Two."))
    held(stage, A, B)
    done = stage.run("-p", "and now?", f"--resume={short}")
    assert (done.returncode, done.stdout) == (0, b"Two.\n")
    assert len(stage.sessions()) == 2
    assert "and now?" in stage.run("sessions", "show", short).stdout.decode()
    assert stage.run("context", short).returncode == 0


def test_of_several_none_is_guessed(serve: Serve) -> None:
    stage = serve(*[Say.of("One.")] * 2)
    held(stage, A, B)
    for arguments in (["-p", "and now?", "--resume=abcd"], ["sessions", "show", "abcd"]):
        done = stage.run(*arguments)
        assert done.returncode == 1
        assert f"'abcd' matches 2 sessions: '{B}', '{A}'. Give more characters of the id" in done.stderr.decode()
    assert len(stage.requests) == 2


@pytest.mark.parametrize("name", ["abc", "abce", "abcd1234-2", "xyzxyz", "../abcd1234", "abcd*"])
def test_what_fits_none_or_is_too_short(name: str, serve: Serve) -> None:
    stage = serve(Say.of("One."))
    held(stage, A)
    done = stage.run("-p", "and now?", f"--resume={name}")
    assert done.returncode == 1
    assert f"No conversation found with session ID: {name}" in done.stderr.decode()


def test_a_session_of_this_folder_comes_before_those_of_others(serve: Serve) -> None:
    stage = serve(*[Say.of("One.")] * 3, Say.of("Two."), Say.of("Three."))
    here, there = stage.folder, stage.folder.parent / "elsewhere"
    there.mkdir()
    held(stage, A)
    stage.folder = there
    held(stage, B, C)
    stage.folder = here
    assert stage.run("-p", "and now?", "--resume=abcd").stdout == b"Two.\n"
    assert stage.run("-p", "and now?", "--resume=ef00").stdout == b"Three.\n"
    assert [named(stage, text) for text in ("Two.", "Three.")] == [[A], [C]]


def named(stage: Stage, text: str) -> list[str]:
    return [path.stem for path in stage.sessions() if text in path.read_text()]


def test_a_title_that_looks_like_an_id_is_a_title(serve: Serve) -> None:
    stage = serve(*[Say.of("One.")] * 2, Say.of("Two."))
    held(stage, A)
    held(stage, C, prompt="abcd")
    assert stage.run("-p", "and now?", "--resume=abcd").stdout == b"Two.\n"
    assert named(stage, "Two.") == [C]


# --- the list -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_a_line_fits_the_terminal(columns: int, serve: Serve) -> None:
    stage = serve(*[Say.of("One.")] * 2)
    held(stage, A, prompt="fix the \x1b[2Jtest\nthat fails, " * 20)
    held(stage, C, prompt="漢字" * 100)
    *lines, how = listed(stage, columns)
    assert [line[:8] for line in lines] == [C[:8], A[:8]]
    assert "--resume ID" in how
    assert len(how) < 80
    assert all("  1 turn  " in line and line.endswith("...") for line in lines)
    widths = [len(line.encode("euc-jp")) for line in lines]  # two bytes for what is two columns wide
    assert all(columns - 1 <= width <= columns for width in widths)
    assert "\x1b" not in "".join(lines)
    [_, whole] = stage.run("sessions").stdout.decode().splitlines()  # programs get all of it
    assert whole.startswith(A)
    assert whole.count("that fails,") > 5


def test_ids_are_as_long_as_they_must_be() -> None:
    assert unique_id_length([A]) == unique_id_length([A, B, C]) == 8
    assert unique_id_length([A, A[:8] + "-2" + A[10:]]) == 10
    assert unique_id_length([A, A]) == 36


def test_ages() -> None:
    assert [format_age(seconds) for seconds in (-5, 0, 1.9, 2, 119, 120, 7_199, 7_200, 86_400 * 2)] == [
        "now",
        "now",
        "now",
        "2 seconds ago",
        "119 seconds ago",
        "2 minutes ago",
        "120 minutes ago",
        "2 hours ago",
        "2 days ago",
    ]


def test_nothing_is_written_by_looking(serve: Serve) -> None:
    stage = serve(Say.of("One."))
    held(stage, A)
    before: list[tuple[Path, int]] = [(path, path.stat().st_mtime_ns) for path in stage.sessions()]
    stage.run("sessions")
    stage.run("sessions", "show", "abcd")
    assert [(path, path.stat().st_mtime_ns) for path in stage.sessions()] == before
