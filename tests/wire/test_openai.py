"""The providers of OpenAI's two protocols against a server on a real socket, which judges every request."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import Any

import pytest
from msgspec.structs import replace
from providers.histories import PNG

from mainspring.core.config import Effort
from mainspring.core.effects import Request
from mainspring.core.errors import ProviderError
from mainspring.core.history import History
from mainspring.core.messages import (
    Assistant,
    Block,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
    result,
    user,
)
from mainspring.core.money import Usage
from mainspring.core.reasons import Failure, Trouble
from mainspring.providers.anthropic.provider import Anthropic
from mainspring.providers.base import (
    BlockDelta,
    BlockFinished,
    Conversation,
    Item,
    PrefixBreak,
    Provider,
    Retry,
    StreamEnded,
    StreamStarted,
    ToolSpec,
)
from mainspring.providers.errors import UserRemedies
from mainspring.providers.http.client import LOCAL, REMOTE, Deadlines, Transport, deadlines_for
from mainspring.providers.http_provider import ApiKey
from mainspring.providers.openai.provider import (
    HOME,
    OPENAI,
    PLAIN,
    OpenAI,
    OpenAIChat,
    OpenAIResponses,
    add_version_path,
    manners_for,
)
from mainspring.providers.retry import PATIENCE, RetryLimits, RetryProfile
from mainspring.providers.scripted import ScriptedReply, says
from mainspring.simulator.replies import RawReply, RawStream, Refuse, Say
from mainspring.simulator.server import ModelServer
from mainspring.testing.conformance import ProviderConformance
from wire.openai_scripted import Served
from wire.servers import quickest

QUICK = replace(PATIENCE[RetryProfile.FOREGROUND], base=1, cap=1)
REQUEST = Request("gpt-5.5", 1_000, 1, "sdk", "", 0, overload_tries=10)
GO = Conversation(History([user("go")]))
NOW = 1_800_000_000.0
TOOLS = (ToolSpec("Read", "Reads a file.", {"type": "object", "properties": {"file_path": {"type": "string"}}}),)

Kind = type[OpenAI]
both = pytest.mark.parametrize("kind", [OpenAIChat, OpenAIResponses], ids=["chat", "responses"])


class TestChatConformance(ProviderConformance):
    def provider(self, replies: list[ScriptedReply]) -> Provider:
        return Served(OpenAIChat, replies)

    def test_blocks_come_finished_and_in_order(self) -> None:
        """Nothing is signed in this protocol: what stands there is the field that the thoughts came in."""
        got = self.play(says(Thinking("hm"), Text("So:"), ToolCall("c1", "Read", {"file_path": "a"})))
        assert blocks(got) == [
            Thinking("hm", "reasoning_content"),
            Text("So:"),
            ToolCall("c1", "Read", {"file_path": "a"}),
        ]


class TestResponsesConformance(ProviderConformance):
    def provider(self, replies: list[ScriptedReply]) -> Provider:
        return Served(OpenAIResponses, replies)

    def test_blocks_come_finished_and_in_order(self) -> None:
        """The signature holds the item's id, too."""
        got = self.play(says(Thinking("hm", "gAAA"), Text("So:"), ToolCall("c1", "Read", {"file_path": "a"})))
        assert blocks(got) == [Thinking("hm", "rs_1_0 gAAA"), Text("So:"), ToolCall("c1", "Read", {"file_path": "a"})]


async def ask(provider: Provider, request: Request = REQUEST, talk: Conversation = GO) -> list[Item]:
    got: list[Item] = []
    async with aclosing(provider.stream(request, talk)) as stream:
        async for batch in stream:
            got.extend(batch)
    return got


def blocks(items: list[Item]) -> list[Block]:
    return [item.block for item in items if isinstance(item, BlockFinished)]


