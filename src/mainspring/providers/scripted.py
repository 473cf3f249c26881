"""A model that follows a script: for the demo, for tests, and for trying the loop without a key.

    model = Scripted([
        says("Let me look.", call("Read", file_path="a.py")),
        fails(Trouble.OVERLOADED),
        says("Done."),
    ])

A reply may have a pace: a delay in milliseconds before each batch of its pieces.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from itertools import count
from typing import Any

from mainspring.core.effects import Request
from mainspring.core.errors import ProviderError
from mainspring.core.messages import Block, RedactedThinking, ServerBlock, Stop, Text, Thinking, ToolCall
from mainspring.core.money import Usage
from mainspring.core.reasons import Failure, Trouble
from mainspring.core.updates import BlockKind
from mainspring.core.value import Value, as_json
from mainspring.providers.base import (
    Batch,
    BlockDelta,
    BlockFinished,
    BlockOpened,
    Conversation,
    Item,
    PrefixBreak,
    Retry,
    StreamEnded,
    StreamStarted,
)

USAGE = Usage(input=100, output=20)
PIECE = 12  # characters of text per delta: about three tokens


class Pause(Value):
    """A pause in mid-reply."""

    milliseconds: int


class Break(Value):
    """The stream breaks off here."""

    failure: Failure


Part = Block | Pause | Break | Item


class ScriptedReply(Value):
    """One answer of the script."""

    parts: tuple[Part, ...]
    stop: Stop | None = None  # None: depends on the parts
    usage: Usage = USAGE
    pace: int = 0  # milliseconds before each batch


_numbers = count(1)


def call(name: str, id: str = "", /, **input: Any) -> ToolCall:
    return ToolCall(id or f"call_{next(_numbers)}", name, input)


def says(*parts: str | Part, stop: Stop | None = None, usage: Usage = USAGE, pace: int = 0) -> ScriptedReply:
    return ScriptedReply(tuple(Text(part) if isinstance(part, str) else part for part in parts), stop, usage, pace)


def fails(kind: Trouble, detail: str = "", *after: str | Part) -> ScriptedReply:
    """A reply that fails after the given parts, or at once."""
    failure = Failure(kind, detail or f"scripted: {kind}")
    return says(*after, Break(failure))


class Scripted:
    """Plays its replies in order and keeps the requests. If there is no reply left, the request fails with a
    message.
    """

    def __init__(self, replies: Iterable[ScriptedReply]) -> None:
        self.replies = list(replies)
        self.requests: list[Request] = []

    @property
    def left_over(self) -> int:
        return len(self.replies) - len(self.requests)

    async def stream(
        self,
        request: Request,
        conversation: Conversation,  # noqa: ARG002  # a script ignores it
    ) -> AsyncGenerator[Batch, None]:
        self.requests.append(request)
        if self.left_over < 0:
            raise ProviderError(Failure(Trouble.INVALID_REQUEST, "the script has no more replies"))
        reply = self.replies[len(self.requests) - 1]
        for part in make_batches(reply, request.model):
            wait = part.milliseconds if isinstance(part, Pause) else reply.pace
            if wait:
                await asyncio.sleep(wait / 1_000)
            if isinstance(part, Break):
                raise ProviderError(part.failure)
            if not isinstance(part, Pause):
                yield part


def make_batches(reply: ScriptedReply, model: str) -> list[Batch | Pause | Break]:
    made: list[Batch | Pause | Break] = []
    spoken = [part for part in reply.parts if not isinstance(part, Pause | Break | Retry | PrefixBreak)]
    begun = False
    for part in reply.parts:
        match part:
            case Pause() | Break():
                made.append(part)
            case Retry() | PrefixBreak():
                made.append((part,))
            case _:
                if not begun:
                    made.append((StreamStarted(Usage(input=reply.usage.input)),))
                    begun = True
                made.extend(stream_block(part))
    calls = any(isinstance(part, ToolCall) for part in spoken)
    ended = StreamEnded(reply.stop or (Stop.TOOL_USE if calls else Stop.END_TURN), reply.usage, model)
    return [*made, (ended,)]


def stream_block(part: Block | Item) -> list[Batch]:
    """The stream of a block: some deltas, then the block itself."""
    match part:
        case Text():
            return [(BlockOpened(BlockKind.TEXT),), *make_deltas(BlockKind.TEXT, part.text), (BlockFinished(part),)]
        case Thinking():
            return [
                (BlockOpened(BlockKind.THINKING),),
                *make_deltas(BlockKind.THINKING, part.text),
                (BlockFinished(part),),
            ]
        case ToolCall():
            opened = BlockOpened(BlockKind.INPUT, part.id, part.name)
            return [(opened,), *make_deltas(BlockKind.INPUT, as_json(part.input).decode()), (BlockFinished(part),)]
        case RedactedThinking() | ServerBlock():
            return [(BlockFinished(part),)]
        case _:
            return [(part,)]


def make_deltas(kind: BlockKind, text: str) -> list[Batch]:
    return [(BlockDelta(kind, text[start : start + PIECE]),) for start in range(0, len(text), PIECE)]
