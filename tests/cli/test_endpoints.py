"""Models by `provider/model`: each at its own server, over its own protocol, and in one session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from cli.stage import Serve, Stage
from mainspring.agent.config_checks import explain_money_limit
from mainspring.agent.context import small_model
from mainspring.agent.endpoints import (
    CHAT,
    ENDPOINTS,
    RESPONSES,
    endpoint_from_settings,
    endpoint_of,
    find_configured_endpoints,
    named_by,
    ways_out,
)
from mainspring.agent.model import chosen_model
from mainspring.agent.options import SessionOptions, StartError
from mainspring.core.models import has_price, model_named
from mainspring.core.money import Price
from mainspring.settings.values import ModelEntry, Settings
from mainspring.simulator.replies import Say

LOOK = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "a.txt"}}


def at(model: str, entries: tuple[ModelEntry, ...] = (), **environment: str) -> tuple[str, str] | None:
    found = endpoint_of(model, Settings(models=entries), environment)
    return None if found is None else (found.url, found.protocol)


def test_by_name() -> None:
    assert at("claude-sonnet-5-5") is None
    assert at("anthropic/claude-sonnet-5-5") is None
    assert at("my-model") is None
    assert at("gpt-5") == at("openai/gpt-5") == ("https://api.openai.com/v1", RESPONSES)
    assert at("openai/x", OPENAI_BASE_URL="http://localhost:1/v1") == ("http://localhost:1/v1", CHAT)
    assert at("openai/x", OPENAI_BASE_URL="https://api.openai.com/v1/") == ("https://api.openai.com/v1", RESPONSES)
    assert at("ollama/qwen3:8b") == ("http://localhost:11434", CHAT)
    assert at("openrouter/anthropic/claude-x") == ("https://openrouter.ai/api/v1", CHAT)
    with pytest.raises(
        StartError, match=r"no provider 'azure'; use one of anthropic, openai, .* 'models\.azure/x\.base_url'"
    ):
        at("azure/x")


def test_the_page_names_every_one_of_them() -> None:
    page = (Path(__file__).parents[2] / "docs/openai.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    for endpoint in ENDPOINTS.values():
        (row,) = [row for row in rows if row.startswith(f"| `{endpoint.name}/NAME`")]
        near = endpoint.url if endpoint.url.startswith("http://localhost") else ""
        assert all(said in row for said in (near, endpoint.key, endpoint.address, endpoint.start)), row


def test_each_server_is_set_up_once() -> None:
    """By a variable, by settings, by the name of a model: in this order."""
    mine = ModelEntry("mine/x", base_url="http://near/v1", key_env="MINE")
    same = ModelEntry("mine/y", base_url="http://near/v1/", key_env="MINE")
    environment = {"OPENAI_API_KEY": "k", "GEMINI_API_KEY": " ", "OLLAMA_BASE_URL": "http://far:1"}
    found = find_configured_endpoints(
        Settings(models=(mine, same)), environment, ["ollama/qwen3", "vllm/x", "claude-sonnet-5-5", "gpt-5"]
    )
    named = [(endpoint.url, named_by(endpoint)) for endpoint in found]
    assert named == [
        ("https://api.openai.com/v1", "OPENAI_API_KEY"),
        ("http://far:1", "OLLAMA_BASE_URL"),
        ("http://near/v1", "models.mine/x.base_url"),
        ("http://localhost:8000", "vllm/..."),
    ]


def test_ways_out_name_what_this_server_is_set_by() -> None:
    remote = ways_out(ENDPOINTS["openrouter"])
    assert remote.unreached == "Check the connection"
    assert remote.unknown == "check the model's name"
    assert remote.keyless == "no key was sent: set OPENROUTER_API_KEY"
    near = ways_out(ENDPOINTS["vllm"])
    assert near.unreached == (
        "'vllm serve MODEL' starts it. Another address is set by 'models.vllm/NAME.base_url' in your settings"
    )
    mine = ways_out(endpoint_from_settings(ModelEntry("a/b", base_url="https://x.example/v1")))
    assert mine.unreached == "Check the connection, and 'models.a/b.base_url' in your settings"
    assert mine.keyless == "no key was sent: set 'models.a/b.key_env' in your settings"


def test_by_settings() -> None:
    azure = ModelEntry("azure/x", base_url="https://x.example/v1", protocol="responses", key_env="AZURE_KEY")
    assert at("azure/x", (azure,)) == ("https://x.example/v1", RESPONSES)
    assert at("gpt-5", (ModelEntry("gpt-5", base_url="http://near/v1"),)) == ("http://near/v1", CHAT)
    assert at("gpt-5", (ModelEntry("gpt-5", window=1_000),)) == ("https://api.openai.com/v1", RESPONSES)


def test_a_server_of_the_user_has_no_price_of_a_hosted_model_with_the_same_name() -> None:
    hosted = model_named("gpt-5").price
    for name in ("ollama/gpt-5", "vllm/gpt-5", "lmstudio/openai/gpt-5", "llamacpp/claude-opus-5"):
        for model in (chosen_model(name, SessionOptions(), Settings()), model_named(name)):
            assert (model.price, has_price(model)) == (Price(), False)
    entries = (
        ModelEntry("house/gpt-5", base_url="http://127.0.0.1:8000/v1"),
        ModelEntry("azure/gpt-5", base_url="https://mine.openai.azure.com", api_version="v1"),
        ModelEntry("own/gpt-5", base_url="http://127.0.0.1:8000/v1", input_usd=0, output_usd=0),
    )
    own, azure, free = (chosen_model(entry.name, SessionOptions(), Settings(models=entries)) for entry in entries)
    assert (own.price, has_price(own)) == (replace(hosted, estimated=True), False)
    assert azure.price == hosted
    assert free.price == Price()


def test_a_money_limit_says_what_it_does_without_a_price() -> None:
    assert explain_money_limit(model_named("gpt-5")) == ""
    assert explain_money_limit(model_named("ollama/gpt-5")) == (
        "the money limit does not end runs of 'ollama/gpt-5': this model costs nothing"
    )
    assert explain_money_limit(model_named("qwen3")) == (
        "the money limit assumes $10 per million input tokens and $50 per million output tokens for 'qwen3', "
        "whose price is unknown"
    )


def test_a_model_on_this_machine_costs_nothing_and_has_a_small_window() -> None:
    model = chosen_model("ollama/qwen3", SessionOptions(), Settings())
    assert (model.window, model.price) == (32_768, Price())
    settings = Settings(models=(ModelEntry("ollama/qwen3", window=100_000),))
    assert chosen_model("ollama/qwen3", SessionOptions(), settings).window == 100_000
    assert chosen_model("openai/gpt-5", SessionOptions(), Settings()).price.input == 1_250


def spoken(stage: Stage) -> list[str]:
    return [request.path for request in stage.requests]


def test_one_session_over_three_protocols(serve: Serve) -> None:
    """What was said, called and returned is carried from one to the next."""
    stage = serve(Say.of("Let me look.", LOOK), Say.of("It says hello."), Say.of("Indeed."), Say.of("Still."))
    (stage.folder / "a.txt").write_text("hello")
    env = {"OPENAI_BASE_URL": stage.server.url}
    assert stage.run("-p", "what is in a.txt?", "--model=openai/gpt-5", env=env).stdout == b"It says hello.\n"
    assert stage.run("-p", "sure?", "--continue").stdout == b"Indeed.\n"
    settings = {"models": {"other/gpt-5": {"base_url": f"{stage.server.url}/v1", "protocol": "responses"}}}
    last = stage.run("-p", "still?", "--continue", "--model=other/gpt-5", f"--settings={json.dumps(settings)}")
    assert last.stdout == b"Still.\n"
    assert b"used 'claude-sonnet-5-5' before and continues with 'other/gpt-5'" in last.stderr
    assert spoken(stage) == ["/v1/chat/completions"] * 2 + ["/v1/messages", "/v1/responses"]
    for request in stage.requests[2:]:
        told = json.dumps(request.body)
        assert all(text in told for text in ("what is in a.txt?", "Let me look.", "It says hello.", "hello", "toolu_1"))
    assert stage.requests[0].body["model"] == stage.requests[3].body["model"] == "gpt-5"


def test_a_fallback_at_another_server(serve: Serve) -> None:
    from mainspring.simulator.replies import Refuse

    overloaded = [Refuse(529, "overloaded_error", "Overloaded", {"retry-after": "0"})] * 4
    stage = serve(*overloaded, Say.of("From elsewhere."))
    flags = ("--model=claude-sonnet-5-5", "--fallback-model=openai/gpt-5-mini")
    done = stage.run("-p", "hello", *flags, env={"OPENAI_BASE_URL": stage.server.url})
    assert done.stdout == b"From elsewhere.\n"
    assert spoken(stage)[-1] == "/v1/chat/completions"


def test_keys_go_where_they_belong(serve: Serve) -> None:
    stage = serve(Say.of("Hi."), Say.of("Hi."))
    env = {
        "OPENAI_BASE_URL": stage.server.url,
        "OPENAI_API_KEY": "sk-for-openai-alone",
        "ANTHROPIC_API_KEY": "sk-ant-api-for-anthropic-alone",
    }
    stage.run("-p", "hi", "--model=openai/gpt-5", env=env)
    stage.run("-p", "hi", env=env)
    first, second = [dict(request.headers) for request in stage.requests]
    assert first["authorization"] == "Bearer sk-for-openai-alone"
    assert "sk-ant" not in json.dumps(first)
    assert second["x-api-key"] == "sk-ant-api-for-anthropic-alone"
    assert "sk-for-openai" not in json.dumps(second)


def test_without_a_key_it_is_said_at_once(serve: Serve) -> None:
    done = serve().run("-p", "hi", "--model=openai/gpt-5")
    assert done.returncode == 1
    told = b"there is no key for 'https://api.openai.com/v1': run 'mainspring login openai', or set OPENAI_API_KEY"
    assert told in done.stderr


def test_a_project_cannot_name_a_server(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    folder = stage.folder / ".mainspring"
    folder.mkdir()
    written: dict[str, Any] = {"models": {"claude-sonnet-5-5": {"base_url": "http://evil.example"}}}
    (folder / "settings.json").write_text(json.dumps(written))
    done = stage.run("-p", "hi")
    assert done.stdout == b"Hi.\n"
    assert b"models" in done.stderr


def test_what_is_asked_at_home_stays_there() -> None:
    """A session with a model of one's own asks no other, whatever is set for Claude's."""
    at_home, environment = (
        chosen_model("ollama/qwen3", SessionOptions(), Settings()),
        {"ANTHROPIC_SMALL_FAST_MODEL": "claude-x"},
    )
    assert small_model(at_home, environment) is at_home
    assert small_model(chosen_model("opus", SessionOptions(), Settings()), environment).name == "claude-x"


def test_the_name_before_the_slash_is_not_sent(serve: Serve) -> None:
    stage = serve(Say.of("Hi."), Say.of("Hi."))
    stage.run("-p", "hi", "--model=anthropic/claude-sonnet-5-5")
    settings = {"models": {"mine/claude-sonnet-5-5": {"base_url": stage.server.url, "protocol": "anthropic"}}}
    stage.run("-p", "hi", "--model=mine/claude-sonnet-5-5", f"--settings={json.dumps(settings)}")
    assert [request.body["model"] for request in stage.requests] == ["claude-sonnet-5-5"] * 2
