"""Faults that come several times in a row, and servers that fall silent: exact attempts, exact waits, what is shown.

The real loop and real sockets, on a clock that jumps: two minutes of silence take no time.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace
from tiers import long

from faults.stage import ALONE, USAGE, WITH_FALLBACK, Stage, look, updates_of
from mainspring.core.config import Config
from mainspring.core.effects import Request
from mainspring.core.errors import ProviderError
from mainspring.core.history import History
from mainspring.core.messages import user
from mainspring.core.updates import Failed, Result, Retrying, Update
from mainspring.providers.anthropic.provider import Anthropic
from mainspring.providers.base import Conversation
from mainspring.providers.http.client import LOCAL, REMOTE, Deadlines, Transport, deadlines_for
from mainspring.providers.http.proxy import ProxySettings
from mainspring.providers.openai.provider import OpenAIChat, OpenAIResponses
from mainspring.providers.retry import PATIENCE, RetryLimits, RetryProfile
from mainspring.simulator.faults import FaultPlan, PlannedFault
from mainspring.simulator.protocol import MESSAGES
from mainspring.simulator.replies import Json, RawStream, ReceivedRequest, Reply, ReplyStamp, Say, stream_events
from mainspring.simulator.server import ModelServer
from mainspring.testing.clock import VirtualLoop, virtually

EXACT = replace(PATIENCE[RetryProfile.FOREGROUND], jitter=0.0)
BACKOFF = (500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 32_000, 32_000)  # milliseconds, after each failed attempt
MOST = len(BACKOFF) + 1
TURNS = 3  # of a run that nothing goes wrong with
HEADERS, IDLE = 120_000, 90_000  # milliseconds that a hosted server may be silent,
BARREN = 1_800_000  # and that it may send nothing but pings
PING = b'event: ping\ndata: {"type": "ping"}\n\n'


class Row(NamedTuple):
    """A fault that passes: what the run ends with if it does not, and how long an attempt takes until it is noticed."""

    cause: str
    silent: int = 0
    argument: str = ""
    fault: str = ""

    def planned(self, name: str, times: int | None) -> PlannedFault:
        return PlannedFault(self.fault or name, times, argument=self.argument)


ROWS = {
    # before anything of a reply came: below the loop
    "rate_limited": Row("rate_limit", argument="0.1"),
    "overloaded": Row("overloaded"),
    "server_error": Row("server"),
    "error_at_once": Row("overloaded"),
    "reset": Row("network"),
    "silence": Row("network", HEADERS),
    # from then on the core decides
    "cut_at_start": Row("network"),
    "cut_in_text": Row("network"),
    "cut_in_thinking": Row("network"),
    "cut_in_call": Row("network"),
    "stall_at_start": Row("network", IDLE),
    "stall": Row("network", IDLE),
    "malformed_json": Row("server"),
    "malformed_http": Row("network"),
    "overloaded in mid-stream": Row("overloaded", argument="overloaded_error", fault="error_event"),
    "server error in mid-stream": Row("server", argument="api_error", fault="error_event"),
    "rate limit in mid-stream": Row("rate_limit", argument="rate_limit_error", fault="error_event"),
    "timeout in mid-stream": Row("server", argument="timeout_error", fault="error_event"),
}


class Run(NamedTuple):
    updates: list[Update]
    times: list[int]  # of the requests, in milliseconds
    models: list[str]
    wrong: int

    @property
    def result(self) -> Result:
        last = self.updates[-1]
        assert isinstance(last, Result)
        return last

    @property
    def waits(self) -> list[tuple[int, int, int]]:
        """Attempt, attempts in all, and milliseconds; without the signs of life of a long wait."""
        waits: dict[int, tuple[int, int, int]] = {}
        for update in self.updates:
            if isinstance(update, Retrying):
                waits.setdefault(update.attempt, (update.attempt, update.most, update.delay))
        return list(waits.values())

    @property
    def gaps(self) -> list[int]:
        return [later - earlier for earlier, later in zip(self.times, self.times[1:], strict=False)]


def play(
    *planned: PlannedFault,
    config: Config = ALONE,
    patience: RetryLimits = EXACT,
    deadlines: Deadlines = REMOTE,
    choose: Callable[[ReceivedRequest], Reply] = look,
) -> Run:
    loop = VirtualLoop()

    async def main() -> Run:
        faults = FaultPlan(*planned)
        async with ModelServer(choose=choose, faults=faults, clock=loop.milliseconds) as server:
            async with Transport(deadlines=deadlines) as transport:
                session = Stage(server, patience).session(transport, config, Counter())
                updates = await updates_of(session, "go")
            requests = server.requests
            return Run(
                updates,
                [request.at for request in requests],
                [request.talk.model for request in requests],
                len(server.wrong),
            )

    return virtually(main(), loop)


# --- passing faults, one to twelve times ------------------------------------------------------------------


@pytest.mark.covers("E-16", "G-17", "G-18")
@pytest.mark.parametrize("times", [1, *map(long, range(2, 9)), 9, 10, long(11), long(12)])
@pytest.mark.parametrize("name", ROWS)
def test_a_fault_that_comes_so_often(name: str, times: int) -> None:
    """Nine retries, each after twice the wait; the tenth failure in a row ends the run, and none before."""
    row = ROWS[name]
    run = play(row.planned(name, times))
    failed = min(times, MOST)
    waits = BACKOFF[:failed]
    assert run.waits == [(attempt, MOST, wait) for attempt, wait in enumerate(waits, 1)]
    assert run.gaps[: len(waits)] == [row.silent + wait for wait in waits]
    assert run.wrong == 0
    shown = [update.failure.kind for update in run.updates if isinstance(update, Failed)]
    if times < MOST:
        assert (run.result.terminal, run.result.cause) == ("completed", "end_turn")
        assert len(run.times) == times + TURNS
        assert shown == []
    else:
        assert (run.result.terminal, run.result.cause) == ("model_error", row.cause)
        assert len(run.times) == MOST
        assert shown == [row.cause]


@pytest.mark.covers("G-18")
@pytest.mark.parametrize("retries", [0, long(1), 3, long(12)])
@pytest.mark.parametrize("name", ROWS)
def test_the_limit_that_is_set_is_the_one_in_force_and_the_one_shown(name: str, retries: int) -> None:
    row, most = ROWS[name], retries + 1
    patience = replace(EXACT, tries=most, overload_tries=most, near_tries=most)
    run = play(row.planned(name, None), config=replace(ALONE, max_retries=retries), patience=patience)
    assert len(run.times) == most
    assert [(attempt, of) for attempt, of, _ in run.waits] == [(n, most) for n in range(1, most)]
    assert run.result.cause == row.cause


@pytest.mark.parametrize(("order", "good"), [((3, 3, 2), True), ((2, 5, 2), True), ((4, 3, 3), False)])
def test_faults_of_several_kinds_share_one_count(order: tuple[int, int, int], good: bool) -> None:
    """Cut in the text, refused before the first byte, cut in thinking: what is shown goes on from one to the next."""
    names = ("cut_in_text", "server_error", "cut_in_thinking")
    run = play(*[PlannedFault(name, times) for name, times in zip(names, order, strict=True)])
    failed = sum(order)
    assert run.waits == [(n, MOST, wait) for n, wait in enumerate(BACKOFF[:failed], 1)]
    assert len(run.times) == (failed + TURNS if good else MOST)
    assert (run.result.cause == "end_turn") is good


@pytest.mark.covers("E-05", "G-21")
def test_with_a_fallback_overload_in_mid_stream_is_given_three_attempts_too() -> None:
    run = play(PlannedFault("error_event", None, argument="overloaded_error"), config=WITH_FALLBACK)
    first, second = ALONE.model.name, WITH_FALLBACK.fallbacks[0].name
    assert run.models == [first] * 3 + [second] * MOST
    assert [(update.attempt, update.most) for update in run.updates if isinstance(update, Retrying)][:2] == [
        (1, 3),
        (2, 3),
    ]
    assert run.result.cause == "overloaded"


def test_after_a_turn_all_attempts_are_there_again() -> None:
    """Nine cuts at each of the three turns."""
    planned = [
        PlannedFault("cut_in_text", 9),
        PlannedFault("cut_in_text", 9, after=10),
        PlannedFault("cut_in_text", 9, after=20),
    ]
    run = play(*planned)
    assert run.result.cause == "end_turn"
    assert len(run.times) == 30


# --- faults that do not pass ------------------------------------------------------------------------------


@pytest.mark.covers("E-12")
@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        ("invalid_request_error", "invalid_request"),
        ("authentication_error", "auth"),
        ("permission_error", "auth"),
        ("billing_error", "auth"),
        ("not_found_error", "invalid_request"),
    ],
)
@pytest.mark.parametrize("fault", ["error_event", "error_at_once"])
@pytest.mark.parametrize("config", [ALONE, WITH_FALLBACK], ids=["alone", "with a fallback"])
def test_an_error_event_that_does_not_pass_is_not_asked_again(
    fault: str, kind: str, cause: str, config: Config
) -> None:
    run = play(PlannedFault(fault, None, argument=kind), config=config)
    assert (len(run.times), run.waits) == (1, [])
    assert (run.result.terminal, run.result.cause) == ("model_error", cause)


# --- refused connections ----------------------------------------------------------------------------------


def refused(patience: RetryLimits) -> tuple[list[tuple[int, int]], str]:
    async def main() -> tuple[list[tuple[int, int]], str]:
        async with ModelServer(choose=look) as server:
            stage = Stage(server, patience)
        async with Transport(deadlines=REMOTE) as transport:  # nobody listens there any more
            updates = await updates_of(stage.session(transport, ALONE, Counter()), "go")
        last = updates[-1]
        assert isinstance(last, Result)
        told = {(update.attempt, update.most): 0 for update in updates if isinstance(update, Retrying)}
        return list(told), last.cause

    return virtually(main())


def test_a_server_nearby_that_is_not_there_is_tried_as_often_as_is_shown() -> None:
    """It starts within seconds, or not at all: four attempts, and "of 4". Who sets a limit gets that one."""
    assert refused(EXACT) == ([(1, 4), (2, 4), (3, 4)], "network")
    assert refused(replace(EXACT, near_tries=10)) == ([(n, 10) for n in range(1, 10)], "network")


# --- silences ---------------------------------------------------------------------------------------------


@pytest.mark.covers("E-15")
def test_how_long_a_server_may_be_silent() -> None:
    hosted = deadlines_for("https://api.anthropic.com/v1/messages")
    assert (hosted.headers, hosted.idle) == (HEADERS / 1_000, IDLE / 1_000)
    for near in ("http://127.0.0.1:11434/v1", "http://192.168.0.7/v1", "http://[::1]:8080/v1", "http://gpu.local/v1"):
        assert deadlines_for(near) == LOCAL
    assert LOCAL.headers > hosted.headers
    assert LOCAL.idle > hosted.idle


@pytest.mark.parametrize(("name", "silent"), [("silence", LOCAL.headers), ("stall", LOCAL.idle)])
def test_a_local_server_is_waited_for_longer(name: str, silent: float) -> None:
    run = play(PlannedFault(name, 1), deadlines=LOCAL)
    assert run.gaps[0] == round(silent * 1_000) + BACKOFF[0]
    assert run.result.cause == "end_turn"


FIRST: dict[Any, dict[str, Any]] = {
    OpenAIChat: {"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "Hm"}}]},
    OpenAIResponses: {"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}},
    Anthropic: {"type": "message_start", "message": {"id": "m", "role": "assistant", "usage": {}}},
}


@pytest.mark.covers("E-15")
@pytest.mark.parametrize("speaks", [True, False])
@pytest.mark.parametrize("kind", FIRST)
def test_a_hosted_server_of_any_protocol_may_be_silent_as_long(kind: Any, speaks: bool) -> None:
    """It is reached through a proxy on this machine, so that its name is that of a hosted one."""
    loop = VirtualLoop()
    asked: list[int] = []
    event = f"data: {json.dumps(FIRST[kind])}\n\n".encode()
    answer = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 9999\r\n\r\n" + event

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.append(loop.milliseconds())
        writer.write(answer if speaks else b"")
        while await reader.read(1 << 16):
            pass  # until the other side gives up
        writer.close()

    async def main() -> str:
        proxy = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = proxy.sockets[0].getsockname()[1]
        proxies = ProxySettings({"http": ("http_proxy", f"http://127.0.0.1:{port}")})
        async with proxy, Transport(proxies=proxies) as transport:
            how: Any = {
                "base_url": "http://models.example/v1",
                "transport": transport,
                "patience": replace(EXACT, tries=1),
            }
            provider: Any = kind("key", **how)
            request = Request("a-model", 1_000, 1, "sdk", "", 0, overload_tries=1)
            with pytest.raises(ProviderError) as caught:
                async for _ in provider.stream(request, Conversation(History([user("go")]))):
                    pass
            return f"{loop.milliseconds() - asked[0]} {caught.value.failure.kind}"

    assert virtually(main(), loop) == f"{IDLE if speaks else HEADERS} network"


def kept_open(received: ReceivedRequest) -> Reply:
    """A stream that begins, and then is kept open by what is no event: comments, one each ten seconds."""
    begins = next(iter(frames(received, Say.of("never said", usage=USAGE))))
    return RawStream((begins, *[b": still here\n\n"] * 60), usage=USAGE, pace_ms=10_000)


def pinged(received: ReceivedRequest) -> Reply:
    """The same with pings, which are events: the server lives, and thinks for ten minutes."""
    say = look(received)
    assert isinstance(say, Say)
    begins, *rest = frames(received, say)
    return RawStream((begins, *[PING] * 60, b"".join(rest)), usage=USAGE, pace_ms=10_000)


def stamp_for(received: ReceivedRequest) -> ReplyStamp:
    turn, model = received.talk.turns(), received.talk.model
    return ReplyStamp(model, f"msg_{turn}", lambda: f"sig:{model}:{turn}")


def frames(received: ReceivedRequest, say: Say) -> Iterator[bytes]:
    stamp = stamp_for(received)
    teller = MESSAGES.teller(say, stamp, received.body)
    return (teller(event) for event in stream_events(say, stamp))


def test_comments_are_no_events_and_pings_are() -> None:
    run = play(choose=kept_open, config=replace(ALONE, max_retries=2))
    assert [gap - wait for gap, wait in zip(run.gaps, BACKOFF, strict=False)] == [10_000 + IDLE] * 2
    assert run.result.cause == "network"
    assert "silent for 90 seconds" in run.result.detail
    assert play(choose=pinged).result.cause == "end_turn"


def only_pings(count: int) -> Callable[[ReceivedRequest], Reply]:
    def choose(received: ReceivedRequest) -> Reply:
        begins = next(iter(frames(received, Say.of("never said", usage=USAGE))))
        return RawStream((begins, *[PING] * count), usage=USAGE, pace_ms=10_000)

    return choose


def test_a_server_that_pings_for_ever_is_given_up() -> None:
    """It lives, and says nothing: half an hour of that, then it is asked again, and in the end given up."""
    run = play(choose=only_pings(2_000), config=replace(ALONE, max_retries=2))
    assert [gap - wait for gap, wait in zip(run.gaps, BACKOFF, strict=False)] == [10_000 + BARREN] * 2
    assert run.result.cause == "network"
    assert "nothing but signs of life for 1,800 seconds" in run.result.detail


# --- blocks that are written at once ----------------------------------------------------------------------


def woven(received: ReceivedRequest) -> Reply:
    """The events of all blocks, one of each in turn."""
    say = look(received)
    assert isinstance(say, Say)
    stamp = stamp_for(received)
    teller = MESSAGES.teller(say, stamp, received.body)
    told = list(stream_events(say, stamp))
    blocks = [[event for event in told if event.get("index") == at] for at in range(len(say.blocks))]
    mixed: list[Json] = [event for row in zip_longest(*blocks) for event in row if event is not None]
    outer = [event for event in told if "index" not in event]
    begin = [event for event in outer if event["type"] == "message_start"]
    order = [*begin, *mixed, *[event for event in outer if event not in begin]]
    return RawStream(tuple([teller(event) for event in order]), usage=USAGE)


@pytest.mark.covers("E-02")
def test_interleaved_blocks_are_accepted() -> None:
    run = play(choose=woven)
    assert (run.result.cause, len(run.times), run.waits, run.wrong) == ("end_turn", TURNS, [], 0)
    assert run.result.text == "I have seen both parts. That is all."
