"""The program at the other end of the pipe, as the host of an agent session (stream-json 5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mainspring.agent.host import HostHook, JsonObject
from mainspring.engine.session_deps import new_id
from mainspring.stream_json.questions import SHUT, CallbackError, OutgoingRequests
from mainspring.stream_json.wire_host import WireHost, deny
from mainspring.text import as_list, as_object


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
            return deny(f"Nobody can be asked: {SHUT}.")

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
    return found or [HostHook(event, "")]  # so that an event nobody knows is told of


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
