"""Frames that come from side calls: summaries of tool calls and suggestions, as Claude Code sends them.

The Python client knows neither, and skips both. That of TypeScript calls them `SDKToolUseSummaryMessage` and
`SDKPromptSuggestionMessage`.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from claude_agent_sdk import ClaudeSDKClient

from mainspring.core.money import NANOS_PER_USD
from mainspring.simulator.replies import (
    RawStream,
    ReceivedRequest,
    Reply,
    ReplyStamp,
    Say,
    frame_event,
    stream_events,
)
from pipe.raw import Frame, prompt
from pipe.stage import Serve, Told, bash, exchange

FREE: dict[str, Any] = {"permission_mode": "bypassPermissions"}
FLAGS = {"tool-use-summaries": None, "prompt-suggestions": None}
BYPASS = ("--permission-mode", "bypassPermissions")


def choose(received: ReceivedRequest) -> Reply:
    if "haiku" not in str(received.body["model"]):
        return Say.of("Done. " * 80, pace_ms=10) if received.talk.results() else Say.of(bash("echo hello"))
    is_summary = "tool calls that a coding agent made" in received.talk.prompt
    return Say.of("Printed a greeting" if is_summary else "next: now run the tests")


def golden(frame: Frame) -> str:
    """The line, with stand-ins for the ids."""
    return json.dumps(frame | {"session_id": "SESSION", "uuid": "UUID"}, separators=(",", ":"))


def begin_reply(received: ReceivedRequest) -> RawStream:
    """The first words of a reply that does not end until the client leaves."""
    events = list(stream_events(Say.of("Done."), ReplyStamp(received.talk.model, "msg_begun", str)))
    first = [event["type"] for event in events].index("content_block_delta")
    return RawStream(tuple([frame_event(event) for event in events[: first + 1]]), end="hang")


@pytest.mark.covers("B-31", "B-08")
def test_a_summary_comes_while_the_next_reply_streams_or_not_at_all(serve: Serve) -> None:
    """Two batches of calls. The summary of the first is empty, and no frame says so. The reply to the second does not
    end, and the summary of that batch comes all the same."""

    def choose(received: ReceivedRequest) -> Reply:
        if is_small(received):
            return Say.of(" . " if "echo 1" in received.talk.prompt else "Printed a number")
        done = len(received.talk.results())
        return Say.of(bash(f"echo {done + 1}", str(done + 1))) if done < 2 else begin_reply(received)

    def is_small(received: ReceivedRequest) -> bool:
        return "haiku" in str(received.body["model"])

    stage = serve(choose=choose)
    with stage.pipe("--tool-use-summaries", "--include-partial-messages", *BYPASS) as pipe:
        pipe.initialize()
        pipe.send(prompt("go"))
        awaited = {"tool_use_summary", "text_delta"}
        while awaited:
            frame = pipe.until(lambda frame: frame["type"] in ("tool_use_summary", "stream_event"))
            awaited -= {frame["type"], frame.get("event", {}).get("delta", {}).get("type")}
        assert "result" not in [frame["type"] for frame in pipe.frames]
        pipe.control("interrupt")
        assert pipe.result()["terminal_reason"] == "aborted_streaming"
        summaries = [frame for frame in pipe.frames if frame["type"] == "tool_use_summary"]
    assert [(frame["summary"], frame["preceding_tool_use_ids"]) for frame in summaries] == [
        ("Printed a number", ["toolu_2"])
    ]
    asked = [request for request in stage.requests if is_small(request)]
    assert sorted(["echo 1" in request.talk.prompt for request in asked]) == [False, True]
    assert "Printed a number" not in str([request.body for request in stage.requests]), "the model does not see it"


@pytest.mark.covers("B-31")
def test_the_lines_and_their_places(serve: Serve) -> None:
    stage = serve(choose=choose)
    with stage.pipe("--tool-use-summaries", *BYPASS) as pipe:
        pipe.initialize(promptSuggestions=True)
        result = pipe.turn("go")
        suggested = pipe.until("prompt_suggestion")
        [summed] = [frame for frame in pipe.frames if frame["type"] == "tool_use_summary"]
        assert golden(summed) == (
            '{"type":"tool_use_summary","summary":"Printed a greeting","preceding_tool_use_ids":["toolu_Bash"],'
            '"session_id":"SESSION","uuid":"UUID"}'
        )
        assert golden(suggested) == (
            '{"type":"prompt_suggestion","suggestion":"now run the tests","session_id":"SESSION","uuid":"UUID"}'
        )
        [init] = [frame for frame in pipe.frames if frame.get("subtype") == "init"]
        for frame in (summed, suggested):
            assert frame["session_id"] == init["session_id"] == result["session_id"]
            assert len(frame["uuid"]) == 36
        assert pipe.frames.index(init) < pipe.frames.index(summed) < pipe.frames.index(result)
        assert stage.server.violations == []


def test_the_last_suggestion_comes_though_the_input_has_ended(serve: Serve) -> None:
    stage = serve(choose=choose)
    with stage.pipe("--prompt-suggestions", *BYPASS) as pipe:
        pipe.initialize()
        pipe.send({"type": "user", "session_id": "", "message": {"role": "user", "content": "go"}})
        pipe.shut()
        while pipe.read() is not None:
            pass
        kinds = [frame["type"] for frame in pipe.frames]
        assert kinds.index("result") < kinds.index("prompt_suggestion")
        assert pipe.process.wait(20) == 0


def test_neither_is_sent_nor_paid_for_unless_asked_for(serve: Serve) -> None:
    stage = serve(choose=choose)
    with stage.pipe(*BYPASS) as pipe:
        pipe.initialize()
        pipe.turn("go")
        pipe.shut()
        while pipe.read() is not None:
            pass
        assert {frame["type"] for frame in pipe.frames} & {"tool_use_summary", "prompt_suggestion"} == set()
    assert len(stage.requests) == 2


@pytest.mark.of_the_pipe
def test_the_client_does_not_notice(serve: Serve) -> None:
    """The same messages as without them, in two turns and in a single one."""
    stage = serve(choose=choose)
    seen: list[list[str]] = []

    def kinds(told: Told) -> list[str]:
        assert told.error is None
        return [type(message).__name__ for message in told.messages]

    async def main(client: ClaudeSDKClient) -> None:
        seen.append([*kinds(await exchange(client, "go")), *kinds(await exchange(client, "go on"))])

    for flags in ({}, FLAGS):
        assert stage.talk(main, extra_args=flags, **FREE) == []
        seen.append(kinds(stage.ask("go", extra_args=flags, **FREE)))
    assert seen[:2] == seen[2:]
    small = [request for request in stage.requests if "haiku" in str(request.body["model"])]
    assert len(small) >= 4  # two batches, three turns; the client may leave before its last suggestion


def test_the_sum_of_all_requests_is_in_the_next_result(serve: Serve) -> None:
    stage = serve(choose=choose)
    with stage.pipe("--tool-use-summaries", "--prompt-suggestions", *BYPASS) as pipe:
        pipe.initialize()
        pipe.turn("go")
        pipe.until("prompt_suggestion")
        result = pipe.turn("go on")
        costs = [answer.cost for answer in stage.server.answers[:5]]  # then comes the second suggestion
        assert round(result["total_cost_usd"] * NANOS_PER_USD) == sum(costs)
