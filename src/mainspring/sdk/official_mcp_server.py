"""A server within the program that was made with the official `mcp` package. The program imports the package."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCMessage
from pydantic import TypeAdapter

from mainspring.engine.tasks import end_all
from mainspring.sdk.mcp_server import Object, unknown_method_error

READ: TypeAdapter[Any] = TypeAdapter(JSONRPCMessage)  # one class in version 1 of the package, several in 2
ROOM = 100  # messages that may wait, either way
WAY_OUT = "call 'reconnect_mcp_server' to restart it"


class ForeignServer:
    """Runs from its first message until the session ends, or until it fails."""

    def __init__(self, server: Any) -> None:
        held = getattr(server, "_lowlevel_server", None) or getattr(server, "_mcp_server", None)
        self._server = held or server  # `MCPServer` wraps one, and so did `FastMCP`
        self.over = ""  # why it does not run any more
        self._asked: dict[object, asyncio.Future[Object]] = {}
        self._to, self._heard = anyio.create_memory_object_stream[Any](ROOM)
        self._said, self._from = anyio.create_memory_object_stream[Any](ROOM)
        self._tasks = [asyncio.ensure_future(self._until_over(work)) for work in (self._run(), self._listen())]

    async def hear(self, message: Object) -> Object:
        """Raises `ConnectionError` if it does not run, or ends before it has answered."""
        if self.over:
            raise ConnectionError(self.over)
        number = message.get("id")
        parsed = SessionMessage(READ.validate_python(message))
        if number is None:
            await self._send(parsed)
            return {"jsonrpc": "2.0", "result": {}}
        answer: asyncio.Future[Object] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        try:
            await self._send(parsed)
            return await answer
        finally:
            self._asked.pop(number, None)

    async def _send(self, message: Any) -> None:
        try:
            await self._to.send(message)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):  # it does not read any more
            self._lose("the server has ended")

    async def close(self) -> None:
        await end_all(self._tasks)
        for stream in (self._to, self._heard, self._said, self._from):
            stream.close()

    async def _until_over(self, work: Awaitable[None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001  # the waiting callers get it
            self._lose(f"the server failed: {str(error) or type(error).__name__}")
        except asyncio.CancelledError:  # by `close`, or by one of its own tools
            self._lose("the server was cancelled")
            raise
        else:
            self._lose("the server has ended")

    def _lose(self, why: str) -> None:
        """Only the first reason counts."""
        self.over = self.over or f"{why}: {WAY_OUT}"
        self._heard.close()  # callers that wait for room get the error, too
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(ConnectionError(self.over))

    async def _run(self) -> None:
        await self._server.run(self._heard, self._said, self._server.create_initialization_options())

    async def _listen(self) -> None:
        async for one in self._from:
            said: Object = one.message.model_dump(by_alias=True, mode="json", exclude_none=True)
            if "method" not in said:
                answer = self._asked.get(said.get("id"))
                if answer is not None and not answer.done():
                    answer.set_result(said)
            elif "id" in said:  # it asks for something that we do not support
                await self._send(SessionMessage(READ.validate_python(unknown_method_error(said["id"], said["method"]))))
