"""The client's options that shape what the model is asked: prompts, tools, models. See stream-json 1.2."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from claude_agent_sdk import AgentDefinition, ClaudeSDKClient

from mainspring.simulator.replies import ReceivedRequest, Refuse, Reply, Say
from pipe.stage import Serve, bash, call, exchange

FILES = {"Bash", "Read", "Write", "Edit"}


@pytest.mark.parametrize(
    ("given", "held", "preset"),
    [
        (None, "", False),
        ("You speak in rhymes.", "You speak in rhymes.", False),
        ({"type": "custom", "prompt": "You speak in rhymes."}, "You speak in rhymes.", False),
        ({"type": "file", "path": "rhymes.md"}, "You speak in rhymes.", False),
        ({"type": "preset", "preset": "claude_code"}, "", True),
        ({"type": "preset", "preset": "claude_code", "append": "You speak in rhymes."}, "You speak in rhymes.", True),
    ],
    ids=["none", "text", "custom", "file", "preset", "append"],
)
def test_system_prompts(given: Any, held: str, preset: bool, serve: Serve) -> None:
    """1.2, 17.5: nothing, the caller's own, one from a file, the preset, the preset and more."""
    stage = serve(Say.of("Hi."))
    (stage.folder / "rhymes.md").write_text("You speak in rhymes.")
    assert stage.ask("hello", system_prompt=given).error is None
    system = stage.system()
    assert held in system
    assert (len(system) > 2_000) is preset  # without it there is at most a line of identity


@pytest.mark.parametrize(
    ("chosen", "there", "gone"),
    [
        ({"tools": []}, set(), FILES),
        ({"tools": ["Read", "Bash"]}, {"Read", "Bash"}, {"Write", "Edit"}),
        ({"tools": {"type": "preset", "preset": "claude_code"}}, {*FILES, "Task"}, set()),
        ({"disallowed_tools": ["Write", "Bash(rm:*)"]}, {"Read", "Edit", "Bash", "Task"}, {"Write"}),
    ],
    ids=["none", "some", "preset", "without"],
)
@pytest.mark.covers("N-10")
def test_which_tools_there_are(chosen: dict[str, Any], there: set[str], gone: set[str], serve: Serve) -> None:
    """1.2, 6.1: `tools` and `disallowed_tools` show in `init` and in the model's request."""
    stage = serve(Say.of("Hi."))
    told = stage.ask("hello", **chosen)
    assert there <= set(told.init["tools"])
    assert not gone & (set(told.init["tools"]) | stage.tools())
    assert there - {"Task"} <= stage.tools()


@pytest.mark.covers("M-11", "M-12")
def test_the_model_its_effort_and_its_betas(serve: Serve) -> None:
    """1.2: `model`, `effort`, `betas` and `task_budget` reach the request; `init` names the model."""
    stage = serve(Say.of("Hi."))
    told = stage.ask("hello", model="claude-opus-5", effort="low", betas=["context-1m-2025-08-07"])
    body = stage.requests[0].body
    assert (told.error, told.init["model"], body["model"]) == (None, "claude-opus-5", "claude-opus-5")
    assert body["output_config"]["effort"] == "low"
    assert "context-1m-2025-08-07" in stage.requests[0].headers["anthropic-beta"]


def test_an_alias_is_resolved_and_a_task_has_a_budget(serve: Serve) -> None:
    """1.2: `model` is an id or an alias; `task_budget` [O] is sent as `output_config.task_budget`."""
    stage = serve(Say.of("Hi."))
    assert stage.ask("hello", model="opus", task_budget={"total": 50_000}).error is None
    body = stage.requests[0].body
    assert body["model"].startswith("claude-opus-")
    assert body["output_config"]["task_budget"]["total"] == 50_000


@pytest.mark.parametrize(
    ("thinking", "kind"),
    [
        ({"type": "disabled"}, "disabled"),
        ({"type": "adaptive"}, "adaptive"),
        ({"type": "enabled", "budget_tokens": 2_000}, "enabled"),
    ],
    ids=["disabled", "adaptive", "enabled"],
)
@pytest.mark.covers("K-05")
def test_thinking(thinking: dict[str, Any], kind: str, serve: Serve) -> None:
    """1.2: `thinking` in its three forms; a model that thinks by budget is given the budget."""
    stage = serve(Say.of("Hi."))
    model = "claude-haiku-4-5" if kind == "enabled" else "claude-opus-5"
    assert stage.ask("hello", model=model, thinking=thinking).error is None
    sent = stage.requests[0].body.get("thinking", {"type": "disabled"})
    assert sent["type"] == kind
    assert sent.get("budget_tokens", 2_000) == 2_000


@pytest.mark.covers("G-21")
def test_the_fallback_model_takes_over(serve: Serve) -> None:
    """1.2: `fallback_model` is used when the first is overloaded."""

    def choose(received: ReceivedRequest) -> Reply:
        first = received.body["model"] == "claude-opus-5"
        return Refuse(529, "overloaded_error", "Overloaded", {"retry-after": "0"}) if first else Say.of("Hi.")

    stage = serve(choose=choose)
    told = stage.ask("hello", model="claude-opus-5", fallback_model="claude-sonnet-5")
    assert (told.error, told.result.result) == (None, "Hi.")
    assert stage.requests[-1].body["model"] == "claude-sonnet-5"


