"""What OpenRouter knows of a model's thoughts: put together, kept with them, and sent back whole."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mainspring.core.effects import Request
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Block, Message, Text, Thinking, ToolCall, result, user
from mainspring.providers.base import BlockFinished, Conversation, ToolSpec
from mainspring.providers.openai.chat_stream import ChatStreamReader
from mainspring.providers.openai.errors import THINKING, OpenAIError, cure_for
from mainspring.providers.openai.provider import PLAIN, OpenAI, OpenAIChat, OpenAIResponses
from mainspring.providers.openai.quirks import SIGNED
from mainspring.simulator import openai_chat_request
from providers.histories import disorderly, orderly

NAME = "openrouter/google/gemini-3-pro"
READ = ToolSpec("Read", "Reads a file.", {"type": "object", "properties": {"file_path": {"type": "string"}}})
CALL = {"index": 0, "id": "a", "type": "function", "function": {"name": "Read", "arguments": "{}"}}
SECRET = {"type": "reasoning.encrypted", "data": "gAAA", "id": "tool_1", "index": 1}


def words(text: str, **more: object) -> dict[str, Any]:
    return {"type": "reasoning.text", "text": text, "format": "anthropic-claude-v1", "index": 0, **more}


WHOLE = words("Let me see", signature="sig")
KNOWN = [WHOLE, SECRET]
THOUGHT = Thinking("Let me see", SIGNED + msgspec.json.encode(KNOWN).decode())


def read(*deltas: dict[str, Any]) -> list[Block]:
    reader = ChatStreamReader()
    events = [("", msgspec.json.encode({"choices": [{"index": 0, "delta": delta}]})) for delta in deltas]
    end = msgspec.json.encode({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    items = reader.take([*events, ("", end), ("", b"[DONE]")])
    assert reader.error is None
    return [item.block for item in items if isinstance(item, BlockFinished)]


def sent(*messages: Message, model: str = NAME, kind: type[OpenAI] = OpenAIChat) -> Any:
    request = Request(model, 1_000, 1, "sdk", "", 0, overload_tries=1)
    prepared = kind(manners=PLAIN).prepare(request, Conversation(History(messages), (), (), (READ,)))
    return msgspec.json.decode(b"".join(prepared.body))


PIECES: tuple[dict[str, Any], ...] = (
    {"content": "", "reasoning": "Let me ", "reasoning_details": [words("Let me ")]},
    {"content": "", "reasoning": "see", "reasoning_details": [words("see")]},
    {"content": "", "reasoning": None, "reasoning_details": [words("", signature="sig"), SECRET]},
)


@pytest.mark.parametrize(
    ("behind", "blocks"),
    [
        ({"content": "So."}, [Text("So.")]),
        ({"tool_calls": [CALL]}, [ToolCall("a", "Read", {})]),
        ({"content": None}, []),
    ],
    ids=["text", "a call", "nothing"],
)
def test_its_pieces_are_put_together_and_kept_with_the_thoughts(behind: dict[str, Any], blocks: list[Block]) -> None:
    assert read(*PIECES, behind) == [THOUGHT, *blocks]


def test_the_text_may_come_only_there() -> None:
    only = [{"reasoning_details": delta["reasoning_details"]} for delta in PIECES]
    assert read(*only, {"content": "So."}) == [THOUGHT, Text("So.")]


def test_what_is_encrypted_comes_without_words_and_with_its_call() -> None:
    secret = Thinking("", SIGNED + msgspec.json.encode([SECRET]).decode())
    call = ToolCall("a", "Read", {})
    assert read({"content": "So."}, {"tool_calls": [CALL], "reasoning_details": [SECRET]}) == [
        Text("So."),
        secret,
        call,
    ]
    assert read({"tool_calls": [CALL]}, {"reasoning_details": [SECRET]}) == [call, secret]


@pytest.mark.parametrize("odd", [None, 7, {}, [], [7], "text"])
def test_what_is_none_of_it_is_nothing(odd: object) -> None:
    assert read({"reasoning": "hm", "reasoning_details": odd}, {"content": "So."}) == [
        Thinking("hm", "reasoning"),
        Text("So."),
    ]
    assert read({"reasoning_details": odd}, {"content": "So."}) == [Text("So.")]


@pytest.mark.covers("E-08")
def test_it_goes_back_whole_to_the_model_that_thought_it() -> None:
    call, answer = ToolCall("a", "Read", {}), replace(result("a", "1"), id="m2")
    for blocks in ((THOUGHT, Text("So."), call), (Text("So."), THOUGHT, call), (Text("So."), call, THOUGHT)):
        reply = Assistant(blocks, NAME, id="r1")
        message = sent(user("go"), reply, answer)["messages"][1]
        assert (message["reasoning_details"], message["content"], len(message["tool_calls"])) == (KNOWN, "So.", 1)
        assert "reasoning" not in str(sent(user("go"), reply, answer, model="another")["messages"])
        assert "reasoning_details" not in str(sent(user("go"), reply, answer, kind=OpenAIResponses))


def test_two_of_them_are_one_list() -> None:
    second = Thinking("", SIGNED + msgspec.json.encode([SECRET]).decode())
    reply = Assistant((THOUGHT, second, ToolCall("a", "Read", {})), NAME, id="r1")
    message = sent(user("go"), reply, replace(result("a", "1"), id="m2"))["messages"][1]
    assert (message["reasoning_details"], message["content"]) == ([*KNOWN, SECRET], None)


def test_a_server_that_does_not_know_it_is_sent_none() -> None:
    assert cure_for(OpenAIError("Unknown field 'reasoning_details' in message 1"), ()) == THINKING


def with_thoughts(message: Message) -> Message:
    return (
        replace(message, model=NAME, blocks=(THOUGHT, *message.blocks)) if isinstance(message, Assistant) else message
    )


def stripped(body: Any) -> Any:
    for message in body["messages"]:
        message.pop("reasoning_details", None)
    return body


@given(st.one_of(orderly(), disorderly()), st.integers(0, 40))
def test_whatever_the_history_the_rest_of_the_request_is_valid(messages: list[Message], cut: int) -> None:
    body = stripped(sent(*map(with_thoughts, messages[:cut])))
    found = openai_chat_request.find_violations(
        msgspec.json.encode(body), {"content-type": "application/json"}, frozenset()
    )
    assert found == []
