"""The server with faults, metering and a memory for thinking: over real sockets, with a client that is not ours."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from mainspring.core.money import Usage
from mainspring.simulator.faults import FaultPlan, PlannedFault
from mainspring.simulator.replies import RawStream, Refuse, Say
from mainspring.simulator.scripts import PromptScript, choose_by_prompt
from mainspring.simulator.server import ModelServer
from simulator.bodies import Json, ask, assistant, call, mark, result, text, tool, user
from simulator.client import assembled, connected

THOUGHT: Json = {"type": "thinking", "thinking": "Hm."}


def serving(server: ModelServer, talk: Callable[[ModelServer], Awaitable[None]]) -> ModelServer:
    async def main() -> None:
        async with asyncio.timeout(60), server:
            await talk(server)

    asyncio.run(main())
    return server


async def answer(server: ModelServer, body: Json) -> Json:
    async with connected(server.url) as client:
        client.send(body)
        return dict((await client.answer())[1])


@pytest.mark.parametrize(("end", "error"), [("close", asyncio.IncompleteReadError), ("reset", ConnectionResetError)])
def test_a_stream_that_ends_badly(end: str, error: type[Exception]) -> None:
    stream = RawStream((b"event: ping\ndata: {}\n\n",), end)  # type: ignore[arg-type]  # one of its ends

    async def talk(server: ModelServer) -> None:
        async with connected(server.url) as client:
            client.send(ask(stream=True))
            assert (await client.head()).status == 200
            with pytest.raises(error):
                [chunk async for chunk in client.chunks()]

    assert serving(ModelServer([stream]), talk).aborted == 0


def test_silence_lasts_until_the_client_leaves() -> None:
    async def talk(server: ModelServer) -> None:
        async with connected(server.url) as client:
            client.send(ask(stream=True))
            await server.until(lambda: len(server.answers) == 1)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.reader.read(1), 0.05)
        await server.until(lambda: server.aborted == 1 and server.open_connections == 0)

    serving(ModelServer(faults=FaultPlan(PlannedFault("silence")), choose=lambda _: Say.of("never")), talk)


def test_a_spoilt_reply_is_given_again_and_told_apart() -> None:
    async def talk(server: ModelServer) -> None:
        assert (await answer(server, ask()))["error"]["type"] == "overloaded_error"
        assert (await answer(server, ask()))["content"][0]["text"] == "one"
        assert (await answer(server, ask()))["content"][0]["text"] == "two"

    faults = FaultPlan(PlannedFault("overloaded"), PlannedFault("pings"))
    server = serving(ModelServer([Say.of("one"), Say.of("two")], faults=faults), talk)
    assert [answered.fault for answered in server.answers] == ["overloaded", "pings", ""]


def test_a_refusal_of_the_script_is_no_business_of_the_faults() -> None:
    async def talk(server: ModelServer) -> None:
        assert (await answer(server, ask()))["error"]["message"] == "scripted"

    server = serving(ModelServer([Refuse(400, "x", "scripted")], faults=FaultPlan(PlannedFault("overloaded"))), talk)
    assert server.answers[0].fault == ""


def test_many_sessions_share_a_server_and_each_has_its_own_trouble() -> None:
    """What one of them meets does not depend on what the others do."""

    async def session(server: ModelServer, number: int) -> tuple[int, ...]:
        statuses: list[int] = []
        async with connected(server.url) as client:
            while 200 not in statuses:
                client.send(ask(user(f"session {number}."), stream=True))
                head = await client.head()
                statuses.append(head.status)
                if head.status == 200:
                    assert assembled([event async for event in client.events()])["content"][0]["text"] == f"to {number}"
                else:
                    await client.reader.readexactly(int(head.headers["content-length"]))
        return tuple(statuses)

    def new_server() -> ModelServer:
        scripts = [PromptScript(f"session {number}.", (Say.of(f"to {number}"),)) for number in range(60)]
        rates = {"overloaded": 0.3, "rate_limited": 0.2}
        return ModelServer(choose=choose_by_prompt(scripts), faults=FaultPlan(seed=5, rates=rates))

    together: list[tuple[int, ...]] = []
    alone: list[tuple[int, ...]] = []

    async def at_once(server: ModelServer) -> None:
        together.extend(await asyncio.gather(*[session(server, number) for number in range(60)]))

    async def one_by_one(server: ModelServer) -> None:
        for number in reversed(range(60)):
            alone.insert(0, await session(server, number))

    serving(new_server(), at_once)
    serving(new_server(), one_by_one)
    assert together == alone
    assert len(set(together)) > 3, "they do not all meet the same"


# --- metering ---------------------------------------------------------------------------------------------


def test_what_is_cached_is_reported_and_paid_for() -> None:
    """The second request reads what the first one wrote; the bill is the sum of both."""
    system = [text("s" * 8_000, **mark())]

    async def talk(server: ModelServer) -> None:
        first = (await answer(server, ask(system=system)))["usage"]
        second = (await answer(server, ask(system=system)))["usage"]
        written = first["cache_creation_input_tokens"]
        assert 2_000 < written < 2_020
        assert first["cache_creation"] == {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0}
        assert (second["cache_read_input_tokens"], second["cache_creation_input_tokens"]) == (written, 0)
        assert first["input_tokens"] == second["input_tokens"] < 20

    server = serving(ModelServer([Say.of("a"), Say.of("b")], metered=True), talk)
    one, other = [answered.usage for answered in server.answers]
    assert server.usage == one + other
    per_token = {"input": 2_000, "cache_write": 2_500, "cache_read": 100, "output": 10_000}  # nano-dollars
    assert server.cost == sum(getattr(server.usage, name) * price for name, price in per_token.items())


def test_what_was_never_answered_was_never_written() -> None:
    system = [text("s" * 8_000, **mark())]

    async def talk(server: ModelServer) -> None:
        await answer(server, ask(system=system))
        assert (await answer(server, ask(system=system)))["usage"]["cache_read_input_tokens"] == 0

    server = serving(ModelServer([Say.of("a")], metered=True, faults=FaultPlan(PlannedFault("overloaded"))), talk)
    assert server.answers[0].usage == Usage()
    assert server.answers[0].cost == 0


def test_lifetimes_go_by_the_clock_that_is_handed_in() -> None:
    now = [0]
    system = [text("s" * 8_000, **mark())]

    async def talk(server: ModelServer) -> None:
        read: list[int] = []
        for minutes in (0, 4, 8, 13):
            now[0] = minutes * 60_000
            read.append((await answer(server, ask(system=system)))["usage"]["cache_read_input_tokens"])
        assert [tokens > 0 for tokens in read] == [False, True, True, False]

    serving(ModelServer([Say.of("a")] * 4, metered=True, clock=lambda: now[0]), talk)


def test_usage_that_the_script_gives_stands() -> None:
    async def talk(server: ModelServer) -> None:
        assert (await answer(server, ask()))["usage"]["input_tokens"] == 7

    serving(ModelServer([Say.of("a", usage=Usage(input=7))], metered=True), talk)


def test_a_prompt_that_is_too_long_uses_up_no_reply() -> None:
    async def talk(server: ModelServer) -> None:
        long = await answer(server, ask(user("x" * 4_000)))
        assert long["error"]["message"].startswith("prompt is too long: 10")
        assert (await answer(server, ask()))["content"][0]["text"] == "a"

    serving(ModelServer([Say.of("a")], limit=1_000), talk)


# --- thinking ---------------------------------------------------------------------------------------------


def test_thinking_behind_another_conversation_is_refused() -> None:
    async def talk(server: ModelServer) -> None:
        asked = ask(user("Read it."), tools=[tool()])
        reply = (await answer(server, asked))["content"]
        good = ask(user("Read it."), assistant(*reply), user(result()), tools=[tool()])
        edited = ask(user("Read that."), assistant(*reply), user(result()), tools=[tool()])
        said = (await answer(server, edited))["error"]
        assert said["type"] == "invalid_request_error"
        assert said["message"].startswith("messages.1.content.0: Invalid `signature` in `thinking` block. The block is")
        assert (await answer(server, good))["content"][0]["text"] == "done"

    server = serving(ModelServer([Say.of(THOUGHT, call()), Say.of("done")]), talk)
    assert [(wrong.violation.rule, wrong.request.talk.prompt) for wrong in server.wrong] == [
        ("thinking.prefix", "Read that.")
    ]
