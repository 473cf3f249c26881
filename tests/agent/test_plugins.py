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


@pytest.fixture
def elsewhere(plugin: Path) -> Path:
    """The same plugin, with everything in places that its manifest names."""
    (plugin / "hooks/hooks.json").rename(plugin / "guards.json")
    (plugin / ".mcp.json").rename(plugin / "servers.json")
    write(plugin / "more/one/tidy.md", "Tidy up $ARGUMENTS.")
    write(plugin / "alone.md", "Be alone.")
    write(plugin / "staff/cook.md", "---\nname: cook\ndescription: Cooks.\n---\nYou cook.")
    write(plugin / "crafts/gold/SKILL.md", "---\nname: gold\ndescription: Gilds.\n---\nGild.")
    write(plugin / "single/SKILL.md", "---\ndescription: Alone.\n---\nOnly one.")
    manifest = {
        "name": "house",
        "commands": ["./more", "./alone.md"],
        "agents": "./staff/cook.md",
        "skills": ["crafts/", "./single"],
    }
    manifest |= {"hooks": "./guards.json", "mcpServers": "${CLAUDE_PLUGIN_ROOT}/servers.json"}
    write(plugin / ".claude-plugin/plugin.json", json.dumps(manifest))
    return plugin


def test_places_that_a_manifest_names_are_read_beside_the_usual_ones(elsewhere: Path, tmp_path: Path) -> None:
    name = "mcp__plugin_house_clock__now"

    async def main(stage: Stage) -> None:
        given = with_plugin(elsewhere, permission_mode="bypassPermissions")
        async with Client(stage.options(**given)) as client:
            await client.query("go")
            told = [message async for message in client.receive_response()]
            [server] = (await client.get_mcp_status())["mcpServers"]
        assert server["status"] == "connected"
        [init] = [message.data for message in told if isinstance(message, SystemMessage) and message.subtype == "init"]
        assert {"house:greet", "house:one:tidy", "house:alone"} <= set(init["slash_commands"])
        assert {"house:silver", "house:gold", "house:single"} <= set(init["skills"])
        assert {"house:butler", "house:cook"} <= set(init["agents"])
        guarded, answered = outcomes(told)
        assert guarded.is_error
        assert f"noon at {elsewhere}" in str(answered.content)

    play(main, tmp_path, Say.of(call("Bash", command="touch made"), call(name)), Say.of("Done."))


def test_a_manifest_may_have_hooks_and_servers_in_it(plugin: Path, tmp_path: Path) -> None:
    before = load_plugin(str(plugin), str(tmp_path))
    hooks, servers = (json.loads((plugin / file).read_text()) for file in ("hooks/hooks.json", ".mcp.json"))
    (plugin / "hooks/hooks.json").unlink()
    (plugin / ".mcp.json").unlink()
    manifest = {"name": "house", "version": "1.2.0", "hooks": hooks["hooks"], "mcpServers": servers["mcpServers"]}
    write(plugin / ".claude-plugin/plugin.json", json.dumps(manifest))
    after = load_plugin(str(plugin), str(tmp_path))
    assert [hook.command for hook in after.hooks] == [hook.command for hook in before.hooks]
    assert [(server.name, server.entry) for server in after.servers] == [
        (server.name, server.entry) for server in before.servers
    ]
    assert after.problems == ()


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        (
            {"commands": "../other"},
            "'commands' has '../other', which is outside of the plugin: use a path inside of it",
        ),
        ({"hooks": "/etc/hooks.json"}, "'hooks' has '/etc/hooks.json', which is outside of the plugin"),
        ({"skills": ["./out"]}, "'skills' has './out', which is outside of the plugin"),
        ({"agents": "./missing.md"}, "'agents' has './missing.md', which does not exist"),
        ({"mcpServers": "./missing.json"}, "'mcpServers' has './missing.json', which does not exist"),
        ({"commands": 3}, "'commands' must be a path or a list of paths, not 3"),
        ({"hooks": 3}, "'hooks' must be a path, a list of paths, or a table, not 3"),
    ],
)
def test_a_manifest_with_a_wrong_place_is_refused(
    manifest: dict[str, Any], words: str, plugin: Path, tmp_path: Path
) -> None:
    (plugin / "out").symlink_to(tmp_path)
    write(plugin / ".claude-plugin/plugin.json", json.dumps({"name": "house", **manifest}))
    with pytest.raises(UsageError) as raised:
        load_plugin(str(plugin), str(tmp_path))
    assert words in str(raised.value)


# --- a plugin in the workspace: the agent must not edit what will run ---


@pytest.mark.parametrize("mode", ["acceptEdits", "dontAsk"])
def test_a_plugin_in_the_workspace_is_protected(mode: Any, plugin: Path, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    house = plugin.rename(tmp_path / "work/house")

    async def main(stage: Stage) -> None:
        given = with_plugin(house, permission_mode=mode, allowed_tools=["Read"])
        told = await stage.ask("go", **given)
        [evil, good] = outcomes(told)
        assert evil.is_error
        assert "protected" in str(evil.content) or "permission" in str(evil.content)
        assert not (stage.folder / "house/run.sh").exists()
        assert (stage.folder / "free.txt").exists() is (mode == "acceptEdits")
        assert bool(good.is_error) is (mode != "acceptEdits")

    writes = [("house/run.sh", "a"), ("free.txt", "b")]
    calls = [call("Write", id, file_path=str(tmp_path / "work" / path), content="x") for path, id in writes]
    play(main, tmp_path, Say.of(*calls), Say.of("Done."))


def test_of_a_plugin_that_is_the_workspace_the_places_that_are_read_are_protected(plugin: Path, tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        told = await stage.ask("go", **with_plugin(plugin, cwd=plugin, permission_mode="acceptEdits"))
        assert [bool(result.is_error) for result in outcomes(told)] == [True, True, True, False]

    paths = ["hooks/hooks.json", "commands/new.md", ".claude-plugin/x", "notes.txt"]
    calls = [call("Write", str(n), file_path=str(plugin / path), content="x") for n, path in enumerate(paths)]
    play(main, tmp_path, Say.of(*calls), Say.of("Done."))


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
