"""From what the hands made of a call to what the loop wants to know of it."""

from __future__ import annotations

from mainspring.core.messages import Text, ToolCall, ToolResult
from mainspring.engine.deps import ToolOutcome
from mainspring.tools.pipeline import InvocationResult


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
