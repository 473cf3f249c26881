"""`Deps` for real sessions: `BasicDeps` for embedding the loop, `AgentDeps` for an agent session.

`BasicDeps` has a provider, the caller's tools, and the system's clock and ids. It has no journal but the caller's, no
context layers, no permissions and no hooks. It does not compact a long conversation: the run ends when the model's
window is full. `mainspring.open_run` makes a session of its own with it.

`AgentDeps` adds a toolset with permissions and hooks, a `ModelContext`, and a way to ask the user. `outcome_of` turns
the toolset's result into what the loop needs.

`ToolReminders` adds messages about tools to the conversation: about tools that became available late, and about state
that tools keep for the session (such as tasks) once the messages about it have left the view.

`preload_tool` and `warm_context` import what a call will need while the model still writes its input, which takes far
longer. They run in a thread, so the reader of the stream does not wait. Nothing depends on them: a module that is not
loaded in time is imported where it is used.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mainspring import permissions
from mainspring.context.attachments import (
    Attachment,
    AttachmentKind,
    PreparedContext,
    Summary,
    select_missing_attachments,
)
from mainspring.core.effects import Compact, Request, RunStopHooks
from mainspring.core.errors import UsageError
from mainspring.core.events import StopDecision
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Message, Text, ToolCall, ToolResult, User
from mainspring.core.state import State
from mainspring.core.view import Edit, Fold, view
from mainspring.engine.deps import CallQuestion, EngineCallContext, ToolOutcome
from mainspring.engine.shared_state import EnginePolicy
from mainspring.engine.tasks import SideJobs
from mainspring.hooks.events import HookPoint, HookResult
from mainspring.providers.base import Batch, Conversation, Provider, RequestCache, ToolSpec
from mainspring.sessions.records import Journal, NoJournal
from mainspring.tools.toolset import Toolset

if TYPE_CHECKING:
    from mainspring.engine.model_context import ModelContext
    from mainspring.tools.base import Tool
    from mainspring.tools.pipeline import InvocationResult


CHARS_PER_TOKEN = 3  # English has slightly more, code about as many: the estimate errs on the high side (D-31)


class BasicDeps:
    """`Deps` from a provider and some tools."""

    def __init__(
        self,
        provider: Provider,
        tools: Iterable[Tool] = (),
        *,
        journal: Journal | None = None,
        system: tuple[str, ...] | Callable[[], tuple[str, ...]] = (),
        injected: object = None,
    ) -> None:
        """`system`: the system prompt, or a function that returns it when a request is built. `injected`: the program's
        object for its tools (`ToolContext.deps`)."""
        self._provider = provider
        self._tools = tuple(tools)
        self._hands: Toolset | None = None
        self._journal: Journal = journal or NoJournal()
        self._cache = RequestCache()
        self._view_size = ViewSize()
        self._system = system
        self._injected = injected

    @property
    def system(self) -> tuple[str, ...]:
        return self._system() if callable(self._system) else self._system

    @property
    def hands(self) -> Toolset:
        if self._hands is None:
            self._hands = own_hands(self._tools, self._injected)
        return self._hands

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools that the model sees now: those of an MCP server may arrive later."""
        return () if self._hands is None and not self._tools else self.hands.specs

    def stream(self, request: Request, state: State, policy: EnginePolicy) -> AsyncGenerator[Batch, None]:
        specs = self.specs
        if policy.tools is not None:
            specs = tuple([spec for spec in specs if spec.name in policy.tools])
        conversation = Conversation(state.history, state.edits, self.system, specs, self.marks(state), self._cache)
        return self._provider.stream(request, conversation)

    def marks(self, state: State) -> tuple[str, ...]:
        """The messages at which the cached part of the next request may end."""
        return default_cache_marks(state.history)

    def forget_requests(self) -> None:
        """What the next request would extend. One that is made nevertheless is built whole."""
        self._cache.clear()

    async def shrink(self, state: State, queued: tuple[User, ...]) -> PreparedContext:
        if state.totals.replies and not queued:
            return PreparedContext(state.tokens + estimate_tokens(since_the_last_reply(state)))
        return PreparedContext(
            (self._view_size.of(state.history, state.edits) + sum(map(message_characters, queued))) // CHARS_PER_TOKEN
        )

    async def summarize(self, state: State, effect: Compact) -> Summary:  # noqa: ARG002  # nothing to do it with
        return Summary(failed="there are no context layers in this run")

    async def run_tool(self, call: ToolCall, asking: EngineCallContext) -> ToolOutcome:
        return outcome_of(await self.hands.run(call, asking), call)

    def is_concurrent(self, call: ToolCall) -> bool:
        return self.hands.is_concurrent(call)

    def describe(self, call: ToolCall) -> str:
        """One line about a call, for the user: `EngineSession(describe=...)`."""
        return self.hands.line(call)

    async def stop_hooks(self, state: State, effect: RunStopHooks) -> StopDecision:  # noqa: ARG002  # there are none
        return StopDecision()

    async def ask(self, question: CallQuestion) -> str:
        raise UsageError(f"cannot ask '{question.text}': this run has no way to ask the user")

    @property
    def journal(self) -> Journal:
        return self._journal

    def now(self) -> int:
        return int(time.time() * 1_000)  # each message keeps one: `time_ns() // 1_000_000` takes 48 bytes, not 32

    def new_id(self) -> str:
        return new_id()


