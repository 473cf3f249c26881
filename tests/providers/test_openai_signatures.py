"""Calls that a server signs, as Gemini does: the signature comes with the call, and goes back with it.

A reply's first call without one is refused there, so what was made by another model, or signed for another server, gets
what Google's documentation names for that. Elsewhere nothing of this is sent.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mainspring.core.effects import Request
from mainspring.core.errors import ProviderError
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Block, Message, Text, Thinking, ToolCall, result, user
from mainspring.providers.base import BlockFinished, Conversation, Item, Retry, ToolSpec
from mainspring.providers.http.client import Transport
from mainspring.providers.openai.blocks import BlockReader
from mainspring.providers.openai.chat_stream import ChatStreamReader
from mainspring.providers.openai.json import UNSIGNED
from mainspring.providers.openai.provider import (
    GEMINI,
    PLAIN,
    OpenAI,
    OpenAIChat,
    OpenAIResponses,
    ServerFeatures,
    manners_for,
)
from mainspring.providers.retry import PATIENCE, RetryProfile
from mainspring.simulator import openai_chat_request
from providers.histories import disorderly, orderly

NAME, OTHER = "gemini/gemini-3-pro", "some-other-model"
READ = ToolSpec("Read", "Reads a file.", {"type": "object", "properties": {"file_path": {"type": "string"}}})
SIGNED = Assistant((Thinking("", "google S1"), ToolCall("a", "Read", {}), ToolCall("b", "Read", {})), NAME, id="r1")
RESULTS = (replace(result("a", "1"), id="m2"), replace(result("b", "2"), id="m3"))
TALK: tuple[Message, ...] = (replace(user("go"), id="m0"), SIGNED, *RESULTS)


def asked(model: str = NAME) -> Request:
    return Request(model, 1_000, 1, "sdk", "", 0, overload_tries=1)


def sent(
    *messages: Message, manners: ServerFeatures = GEMINI, model: str = NAME, kind: type[OpenAI] = OpenAIChat
) -> Any:
    provider = kind(manners=manners, prefix="gemini/")
    prepared = provider.prepare(asked(model), Conversation(History(messages), (), (), (READ,)))
    return msgspec.json.decode(b"".join(prepared.body))


def signatures(body: Any) -> list[list[str]]:
    """Of each reply's calls; empty where there is none."""
    replies = [message["tool_calls"] for message in body["messages"] if "tool_calls" in message]
    return [[call.get("extra_content", EMPTY)["google"]["thought_signature"] for call in calls] for calls in replies]


EMPTY = {"google": {"thought_signature": ""}}


# --- read ---------------------------------------------------------------------------------------------------


