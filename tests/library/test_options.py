"""Options of agents: each wrong one is named, with what to do; each right one reaches the model's server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import mainspring
from mainspring import Agent, ModelError, ToolResult, UsageError
from mainspring.library.options import KINDS, AgentOptions
from mainspring.testing import Scripted, call, says
from mainspring.testing.plugin import LiveServer
from mainspring.testing.plugin import call as tool_use


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def read(path: str) -> str:
    """Read."""
    return path


async def greet(given: dict[str, Any]) -> dict[str, Any]:
    return given


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"max_turn": 3}, "'Agent' has no option 'max_turn'. Did you mean 'max_turns'?"),
    ({"xyzzy": 3}, "'Agent' has no option 'xyzzy'"),
    ({"max_turns": "3"}, "'max_turns' must be a whole number, not '3'"),
    ({"max_turns": 0}, "'max_turns' must be a whole number of at least 1, not '0'"),
    ({"max_budget_usd": -1}, "'max_budget_usd' must be an amount in dollars such as 0.50, not '-1'"),
    ({"tools": add}, "'tools' must be a list of names and functions, not <function add"),
    ({"tools": ["Raed"]}, "'tools' has 'Raed', which is no built-in tool. Did you mean 'Read'?"),
    ({"tools": ["Xyzzyx"]}, "'tools' has 'Xyzzyx', which is no built-in tool. Built-in tools: Bash, "),
    ({"tools": [add, add]}, "'tools' has 'add' twice"),
    (
        {"tools": [mainspring.tool("greet", "Greets.", {"name": str})(greet)]},
        "'tools' has 'greet', a tool for an MCP server of 'mainspring.sdk': put '@tool' on a function",
    ),
    ({"tools": [5]}, "'tools' has 5: use functions, tools, and names of built-in tools"),
    ({"tools": [mainspring.tool(name="Bash")(read)]}, "'tools' has a function named 'Bash', but that name is taken"),
    ({"model": 5}, "'model' must be a name such as 'haiku', a provider or a function, not 5"),
    ({"provider": "anthropic"}, "'provider' must be a provider, not 'anthropic'"),
    ({"approve": True}, "'approve' must be a function, not True"),
    ({"effort": "hihg"}, "'effort' must be one of low, medium, high, xhigh, max, not 'hihg'. Did you mean 'high'?"),
    ({"permission_mode": "yolo"}, "'permission_mode' must be one of default, acceptEdits"),
    ({"temperature": 3}, "'temperature' must be between 0 and 2, not 3"),
    ({"top_p": -0.1}, "'top_p' must be between 0 and 1, not -0.1"),
    ({"stop_sequences": "END"}, "'stop_sequences' must be a list of strings, not 'END'"),
    ({"tools": [add], "tool_choice": "ad"}, "'tool_choice' must be one of auto, none, required, add, not 'ad'"),
    ({"max_output": 0}, "'max_output' must be a whole number of at least 1, not 0"),
    ({"setting_sources": ["projcet"]}, "'setting_sources' has 'projcet'; use user, project, local"),
    ({"persist": "no"}, "'persist' must be True or False, not 'no'"),
]


@pytest.mark.parametrize(("given", "told"), WRONG, ids=[told[:40] for _, told in WRONG])
def test_a_wrong_option_is_told_before_anything_starts(given: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError) as raised:
        Agent(**given)
    assert str(raised.value).startswith(told)


def test_a_fork_needs_a_session() -> None:
    with pytest.raises(UsageError, match="'fork' needs 'resume'"):
        Agent().session(fork=True)


def test_a_wrong_option_of_ask_names_ask() -> None:
    with pytest.raises(UsageError, match="'ask' has no option 'budget'"):
        mainspring.ask("go", budget=3).send(None)  # type: ignore[call-overload]


def test_every_option_has_a_check() -> None:
    assert KINDS.keys() == AgentOptions.__annotations__.keys()


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("foo/bar", "'foo/bar': there is no provider 'foo'; use one of anthropic, openai"),
        ("openai/gpt-5", "no key for"),
    ],
)
def test_a_model_that_cannot_be_reached(model: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        Agent(model).run_sync("go")


def test_a_misspelt_model_or_rule_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """A server may have models of any name."""
    model = Scripted(["hi"])
    Agent("claude-sonet-5", provider=model, tools=["Bash"], allowed_tools=["Bsah(git *)"]).run_sync("go")
    assert model.requests[0].model == "claude-sonet-5"
    assert "'model': unknown model 'claude-sonet-5'. Did you mean 'claude-sonnet-5'?" in caplog.text
    assert "'allowed_tools=Bsah(git *)': there is no tool 'Bsah'. Did you mean 'Bash'?" in caplog.text


def test_a_server_that_is_down() -> None:
    env = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}
    with pytest.raises(ModelError, match=r"127\.0\.0\.1:1.*Is a server running there\?.*ANTHROPIC_BASE_URL"):
        Agent("haiku", env=env).run_sync("go")


# --- on the wire ---


SERVICES = ("ANTHROPIC", "OPENAI")


def served(server: LiveServer) -> dict[str, str]:
    return {
        "ANTHROPIC_API_KEY": "k",
        "ANTHROPIC_BASE_URL": server.url,
        "OPENAI_API_KEY": "k",
        "OPENAI_BASE_URL": server.url,
    }


def test_model_settings_reach_anthropic(model_server: LiveServer) -> None:
    model_server.answers(tool_use("add", a=2, b=3))
    model_server.answers("5")
    agent = Agent(
        "claude-haiku-4-5",
        system="Count.",
        tools=[add],
        temperature=0.5,
        top_p=0.9,
        stop_sequences=["END"],
        tool_choice="required",
        max_output=2_000,
        env=served(model_server),
    )
    assert agent.run_sync("What is 2 + 3?").text == "5"
    first, second = [request.body for request in model_server.requests]
    names = ("model", "max_tokens", "temperature", "top_p", "stop_sequences", "tool_choice")
    assert [first.get(name) for name in names] == ["claude-haiku-4-5", 2_000, 0.5, 0.9, ["END"], {"type": "any"}]
    assert [second.get(name) for name in names] == ["claude-haiku-4-5", 2_000, 0.5, 0.9, ["END"], None]
    assert [block["text"] for block in first["system"]] == ["Count."]
    assert "thinking" not in first


def test_effort_and_an_alias_reach_anthropic(model_server: LiveServer) -> None:
    model_server.answers("hi")
    Agent("opus", effort="low", env=served(model_server)).run_sync("hello")
    body = model_server.requests[0].body
    assert (body["model"][:12], body["output_config"]) == ("claude-opus-", {"effort": "low"})
    assert "system" not in body
    assert "tools" not in body


def test_a_stop_sequence_ends_the_answer(model_server: LiveServer) -> None:
    model_server.answers("one two", stop_reason="stop_sequence")
    assert (
        Agent("claude-haiku-4-5", stop_sequences=["three"], env=served(model_server)).run_sync("count").text
        == "one two"
    )


def test_model_settings_reach_openai(model_server: LiveServer) -> None:
    model_server.answers(tool_use("add", a=2, b=3))
    model_server.answers("5")
    agent = Agent(
        "openai/gpt-4.1", tools=[add], temperature=0.5, seed=7, stop_sequences=["END"], tool_choice="add",
        env=served(model_server),
    )  # fmt: skip
    assert agent.run_sync("What is 2 + 3?").text == "5"
    first, second = [request.body for request in model_server.requests]
    names = ("model", "temperature", "seed", "stop", "tool_choice")
    forced = {"type": "function", "function": {"name": "add"}}
    assert [first.get(name) for name in names] == ["gpt-4.1", 0.5, 7, ["END"], forced]
    assert second.get("tool_choice") is None


def test_a_local_model_needs_no_key(model_server: LiveServer) -> None:
    model_server.answers("hi")
    answer = Agent("ollama/qwen3", env={"OLLAMA_BASE_URL": model_server.url}).run_sync("hello")
    assert (answer.text, answer.cost_usd) == ("hi", 0)
    assert model_server.requests[0].body["model"] == "qwen3"


def test_the_model_of_the_environment(model_server: LiveServer) -> None:
    model_server.answers("hi")
    model_server.answers("hi")
    Agent(env={**served(model_server), "ANTHROPIC_MODEL": "claude-haiku-4-5"}).run_sync("hello")
    Agent(env=served(model_server)).run_sync("hello")
    assert [request.body["model"] for request in model_server.requests] == ["claude-haiku-4-5", "claude-sonnet-5-5"]


def test_built_in_tools_work_in_the_folder_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Bonn")
    model = Scripted([says(call("Read", file_path="a.txt")), says("done")])
    answer = Agent(model, tools=["Read"], cwd=tmp_path).run_sync("go")
    assert "Bonn" in "".join([m.text for m in answer.messages if isinstance(m, ToolResult)])


# --- the module ---


def test_the_module_lists_its_names() -> None:
    assert set(mainspring.__all__) <= set(dir(mainspring))
    for name in mainspring.__all__:
        assert getattr(mainspring, name) is not None
    with pytest.raises(AttributeError, match="module 'mainspring' has no attribute 'agent_'"):
        _ = mainspring.agent_
