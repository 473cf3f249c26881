"""Hostile streams, through the real loop over real sockets: each comes to an end, and what is asked next is valid.

The server sends the stream once, and `Done.` to whatever it is asked after that; then the session is asked for more.
The server holds every request to the rules of its protocol. `hostile.py` has the streams.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from mainspring.core.config import Config
from mainspring.core.messages import Assistant
from mainspring.core.models import model_named
from mainspring.core.pairing import find_unpaired_ids
from mainspring.core.updates import Result
from mainspring.engine.session import EngineSession
from mainspring.engine.session_deps import BasicDeps
from mainspring.providers.anthropic.provider import Anthropic
from mainspring.providers.http.client import Deadlines, Transport
from mainspring.providers.openai.provider import OpenAIChat, OpenAIResponses
from mainspring.providers.retry import PATIENCE, RetryProfile
from mainspring.simulator.replies import ReceivedRequest, Reply, Say
from mainspring.simulator.server import ModelServer
from mainspring.tools.custom import tool
from providers import hostile

QUICK = replace(PATIENCE[RetryProfile.FOREGROUND], base=1, cap=2, tries=3)
CONFIG = Config(model=model_named("claude-haiku-4-5"), max_turns=6, thinking=False)
DEADLINES = Deadlines(connect=30, headers=30, idle=30)

Kind = type[OpenAIChat] | type[OpenAIResponses] | type[Anthropic]

AGAIN = "asked again"  # it is no answer; the loop asks once more, and does not take half of it for a whole
READS = "reads 'a.py'"
TWICE = "reads 'a.py' 'a.py'"
DEFECT = "a call with a defect"  # never run; the model is told
HELLO = "says 'Hello.'"

ALIKE = {
    "cut in a character": "says '漢字'",
    "half a character": AGAIN,
    "half a surrogate": AGAIN,
    "one id for two calls": TWICE,
    "null everywhere": HELLO,
    "usage twice": HELLO,
    "usage that is none": HELLO,
    "NaN in the usage": HELLO,
    "NaN in the arguments": DEFECT,
    "a number too large": DEFECT,
    "an error as the body": AGAIN,
    "an error as the body of events": AGAIN,
    "an error as plain text": AGAIN,
    "an error in the stream": AGAIN,
    "an error in words": AGAIN,
    "nothing at all": AGAIN,
    "strange names and ids": "calls what there is not",
    "arguments for ever": f"reads {'a' * 20!r}",
    "arguments too deep": DEFECT,
    "an event too deep": AGAIN,
    "no JSON": AGAIN,
}
CHAT = {
    "two calls, one index": TWICE,
    "two calls, one index, no id": TWICE,
    "arguments before the name": READS,
    "a call without a name": DEFECT,
    "null in lists": READS,
    "no [DONE]": HELLO,
    "[DONE] and blanks": HELLO,
    "[DONE] alone": AGAIN,
    "only empty choices": AGAIN,
    "the id changes": READS,
    "text behind the end": "says 'Hello. And more.'",
    "a call behind the end": READS,
    "the end twice": DEFECT,  # the last reason promises a call
    "an index of every kind": READS,
    "an object for text": HELLO,
    "a list for a chunk": AGAIN,
    "a number for a chunk": AGAIN,
}
RESPONSES = {
    "two calls, one index": TWICE,
    "arguments before the item": READS,
    "arguments before the item, which is done": READS,
    "a call without a name": DEFECT,
    "null in lists": HELLO,
    "an error without a type": AGAIN,
    "failed without a reason": AGAIN,
    "no end": AGAIN,
    "[DONE] for an end": AGAIN,
    "an end without a response": HELLO,
    "an end and nothing else": AGAIN,
    "a call at the end only": READS,
    "arguments when done only": READS,
    "text when done only": HELLO,
    "the id changes": READS,
    "no index": READS,
    "written to as something else": AGAIN,
    "text behind the end": HELLO,
    "an index of every kind": HELLO,
    "an object for arguments": READS,
    "an object for text": AGAIN,
}
MESSAGES = {
    "two calls, one index": AGAIN,
    "two calls, one index, at once": AGAIN,
    "arguments before the call": AGAIN,
    "a call without a name": "calls what there is not",
    "a call without an id": READS,
    "null in a call": READS,
    "a block of null": HELLO,
    "an error of llama.cpp": AGAIN,
    "an error without a type": AGAIN,
    "the whole message at once": HELLO,
    "no end": AGAIN,
    "[DONE] for an end": AGAIN,
    "an end in mid-block": AGAIN,
    "an end and nothing else": AGAIN,
    "the id changes": HELLO,
    "text behind the end": HELLO,
    "no beginning": HELLO,
    "an index that jumps": HELLO,
    "an index of every kind": HELLO,
    "a block of an unknown kind": HELLO,
    "a reason that nobody knows": HELLO,
    "a stop for tools without any": HELLO,
    "an object for arguments": READS,
    "arguments in the beginning": READS,
}
PROTOCOLS: dict[Kind, tuple[dict[str, Reply], dict[str, str]]] = {
    OpenAIChat: (hostile.CHAT, ALIKE | CHAT),
    OpenAIResponses: (hostile.RESPONSES, ALIKE | RESPONSES),
    Anthropic: (hostile.MESSAGES, ALIKE | MESSAGES),
}
CASES = [(kind, name) for kind, (streams, _) in PROTOCOLS.items() for name in streams]
REFUSED_ONCE = "a block of an unknown kind"  # it goes back as it came; a server that does not know it, is asked without


class Played(NamedTuple):
    first: Result
    second: Result
    came: str
    refused: int  # requests that broke a rule
    session: EngineSession


async def play(kind: Kind, reply: Reply, times: int) -> Played:
    """The first `times` requests are answered so."""
    asked: list[ReceivedRequest] = []
    read: list[str] = []

    def choose(received: ReceivedRequest) -> Reply:
        asked.append(received)
        return reply if len(asked) <= times else Say.of("Done.")

    @tool(name="Read", about="Reads a file.")
    async def act(file_path: str) -> str:
        read.append(file_path[:20])
        return "fine"

    async with ModelServer(choose=choose) as server, Transport(deadlines=DEADLINES) as transport:
        provider = kind("key", base_url=server.url, transport=transport, patience=QUICK)
        session = EngineSession(BasicDeps(provider, [act]), CONFIG)
        first, requests = await result_of(session, "go"), len(asked)
        second = await result_of(session, "and now?")
    return Played(first, second, what_came(session, first, read, requests), len(server.violations), session)


async def result_of(session: EngineSession, prompt: str) -> Result:
    last = None
    async with asyncio.timeout(60), session.run(prompt) as run:
        async for update in run:
            last = update
    assert isinstance(last, Result)
    return last


def what_came(session: EngineSession, first: Result, read: list[str], requests: int) -> str:
    calls = [call for message in session.state.history if isinstance(message, Assistant) for call in message.calls]
    if read:
        return f"reads {' '.join(map(repr, read))}"
    if calls:
        return DEFECT if calls[0].defect is not None else "calls what there is not"
    return f"says {first.text!r}" if requests == 1 else AGAIN


@pytest.mark.covers("E-02")
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_it_comes_to_an_end_and_the_next_request_is_valid(kind: Kind, name: str) -> None:
    streams, expected = PROTOCOLS[kind]
    played = asyncio.run(play(kind, streams[name], times=1))
    assert (played.came, played.refused) == (expected[name], int(name == REFUSED_ONCE))
    assert (played.first.terminal, played.second.terminal, played.second.text) == ("completed", "completed", "Done.")
    assert find_unpaired_ids(played.session.state.history) == ()


def test_every_stream_has_its_row() -> None:
    for streams, expected in PROTOCOLS.values():
        assert streams.keys() == expected.keys()
        assert len(streams) >= 20


TOLD = [(kind, name) for kind, name in CASES if "error" in name]


@pytest.mark.parametrize(("kind", "name"), TOLD)
def test_an_error_that_stays_is_told_in_the_server_s_words(kind: Kind, name: str) -> None:
    """Wherever it stands, and under whichever content type; and it ends the run, after a few tries."""
    played = asyncio.run(play(kind, PROTOCOLS[kind][0][name], times=99))
    assert (played.first.terminal, played.first.detail) == ("model_error", "the house is on fire")
