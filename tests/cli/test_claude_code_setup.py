"""A set-up of Claude Code in the home: what is found, what is copied, and what stays as it was."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from mainspring.agent.options import StartError
from mainspring.cli.claude_code_setup import (
    BOTH,
    NOTHING,
    SERVERS,
    SETTINGS,
    copy_claude_code,
    describe_parts,
    describe_read_anyway,
    find_claude_code,
)
from mainspring.cli.tui.claude_code_offer import make_offer
from mainspring.settings.load import load_settings

THEIRS = {"permissions": {"allow": ["Bash(npm test)"], "deny": ["Read(.env)"]}, "model": "opus"}
SHOP = {"shop": {"command": "shop-server", "args": ["--stdio"]}}


class Home:
    def __init__(self, folder: Path) -> None:
        self.folder, self.environ = folder, {"HOME": str(folder)}
        (folder / ".claude/projects/-work").mkdir(parents=True)

    def write(self, name: str, tree: object) -> None:
        (self.folder / name).write_text(json.dumps(tree))

    def ours(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / ".mainspring/settings.json").read_text())
        return found


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path)
    made.write(".claude/settings.json", THEIRS)
    made.write(".claude.json", {"mcpServers": SHOP, "numStartups": 40})
    (tmp_path / ".claude/CLAUDE.md").write_text("Be brief.")
    (tmp_path / ".claude/projects/-work/a.jsonl").write_text("")
    return made


def test_what_is_found_is_named_exactly(home: Home) -> None:
    found = find_claude_code(home.environ)
    assert found is not None
    assert describe_parts(found) == {SETTINGS: "Settings: permissions, model", SERVERS: "MCP servers: shop"}
    assert describe_read_anyway(found) == "CLAUDE.md and 1 session"
    shown = "\n".join([line.plain for line in make_offer(found, now=lambda: 0.0).draw(100, 30)])
    for words in ("Use your Claude Code set-up here?", "Settings: permissions, model", "MCP servers: shop",
                  "1. Yes, copy them", "2. Only the settings", "3. Only the MCP servers", "4. No, and do not ask again",
                  "mainspring reads these already: CLAUDE.md and 1 session.", "esc later"):  # fmt: skip
        assert words in shown


@pytest.mark.parametrize(
    ("answer", "names"), [(BOTH, ["mcpServers", "model", "permissions"]), (SETTINGS, ["model", "permissions"]),
                          (SERVERS, ["mcpServers"])],
)  # fmt: skip
def test_the_chosen_parts_are_copied_and_the_answer_is_remembered(home: Home, answer: str, names: list[str]) -> None:
    found = find_claude_code(home.environ)
    assert found is not None
    assert copy_claude_code(found, answer, home.environ).startswith("Copied to ")
    assert sorted(home.ours()) == names
    file = home.folder / ".mainspring/settings.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert find_claude_code(home.environ) is None
    settings = load_settings("/", home.environ)
    assert (settings.model == "opus") is (answer != SERVERS)
    assert bool(settings.mcp.servers) is (answer != SETTINGS)


def test_what_is_set_already_stays(home: Home) -> None:
    (home.folder / ".mainspring").mkdir()
    home.write(".mainspring/settings.json", {"model": "ollama/x", "mcpServers": {"shop": {"command": "mine"}}})
    found = find_claude_code(home.environ)
    assert found is not None
    words = copy_claude_code(found, BOTH, home.environ)
    assert words.endswith("settings.json': permissions.")
    assert home.ours() == {
        "permissions": THEIRS["permissions"], "model": "ollama/x", "mcpServers": {"shop": {"command": "mine"}}
    }  # fmt: skip


def test_no_is_remembered_and_copies_nothing(home: Home) -> None:
    found = find_claude_code(home.environ)
    assert found is not None
    assert copy_claude_code(found, NOTHING, home.environ) == ""
    assert find_claude_code(home.environ) is None
    assert not (home.folder / ".mainspring/settings.json").exists()


def test_settings_that_would_stop_a_start_are_not_copied(home: Home) -> None:
    """A restriction that we cannot enforce stops every start."""
    home.write(".claude/settings.json", {"model": "opus", "permissions": {"blockReadsOutsideWorkingDirectories": True}})
    found = find_claude_code(home.environ)
    assert found is not None
    with pytest.raises(StartError, match="were not copied"):
        copy_claude_code(found, SETTINGS, home.environ)
    assert not (home.folder / ".mainspring/settings.json").exists()
    (home.folder / ".mainspring").mkdir(exist_ok=True)
    home.write(".mainspring/settings.json", {"model": "sonnet"})
    with pytest.raises(StartError, match="were not copied"):
        copy_claude_code(found, SETTINGS, home.environ)
    assert home.ours() == {"model": "sonnet"}


def test_nothing_is_offered_where_nothing_could_be_copied(home: Home, tmp_path: Path) -> None:
    for other in ({"MAINSPRING_HOME": str(tmp_path / "x")}, {"CLAUDE_CONFIG_DIR": str(tmp_path / ".claude")}):
        assert find_claude_code(home.environ | other) is None
    home.write(".claude/settings.json", {})
    home.write(".claude.json", {"numStartups": 1})
    assert find_claude_code(home.environ) is None
    (home.folder / ".claude/settings.json").write_text("{broken")
    (home.folder / ".claude.json").write_text("[]")
    assert find_claude_code(home.environ) is None
    for name in (".claude/settings.json", ".claude.json"):
        (home.folder / name).unlink()
    assert find_claude_code(home.environ) is None