class Asked:
    """What came of asking a server with these replies, once."""

    def __init__(self, kind: Kind, *replies: Any, key: ApiKey | str = "", **settings: Any) -> None:
        self.items: list[Item] = []
        self.failure: Failure | None = None
        self.request = settings.pop("request", REQUEST)
        self.talk = settings.pop("talk", GO)
        self._judged = settings.pop("judged", True)
        self.server = ModelServer(replies, api_key=settings.pop("api_key", None), odd=settings.pop("odd", ()))
        asyncio.run(self._ask(kind, key, settings))

    async def _ask(self, kind: Kind, key: ApiKey | str, settings: dict[str, Any]) -> None:
        async with self.server as server, Transport(deadlines=settings.pop("deadlines", None)) as transport:
            settings = {"patience": QUICK, "manners": OPENAI} | settings
            provider = kind(key, base_url=server.url, transport=transport, now=lambda: NOW, **settings)
            try:
                self.items = await ask(provider, self.request, self.talk)
            except ProviderError as error:
                self.failure = error.failure
        if self._judged:
            assert self.server.violations == []

    @property
    def waits(self) -> list[Retry]:
        return [item for item in self.items if isinstance(item, Retry)]

    @property
    def body(self) -> Any:
        return self.server.requests[-1].body

    @property
    def ended(self) -> StreamEnded:
        last = self.items[-1]
        assert isinstance(last, StreamEnded)
        return last


# --- what is sent -------------------------------------------------------------------------------


def test_a_chat_s_settings() -> None:
    request = replace(REQUEST, effort=Effort.MAX, chain="c7")
    talk = replace(GO, system=("You are mainspring.", " ", "Be brief."), tools=TOOLS)
    asked = Asked(OpenAIChat, Say.of("ok"), request=request, talk=talk, key="k1", headers={"x-title": "mainspring"})
    schema = TOOLS[0].schema
    function = {"name": "Read", "description": "Reads a file.", "parameters": schema}
    assert asked.body == {
        "model": "gpt-5.5",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_completion_tokens": 1_000,
        "reasoning_effort": "xhigh",
        "prompt_cache_key": "c7",
        "tools": [{"type": "function", "function": function}],
        "messages": [
            {"role": "system", "content": "You are mainspring.\n\nBe brief."},
            {"role": "user", "content": [{"type": "text", "text": "go"}]},
        ],
    }
    headers = asked.server.requests[0].headers
    assert (headers["authorization"], headers["x-title"]) == ("Bearer k1", "mainspring")
    assert headers["user-agent"].startswith("mainspring/")


def test_a_response_s_settings() -> None:
    request = replace(REQUEST, effort=Effort.LOW, chain="c7", max_output=1)
    talk = replace(GO, system=("You are mainspring.",), tools=TOOLS)
    asked = Asked(OpenAIResponses, Say.of("ok"), request=request, talk=talk)
    schema = TOOLS[0].schema
    tool = {"type": "function", "name": "Read", "description": "Reads a file.", "parameters": schema, "strict": False}
    assert asked.body == {
        "model": "gpt-5.5",
        "stream": True,
        "store": False,
        "max_output_tokens": 16,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "low", "summary": "auto"},
        "prompt_cache_key": "c7",
        "tools": [tool],
        "instructions": "You are mainspring.",
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]}],
    }


@both
def test_a_plain_server_is_sent_the_least(kind: Kind) -> None:
    request = replace(REQUEST, model="ollama/qwen3", chain="c7")
    asked = Asked(kind, Say.of("ok"), request=request, manners=PLAIN, prefix="ollama/")
    assert asked.body["model"] == "qwen3"
    assert not {"prompt_cache_key", "reasoning", "max_completion_tokens", "reasoning_effort"} & asked.body.keys()
    assert "authorization" not in asked.server.requests[0].headers


def test_the_address_says_what_a_server_can_do() -> None:
    assert add_version_path("http://localhost:11434/") == "http://localhost:11434/v1"
    assert add_version_path("https://api.openai.com") == HOME
    assert add_version_path("https://gateway.example/openai/v1") == "https://gateway.example/openai/v1"
    assert manners_for(HOME) == OPENAI
    assert manners_for("http://localhost:11434/v1") == PLAIN


def test_local_servers_may_read_long_prompts_for_minutes() -> None:
    assert deadlines_for("http://127.0.0.1:11434/v1/chat/completions") == LOCAL
    assert deadlines_for("http://localhost:1234/v1/responses") == LOCAL
    assert deadlines_for(f"{HOME}/responses") == REMOTE
    assert LOCAL.headers >= 600


@both
def test_the_key_may_go_into_another_header(kind: Kind) -> None:
    asked = Asked(kind, Say.of("ok"), key=ApiKey("k1", "api-key"))
    assert asked.server.requests[0].headers["api-key"] == "k1"