def read(reader: BlockReader, *deltas: dict[str, Any]) -> list[Block]:
    events = [("", msgspec.json.encode({"choices": [{"index": 0, "delta": delta}]})) for delta in deltas]
    end = msgspec.json.encode({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    items = reader.take([*events, ("", end), ("", b"[DONE]")])
    assert reader.error is None
    return [item.block for item in items if isinstance(item, BlockFinished)]


def call(index: object, id: object, arguments: object = "{}", extra: object = None) -> dict[str, Any]:
    made = {"index": index, "id": id, "type": "function", "function": {"name": "Read", "arguments": arguments}}
    return made if extra is None else made | {"extra_content": extra}


def google(signature: str) -> dict[str, Any]:
    return {"google": {"thought_signature": signature}}


def test_a_signature_stands_before_its_call() -> None:
    got = read(
        ChatStreamReader(),
        {"reasoning_content": "hm"},
        {"content": "So."},
        {"tool_calls": [call(0, "a", extra=google("S1")), call(1, "b")]},
    )
    first, second = ToolCall("a", "Read", {}), ToolCall("b", "Read", {})
    assert got == [Thinking("hm", "reasoning_content"), Text("So."), Thinking("", "google S1"), first, second]


@pytest.mark.parametrize("extra", [7, None, {}, {"google": 7}, {"google": {}}, {"google": {"thought_signature": ""}}])
def test_what_is_no_signature_is_none(extra: object) -> None:
    piece = call(0, "a") | {"extra_content": extra}
    assert read(ChatStreamReader(), {"tool_calls": [piece]}) == [ToolCall("a", "Read", {})]


def test_also_in_a_call_of_an_odd_form() -> None:
    got = read(ChatStreamReader(), {"tool_calls": [call("0", 7, arguments={}, extra=google("S1"))]})
    assert got == [Thinking("", "google S1"), ToolCall("7", "Read", {})]


def test_thoughts_before_a_signed_call_keep_their_own() -> None:
    got = read(ChatStreamReader(), {"reasoning": "hm"}, {"tool_calls": [call(0, "a", extra=google("S1"))]})
    assert got[:2] == [Thinking("hm", "reasoning"), Thinking("", "google S1")]


# --- sent back ----------------------------------------------------------------------------------------------


@pytest.mark.covers("E-08")
def test_a_signature_goes_back_with_its_call_to_the_model_that_made_it() -> None:
    assert signatures(sent(*TALK)) == [["S1", ""]]
    assert signatures(sent(*TALK, manners=PLAIN)) == [["S1", ""]], "also through a gateway"
    assert signatures(sent(*TALK, model="gemini/another")) == [[UNSIGNED, ""]]
    assert signatures(sent(*TALK, manners=PLAIN, model=OTHER)) == [["", ""]], "nobody else is sent anything of it"
    items = sent(*TALK, kind=OpenAIResponses, manners=PLAIN)["input"]
    assert [item["type"] for item in items] == ["message", *["function_call"] * 2, *["function_call_output"] * 2]


def test_each_call_keeps_its_own_where_the_text_is_put_before_them() -> None:
    blocks = (
        Thinking("", "google S1"),
        ToolCall("a", "Read", {}),
        Text("And:"),
        Thinking("", "google S2"),
        ToolCall("b", "Read", {}),
    )
    body = sent(user("go"), Assistant(blocks, NAME, id="r1"), *RESULTS)
    assert body["messages"][1]["content"] == "And:"
    assert signatures(body) == [["S1", "S2"]]


def test_a_signature_without_its_call_is_left_out() -> None:
    for rest in ((), (Text("So."),), (Thinking("", "google S2"), ToolCall("a", "Read", {}))):
        body = sent(user("go"), Assistant((Thinking("", "google S1"), *rest), NAME, id="r1"), user("on"))
        assert "S1" not in str(body)


def test_calls_that_others_made_are_sent_as_such_where_signatures_are_wanted() -> None:
    foreign = Assistant((ToolCall("a", "Read", {}), ToolCall("b", "Read", {})), OTHER, id="r1")
    assert signatures(sent(user("go"), foreign, *RESULTS)) == [[UNSIGNED, ""]]
    assert signatures(sent(user("go"), foreign, *RESULTS, manners=PLAIN)) == [["", ""]]


def test_only_google_s_own_address_is_known_to_want_them() -> None:
    assert manners_for("https://generativelanguage.googleapis.com/v1beta/openai") == GEMINI
    assert manners_for("https://generativelanguage.googleapis.com.evil.example/v1") == PLAIN


def signing(messages: list[Message]) -> list[Message]:
    """As if each call of each reply were signed."""
    return [
        replace(message, model=NAME, blocks=tuple([part for block in message.blocks for part in signed(block)]))
        if isinstance(message, Assistant)
        else message
        for message in messages
    ]


def signed(block: Block) -> list[Block]:
    return [Thinking("", "google S"), block] if isinstance(block, ToolCall) else [block]


def stripped(body: Any) -> Any:
    for message in body["messages"]:
        for made in message.get("tool_calls", ()):
            made.pop("extra_content", None)
    return body


@given(st.one_of(orderly(), disorderly()), st.sampled_from([GEMINI, PLAIN]), st.integers(0, 40))
def test_whatever_the_history_the_rest_of_the_request_is_the_same(
    messages: list[Message], manners: ServerFeatures, cut: int
) -> None:
    """Also where it is cut: and it is valid, once what only Gemini knows is taken out."""
    same_names = [replace(m, model=NAME) if isinstance(m, Assistant) else m for m in messages]
    with_them, without = sent(*signing(messages)[:cut], manners=manners), sent(*same_names[:cut], manners=PLAIN)
    assert stripped(with_them) == without
    body = msgspec.json.encode(without)
    assert openai_chat_request.find_violations(body, {"content-type": "application/json"}, frozenset()) == []


# --- over the wire ------------------------------------------------------------------------------------------

MISSING = "Function call is missing a thought_signature in functionCall parts. Additional data, function call `Read`."


class Strict:
    """A server that wants the first call of the last reply signed, and refuses a signature that it does not know."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        return f"http://{host}:{port}"

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
        body = msgspec.json.decode(await reader.readexactly(length))
        self.heard.append(body)
        found = signatures(body)[-1:]
        if found and found[0][0] not in ("S1", UNSIGNED):
            said = MISSING if not found[0][0] else "Corrupted thought signature."
            error = msgspec.json.encode([{"error": {"code": 400, "message": said, "status": "INVALID_ARGUMENT"}}])
            writer.write(
                b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(error) + error
            )
        else:
            deltas: list[Any] = (
                [{"content": "Done."}] if found else [{"tool_calls": [call(0, "a", extra=google("S1"))]}]
            )
            chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
            chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
            said_all = (
                b"".join([b"data: %s\n\n" % msgspec.json.encode(chunk) for chunk in chunks]) + b"data: [DONE]\n\n"
            )
            form = (
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
            )
            writer.write(form % len(said_all) + said_all)
        await writer.drain()
        writer.close()


async def answers(provider: OpenAI, *messages: Message) -> list[Item]:
    got: list[Item] = []
    async with aclosing(provider.stream(asked(), Conversation(History(messages), (), (), (READ,)))) as stream:
        async for batch in stream:
            got.extend(batch)
    return got


def over_the_wire(manners: ServerFeatures, *before: Message) -> tuple[list[Item], list[Any]]:
    """The answer to a conversation; without one, to what comes of a first question."""

    async def main() -> tuple[list[Item], list[Any]]:
        server = Strict()
        async with server as url, Transport() as transport:
            patience = replace(PATIENCE[RetryProfile.FOREGROUND], tries=1)
            provider = OpenAIChat(
                base_url=url, transport=transport, manners=manners, prefix="gemini/", patience=patience
            )
            talk = before
            if not talk:
                blocks = tuple(
                    [item.block for item in await answers(provider, user("go")) if isinstance(item, BlockFinished)]
                )
                talk = (user("go"), Assistant(blocks, NAME, id="r1"), RESULTS[0])
            return await answers(provider, *talk), server.heard

    return asyncio.run(main())


def done(items: list[Item]) -> list[Block]:
    return [item.block for item in items if isinstance(item, BlockFinished)]


@pytest.mark.parametrize("manners", [GEMINI, PLAIN])
def test_a_call_and_its_result_reach_a_strict_server_at_once(manners: ServerFeatures) -> None:
    items, heard = over_the_wire(manners)
    assert (done(items), len(heard)) == ([Text("Done.")], 2)
    assert not any(isinstance(item, Retry) for item in items)


FOREIGN = (user("go"), Assistant((ToolCall("a", "Read", {}),), OTHER, id="r1"), RESULTS[0])
SPOILT = (user("go"), Assistant((Thinking("", "google bad"), ToolCall("a", "Read", {})), NAME, id="r1"), RESULTS[0])


@pytest.mark.parametrize(
    ("manners", "talk", "tries"),
    [(GEMINI, FOREIGN, 1), (PLAIN, FOREIGN, 2), (GEMINI, SPOILT, 2), (PLAIN, SPOILT, 2)],
    ids=["known", "learned", "a bad one", "a bad one, learned"],
)
def test_what_is_refused_for_its_signature_is_sent_again_without(
    manners: ServerFeatures, talk: tuple[Message, ...], tries: int
) -> None:
    items, heard = over_the_wire(manners, *talk)
    assert (done(items), len(heard)) == ([Text("Done.")], tries)
    assert signatures(heard[-1]) == [[UNSIGNED]]
    assert sum(isinstance(item, Retry) for item in items) == tries - 1


def test_a_server_that_takes_neither_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("providers.test_openai_signatures.UNSIGNED", "nothing")
    with pytest.raises(ProviderError, match="Corrupted thought signature"):
        over_the_wire(PLAIN, *FOREIGN)
