"""Control requests that a driving program may send at any time, also in the middle of a turn (stream-json 4).

`HANDLERS` is the table of them. Every request gets one response, from a task of its own: a slow one delays no other.
`about_us` is the response to `initialize` (stream-json 3.1).
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from mainspring.agent.slash_commands import PIPE, list_other_commands, names_at, words_at
from mainspring.agent.subagents import list_agent_types
from mainspring.core.errors import MainspringError, UsageError
from mainspring.core.models import MODELS
from mainspring.stream_json.frames import PROTOCOL
from mainspring.stream_json.incoming import ControlRequest
from mainspring.version import __version__

if TYPE_CHECKING:
    from mainspring.agent.config import ResolvedConfig
    from mainspring.agent.session_parts import SessionParts
    from mainspring.stream_json.server import StreamJsonServer


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
    """Built-in commands first; then skills, custom commands and prompts of MCP servers."""
    found = list_other_commands(world.around, names_at(PIPE))
    replaced = {one.name for one in found}
    ours = [command_entry(one.name, one.about, one.hint) for one in words_at(PIPE) if one.name not in replaced]
    return [*ours, *[command_entry(one.name, one.about, one.hint) for one in (*found, *world.servers.words())]]


def command_entry(name: str, about: str, hint: str = "") -> dict[str, str]:
    return {"name": name, "description": about, "argumentHint": hint}


def list_models(config: ResolvedConfig) -> list[dict[str, str]]:
    default = config.loop.model.name
    first = {"value": "default", "displayName": "Default", "description": default}
    return [first, *[{"value": name, "displayName": name, "description": ""} for name in MODELS]]


Answer = dict[str, Any]
Handler = Callable[["StreamJsonServer", ControlRequest], Awaitable[Answer]]


async def answer_control_request(door: StreamJsonServer, request: ControlRequest, target: int | None) -> None:
    """`target`: the turn that an interrupt stops, determined when it arrived."""
    handler = HANDLERS.get(request.subtype)
    response: dict[str, Any] = {"subtype": "success", "request_id": request.id}
    try:
        if handler is None:
            raise UsageError(f"Unsupported control request subtype: {request.subtype}")
        response["response"] = await handler(door, request)
    except (MainspringError, OSError) as error:
        response = {"subtype": "error", "request_id": request.id, "error": str(error)}
    await door.out.put({"type": "control_response", "response": response})
    if request.subtype == "interrupt" and target is not None:
        door.session.interrupt(target)  # its frames follow the response


async def initialize(door: StreamJsonServer, request: ControlRequest) -> Answer:
    """The first one configures the session before it is built; hooks of a later one come too late."""
    if (found := door.session.world.mcp) is not None:
        await found.ready(kind="sdk")  # those inside the program; others may still be connecting
    late = bool(request.fields.get("hooks")) and request is not door.first
    return about_us(door.session.world, door.session.config, door.session.state) | (
        {"hooks_applied": False} if late else {}
    )


async def interrupt(door: StreamJsonServer, request: ControlRequest) -> Answer:  # noqa: ARG001
    return {"still_queued": [one.prompt.id for one in door.session.queued if one.prompt.id]}


async def set_permission_mode(door: StreamJsonServer, request: ControlRequest) -> Answer:
    mode = await door.session.set_mode(request.fields.get("mode"))
    await door.out.put(door.renderer.frames.status(mode))
    return {"mode": mode}


async def set_model(door: StreamJsonServer, request: ControlRequest) -> Answer:
    named = request.fields.get("model")
    return {"model": (await door.session.set_model(named if isinstance(named, str) else None)).name}


async def mcp_status(door: StreamJsonServer, request: ControlRequest) -> Answer:  # noqa: ARG001
    return {"mcpServers": door.session.mcp_status()}


async def mcp_toggle(door: StreamJsonServer, request: ControlRequest) -> Answer:
    await door.session.enable_mcp(server_in(request), enabled=request.fields.get("enabled") is True)
    return {}


async def mcp_reconnect(door: StreamJsonServer, request: ControlRequest) -> Answer:
    await door.session.reconnect_mcp(server_in(request))
    return {}


def server_in(request: ControlRequest) -> str:
    return str(request.fields.get("serverName", ""))


async def get_context_usage(door: StreamJsonServer, request: ControlRequest) -> Answer:  # noqa: ARG001
    return door.session.context_usage()


async def stop_task(door: StreamJsonServer, request: ControlRequest) -> Answer:
    """A finished or unknown task is no error (as in Claude Code)."""
    await door.session.stop_task(str(request.fields.get("task_id", "")))
    await door.session.updates().caught_up()
    return {}


async def cancel_async_message(door: StreamJsonServer, request: ControlRequest) -> Answer:
    """Withdraws a prompt by its uuid, until it is on its way to the model."""
    withdrawn = await door.session.withdraw(str(request.fields.get("message_uuid", "")))
    return {"cancelled": withdrawn is not None}


async def rewind_files(door: StreamJsonServer, request: ControlRequest) -> Answer:
    return await door.session.rewind_files(str(request.fields.get("user_message_id", "")))


HANDLERS: dict[str, Handler] = {
    "initialize": initialize,
    "interrupt": interrupt,
    "set_permission_mode": set_permission_mode,
    "set_model": set_model,
    "mcp_status": mcp_status,
    "mcp_toggle": mcp_toggle,
    "mcp_reconnect": mcp_reconnect,
    "get_context_usage": get_context_usage,
    "rewind_files": rewind_files,
    "stop_task": stop_task,
    "cancel_async_message": cancel_async_message,
}