@both
def test_the_turns_of_a_session_share_one_connection(kind: Kind) -> None:
    async def main() -> tuple[int, int]:
        replies = [Say.of("one"), Say.of("two"), Say.of("three")]
        async with ModelServer(replies) as server, Transport() as transport:
            provider = kind(base_url=server.url, transport=transport, manners=OPENAI)
            for _ in replies:
                await ask(provider)
            return server.connections, len(server.requests)

    assert asyncio.run(main()) == (1, 3)


@both
def test_a_broken_prefix_is_told_before_the_reply(kind: Kind) -> None:
    async def main() -> list[Item]:
        async with ModelServer([Say.of("one"), Say.of("two")]) as server, Transport() as transport:
            provider = kind(base_url=server.url, transport=transport, manners=OPENAI)
            await ask(provider)
            return await ask(provider, replace(REQUEST, model="gpt-6"))

    first = asyncio.run(main())[0]
    assert isinstance(first, PrefixBreak)
    assert "gpt-6" in first.why


# --- usage --------------------------------------------------------------------------------------


@pytest.mark.covers("E-14")
@both
def test_usage_is_in_classes_that_do_not_overlap(kind: Kind) -> None:
    usage = Usage(input=10, cache_write=50, cache_read=300, output=9)
    asked = Asked(kind, Say.of("ok", usage=usage))
    assert asked.ended.usage == usage


@both
def test_what_nobody_says_is_estimated(kind: Kind) -> None:
    picture = User((Image("image/png", "A" * 40_000),))
    talk = Conversation(History([user("x" * 4_000), picture]))
    asked = Asked(kind, Say.of("y" * 300), talk=talk, odd=("no_usage",))
    begun = next(item for item in asked.items if isinstance(item, StreamStarted))
    assert asked.ended.usage == Usage(input=begun.usage.input, output=101, estimated=True)
    assert 1_000 < begun.usage.input < 1_500, "the picture's base64 is not counted as text"


# --- what is tried again ------------------------------------------------------------------------

OVERLOADED = Refuse(529, "overloaded_error", "Overloaded")
RESET = RawReply((b"",))


@pytest.mark.covers("G-17", "G-18", "E-16")
@both
def test_passing_troubles_are_outlasted(kind: Kind) -> None:
    # The reset comes first: on a connection that was kept it would be taken for a close while idle.
    limited = Refuse(429, "rate_limit_error", headers={"retry-after-ms": "1"})
    troubles = [RESET, OVERLOADED, limited, Refuse(500, "api_error"), OVERLOADED, OVERLOADED]
    asked = Asked(kind, *troubles, Say.of("at last"))
    kinds = [wait.failure.kind for wait in asked.waits]
    assert kinds == ["network", "overloaded", "rate_limit", "server", "overloaded", "overloaded"]
    assert [wait.attempt for wait in asked.waits] == [1, 2, 3, 4, 5, 6]
    assert blocks(asked.items) == [Text("at last")]


@pytest.mark.covers("G-18")
@both
def test_after_ten_tries_it_gives_up_with_the_last_failure(kind: Kind) -> None:
    asked = Asked(kind, *[Refuse(500, "api_error", "Internal server error")] * 11)
    assert len(asked.server.requests) == 10
    assert asked.failure is not None
    assert (asked.failure.kind, asked.failure.status) == (Trouble.SERVER, 500)


@pytest.mark.covers("G-21")
@both
def test_an_overloaded_model_is_tried_as_often_as_the_request_says(kind: Kind) -> None:
    asked = Asked(kind, *[OVERLOADED] * 5, request=replace(REQUEST, overload_tries=3))
    assert len(asked.server.requests) == 3
    assert asked.failure is not None
    assert asked.failure.kind is Trouble.OVERLOADED


@pytest.mark.covers("G-22")
@both
def test_a_side_job_does_not_wait_for_an_overloaded_model(kind: Kind) -> None:
    assert len(Asked(kind, *[OVERLOADED] * 5, patience=PATIENCE[RetryProfile.BACKGROUND]).server.requests) == 1


LIMIT = "Rate limit reached for gpt-5.5 on tokens per min (TPM): Limit 10000, Used 8782, Requested 8172."


