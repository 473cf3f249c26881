"""Whole runs of the command over each protocol: what was guessed says so, an answer of a given shape, ways out."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from cli.stage import Frame, Serve, Stage, frames
from mainspring.core.money import Usage
from mainspring.simulator.replies import Refuse, Say
from mainspring.simulator.server_quirks import apply_oddities

USAGE = Usage(input=100, output=10)
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "anthropic": "/v1/messages"}
OPENAI = ("chat", "responses")


def at(stage: Stage, protocol: str, **entry: str | int) -> tuple[str, ...]:
    """Flags that name a model at this server, asked over this protocol."""
    address = stage.server.url if protocol == "anthropic" else f"{stage.server.url}/v1"
    models = {"mine/claude-sonnet-5-5": {"base_url": address, "protocol": protocol, **entry}}
    return ("--model=mine/claude-sonnet-5-5", f"--settings={json.dumps({'models': models})}")


# --- usage that nobody told -------------------------------------------------------------------------------------


def results_of(done: bytes) -> tuple[list[Frame], Frame]:
    told = frames(done)
    return told, next(frame for frame in told if frame["type"] == "result")


@pytest.mark.parametrize("protocol", OPENAI)
def test_a_figure_that_nobody_told_is_marked_wherever_it_stands(serve: Serve, protocol: str) -> None:
    """In the result, in the turn's usage, and in the file; and the next run, whose figures are told, is not marked."""
    stage = serve(apply_oddities(Say.of("One."), ["no_usage"]), Say.of("Two.", usage=USAGE))
    flags: tuple[str, ...] = ("--output-format=stream-json", "--verbose", "--include-partial-messages")
    flags += at(stage, protocol, input_usd=2, output_usd=10)
    told, result = results_of(stage.run("-p", "one", *flags).stdout)
    assert (result["estimated"], result["usage"]["estimated"]) == (True, True)
    assert result["usage"]["input_tokens"] > 0
    assert turn(told)["usage"]["estimated"] is True
    assert [message["usage"].get("estimated") for message in spoken(stage)] == [True]

    told, result = results_of(stage.run("-p", "two", "--continue", *flags).stdout)
    assert ("estimated" in result, result["usage"]["input_tokens"]) == (False, 100)
    assert "estimated" not in result["usage"] | turn(told)["usage"]


def turn(told: list[Frame]) -> Frame:
    events: list[Frame] = [frame["event"] for frame in told if frame["type"] == "stream_event"]
    (ends,) = [event for event in events if event["type"] == "message_delta"]
    return ends


def spoken(stage: Stage) -> list[Frame]:
    (file,) = stage.sessions()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return [line["message"] for line in lines if line["type"] == "assistant"]


def test_anthropic_s_figures_are_told_and_not_marked(serve: Serve) -> None:
    stage = serve(Say.of("One.", usage=USAGE))
    told, result = results_of(stage.run("-p", "one", "--output-format=stream-json", "--verbose").stdout)
    assert "estimated" not in json.dumps(told)
    assert result["usage"]["input_tokens"] == 100


# --- an answer of a given shape ---------------------------------------------------------------------------------

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def given(call_id: str, **answer: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "StructuredOutput", "input": answer}


@pytest.mark.parametrize("protocol", PATHS)
def test_an_answer_of_a_given_shape(serve: Serve, protocol: str) -> None:
    """Words alone are not enough, and what does not fit is sent back: then it comes."""
    stage = serve(Say.of("It is 3."), Say.of(given("toolu_1", n="3")), Say.of(given("toolu_2", n=3)))
    flags = ("--json-schema", json.dumps(SCHEMA), "--output-format=json", *at(stage, protocol))
    result = json.loads(stage.run("-p", "how many?", *flags).stdout)
    assert (result["structured_output"], result["subtype"]) == ({"n": 3}, "success")
    assert [request.path for request in stage.requests] == [PATHS[protocol]] * 3
    nudge, complaint = [json.dumps(request.body) for request in stage.requests[1:]]
    assert "StructuredOutput tool" in nudge
    assert "$.n" in complaint


@pytest.mark.parametrize("manner", ["calls_as_text", "calls_as_text=json", "object_arguments", "no_ids"])
@pytest.mark.parametrize("protocol", OPENAI)
def test_a_weak_server_gives_it_too(serve: Serve, protocol: str, manner: str) -> None:
    stage = serve(apply_oddities(Say.of(given("toolu_1", n=3)), [manner]))
    flags = ("--json-schema", json.dumps(SCHEMA), "--output-format=json", *at(stage, protocol))
    assert json.loads(stage.run("-p", "how many?", *flags).stdout)["structured_output"] == {"n": 3}


