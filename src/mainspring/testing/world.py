"""`World`, a scripted `Deps` without a network, a model, a disk or a clock; and `FakeToolContext`, for tests of tools.

    world = World([says("Let me look.", call("Read")), says("Done.")])
    run = EngineSession(world, Config()).run("go")

The input of a call tells the tool what to do: `call("Read", ms=50)` takes fifty milliseconds. Unused steps of a script
are a failure: `world.check()` names them.

`FakeToolContext` is the context of one call: a working directory, and the files that the rules let a search see.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from itertools import count
from typing import Any

from mainspring.context.attachments import PreparedContext, Summary
from mainspring.core.effects import Compact, Request, RunStopHooks
from mainspring.core.events import StopDecision
from mainspring.core.messages import ToolCall, ToolResult, User, result
from mainspring.core.state import State
from mainspring.core.updates import Update
from mainspring.engine.deps import CallQuestion, EngineCallContext, ToolOutcome
from mainspring.engine.shared_state import EnginePolicy
from mainspring.engine.tasks import SideJobs
from mainspring.processes.paths import Resolved, resolve_path
from mainspring.providers.base import Batch, Conversation
from mainspring.providers.scripted import Scripted, ScriptedReply
from mainspring.sessions.records import Journal, MemoryJournal
from mainspring.tools.base import Tool, ToolAnswer, ToolContext, Workspace

SAFE = ("Read", "Grep", "Glob", "WebFetch")

Act = Callable[[ToolCall, EngineCallContext], Any]


class LeftOver(AssertionError):  # noqa: N818  # it reads as what it says
    """A script has unused steps."""


class World:
    """Everything succeeds unless the script says otherwise."""

    def __init__(  # noqa: PLR0913  # one script per kind of thing that can happen
        self,
        replies: Iterable[ScriptedReply] = (),
        *,
        contexts: Iterable[PreparedContext] = (),
        summaries: Iterable[Summary] = (),
        hooks: Iterable[StopDecision] = (),
        answers: Iterable[str] = (),
        safe: tuple[str, ...] = SAFE,
        journal: Journal | None = None,
    ) -> None:
        self.model = Scripted(replies)
        self.contexts, self.summaries = list(contexts), list(summaries)
        self.hooks, self.answers = list(hooks), list(answers)
        self.safe = safe
        self.ran: list[tuple[str, int, int]] = []  # call id, from, until: in milliseconds
        self.memory: tuple[User, ...] = ()
        self.summary_of_tools: str | None = None
        self.summary_takes = 0  # milliseconds
        self._journal: Journal = journal or MemoryJournal()
        self._numbers = count(1)

    def check(self) -> None:
        scripts = {
            "replies": self.model.left_over,
            "contexts": len(self.contexts),
            "summaries": len(self.summaries),
            "hooks": len(self.hooks),
            "answers": len(self.answers),
        }
        left = ", ".join(f"{number} {name}" for name, number in scripts.items() if number > 0)
        if left:
            raise LeftOver(f"the script has unused steps: {left}")

    # --- Deps: the four that tests replace most, then the others ---

    def stream(self, request: Request, state: State, policy: EnginePolicy) -> AsyncGenerator[Batch, None]:  # noqa: ARG002
        return self.model.stream(request, Conversation(state.history, state.edits))

    async def shrink(self, state: State, queued: tuple[User, ...]) -> PreparedContext:  # noqa: ARG002  # scripted
        return self.contexts.pop(0) if self.contexts else PreparedContext(100)

    async def summarize(self, state: State, effect: Compact) -> Summary:  # noqa: ARG002  # scripted
        return self.summaries.pop(0) if self.summaries else Summary(before=100_000, after=10_000)

    def new_id(self) -> str:
        """Ids that count up, in the form of uuids; each event has its own range, so that derived ids never collide."""
        number = next(self._numbers)
        return f"{number:08x}-0000-4000-8000-000000000000"

    async def stop_hooks(self, state: State, effect: RunStopHooks) -> StopDecision:  # noqa: ARG002  # scripted
        return self.hooks.pop(0) if self.hooks else StopDecision()

    async def ask(self, question: CallQuestion) -> str:
        if not self.answers:
            await asyncio.get_running_loop().create_future()  # no answer, ever
        return self.answers.pop(0) if self.answers else question.text

    def is_concurrent(self, call: ToolCall) -> bool:
        return call.name in self.safe

    async def run_tool(self, call: ToolCall, asking: EngineCallContext) -> ToolOutcome:
        begun = self.now()
        try:
            return await self._act(call, asking)
        finally:
            self.ran.append((call.id, begun, self.now()))

    async def _act(self, call: ToolCall, asking: EngineCallContext) -> ToolOutcome:
        told = call.input
        if told.get("ms"):
            await asyncio.sleep(told["ms"] / 1_000)
        if "ask" in told:
            return ToolOutcome(result(call.id, await asking.ask(told["ask"])))
        if "raises" in told:
            raise RuntimeError(told["raises"])
        failed = bool(told.get("fails"))
        text = told.get("text", f"{call.name} is done")
        return ToolOutcome(result(call.id, text, is_error=failed), failed=failed, stop=told.get("stop"))

    @property
    def journal(self) -> Journal:
        return self._journal

    def now(self) -> int:
        return round(asyncio.get_running_loop().time() * 1_000)

    # --- side jobs ---

    @property
    def side_jobs(self) -> SideJobs:
        """Memory and summaries of tools, for `EngineSession(world, config, side_jobs=world.side_jobs)`."""
        return SideJobs(recall=self.recall, summarize_tools=self.summarize_tools)

    async def recall(self, state: State) -> tuple[User, ...]:  # noqa: ARG002  # scripted
        found, self.memory = self.memory, ()
        return found

    async def summarize_tools(self, calls: tuple[ToolCall, ...], results: tuple[ToolResult, ...]) -> str | None:  # noqa: ARG002
        if self.summary_takes:
            await asyncio.sleep(self.summary_takes / 1_000)
        return self.summary_of_tools


def _everything(_path: str) -> bool:
    return True


class FakeToolContext(ToolContext[Any]):
    """As the tool pipeline passes it to a tool. It records what the tool shows and asks; `answers` are returned in
    order, and `deps` is the object that the tool finds as `.deps`.
    """

    def __init__(
        self,
        cwd: str,
        *,
        may_read: Callable[[str], bool] = _everything,
        answers: tuple[str, ...] = (),
        deps: object = None,
    ) -> None:
        self._place = Workspace(cwd)
        self._may_read = may_read
        self._answers = list(answers)
        self._deps = deps
        self.shown: list[str] = []
        self.asked: list[str] = []
        self.updates: list[Update] = []

    @property
    def id(self) -> str:
        return "call-1"

    @property
    def deps(self) -> Any:
        return self._deps

    @property
    def place(self) -> Workspace:
        return self._place

    @property
    def approved(self) -> bool:
        return False

    @property
    def cwd(self) -> str:
        return self._place.cwd

    def resolve(self, path: str) -> Resolved:
        """The path's target; no permission check here."""
        return resolve_path(path, self._place.cwd, home=self._place.home or None)

    @property
    def has_read_rules(self) -> bool:
        return self._may_read is not _everything

    def may_read(self, path: str) -> bool:
        return self._may_read(path)

    def progress(self, text: str) -> None:
        self.shown.append(text)

    async def ask(self, text: str, about: Any = None) -> str:  # noqa: ARG002  # the text is enough
        self.asked.append(text)
        return self._answers.pop(0)

    def show(self, update: Update) -> None:
        self.updates.append(update)

    async def room(self) -> None:
        pass

    async def use(self, tool: Tool, **input: Any) -> ToolAnswer:
        """One call, from the input as a model sends it. Raises `ToolError` with the text for the model."""
        return await tool.run(tool.parse(input), self)

    def now(self, tool: Tool, **input: Any) -> ToolAnswer:
        """The same, without a running event loop."""
        return asyncio.run(self.use(tool, **input))