@pytest.mark.parametrize(
    ("headers", "words", "least"),
    [
        ({"retry-after": "0.05"}, LIMIT, 50),
        ({"retry-after-ms": "60"}, LIMIT, 60),
        ({"x-ratelimit-remaining-requests": "5"}, LIMIT, 1),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "70ms"}, LIMIT, 70),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "0.08"}, LIMIT, 70),
        ({"x-ratelimit-remaining-requests": "5"}, f"{LIMIT} Please try again in 90ms. Visit ...", 90),
    ],
)
@pytest.mark.covers("G-19")
@both
def test_the_server_s_wait_is_honoured(kind: Kind, headers: dict[str, str], words: str, least: int) -> None:
    quiet = {"x-ratelimit-remaining-requests": "5", "x-ratelimit-reset-requests": "1ms"}
    refuse = Refuse(429, "requests", words, {**quiet, **headers}, code="rate_limit_exceeded")
    asked = Asked(kind, refuse, Say.of("ok"))
    assert [least <= wait.delay < least + 30 for wait in asked.waits] == [True]


@both
def test_a_wait_that_is_too_long_is_a_limit_with_its_reset_time(kind: Kind) -> None:
    headers = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "2h0m0s"}
    asked = Asked(kind, Refuse(429, "requests", LIMIT, headers, code="rate_limit_exceeded"))
    assert asked.failure == Failure(Trouble.RATE_LIMIT, f"429: {LIMIT}", 429, round((NOW + 7_200) * 1_000))
    assert len(asked.server.requests) == 1


@both
def test_a_server_that_says_it_is_no_use_is_believed(kind: Kind) -> None:
    asked = Asked(kind, Refuse(500, "api_error", "broken", {"x-should-retry": "false"}))
    assert len(asked.server.requests) == 1


TOO_LONG = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."
TPM = "Request too large for gpt-5.5 on tokens per min (TPM): Limit 30000, Requested 50000."


@pytest.mark.parametrize(
    ("status", "type_", "code", "words", "kind_"),
    [
        (400, "invalid_request_error", "context_length_exceeded", "too many tokens", Trouble.PROMPT_TOO_LONG),
        (400, "invalid_request_error", "null", TOO_LONG, Trouble.PROMPT_TOO_LONG),
        (400, "exceed_context_size_error", "null", "the request exceeds the context size", Trouble.PROMPT_TOO_LONG),
        (413, "", "null", "Request exceeds the maximum size", Trouble.TOO_LARGE),
        (429, "tokens", "rate_limit_exceeded", TPM, Trouble.PROMPT_TOO_LONG),
        (429, "insufficient_quota", "insufficient_quota", "You exceeded your current quota", Trouble.AUTH),
        (402, "", "null", "Insufficient credits", Trouble.AUTH),
        (403, "", "null", "not allowed", Trouble.AUTH),
        (400, "invalid_request_error", "invalid_image", "bad picture", Trouble.MEDIA),
        (500, "server_error", "null", "image input is not supported - hint: mmproj", Trouble.SERVER),
        (500, "", "null", "image input is not supported - hint: mmproj", Trouble.MEDIA),
        (404, "invalid_request_error", "model_not_found", "The model 'x' does not exist", Trouble.INVALID_REQUEST),
        (400, "invalid_request_error", "null", "nonsense", Trouble.INVALID_REQUEST),
    ],
)
@both
def test_refusals_are_classified_once(
    kind: Kind, status: int, type_: str, code: str, words: str, kind_: Trouble
) -> None:
    refuse = Refuse(status, type_, words, code=code)
    asked = Asked(kind, *[refuse] * 2, patience=RetryLimits(tries=1, base=1, cap=1, longest_asked=1))
    assert asked.failure is not None
    assert (asked.failure.kind, asked.failure.status) == (kind_, status)
    assert words in asked.failure.detail
    assert len(asked.server.requests) == 1


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error":"model is required"}', "model is required"),
        (b'{"detail":"Not here"}', "Not here"),
        (b'{"object":"error","message":"No such model","code":404}', "No such model"),
        (b'[{"error":{"code":404,"message":"models/x is not found","status":"NOT_FOUND"}}]', "models/x is not found"),
        (b"<h1>nope</h1>", "<h1>nope</h1>"),
        (b"", "the server gave no reason"),
        (b"{}", "the server gave no reason"),
    ],
)
@both
def test_errors_are_found_wherever_a_server_puts_them(kind: Kind, body: bytes, words: str) -> None:
    page = b"HTTP/1.1 404 Not Found\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    failure = Asked(kind, RawReply((page,))).failure
    hint = " (check the model's name and the address)"
    assert failure == Failure(Trouble.INVALID_REQUEST, f"404: {words}{hint}", 404)


