"""The plainest world that is real: a provider, functions as tools, the system's clock and ids, a journal in memory.

No context layers, no permissions, no hooks: those come with the packages that bring them. A long conversation is not
compacted here; it runs into the model's window and says so.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from mainspring.context.values import Prepared, Summary
from mainspring.core.config import Config
from mainspring.core.effects import Compact, Request, RunStopHooks
from mainspring.core.errors import ToolError, UsageError
from mainspring.core.events import Verdict
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Message, ToolCall, ToolResult, User, result
from mainspring.core.state import State
from mainspring.core.value import Bundle
from mainspring.core.view import view
from mainspring.engine.deps import Asking, Outcome, Question
from mainspring.engine.ledger import Ledger
from mainspring.engine.run import Run
from mainspring.engine.session import Session
from mainspring.engine.shared import Policy
from mainspring.providers.base import Batch, Conversation, Provider, ToolSpec
from mainspring.sessions.records import Journal, MemoryJournal

if TYPE_CHECKING:
    from mainspring.tools.base import Tool as FullTool
    from mainspring.tools.pipeline import Hands

CHARS_PER_TOKEN = 3  # English has rather more, code about as many: the estimate errs on the high side (D-31)

Act = Callable[..., Awaitable[object]]  # text, and nothing else: checked when it runs


class Tool(Bundle):
    """A function that the model may call. What it raises as `ToolError` the model sees as the result."""

    name: str
    run: Act
    concurrent: bool | Callable[[ToolCall], bool] = False  # may run beside others, and while the model still talks
    spec: ToolSpec | None = None  # what the model is told of it; a scripted model needs to be told nothing


class Plain:
    """`Deps` from a provider and some functions."""

    def __init__(
        self,
        provider: Provider,
        tools: Iterable[Tool | FullTool] = (),
        *,
        journal: Journal | None = None,
        system: tuple[str, ...] = (),
    ) -> None:
        self._provider = provider
        given = tuple(tools)
        self._tools = {tool.name: tool for tool in given if isinstance(tool, Tool)}
        self._hands = own_hands([tool for tool in given if not isinstance(tool, Tool)])
        self._journal: Journal = journal or MemoryJournal()
        self._system = system
        self._specs = tuple([tool.spec for tool in self._tools.values() if tool.spec is not None])
        if self._hands is not None:
            self._specs += self._hands.specs

    def stream(self, request: Request, state: State, policy: Policy) -> AsyncGenerator[Batch, None]:
        specs = self._specs
        if policy.tools is not None:
            specs = tuple([spec for spec in specs if spec.name in policy.tools])
        conversation = Conversation(state.history, state.edits, self._system, specs, self.marks(state))
        return self._provider.stream(request, conversation)

    def marks(self, state: State) -> tuple[str, ...]:
        """Where the cached part of the next request may end."""
        return marks(state.history)

    async def shrink(self, state: State, queued: tuple[User, ...]) -> Prepared:
        if state.totals.replies and not queued:
            return Prepared(state.tokens + estimate(since_the_last_reply(state)))
        return Prepared(estimate((*view(state.history, state.edits), *queued)))

    async def summarize(self, state: State, effect: Compact) -> Summary:  # noqa: ARG002  # nothing to do it with
        return Summary(failed="there are no context layers in this run")

    async def run_tool(self, call: ToolCall, asking: Asking) -> Outcome:
        tool = self._tools.get(call.name)
        if tool is None and self._hands is not None:
            from mainspring.engine.outcomes import outcome_of

            return outcome_of(await self._hands.run(call, asking), call)
        if tool is None:
            return refused(call, f"there is no tool '{call.name}'; there are {', '.join(self._tools) or 'none'}")
        try:
            text: object = await tool.run(**call.input)
        except ToolError as error:
            return refused(call, str(error))
        if not isinstance(text, str):
            return refused(call, f"'{call.name}' returned {type(text).__name__}, not text: mend the tool")
        return Outcome(result(call.id, text))

    def expect(self, tool: str) -> None:
        pass  # functions are here already

    def is_concurrent(self, call: ToolCall) -> bool:
        tool = self._tools.get(call.name)
        if tool is None and self._hands is not None:
            return self._hands.is_concurrent(call)
        if tool is None:
            return True  # it will only be told that there is no such tool
        return tool.concurrent(call) if callable(tool.concurrent) else tool.concurrent

    async def stop_hooks(self, state: State, effect: RunStopHooks) -> Verdict:  # noqa: ARG002  # there are none
        return Verdict()

    async def ask(self, question: Question) -> str:
        raise UsageError(f"'{question.text}' was asked, and this run has nobody to answer")

    async def stage(self, state: State) -> None:
        pass  # nothing here makes it smaller

    async def recall(self, state: State) -> tuple[User, ...]:  # noqa: ARG002  # there is no memory
        return ()

    async def sum_up(self, calls: tuple[ToolCall, ...], results: tuple[ToolResult, ...]) -> str | None:  # noqa: ARG002
        return None

    @property
    def journal(self) -> Journal:
        return self._journal

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    def new_id(self) -> str:
        return new_id()


def new_id() -> str:
    """A random uuid (version 4). `uuid` itself takes as long to import as the whole core."""
    hexed = bytearray(os.urandom(16))
    hexed[6] = hexed[6] & 0x0F | 0x40
    hexed[8] = hexed[8] & 0x3F | 0x80
    text = hexed.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def own_hands(tools: list[FullTool]) -> Hands | None:
    """The caller's own tools: nobody need be asked about them."""
    if not tools:
        return None
    from mainspring.tools.base import Place
    from mainspring.tools.gate import Open
    from mainspring.tools.pipeline import Hands

    return Hands(tools, place=Place(os.getcwd()), gate=Open())  # noqa: PTH109  # pathlib takes 8 ms to load


def marks(history: History) -> tuple[str, ...]:
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


def refused(call: ToolCall, why: str) -> Outcome:
    return Outcome(result(call.id, why, is_error=True), failed=True)


def estimate(messages: Iterable[Message]) -> int:
    return sum(size(message) for message in messages) // CHARS_PER_TOKEN


def size(message: Message) -> int:
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
    tools: Iterable[Tool | FullTool] = (),
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
    session = Session(Plain(provider, tools, journal=journal), chosen, ledger=ledger)
    return session.run(prompt, deltas=deltas)
