"""The agent loop as a library. This module lists the public names and imports them on first use.

    from mainspring import ask

    answer = await ask("What is 2 + 3?")
    print(answer.text, answer.cost_usd)

`Agent` is a reusable agent, `ask` one question, `tool` makes a tool of a function; `query` and `Client` have the API of
claude-agent-sdk; `open_run` is the loop alone. See docs/library.md.
"""

import sys
from typing import TYPE_CHECKING

from mainspring.version import __version__

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

    from mainspring.agent.host import ApprovalRequest
    from mainspring.core.errors import MainspringError, ToolError, UsageError
    from mainspring.core.messages import Assistant, Document, Image, Message, Text, ToolCall, ToolResult, User
    from mainspring.core.updates import Update
    from mainspring.fleet.fleet import Fleet, FleetStats
    from mainspring.fleet.results import TaskResult
    from mainspring.fleet.scheduler import FleetLimits
    from mainspring.fleet.tasks import FleetTask
    from mainspring.library.agent import Agent, ask
    from mainspring.library.answer import Answer
    from mainspring.library.errors import (
        AgentError,
        BudgetExceeded,
        Interrupted,
        MaxTurnsExceeded,
        ModelError,
        OutputError,
    )
    from mainspring.library.hooks import AgentHook, HookCall
    from mainspring.library.low_level import open_run
    from mainspring.library.options import AgentOptions, ModelSettings
    from mainspring.library.session import AgentChat, AgentStream
    from mainspring.sdk.client import Client, query
    from mainspring.sdk.options import Options
    from mainspring.telemetry import instrument
    from mainspring.tools.base import Approval, Tool, ToolAnswer, ToolContext
    from mainspring.tools.custom import tool

__all__ = [
    "Agent",
    "AgentChat",
    "AgentError",
    "AgentHook",
    "AgentOptions",
    "AgentStream",
    "Answer",
    "Approval",
    "ApprovalRequest",
    "Assistant",
    "BudgetExceeded",
    "Client",
    "Document",
    "Fleet",
    "FleetLimits",
    "FleetStats",
    "FleetTask",
    "HookCall",
    "Image",
    "Interrupted",
    "MainspringError",
    "MaxTurnsExceeded",
    "Message",
    "ModelError",
    "ModelSettings",
    "Options",
    "OutputError",
    "TaskResult",
    "Text",
    "Tool",
    "ToolAnswer",
    "ToolCall",
    "ToolContext",
    "ToolError",
    "ToolResult",
    "Update",
    "UsageError",
    "User",
    "__version__",
    "ask",
    "instrument",
    "open_run",
    "query",
    "tool",
]

# The module of each name, imported on first use: `import mainspring`, and so `mainspring --version`, costs nothing.
_PLACES = {
    "Agent": "library.agent",
    "AgentChat": "library.session",
    "AgentError": "library.errors",
    "AgentHook": "library.hooks",
    "AgentOptions": "library.options",
    "AgentStream": "library.session",
    "Answer": "library.answer",
    "Approval": "tools.base",
    "ApprovalRequest": "agent.host",
    "Assistant": "core.messages",
    "BudgetExceeded": "library.errors",
    "Client": "sdk.client",
    "Document": "core.messages",
    "Fleet": "fleet.fleet",
    "FleetLimits": "fleet.scheduler",
    "FleetStats": "fleet.fleet",
    "FleetTask": "fleet.tasks",
    "HookCall": "library.hooks",
    "Image": "core.messages",
    "Interrupted": "library.errors",
    "MainspringError": "core.errors",
    "MaxTurnsExceeded": "library.errors",
    "Message": "core.messages",
    "ModelError": "library.errors",
    "ModelSettings": "library.options",
    "Options": "sdk.options",
    "OutputError": "library.errors",
    "TaskResult": "fleet.results",
    "Text": "core.messages",
    "Tool": "tools.base",
    "ToolAnswer": "tools.base",
    "ToolCall": "core.messages",
    "ToolContext": "tools.base",
    "ToolError": "core.errors",
    "ToolResult": "core.messages",
    "Update": "core.updates",
    "UsageError": "core.errors",
    "User": "core.messages",
    "ask": "library.agent",
    "instrument": "telemetry",
    "open_run": "library.low_level",
    "query": "sdk.client",
    "tool": "tools.custom",
}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module 'mainspring' has no attribute '{name}'")
    from importlib import import_module

    value: object = getattr(import_module(f"mainspring.{_PLACES[name]}"), name)
    return value


def __dir__() -> list[str]:
    hidden = {"TYPE_CHECKING", "sys", "_MovedModules", "_PLACES"}
    return sorted({*globals(), *__all__} - hidden)


class _MovedModules:
    """Python asks it last, when no module of a name exists: it may have moved."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> "ModuleSpec | None":  # noqa: ARG004
        if not name.startswith("mainspring.") or name == "mainspring.renamed":
            return None
        from mainspring.renamed import find_spec

        return find_spec(name)


sys.meta_path.append(_MovedModules)
