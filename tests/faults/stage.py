"""Sessions of the real loop, over real sockets, against a server that misbehaves: what they saw and what came of it.

The model of these plays looks at two things, one after the other, and then is done. What it says depends on the
conversation alone, so any number of sessions can share a server.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from itertools import count
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from mainspring.context.attachments import Summary
from mainspring.core.config import Config
from mainspring.core.effects import Compact
from mainspring.core.ladder import most_model_calls
from mainspring.core.messages import (
    Origin,
    RedactedThinking,
    ServerBlock,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    user,
)
from mainspring.core.models import model_named
from mainspring.core.money import Usage
from mainspring.core.pairing import find_unpaired_ids
from mainspring.core.state import State
from mainspring.core.updates import (
    Appended,
    BlockDone,
    BlockStarted,
    Boundary,
    CallDone,
    CallStarted,
    Delta,
    Failed,
    MaxTurnsReached,
    PrefixBroken,
    ReplyDone,
    ReplyStarted,
    RequestStarted,
    Result,
    Retrying,
    Tombstone,
    Update,
)
from mainspring.core.view import Fold, view
from mainspring.engine.run import Run
from mainspring.engine.session import EngineSession
from mainspring.engine.session_deps import BasicDeps
from mainspring.providers.anthropic.provider import Anthropic, Key
from mainspring.providers.base import ToolSpec
from mainspring.providers.http.client import Deadlines, Transport
from mainspring.providers.retry import PATIENCE, RetryLimits, RetryProfile
from mainspring.simulator.faults import FaultPlan
from mainspring.simulator.replies import Json, ReceivedRequest, Reply, Say
from mainspring.simulator.server import ModelServer, RejectedRequest
from mainspring.tools.custom import tool

PRIMARY = model_named("claude-sonnet-5-5")
SECOND = model_named("claude-opus-5")
ALONE = Config(model=PRIMARY, max_turns=8)
WITH_FALLBACK = replace(ALONE, fallbacks=(SECOND,))

QUICK = replace(PATIENCE[RetryProfile.FOREGROUND], base=1, cap=2)
# Seconds. A machine that is busy with other things must not look like a silent server, so only those who meet one are
# in a hurry, and not more than they have to be.
PATIENT = Deadlines(connect=30, headers=30, idle=30)
HURRIED = Deadlines(connect=30, headers=2, idle=2)
IMPATIENT = Deadlines(connect=30, headers=0.2, idle=0.2)  # where giving up too early does no harm
SILENT = ("silence", "stall", "stall_at_start")
AT_ONCE = 8  # sessions

ARGUMENTS = {"rate_limited": "0.01", "huge_text": "200000"}

SCHEMA = {"type": "object", "properties": {"part": {"type": "integer"}}, "required": ["part"]}
LOOK = ToolSpec("Look", "Looks at a part.", SCHEMA)

T = TypeVar("T")


def look(received: ReceivedRequest) -> Reply:
    """The model: it thinks, says what it will do, and does it."""
    return looking(received, call_first=False)


def look_first(received: ReceivedRequest) -> Reply:
    """The same one, with the call before the words."""
    return looking(received, call_first=True)


SUMMARY = "Parts seen so far: "
USAGE = Usage(input=1_000, output=600)  # more than counts as little, so that going on is worth it


def looking(received: ReceivedRequest, *, call_first: bool) -> Reply:
    talk = received.talk
    summed_up = sum([int(words.removeprefix(SUMMARY)) for _, words in talk.said() if words.startswith(SUMMARY)])
    seen = summed_up + len([result for result in talk.results("Look") if not result.get("is_error")])
    thought: Json = {"type": "thinking", "thinking": f"There are two parts, and I have seen {seen} of them."}
    if seen >= 2:
        return Say.of(thought, "I have seen both parts. That is all.", usage=USAGE)
    call = {"type": "tool_use", "id": f"toolu_{talk.turns()}", "name": "Look", "input": {"part": seen + 1}}
    words = f"I will look at part {seen + 1}."
    blocks = (call, words) if call_first else (words, call)
    return Say.of(thought, *blocks, usage=USAGE)


class Hands(BasicDeps):
    """Plain functions, and a compaction that needs no model: it notes what was seen, and folds the rest away."""

    async def summarize(self, state: State, effect: Compact) -> Summary:
        _, *rest = view(state.history, state.edits)
        noted = sum([int(m.text.removeprefix(SUMMARY)) for m in rest if m.text.startswith(SUMMARY)])
        seen = noted + len([m for m in rest if isinstance(m, ToolResult) and not m.is_error])
        if not rest:
            return Summary(before=1_000, after=100)  # there is nothing to fold, and the model may take it all the same
        summary = replace(user(f"{SUMMARY}{seen}", Origin.SUMMARY), id=self.new_id())
        fold = Fold(state.history[1].id, state.history[-1].id, summary)
        return Summary(edits=(fold,), before=1_000, after=100)


class Seen(NamedTuple):
    """What a session came to."""

    lines: list[str]  # what its consumer saw, one short line for each update
    result: Result
    ran: Counter[int]  # parts that were looked at
    session: EngineSession
    config: Config

    @property
    def ending(self) -> str:
        return f"{self.result.terminal} {self.result.cause}"

    @property
    def waits(self) -> int:
        return sum(line.startswith("wait") for line in self.lines)

    def check(self) -> None:
        """What holds whatever happened."""
        assert find_unpaired_ids(self.session.state.history) == ()
        assert self.result.model_calls <= most_model_calls(self.config)
        assert self.lines[-1] == self.ending
        failures = [number for number, line in enumerate(self.lines) if line.startswith("failed")]
        assert failures in ([], [len(self.lines) - 2]), "a failure is shown at the end, or not at all"


class Stage:
    """A server, and as many sessions as are wanted. Each has connections of its own."""

    def __init__(self, server: ModelServer, patience: RetryLimits = QUICK) -> None:
        self.server = server
        self.patience = patience
        self.keys: list[str] = []  # of the server's requests, in their order
        self.tenants = count(1)

    def requests(self, prompt: str) -> list[ReceivedRequest]:
        """Those of one session. Hundreds share a server, so each request is read once, and not by each of them."""
        every = self.server.requests
        self.keys += [request.talk.key for request in every[len(self.keys) :]]
        return [request for request, key in zip(every, self.keys, strict=True) if key.endswith(prompt)]

    def session(self, transport: Transport, config: Config, ran: Counter[int], key: Key | str = "key") -> EngineSession:
        provider = Anthropic(key, base_url=self.server.url, transport=transport, patience=self.patience)

        @tool(name="Look", about=LOOK.description, concurrent=True)
        async def act(part: int) -> str:
            ran[part] += 1
            return f"Part {part} is fine."

        return EngineSession(Hands(provider, [act], system=("You look.",)), config)

    async def play(
        self,
        prompt: str,
        config: Config = ALONE,
        *,
        key: Key | str = "",
        deltas: bool = False,
        deadlines: Deadlines = PATIENT,
        meanwhile: Callable[[Run, int], Awaitable[None]] | None = None,
    ) -> Seen:
        """`key`: empty: one of its own. Plays with one key would use each other's connections, and a fault on a kept
        connection may be a race with its end, for which the transport sends a request once more by itself."""
        ran: Counter[int] = Counter()
        async with Transport(deadlines=deadlines) as transport:
            session = self.session(transport, config, ran, key or f"key-{next(self.tenants)}")
            updates = await updates_of(session, prompt, deltas=deltas, meanwhile=meanwhile)
        last = updates[-1]
        assert isinstance(last, Result)
        return Seen([words for words in lines(updates) if words], last, ran, session, config)


class Played(NamedTuple):
    """A session, and what the server knows of it."""

    seen: Seen
    requests: int
    wrong: list[RejectedRequest]


def played(stage: Stage, prompt: str, seen: Seen) -> Played:
    wrong = [wrong for wrong in stage.server.wrong if wrong.request.talk.key.endswith(prompt)]
    return Played(seen, len(stage.requests(prompt)), wrong)


async def updates_of(
    session: EngineSession,
    prompt: str,
    *,
    deltas: bool = False,
    meanwhile: Callable[[Run, int], Awaitable[None]] | None = None,
) -> list[Update]:
    """`meanwhile` is called behind each update, with their number so far."""
    updates: list[Update] = []
    async with session.run(prompt, deltas=deltas) as run:
        async for update in run:
            updates.append(update)
            if meanwhile is not None:
                await meanwhile(run, len(updates))
    return updates


@asynccontextmanager
async def staged(
    faults: FaultPlan | None,
    choose: Callable[[ReceivedRequest], Reply] = look,
    patience: RetryLimits = QUICK,
    api_key: str | None = None,
) -> AsyncGenerator[Stage, None]:
    async with ModelServer(choose=choose, faults=faults, api_key=api_key) as server:
        yield Stage(server, patience)


async def together(plays: Iterable[Callable[[], Awaitable[T]]], at_once: int = AT_ONCE) -> list[T]:
    """All of them, so many at a time, in their order."""
    room = asyncio.Semaphore(at_once)

    async def one(play: Callable[[], Awaitable[T]]) -> T:
        async with room:
            return await play()

    return list(await asyncio.gather(*[one(play) for play in plays]))


# --- updates, shortly -----------------------------------------------------------------------------------


def lines(updates: Iterable[Update]) -> list[str]:
    calls: dict[str, ToolCall] = {}
    return [line(update, calls) for update in updates]


def line(update: Update, calls: dict[str, ToolCall]) -> str:
    """Empty for what only tells of progress."""
    match update:
        case Delta() | ReplyDone() | ReplyStarted() | BlockStarted() | PrefixBroken():
            return ""
        case RequestStarted():
            return " ".join(
                filter(
                    None, [f"ask {update.turn}", "" if update.model == PRIMARY.name else "second", update.transition]
                )
            )
        case BlockDone():
            return block(update, calls)
        case CallStarted():
            return f"run {called(update.call)}"
        case CallDone():
            return outcome(update.result, calls)
        case Retrying():
            return f"wait {update.failure.kind} {update.attempt}"
        case Appended():
            message = update.message
            return outcome(message, calls) if isinstance(message, ToolResult) else f"tell {message.origin}"
        case Boundary():
            return f"boundary {update.layer}"
        case Tombstone():
            return f"withdrawn {update.why}"
        case MaxTurnsReached():
            return f"max turns {update.limit}"
        case Failed():
            return f"failed {update.failure.kind}"
        case Result():
            return f"{update.terminal} {update.cause}"
        case _:
            raise AssertionError(f"{update} has no place in these plays")


def block(done: BlockDone, calls: dict[str, ToolCall]) -> str:
    match done.block:
        case Text(text):
            return text if len(text) <= 60 else f"{len(text)} characters"
        case Thinking() | RedactedThinking():
            return "(thinking)"
        case ToolCall():
            calls[done.block.id] = done.block
            return f"call {called(done.block)}"
        case ServerBlock():
            return "(server)"


def called(call: ToolCall) -> str:
    part = call.input.get("part", call.defect)
    return f"{call.name} {part}"


def outcome(result: ToolResult, calls: dict[str, ToolCall]) -> str:
    kind = "not run" if result.synthetic else "wrong" if result.is_error else "ran"
    return f"{kind} {called(calls[result.call_id])}"
