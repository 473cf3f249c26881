"""The world of an agent: a provider, and hands with rules, hooks and somebody to ask."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mainspring.core.events import StopDecision
from mainspring.core.messages import Assistant, User
from mainspring.engine.background import SideJobs
from mainspring.engine.deps import CallQuestion
from mainspring.engine.session_deps import BasicDeps, estimate_tokens
from mainspring.hooks.events import HookPoint, HookResult

if TYPE_CHECKING:
    from mainspring.context.attachments import PreparedContext, Summary
    from mainspring.core.effects import Compact, RunStopHooks
    from mainspring.core.state import State
    from mainspring.engine.model_context import ModelContext
    from mainspring.engine.tool_words import ToolReminders
    from mainspring.providers.base import Provider
    from mainspring.sessions.records import Journal
    from mainspring.tools.toolset import Toolset

Answerer = Callable[[CallQuestion], Awaitable[str]]


class AgentDeps(BasicDeps):
    """`Deps` from a provider and hands."""

    def __init__(  # noqa: PLR0913  # keywords, most of them
        self,
        provider: Provider,
        hands: Toolset,
        *,
        journal: Journal | None = None,
        system: tuple[str, ...] | Callable[[], tuple[str, ...]] = (),
        answer: Answerer | None = None,
        mind: ModelContext | None = None,
        before_turn: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Without a `mind`, nothing is ever taken out of the conversation, and nothing put into it. `before_turn`:
        tools that come later may come now."""
        super().__init__(provider, journal=journal, system=system)
        self._hands = hands
        self._mind = mind
        self._answer = answer
        self._before_turn = before_turn
        self._expected: set[str] = set()
        self._tool_words: ToolReminders | None = None

    def marks(self, state: State) -> tuple[str, ...]:
        return self._mind.marks(state) if self._mind is not None else super().marks(state)

    async def shrink(self, state: State, queued: tuple[User, ...]) -> PreparedContext:
        if self._before_turn is not None:
            await self._before_turn()
        words = self._words
        late = words.late(state) if words is not None else ()
        made = await self._shrunk(state, (*late, *queued))
        kept = words.kept(state, made.edits) if words is not None else ()
        if not late and not kept:
            return made
        return replace(made, tokens=made.tokens + estimate_tokens(kept), attachments=(*made.attachments, *late, *kept))

    async def _shrunk(self, state: State, new: tuple[User, ...]) -> PreparedContext:
        if self._mind is None:
            return await super().shrink(state, new)
        return await self._mind.shrink(state, new, self.now())

    @property
    def _words(self) -> ToolReminders | None:
        """None: most sessions have nothing of the kind."""
        if self._tool_words is None and (self.hands.untold or self.hands.keeps):
            from mainspring.engine.tool_words import ToolReminders

            self._tool_words = ToolReminders(self.hands, self._mind.nonce if self._mind is not None else "")
        return self._tool_words

    async def summarize(self, state: State, effect: Compact) -> Summary:
        if self._mind is None:
            return await super().summarize(state, effect)
        made, words = await self._mind.summarize(state, effect), self._words
        return words.in_summary(made, state) if made.edits and words is not None else made

    @property
    def side_jobs(self) -> SideJobs:
        """For `EngineSession(side_jobs=...)`: loading tools while the model writes a call, and what the mind does
        beside."""
        if self._mind is None:
            return SideJobs(self._expect_tool)
        return SideJobs(self._expect_tool, self._mind.recall, self._mind.stage)

    def _expect_tool(self, tool: str) -> None:
        if tool not in self._expected:
            from mainspring.engine.warming import preload_tool

            self._expected.add(tool)
            preload_tool(tool)

    async def ask(self, question: CallQuestion) -> str:
        return await (self._answer(question) if self._answer is not None else super().ask(question))

    async def stop_hooks(self, state: State, effect: RunStopHooks) -> StopDecision:
        if self._mind is not None:
            self._mind.afterwards(state)  # before the hooks, which may take their time (I-06)
        hooks = self.hands.hooks
        if not hooks.any_at(HookPoint.STOP):
            return StopDecision()
        from mainspring.hooks.payloads import make_stop_payload  # with the first hook

        return make_stop_decision(
            await hooks.ask(HookPoint.STOP, make_stop_payload(active=effect.active, last=last_said(state)))
        )


def last_said(state: State) -> str:
    """By the model."""
    return next((m.text for m in state.history.newest_first() if isinstance(m, Assistant)), "")


def make_stop_decision(opinion: HookResult) -> StopDecision:
    """What hooks say about an end: of a session, or of an agent."""
    if opinion.stop is not None:
        return StopDecision(prevent=opinion.stop)
    return StopDecision((opinion.reason or "A hook wants you to go on.",)) if opinion.block else StopDecision()
