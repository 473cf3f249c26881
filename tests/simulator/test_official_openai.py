"""OpenAI's own client against our server, over both of its protocols: an independent check of what we put on the wire.

The same scripts and faults as with Anthropic's (`test_official.py`).
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from peers import PYTHON, is_made

from mainspring.core.money import Usage
from mainspring.simulator.faults import FaultPlan, PlannedFault
from mainspring.simulator.replies import ReceivedRequest, Reply, Say
from mainspring.simulator.server import ModelServer

HERE = Path(__file__).parent
WORDS = "It is a fine day in Rome, and it will stay so."
CALLS = [
    {"type": "tool_use", "id": f"call_{city}", "name": "weather", "input": {"city": city}} for city in ("Rome", "Oslo")
]
THOUGHT = {"type": "thinking", "thinking": "I should ask."}
USAGE = Usage(input=11, cache_write=3, cache_read=5, output=7)
SPOILT = (
    *("rate_limited", "overloaded", "server_error", "prompt_too_long", "too_large", "invalid_request", "reset"),
    *("cut_in_text", "error_event", "pings", "unknown_events", "malformed_json", "drip", "huge_text"),
)
DOORS = ("chat", "responses")
Talked = tuple[Any, ModelServer]


def choose(received: ReceivedRequest) -> Reply:
    talk = received.talk
    if talk.body.get("tools") and not talk.results():
        return Say.of(THOUGHT, "Let me ask.", *CALLS)
    if talk.prompt == "events":
        return Say.of(THOUGHT, WORDS, CALLS[0])
    return Say.of(WORDS, usage=USAGE)


@pytest.fixture(scope="module")
def talked() -> Talked:
    assert is_made(), "there is no '.venv-peers' with the pinned client: run 'make peers'"
    planned = [PlannedFault(name, prompt=name, argument="5000" if name == "huge_text" else "") for name in SPOILT]
    faults = FaultPlan(PlannedFault("overloaded", 2, prompt="twice too busy"), *planned)
    server = ModelServer(choose=choose, faults=faults, api_key="key", models=("gpt-6-sol", "local"))

    async def main() -> bytes:
        async with server:
            command = [str(PYTHON), str(HERE / "official_openai.py"), server.url]
            environment = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
            process = await asyncio.create_subprocess_exec(
                *command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
            )
            out, err = await process.communicate()
            assert process.returncode == 0, err.decode()
            return out

    return json.loads(asyncio.run(main())), server


def test_a_chat_completion(talked: Talked) -> None:
    whole = talked[0]["chat"]["whole"]
    choice = whole["choices"][0]
    assert (choice["message"]["role"], choice["message"]["content"]) == ("assistant", WORDS)
    assert (choice["finish_reason"], whole["model"], whole["object"]) == ("stop", "gpt-6-sol", "chat.completion")
    usage = whole["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (19, 7, 26)
    assert usage["prompt_tokens_details"] == {"cached_tokens": 5, "cache_write_tokens": 3, "audio_tokens": 0}


def test_a_response(talked: Talked) -> None:
    whole = talked[0]["responses"]["whole"]
    (message,) = whole["output"]
    assert (message["type"], message["role"], message["status"]) == ("message", "assistant", "completed")
    assert [part["text"] for part in message["content"]] == [WORDS]
    assert (whole["status"], whole["model"], whole["object"]) == ("completed", "gpt-6-sol", "response")
    assert whole["usage"] == {
        "input_tokens": 19,
        "input_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 3},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 26,
    }


def test_a_streamed_completion_adds_up_to_the_same(talked: Talked) -> None:
    streamed, whole = talked[0]["chat"]["streamed"], talked[0]["chat"]["whole"]
    assert "".join(streamed["texts"]) == WORDS
    assert len(streamed["texts"]) > 1
    assert streamed["whole"]["choices"][0]["message"]["content"] == WORDS
    assert streamed["whole"]["choices"][0]["finish_reason"] == "stop"
    assert streamed["whole"]["usage"] == whole["usage"]


def test_a_streamed_response_adds_up_to_the_same(talked: Talked) -> None:
    streamed, whole = talked[0]["responses"]["streamed"], talked[0]["responses"]["whole"]
    assert "".join(streamed["texts"]) == WORDS
    assert len(streamed["texts"]) > 1
    assert [part["text"] for part in streamed["whole"]["output"][0]["content"]] == [WORDS]
    assert streamed["whole"]["usage"] == whole["usage"]


def test_parallel_calls_go_there_and_back(talked: Talked) -> None:
    assert talked[0]["chat"]["tool_loop"] == {
        "finish": ["tool_calls", "stop"],
        "inputs": [{"city": "Rome"}, {"city": "Oslo"}],
        "answer": WORDS,
    }


def test_reasoning_and_parallel_calls_go_there_and_back(talked: Talked) -> None:
    assert talked[0]["responses"]["tool_loop"] == {
        "kinds": ["reasoning", "message", "function_call", "function_call"],
        "thought": "I should ask.",
        "inputs": [{"city": "Rome"}, {"city": "Oslo"}],
        "answer": WORDS,
    }


def test_it_knows_every_event_of_a_response(talked: Talked) -> None:
    """In the order in which they first come."""
    assert list(dict.fromkeys(talked[0]["responses"]["events"])) == [
        *("ResponseCreatedEvent", "ResponseInProgressEvent", "ResponseOutputItemAddedEvent"),
        *("ResponseReasoningSummaryPartAddedEvent", "ResponseReasoningSummaryTextDeltaEvent"),
        *("ResponseReasoningSummaryTextDoneEvent", "ResponseReasoningSummaryPartDoneEvent"),
        *("ResponseOutputItemDoneEvent", "ResponseContentPartAddedEvent", "ResponseTextDeltaEvent"),
        *("ResponseTextDoneEvent", "ResponseContentPartDoneEvent", "ResponseFunctionCallArgumentsDeltaEvent"),
        *("ResponseFunctionCallArgumentsDoneEvent", "ResponseCompletedEvent"),
    ]


@pytest.mark.parametrize("door", DOORS)
def test_errors_are_the_ones_it_knows(talked: Talked, door: str) -> None:
    assert talked[0][door]["errors"] == {
        "rate_limited": ["RateLimitError", 429, "rate_limit_exceeded", True],
        "overloaded": ["InternalServerError", 503, "server_is_overloaded", True],
        "server_error": ["InternalServerError", 500, None, True],
        "prompt_too_long": ["BadRequestError", 400, "context_length_exceeded", True],
        "too_large": ["APIStatusError", 413, "request_too_large", True],
        "invalid_request": ["BadRequestError", 400, None, True],
        "reset": ["APIConnectionError"],
        "a rule is broken": ["BadRequestError", 400, "unsupported_parameter", True],
        "unknown key": ["AuthenticationError", 401, "invalid_api_key", True],
    }


@pytest.mark.parametrize("door", DOORS)
def test_what_it_makes_of_streams_that_break(talked: Talked, door: str) -> None:
    streams = talked[0][door]["streams"]
    for name in ("pings", "drip"):
        assert streams[name] == [WORDS, "no error"], name
    # It reads the data of events that have none. The standard has readers pass them over, so they stay in the fault.
    assert streams["unknown_events"][1] == "JSONDecodeError"
    assert (len(streams["huge_text"][0]), streams["huge_text"][1]) == (5_000, "no error")
    for name in ("cut_in_text", "error_event", "malformed_json"):
        assert streams[name][0] == WORDS[: len(WORDS) // 2], name
        assert streams[name][1] != "no error", name


@pytest.mark.parametrize("door", DOORS)
def test_its_own_retries_are_served(talked: Talked, door: str) -> None:
    said, server = talked
    assert WORDS in said[door]["retried"]
    asked = [answer.request.body["user"] for answer in server.answers if answer.request.talk.prompt == "twice too busy"]
    assert asked.count(door) == 3


def test_the_models_are_listed(talked: Talked) -> None:
    assert talked[0]["models"] == ["gpt-6-sol", "local"]


def test_only_the_requests_that_meant_to_broke_a_rule(talked: Talked) -> None:
    assert [violation.rule for violation in talked[1].violations] == ["sampling.model", "sampling.model"]
