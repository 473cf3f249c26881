"""What a driving program can know of us and of its session (stream-json 3.1 and 4)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from mainspring.agent.context_usage import list_agent_types
from mainspring.agent.slash_commands import PIPE, list_other_commands, names_at, words_at
from mainspring.core.models import MODELS
from mainspring.stream_json.frames import PROTOCOL
from mainspring.version import __version__

if TYPE_CHECKING:
    from mainspring.agent.config import ResolvedConfig
    from mainspring.agent.session_parts import SessionParts


def about_us(world: SessionParts, config: ResolvedConfig, state: str) -> dict[str, Any]:
    return {
        "commands": list_commands(world),
        "agents": [{"name": kind.name, "description": kind.about} for kind in list_agent_types(world)],
        "output_style": world.about.output_style,
        "available_output_styles": list(world.about.output_styles()),
        "models": list_models(config),
        "account": {"apiKeySource": config.model.key_source},
        "pid": os.getpid(),
        "claude_code_version": PROTOCOL,
        "mainspring_version": __version__,
        "current_permission_mode": world.session.shared.policy.mode,
        "hook_on_failure_supported": True,
        "session_state": state,
    }


def list_commands(world: SessionParts) -> list[dict[str, str]]:
    """Those that we understand ourselves; skills, commands of others, and prompts of servers come behind them."""
    found = list_other_commands(world.around, names_at(PIPE))
    ours = [command_entry(one.name, one.about, one.hint) for one in words_at(PIPE)]
    return [*ours, *[command_entry(one.name, one.about, one.hint) for one in (*found, *world.servers.words())]]


def command_entry(name: str, about: str, hint: str = "") -> dict[str, str]:
    return {"name": name, "description": about, "argumentHint": hint}


def list_models(config: ResolvedConfig) -> list[dict[str, str]]:
    default = config.loop.model.name
    first = {"value": "default", "displayName": "Default", "description": default}
    return [first, *[{"value": name, "displayName": name, "description": ""} for name in MODELS]]
