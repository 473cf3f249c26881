"""What the tests of secrets share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from cli.stage import Serve, Stage, serving

from mainspring.secrets import held
from mainspring.simulator.replies import Reply
from mainspring.simulator.scripts import Choose


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts a server with these replies, for the time of the test."""
    with ExitStack() as stack:

        def start(*replies: Reply, api_key: str | None = None, choose: Choose | None = None) -> Stage:
            return stack.enter_context(serving(replies, tmp_path / "work", api_key, choose))

        yield start


@pytest.fixture(autouse=True)
def _holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process holds what it once held; a test should not hold what the one before it did."""
    monkeypatch.setattr(held, "_held", held.HeldSecrets())
