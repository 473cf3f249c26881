"""Arrange any list of messages, however cut, in an order that the API accepts (law 2).

    users and results before the first reply | reply, its results, what users said | reply, its results, ... | end

Each call is followed by its own result, or by a text that says there is none. A result without its call becomes plain
text. Thinking that another model signed, thinking at the end of a reply, empty text and half server-side calls are
dropped. This module knows no wire format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Literal

import msgspec
from msgspec.structs import replace

from mainspring.core.messages import (
    Assistant,
    Block,
    Content,
    Document,
    Image,
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
from mainspring.core.models import same_model
from mainspring.core.pairing import NeverRan
from mainspring.core.value import Bundle

Role = Literal["user", "assistant"]

EARLIER = Text("[The conversation before this point is not shown.]")
GO_ON = Text("Go on.")  # the request must end with a user message, and there is none
ORPHAN = "[The result of a tool call that is no longer shown]"
NO_OUTCOME = (Text(NeverRan.LOST),)
REASONING = ("reasoning_content", "reasoning")  # chat fields for thinking: the field's name is the signature
APART = Text("[An image or document of this result is shown in the message that follows.]")


class PlacedToolResult(Bundle):
    """A tool result, after the call with this id."""

    call_id: str
    content: tuple[Content, ...]
    is_error: bool


Part = Content | Block | PlacedToolResult


class PlacedPart(Bundle):
    role: Role
    owner: str  # the id of its message; empty for a part that we added
    part: Part


def accept_every_block(_: Block) -> bool:
    return True


def accept_no_block(_: Block) -> bool:
    return False


class ProjectionTarget(Bundle):
    """Which thinking may be shown, and which parts the protocol supports."""

    model: str
    thinking: bool = False
    leads: bool = False  # budgeted thinking: it begins a reply and a tool loop, or there is none
    distrusted: frozenset[str] = frozenset()  # replies whose signatures, or server-side blocks, the server refused
    takes: Callable[[Block], bool] = accept_every_block  # blocks of a reply that the protocol can express
    calls_last: bool = False  # a reply's calls come after all of its text,
    of_call: Callable[[Block], bool] = accept_no_block  # with the parts that belong to the next call: its signature,
    first: Callable[[Block], bool] = accept_no_block  # and these first
    media_apart: bool = False  # results contain only text: their media follow the last of them, as a user message


class ReplyRun(Bundle):
    """Consecutive replies, and everything up to the next reply."""

    replies: list[Assistant]
    others: list[User | ToolResult]


def split_reply_runs(messages: Iterable[Message]) -> list[ReplyRun]:
    split = [ReplyRun([], [])]
    for message in messages:
        if not isinstance(message, Assistant):
            split[-1].others.append(message)
        elif split[-1].others or not split[-1].replies:
            split.append(ReplyRun([message], []))
        else:
            split[-1].replies.append(message)
    return split if split[0].others else split[1:]


class MessageOrder:
    """Places the runs of a list of messages in order. It knows all of their calls and results."""

    def __init__(self, messages: Sequence[Message], target: ProjectionTarget, taken: set[str], loose: set[str]) -> None:
        self._target = target
        self._taken = taken  # ids of calls placed before this list,
        self._loose = loose  # and results there without a call
        self.placed_ids: set[str] = set()
        self.loose_ids: set[str] = set()  # of results and calls, as given, that may belong to a later call
        self.unanswered = False  # a call had no result, so a text was added
        self._leads: bool | None = None  # the current assistant message begins with thinking
        self._calls = {call.id for message in messages if isinstance(message, Assistant) for call in message.calls}
        self._results: dict[str, list[ToolResult]] = {}
        for message in messages:
            if isinstance(message, ToolResult):
                self._results.setdefault(message.call_id, []).append(message)
        for found in self._results.values():
            found.sort(key=lambda result: result.synthetic)  # an added result never replaces a real one

    @property
    def is_self_contained(self) -> bool:
        """The list has no result for an earlier call, and reuses no earlier call id, not even in a result."""
        apart = self._calls.isdisjoint(self._taken) and self._calls.isdisjoint(self._loose)
        return apart and self._results.keys() <= self._calls

    def is_apart_from(self, ids: set[str], loose: set[str]) -> bool:
        """The same for calls that are placed before it, too."""
        return self._calls.isdisjoint(ids) and self._calls.isdisjoint(loose)

    def place(self, run: ReplyRun, *, ends: bool) -> Iterator[PlacedPart]:
        sound = self._whole(run.replies, paused=ends and not run.others)
        self._leads = None
        for number, reply in enumerate(run.replies):
            yield from self._reply(reply, [at for row, at in sound if row == number])
        for message in run.others:
            if isinstance(message, User):
                for part in message.content:
                    if not is_empty(part):
                        yield PlacedPart("user", message.id, part)
                continue
            if message.call_id not in self.placed_ids:
                self.loose_ids.add(message.call_id)
            if message.call_id not in self._calls:
                yield from place_orphan_result(message)

    def _reply(self, reply: Assistant, servers: list[int]) -> Iterator[PlacedPart]:
        calls: list[tuple[str, ToolCall]] = []
        for block in self._kept(reply, servers):
            part = block
            if isinstance(block, ToolCall):
                part = self._with_id_of_its_own(block)
                calls.append((block.id, part))
            yield PlacedPart("assistant", reply.id, part)
        answers = [self._answer(given_id, call.id) for given_id, call in calls]
        if answers:
            self._leads = None  # the next reply is a separate message
        yield from move_media_behind(answers) if self._target.media_apart else answers

    def _kept(self, reply: Assistant, servers: list[int]) -> list[Block]:
        thinks = (
            self._target.thinking
            and reply.id not in self._target.distrusted
            and same_model(reply.model, self._target.model)
        )
        kept: list[Block] = [
            block
            for at, block in enumerate(reply.blocks)
            if (at in servers if isinstance(block, ServerBlock) else is_sound(block, thinks=thinks))
            and self._target.takes(block)
        ]
        if self._target.calls_last:
            first, of_call = self._target.first, self._target.of_call
            kept.sort(key=lambda block: (not first(block), isinstance(block, ToolCall) or of_call(block)))
            before_calls = {at - 1 for at, block in enumerate(kept) if isinstance(block, ToolCall)}
            kept = [block for at, block in enumerate(kept) if at in before_calls or not of_call(block)]
        if kept and self._leads is None:
            self._leads = isinstance(kept[0], Thinking | RedactedThinking)
        if self._target.leads and not self._leads:
            kept = [block for block in kept if not isinstance(block, Thinking | RedactedThinking)]
        while kept and isinstance(kept[-1], Thinking | RedactedThinking):
            kept.pop()  # K-02; a reply with only thinking says nothing
        return kept

    def _whole(self, replies: list[Assistant], *, paused: bool) -> set[tuple[int, int]]:
        """The positions of server-side blocks that may be shown: a call that is followed by its result, and that
        result.

        A call without a result passes, too, if the turn was paused: the server continues from there.
        """
        sound: set[tuple[int, int]] = set()
        begun: dict[str, tuple[int, int]] = {}
        for row, reply in enumerate(replies):
            for at, block in enumerate(reply.blocks):
                half = half_of(block) if isinstance(block, ServerBlock) else None
                if half is None or half.id in self.placed_ids or half.id in self._taken:
                    continue
                if half.tool_use_id in begun:
                    self.placed_ids.add(half.tool_use_id)
                    sound |= {begun.pop(half.tool_use_id), (row, at)}
                elif half.id:
                    begun.setdefault(half.id, (row, at))
                elif not half.tool_use_id and reply.id not in self._target.distrusted:
                    sound.add((row, at))
            if reply.calls:
                begun.clear()  # their results come between: the next part starts another message
        if paused and replies and replies[-1].stop is Stop.PAUSE_TURN:
            blocks = replies[-1].blocks
            at_the_end = takewhile(lambda at: isinstance(blocks[at], ServerBlock), range(len(blocks) - 1, -1, -1))
            sound |= {(len(replies) - 1, at) for at in at_the_end} & set(begun.values())
        return sound

    def _with_id_of_its_own(self, call: ToolCall) -> ToolCall:
        wanted = clean_tool_name(call.id) or "call"
        own, number = wanted, 1
        while own in self.placed_ids or own in self._taken:
            number += 1
            own = f"{wanted}-{number}"
        self.placed_ids.add(own)
        if own == call.id:
            return call
        self.loose_ids.add(call.id)
        return replace(call, id=own)

    def _answer(self, given_id: str, call_id: str) -> PlacedPart:
        found = self._results.get(given_id)
        if not found:
            self.unanswered = True
            return PlacedPart("user", "", PlacedToolResult(call_id, NO_OUTCOME, is_error=True))
        result = found.pop(0)
        return PlacedPart("user", result.id, PlacedToolResult(call_id, result.content, result.is_error))


def move_media_behind(answers: list[PlacedPart]) -> Iterator[PlacedPart]:
    """The results without their images and documents, followed by these."""
    shown: list[PlacedPart] = []
    for placed in answers:
        answer = placed.part
        assert isinstance(answer, PlacedToolResult)
        media = [part for part in answer.content if isinstance(part, Image | Document)]
        if media:
            shown += [PlacedPart("user", placed.owner, part) for part in media]
            text = tuple([part for part in answer.content if isinstance(part, Text)])
            placed = replace(placed, part=replace(answer, content=(*text, APART)))  # noqa: PLW2901
        yield placed
    yield from shown


def place_orphan_result(result: ToolResult) -> Iterator[PlacedPart]:
    yield PlacedPart("user", result.id, Text(f"{ORPHAN}\n{result.text}".rstrip()))
    for part in result.content:
        if not isinstance(part, Text):
            yield PlacedPart("user", result.id, part)


# --- what is sound by itself ------------------------------------------------------------------------


def is_empty(part: Content | Block) -> bool:
    return isinstance(part, Text) and not part.text.strip()


def is_sound(block: Block, *, thinks: bool) -> bool:
    match block:
        case Thinking():
            return thinks and bool(block.signature)
        case RedactedThinking():
            return thinks and bool(block.data)
        case _:
            return not is_empty(block)


NAME_LENGTH = 128


def clean_tool_name(name: str) -> str:
    """Letters, digits, `_` and `-`: all that the API allows in the name or the id of a call."""
    if name.isascii() and name.replace("_", "a").replace("-", "a").isalnum():
        return name
    return "".join([char if char.isascii() and (char.isalnum() or char in "_-") else "_" for char in name])


class _Half(msgspec.Struct):
    """The ids that connect the two halves of a server-side tool call; both are empty for any other block."""

    id: str = ""
    tool_use_id: str = ""


def half_of(block: ServerBlock) -> _Half | None:
    try:
        return msgspec.json.decode(block.json, type=_Half)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
