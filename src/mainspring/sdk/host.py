"""The program as the host of a session: its callbacks are called directly.

Each call runs in a task of its own: a function that ignores cancellation blocks nothing, and if a function's own await
was cancelled, that function has failed, not the session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

import msgspec

from mainspring.agent.host import JsonObject
from mainspring.engine.session_deps import new_id
from mainspring.engine.tasks import end_all, retrieve_exception
from mainspring.sdk import hooks, permissions
from mainspring.sdk.errors import log_callback_failure
from mainspring.sdk.mcp_server import SdkMcpServers
from mainspring.stream_json.wire_host import WireHost, deny

T = TypeVar("T")


class ProgramCallbackError(Exception):
    """A function of the program failed; the text names the exception."""


class ProgramHost(WireHost):
    def __init__(  # noqa: PLR0913  # keywords, half of them
        self,
        can_use_tool: permissions.CanUseTool | None,
        callbacks: dict[str, hooks.HookCallback],
        servers: SdkMcpServers,
        *,
        approves: bool,
        interrupt: Callable[[], object],
        deps: object = None,
    ) -> None:
        """`callbacks`: hooks by their ids. `deps`: the program's own object, for its callbacks."""
        super().__init__(approves=approves, interrupt=interrupt)
        self._can_use_tool, self._callbacks, self._servers = can_use_tool, callbacks, servers
        self._deps = deps
        self._calls: set[asyncio.Task[Any]] = set()

    async def can_use_tool(self, request: JsonObject) -> JsonObject:
        if self._can_use_tool is None:
            return deny("The permission callback failed: 'can_use_tool' is not set.")
        try:
            return await self._call(
                self._can_use_tool, permissions.call_can_use_tool(self._can_use_tool, own_copy(request), self._deps)
            )
        except ProgramCallbackError as error:
            return deny(f"The permission callback failed: {error}")

    async def run_hook(self, hook_id: str, payload: JsonObject) -> object:
        callback = self._callbacks[hook_id]
        asked = {"input": own_copy(payload), "tool_use_id": payload.get("tool_use_id") or new_id()}
        return await self._call(callback, hooks.call_hook_callback(callback, asked, self._deps))

    async def call_mcp(self, server: str, message: JsonObject) -> JsonObject:
        try:
            return await self._call(None, self._servers.hear(server, own_copy(message))) or {}
        except ProgramCallbackError as error:
            from mainspring.mcp.host_transport import RelayError  # already imported: that module calls this one

            raise RelayError(str(error)) from None

    async def _call(self, function: object, work: Coroutine[Any, Any, T]) -> T:
        """Raises `ProgramCallbackError`. An exception of the program's function is logged with its traceback."""
        task = asyncio.ensure_future(work)
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        task.add_done_callback(retrieve_exception)
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            raise
        if task.cancelled():
            raise ProgramCallbackError("CancelledError: the callback, or something it awaited, was cancelled")
        if (error := task.exception()) is not None:
            if function is not None:
                log_callback_failure(function, error)
            raise ProgramCallbackError(f"{type(error).__name__}: {error}")
        return task.result()

    async def close(self) -> None:
        await end_all(self._calls)


def own_copy(value: T) -> T:
    """A copy of plain values that belongs to the program: it may change them."""
    return cast("T", msgspec.to_builtins(value, enc_hook=str))
