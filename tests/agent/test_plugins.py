"""Plugins of local folders: commands, agents, skills, hooks and MCP servers, with the plugin's name before theirs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from sdk.stage import Stage, call, outcomes, play

from mainspring.core.errors import UsageError
from mainspring.sdk import Client, NotStartedError, SystemMessage
from mainspring.settings.plugins import add_plugins, load_plugin
from mainspring.settings.values import Settings
from mainspring.simulator.replies import ReceivedRequest, Reply, Say

SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answers = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                       "serverInfo": {"name": "clock", "version": "1"}},
        "tools/list": {"tools": [{"name": "now", "description": "The time.", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": "noon at " + sys.argv[1]}]},
    }
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answers.get(asked["method"], {})}), flush=True)
"""


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    folder = tmp_path / "some folder"
    write(folder / ".claude-plugin/plugin.json", json.dumps({"name": "house", "version": "1.2.0"}))
    write(folder / "commands/greet.md", "---\ndescription: Greets.\n---\nGreet $ARGUMENTS in the manner of the house.")
    write(folder / "agents/butler.md", "---\nname: butler\ndescription: Serves.\n---\nYou are the butler.")
    write(folder / "skills/silver/SKILL.md", "---\nname: silver\ndescription: Polishes.\n---\nPolish gently.")
    hook = {"type": "command", "command": 'echo "$CLAUDE_PLUGIN_ROOT" >> "${CLAUDE_PLUGIN_ROOT}/seen"; exit 2'}
    hooks = {"description": "Guards.", "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}}
    write(folder / "hooks/hooks.json", json.dumps(hooks))
    write(folder / "server.py", SERVER)
    started = {"command": sys.executable, "args": ["${CLAUDE_PLUGIN_ROOT}/server.py", "${CLAUDE_PLUGIN_ROOT}"]}
    write(folder / ".mcp.json", json.dumps({"mcpServers": {"clock": started}}))
    return folder


def with_plugin(plugin: Path, **chosen: Any) -> dict[str, Any]:
    return {"plugins": [{"type": "local", "path": str(plugin)}], "setting_sources": [], **chosen}


def test_commands_agents_and_skills_have_its_prefix(plugin: Path, tmp_path: Path) -> None:
    shown: list[str] = []

    def answer(request: ReceivedRequest) -> Reply:
        shown.append(str(request.body["messages"]))
        return Say.of("Welcome.")

    async def main(stage: Stage) -> None:
        told = await stage.ask("/house:greet Ada", **with_plugin(plugin))
        [init] = [message.data for message in told if isinstance(message, SystemMessage) and message.subtype == "init"]
        assert {"house:greet", "house:silver"} <= set(init["slash_commands"])
        assert "house:silver" in init["skills"]
        assert "house:butler" in init["agents"]
        assert init["plugins"] == [{"name": "house", "path": str(plugin), "version": "1.2.0"}]

    play(main, tmp_path, choose=answer)
    assert "Greet Ada in the manner of the house." in shown[0]
    assert "house:silver" in shown[0]


def test_its_hooks_guard_and_know_its_folder(plugin: Path, tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        told = await stage.ask("go", **with_plugin(plugin, permission_mode="bypassPermissions"))
        [result] = outcomes(told)
        assert result.is_error
        assert not (stage.folder / "made").exists()

    play(main, tmp_path, Say.of(call("Bash", command="touch made")), Say.of("Done."))
    assert (plugin / "seen").read_text(encoding="utf-8") == f"{plugin}\n"


def test_its_servers_start(plugin: Path, tmp_path: Path) -> None:
    name = "mcp__plugin_house_clock__now"

    async def main(stage: Stage) -> None:
        async with Client(stage.options(**with_plugin(plugin, allowed_tools=[name]))) as client:
            await client.query("What time is it?")
            told = [message async for message in client.receive_response()]
            [server] = (await client.get_mcp_status())["mcpServers"]
        assert server["status"] == "connected"
        [result] = outcomes(told)
        assert f"noon at {plugin}" in str(result.content)

    play(main, tmp_path, Say.of(call(name)), Say.of("Noon."))


def test_nothing_comes_from_a_repository_by_itself(plugin: Path, tmp_path: Path) -> None:
    """A working directory that has the layout of a plugin is not one."""

    async def main(stage: Stage) -> None:
        told = await stage.ask("go", cwd=plugin)
        [init] = [message.data for message in told if isinstance(message, SystemMessage) and message.subtype == "init"]
        assert init["plugins"] == []
        assert not [name for name in init["slash_commands"] if name.startswith("house")]

    play(main, tmp_path, Say.of("Hi."))


def test_without_a_manifest_the_folder_names_it(tmp_path: Path) -> None:
    (tmp_path / "my tools").mkdir()
    assert load_plugin("my tools", str(tmp_path)).name == "my-tools"


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        (".claude-plugin/plugin.json", '{"name": "a:b"}', "the name 'a:b'"),
        (".claude-plugin/plugin.json", "{", "plugin.json' cannot be read"),
        ("hooks/hooks.json", "{", "hooks.json' cannot be read"),
        ("hooks/hooks.json", '{"hooks": []}', "has no valid 'hooks'"),
        (".mcp.json", '{"mcpServers": 3}', "has no valid 'mcpServers'"),
    ],
)
def test_a_broken_plugin_is_refused(file: str, text: str, words: str, plugin: Path, tmp_path: Path) -> None:
    """A guard may be in it."""
    write(plugin / file, text)
    with pytest.raises(UsageError, match=words):
        load_plugin(str(plugin), str(tmp_path))


def test_places_that_a_manifest_names_are_told(plugin: Path, tmp_path: Path) -> None:
    write(plugin / ".claude-plugin/plugin.json", '{"name": "house", "commands": "./other"}')
    [problem] = load_plugin(str(plugin), str(tmp_path)).problems
    assert "'commands' has no effect here" in problem


def test_its_hooks_do_not_run_where_only_the_administrators_do(plugin: Path, tmp_path: Path) -> None:
    loaded = load_plugin(str(plugin), str(tmp_path))
    assert len(add_plugins(Settings(), [loaded]).hooks) == 1
    assert add_plugins(Settings(only_managed_hooks=True), [loaded]).hooks == ()


def test_two_plugins_of_one_name(plugin: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    write(other / ".claude-plugin/plugin.json", '{"name": "house"}')

    async def main(stage: Stage) -> None:
        named: Any = [{"type": "local", "path": str(path)} for path in (plugin, other)]
        with pytest.raises(NotStartedError, match="are both named 'house'"):
            await stage.ask("go", plugins=named)

    play(main, tmp_path)
