"""The Anthropic provider against a server on a real socket, which judges every request."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import Any

import pytest
from msgspec.structs import replace

from mainspring.core.config import Effort
from mainspring.core.effects import AnnouncedBudget, Request
from mainspring.core.errors import ProviderError
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Message, Text, Thinking, ToolCall, result, user
from mainspring.core.reasons import Failure, Trouble
from mainspring.providers.anthropic.provider import Anthropic, Key, ServerSideClearing
from mainspring.providers.base import (
    BlockDelta,
    BlockFinished,
    Conversation,
    Item,
    PrefixBreak,
    Provider,
    ResultsCleared,
    Retry,
    StreamEnded,
)
from mainspring.providers.http.client import Deadlines, Transport
from mainspring.providers.retry import PATIENCE, RetryLimits, RetryProfile, plan_countdown
from mainspring.providers.scripted import ScriptedReply
from mainspring.simulator.replies import RawReply, Refuse, Say
from mainspring.simulator.server import ModelServer
from mainspring.testing.conformance import ProviderConformance
from wire.scripted_server import Served
from wire.servers import quickest

QUICK = replace(PATIENCE[RetryProfile.FOREGROUND], base=1, cap=1)
REQUEST = Request("claude-sonnet-5-5", 1_000, 1, "sdk", "", 0, overload_tries=10, adaptive=True)
GO = Conversation(History([user("go")]))
NOW = 1_800_000_000.0


class TestConformance(ProviderConformance):
    def provider(self, replies: list[ScriptedReply]) -> Provider:
        return Served(replies)


async def ask(provider: Provider, request: Request = REQUEST, talk: Conversation = GO) -> list[Item]:
    got: list[Item] = []
    async with aclosing(provider.stream(request, talk)) as stream:
        async for batch in stream:
            got.extend(batch)
    return got


class Asked:
    """What came of asking a server with these replies, once."""

    def __init__(self, *replies: Any, key: Key | str = "", **settings: Any) -> None:
        self.items: list[Item] = []
        self.failure: Failure | None = None
        self.request = settings.pop("request", REQUEST)
        self.talk = settings.pop("talk", GO)
        self.server = ModelServer(replies, api_key=settings.pop("api_key", None))
        asyncio.run(self._ask(key, settings))

    async def _ask(self, key: Key | str, settings: dict[str, Any]) -> None:
        async with self.server as server, Transport(deadlines=settings.pop("deadlines", None)) as transport:
            settings.setdefault("patience", QUICK)
            provider = Anthropic(key, base_url=server.url, transport=transport, now=lambda: NOW, **settings)
            try:
                self.items = await ask(provider, self.request, self.talk)
            except ProviderError as error:
                self.failure = error.failure
        assert self.server.violations == []

    @property
    def waits(self) -> list[Retry]:
        return [item for item in self.items if isinstance(item, Retry)]

    @property
    def body(self) -> Any:
        return self.server.requests[-1].body


# --- what is sent -------------------------------------------------------------------------------


def test_thinking_effort_task_budget_and_betas_go_with_the_request() -> None:
    request = replace(REQUEST, effort=Effort.XHIGH, task_budget=AnnouncedBudget(50_000, 20_000))
    asked = Asked(Say.of("ok"), request=request, betas=("context-1m-2025-08-07",), thinking_display="summarized")
    assert asked.body["thinking"] == {"type": "adaptive", "display": "summarized"}
    budget = {"type": "tokens", "total": 50_000, "remaining": 20_000}
    assert asked.body["output_config"] == {"effort": "xhigh", "task_budget": budget}
    headers = asked.server.requests[0].headers
    assert headers["anthropic-beta"] == "context-1m-2025-08-07,task-budgets-2026-03-13"
    assert headers["user-agent"].startswith("mainspring/")


@pytest.mark.covers("D-14")
def test_the_service_is_asked_to_clear_and_says_what_it_cleared() -> None:
    asked = Asked(
        Say.of("ok", cleared=(8, 50_000)), clearing=ServerSideClearing(90_000, 4, 10_000), betas=("mine-2026-01-01",)
    )
    [edit] = asked.body["context_management"]["edits"]
    assert edit == {
        "type": "clear_tool_uses_20250919",
        "trigger": {"type": "input_tokens", "value": 90_000},
        "keep": {"type": "tool_uses", "value": 4},
        "clear_at_least": {"type": "input_tokens", "value": 10_000},
    }
    assert asked.server.requests[0].headers["anthropic-beta"] == "mine-2026-01-01,context-management-2025-06-27"
    assert [item for item in asked.items if isinstance(item, ResultsCleared)] == [ResultsCleared(50_000, 8)]
    assert isinstance(asked.items[-1], StreamEnded)


@pytest.mark.covers("D-14")
@pytest.mark.parametrize("source", ["sdk", "compact", "collapse", "search"])
def test_nobody_asks_the_service_to_clear_when_it_is_off_or_beside_the_conversation(source: str) -> None:
    clearing = None if source == "sdk" else ServerSideClearing()
    asked = Asked(Say.of("ok"), request=replace(REQUEST, source=source), clearing=clearing)
    assert "context_management" not in asked.body
    assert "anthropic-beta" not in asked.server.requests[0].headers
    assert not any(isinstance(item, ResultsCleared) for item in asked.items)


def test_tokens_are_counted_as_the_service_would_clear_them() -> None:
    async def main() -> Any:
        async with ModelServer() as server, Transport() as transport:
            await Anthropic(base_url=server.url, transport=transport, clearing=ServerSideClearing()).count_tokens(
                REQUEST, GO
            )
            assert server.violations == []
            return server.requests[0].body

    assert asyncio.run(main())["context_management"] == {"edits": [ServerSideClearing().edit]}


@pytest.mark.covers("K-06")
def test_a_model_without_adaptive_thinking_gets_a_budget() -> None:
    request = Request("claude-haiku-4-5", 20_000, 1, "sdk", "", 0, overload_tries=1, thinking=8_000)
    asked = Asked(Say.of("ok"), request=replace(request, effort=Effort.HIGH))
    assert asked.body["thinking"] == {"type": "enabled", "budget_tokens": 8_000}
    assert "output_config" not in asked.body, "this model knows no effort"
    assert "interleaved-thinking" in asked.server.requests[0].headers["anthropic-beta"]


@pytest.mark.parametrize(
    ("model", "setting"),
    [
        ("claude-sonnet-5", {"type": "disabled"}),
        ("claude-fable-5-1", {"type": "adaptive"}),
        ("claude-sonnet-5-5", {"type": "between_tools"}),
        ("claude-haiku-4-5", None),
        ("some-local-model", None),
    ],
)
def test_thinking_is_switched_off_as_far_as_the_model_allows(model: str, setting: Any) -> None:
    request = replace(REQUEST, model=model, adaptive=False, effort=Effort.MAX)
    asked = Asked(Say.of("ok"), request=request)
    assert asked.body.get("thinking") == setting


def test_the_key_goes_into_the_header_that_it_is_for() -> None:
    assert Asked(Say.of("ok"), key="k1", api_key="k1").server.requests[0].headers["x-api-key"] == "k1"
    bearer = Asked(Say.of("ok"), key=Key("t1", "authorization"), api_key="t1")
    assert bearer.server.requests[0].headers["authorization"] == "Bearer t1"


def test_tokens_are_counted_by_the_server() -> None:
    async def main() -> int:
        async with ModelServer() as server, Transport() as transport:
            provider = Anthropic(base_url=server.url, transport=transport)
            count = await provider.count_tokens(REQUEST, GO)
            assert server.violations == []
            return count

    assert asyncio.run(main()) > 10


def test_the_turns_of_a_session_share_one_connection() -> None:
    async def main() -> tuple[int, int]:
        replies = [Say.of("one"), Say.of("two"), Say.of("three")]
        async with ModelServer(replies) as server, Transport() as transport:
            provider = Anthropic(base_url=server.url, transport=transport)
            for _ in replies:
                await ask(provider)
            return server.connections, len(server.requests)

    assert asyncio.run(main()) == (1, 3)


def test_a_broken_prefix_is_told_before_the_reply() -> None:
    async def main() -> list[Item]:
        async with ModelServer([Say.of("one"), Say.of("two")]) as server, Transport() as transport:
            provider = Anthropic(base_url=server.url, transport=transport)
            await ask(provider)
            return await ask(provider, replace(REQUEST, model="claude-opus-5-5"))

    first = asyncio.run(main())[0]
    assert isinstance(first, PrefixBreak)
    assert "claude-opus-5-5" in first.why


# --- what is tried again ------------------------------------------------------------------------

OVERLOADED = Refuse(529, "overloaded_error", "Overloaded")
RESET = RawReply((b"",))


@pytest.mark.covers("G-17", "G-18", "E-16")
def test_passing_troubles_are_outlasted() -> None:
    # The reset comes first: on a connection that was kept it would be taken for a close while idle.
    troubles = [RESET, OVERLOADED, Refuse(429, "rate_limit_error"), Refuse(500, "api_error"), OVERLOADED, OVERLOADED]
    asked = Asked(*troubles, Say.of("at last"))
    assert isinstance(asked.items[-1], StreamEnded)
    kinds = [wait.failure.kind for wait in asked.waits]
    assert kinds == ["network", "overloaded", "rate_limit", "server", "overloaded", "overloaded"]
    assert [wait.attempt for wait in asked.waits] == [1, 2, 3, 4, 5, 6]


@pytest.mark.covers("G-18")
def test_after_ten_tries_it_gives_up_with_the_last_failure() -> None:
    asked = Asked(*[Refuse(500, "api_error", "Internal server error")] * 11)
    assert len(asked.server.requests) == 10
    assert asked.failure == Failure(Trouble.SERVER, "500: Internal server error", 500)


@pytest.mark.covers("G-21")
def test_an_overloaded_model_is_tried_as_often_as_the_request_says() -> None:
    asked = Asked(*[OVERLOADED] * 5, request=replace(REQUEST, overload_tries=3))
    assert len(asked.server.requests) == 3
    assert asked.failure is not None
    assert asked.failure.kind is Trouble.OVERLOADED


@pytest.mark.covers("G-22")
def test_a_side_job_does_not_wait_for_an_overloaded_model() -> None:
    asked = Asked(*[OVERLOADED] * 5, patience=PATIENCE[RetryProfile.BACKGROUND])
    assert len(asked.server.requests) == 1


@pytest.mark.parametrize(
    ("headers", "least"),
    [({"retry-after": "0.05"}, 50), ({"retry-after-ms": "60"}, 60), ({"retry-after": "0"}, 1), ({}, 1)],
)
@pytest.mark.covers("G-19")
def test_the_servers_wait_is_honoured_and_never_below_our_own(headers: dict[str, str], least: int) -> None:
    asked = Asked(Refuse(429, "rate_limit_error", "slow down", headers), Say.of("ok"))
    assert [wait.delay >= least for wait in asked.waits] == [True]


def test_retry_after_may_be_a_date() -> None:
    dated = {"retry-after": "Fri, 15 Jan 2027 08:00:00 GMT"}  # which is NOW
    asked = Asked(Refuse(429, "rate_limit_error", "slow down", dated), Say.of("ok"))
    assert [wait.delay for wait in asked.waits] in ([1], [2])


def test_a_wait_that_is_too_long_is_a_limit_with_its_reset_time() -> None:
    asked = Asked(Refuse(429, "rate_limit_error", "5-hour limit", {"retry-after": "7200"}))
    assert asked.failure == Failure(Trouble.RATE_LIMIT, "429: 5-hour limit", 429, round((NOW + 7_200) * 1_000))
    assert len(asked.server.requests) == 1


@pytest.mark.parametrize(
    ("headers", "resets_at"),
    [
        ({"anthropic-ratelimit-unified-reset": "1800003600"}, 1_800_003_600_000),
        (
            {
                "anthropic-ratelimit-tokens-remaining": "0",
                "anthropic-ratelimit-tokens-reset": "2027-01-15T08:30:00Z",
                "anthropic-ratelimit-requests-remaining": "5",
                "anthropic-ratelimit-requests-reset": "2027-01-15T09:30:00Z",
            },
            1_800_001_800_000,
        ),
        ({"anthropic-ratelimit-unified-reset": "nan"}, None),
    ],
)
def test_the_reset_time_of_a_limit_is_read_from_what_the_server_says(headers: Any, resets_at: int | None) -> None:
    never = RetryLimits(tries=1, base=1, cap=1, longest_asked=1)
    asked = Asked(Refuse(429, "rate_limit_error", "limit", headers), patience=never)
    assert asked.failure is not None
    assert asked.failure.resets_at == resets_at


def test_a_server_that_says_it_is_no_use_is_believed() -> None:
    asked = Asked(Refuse(500, "api_error", "broken", {"x-should-retry": "false"}))
    assert len(asked.server.requests) == 1


def test_a_400_is_not_repeated() -> None:
    asked = Asked(Refuse(400, "invalid_request_error", "nonsense"))
    assert asked.failure == Failure(Trouble.INVALID_REQUEST, "400: nonsense", 400)
    assert len(asked.server.requests) == 1


@pytest.mark.parametrize(
    ("status", "words", "kind"),
    [
        (400, "prompt is too long: 210000 tokens > 200000 maximum", Trouble.PROMPT_TOO_LONG),
        (413, "Request exceeds the maximum size", Trouble.TOO_LARGE),
        (400, "messages.0.content.1.image: image exceeds 5 MB maximum", Trouble.MEDIA),
        (404, "model: no-such-model", Trouble.INVALID_REQUEST),
        (403, "not allowed", Trouble.AUTH),
    ],
)
def test_refusals_are_classified_once(status: int, words: str, kind: Trouble) -> None:
    failure = Asked(Refuse(status, "", words)).failure
    assert failure is not None
    assert (failure.kind, failure.status) == (kind, status)
    assert words in failure.detail


def test_a_refusal_that_is_no_json_is_repeated_in_its_own_words() -> None:
    page = b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 12\r\n\r\n<h1>nope</h1>"[:-1]
    failure = Asked(RawReply((page,)), patience=replace(QUICK, tries=1)).failure
    assert failure == Failure(Trouble.SERVER, "502: <h1>nope</h1", 502)


# --- keys ---------------------------------------------------------------------------------------


def test_a_refused_key_is_refreshed_once() -> None:
    async def fresh() -> str:
        return "new"

    asked = Asked(Say.of("ok"), key=Key("old", refresh=fresh), api_key="new")
    assert isinstance(asked.items[-1], StreamEnded)
    assert [received.headers["x-api-key"] for received in asked.server.requests] == ["old", "new"]


@pytest.mark.parametrize("new", ["old", "", "also wrong"])
def test_a_key_that_stays_refused_is_a_clear_error(new: str) -> None:
    async def refresh() -> str:
        return new

    asked = Asked(key=Key("old", refresh=refresh), api_key="right")
    assert asked.failure is not None
    assert asked.failure.kind is Trouble.AUTH
    assert "ANTHROPIC_API_KEY" in asked.failure.detail
    assert len(asked.server.requests) == (2 if new == "also wrong" else 1)


def test_without_a_way_to_refresh_it_is_asked_once() -> None:
    assert len(Asked(key="wrong", api_key="right").server.requests) == 1


# --- signatures that the server does not know ---------------------------------------------------


@pytest.mark.covers("E-08")
def test_a_signature_that_is_refused_is_dropped_once_and_for_all() -> None:
    stale = Thinking("hm", "sig:claude-sonnet-5-5:of-another-account")
    reply = Assistant((stale, Text("So.")), "claude-sonnet-5-5", id="a1")
    talk = Conversation(History([user("go"), reply, user("on")]))
    words = "messages.1.content.0: Invalid `signature` in `thinking` block"
    asked = Asked(Refuse(400, "invalid_request_error", words), Say.of("ok"), talk=talk)
    assert isinstance(asked.items[-1], StreamEnded)
    assert [wait.failure.detail for wait in asked.waits] == [f"400: {words}"]
    sent = [[block["type"] for block in received.body["messages"][1]["content"]] for received in asked.server.requests]
    assert sent == [["thinking", "text"], ["text"]]
    (broken,) = [item for item in asked.items if isinstance(item, PrefixBreak)]
    assert (broken.what, broken.why) == (
        "block 1 of the messages",
        "the server refused a part of it, which was changed",
    )


def test_the_same_complaint_again_is_the_end() -> None:
    words = "messages.1.content.0: Invalid `signature` in `thinking` block"
    asked = Asked(*[Refuse(400, "invalid_request_error", words)] * 2)
    assert asked.failure is not None
    assert len(asked.server.requests) == 2


# --- streams that break, and aborts -------------------------------------------------------------

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-type: text/event-stream\r\n\r\n"


def sse(*events: str) -> bytes:
    data = "".join(f"data: {event}\n\n" for event in events).encode()
    return b"%x\r\n%s\r\n" % (len(data), data)


BEGUN = sse(
    '{"type":"message_start","message":{"usage":{"input_tokens":5}}}',
    '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}',
    '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"half an"}}',
)


@pytest.mark.parametrize("ending", [b"", b"0\r\n\r\n", sse("{broken")], ids=["cut", "orderly but early", "malformed"])
def test_a_stream_without_its_end_is_never_an_answer_and_is_not_retried_below(ending: bytes) -> None:
    asked = Asked(RawReply((HEAD + BEGUN, ending), pace_ms=20), Say.of("never asked for"))
    assert asked.failure is not None
    assert asked.failure.kind in (Trouble.NETWORK, Trouble.SERVER)
    assert len(asked.server.requests) == 1


def test_silence_in_mid_stream_is_noticed_by_the_watchdog() -> None:
    stalled = RawReply((HEAD + BEGUN, BEGUN), pace_ms=400)
    asked = Asked(stalled, deadlines=Deadlines(connect=5, headers=5, idle=0.05))
    assert asked.failure is not None
    assert asked.failure.kind is Trouble.NETWORK
    assert "silent" in asked.failure.detail


async def seconds_to_abort(provider: Anthropic, *, after: type[Item]) -> float:
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
def test_every_wait_ends_within_50_ms_of_an_abort() -> None:
    async def main() -> float:
        took: list[float] = []
        later = Refuse(429, "rate_limit_error", "later", {"retry-after": "60"})
        async with ModelServer([later]) as server, Transport() as transport:
            took.append(await seconds_to_abort(Anthropic(base_url=server.url, transport=transport), after=Retry))
        async with ModelServer([Say.of("a long answer " * 100, pace_ms=20)]) as server, Transport() as transport:
            took.append(await seconds_to_abort(Anthropic(base_url=server.url, transport=transport), after=BlockDelta))
            aborted_at = time.monotonic()
            await server.until(lambda: server.aborted == 1)
            took.append(time.monotonic() - aborted_at)
        return max(took)

    assert quickest(lambda: asyncio.run(main()), 0.05) < 0.05


@pytest.mark.covers("G-24")
def test_long_waits_give_signs_of_life() -> None:
    assert plan_countdown(100_000) == [100_000, 70_000, 40_000, 10_000]


# --- a tool loop over the wire ------------------------------------------------------------------


def test_what_the_model_said_comes_back_to_it_word_for_word() -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "a.py"}}

    async def main() -> list[Any]:
        first = Say((({"type": "thinking", "thinking": "hm"}), {"type": "text", "text": "Let me look."}, call))
        async with ModelServer([first, Say.of("Done.")]) as server, Transport() as transport:
            provider = Anthropic(base_url=server.url, transport=transport)
            items = await ask(provider)
            blocks = tuple([item.block for item in items if isinstance(item, BlockFinished)])
            reply = Assistant(blocks, "claude-sonnet-5-5", id="a1")
            assert isinstance(reply.blocks[2], ToolCall)
            history: list[Message] = [user("go"), reply, result("toolu_1", "contents")]
            await ask(provider, REQUEST, Conversation(History(history)))
            assert server.violations == []
            return list(server.requests[1].body["messages"][1]["content"])

    thinking, text, sent_call = asyncio.run(main())
    assert thinking["thinking"] == "hm"
    assert thinking["signature"].startswith("sig:claude-sonnet-5-5:")
    assert text == {"type": "text", "text": "Let me look."}
    assert sent_call == call
