"""An agent as a tool of another agent: `reviewer.as_tool()`.

The called agent has a session of its own, with its own model, tools and limits. The session that calls it pays: both
draw on one ledger, so the caller's `max_budget_usd` covers the whole tree, whether it is an agent, a session of
`mainspring.sdk` or a run of `open_run`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any

from msgspec.structs import replace

from mainspring.core.errors import ToolError, UsageError
from mainspring.core.messages import Text, User
from mainspring.core.money import Usage
from mainspring.core.updates import AgentDone, AgentStarted, AgentUpdate, BlockStarted, Delta, Result
from mainspring.core.value import as_json
from mainspring.engine.executor import RunningCall
from mainspring.engine.session_deps import new_id
from mainspring.engine.subagents import new_agent_id
from mainspring.library.answer import Answer
from mainspring.library.errors import AgentError
from mainspring.library.session import AgentChat
from mainspring.tools.base import StrictInput, Tool, ToolAnswer, ToolContext, make_answer

if TYPE_CHECKING:
    from mainspring.library.agent import Agent

DEEPEST = 5  # agents that call each other: more is a circle (law 1)
ABOUT = "Ask the agent '{name}', which works on its own. It sees nothing of this conversation."


class AgentPrompt(StrictInput, frozen=True):
    prompt: Annotated[str, "What the agent should do, with everything that it needs to know."]


class AgentTool(Tool, frozen=True, kw_only=True, gc=True):
    agent: Any  # an `Agent`

    def bind(self, chat: AgentChat[Any]) -> Tool:
        """The same tool for one session, which pays for the agent."""
        return replace(self, run=make_run(self.agent, self.name, chat))


def make_agent_tool(agent: Agent[Any, Any], name: str, about: str) -> Tool:
    if not name:
        raise UsageError("an agent needs a name to be a tool: 'Agent(name=...)', or 'as_tool(name=...)'")
    return AgentTool(
        name=name,
        about=about or ABOUT.format(name=name),
        input=AgentPrompt,
        run=make_run(agent, name, None),
        concurrent=True,
        repeatable=False,
        summary=lambda given: f"{name}: {given.prompt}",
        agent=agent,
    )


def make_run(
    agent: Agent[Any, Any], name: str, parent: AgentChat[Any] | None
) -> Callable[[AgentPrompt, ToolContext], Any]:
    async def run(given: AgentPrompt, calling: ToolContext) -> ToolAnswer:
        called = CalledAgent(agent, name, parent, calling)
        try:
            return await called.run(given.prompt)
        except AgentError as error:
            said = f" Its last words: {error.answer.text}" if error.answer is not None and error.answer.text else ""
            raise ToolError(f"'{name}' failed: {error}.{said}") from error

    return run


class CalledAgent:
    """One call of an agent, from start to answer."""

    def __init__(
        self, agent: Agent[Any, Any], name: str, parent: AgentChat[Any] | None, calling: ToolContext[Any]
    ) -> None:
        self._agent, self._name, self._calling = agent, name, calling
        self._parent = parent
        self._payer = find_payer(calling)
        self._ledger = self._payer.ledger.child()
        self._id = new_agent_id()

    async def run(self, prompt: str) -> ToolAnswer:
        if self._parent is not None and self._parent.plan.depth >= DEEPEST:
            raise ToolError(f"'{self._name}' was not called: {DEEPEST} agents already call each other.")
        deps = self._calling.deps if self._agent.takes_deps else None
        plan = self._agent.plan(deps, once=True, deltas=False, caller=self._parent, ledger=self._ledger)
        if not self._payer.is_stored:
            plan = replace(plan, options=plan.options.replace(persist=False))
        asked = User((Text(prompt),), id=new_id())
        self._calling.show(AgentStarted(self._calling.id, self._id, self._name, prompt[:80], asked))
        found: list[Answer[Any]] = []
        result: Result | None = None
        await self._note(ended=False)
        try:
            async with AgentChat[Any](plan) as chat, aclosing(chat.updates(prompt, found)) as updates:
                async for update in updates:
                    if isinstance(update, Result):
                        result = update
                    if not isinstance(update, Delta | BlockStarted):
                        self._calling.show(AgentUpdate(self._calling.id, self._id, update))
                        await self._calling.room()
        finally:
            self._calling.show(AgentDone(self._calling.id, self._id, result))
            await self._note(ended=True, used=((self._name, result.usage),) if result is not None else ())
        return make_answer(answer_text(found[0]))

    async def _note(self, *, ended: bool, used: tuple[tuple[str, Usage], ...] = ()) -> None:
        """Book what it spent to the session that pays, also in its file."""
        await self._payer.note_agent(self._id, self._ledger, ended=ended, used=used)


def find_payer(calling: ToolContext[Any]) -> RunningCall:
    """The call in its session, whatever front end that has: its ledger pays."""
    inner = getattr(calling, "asking", None)
    if isinstance(inner, RunningCall):
        return inner
    raise ToolError("an agent as a tool needs a session that pays for it: call the tool by a model, not by itself")


def answer_text(answer: Answer[Any]) -> str:
    output = answer.result.output
    return answer.text if output is None else as_json(output).decode()
