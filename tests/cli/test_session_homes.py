"""Sessions are found in every home where front ends store them, and can be deleted."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import pytest

from cli.stage import COMMAND, PATIENCE, Serve, Stage
from mainspring.sdk import list_sessions
from mainspring.sessions.paths import folder_of
from mainspring.simulator.replies import Say

A, B = (f"{begin}-1111-4111-8111-111111111111" for begin in ("abcd1234", "ef001234"))
DAY = 86_400


def user_of(stage: Stage) -> Path:
    return stage.folder.parent / "user"


def usual(stage: Stage, **env: str) -> dict[str, str]:
    """No variable names a home."""
    return {"MAINSPRING_HOME": "", "HOME": str(user_of(stage)), **env}


def hold(stage: Stage, session_id: str, home: str = "", prompt: str = "hello") -> Path:
    """A session in a home of the user."""
    env = usual(stage, **({"MAINSPRING_HOME": str(user_of(stage) / home)} if home else {}))
    done = stage.run("-p", prompt, f"--session-id={session_id}", env=env)
    assert done.returncode == 0, done.stderr
    return Path(folder_of(str(user_of(stage) / (home or ".mainspring")), stage.folder), f"{session_id}.jsonl")


@pytest.fixture
def stage(serve: Serve) -> Stage:
    made = serve(choose=lambda _: Say.of("Hi."))
    user_of(made).mkdir()
    return made


@pytest.mark.parametrize(
    "command",
    [
        ("trace", "{}", "--json"),
        ("context", "{}"),
        ("sessions", "{}"),
        ("replay", "{}"),
        ("-p", "and now?", "--resume", "{}"),
    ],
)
def test_a_session_of_the_other_home_is_found(stage: Stage, command: tuple[str, ...]) -> None:
    file = hold(stage, A, ".claude")
    size = file.stat().st_size
    done = stage.run(*[word.format("abcd") for word in command], env=usual(stage))
    assert done.returncode == 0, done.stderr
    assert f"session {A} was found in '{user_of(stage)}/.claude'" in done.stderr.decode()
    if command[0] == "-p":  # it continues where it is
        assert file.stat().st_size > size


@pytest.mark.parametrize(
    ("command", "how"),
    [
        (("trace", "--json"), "path"),
        (("trace", "--json"), "folder of files"),
        (("trace", "--json"), "no name"),
        (("context",), "working folder"),
        (("context",), "here"),
        (("sessions", "show"), "path"),
        (("sessions", "show"), "working folder"),
        (("sessions",), "no name"),
    ],
)
def test_a_path_or_a_folder_names_a_session(stage: Stage, command: tuple[str, ...], how: str) -> None:
    file = hold(stage, A)
    names = {"path": str(file), "folder of files": str(file.parent), "working folder": str(stage.folder), "here": "."}
    done = stage.run(*command, *([names[how]] if how in names else []), env=usual(stage))
    assert done.returncode == 0, done.stderr
    shown = done.stdout.decode()
    assert ("Hi." if command == ("sessions", "show") and how == "path" else A) in shown


def test_the_list_names_the_other_home(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    hold(stage, A)
    other = hold(stage, B, ".claude")
    shown = stage.run("sessions", env=usual(stage)).stdout.decode()
    assert A in shown
    assert B in shown
    assert f"In '{other.parent}': {B[:8]}" in shown
    # With a variable, the user separates sessions.
    alone = stage.run("sessions", env=usual(stage, CLAUDE_CONFIG_DIR=str(user_of(stage) / ".claude"))).stdout.decode()
    assert B in alone
    assert A not in alone
    for name in ("MAINSPRING_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(user_of(stage)))
    assert {info.session_id for info in list_sessions(str(stage.folder))} == {A, B}
    assert {info.session_id for info in list_sessions()} == {A, B}


def test_an_unknown_session_names_the_searched_homes(stage: Stage) -> None:
    done = stage.run("trace", "beef", "--text", env=usual(stage))
    assert done.returncode == 1
    assert "No conversation found with session ID: beef. Run 'mainspring sessions'" in done.stderr.decode()
    assert f"Searched: '{user_of(stage)}/.mainspring', '{user_of(stage)}/.claude'" in done.stderr.decode()


def test_the_newest_session_to_continue_is_one_of_our_home(stage: Stage) -> None:
    ours, other = hold(stage, A), hold(stage, B, ".claude")
    os.utime(ours, (1e9, 1e9))
    sizes = ours.stat().st_size, other.stat().st_size
    assert stage.run("-p", "more", "--continue", env=usual(stage)).returncode == 0
    assert ours.stat().st_size > sizes[0]
    assert other.stat().st_size == sizes[1]


# --- deleting -------------------------------------------------------------------------------------------------


def test_a_session_is_deleted_with_all_that_belongs_to_it(stage: Stage) -> None:
    file, kept = hold(stage, A, prompt="one"), hold(stage, B)
    beside = file.with_suffix("")
    for name in ("subagents/agent-a1.jsonl", "payloads/x", "tool-results/y"):
        (beside / name).parent.mkdir(parents=True)
        (beside / name).write_text("x")
    done = stage.run("sessions", "delete", "abcd", env=usual(stage))
    assert done.stdout.decode() == f"Deleted session {A} \"one\" ('{file}')\n"
    assert done.returncode == 0
    assert not file.exists()
    assert not beside.exists()
    assert kept.exists()


def test_a_session_in_use_is_not_deleted(stage: Stage) -> None:
    import fcntl

    file = hold(stage, A)
    with file.open() as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        done = stage.run("sessions", "delete", A, env=usual(stage))
    assert done.returncode == 1
    assert "is in use" in done.stderr.decode()
    assert file.exists()


def test_old_sessions_are_purged(stage: Stage) -> None:
    old, new = hold(stage, A), hold(stage, B)
    past = new.stat().st_mtime - 31 * DAY
    os.utime(old, (past, past))
    tried = stage.run("sessions", "purge", "--older-than", "30d", "--dry-run", env=usual(stage))
    assert tried.stdout.decode() == f"Would delete session {A} \"hello\" ('{old}')\n"
    assert old.exists()
    done = stage.run("sessions", "purge", "--older-than", "30d", env=usual(stage))
    assert done.stdout.decode().startswith(f"Deleted session {A}")
    assert not old.exists()
    assert new.exists()
    wrong = stage.run("sessions", "purge", "--older-than", "soon", env=usual(stage))
    assert "'soon' is not a time: write a number and h, d or w, such as 30d" in wrong.stderr.decode()


@pytest.mark.parametrize(("answer", "gone"), [(b"y\n", True), (b"\n", False)])
def test_it_asks_at_a_terminal(stage: Stage, answer: bytes, gone: bool) -> None:
    file = hold(stage, A)
    ours, theirs = pty.openpty()
    try:
        os.write(ours, answer)
        done = subprocess.run(
            [*COMMAND, "sessions", "delete", A],
            stdin=theirs,
            stdout=theirs,
            cwd=stage.folder,
            env=stage.environment | usual(stage),
            timeout=PATIENCE,
            check=False,
        )
        assert b"Delete 1 session? This cannot be undone. [y/N]" in os.read(ours, 65_536)
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == (0 if gone else 1)
    assert file.exists() == (not gone)
