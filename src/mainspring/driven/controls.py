"""What a driving program may ask of us at any time, also in the middle of a turn (stream-json 4): a table.

Every request gets one answer, and each is answered by a task of its own: one that takes long holds up nobody.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mainspring.core.errors import MainspringError, UsageError
from mainspring.driven.facts import about_us, context_usage
from mainspring.driven.incoming import Request

if TYPE_CHECKING:
    from mainspring.driven.door import Door
    from mainspring.tools.mcp.servers import Servers

Answer = dict[str, Any]
Handler = Callable[["Door", Request], Awaitable[Answer]]


async def respond(door: Door, request: Request, target: int | None) -> None:
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
        door.interrupt(target)  # what comes of it is told after the answer


async def initialize(door: Door, request: Request) -> Answer:
    """The first one is heard before there is a session, which is made of it; hooks of a later one come too late."""
    if (found := door.world.mcp) is not None:
        await found.ready(kind="sdk")  # those of the other side; others may take their time
    late = bool(request.fields.get("hooks")) and request is not door.first
    return about_us(door.world, door.parts, door.states.now) | ({"hooks_applied": False} if late else {})


async def interrupt(door: Door, request: Request) -> Answer:  # noqa: ARG001
    return {"still_queued": [prompt.id for prompt in door.waiting if prompt.id]}


async def set_permission_mode(door: Door, request: Request) -> Answer:
    mode = await door.changes.mode(request.fields.get("mode"))
    await door.out.put(door.frames.status(mode))
    return {"mode": mode}


async def set_model(door: Door, request: Request) -> Answer:
    from mainspring.assembly.agents import Ways

    session, named = door.world.session, request.fields.get("model")
    wanted = isinstance(named, str) and named not in ("", "default")
    ways = Ways(door.parts)
    model = ways.model(str(named)) if wanted else None
    if model is not None and ways.provider(model.name) is not door.parts.model.provider:
        raise UsageError(f"the model '{named}' is on another server: start a session with '--model {named}'")
    await session.change(replace(session.shared.policy, model=model))
    return {"model": (model or session.config.model).name}


def server(door: Door, request: Request) -> tuple[Servers, str]:
    name, found = str(request.fields.get("serverName", "")), door.world.mcp
    if found is None:
        raise UsageError(f"there is no MCP server '{name}', nor any other")
    return found, name


async def mcp_status(door: Door, request: Request) -> Answer:  # noqa: ARG001
    found = door.world.mcp
    return {"mcpServers": found.status() if found is not None else []}


async def mcp_toggle(door: Door, request: Request) -> Answer:
    found, name = server(door, request)
    await (found.reconnect(name) if request.fields.get("enabled") is True else found.switch_off(name))
    return {}


async def mcp_reconnect(door: Door, request: Request) -> Answer:
    found, name = server(door, request)
    await found.reconnect(name)
    return {}


async def get_context_usage(door: Door, request: Request) -> Answer:  # noqa: ARG001
    return context_usage(door.world)


async def stop_task(door: Door, request: Request) -> Answer:
    """One that is over, or that nobody knows, needs no stopping (as Claude Code has it)."""
    await door.world.stop(str(request.fields.get("task_id", "")))
    if not door.stays:
        await door.turns.shown()  # whoever asks within the program may be the one who reads
    await door.turns.show_loose()
    return {}


async def rewind_files(door: Door, request: Request) -> Answer:
    return await door.world.rewind(str(request.fields.get("user_message_id", "")))


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
