"""A model that follows a script: for the demo, for tests, and for trying the loop without a key.

    model = Scripted([
        says("Let me look.", call("Read", file_path="a.py")),
        fails(Trouble.OVERLOADED),
        says("Done."),
    ])

A reply may have a pace: a delay in milliseconds before each batch of its pieces. `FunctionModel` asks a function for
each reply. Both keep what the model was shown, in `conversations`.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from itertools import count
from typing import Any

from mainspring.core.effects import Request
from mainspring.core.errors import ProviderError, UsageError
from mainspring.core.messages import (
    Block,
    Message,
    RedactedThinking,
    ServerBlock,
    Stop,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
)
from mainspring.core.money import Usage
from mainspring.core.reasons import Failure, Trouble
from mainspring.core.updates import BlockKind
from mainspring.core.value import Bundle, Value, as_json
from mainspring.core.view import view
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
    ToolSpec,
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


class ShownConversation(Bundle):
    """What the model was shown with one request."""

    conversation: Conversation

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple(view(self.conversation.history, self.conversation.edits))

    @property
    def system(self) -> str:
        return "\n\n".join([text for text in self.conversation.system if text])

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        return self.conversation.tools

    @property
    def prompt(self) -> str:
        """The text of the last user message."""
        return next((m.text for m in reversed(self.messages) if isinstance(m, User)), "")

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The results of tool calls that the model has not answered yet."""
        found: list[ToolResult] = []
        for message in reversed(self.messages):
            if isinstance(message, ToolResult):
                found.append(message)
            elif not isinstance(message, User):
                break
        return tuple(reversed(found))


class PlayedModel:
    """The base of models for tests: it keeps the requests and what the model was shown, and streams each reply."""

    is_for_tests = True  # so that no list offers to resume its sessions

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.conversations: list[ShownConversation] = []

    async def stream(self, request: Request, conversation: Conversation) -> AsyncGenerator[Batch, None]:
        self.requests.append(request)
        self.conversations.append(ShownConversation(conversation))
        reply = await self._make_reply()
        for part in make_batches(reply, request.model):
            wait = part.milliseconds if isinstance(part, Pause) else reply.pace
            if wait:
                await asyncio.sleep(wait / 1_000)
            if isinstance(part, Break):
                raise ProviderError(part.failure)
            if not isinstance(part, Pause):
                yield part

    @abstractmethod
    async def _make_reply(self) -> ScriptedReply:
        """The reply to the last conversation."""


class Scripted(PlayedModel):
    """Plays its replies in order. If there is no reply left, the request fails with a message."""

    def __init__(self, replies: Iterable[ScriptedReply | str]) -> None:
        super().__init__()
        self.replies = [as_reply(one) for one in replies]

    @property
    def left_over(self) -> int:
        return len(self.replies) - len(self.requests)

    async def _make_reply(self) -> ScriptedReply:
        if self.left_over < 0:
            raise ProviderError(Failure(Trouble.INVALID_REQUEST, "the script has no more replies"))
        return self.replies[len(self.requests) - 1]


ReplyLike = ScriptedReply | str
ReplyFunction = Callable[[ShownConversation], ReplyLike | Awaitable[ReplyLike]]


class FunctionModel(PlayedModel):
    """A model whose replies a function makes, async or not. It gets the conversation, and returns `says(...)` or text.

    def answer(shown: ShownConversation) -> str:
        return shown.prompt.upper()

    agent = Agent(model=answer)
    """

    def __init__(self, function: ReplyFunction) -> None:
        super().__init__()
        self._function = function

    async def _make_reply(self) -> ScriptedReply:
        made = self._function(self.conversations[-1])
        return as_reply(made if isinstance(made, ScriptedReply | str) else await made)


def as_reply(reply: object) -> ScriptedReply:
    if isinstance(reply, ScriptedReply):
        return reply
    if isinstance(reply, str):
        return says(reply)
    raise UsageError(f"a scripted model replies with 'says(...)' or text, not with {reply!r}")


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
