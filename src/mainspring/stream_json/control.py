"""What a driving program may ask of us at any time, also in the middle of a turn (stream-json 4): a table.

Every request gets one answer, and each is answered by a task of its own: one that takes long holds up nobody.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from mainspring.core.errors import MainspringError, UsageError
from mainspring.stream_json.facts import about_us
from mainspring.stream_json.incoming import ControlRequest

if TYPE_CHECKING:
    from mainspring.stream_json.server import StreamJsonServer

Answer = dict[str, Any]
Handler = Callable[["StreamJsonServer", ControlRequest], Awaitable[Answer]]


async def answer_control_request(door: StreamJsonServer, request: ControlRequest, target: int | None) -> None:
    """`target`: the turn that an interrupt is about, by what was known when it came."""
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
        door.session.interrupt(target)  # what comes of it is told after the answer


async def initialize(door: StreamJsonServer, request: ControlRequest) -> Answer:
    """The first one is heard before there is a session, which is made of it; hooks of a later one come too late."""
    if (found := door.session.world.mcp) is not None:
        await found.ready(kind="sdk")  # those of the other side; others may take their time
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
    """One that is over, or that nobody knows, needs no stopping (as Claude Code has it)."""
    await door.session.stop_task(str(request.fields.get("task_id", "")))
    await door.session.updates().caught_up()
    return {}


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
}
