"""What the tests of the pipe share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from mainspring.simulator.choosing import Choose
from mainspring.simulator.replies import Reply
from pipe.stage import Serve, Stage, staged


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Starts a server with these replies, for the time of the test.

    The client hands its whole environment on, and its session functions read it: none of ours may be in it.
    """
    for name in list(os.environ):
        if name.startswith(("ANTHROPIC_", "CLAUDE", "MAINSPRING_HOME")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("IS_SANDBOX", "1")
    with ExitStack() as stack:

        def start(*replies: Reply, choose: Choose | None = None) -> Stage:
            return stack.enter_context(staged(replies, tmp_path / "work", choose))

        yield start
