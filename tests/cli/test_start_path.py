"""What commands load. A start that grows slow does so one import at a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cli.stage import PATIENCE, serving
from mainspring.simulator.replies import Say

HEAVY = {"asyncio", "msgspec", "subprocess", "typing_extensions", "uuid", "tempfile"}


def test_version_loads_nothing_heavy() -> None:
    """With an empty environment: coverage, which measures child processes too, would load half of the list itself."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "mainspring", "--version"],
        env={},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "mainspring.cli.main" in loaded
    assert loaded & HEAVY == set()
    assert [name for name in loaded if name.startswith("mainspring.core")] == []


def loaded_by(code: str, folder: Path, **environment: str) -> set[str]:
    told = f"import sys; {code}; sys.stderr.write(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", told],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment,
        cwd=folder,
        timeout=PATIENCE,
        check=True,
    )
    return set(done.stderr.decode().split())


# What a headless run may load, beside ours, and whatever these load themselves.
BASE = "import asyncio, msgspec.structs, httptools, ssl"
ALLOWED = {
    *("_ctypes", "resource"),  # the process is closed to others before a key is read
    "gc",  # switched off while modules load
    "zlib",  # a checksum, in the core
    *("concurrent.futures.thread", "queue", "_queue"),  # the journal's last `fdatasync`
    *("hashlib", "_hashlib", "_blake2"),  # what was read is remembered by content: with the first file
    "unicodedata",  # the names of session folders are normalised (stream-json 14.1)
}


@pytest.mark.covers("O-02")
def test_a_headless_run_loads_a_short_list(tmp_path: Path) -> None:
    """A run with a tool call, from the first line to the last."""
    look = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "a.txt"}}
    with serving([Say.of("Look.", look), Say.of("Done.")] * 2, tmp_path / "work") as stage:
        (stage.folder / "a.txt").write_text("hello")
        environment = {"ANTHROPIC_BASE_URL": stage.server.url, "MAINSPRING_HOME": str(stage.home)}
        run = "from mainspring.cli.main import main; main(['-p', 'hello', '--output-format=stream-json'])"
        loaded_by(run, stage.folder, **environment)  # the first one also tries whether there is a sandbox
        loaded = loaded_by(run, stage.folder, **environment)
        assert len(stage.requests) == 4
    more = loaded - loaded_by(BASE, tmp_path)
    assert {name for name in more if not name.startswith("mainspring")} <= ALLOWED
    doors = {"conversation", "screen", "demo", "help"}
    assert not {f"mainspring.cli.{name}" for name in doors} & more
    assert "mainspring.simulator" not in more
    assert "mainspring.testing" not in more