# --- keys ---------------------------------------------------------------------------------------


@both
def test_a_refused_key_is_refreshed_once(kind: Kind) -> None:
    async def fresh() -> str:
        return "new"

    asked = Asked(kind, Say.of("ok"), key=ApiKey("old", "authorization", fresh), api_key="new")
    assert isinstance(asked.items[-1], StreamEnded)
    sent = [received.headers["authorization"] for received in asked.server.requests]
    assert sent == ["Bearer old", "Bearer new"]


@both
def test_a_key_that_stays_refused_is_a_clear_error(kind: Kind) -> None:
    asked = Asked(kind, key="wrong", api_key="right")
    assert asked.failure is not None
    assert asked.failure.kind is Trouble.AUTH
    assert asked.failure.detail.endswith(" (the key was refused: give another one)")
    assert len(asked.server.requests) == 1


WAYS_OUT = UserRemedies("refused: look here", "none was sent: look here", "not here: look here", "Look here")


@pytest.mark.parametrize(
    ("key", "replies", "end"),
    [
        ("wrong", (), " (refused: look here)"),
        ("", (), " (none was sent: look here)"),
        ("right", (Refuse(404, "not_found_error", "no such model"),), ": no such model (not here: look here)"),
        ("right", (RawReply((b"",)),), ". Look here"),
    ],
    ids=["a wrong key", "no key", "no such model", "nobody there"],
)
@pytest.mark.parametrize("kind", [OpenAIChat, OpenAIResponses, Anthropic], ids=["chat", "responses", "anthropic"])
def test_what_only_the_user_can_mend_is_told_in_words_of_whoever_made_the_provider(
    kind: Any, key: str, replies: tuple[Any, ...], end: str
) -> None:
    once = replace(QUICK, tries=1)

    async def main() -> Failure:
        async with ModelServer(replies, api_key="right") as server, Transport() as transport:
            provider = kind(key, base_url=server.url, transport=transport, patience=once, ways_out=WAYS_OUT)
            with pytest.raises(ProviderError) as told:
                await ask(provider)
            return told.value.failure

    assert asyncio.run(main()).detail.endswith(end)


# --- what a server does not know, and what we can change ----------------------------------------


def refused(words: str, param: str = "") -> Refuse:
    return Refuse(400, "invalid_request_error", words, code="unsupported_parameter", param=param)


OTHER_CAP = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."


@pytest.mark.parametrize(
    ("complaint", "before", "after"),
    [
        (refused(OTHER_CAP, "max_tokens"), {"max_tokens": 1_000}, {"max_completion_tokens": 1_000}),
        (refused(OTHER_CAP), {"max_tokens": 1_000}, {"max_completion_tokens": 1_000}),
        (refused('json: unknown field "stream_options"'), {"stream_options": {"include_usage": True}}, {}),
        (refused("Unrecognized request argument supplied: reasoning_effort"), {"reasoning_effort": "xhigh"}, {}),
        (
            refused("Unsupported value: 'reasoning_effort' does not support 'xhigh' with this model."),
            {"reasoning_effort": "xhigh"},
            {"reasoning_effort": "high"},
        ),
    ],
)
def test_a_chat_setting_that_a_server_refuses_is_left_out(complaint: Refuse, before: Any, after: Any) -> None:
    request = replace(REQUEST, model="some-model", effort=Effort.MAX)
    asked = Asked(OpenAIChat, complaint, Say.of("ok"), request=request, manners=PLAIN)
    first, second = [received.body for received in asked.server.requests]
    assert {name: value for name, value in first.items() if name not in second or second[name] != value} == before
    assert {name: value for name, value in second.items() if name not in first or first[name] != value} == after
    assert [wait.failure.detail for wait in asked.waits] == [f"400: {complaint.message}"]
    assert blocks(asked.items) == [Text("ok")]


