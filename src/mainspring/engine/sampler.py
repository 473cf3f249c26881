"""One model call, from stream items to blocks, calls and a reply."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import assert_never

from msgspec.structs import replace

from mainspring.core.effects import CallModel, Request
from mainspring.core.errors import ProviderError
from mainspring.core.events import CallFailed, Event, Replied
from mainspring.core.messages import Assistant, Block, RedactedThinking, ServerBlock, Stop, Text, Thinking, ToolCall
from mainspring.core.money import Price, Usage, cost, shortfall
from mainspring.core.reasons import Failure, Trouble
from mainspring.core.state import State
from mainspring.core.updates import (
    BlockDone,
    BlockKind,
    BlockStarted,
    Boundary,
    Delta,
    ReplyStarted,
    Retrying,
    Update,
)
from mainspring.engine.deps import Deps
from mainspring.engine.executor import Executor
from mainspring.engine.shared_state import SharedState
from mainspring.providers.base import (
    Batch,
    BlockDelta,
    BlockFinished,
    BlockOpened,
    PrefixBreak,
    ResultsCleared,
    Retry,
    StreamEnded,
    StreamStarted,
)
from mainspring.sessions.records import BlockRecord, DeltaRecord, NoJournal, NoteRecord, PrefixRecord, RetryRecord

CHARS_PER_TOKEN = 3  # slightly low, so that the estimate for an aborted call errs high

NO_END = Failure(Trouble.NETWORK, "the stream ended before the reply did")


class SideCallInterrupted(asyncio.CancelledError):
    """A side call was interrupted: a cancellation that reports what was spent until then."""

    def __init__(self, usage: Usage, cost: int) -> None:
        super().__init__()
        self.usage = usage
        self.cost = cost  # nano-dollars


@lru_cache(64)
def intern_usage(usage: Usage) -> Usage:
    """The same object for equal counts: every reply keeps one, and a server that sends no usage repeats itself."""
    return usage


class ReplyDraft:
    """A reply as it streams."""

    def __init__(self, reply_id: str, request: Request, at: int, prompt_tokens: int, price: Price) -> None:
        self.reply_id = reply_id
        self.request = request
        self.model = request.model
        self.price = price
        self.at = at
        self.attempt = request.retried.attempts + 1 if request.retried is not None else 1
        self.waited = 0  # milliseconds before the attempts of this call
        self.settled = False  # with the ledger
        self.priced = False  # the prefix breaks that it paid for are reported
        self.usage = Usage(input=prompt_tokens)  # until the server reports better figures
        self.begun = False  # the server has begun to reply, and to charge
        self.handed_on = False  # part of it was shown: from now on the core handles a failure
        self.cleared = 0  # tokens that the service removed from the prompt
        self.blocks: list[Block] = []
        self.open_kind: BlockKind | None = None
        self.open_text: list[str] = []

    def piece(self, piece: BlockDelta) -> None:
        self.handed_on = True
        self.open_kind = piece.kind
        self.open_text.append(piece.text)

    def block(self, block: Block) -> None:
        self.handed_on = True
        self.blocks.append(block)
        self.open_kind = None
        self.open_text = []

    def close_text(self) -> Text | None:
        """Make a block of text that was still streaming when the stream ended, because it was shown."""
        if self.open_kind is not BlockKind.TEXT:
            return None
        text = Text("".join(self.open_text))
        self.block(text)
        return text

    def record(self, index: int, block: Block, at: int) -> BlockRecord:
        return BlockRecord(self.reply_id, index, block, at, self.model, self.usage if self.begun else Usage())

    def reply(self, stop: Stop, usage: Usage, model: str = "") -> Assistant:
        return Assistant(
            tuple(self.blocks), model or self.model, stop, intern_usage(usage), id=self.reply_id, at=self.at
        )

    @property
    def spent(self) -> Usage:
        """The cost of an unfinished call, as far as known (settled 14). A call without any answer is free."""
        if not (self.begun or self.handed_on):
            return Usage()
        written = sum(map(len, self.open_text)) + sum(map(block_characters, self.blocks))
        output = max(self.usage.output, min(written // CHARS_PER_TOKEN, self.request.max_output))
        return replace(self.usage, output=output, estimated=True)


def block_characters(block: Block) -> int:
    """Characters that the model wrote for a block."""
    match block:
        case Text() | Thinking():
            return len(block.text)
        case ToolCall():
            return len(str(block.input))
        case RedactedThinking():
            return len(block.data)
        case ServerBlock():
            return len(block.json)
        case _:
            assert_never(block)


class Sampler:
    """Performs `CallModel`. After an interrupt, the reply is what it has collected so far."""

    def __init__(  # noqa: PLR0913  # what a call is made of
        self,
        deps: Deps,
        shared: SharedState,
        executor: Executor,
        show: Callable[[Update], None],
        *,
        deltas: bool,
        expect_tool: Callable[[str], None] | None = None,
    ) -> None:
        self._deps = deps
        self._journal = deps.journal
        self._journals = not isinstance(self._journal, NoJournal)  # else no records are made
        self._shared = shared
        self._executor = executor
        self._show = show
        self._deltas = deltas
        self._expect_tool = expect_tool
        self._draft: ReplyDraft | None = None

    async def call(self, effect: CallModel, state: State) -> Event:
        request, ledger = effect.request, self._shared.ledger
        if not await ledger.reserve_in_turn(request.reserve):
            words = shortfall(ledger.funds or 0, request.reserve, state.tokens, request.max_output)
            return CallFailed(Failure(Trouble.FUNDS, words), funds=ledger.funds)
        draft = self._draft = ReplyDraft(
            self._deps.new_id(), request, self._deps.now(), state.tokens, state.model.price
        )
        try:
            event = await self._stream(effect, state, draft)
        except BaseException:
            self._settle(draft, draft.spent, state)
            raise
        self._settle(draft, event.reply.usage if isinstance(event, Replied) else event.usage, state)
        self._draft = None
        return replace(event, funds=ledger.funds)

    def _settle(self, draft: ReplyDraft, spent: Usage, state: State) -> None:
        """Release the reservation, once: an abandoned call may end long after it was written off."""
        if not draft.settled:
            draft.settled = True
            self._shared.ledger.settle(draft.request.reserve, cost(spent, state.model.price))

    async def _stream(self, effect: CallModel, state: State, draft: ReplyDraft) -> Replied | CallFailed:
        try:
            stream = self._deps.stream(effect.request, state, self._shared.policy)
            try:  # as `aclosing` does
                async for batch in stream:
                    if ended := await self._take(batch, draft):
                        self._shared.cleared = draft.cleared
                        if not draft.priced:
                            await self._price_breaks(ended.usage, draft)
                        return Replied(draft.reply(ended.stop, ended.usage, ended.model))
            finally:
                await stream.aclose()
        except ProviderError as error:
            return await self._failed(error.failure, draft)
        return await self._failed(NO_END, draft)

    async def _failed(self, failure: Failure, draft: ReplyDraft) -> CallFailed:
        inside_call = failure.inside_call or draft.open_kind is BlockKind.INPUT
        await self._close_text(draft)
        kept = draft.reply(Stop.UNFINISHED, draft.spent) if draft.handed_on or draft.begun else None
        failure = replace(failure, inside_call=inside_call)
        return CallFailed(failure, kept, draft.spent, attempt=draft.attempt, waited=draft.waited)

    async def _close_text(self, draft: ReplyDraft) -> None:
        """Text that was streaming when a reply broke off was shown, so make it a block."""
        index, text = len(draft.blocks), draft.close_text()
        if text is not None:
            await self._journal.append(draft.record(index, text, self._deps.now()))
            self._show(BlockDone(draft.reply_id, index, text))

    async def _take(self, batch: Batch, draft: ReplyDraft) -> StreamEnded | None:
        """Hand on the items of one socket read. Journals its deltas together, before it shows the first."""
        if draft is not self._draft:
            raise asyncio.CancelledError  # this call was abandoned
        if len(batch) == 1 and isinstance(piece := batch[0], BlockDelta):  # most reads, and most of a run's time
            draft.piece(piece)
            if self._deltas:
                delta = Delta(draft.reply_id, len(draft.blocks), piece.kind, piece.text)
                if self._journals:
                    await self._journal.append(DeltaRecord((delta,), self._deps.now()))
                self._show(delta)
            return None
        deltas = self._deltas_of(batch, draft) if self._deltas else ()
        if deltas and self._journals:
            await self._journal.append(DeltaRecord(deltas, self._deps.now()))
        shown = iter(deltas)
        for item in batch:
            if isinstance(item, BlockDelta):
                draft.piece(item)
                if deltas:
                    self._show(next(shown))
            elif isinstance(item, StreamEnded):
                return item
            else:
                await self._take_other(item, draft)
        return None

    def _deltas_of(self, batch: Batch, draft: ReplyDraft) -> tuple[Delta, ...]:
        index, deltas = len(draft.blocks), list[Delta]()
        for item in batch:
            if isinstance(item, BlockDelta):
                deltas.append(Delta(draft.reply_id, index, item.kind, item.text))
            elif isinstance(item, BlockFinished):
                index += 1
        return tuple(deltas)

    async def _take_other(
        self,
        item: StreamStarted | BlockOpened | BlockFinished | ResultsCleared | PrefixBreak | Retry,
        draft: ReplyDraft,
    ) -> None:
        match item:
            case BlockFinished():
                await self._finish_block(item.block, draft)
            case StreamStarted():
                draft.usage, draft.begun = item.usage, True
                self._show(ReplyStarted(draft.reply_id, draft.model, item.usage))
                if item.usage.prompt > item.usage.input:  # with figures about the cache
                    await self._price_breaks(item.usage, draft)
            case BlockOpened():
                if item.name and self._expect_tool is not None:
                    with suppress(Exception):  # a side job: its failure is silent
                        self._expect_tool(item.name)
                if self._deltas:
                    self._show(BlockStarted(draft.reply_id, len(draft.blocks), item.kind, item.id, item.name))
            case ResultsCleared():
                await self._left_out(item, draft)
            case PrefixBreak():
                self._shared.prefix.found(item)
            case Retry():
                draft.attempt = item.attempt + 1 if item.most else draft.attempt
                draft.waited += 0 if item.beat else item.delay
                retry = RetryRecord(item.failure, item.attempt, item.delay, self._deps.now(), item.most)
                await self._journal.append(retry)
                self._show(Retrying(item.failure, item.attempt, item.delay, item.most, item.beat))
            case _:
                assert_never(item)

    async def _price_breaks(self, usage: Usage, draft: ReplyDraft) -> None:
        """Once per reply, as soon as the server has reported what it read from its cache: some do so at the end."""
        draft.priced, now = True, self._deps.now()
        for broken in self._shared.prefix.read(usage, draft.price, now):
            told = (broken.block, broken.what, broken.why, broken.tokens, broken.price, now)
            await self._journal.append(PrefixRecord(*told, broken.reason, broken.layers, broken.estimated))
            self._show(broken)

    async def _left_out(self, item: ResultsCleared, draft: ReplyDraft) -> None:
        """The service gets the whole history each time, and reports each time how much of it the model did not see.
        Only the increase since the last reply is new."""
        draft.cleared, more = item.tokens, item.tokens - self._shared.cleared
        if more > 0:
            words = f"{more} tokens; {item.tokens} in {item.results} results so far"
            await self._journal.append(NoteRecord("cleared by the service", words, self._deps.now()))
            self._show(Boundary("microcompact", freed=more))

    async def _finish_block(self, block: Block, draft: ReplyDraft) -> None:
        if isinstance(block, ToolCall):
            block = with_unique_id(block, self._shared.call_ids, self._deps.new_id)
        index = len(draft.blocks)
        if self._journals:
            await self._journal.append(draft.record(index, block, self._deps.now()))
        draft.block(block)
        self._show(BlockDone(draft.reply_id, index, block))
        if isinstance(block, ToolCall) and block.defect is None:
            self._executor.offer(block)

    async def interrupted(self, state: State) -> tuple[Assistant | None, Usage]:
        """The result of an interrupted call: the part that was shown, and its cost."""
        draft, self._draft = self._draft, None
        if draft is None:
            return None, Usage()
        self._settle(draft, draft.spent, state)
        if not draft.handed_on:
            return None, draft.spent
        await self._close_text(draft)
        return draft.reply(Stop.UNFINISHED, draft.spent), draft.spent

    def salvage(self) -> Assistant | None:
        """The finished blocks of a reply that a crash cut off; nothing more can be journaled."""
        draft, self._draft = self._draft, None
        return draft.reply(Stop.UNFINISHED, draft.spent) if draft is not None else None


def with_unique_id(call: ToolCall, taken: set[str], new_id: Callable[[], str]) -> ToolCall:
    """Some servers use an id twice. The second call gets a new id, so that both can be answered."""
    if not call.id or call.id in taken:
        call = replace(call, id=f"toolu_{new_id()}")
    taken.add(call.id)
    return call
