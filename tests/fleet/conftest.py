"""Each test has a home and a working directory of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainspring.testing.plugin import model_server

__all__ = ["home", "model_server"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder, work = tmp_path / "home", tmp_path / "work"
    work.mkdir()
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL", "OPENAI_API_KEY", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MAINSPRING_HOME", str(folder))
    monkeypatch.chdir(work)
    return folder
