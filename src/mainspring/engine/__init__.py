"""The engine: performs what the core decides. Every `if` in this package is about I/O."""

from typing import TYPE_CHECKING

from mainspring.lazy import load_attribute

if TYPE_CHECKING:
    from mainspring.engine.call_classifier import CallClassifier as CallClassifier
    from mainspring.engine.side_calls import PostTurnCalls as PostTurnCalls
    from mainspring.engine.side_calls import SideCalls as SideCalls
    from mainspring.engine.subagents import SubagentEnvironment as SubagentEnvironment
    from mainspring.engine.subagents import SubagentJournal as SubagentJournal
    from mainspring.engine.subagents import SubagentRegistry as SubagentRegistry
    from mainspring.engine.tool_summaries import summarize_tool_calls as summarize_tool_calls

# Loaded on first use, so that a start pays only for what it needs.
MODULES = {
    "CallClassifier": "call_classifier",
    "PostTurnCalls": "side_calls",
    "SideCalls": "side_calls",
    "SubagentEnvironment": "subagents",
    "SubagentJournal": "subagents",
    "SubagentRegistry": "subagents",
    "summarize_tool_calls": "tool_summaries",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return load_attribute(__name__, MODULES, name)
