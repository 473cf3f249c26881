"""The plainest world that is real: a provider, tools of the caller, the system's clock and ids.

No journal but the caller's own. No context layers, no permissions, no hooks: those come with `equipped.py`. A long
conversation is not compacted here; it runs into the model's window and says so.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import TYPE_CHECKING, Any

from mainspring.context.attachments import PreparedContext, Summary
from mainspring.core.config import Config
from mainspring.core.effects import Compact, Request, RunStopHooks
from mainspring.core.errors import UsageError
from mainspring.core.events import StopDecision
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Message, ToolCall, ToolResult, User
from mainspring.core.state import State
from mainspring.core.view import Edit, view
from mainspring.engine.deps import CallQuestion, EngineCallContext, ToolOutcome
from mainspring.engine.ledger import Ledger
from mainspring.engine.run import Run
from mainspring.engine.session import EngineSession
from mainspring.engine.shared_state import EnginePolicy
from mainspring.providers.base import Batch, Conversation, Provider, RequestCache, ToolSpec
from mainspring.sessions.records import Journal, NoJournal

if TYPE_CHECKING:
    from mainspring.tools.base import Tool
    from mainspring.tools.toolset import Toolset

CHARS_PER_TOKEN = 3  # English has rather more, code about as many: the estimate errs on the high side (D-31)


class BasicDeps:
    """`Deps` from a provider and some tools."""

    def __init__(
        self,
        provider: Provider,
        tools: Iterable[Tool] = (),
        *,
        journal: Journal | None = None,
        system: tuple[str, ...] | Callable[[], tuple[str, ...]] = (),
    ) -> None:
        """`system`: the system prompt, or who knows it when a request is built."""
        self._provider = provider
        self._tools = tuple(tools)
        self._hands: Toolset | None = None
        self._journal: Journal = journal or NoJournal()
        self._cache = RequestCache()
        self._view_size = ViewSize()
        self._system = system

    @property
    def system(self) -> tuple[str, ...]:
        return self._system() if callable(self._system) else self._system

    @property
    def hands(self) -> Toolset:
        if self._hands is None:
            self._hands = own_hands(self._tools)
        return self._hands

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What the model is told of, as it is now: the tools of a server come later."""
        return () if self._hands is None and not self._tools else self.hands.specs

    def stream(self, request: Request, state: State, policy: EnginePolicy) -> AsyncGenerator[Batch, None]:
        specs = self.specs
        if policy.tools is not None:
            specs = tuple([spec for spec in specs if spec.name in policy.tools])
        conversation = Conversation(state.history, state.edits, self.system, specs, self.marks(state), self._cache)
        return self._provider.stream(request, conversation)

    def marks(self, state: State) -> tuple[str, ...]:
        """Where the cached part of the next request may end."""
        return default_cache_marks(state.history)

    async def shrink(self, state: State, queued: tuple[User, ...]) -> PreparedContext:
        if state.totals.replies and not queued:
            return PreparedContext(state.tokens + estimate_tokens(since_the_last_reply(state)))
        return PreparedContext(
            (self._view_size.of(state.history, state.edits) + sum(map(message_characters, queued))) // CHARS_PER_TOKEN
        )

    async def summarize(self, state: State, effect: Compact) -> Summary:  # noqa: ARG002  # nothing to do it with
        return Summary(failed="there are no context layers in this run")

    async def run_tool(self, call: ToolCall, asking: EngineCallContext) -> ToolOutcome:
        from mainspring.engine.outcomes import outcome_of  # with the first call

        return outcome_of(await self.hands.run(call, asking), call)

    def is_concurrent(self, call: ToolCall) -> bool:
        return self.hands.is_concurrent(call)

    def describe(self, call: ToolCall) -> str:
        """One line about a call, for a person: `EngineSession(describe=...)`."""
        return self.hands.line(call)

    async def stop_hooks(self, state: State, effect: RunStopHooks) -> StopDecision:  # noqa: ARG002  # there are none
        return StopDecision()

    async def ask(self, question: CallQuestion) -> str:
        raise UsageError(f"'{question.text}' was asked, and this run has nobody to answer")

    @property
    def journal(self) -> Journal:
        return self._journal

    def now(self) -> int:
        return int(time.time() * 1_000)  # each message keeps one: `time_ns() // 1_000_000` takes 48 bytes, not 32

    def new_id(self) -> str:
        return new_id()


def new_id() -> str:
    """A random uuid (version 4). `uuid` itself takes as long to import as the whole core."""
    hexed = bytearray(os.urandom(16))
    hexed[6] = hexed[6] & 0x0F | 0x40
    hexed[8] = hexed[8] & 0x3F | 0x80
    text = hexed.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def own_hands(tools: tuple[Tool, ...]) -> Toolset:
    """The caller's own tools: nobody need be asked about them."""
    from mainspring.permissions.checker import AllowAll
    from mainspring.tools.base import Workspace
    from mainspring.tools.toolset import Toolset

    return Toolset(tools, place=Workspace(os.getcwd()), gate=AllowAll())  # noqa: PTH109  # pathlib takes 8 ms to load


def default_cache_marks(history: History) -> tuple[str, ...]:
    """Where the cached part of a request may end: at its last message, and where the last request ended.

    The second one matters after many parallel calls: the cache looks back over 20 blocks only, and without a mark in
    reach the whole history is written anew.
    """
    found: list[str] = []
    replied = False
    for message in history.newest_first():
        if isinstance(message, Assistant):
            replied = True
        elif not found or replied:
            found.append(message.id)
            if replied:
                break
    return tuple(found)


def estimate_tokens(messages: Iterable[Message]) -> int:
    return sum(map(message_characters, messages)) // CHARS_PER_TOKEN


class ViewSize:
    """Characters of what is in view. Counts what is new, and all of it when it was edited."""

    def __init__(self) -> None:
        self._seen: tuple[History, tuple[Edit, ...]] | None = None
        self._size = 0

    def of(self, history: History, edits: tuple[Edit, ...]) -> int:
        last, self._seen = self._seen, (history, edits)
        if last is not None and history.extends(last[0]) and edits == last[1]:
            self._size += sum(map(message_characters, history.since(len(last[0]))))
        else:
            self._size = sum(map(message_characters, view(history, edits)))
        return self._size


def message_characters(message: Message) -> int:
    return len(message.text) + (0 if isinstance(message, User | ToolResult) else sum(map(size_of, message.calls)))


def size_of(call: ToolCall) -> int:
    return len(call.name) + sum(len(str(value)) for value in call.input.values())


def since_the_last_reply(state: State) -> list[Message]:
    added: list[Message] = []
    for message in state.history.newest_first():
        if not isinstance(message, User | ToolResult):
            break
        added.append(message)
    return added


def open_run(  # noqa: PLR0913  # keywords, all of them
    prompt: str,
    *,
    provider: Provider,
    tools: Iterable[Tool] = (),
    config: Config | None = None,
    journal: Journal | None = None,
    ledger: Ledger | None = None,
    deltas: bool = True,
    **settings: Any,
) -> Run:
    """A run of its own session: `async with open_run(...) as run: async for update in run: ...`, then `run.result`.

    `settings` are fields of `Config`, for those who need only one or two.
    """
    chosen = config or Config(**settings)
    deps = BasicDeps(provider, tools, journal=journal)
    session = EngineSession(deps, chosen, ledger=ledger, describe=deps.describe)
    return session.run(prompt, deltas=deltas)
