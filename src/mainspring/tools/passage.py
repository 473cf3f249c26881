"""One call on its way (F-13): what is known of it so far, and what its steps and its tool may ask.

The steps are in `pipeline.py`; who walks them, and with which tools, in `toolset.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mainspring.core.errors import ToolError
from mainspring.core.messages import Text, ToolCall
from mainspring.core.updates import Update
from mainspring.core.value import Value
from mainspring.hooks.events import NOTHING, HookResult
from mainspring.hooks.payloads import make_subagent_start_payload
from mainspring.processes.paths import Resolved, look_again
from mainspring.tools.base import CallContext, Tool, ToolAnswer

if TYPE_CHECKING:
    from mainspring.tools.toolset import Toolset


class InvocationResult(Value):
    """A call that has come to its end."""

    answer: ToolAnswer
    denied: bool = False
    stop: str | None = None  # the run ends, and why
    context: tuple[str, ...] = ()  # of hooks, for the model
    steps: tuple[tuple[str, int], ...] = ()  # how long each took, in microseconds


class ToolInvocation:
    """One call on its way. Tools see it as their `ToolContext`."""

    def __init__(self, call: ToolCall, asking: CallContext, hands: Toolset) -> None:
        self.call = call
        self.asking = asking
        self.hands = hands
        self.place = hands.place
        self.cwd = hands.place.cwd  # as the call found it: another one may move the session meanwhile
        self.paths = hands.gate.resolutions()
        self._tool: Tool | None = None
        self.input = call.input  # as it is now: paths whole, changed by hooks
        self.sent = call.input  # as the model meant it, paths whole
        self.given: Any = None  # the same, typed
        self.ignored = ""  # about fields of the input that the tool does not have
        self.opinion = NOTHING  # of the hooks
        self.answer: ToolAnswer | None = None
        self.began = False  # the tool itself,
        self.took = 0  # and how long it ran, in milliseconds
        self.denied = False
        self.approved = False  # by somebody who was asked about exactly this call
        self.stop: str | None = None
        self.context: tuple[str, ...] = ()

    @property
    def tool(self) -> Tool:
        assert self._tool is not None  # the first step has found it
        return self._tool

    def found(self, tool: Tool) -> None:
        self._tool = tool

    # --- what a tool may ask ---

    @property
    def id(self) -> str:
        return self.call.id

    def resolve(self, path: str) -> Resolved:
        return look_again(self.paths(path, self.cwd))

    @property
    def has_read_rules(self) -> bool:
        return self._rules is not None

    def may_read(self, path: str) -> bool:
        return self._rules is None or self._rules(path)

    @cached_property
    def _rules(self) -> Callable[[str], bool] | None:
        return self.hands.gate.reading_rules(self.place.root, self.asking.policy)

    def progress(self, text: str) -> None:
        self.asking.progress(text)

    async def ask(self, text: str, about: Any = None) -> str:
        if not self.hands.attended:
            raise ToolError("Nobody can be asked here: go on without an answer, and say what you assumed.")
        return await self.asking.ask(text, about)

    def show(self, update: Update) -> None:
        self.asking.show(update)

    async def room(self) -> None:
        await self.asking.room()

    # --- what steps say ---

    def refuse(self, why: str) -> ToolAnswer:
        self.denied = True
        return make_error_answer(why)

    def heed(self, opinion: HookResult) -> None:
        self.context += opinion.context
        if self.stop is None:
            self.stop = opinion.stop

    def facts(self, **more: Any) -> dict[str, Any]:
        agent = self.hands.agent
        return {
            **(make_subagent_start_payload(*agent) if agent is not None else {}),
            "tool_name": self.call.name,
            "tool_input": self.input,
            "tool_use_id": self.call.id,
            "permission_mode": self.asking.policy.mode,
            **more,
        }


def make_error_answer(text: str, data: Any = None) -> ToolAnswer:
    return ToolAnswer((Text(text),), data, is_error=True)