@pytest.mark.parametrize(
    ("complaint", "gone"),
    [
        (refused("Encrypted content is not supported with this model."), "include"),
        (
            refused("Your organization must be verified to generate reasoning summaries.", "reasoning.summary"),
            "reasoning",
        ),
        (refused("Unknown parameter: 'store'.", "store"), "store"),
        (refused("Unsupported parameter: max_output_tokens"), "max_output_tokens"),
    ],
)
def test_a_response_setting_that_a_server_refuses_is_left_out(complaint: Refuse, gone: str) -> None:
    asked = Asked(OpenAIResponses, complaint, Say.of("ok"))
    first, second = [received.body for received in asked.server.requests]
    assert first.keys() - second.keys() == {gone}
    assert blocks(asked.items) == [Text("ok")]


def test_what_was_refused_once_is_left_out_from_then_on() -> None:
    async def main() -> list[bool]:
        replies: list[Any] = [refused('unknown field "stream_options"'), Say.of("one"), Say.of("two")]
        async with ModelServer(replies) as server, Transport() as transport:
            provider = OpenAIChat(base_url=server.url, transport=transport, manners=OPENAI)
            await ask(provider)
            await ask(provider)
            return ["stream_options" in received.body for received in server.requests]

    assert asyncio.run(main()) == [True, False, False]


@both
def test_the_same_complaint_again_is_the_end(kind: Kind) -> None:
    asked = Asked(kind, *[refused("Unsupported parameter: 'reasoning' is unknown; so is 'stream_options'.")] * 9)
    assert asked.failure is not None
    assert asked.failure.kind is Trouble.INVALID_REQUEST
    assert len(asked.server.requests) <= 5


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (OpenAIResponses, "The encrypted content for item rs_9 could not be verified."),
        (OpenAIChat, "Missing `reasoning_content` field in the assistant message"),
    ],
)
def test_each_cure_is_tried_once(kind: Kind, words: str) -> None:
    asked = Asked(kind, *[Refuse(400, "invalid_request_error", words, code="null")] * 9)
    assert asked.failure is not None
    assert len(asked.server.requests) == 2


def test_a_400_about_nothing_that_we_can_change_is_not_repeated() -> None:
    asked = Asked(OpenAIChat, refused("Invalid 'messages[0].content': nonsense", "messages[0].content"))
    assert asked.failure is not None
    assert len(asked.server.requests) == 1


@pytest.mark.covers("E-08")
def test_reasoning_that_the_server_cannot_read_is_dropped_once_and_for_all() -> None:
    stale = Thinking("hm", "rs_9 sig:gpt-5.5:9")
    talk = Conversation(History([user("go"), Assistant((stale, Text("So.")), "gpt-5.5", id="a1"), user("on")]))
    words = "The encrypted content for item rs_9 could not be verified."
    refuse = Refuse(400, "invalid_request_error", words, code="invalid_encrypted_content")
    asked = Asked(OpenAIResponses, refuse, Say.of("ok"), talk=talk)
    sent = [[item["type"] for item in received.body["input"]] for received in asked.server.requests]
    assert sent == [["message", "reasoning", "message", "message"], ["message", "message", "message"]]
    assert [wait.failure.detail for wait in asked.waits] == [f"400: {words}"]


def test_a_server_that_wants_what_was_thought_is_given_it() -> None:
    thought = Assistant((Thinking("hm", "reasoning_content"), ToolCall("t1", "Read", {})), "deepseek", id="a1")
    talk = Conversation(History([user("go"), thought, result("t1", "done")]))
    complaint = Refuse(400, "invalid_request_error", "Missing `reasoning_content` field in the assistant message")
    asked = Asked(
        OpenAIChat,
        complaint,
        Say.of("ok"),
        talk=talk,
        request=replace(REQUEST, model="deepseek"),
        manners=PLAIN,
        odd=("reasoning_content",),
    )
    sent = [received.body["messages"][1].get("reasoning_content") for received in asked.server.requests]
    assert sent == [None, "hm"]


# --- streams that break, and aborts -------------------------------------------------------------

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-type: text/event-stream\r\n\r\n"


def sse(*events: str) -> bytes:
    data = "".join(f"data: {event}\n\n" for event in events).encode()
    return b"%x\r\n%s\r\n" % (len(data), data)


