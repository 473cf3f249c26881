"""Settings that restrict, and what an explicit source loads without trust (settled 37), through the real client."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import ClaudeSDKClient, PermissionResultAllow, ToolPermissionContext

from mainspring.simulator.replies import Say
from pipe.stage import PROGRAM, Serve, Stage, bash, exchange, words

PIRATE = "---\nname: Pirate\ndescription: Talks like one.\n---\nSay arr."


def write(path: Path, text: str | dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if isinstance(text, str) else json.dumps(text))


# --- restrictions ---------------------------------------------------------------------------------------------


def test_a_model_that_is_not_available_cannot_be_chosen_later(serve: Serve) -> None:
    stage = serve(Say.of("One."), Say.of("Two."))
    write(stage.home / "settings.json", {"availableModels": ["sonnet"]})
    with stage.pipe("--model", "claude-sonnet-5-5") as pipe:
        pipe.initialize()
        refused = pipe.control("set_model", model="opus")
        assert refused["subtype"] == "error"
        assert "is not available because of 'availableModels' in" in refused["error"]
        assert pipe.control("set_model", model="claude-sonnet-5")["subtype"] == "success"
        assert pipe.turn("go")["result"] == "One."
        assert pipe.finish() == 0
    assert stage.requests[0].body["model"] == "claude-sonnet-5"


def test_auto_mode_that_is_switched_off_cannot_be_chosen_later(serve: Serve) -> None:
    stage = serve(Say.of("One."))
    write(stage.home / "settings.json", {"disableAutoMode": "disable"})
    with stage.pipe() as pipe:
        pipe.initialize()
        refused = pipe.control("set_permission_mode", mode="auto")
        assert (refused["subtype"], "disabled by 'disableAutoMode'" in refused["error"]) == ("error", True)
        assert pipe.finish() == 0


def test_agents_of_the_client_are_refused_where_nothing_may_come_from_elsewhere(serve: Serve) -> None:
    stage = serve(Say.of("One."))
    write(stage.home / "settings.json", {"disableSideloadFlags": True})
    agents = {"greeter": {"description": "Greets.", "prompt": "You greet."}}
    with stage.pipe() as pipe:
        pipe.request("initialize", hooks=None, agents=agents)
        while pipe.read() is not None:
            pass
        assert pipe.finish() == 1
    assert b"'agents' is disabled by 'disableSideloadFlags': remove it" in pipe.stderr
    with stage.pipe() as pipe:
        pipe.initialize(agents={})
        assert pipe.turn("go")["result"] == "One."
        assert pipe.finish() == 0
    assert len(stage.requests) == 1


@pytest.mark.setting("permissions.denyInsteadOfPrompting")
def test_nobody_is_asked_where_the_settings_want_a_denial(serve: Serve) -> None:
    asked: list[str] = []

    async def allow(name: str, input: dict[str, Any], context: ToolPermissionContext) -> PermissionResultAllow:
        asked.append(name)
        return PermissionResultAllow()

    stage = serve(Say.of(bash("touch a")), Say.of("Done."))
    write(stage.home / "settings.json", {"permissions": {"denyInsteadOfPrompting": True}})

    async def main(client: ClaudeSDKClient) -> None:
        told = await exchange(client, "go")
        assert [bool(block.is_error) for block in told.outcomes] == [True]

    stage.talk(main, can_use_tool=allow)
    assert asked == []
    assert not (stage.folder / "a").exists()


@pytest.mark.setting("deniedMcpServers", "allowedMcpServers")
@pytest.mark.parametrize(
    "said",
    [
        {"deniedMcpServers": [{"serverName": "evil"}]},
        {"deniedMcpServers": [{"serverCommand": ["sh", "-c", "touch started"]}]},
        {"allowedMcpServers": [{"serverName": "other"}]},
        {"allowedMcpServers": []},
    ],
)
@pytest.mark.parametrize("where", ["option", "settings", "untrusted project"])
def test_a_server_that_is_not_allowed_is_not_started(serve: Serve, said: dict[str, Any], where: str) -> None:
    stage = serve(Say.of("Done."))
    servers: Any = {"evil": {"command": "sh", "args": ["-c", "touch started"]}}
    if where == "untrusted project":
        write(stage.folder / ".claude" / "settings.json", said)
    else:
        write(stage.home / "settings.json", {**said, **({"mcpServers": servers} if where == "settings" else {})})
    told = stage.ask("go", **({} if where == "settings" else {"mcp_servers": servers}))
    assert told.result.result == "Done."
    assert not (stage.folder / "started").exists()
    assert any("the MCP server 'evil' is not started: '" in line for line in told.stderr)


def test_a_refused_key_ends_the_start_with_its_reason(serve: Serve) -> None:
    stage = serve()
    write(stage.home / "settings.json", {"forceLoginMethod": "console"})
    told = stage.ask("go")
    assert told.error is not None
    said = [*told.stderr, str(told.error)]  # a library within the program raises it
    assert any("'forceLoginMethod' restricts how you may sign in" in line for line in said)
    assert stage.requests == []


# --- explicit sources -----------------------------------------------------------------------------------------


def furnish(stage: Stage) -> None:
    """One of everything that a project can bring, without trust."""
    folder = stage.folder / ".claude"
    write(stage.folder / "CLAUDE.md", "The project likes coffee.")
    write(folder / "skills" / "its-skill" / "SKILL.md", "---\nname: its-skill\ndescription: A skill.\n---\nBody.")
    write(folder / "commands" / "its-word.md", "---\ndescription: Says.\n---\nWords.")
    write(folder / "agents" / "its-agent.md", "---\nname: its-agent\ndescription: An agent.\n---\nYou are.")
    write(folder / "output-styles" / "pirate.md", PIRATE)
    hook = {"type": "command", "command": "echo the hook was here"}
    write(
        folder / "settings.json",
        {
            "outputStyle": "Pirate",
            "hooks": {"UserPromptSubmit": [{"hooks": [hook]}]},
            "permissions": {"allow": ["Bash(touch made)"], "additionalDirectories": ["/etc"]},
            "env": {"FROM_PROJECT": "yes"},
            "apiKeyHelper": "touch helped",
            "sandbox": {"enabled": False},
            "model": "claude-opus-4-8",
        },
    )
    write(stage.folder / ".mcp.json", {"mcpServers": {"its": {"command": "touch", "args": ["served"]}}})


def found(stage: Stage, told: Any) -> dict[str, bool]:
    said = stage.said(0)
    init = told.init
    return {
        "memory": "likes coffee" in said,
        "skill": "its-skill" in init["skills"],
        "command": "its-word" in init["slash_commands"],
        "agent": "its-agent" in init["agents"],
        "hook": "the hook was here" in said,
        "style": init["output_style"] == "Pirate" and "Say arr." in stage.system(0),
    }


TEXTS = ("memory", "skill", "command", "agent", "hook", "style")


@pytest.mark.parametrize("preset", [None, {"type": "preset", "preset": "claude_code"}], ids=["empty", "preset"])
def test_an_explicit_source_loads_what_the_project_describes_and_no_rights(serve: Serve, preset: Any) -> None:
    stage = serve(Say.of(bash("touch made", "1"), bash("echo from: $FROM_PROJECT.", "2")), Say.of("Done."))
    furnish(stage)
    told = stage.ask("go", setting_sources=["project"], system_prompt=preset, allowed_tools=["Bash(echo *)"])
    assert found(stage, told) == dict.fromkeys(TEXTS, True)
    first, second = told.outcomes
    assert (bool(first.is_error), words(second)) == (True, "from: .")
    assert not [name for name in ("made", "helped", "served") if (stage.folder / name).exists()]
    assert told.init["sandbox"].startswith("sandbox: on") or shutil.which("bwrap") is None
    assert told.init["model"] != "claude-opus-4-8"
    assert not (stage.home / "trusted.json").exists()


def test_a_source_that_is_not_named_loads_nothing_of_it(serve: Serve) -> None:
    stage = serve(Say.of("Done."))
    furnish(stage)
    assert found(stage, stage.ask("go", setting_sources=["user"])) == dict.fromkeys(TEXTS, False)


def test_without_explicit_sources_hooks_and_styles_need_trust(serve: Serve) -> None:
    stage = serve(Say.of("Done."))
    furnish(stage)
    expected = {**dict.fromkeys(TEXTS, True), "hook": False, "style": False}
    told = stage.ask("go")
    assert found(stage, told) == expected
    assert any("hooks" in line and "not trusted" in line for line in told.stderr)


def test_an_explicit_local_source_loads_what_is_local(serve: Serve) -> None:
    stage = serve(Say.of("Done."))
    furnish(stage)
    write(stage.folder / "CLAUDE.local.md", "I like tea.")
    (stage.folder / ".claude" / "settings.json").rename(stage.folder / ".claude" / "settings.local.json")
    told = stage.ask("go", setting_sources=["local"])
    seen = found(stage, told)
    assert ("I like tea." in stage.said(0), seen["hook"], seen["memory"]) == (True, True, False)


def test_an_explicit_source_on_the_command_line_alone_does_not_consent(serve: Serve) -> None:
    stage = serve(Say.of("Done."))
    furnish(stage)
    done = subprocess.run(
        [PROGRAM, "-p", "go", "--setting-sources", "project", "--output-format", "stream-json", "--verbose"],
        cwd=stage.folder,
        env={**os.environ, **stage.environment},
        capture_output=True,
        timeout=60,
        check=False,
    )
    init = json.loads(done.stdout.splitlines()[0])
    assert init["output_style"] == "default"
    assert "its-skill" not in init["skills"]
    assert "its-agent" not in init["agents"]
    assert "the hook was here" not in stage.said(0)


# --- output styles --------------------------------------------------------------------------------------------


def test_the_handshake_names_the_styles_there_are(serve: Serve) -> None:
    stage = serve(Say.of("Done."))
    write(stage.home / "output-styles" / "mine.md", PIRATE.replace("Pirate", "Mine"))
    write(stage.home / "settings.json", {"outputStyle": "Mine"})

    async def main(client: ClaudeSDKClient) -> None:
        info = await client.get_server_info()
        assert info is not None
        assert (info["output_style"], info["available_output_styles"]) == (
            "Mine",
            ["default", "Proactive", "Concise", "Explanatory", "Learning", "Mine"],
        )

    stage.talk(main)


def test_a_system_prompt_of_ones_own_takes_no_style(serve: Serve) -> None:
    stage = serve(Say.of("Done."))
    told = stage.ask("go", system_prompt="You are a parrot.", settings=json.dumps({"outputStyle": "Explanatory"}))
    assert told.init["output_style"] == "default"
    assert "Output style" not in stage.system(0)
