"""`Deps`: everything that does I/O, as one protocol. Tests pass a scripted one (`mainspring.testing.World`).

It leaves out what only makes a run faster or easier to follow: see `SideJobs` and `EngineSession(describe=...)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from mainspring.core.value import Value
from mainspring.tools import base

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from mainspring.context.attachments import PreparedContext, Summary
    from mainspring.core.effects import Compact, Request, RunStopHooks
    from mainspring.core.events import StopDecision
    from mainspring.core.messages import Text, ToolCall, ToolResult, User
    from mainspring.core.state import State
    from mainspring.core.updates import Rendering
    from mainspring.engine.shared_state import EnginePolicy, Ledger
    from mainspring.providers.base import Batch
    from mainspring.sessions.records import Journal


class ToolOutcome(Value):
    """The outcome of a tool call."""

    result: ToolResult
    failed: bool = False  # a shell command that failed, as opposed to one that found nothing (Z-29)
    stop: str | None = None  # why a hook or a denial ends the run
    data: Any = None  # the outcome in the tool's own schema, as JSON values
    rendering: Rendering | None = None
    denied: bool = False  # a rule, a hook or the user denied it
    steps: tuple[tuple[str, int], ...] = ()  # the steps of the call, and how long each took, in microseconds
    added: tuple[Text, ...] = ()  # additional context from hooks: for the model only, after the result


class CallQuestion(Value):
    id: str
    call_id: str
    text: str
    about: Any = None  # the subject, as JSON values, for programs that answer
    call: ToolCall | None = None  # the call that asks


class EngineCallContext(base.CallContext, Protocol):
    """What a running call may request from the engine: what a toolset needs, and its money."""

    @property
    def policy(self) -> EnginePolicy:
        """The current policy: it may have changed since the run began."""
        ...

    @property
    def ledger(self) -> Ledger:
        """A tool that spends money, or runs a subagent, draws on this ledger (law 5)."""
        ...


class Deps(Protocol):
    """Ten members, all of them required. The four that tests replace most come first (A-25)."""

    def stream(self, request: Request, state: State, policy: EnginePolicy) -> AsyncGenerator[Batch, None]:
        """See `Provider.stream`. The policy says which tools the model may see."""
        ...

    async def shrink(self, state: State, queued: tuple[User, ...]) -> PreparedContext:
        """Run the context layers; `queued` will be in the next request too, so it counts."""
        ...

    async def summarize(self, state: State, effect: Compact) -> Summary: ...

    def new_id(self) -> str: ...

    def now(self) -> int:
        """Milliseconds."""
        ...

    async def run_tool(self, call: ToolCall, asking: EngineCallContext) -> ToolOutcome: ...

    def is_concurrent(self, call: ToolCall) -> bool: ...

    async def stop_hooks(self, state: State, effect: RunStopHooks) -> StopDecision: ...

    async def ask(self, question: CallQuestion) -> str: ...

    @property
    def journal(self) -> Journal: ...