def test_further_folders(serve: Serve) -> None:
    """1.2, 9: reading in an `add_dirs` folder never asks; elsewhere, with nobody to ask, it is denied."""
    stage = serve(
        Say.of(call("Read", "a", file_path="../more/a.txt"), call("Read", "b", file_path="../far/b.txt")), Say.of(".")
    )
    for name in ("more/a.txt", "far/b.txt"):
        (stage.folder.parent / name).parent.mkdir()
        (stage.folder.parent / name).write_text(f"text of {name}")
    told = stage.ask("look", add_dirs=[stage.folder.parent / "more"])
    read = {block.tool_use_id: (bool(block.is_error), "text of" in str(block.content)) for block in told.outcomes}
    assert read == {"toolu_a": (False, True), "toolu_b": (True, False)}


@pytest.mark.parametrize("inline", [True, False])
@pytest.mark.covers("N-10")
def test_settings_of_the_call(inline: bool, serve: Serve) -> None:
    """1.2, 15: `settings` is text or a path; it is read with no setting sources at all, and it is trusted."""
    stage = serve(Say.of(bash("touch one", "one"), bash("touch two", "two")), Say.of("Done."))
    text = json.dumps({"permissions": {"allow": ["Bash(touch one)"], "deny": ["Bash(touch two)"]}, "env": {"A": "1"}})
    path = stage.folder.parent / "settings.json"
    path.write_text(text)
    told = stage.ask("make", settings=text if inline else str(path), setting_sources=[])
    assert [bool(block.is_error) for block in told.outcomes] == [False, True]
    assert (stage.folder / "one").exists()
    assert not (stage.folder / "two").exists()


# --- a system prompt that many folders share --------------------------------------------------------


def preset(**more: Any) -> dict[str, Any]:
    return {"type": "preset", "preset": "claude_code", **more}


def shared_part(system: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Up to the last mark of the cache: what other sessions can read from it."""
    marked = [place for place, block in enumerate(system) if "cache_control" in block]
    return system[: marked[-1] + 1]


def test_dynamic_sections_are_left_out_of_the_system_prompt(serve: Serve) -> None:
    """3.1 `excludeDynamicSections`: the system prompt is the same in two folders, one of them a repository with a
    memory; what was in it comes with the first prompt, and only once."""
    stage = serve(*[Say.of("Hi.")] * 5)
    other = stage.folder.parent / "other"
    other.mkdir()
    subprocess.run(["git", "init", "-q", str(other)], check=True)
    (other / "CLAUDE.md").write_text("Mind the gap.")
    static = preset(append="Be kind.", exclude_dynamic_sections=True)
    for folder in (stage.folder, other):
        stage.ask("hello", system_prompt=static, cwd=folder, setting_sources=["project"])
    first, second = [shared_part(request.body["system"]) for request in stage.requests]
    assert first == second
    assert "Be kind." in str(first)
    for number, folder in enumerate((stage.folder, other)):
        assert str(folder) not in stage.system(number)
        assert "Working folder" not in stage.system(number)
        assert f"Working folder: {folder}" in stage.said(number)
    assert "Mind the gap." in stage.said(1)

    async def main(client: ClaudeSDKClient) -> None:
        await exchange(client, "one")
        await exchange(client, "two")

    stage.talk(main, system_prompt=static)
    assert stage.said().count("Working folder") == 1
    stage.ask("hello", system_prompt=preset(exclude_dynamic_sections=False))
    assert f"Working folder: {stage.folder}" in stage.system()
    assert "Working folder" not in stage.said()


def test_nor_do_agents_name_the_folder_in_theirs(serve: Serve) -> None:
    given = {"description": "greet", "prompt": "say hello below", "subagent_type": "greeter"}

    def choose(received: ReceivedRequest) -> Reply:
        if "say hello below" in str(received.talk.messages[0]):
            return Say.of("Hello from below.")
        done = received.talk.results()
        return Say.of("Done.") if done else Say.of(call("Agent", "spawn", run_in_background=False, **given))

    stage = serve(choose=choose)
    other = stage.folder.parent / "other"
    other.mkdir()
    subprocess.run(["git", "init", "-q", str(other)], check=True)
    greeter = {"greeter": AgentDefinition(description="Greets.", prompt="You greet.", tools=["Bash"])}
    for folder in (stage.folder, other):
        chosen: Any = {"system_prompt": preset(exclude_dynamic_sections=True), "agents": greeter, "cwd": folder}
        stage.ask("go", permission_mode="bypassPermissions", **chosen)
    below = [number for number in range(len(stage.requests)) if "You greet." in stage.system(number)]
    assert len(below) == 2
    first, second = [shared_part(stage.requests[number].body["system"]) for number in below]
    assert first == second
    for number, folder in zip(below, (stage.folder, other), strict=True):
        assert str(folder) not in stage.system(number)
        assert stage.said(number).count(f"Working folder: {folder}") == 1
    stage.ask("go", permission_mode="bypassPermissions", agents=greeter, system_prompt=preset())
    last = next(number for number in range(below[-1] + 1, len(stage.requests)) if "You greet." in stage.system(number))
    assert f"Working folder: {stage.folder}" in stage.system(last)
    assert "Working folder" not in stage.said(last)
