"""The official client against our server: an independent check of what we put on the wire.

It lives in an environment of its own, `.venv-peers`, which `make peers` makes. Without it this test fails: a check that
is skipped is none.
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
ROOT = HERE.parents[1]
WORDS = "It is a fine day in Rome, and it will stay so."
CALL = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Rome"}}
THOUGHT = {"type": "thinking", "thinking": "I should ask."}
USAGE = Usage(input=11, cache_write=3, cache_read=5, output=7)
SPOILT = (
    *("rate_limited", "overloaded", "server_error", "prompt_too_long", "too_large", "invalid_request", "reset"),
    *("cut_in_text", "error_event", "pings", "unknown_events", "malformed_json", "drip", "huge_text"),
)


def choose(received: ReceivedRequest) -> Reply:
    talk = received.talk
    if talk.body.get("tools") and not talk.results():
        return Say.of(THOUGHT, "Let me ask.", CALL)
    return Say.of(WORDS, usage=USAGE)


@pytest.fixture(scope="module")
def peer() -> None:
    assert is_made(), "there is no '.venv-peers' with the pinned client: run 'make peers'"


@pytest.fixture(scope="module")
def talked(peer: None) -> tuple[Any, ModelServer]:
    planned = [PlannedFault(name, prompt=name, argument="5000" if name == "huge_text" else "") for name in SPOILT]
    faults = FaultPlan(*planned[:1], PlannedFault("overloaded", 2, prompt="twice too busy"), *planned[1:])
    server = ModelServer(choose=choose, faults=faults, api_key="key")

    async def main() -> bytes:
        async with server:
            command = [str(PYTHON), str(HERE / "official.py"), server.url]
            environment = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
            process = await asyncio.create_subprocess_exec(
                *command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
            )
            out, err = await process.communicate()
            assert process.returncode == 0, err.decode()
            return out

    return json.loads(asyncio.run(main())), server


def test_a_message(talked: tuple[Any, ModelServer]) -> None:
    message = talked[0]["whole"]
    assert message["content"] == [{"type": "text", "text": WORDS}]
    assert (message["model"], message["role"], message["stop_reason"]) == ("claude-sonnet-5-5", "assistant", "end_turn")
    usage = message["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (11, 7)
    assert (usage["cache_creation_input_tokens"], usage["cache_read_input_tokens"]) == (3, 5)


def test_a_stream_adds_up_to_the_same_message(talked: tuple[Any, ModelServer]) -> None:
    streamed, whole = talked[0]["streamed"], talked[0]["whole"]
    assert "".join(streamed["texts"]) == WORDS
    assert len(streamed["texts"]) > 1
    usage = {name: count for name, count in whole["usage"].items() if name in streamed["message"]["usage"]}
    assert streamed["message"]["content"] == whole["content"]
    assert streamed["message"]["usage"] | usage == streamed["message"]["usage"]


def test_the_events_of_a_stream_are_all_known_to_it(talked: tuple[Any, ModelServer]) -> None:
    events = talked[0]["events"]
    assert [event for number, event in enumerate(events) if events.index(event) == number] == [
        *("message_start", "content_block_start", "content_block_delta", "content_block_stop"),
        *("message_delta", "message_stop"),
    ]


def test_thinking_and_tools_go_there_and_back(talked: tuple[Any, ModelServer]) -> None:
    assert talked[0]["tool_loop"] == {
        "kinds": ["thinking", "text", "tool_use"],
        "input": {"city": "Rome"},
        "answer": WORDS,
    }


def test_tokens_are_counted(talked: tuple[Any, ModelServer]) -> None:
    assert talked[0]["counted"] is True


def test_errors_are_the_ones_it_knows(talked: tuple[Any, ModelServer]) -> None:
    errors = talked[0]["errors"]
    assert errors == {
        "rate_limited": ["RateLimitError", 429, "rate_limit_error", True],
        "overloaded": ["OverloadedError", 529, "overloaded_error", True],
        "server_error": ["InternalServerError", 500, "api_error", True],
        "prompt_too_long": ["BadRequestError", 400, "invalid_request_error", True],
        "too_large": ["ContentTooLargeError", 413, "request_too_large", True],
        "invalid_request": ["BadRequestError", 400, "invalid_request_error", True],
        "reset": ["APIConnectionError"],
        "a rule is broken": ["BadRequestError", 400, "invalid_request_error", True],
    }
    assert talked[0]["unknown_key"] == 401


def test_what_it_makes_of_streams_that_break(talked: tuple[Any, ModelServer]) -> None:
    streams = talked[0]["streams"]
    assert {name: streams[name] for name in ("pings", "unknown_events", "drip")} == {
        "pings": [WORDS, "no error"],
        "unknown_events": [WORDS, "no error"],
        "drip": [WORDS, "no error"],
    }
    assert (len(streams["huge_text"][0]), streams["huge_text"][1]) == (5_000, "no error")
    half = WORDS[: len(WORDS) // 2]
    assert {name: streams[name][0] for name in ("cut_in_text", "error_event", "malformed_json")} == dict.fromkeys(
        ("cut_in_text", "error_event", "malformed_json"), half
    )
    assert all(streams[name][1] != "no error" for name in ("cut_in_text", "error_event", "malformed_json"))


def test_its_own_retries_are_served(talked: tuple[Any, ModelServer]) -> None:
    said, server = talked
    assert said["retried"] == WORDS
    assert sum(answer.request.talk.prompt == "twice too busy" for answer in server.answers) == 3


def test_only_the_request_that_meant_to_broke_a_rule(talked: tuple[Any, ModelServer]) -> None:
    assert {violation.rule for violation in talked[1].violations} == {"version.sampling"}


@pytest.mark.long
def test_the_example_tests_another_sdk(peer: None, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    done = subprocess.run(
        [str(PYTHON), str(ROOT / "examples" / "testing_another_sdk.py")],
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout
