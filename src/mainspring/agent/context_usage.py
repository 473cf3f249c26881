"""Context usage: what fills the model's window, as the next request would send it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mainspring.agent.subagents import list_agent_types
from mainspring.context.agent_types import AgentType
from mainspring.context.report import FixedBytes, build_context_report
from mainspring.core.effects import Finish
from mainspring.core.models import Model
from mainspring.core.value import as_json

if TYPE_CHECKING:
    from mainspring.agent.session_parts import SessionParts
    from mainspring.engine.session import EngineSession

# Colour names for the categories, as clients draw them.
COLORS = ("blue", "cyan", "green", "yellow", "magenta", "red", "orange", "gray")


def context_usage(world: SessionParts) -> dict[str, Any]:
    session = world.session
    found = build_context_report(
        session.state, (), session.config, FixedBytes(*measure_fixed_part(world)), model_in_force(session)
    )
    window = found.window
    return {
        "categories": [
            {"name": part.part, "tokens": part.tokens, "color": COLORS[place % len(COLORS)]}
            for place, part in enumerate(found.parts)
        ],
        "totalTokens": found.tokens,
        "maxTokens": window,
        "rawMaxTokens": window,
        "percentage": min(100, round(100 * found.tokens / window)) if window else 0,
        "model": found.model,
        "isAutoCompactEnabled": found.compact_at is not None,
        "autoCompactThreshold": found.compact_at,
        "memoryFiles": [
            {"path": file.path, "type": str(file.scope), "tokens": round(len(file.text) / found.bytes_per_token)}
            for file in world.around.memory.files
        ],
        "mcpTools": [{"name": name, "serverName": name.split("__")[1]} for name in world.about.later() if "__" in name],
        "agents": [
            {"agentType": kind.name, "source": source_of(kind), "tokens": 0} for kind in list_agent_types(world)
        ],
        "gridRows": [],
    }


def model_in_force(session: EngineSession) -> Model:
    """The model of the next request. The current run may have fallen back to another."""
    chosen, state = session.shared.policy.model, session.state
    runs = state.waiting_for is not None and not isinstance(state.waiting_for, Finish)
    return state.model if runs and state.chosen == chosen else chosen or session.config.model


def context_text(world: SessionParts) -> str:
    """The same as text."""
    found = context_usage(world)
    rows = [f"{one['name']}: {one['tokens']:,} tokens" for one in found["categories"] if one["tokens"]]
    head = f"{found['model']}: {found['totalTokens']:,} of {found['maxTokens']:,} tokens ({found['percentage']} %)"
    return "\n".join([head, *rows])


def measure_fixed_part(world: SessionParts) -> tuple[int, int]:
    """Bytes of the system prompt and of the tool definitions."""
    system = sum([len(text.encode(errors="replace")) for text in world.system()])
    tools = sum([len(as_json(offer.spec)) for offer in world.hands.offers.values() if not offer.deferred])
    return system, tools


def source_of(kind: AgentType) -> str:
    return "project" if kind.project else "user" if kind.path else "built-in"