@pytest.mark.parametrize("protocol", PATHS)
def test_a_model_that_never_gives_it_comes_to_an_end_that_says_so(serve: Serve, protocol: str) -> None:
    stage = serve(*[Say.of("It is 3.")] * 20)
    flags = ("--json-schema", json.dumps(SCHEMA), "--output-format=json", *at(stage, protocol))
    result = json.loads(stage.run("-p", "how many?", *flags).stdout)
    assert result["subtype"] == "error_max_structured_output_retries"
    assert len(stage.requests) < 10


# --- ways out ---------------------------------------------------------------------------------------------------


def text_of(stage: Stage, *flags: str, env: dict[str, str] | None = None) -> str:
    done = stage.run("-p", "hi", *flags, env=env)
    assert done.returncode == 1
    return (done.stdout + done.stderr).decode()


@pytest.mark.parametrize("protocol", PATHS)
def test_a_refused_key_is_named_by_the_variable_that_holds_it(serve: Serve, protocol: str) -> None:
    stage = serve(api_key="right")
    said = text_of(stage, *at(stage, protocol, key_env="MY_KEY"), env={"MY_KEY": "wrong-key-of-mine"})
    assert "(the key was refused: check MY_KEY)" in said
    assert "wrong-key" not in said
    said = text_of(stage, *at(stage, protocol))
    assert "(no key was sent: set 'models.mine/claude-sonnet-5-5.key_env' in your settings)" in said


def test_of_the_table_s_servers_the_names_are_their_own(serve: Serve) -> None:
    stage = serve(Refuse(404, "not_found_error", "no such model"), api_key="right")
    openai = {"OPENAI_BASE_URL": stage.server.url, "OPENAI_API_KEY": "wrong-key-of-mine"}
    assert "(the key was refused: check OPENAI_API_KEY)" in text_of(stage, "--model=openai/gpt-5", env=openai)
    said = text_of(stage, "--model=openai/gpt-5", env=openai | {"OPENAI_API_KEY": "right"})
    assert "404: no such model (check the model's name and OPENAI_BASE_URL)" in said
    said = text_of(stage, "--model=ollama/qwen3", env={"OLLAMA_BASE_URL": stage.server.url})
    assert "(no key was sent: set 'base_url' and 'key_env' of 'models.ollama/NAME' in your settings)" in said
    assert "OPENAI" not in said


def test_of_anthropic_s_server_what_brought_the_key_is_named(serve: Serve, tmp_path: Path) -> None:
    stage = serve(api_key="right")
    helper = tmp_path / "helper"
    helper.write_text("#!/bin/sh\necho sk-ant-api-wrong\n")
    helper.chmod(0o700)
    said = text_of(stage, f"--settings={json.dumps({'apiKeyHelper': str(helper)})}")
    assert "(the key was refused: check apiKeyHelper)" in said
    said = text_of(stage, env={"ANTHROPIC_AUTH_TOKEN": "wrong"})
    assert "(the key was refused: check ANTHROPIC_AUTH_TOKEN)" in said


@pytest.mark.parametrize(
    ("flags", "variable", "way_out"),
    [
        (
            ("--model=ollama/qwen3",),
            "OLLAMA_BASE_URL",
            "Is a server running there? 'ollama serve' starts it. Its address is set by OLLAMA_BASE_URL",
        ),
        (("--model=openai/gpt-5",), "OPENAI_BASE_URL", "running there? Its address is set by OPENAI_BASE_URL"),
        ((), "ANTHROPIC_BASE_URL", "running there? Check the connection, and the address in ANTHROPIC_BASE_URL"),
    ],
    ids=["ollama", "openai", "anthropic"],
)
def test_a_server_that_does_not_run(serve: Serve, flags: tuple[str, ...], variable: str, way_out: str) -> None:
    """Tried as often as the user wants: once."""
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        said = text_of(serve(), *flags, env={variable: f"http://{place}", "CLAUDE_CODE_MAX_RETRIES": "0"})
    assert f"connecting to '{place}'" in said
    assert way_out in said


def test_a_near_server_that_does_not_run_is_not_waited_for_long(serve: Serve) -> None:
    """Four tries within four seconds: it may be starting. A far one is tried ten times."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        place = f"http://127.0.0.1:{taken.getsockname()[1]}"
        flags = ("--model=ollama/qwen3", "--output-format=stream-json", "--verbose")
        done = serve().run("-p", "hello", *flags, env={"OLLAMA_BASE_URL": place})
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    assert [frame["attempt"] for frame in shown if frame.get("subtype") == "api_retry"] == [1, 2, 3]
    assert done.returncode == 1


@pytest.mark.covers("G-18")
@pytest.mark.parametrize("protocol", PATHS)
def test_it_is_tried_again_as_often_as_the_user_wants(serve: Serve, protocol: str) -> None:
    stage = serve(*[Refuse(500, "api_error", "Broken", {"retry-after": "0"})] * 3)
    said = text_of(stage, *at(stage, protocol), env={"CLAUDE_CODE_MAX_RETRIES": "1"})
    assert ("500: " in said, len(stage.requests)) == (True, 2)