BEGUN: dict[Kind, bytes] = {
    OpenAIChat: sse('{"choices":[{"index":0,"delta":{"role":"assistant","content":"half an"},"finish_reason":null}]}'),
    OpenAIResponses: sse(
        '{"type":"response.created","response":{}}',
        '{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"msg_1"}}',
        '{"type":"response.output_text.delta","output_index":0,"delta":"half an"}',
    ),
}


@pytest.mark.parametrize("ending", [b"", b"0\r\n\r\n", sse("{broken")], ids=["cut", "orderly but early", "malformed"])
@both
def test_a_stream_without_its_end_is_never_an_answer_and_is_not_retried_below(kind: Kind, ending: bytes) -> None:
    asked = Asked(kind, RawReply((HEAD + BEGUN[kind], ending), pace_ms=20), Say.of("never asked for"))
    assert asked.failure is not None
    assert asked.failure.kind in (Trouble.NETWORK, Trouble.SERVER)
    assert len(asked.server.requests) == 1


REST: dict[Kind, bytes] = {
    OpenAIChat: sse('{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}', "[DONE]"),
    OpenAIResponses: sse('{"type":"response.completed","response":{"status":"completed"}}'),
}


@both
def test_an_event_that_cannot_be_read_is_the_end_whatever_follows(kind: Kind) -> None:
    asked = Asked(kind, RawReply((HEAD + BEGUN[kind] + sse("{broken"), REST[kind]), pace_ms=20))
    assert asked.failure is not None
    assert "cannot be read" in asked.failure.detail


@pytest.mark.parametrize("ending", [b"", b"0\r\n\r\n"], ids=["cut", "no [DONE]"])
def test_a_chat_is_whole_when_it_has_said_why_it_stopped(ending: bytes) -> None:
    stopped = sse('{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}')
    asked = Asked(OpenAIChat, RawReply((HEAD + BEGUN[OpenAIChat] + stopped, ending), pace_ms=20))
    assert blocks(asked.items) == [Text("half an")]
    assert asked.ended.usage.output > 0


def test_a_server_that_never_ends_its_stream_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.providers.openai.provider.LAST_WORDS", 0.05)
    stopped = sse('{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}')
    begun_at = time.monotonic()
    asked = Asked(OpenAIChat, RawStream((HEAD + BEGUN[OpenAIChat] + stopped,), end="hang", head=False))
    assert blocks(asked.items) == [Text("half an")]
    assert time.monotonic() - begun_at < 10, "the usual limit for silence is minutes"


@both
def test_silence_in_mid_stream_is_noticed_by_the_watchdog(kind: Kind) -> None:
    stalled = RawReply((HEAD + BEGUN[kind], BEGUN[kind]), pace_ms=400)
    asked = Asked(kind, stalled, deadlines=Deadlines(connect=5, headers=5, idle=0.05))
    assert asked.failure is not None
    assert asked.failure.kind is Trouble.NETWORK
    assert "silent" in asked.failure.detail


@both
def test_a_reply_that_broke_off_makes_the_next_request_wait(kind: Kind) -> None:
    async def main() -> list[Item]:
        replies: list[Any] = [RawReply((HEAD + BEGUN[kind],)), Say.of("ok")]
        async with ModelServer(replies) as server, Transport() as transport:
            provider = kind(base_url=server.url, transport=transport, patience=QUICK, manners=OPENAI)
            with pytest.raises(ProviderError):
                await ask(provider)
            return await ask(provider)

    assert isinstance(asyncio.run(main())[0], Retry)


async def seconds_to_abort(provider: OpenAI, *, after: type[Item]) -> float:
    """How long a stream takes to end when it is cancelled, once an item of a kind was seen."""
    seen = asyncio.Event()

    async def listen() -> None:
        async with aclosing(provider.stream(REQUEST, GO)) as stream:
            async for batch in stream:
                if any(isinstance(item, after) for item in batch):
                    seen.set()

    listening = asyncio.get_running_loop().create_task(listen())
    await seen.wait()
    cancelled_at = time.monotonic()
    listening.cancel()
    await asyncio.wait({listening})
    assert listening.cancelled()
    return time.monotonic() - cancelled_at


