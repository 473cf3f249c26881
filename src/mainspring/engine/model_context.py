"""The context of a session: environment and memory, compaction, and notes after a turn. Half of `Deps`.

The layers are loaded only when the conversation is long enough for one of them to act: a short session never pays for
them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, assert_never

from msgspec.structs import replace

from mainspring import engine
from mainspring.context.attachments import PreparedContext, Summary
from mainspring.core.config import Config
from mainspring.core.effects import Compact, CompactionKind
from mainspring.core.messages import Assistant, Block, Content, Message, Text, Thinking, ToolCall, ToolResult, User
from mainspring.core.money import Price, Usage
from mainspring.core.state import State
from mainspring.core.value import Bundle, as_json
from mainspring.core.view import Fold, Replace
from mainspring.engine.sampler import SideCallInterrupted
from mainspring.engine.session_deps import (
    CHARS_PER_TOKEN,
    ViewSize,
    default_cache_marks,
    estimate_tokens,
    since_the_last_reply,
    warm_context,
)
from mainspring.engine.session_deps import size_of as size_of_call
from mainspring.hooks.events import HookPoint, Hooks, NoHooks
from mainspring.providers.base import ToolSpec

if TYPE_CHECKING:
    from mainspring.context.compactor import Compactor
    from mainspring.context.layers import LayerLimits
    from mainspring.context.sources import ContextSources
    from mainspring.engine.side_calls import PostTurnCalls, SideCalls
    from mainspring.engine.tasks import SummarizeTools
    from mainspring.hooks.payloads import Trigger


HEAD_START = 0.01  # seconds for the request to go out before anything else uses the processor
SHORT = 30_000  # characters; no result in such a conversation is too large or old


class ModelContextConfig(Bundle):
    """What a `ModelContext` is made from. Everything but the first two is optional."""

    config: Config
    new_id: Callable[[], str]
    surroundings: ContextSources | None = None
    ask: Callable[[], SideCalls] | None = None  # made with the layers; None: nothing is ever summarized
    folder: str = ""  # for results that are no longer shown; empty: they are not stored
    fixed: Callable[[], int] = int  # bytes of system text and tools
    files: Callable[[], Iterable[tuple[str, str]]] | None = None  # files that were read, newest first: path and text
    hooks: Hooks = NoHooks()
    limits: Callable[[], LayerLimits] | None = None  # of the layers; None: the defaults
    notes: str = ""  # the directory for notes written after a turn; empty: none are written
    suggest: Callable[[str], object] | None = None  # called with the prompt that the user may enter next
    summarizes_tools: bool = False  # one line about each batch of tool calls, for the user


class ModelContext:
    def __init__(self, sight: ModelContextConfig) -> None:
        self._sight = sight
        self._around = sight.surroundings
        self._context: Compactor | None = None
        self._ask: SideCalls | None = None
        self._thoughts: PostTurnCalls | None = None
        self._looked = self._length = 0  # messages that were checked, and their characters
        self._is_near = False  # the layers will be needed soon
        self._view_size = ViewSize()

    @property
    def nonce(self) -> str:
        """The nonce of the session's reminders."""
        return self._around.nonce if self._around is not None else ""

    # --- before a request ---

    async def shrink(self, state: State, queued: tuple[User, ...], now: int) -> PreparedContext:
        added = self._around.attachments(state, now) if self._around is not None else ()
        new = (*added, *queued)
        if self._context is None and self._is_short(state, new):
            since = new if state.totals.replies == 0 else (*since_the_last_reply(state), *new)
            before = state.tokens if state.totals.replies else self._estimate(state) + self._fixed_tokens
            used, spent = self.take_cost()
            return PreparedContext(before + estimate_tokens(since), attachments=added, usage=used, cost=spent)
        made = await self.context.shrink(state, new)
        used, spent = self.take_cost()
        tokens = made.tokens
        if self._around is not None and not all(isinstance(edit, Replace) for edit in made.edits):
            after = replace(state, edits=(*state.edits, *made.edits))
            again = self._around.lost(after, now, new)
            tokens += self.context.weigh(state.model, again)
            added = (*added, *again)
        return replace(made, tokens=tokens, attachments=added, usage=used, cost=spent)

    def _estimate(self, state: State) -> int:
        return self._view_size.of(state.history, ()) // CHARS_PER_TOKEN

    def _is_short(self, state: State, new: tuple[User, ...]) -> bool:
        """Whether no layer would do anything. Checks each new message once."""
        messages = (*state.history.since(max(self._looked, state.history.begin)), *new)
        self._looked = len(state.history)
        self._length += sum(map(message_length, messages))
        room = min(SHORT, self._sight.config.compact_at(state.model) // 2)
        self._is_near = self._length > room // 2
        return not state.edits and self._length <= room

    @property
    def _fixed_tokens(self) -> int:
        return self._sight.fixed() // CHARS_PER_TOKEN

    def marks(self, state: State) -> tuple[str, ...]:
        return default_cache_marks(state.history) if self._context is None else self._context.marks(state)

    @property
    def context(self) -> Compactor:
        if self._context is None:
            from mainspring.context.compactor import Compactor

            sight = self._sight
            self._context = Compactor(
                sight.config,
                new_id=sight.new_id,
                ask=self.ask,
                small=self.ask.small.price if self.ask is not None else Price(),
                folder=sight.folder,
                fixed=sight.fixed(),
                limits=sight.limits() if sight.limits is not None else None,
                files=sight.files,
                steering=self._steering,
            )
        return self._context

    @property
    def ask(self) -> SideCalls | None:
        """The side calls, also for tools. The next request reports their cost."""
        if self._ask is None and self._sight.ask is not None:
            self._ask = self._sight.ask()
        return self._ask

    def take_cost(self) -> tuple[Usage, int]:
        """The usage and cost of side calls that no event has reported yet."""
        return self._ask.taken() if self._ask is not None else (Usage(), 0)

    def _steering(self) -> str:
        return self._around.memory.compaction if self._around is not None else ""

    # --- in the background ---

    async def recall(self, state: State) -> tuple[User, ...]:
        await asyncio.sleep(HEAD_START)
        if self._context is None and self._is_near:
            warm_context()
        return await self._around.recall(state) if self._around is not None else ()

    async def stage(self, state: State) -> None:
        """The next request reports the cost."""
        if self._context is not None:
            await self._context.stage(state.model)

    @property
    def summarize_tools(self) -> SummarizeTools | None:
        return self._summarize_tools if self._sight.summarizes_tools and self._sight.ask is not None else None

    async def _summarize_tools(self, calls: tuple[ToolCall, ...], results: tuple[ToolResult, ...]) -> str:
        """The next event reports the cost. Raises `ToolSummaryError`."""
        await asyncio.sleep(HEAD_START)  # the request reserves its money first
        ask = self.ask
        assert ask is not None
        return await engine.summarize_tool_calls(ask, calls, results)

    # --- after a turn ---

    def afterwards(self, state: State) -> None:
        """Start the side calls after a turn, in the background."""
        sight = self._sight
        if self._thoughts is None and (sight.notes or sight.suggest) and (ask := self.ask) is not None:
            self._thoughts = engine.PostTurnCalls(ask, sight.notes, sight.suggest)
        if self._thoughts is not None:
            self._thoughts.start(state)

    def drop_suggestion(self) -> None:
        """Ignore a suggestion that is still to come: the user has sent the next prompt."""
        if self._thoughts is not None:
            self._thoughts.drop_suggestion()

    async def await_suggestion(self) -> None:
        """Wait until the last turn's suggestion has arrived, if one is to come, but not for long."""
        if self._thoughts is not None:
            await self._thoughts.await_suggestion()

    async def close(self) -> None:
        if self._thoughts is not None:
            await self._thoughts.close()

    # --- compaction ---

    async def summarize(self, state: State, effect: Compact) -> Summary:
        context = self.context
        if self._ask is not None:
            self._ask.model = state.model
        if effect.how is not CompactionKind.SUMMARY:
            return await context.summarize(state, effect)
        trigger: Trigger = "auto" if effect.asked is None else "manual"
        made = Summary()
        try:
            wishes, refused = await self._before(trigger, effect.asked)
            if refused:
                return Summary(failed=refused)
            made = await context.summarize(state, effect, "\n".join([effect.asked or "", wishes]).strip())
            await self._after(trigger, made)
        except SideCallInterrupted:
            raise
        except asyncio.CancelledError:  # the run was interrupted while a hook ran
            raise SideCallInterrupted(made.usage, made.cost) from None
        return made

    async def _before(self, trigger: Trigger, asked: str | None) -> tuple[str, str]:
        """The instructions of hooks for a summary, and the reason if a hook forbids it."""
        hooks = self._sight.hooks
        if not hooks.any_at(HookPoint.PRE_COMPACT):
            return "", ""
        from mainspring.hooks.payloads import make_compaction_payload

        opinion = await hooks.ask(HookPoint.PRE_COMPACT, make_compaction_payload(trigger, asked))
        if opinion.block or opinion.stop is not None:
            return "", f"a hook forbids it: {opinion.reason or opinion.stop or 'no reason given'}"
        return "\n".join(opinion.context), ""

    async def _after(self, trigger: Trigger, made: Summary) -> None:
        hooks = self._sight.hooks
        if made.failed or not hooks.any_at(HookPoint.POST_COMPACT):
            return
        from mainspring.hooks.payloads import make_summary_payload

        text = "\n".join([edit.summary.text for edit in made.edits if isinstance(edit, Fold)])
        await hooks.ask(HookPoint.POST_COMPACT, make_summary_payload(trigger, text))


def message_length(message: Message) -> int:
    """In characters; an image counts as enough to load the layers."""
    match message:
        case User() | ToolResult():
            parts: tuple[Content | Block, ...] = message.content
        case Assistant():
            parts = message.blocks
        case _:
            assert_never(message)
    return sum([LENGTHS[type(part)](part) if type(part) in LENGTHS else SHORT for part in parts])


LENGTHS: dict[type, Callable[[Any], int]] = {
    Text: lambda part: len(part.text),
    Thinking: lambda part: len(part.text),
    ToolCall: size_of_call,
}


def size_of(system: tuple[str, ...], tools: Iterable[ToolSpec]) -> int:
    """The fixed part of a request, in bytes."""
    described = sum([len(tool.name) + len(tool.description) + len(as_json(tool.schema)) for tool in tools])
    return described + sum(map(len, system))
