"""What the tests of the pipe share."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

CLIENT = os.environ.get("MAINSPRING_PIPE_CLIENT")  # another library to be held to the same promises
if CLIENT:
    sys.modules["claude_agent_sdk"] = import_module(CLIENT)
    sys.modules["claude_agent_sdk.types"] = import_module(f"{CLIENT}.types")

from pipe.stage import Serve, serving_here  # noqa: E402


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Another library has no process, no lines, and its own number."""
    if not CLIENT:
        return
    away = [item for item in items if item.get_closest_marker("of_the_pipe") or "stage.pipe(" in source(item)]
    config.hook.pytest_deselected(items=away)
    items[:] = [item for item in items if item not in away]


def source(item: pytest.Item) -> str:
    return inspect.getsource(item.function) if isinstance(item, pytest.Function) else ""


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Starts a server with these replies, for the time of the test."""
    with serving_here(tmp_path, monkeypatch) as start:
        yield start
