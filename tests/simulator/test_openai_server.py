"""The server over OpenAI's two protocols: real sockets, and a client that is not ours."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from mainspring.core.money import Usage
from mainspring.simulator.faults import FaultPlan, PlannedFault
from mainspring.simulator.replies import Refuse, Reply, Say
from mainspring.simulator.scripts import (
    PromptScript,
    choose_by_prompt,
    encode_recording_line,
    read_recording,
    replay_recording,
)
from mainspring.simulator.server import ModelServer
from simulator.bodies import Json, ask, assistant, call, result, tool, user
from simulator.client import HEADERS, Head, assembled, connected, request_bytes
from simulator.openai_bodies import answers, called, calling, chat, flat, function, item, output, respond, says
from simulator.openai_client import Chat, Response

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
BODIES: dict[str, Callable[..., Json]] = {CHAT: chat, RESPONSES: respond}


def serving(server: ModelServer, talk: Callable[[ModelServer], Awaitable[None]]) -> ModelServer:
    async def main() -> None:
        async with asyncio.timeout(60), server:
            await talk(server)

    asyncio.run(main())
    return server


async def whole(server: ModelServer, path: str, body: Json, **headers: str) -> tuple[Head, Any]:
    async with connected(server.url) as client:
        client.send(body, path, **headers)
        return await client.answer()


async def streamed(server: ModelServer, path: str, body: Json) -> tuple[Head, bytes]:
    async with connected(server.url) as client:
        client.send({**body, "stream": True}, path)
        return await client.head(), b"".join([chunk async for chunk in client.chunks()])


def text_of(path: str, body: Json) -> str:
    said = body["choices"][0]["message"]["content"] if path == CHAT else body["output"][-1]["content"][0]["text"]
    return str(said)


# --- one script, three spellings --------------------------------------------------------------------------------

FIRST, SECOND = Say.of("Let me look.", call("call_1"), call("call_2")), Say.of("It holds 1.")
LOOK = {"file_path": "a.py"}


def test_one_script_is_played_over_three_protocols() -> None:
    """The whole loop each time: ask, two calls, their results, the answer. The conversations read the same."""

    async def talk(server: ModelServer) -> None:
        results = [result("call_1", "x"), result("call_2", "y")]
        words = ask(user("Read it."), tools=[tool()])
        async with connected(server.url) as client:
            client.send({**words, "stream": True})
            reply = assembled((await client.streamed())[1])["content"]
        loop = [user("Read it."), assistant(*reply), user(*results)]
        assert (await whole(server, "/v1/messages", ask(*loop, tools=[tool()])))[1]["content"][0][
            "text"
        ] == "It holds 1."

        asked = chat(says("Read it."), tools=[function()])
        first = Chat((await streamed(server, CHAT, asked))[1])
        assert [(each["id"], json.loads(each["arguments"])) for each in first.calls] == [
            ("call_1", LOOK),
            ("call_2", LOOK),
        ]
        asked["messages"] += [
            calling("call_1", "call_2", content=first.text),
            answers("call_1", "x"),
            answers("call_2", "y"),
        ]
        assert text_of(CHAT, (await whole(server, CHAT, asked))[1]) == "It holds 1."

        asked = respond(item("Read it."), tools=[flat()])
        items = list(Response((await streamed(server, RESPONSES, asked))[1]).items.values())
        asked["input"] += [*items, output("call_1", "x"), output("call_2", "y")]
        assert text_of(RESPONSES, (await whole(server, RESPONSES, asked))[1]) == "It holds 1."

    server = serving(ModelServer(choose=choose_by_prompt([PromptScript("Read it.", (FIRST, SECOND))])), talk)
    assert server.violations == []
    last = [request.talk for request in server.requests[1::2]]
    assert [[each["content"] for each in talk.results("Read")] for talk in last] == [["x", "y"]] * 3
    assert [talk.turns() for talk in last] == [1, 1, 1]
    assert [len(talk.messages) for talk in last] == [3, 3, 3]
    assert [(talk.prompt, talk.blocks("tool_use")[0]["input"]) for talk in last] == [("Read it.", LOOK)] * 3


def test_what_was_recorded_over_one_protocol_is_replayed_over_another(tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"

    async def record(server: ModelServer) -> None:
        await whole(server, CHAT, chat(says("Read it.")))
        await whole(server, CHAT, chat(says("Read it."), calling(), answers()))

    async def replay(server: ModelServer) -> None:
        loop = respond(item("Read it."), called(), output())
        assert text_of(RESPONSES, (await whole(server, RESPONSES, loop))[1]) == "It holds 1."
        head, unknown = await whole(server, RESPONSES, respond(item("Write it.")))
        assert (head.status, unknown["error"]["message"]) == (400, "the recording has no answer to these 1 message")

    with file.open("wb") as written:

        def keep(body: Json, reply: Reply) -> None:
            written.write(encode_recording_line(body, reply))

        serving(ModelServer([Say.of(call("call_1")), SECOND], record=keep), record)
    serving(ModelServer(choose=replay_recording(read_recording(file))), replay)


# --- errors -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", BODIES)
def test_errors_have_openais_form_and_headers(path: str) -> None:
    async def talk(server: ModelServer) -> None:
        head, body = await whole(server, path, BODIES[path]())
        assert (head.status, body["error"]["type"], body["error"]["code"]) == (429, "requests", "rate_limit_exceeded")
        assert (head.headers["retry-after"], head.headers["x-ratelimit-remaining-requests"]) == ("3", "0")
        head, body = await whole(server, path, BODIES[path]())
        assert (head.status, text_of(path, body)) == (200, "one")
        assert head.headers["x-ratelimit-remaining-requests"] == "9999"
        assert head.headers["x-request-id"].startswith("req_")
        head, body = await whole(server, path, BODIES[path]())
        assert (head.status, body["error"]) == (
            402,
            {"message": "Pay.", "type": "insufficient_quota", "param": None, "code": "credit_balance_exhausted"},
        )
        head, body = await whole(server, path, BODIES[path](temperature=0.5))
        assert (head.status, body["error"]["param"], body["error"]["code"]) == (
            400,
            "temperature",
            "unsupported_parameter",
        )

    faults = FaultPlan(PlannedFault("rate_limited", argument="3"))
    own = Refuse(402, "insufficient_quota", "Pay.", code="credit_balance_exhausted")
    server = serving(ModelServer([Say.of("one"), own], faults=faults), talk)
    assert [violation.rule for violation in server.violations] == ["sampling.model"]


@pytest.mark.parametrize("path", BODIES)
def test_keys_methods_and_bytes(path: str) -> None:
    async def talk(server: ModelServer) -> None:
        head, body = await whole(server, path, BODIES[path](), authorization="Bearer wrong")
        assert (head.status, body["error"]["code"]) == (401, "invalid_api_key")
        head, body = await whole(server, path, BODIES[path](), authorization="Bearer right")
        assert (head.status, text_of(path, body)) == (200, "one")
        async with connected(server.url) as client:
            client.send(b"{", path, authorization="Bearer right")
            head, body = await client.answer()
            assert (head.status, body["error"]["type"]) == (400, "invalid_request_error")
            client.writer.write(request_bytes("GET", path, HEADERS, b""))
            assert (await client.answer())[0].status == 405

    serving(ModelServer([Say.of("one")], api_key="right"), talk)


@pytest.mark.parametrize("path", BODIES)
def test_a_prompt_that_is_too_long(path: str) -> None:
    async def talk(server: ModelServer) -> None:
        words = "x" * 4_000
        head, body = await whole(server, path, BODIES[path](says(words) if path == CHAT else item(words)))
        assert (head.status, body["error"]["code"]) == (400, "context_length_exceeded")
        assert "maximum context length is 1000 tokens" in body["error"]["message"]

    serving(ModelServer([Say.of("a")], limit=1_000), talk)


# --- metering -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", BODIES)
def test_every_prefix_is_cached_unasked(path: str) -> None:
    """However many blocks came since, and only what is the same."""
    long = "word " * 2_000
    more = [(says if path == CHAT else item)(f"part {number}") for number in range(30)]
    head = (says if path == CHAT else item)(long)
    other = (says if path == CHAT else item)(long + "!")

    async def cached(server: ModelServer, *messages: Json) -> int:
        _, body = await whole(server, path, BODIES[path](*messages))
        details = body["usage"]["prompt_tokens_details" if path == CHAT else "input_tokens_details"]
        return int(details["cached_tokens"])

    async def talk(server: ModelServer) -> None:
        read = [await cached(server, head), await cached(server, head), await cached(server, head, *more)]
        assert read[0] == 0
        assert read[1] == read[2] > 2_000
        assert await cached(server, other) == 0

    server = serving(ModelServer([Say.of("a")] * 4, metered=True), talk)
    assert server.usage.cache_read > 4_000
    assert [answer.usage.cache_write > 2_000 for answer in server.answers] == [True, False, False, True]


def test_usage_that_the_script_gives_is_spelled_out() -> None:
    async def talk(server: ModelServer) -> None:
        body = chat(stream_options={"include_usage": True}, stream=True)
        usage = Chat((await streamed(server, CHAT, body))[1]).usage
        assert usage is not None
        assert (usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]) == (9, 2)

    serving(ModelServer([Say.of("a", usage=Usage(input=7, cache_read=2, output=1))]), talk)


# --- odd servers ----------------------------------------------------------------------------------------------------


def test_a_server_that_is_always_odd() -> None:
    async def talk(server: ModelServer) -> None:
        for _ in range(2):
            read = Chat((await streamed(server, CHAT, chat(stream_options={"include_usage": True}, stream=True)))[1])
            assert (read.text, read.usage, read.done) == ("<think>\nHm.\n</think>\n\nYes.", None, False)
        odd = Chat((await streamed(server, CHAT, chat()))[1])
        assert (odd.calls[0]["id"], odd.done) == (None, False)

    thinks = Say.of({"type": "thinking", "thinking": "Hm."}, "Yes.")
    replies = [thinks, thinks, Say.of(call(), odd=("no_ids",))]
    serving(ModelServer(replies, odd=("think_tags", "no_usage", "no_done")), talk)


def test_a_server_that_is_odd_once() -> None:
    async def talk(server: ModelServer) -> None:
        first = Chat((await streamed(server, CHAT, chat()))[1])
        second = Chat((await streamed(server, CHAT, chat()))[1])
        assert ([len(first.calls), first.finish], [len(second.calls), second.finish]) == (
            [0, "stop"],
            [1, "tool_calls"],
        )

    faults = FaultPlan(PlannedFault("calls_as_text"))
    server = serving(ModelServer([Say.of(call()), Say.of(call())], faults=faults), talk)
    assert [answer.fault for answer in server.answers] == ["calls_as_text", ""]


def test_a_manner_that_nobody_knows() -> None:
    with pytest.raises(ValueError, match="'moody' is not a quirk of odd servers"):
        ModelServer(odd=("moody",))


# --- models ---------------------------------------------------------------------------------------------------------


def test_models_are_listed_in_the_form_of_whoever_asks() -> None:
    async def talk(server: ModelServer) -> None:
        async with connected(server.url) as client:
            client.writer.write(request_bytes("GET", "/v1/models", {"host": "localhost"}, b""))
            _, body = await client.answer()
            assert body["object"] == "list"
            assert [(each["id"], each["object"]) for each in body["data"]] == [("one", "model"), ("two", "model")]
            client.writer.write(request_bytes("GET", "/v1/models", HEADERS, b""))
            _, body = await client.answer()
            assert [(each["id"], each["type"]) for each in body["data"]] == [("one", "model"), ("two", "model")]
            assert body["has_more"] is False

    serving(ModelServer(models=("one", "two")), talk)
