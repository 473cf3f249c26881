"""What a driving program can know of us and of its session (stream-json 3.1 and 4)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from mainspring.assembly.own_words import PIPE, names_at, words_at
from mainspring.assembly.said import others
from mainspring.context.agents import OURS, AgentKind
from mainspring.context.report import Fixed, report
from mainspring.core.effects import Finish
from mainspring.core.models import MODELS, Model
from mainspring.core.value import as_json
from mainspring.driven.frames import PROTOCOL
from mainspring.version import __version__

if TYPE_CHECKING:
    from mainspring.assembly.parts import Parts
    from mainspring.assembly.world import World
    from mainspring.engine.session import Session

# A colour for each part, as those have it who draw them.
COLORS = ("blue", "cyan", "green", "yellow", "magenta", "red", "orange", "gray")


def about_us(world: World, parts: Parts, state: str) -> dict[str, Any]:
    return {
        "commands": commands(world),
        "agents": [{"name": kind.name, "description": kind.about} for kind in kinds(world)],
        "output_style": world.about.output_style,
        "available_output_styles": list(world.about.output_styles()),
        "models": models(parts),
        "account": {"apiKeySource": parts.model.key_source},
        "pid": os.getpid(),
        "claude_code_version": PROTOCOL,
        "mainspring_version": __version__,
        "current_permission_mode": world.session.shared.policy.mode,
        "hook_on_failure_supported": True,
        "session_state": state,
    }


def commands(world: World) -> list[dict[str, str]]:
    """Those that we understand ourselves; skills, commands of others, and prompts of servers come behind them."""
    found = others(world.around, names_at(PIPE))
    ours = [command(one.name, one.about, one.hint) for one in words_at(PIPE)]
    return [*ours, *[command(one.name, one.about, one.hint) for one in (*found, *world.servers.words())]]


def kinds(world: World) -> list[AgentKind]:
    return list((world.kinds or OURS).values())


def command(name: str, about: str, hint: str = "") -> dict[str, str]:
    return {"name": name, "description": about, "argumentHint": hint}


def models(parts: Parts) -> list[dict[str, str]]:
    default = parts.config.model.name
    first = {"value": "default", "displayName": "Default", "description": default}
    return [first, *[{"value": name, "displayName": name, "description": ""} for name in MODELS]]


def context_usage(world: World) -> dict[str, Any]:
    session = world.session
    found = report(session.state, (), session.config, Fixed(*fixed(world)), model_in_force(session))
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
        "agents": [{"agentType": kind.name, "source": source_of(kind), "tokens": 0} for kind in kinds(world)],
        "gridRows": [],
    }


def model_in_force(session: Session) -> Model:
    """The one that the next request goes to. A run that is under way may have fallen back to another."""
    chosen, state = session.shared.policy.model, session.state
    runs = state.waiting_for is not None and not isinstance(state.waiting_for, Finish)
    return state.model if runs and state.chosen == chosen else chosen or session.config.model


def context_words(world: World) -> str:
    """The same, to be read."""
    found = context_usage(world)
    rows = [f"{one['name']}: {one['tokens']:,} tokens" for one in found["categories"] if one["tokens"]]
    head = f"{found['model']}: {found['totalTokens']:,} of {found['maxTokens']:,} tokens ({found['percentage']} %)"
    return "\n".join([head, *rows])


def fixed(world: World) -> tuple[int, int]:
    """Bytes of the system text and of what the model is told of tools."""
    system = sum([len(text.encode(errors="replace")) for text in world.system()])
    tools = sum([len(as_json(offer.spec)) for offer in world.hands.offers.values() if not offer.deferred])
    return system, tools


def source_of(kind: AgentKind) -> str:
    return "project" if kind.project else "user" if kind.path else "built-in"
