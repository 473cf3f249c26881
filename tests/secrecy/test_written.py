"""What a run leaves on the disk: for its owner only, whatever the umask, and without the key (security K1, K3)."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli.stage import COMMAND, PATIENCE, Serve, Stage

from mainspring.simulator.replies import Say

KEY = "kq-the-key-of-this-test-0123456789"


def call(number: int, name: str, **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": input}


def run(stage: Stage, *flags: str) -> subprocess.CompletedProcess[bytes]:
    """With an umask that takes nothing away."""
    temp = stage.folder.parent / "temp"
    temp.mkdir(exist_ok=True)
    return subprocess.run(
        [*COMMAND, "-p", "go", *flags],
        cwd=stage.folder,
        env=stage.environment | {"ANTHROPIC_API_KEY": KEY, "TMPDIR": str(temp)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
        umask=0,
    )


def made(stage: Stage) -> Iterator[Path]:
    """Everything outside of the working folder that was not there before."""
    for top in (stage.home, stage.folder.parent / "temp"):
        yield from [top, *top.rglob("*")]


FLOOD = "head -c 400000 /dev/zero | tr '\\0' x"


def test_all_that_is_made_is_for_its_owner_only(serve: Serve) -> None:
    calls = [call(1, "Bash", command=FLOOD, description="much"), call(2, "Read", file_path="a.txt")]
    stage = serve(Say.of("Let me look.", *calls), Say.of("Done."))
    (stage.folder / "a.txt").write_text("hello\n")
    done = run(stage, "--output-format=stream-json", "--include-partial-messages", "--allowedTools", "Bash,Read")
    assert done.returncode == 0, done.stderr
    seen = [path for path in made(stage) if path.name != "temp"]
    modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in seen}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}, modes
    assert {mode & ~0o600 for path, mode in modes.items() if path.is_file()} == {0}, modes
    names = {path.name for path in seen}
    assert {"projects", "live.jsonl", "tool-results"} <= names  # the walk has seen what it is about
    assert len(stage.sessions()) == 1


def test_a_file_that_waits_in_our_place_is_not_taken(serve: Serve) -> None:
    """A link in the place of a session's file would have us write where somebody else wants it."""
    stage = serve(Say.of("Done."))
    session = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"
    assert run(stage, "--session-id", session).returncode == 0
    (file,) = stage.sessions()
    target = stage.folder.parent / "target"
    target.write_text("mine")
    file.unlink()
    file.symlink_to(target)
    done = run(stage, "--session-id", session)
    assert (done.returncode, target.read_text()) == (1, "mine")


@pytest.mark.parametrize("flags", [(), ("--output-format=stream-json", "--include-partial-messages")])
def test_no_file_holds_the_key_however_it_came_into_the_conversation(serve: Serve, flags: tuple[str, ...]) -> None:
    calls = [call(1, "Read", file_path="a.txt"), call(2, "Grep", pattern="kq-", output_mode="content")]
    calls.append(call(3, "Bash", command="cat a.txt", description="look"))
    stage = serve(Say.of(f"The key is {KEY}.", *calls), Say.of(f"It is {KEY}"))
    (stage.folder / "a.txt").write_text(f"ANTHROPIC_API_KEY={KEY}\n")
    done = run(stage, *flags)
    assert done.returncode == 0, done.stderr
    assert KEY.encode() not in done.stderr
    assert leaks(stage) == []
    assert len(stage.sessions()) == 1


def test_nor_does_the_file_of_a_long_output(serve: Serve) -> None:
    stage = serve(Say.of("Look.", call(1, "Bash", command="cat big.txt", description="look")), Say.of("Done."))
    (stage.folder / "big.txt").write_text(f"{KEY} and more\n" * 20_000)
    assert run(stage).returncode == 0
    assert leaks(stage) == []


def leaks(stage: Stage) -> list[str]:
    return [str(path) for path in made(stage) if path.is_file() and KEY.encode() in path.read_bytes()]


def test_the_key_is_not_in_the_environment_of_what_is_started(serve: Serve) -> None:
    stage = serve(Say.of("Look.", call(1, "Bash", command="env > env.txt", description="env")), Say.of("Done."))
    assert run(stage, "--allowedTools", "Bash").returncode == 0
    found = (stage.folder / "env.txt").read_text()
    assert "PATH=" in found
    assert KEY not in found
    assert os.environ.get("ANTHROPIC_API_KEY", KEY) not in found