@pytest.mark.covers("J-07")
@both
def test_every_wait_ends_within_50_ms_of_an_abort(kind: Kind) -> None:
    async def main() -> float:
        took: list[float] = []
        later = Refuse(429, "rate_limit_error", "later", {"retry-after": "60"})
        async with ModelServer([later]) as server, Transport() as transport:
            provider = kind(base_url=server.url, transport=transport, manners=OPENAI)
            took.append(await seconds_to_abort(provider, after=Retry))
        async with ModelServer([Say.of("a long answer " * 100, pace_ms=20)]) as server, Transport() as transport:
            provider = kind(base_url=server.url, transport=transport, manners=OPENAI)
            took.append(await seconds_to_abort(provider, after=BlockDelta))
            aborted_at = time.monotonic()
            await server.until(lambda: server.aborted == 1)
            took.append(time.monotonic() - aborted_at)
        return max(took)

    assert quickest(lambda: asyncio.run(main()), 0.05) < 0.05


# --- a tool loop over the wire, and a switch in the middle of it ---------------------------------

CALL = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "a.py"}}
THINKS = Say(({"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Let me look."}, CALL))


@both
def test_what_the_model_said_comes_back_to_it_word_for_word(kind: Kind) -> None:
    async def main() -> Any:
        async with ModelServer([THINKS, Say.of("Done.")]) as server, Transport() as transport:
            provider = kind(base_url=server.url, transport=transport, manners=OPENAI)
            items = await ask(provider)
            reply = Assistant(tuple(blocks(items)), "gpt-5.5", id="a1")
            image = ToolResult("toolu_1", (Text("contents"), Image("image/png", PNG)), id="r1")
            history: list[Message] = [user("go"), reply, image]
            await ask(provider, REQUEST, Conversation(History(history)))
            assert server.violations == []
            return server.requests[1].body

    body = asyncio.run(main())
    picture = f"data:image/png;base64,{PNG}"
    arguments = '{"file_path":"a.py"}'
    if kind is OpenAIChat:
        call = {"id": "toolu_1", "type": "function", "function": {"name": "Read", "arguments": arguments}}
        note = "[An image or document of this result is shown in the message that follows.]"
        assert body["messages"][1:] == [
            {"role": "assistant", "content": "Let me look.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "toolu_1", "content": f"contents\n{note}"},
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": picture}}]},
        ]
    else:
        reasoning, text, call, answer = body["input"][1:]
        assert reasoning["id"].startswith("rs_")
        assert reasoning["summary"] == [{"type": "summary_text", "text": "hm"}]
        assert reasoning["encrypted_content"].startswith("sig:gpt-5.5:")
        assert text == {"type": "message", "role": "assistant", "content": "Let me look."}
        assert call == {"type": "function_call", "call_id": "toolu_1", "name": "Read", "arguments": arguments}
        shown = [{"type": "input_text", "text": "contents"}, {"type": "input_image", "image_url": picture}]
        assert answer == {"type": "function_call_output", "call_id": "toolu_1", "output": shown}


def test_a_session_may_change_the_protocol_at_every_turn() -> None:
    """One history, three protocols in turns, one server that judges each request by the rules of its protocol."""

    async def main() -> int:
        turns = 9
        replies = [Say((*THINKS.blocks[:2], {**CALL, "id": f"toolu_{number}"})) for number in range(turns)]
        async with ModelServer(replies) as server, Transport() as transport:
            providers: list[tuple[Provider, str]] = [
                (Anthropic(base_url=server.url, transport=transport), "claude-sonnet-5-5"),
                (OpenAIResponses(base_url=server.url, transport=transport, manners=OPENAI), "gpt-5.5"),
                (OpenAIChat(base_url=server.url, transport=transport, manners=OPENAI), "gpt-6"),
            ]
            history = History([user("go")])
            for number in range(turns):
                provider, model = providers[number % 3]
                request = replace(REQUEST, model=model, adaptive=model.startswith("claude"))
                items = await ask(provider, request, Conversation(history, (), ("Be brief.",), TOOLS))
                reply = Assistant(tuple(blocks(items)), model, id=f"a{number}")
                assert reply.text == "Let me look."
                history = history.append(reply, replace(result(reply.calls[0].id, "contents"), id=f"r{number}"))
            assert server.violations == []
            return len(server.requests)

    assert asyncio.run(main()) == 9
