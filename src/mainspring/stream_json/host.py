"""The program at the other end of the pipe, as the host of an agent session (stream-json 5).

`OutgoingRequests` sends control requests to it: many at once, answered in any order, or never.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from mainspring.agent.host import HostHook, JsonObject
from mainspring.engine.session_deps import new_id
from mainspring.stream_json.incoming import ControlReply
from mainspring.stream_json.outgoing import FrameSink
from mainspring.stream_json.wire_host import WireHost, deny
from mainspring.text import as_list, as_object

SHUT = "the program that drives this session has closed the connection"


class CallbackError(Exception):
    """A callback of the program failed. The message is the program's."""


class OutgoingRequests:
    def __init__(self, out: FrameSink, new_id: Callable[[], str]) -> None:
        self._out, self._new_id = out, new_id
        self._open: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._shut = False

    async def ask(self, subtype: str, **fields: Any) -> dict[str, Any]:
        """Raises `CallbackError`, or `ConnectionError` if no answer can come any more. Cancelling the caller withdraws
        the request."""
        if self._shut:
            raise ConnectionError(SHUT)
        own_id = self._new_id()
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._open[own_id] = answer
        try:
            await self._out.put(
                {"type": "control_request", "request_id": own_id, "request": {"subtype": subtype, **fields}}
            )
            return await answer
        except asyncio.CancelledError:
            if not self._shut and own_id in self._open:
                await self._out.put({"type": "control_cancel_request", "request_id": own_id})
            raise
        finally:
            self._open.pop(own_id, None)

    def hear(self, reply: ControlReply) -> None:
        """Ignores a reply without an open request."""
        answer = self._open.pop(reply.id, None)
        if answer is None or answer.done():
            return
        if reply.error is None:
            answer.set_result(reply.value)
        else:
            answer.set_exception(CallbackError(reply.error))

    def shut(self) -> None:
        """Standard input has ended: fails all open and later requests."""
        self._shut = True
        waiting, self._open = self._open, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(ConnectionError(SHUT))


class StreamJsonHost(WireHost):
    def __init__(self, questions: OutgoingRequests, *, approves: bool, interrupt: Callable[[], object]) -> None:
        super().__init__(approves=approves, interrupt=interrupt)
        self._questions = questions

    async def can_use_tool(self, request: JsonObject) -> JsonObject:
        try:
            return await self._questions.ask("can_use_tool", **request)
        except CallbackError as error:
            return deny(f"The permission callback failed: {error}")
        except ConnectionError:
            return deny(f"Permission cannot be requested: {SHUT}.")

    async def run_hook(self, hook_id: str, payload: JsonObject) -> object:
        called = payload.get("tool_use_id") or new_id()
        return await self._questions.ask("hook_callback", callback_id=hook_id, input=payload, tool_use_id=called)

    async def call_mcp(self, server: str, message: JsonObject) -> JsonObject:
        try:
            answer = await self._questions.ask("mcp_message", server_name=server, message=message)
        except CallbackError as error:
            from mainspring.mcp.host_transport import RelayError  # loaded already: it calls this

            raise RelayError(str(error)) from None
        return answer.get("mcp_response") or {}


def read_hooks(given: object) -> tuple[HostHook, ...]:
    """The hooks of an `initialize` request."""
    return tuple([one for event, matchers in as_object(given).items() for one in read_event_hooks(event, matchers)])


def read_event_hooks(event: str, matchers: object) -> list[HostHook]:
    found = [hook for matcher in map(as_object, as_list(matchers)) for hook in read_matcher_hooks(event, matcher)]
    return found or [HostHook(event, "")]  # so that an unknown event causes a warning


def read_matcher_hooks(event: str, matcher: dict[str, Any]) -> list[HostHook]:
    pattern, seconds = matcher.get("matcher"), matcher.get("timeout")
    return [
        HostHook(
            event,
            str(own_id),
            pattern if isinstance(pattern, str) else None,
            float(seconds) if isinstance(seconds, int | float) else None,
            matcher.get("onFailure") == "block",
        )
        for own_id in as_list(matcher.get("hookCallbackIds"))
    ]
