"""Both ways to search, and a place without ripgrep."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest
from processes.steps import names_in

PYTHON = sys.executable


@pytest.fixture(params=["ripgrep", "python"])
def manner(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> str:
    """Tests that take this run twice: with ripgrep, which the development environment has, and without."""
    if request.param == "python":
        without_ripgrep(tmp_path_factory.mktemp("bin"), monkeypatch)
    return str(request.param)


def without_ripgrep(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interpreter with no ripgrep beside it, and no PATH."""
    wrapper = folder / "python"
    wrapper.write_text(f'#!/bin/sh\nexec {shlex.quote(PYTHON)} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(wrapper))
    monkeypatch.setenv("PATH", "")
    if any(os.access(f"{usual}/rg", os.X_OK) for usual in ("/bin", "/usr/bin", "/usr/local/bin")):
        pytest.skip("the system has ripgrep in a place that is always looked at")


def fake_ripgrep(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A program of that name, first on PATH."""
    (folder / "rg").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "rg").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def children() -> list[int]:
    """Processes that are ours, dead or alive."""
    found: list[int] = []
    for name in names_in("/proc"):
        if name.isdigit():
            try:
                words = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(words[1]) == os.getpid():
                found.append(int(name))
    return found