def new_id() -> str:
    """A random uuid (version 4). `uuid` itself takes as long to import as the whole core."""
    try:
        text = _random.pop()
    except IndexError:
        drawn = os.urandom(16 * POOL).hex()  # a call of the kernel for each id took longer than the rest of it
        _random.extend([drawn[at : at + 32] for at in range(32, len(drawn), 32)])
        text = drawn[:32]
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{VARIANT[text[16]]}{text[17:20]}-{text[20:]}"


POOL = 64  # ids: about five turns
VARIANT = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))  # of a uuid, for a random digit
_random: list[str] = []  # digits for ids
os.register_at_fork(after_in_child=_random.clear)  # a copy of this process must not make the same ids


def own_hands(tools: tuple[Tool, ...], injected: object = None) -> Toolset:
    """A toolset of the caller's own tools, which need no permission."""
    from mainspring.tools.base import Workspace

    place = Workspace(os.getcwd())  # noqa: PTH109  # pathlib takes 8 ms to load
    return Toolset(tools, place=place, gate=permissions.AllowAll(), deps=injected)


def default_cache_marks(history: History) -> tuple[str, ...]:
    """The messages at which the cached part of a request may end: the last one, and the last one of the previous
    request.

    The second matters after many parallel calls: the cache looks back over 20 blocks only, and without a mark in reach
    the whole history is written again.
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
    """The characters in view. Counts only new messages, or all of them after an edit."""

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


Answerer = Callable[[CallQuestion], Awaitable[str]]


class AgentDeps(BasicDeps):
    """`Deps` from a provider and a toolset."""

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
        before_request: Callable[[Iterator[Message]], object] | None = None,
    ) -> None:
        """Without a `mind` (the model context), nothing is removed from the conversation or added to it. `before_turn`
        is called before each turn, for example to wait for tools that arrive late; `before_request` gets the messages
        of each request, the newest first, and must return at once."""
        super().__init__(provider, journal=journal, system=system)
        self._hands = hands
        self._mind = mind
        self._answer = answer
        self._before_turn, self._before_request = before_turn, before_request
        self._expected: set[str] = set()
        self._tool_words: ToolReminders | None = None

    def stream(self, request: Request, state: State, policy: EnginePolicy) -> AsyncGenerator[Batch, None]:
        if self._before_request is not None:
            self._before_request(state.history.newest_first())
        return super().stream(request, state, policy)

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
        """None: most sessions need no reminders."""
        if self._tool_words is None and (self.hands.untold or self.hands.keeps):
            self._tool_words = ToolReminders(self.hands, self._mind.nonce if self._mind is not None else "")
        return self._tool_words

    async def summarize(self, state: State, effect: Compact) -> Summary:
        if self._mind is None:
            return await super().summarize(state, effect)
        made, words = await self._mind.summarize(state, effect), self._words
        return words.in_summary(made, state) if made.edits and words is not None else made

    @property
    def side_jobs(self) -> SideJobs:
        """For `EngineSession(side_jobs=...)`: loading tools while the model writes a call, and the side jobs of the
        model context."""
        if self._mind is None:
            return SideJobs(self._expect_tool)
        mind = self._mind
        return SideJobs(self._expect_tool, mind.recall, mind.stage, mind.summarize_tools)

    def _expect_tool(self, tool: str) -> None:
        if tool in self._expected:
            self.hands.expect(tool)
        else:
            self._expected.add(tool)
            loop = asyncio.get_running_loop()
            preload_tool(tool, lambda: loop.call_soon_threadsafe(self._prepare_tool, tool))

    def _prepare_tool(self, tool: str) -> None:
        with suppress(Exception):  # the call will report the error
            self.hands.expect(tool)

    async def ask(self, question: CallQuestion) -> str:
        return await (self._answer(question) if self._answer is not None else super().ask(question))

    async def stop_hooks(self, state: State, effect: RunStopHooks) -> StopDecision:
        if self._mind is None:
            return await self._asked_hooks(state, effect)
        self._mind.afterwards(state)  # before the hooks, which may be slow (I-06)
        decision = await self._asked_hooks(state, effect)
        used, spent = self._mind.take_cost()
        return replace(decision, usage=used, cost=spent) if used.total or spent else decision

    async def _asked_hooks(self, state: State, effect: RunStopHooks) -> StopDecision:
        hooks = self.hands.hooks
        if not hooks.any_at(HookPoint.STOP):
            return StopDecision()
        from mainspring.hooks.payloads import make_stop_payload  # with the first hook

        return make_stop_decision(
            await hooks.ask(HookPoint.STOP, make_stop_payload(active=effect.active, last=last_said(state)))
        )


def last_said(state: State) -> str:
    """The last text of the model."""
    return next((m.text for m in state.history.newest_first() if isinstance(m, Assistant)), "")


def make_stop_decision(opinion: HookResult) -> StopDecision:
    """What hooks decide about the end of a session or a subagent."""
    if opinion.stop is not None:
        return StopDecision(prevent=opinion.stop)
    return StopDecision((opinion.reason or "A hook wants you to go on.",)) if opinion.block else StopDecision()


def outcome_of(done: InvocationResult, call: ToolCall) -> ToolOutcome:
    made = done.answer
    return ToolOutcome(
        ToolResult(call.id, made.content, made.is_error),
        failed=made.failed,
        stop=done.stop,
        data=made.data,
        rendering=made.shown,
        denied=done.denied,
        steps=done.steps,
        added=tuple([Text(f"\n\n[From a hook: {text}]") for text in done.context]),
    )


class ToolReminders:
    """Reads the conversation only when its edits or the available tools have changed."""

    def __init__(self, hands: Toolset, nonce: str = "") -> None:
        self._hands, self._nonce = hands, nonce
        self._edits: tuple[Edit, ...] = ()  # the edits with which everything that tools keep is in view,
        self._told: object = None  # and those with which all late tools are

    def late(self, state: State) -> tuple[User, ...]:
        """Tools known by name only that arrived after the model's last list of them. Appended at the end, so the prefix
        stays."""
        now = (self._hands.untold, state.edits)
        if now == self._told:
            return ()
        words = "More tools are known by name only. Get their schemas with ToolSearch before you call them"
        told = [Attachment(AttachmentKind.ENVIRONMENT, "tools", f"{words}: {', '.join(names)}.") for names in now[0]]
        late = select_missing_attachments(told, view(state.history, state.edits), self._nonce)
        if not late:
            self._told = now
        return late

    def kept(self, state: State, edits: tuple[Edit, ...]) -> tuple[User, ...]:
        """What tools keep for the session, such as tasks, if the new `edits` removed it from the conversation."""
        if not edits and state.edits is self._edits:
            return ()
        seen = view(state.history, (*state.edits, *edits))
        words = self._hands.unsaid(seen)
        kept = (
            select_missing_attachments([Attachment(AttachmentKind.KEPT, "", words)], seen, self._nonce) if words else ()
        )
        if not kept and not edits:
            self._edits = state.edits
        return kept

    def in_summary(self, made: Summary, state: State) -> Summary:
        """The same in the summary itself: the process may end before there is another request to add it to."""
        *others, last = made.edits
        if not isinstance(last, Fold):
            return made
        words = self._hands.unsaid(view(state.history, (*state.edits, *made.edits)))
        if not words:
            return made
        told = replace(last.summary, content=(*last.summary.content, Text(f"\n\n{words}")))
        edits = (*others, replace(last, summary=told))
        return replace(made, edits=edits, after=made.after + len(words) // CHARS_PER_TOKEN)


ALWAYS = ("mainspring.engine.session_deps", "mainspring.permissions.decide", "mainspring.tools.pipeline")
BY_TOOL = {
    "Bash": ("mainspring.permissions.bash", "mainspring.processes.children", "mainspring.tools.bash"),
    "Read": ("mainspring.tools.read", "mainspring.processes.atomic_write"),
    "Edit": ("mainspring.tools.edit", "mainspring.processes.atomic_write"),
    "Write": ("mainspring.tools.write", "mainspring.processes.atomic_write"),
    "Grep": ("mainspring.tools.grep",),
    "Glob": ("mainspring.tools.glob",),
}


def preload_tool(tool: str, then: Callable[[], object] = lambda: None) -> None:
    """`then` is called in the thread, when all is loaded."""
    names = (*ALWAYS, *BY_TOOL.get(tool, ()))
    threading.Thread(target=_load, args=(names, then), name="warming", daemon=True).start()


def warm_context() -> None:
    """Load the layers that the second request needs."""
    threading.Thread(target=_load, args=(("mainspring.context.compactor",),), name="warming", daemon=True).start()


def _load(names: tuple[str, ...], then: Callable[[], object] = lambda: None) -> None:
    for name in names:
        with suppress(Exception):  # the importing code will report the error
            import_module(name)
    with suppress(RuntimeError):  # the loop is closed: the run is over
        then()
