"""The panels of slash commands, over real sessions and files."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cli.slash.sitting import Sitting, here, seated
from cli.stage import Serve, Stage
from mcp_servers.stage import SHOP

from mainspring.cli.tui.panel import Panel
from mainspring.cli.tui.panels import PANELS, PanelContext, open_panel
from mainspring.core.models import DEFAULT_MODEL
from mainspring.settings.trust import add_trusted_folder
from mainspring.simulator.replies import Say
from tui.hands import fits, plain, press
from tui.test_panel import Held
from tui.test_terminal import tool_use

SIZES = ((120, 35), (80, 23), (40, 11), (60, 7))


class Opened:
    """A panel that is open, and somebody at it."""

    def __init__(self, sitting: Sitting, screen: Held) -> None:
        self.sitting, self.session, self._screen = sitting, sitting.talk.session, screen

    @property
    def panel(self) -> Panel:
        return self._screen.open_panels[-1]

    @property
    def is_open(self) -> bool:
        return bool(self._screen.open_panels)

    def lines(self, width: int = 100, height: int = 30) -> list[str]:
        drawn = self.panel.draw(width, height)
        fits(drawn, width, height)
        return [line.rstrip() for line in plain(drawn) if line.strip()]

    async def press(self, *pressed: str) -> list[str]:
        for key in pressed:
            await self._press(self.panel, key)
            if not self.is_open:
                return []
        return self.lines()

    async def _press(self, panel: Panel, key: str) -> None:
        """Until nothing is left to do: actions write in threads."""
        panel.draw(100, 30)
        self._screen.clock.now += 1
        press(panel, key)
        self._screen.clock.now += 1
        panel.settle()
        await asyncio.sleep(0)
        await self._screen.until(lambda: not panel.is_busy)
        if panel.over:
            await self._screen.until(lambda: not self.is_open)

    def marked(self) -> str:
        return next(line for line in self.lines() if line.startswith("❯"))


@asynccontextmanager
async def nothing_given_away() -> AsyncGenerator[None]:
    yield


@asynccontextmanager
async def opened(sitting: Sitting, command: str, answers: list[str | None]) -> AsyncGenerator[Opened]:
    screen = Held()
    context = PanelContext(sitting.talk, screen, nothing_given_away)
    task = asyncio.ensure_future(open_panel(command, context))
    await screen.until(lambda: bool(screen.open_panels))
    try:
        yield Opened(sitting, screen)
    finally:
        for panel in screen.open_panels:
            panel.close()
        answers.append(await task)


def play(
    command: str,
    scene: Callable[[Opened], Awaitable[None]],
    *arguments: str,
    before: Callable[[Sitting], Awaitable[None]] | None = None,
) -> tuple[str | None, list[str]]:
    """Returns what the panel answers, and what is printed."""
    answers: list[str | None] = []
    printed: list[str] = []

    async def main() -> None:
        async with seated(*arguments) as sitting:
            if before is not None:
                await before(sitting)
            at = len(sitting.paper.lines)
            async with opened(sitting, command, answers) as panel:
                await scene(panel)
            printed.extend(sitting.paper.lines[at:])

    asyncio.run(main())
    return answers[0], printed


@pytest.fixture
def stage(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> Stage:
    stage = serve()
    here(stage, monkeypatch, HOME=str(stage.folder.parent))
    return stage


def put(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def told(path: Path) -> object:
    return json.loads(path.read_text())


def trusted(stage: Stage) -> None:
    add_trusted_folder(str(stage.home), str(stage.folder), at=1)


# --- permissions ------------------------------------------------------------------------------------------------------


def test_rules_are_added_with_their_place_told_truthfully(stage: Stage) -> None:
    trusted(stage)

    async def scene(panel: Opened) -> None:
        assert "No allow rules." in panel.lines()
        lines = await panel.press("a", "Bash(", "enter")
        assert any("has no closing parenthesis" in line for line in lines)
        await panel.press("ls)", "enter", "2")
        assert panel.marked().split() == ["❯", "Bash(ls)", "local", "settings"]
        await panel.press("a", "Read", "enter", "1")
        assert any(line.split() == ["Read", "this", "session"] for line in panel.lines())
        rules = panel.session.world.session.shared.policy.rules
        assert rules == ("allow Bash(ls)", "allow Read")

    _, printed = play("permissions", scene)
    assert told(stage.folder / ".claude/settings.local.json") == {"permissions": {"allow": ["Bash(ls)"]}}
    assert printed == ["Added allow Bash(ls) to the local settings.", "Added allow Read to this session."]


def test_a_removed_rule_no_longer_counts_at_once(stage: Stage) -> None:
    file = put(stage.home / "settings.json", {"permissions": {"allow": ["Bash(a)", "Bash(b)"], "deny": ["Bash(c)"]}})

    async def scene(panel: Opened) -> None:
        await panel.press("d", "enter")
        assert len(panel.session.permissions.list_rules("allow")) == 2, "No is marked first"
        await panel.press("d", "2")
        assert [rule.text for rule in panel.session.permissions.list_rules("allow")] == ["Bash(b)"]
        lines = await panel.press("right", "right")
        assert not any("remove" in line and "move ·" in line for line in lines), "deny rules stay"
        await panel.press("d", "2")
        assert [rule.text for rule in panel.session.permissions.list_rules("deny")] == ["Bash(c)"]

    play("permissions", scene)
    assert told(file) == {"permissions": {"allow": ["Bash(b)"], "deny": ["Bash(c)"]}}


def test_a_rule_moves_from_one_file_to_another(stage: Stage) -> None:
    trusted(stage)
    file = put(stage.folder / ".claude/settings.json", {"permissions": {"ask": ["Bash(git push:*)"]}})

    async def scene(panel: Opened) -> None:
        await panel.press("right", "m", "4")
        assert panel.marked().split()[-2:] == ["your", "settings"]

    play("permissions", scene)
    assert told(file) == {"permissions": {"ask": []}}
    assert told(stage.home / "settings.json") == {"permissions": {"ask": ["Bash(git push:*)"]}}


def test_rules_of_the_command_line_cannot_be_changed(stage: Stage) -> None:
    async def scene(panel: Opened) -> None:
        lines = panel.lines()
        assert "  Set by: command line. It cannot be changed here." in lines
        assert lines[-1].startswith("a add · ←→"), "no key removes it"
        await panel.press("d", "2")
        assert len(panel.session.permissions.list_rules("allow")) == 1

    play("permissions", scene, "--allowedTools", "Bash(ls)")
    assert stage.folder.exists()


@pytest.mark.parametrize(("key", "reach"), [("o", "once"), ("s", "session"), ("p", "project")])
def test_a_denied_call_is_allowed_with_one_key(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, key: str, reach: str
) -> None:
    call = tool_use("Bash", command="touch made")
    stage = serve(Say.of(call), Say.of(call), Say.of("Done."), Say.of(call), Say.of("Done."))
    here(stage, monkeypatch, HOME=str(stage.folder.parent))
    trusted(stage)

    async def scene(panel: Opened) -> None:
        lines = await panel.press("left", "left")
        assert any(line.startswith("❯ Bash") and "touch made" in line for line in lines)
        await panel.press(key)
        await panel.sitting.asked("again")
        assert (stage.folder / "made").exists()
        await asyncio.sleep(0)
        rules = panel.session.world.session.shared.policy.rules
        assert rules == (() if reach == "once" else ("allow Bash(touch made)",))

    play("permissions", scene, before=lambda sitting: sitting.asked("go"))
    kept = stage.folder / ".claude/settings.local.json"
    assert kept.exists() is (reach == "project")


def test_a_call_that_a_rule_denies_cannot_be_allowed(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve(Say.of(tool_use("Bash", command="touch made")), Say.of("Done."))
    here(stage, monkeypatch, HOME=str(stage.folder.parent))

    async def scene(panel: Opened) -> None:
        lines = await panel.press("left", "left", "s")
        assert any("no rule can allow exactly this call" in line for line in lines)
        assert not panel.session.world.session.shared.policy.rules

    play("permissions", scene, "--disallowedTools", "Bash(touch:*)", before=lambda sitting: sitting.asked("go"))


def test_directories_are_added_and_removed(stage: Stage) -> None:
    other = stage.folder.parent / "other"
    other.mkdir()

    async def scene(panel: Opened) -> None:
        await panel.press("left", "a", "../nowhere", "enter")
        assert any("is not a directory" in line for line in panel.lines())
        await panel.press("a", "../other", "enter")
        place = panel.session.world.kit.place
        assert [*place.folders] == [str(other)]
        await panel.press("d", "2")
        assert [*place.folders] == [str(other)], "the working directory stays"
        await panel.press("down", "d", "2")
        assert not place.folders

    play("permissions", scene)


# --- config -----------------------------------------------------------------------------------------------------------


def test_a_setting_is_changed_in_the_chosen_file(stage: Stage) -> None:
    async def scene(panel: Opened) -> None:
        await panel.press("/", "maxTurns", "enter", "enter", "1")
        lines = await panel.press("0", "enter")
        assert any("at least 1" in line for line in lines)
        await panel.press("backspace", "7", "enter")
        assert panel.marked().split() == ["❯", "limits.maxTurns", "*", "7", "(user)"]
        assert "Changes take effect when you close this panel." in panel.lines()

    answer, printed = play("config", scene)
    assert told(stage.home / "settings.json") == {"limits": {"maxTurns": 7}}
    assert (answer, printed) == ("/config reload", ["Set limits.maxTurns to 7 in the user settings."])


def test_space_takes_the_next_value_but_gives_up_no_protection_unasked(stage: Stage) -> None:
    file = put(stage.home / "settings.json", {"theme": "dark", "permissions": {"defaultMode": "auto"}})

    async def scene(panel: Opened) -> None:
        await panel.press("/", "theme", "enter", "space")
        assert panel.marked().split()[-2:] == ["light", "(user)"]
        await panel.press("escape", "/", "defaultMode", "enter", "space")
        assert told(file) == {"theme": "light", "permissions": {"defaultMode": "default"}}, "no bypassPermissions"
        await panel.press("escape", "/", "sandbox.enabled", "enter", "space", "space")
        lines = panel.lines()
        assert "sandbox.enabled false gives up protection. Set it?" in lines
        await panel.press("enter")
        assert told(file)["sandbox"] == {"enabled": True}  # type: ignore[index]

    play("config", scene)


def test_a_setting_is_removed_and_refused_values_are_explained(stage: Stage) -> None:
    trusted(stage)
    put(stage.folder / ".claude/settings.json", {"theme": "dark"})

    async def scene(panel: Opened) -> None:
        await panel.press("/", "theme", "enter", "u", "2")
        assert panel.marked().split()[-1] == "default"
        await panel.press("u")
        assert any("is not set in your files" in line for line in panel.lines())
        await panel.press("escape", "/", "apiKeyHelper", "enter", "enter")
        assert any(line.startswith("apiKeyHelper:") for line in panel.lines()), "a project cannot set it: no question"

    play("config", scene)
    assert told(stage.folder / ".claude/settings.json") == {}


# --- MCP --------------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_servers_are_listed_added_switched_and_removed(stage: Stage) -> None:
    servers = {"shop": {"command": sys.executable, "args": [SHOP]}, "broken": {"command": "not-there"}}
    put(stage.home / "mcp.json", {"projects": {str(stage.folder): {"mcpServers": servers}}})

    async def scene(panel: Opened) -> None:
        lines = panel.lines()
        assert any(line.startswith("❯ ✓ shop") and "connected, 11 tools" in line for line in lines)
        lines = await panel.press("enter")
        assert any(line.startswith("❯ add") and "Add two numbers." in line for line in lines)
        assert "  In rules: mcp__shop__add" in lines
        await panel.press("escape", "space")
        assert panel.marked().split()[1:] == ["-", "shop", "disabled"]
        await panel.press("space")
        assert "connected" in panel.marked()
        await panel.press("r")
        assert "Connected to MCP server 'shop'." in panel.lines()
        lines = await panel.press("down")
        assert any("Error: 'not-there' not found" in line for line in lines)
        await panel.press("d", "2")
        assert any("Removed the MCP server 'broken'" in line for line in panel.lines())
        await panel.press("a", "a__b", "enter")
        assert any("give it a name" in line for line in panel.lines())
        await panel.press("c-u", "new", "enter", "1", "'", "enter")
        assert any("The command cannot be read" in line for line in panel.lines())
        await panel.press("c-u", "npx -y 'a b'", "enter", "2")

    async def wait(sitting: Sitting) -> None:
        servers = sitting.talk.world.mcp
        assert servers is not None
        await servers.ready()

    answer, _ = play("mcp", scene, before=wait)
    assert answer == "/config reload"
    assert told(stage.folder / ".mcp.json") == {
        "mcpServers": {"new": {"type": "stdio", "command": "npx", "args": ["-y", "a b"]}}
    }
    kept = {"projects": {str(stage.folder): {"mcpServers": {"shop": servers["shop"]}}}}
    assert told(stage.home / "mcp.json") == kept


# --- model ------------------------------------------------------------------------------------------------------------


def test_a_model_is_chosen_for_this_session_or_for_good(stage: Stage) -> None:
    async def scene(panel: Opened) -> None:
        assert panel.marked().split()[:2] == ["❯", DEFAULT_MODEL.name]
        assert not any("gpt" in line for line in panel.lines()), "another server's"
        await panel.press("haiku", "enter", "1")
        assert panel.session.model.name == "claude-haiku-5-5"
        assert not panel.is_open

    play("model", scene)
    assert not (stage.home / "settings.json").exists()

    async def again(panel: Opened) -> None:
        await panel.press("opus", "enter", "2")

    play("model", again)
    assert told(stage.home / "settings.json") == {"model": "claude-opus-5-5"}


@pytest.mark.parametrize("current", ["claude-haiku-4-5", "claude-haiku-4-5-20251001"])
def test_the_model_in_use_is_marked(stage: Stage, current: str) -> None:
    async def scene(panel: Opened) -> None:
        assert panel.marked().startswith("❯ claude-haiku-4-5 (in use)")
        assert any(line == f"In use: {current}. Effort: default." for line in panel.lines())

    play("model", scene, "--model", current)
    assert stage.home.exists()


def test_a_model_of_another_server_is_marked_by_its_whole_name(stage: Stage) -> None:
    """Not as the hosted model whose name a local server uses."""

    async def scene(panel: Opened) -> None:
        assert panel.marked().startswith("❯ ollama/claude-haiku-4-5 (in use)")

    play("model", scene, "--model", "ollama/claude-haiku-4-5")
    assert stage.home.exists()


def test_all_models_are_behind_more_and_unknown_names_are_refused(stage: Stage) -> None:
    async def scene(panel: Opened) -> None:
        await panel.press("More", "enter")
        assert any("claude-haiku-4-5" in line for line in panel.lines())
        await panel.press("escape", "escape", "Another", "enter", "claude-opsu-5-5", "enter")
        assert any("Did you mean 'claude-opus-5-5'?" in line for line in panel.lines())
        await panel.press("c-u", "my-own", "enter")
        assert any("mainspring config set models.my-own" in line for line in panel.lines())
        assert panel.session.model == DEFAULT_MODEL

    play("model", scene)
    assert stage.home.exists()


def test_the_effort_goes_up_and_down_with_the_arrows(stage: Stage) -> None:
    async def scene(panel: Opened) -> None:
        await panel.press("left")
        assert panel.session.effort is None
        lines = await panel.press("right", "right", "right", "left")
        assert panel.session.effort == "medium"
        assert any("Effort: medium" in line for line in lines)

    play("model", scene)
    assert stage.home.exists()


# --- memory, hooks, agents --------------------------------------------------------------------------------------------


def editor(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    script = put(stage.folder.parent / "editor.py", "import sys\nopen(sys.argv[1], 'a').write('edited\\n')\n")
    monkeypatch.setenv("EDITOR", f"{sys.executable} {script}")


def test_memory_files_open_in_the_editor(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    editor(stage, monkeypatch)
    put(stage.folder / "AGENTS.md", "Mine.\n")

    async def scene(panel: Opened) -> None:
        assert panel.marked().split() == ["❯", "AGENTS.md", "project", "·", "5", "characters"]
        await panel.press("enter", "down", "enter")

    answer, _ = play("memory", scene)
    assert answer == "/config reload"
    assert (stage.folder / "AGENTS.md").read_text() == "Mine.\nedited\n"
    assert (stage.home / "AGENTS.md").read_text() == "edited\n"


def test_hooks_are_listed_and_all_switched_off_and_on(stage: Stage) -> None:
    hooks = {"PostToolUse": [{"matcher": "Edit", "hooks": [{"type": "command", "command": "ruff\x1b format"}]}]}
    file = put(stage.home / "settings.json", {"hooks": hooks})

    async def scene(panel: Opened) -> None:
        assert panel.marked().split() == ["❯", "PostToolUse(Edit)", "ruff", "format"]
        await panel.press("space", "enter")
        assert told(file) == {"hooks": hooks}
        await panel.press("space", "2")
        assert told(file) == {"hooks": hooks, "disableAllHooks": True}
        await panel.press("space")
        assert told(file) == {"hooks": hooks}

    play("hooks", scene)


def test_an_agent_type_is_created_from_a_template(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    editor(stage, monkeypatch)

    async def scene(panel: Opened) -> None:
        assert panel.marked().split() == ["❯", "general-purpose", "built-in"]
        await panel.press("n", "Bad Name", "enter")
        assert any("lower-case letters" in line for line in panel.lines())
        await panel.press("c-u", "reviewer", "enter", "Reviews changes", "enter", "1")

    answer, _ = play("agents", scene)
    assert answer == "/config reload"
    made = (stage.home / "agents/reviewer.md").read_text()
    assert made.startswith("---\nname: reviewer\ndescription: Reviews changes\n")
    assert made.endswith("edited\n")

    async def again(panel: Opened) -> None:
        await panel.press("/", "reviewer", "enter")
        assert any("Read, Grep, Glob" in line for line in panel.lines())

    play("agents", again)


# --- all of them ------------------------------------------------------------------------------------------------------

NAMES = ["enter", "escape", "up", "down", "left", "right", "tab", "space", "backspace", "pagedown"]
KEYS = (*"aodmnrspu/12x", *NAMES)


@pytest.mark.parametrize("command", PANELS)
@pytest.mark.parametrize("seed", [0, *[pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 25)]])
def test_no_key_fails_at_any_size(stage: Stage, monkeypatch: pytest.MonkeyPatch, command: str, seed: int) -> None:
    random_ = random.Random(f"{command} {seed}")
    editor(stage, monkeypatch)
    trusted(stage)
    put(stage.folder / "AGENTS.md", "Mine.\n")
    put(stage.folder / ".claude/settings.json", {"permissions": {"allow": ["Bash(a)"], "deny": ["Read(.env)"]}})
    put(stage.home / "mcp.json", {"projects": {str(stage.folder): {"mcpServers": {"broken": {"command": "no"}}}}})

    async def scene(panel: Opened) -> None:
        for _ in range(60):
            if not panel.is_open:
                return
            for size in SIZES:
                panel.lines(*size)
            await panel.press(random_.choice(KEYS))

    play(command, scene)
    rules = told(stage.folder / ".claude/settings.json")["permissions"]["deny"]  # type: ignore[index]
    assert "Read(.env)" in rules, "whatever is pressed, a deny rule stays"
