"""MCP servers within the program: a minimal one that lists and calls tools over JSON-RPC, and those made with the
official `mcp` package.

The servers belong to the program, and several sessions may use them; this module keeps the calls of one session.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mainspring.core.errors import ToolError, UsageError
from mainspring.core.value import as_object_or_none
from mainspring.sdk.errors import is_cancelled, log_callback_failure
from mainspring.tools.json_schema import Schema
from mainspring.tools.structured_output import explain_schema_failure

if TYPE_CHECKING:
    from mainspring.sdk.official_mcp_server import ForeignServer


Object = dict[str, Any]
NO_METHOD = -32_601
MOST_SAID = 2_000  # characters of an exception that the model gets


class SdkMcpServer:
    def __init__(self, name: str, version: str) -> None:
        self.name, self.version = name, version
        self.tools: dict[str, tuple[Object, Schema, Callable[[Any], Any]]] = {}

    def add(self, listed: Object, handler: Callable[[Any], Any]) -> None:
        """Raises `UsageError` if its schema is invalid, or its name is taken."""
        if listed["name"] in self.tools:
            raise UsageError(f"the server '{self.name}' has the tool '{listed['name']}' twice")
        self.tools[listed["name"]] = (listed, Schema(listed["inputSchema"]), handler)


class SdkMcpSession:
    """One session's connection to a server. Other sessions may use the server, too, and each numbers its own
    requests.
    """

    def __init__(self, server: SdkMcpServer) -> None:
        self._server = server
        self._running: dict[object, asyncio.Task[Object]] = {}  # by request

    async def hear(self, message: Object) -> Object:
        """The answer to a message; empty for a notification."""
        number, params = message.get("id"), as_object_or_none(message.get("params")) or {}
        match message.get("method"):
            case "initialize":
                return make_response(number, self._greeting(params))
            case "ping":
                return make_response(number, {})
            case "tools/list":
                return make_response(number, {"tools": [listed for listed, _, _ in self._server.tools.values()]})
            case "tools/call":
                return make_response(number, await self._called(number, params))
            case "notifications/cancelled":
                if (running := self._running.get(params.get("requestId"))) is not None:
                    running.cancel()
                return make_response(number, {})
            case str() as method if method.startswith("notifications/"):
                return make_response(number, {})
            case method:
                return unknown_method_error(number, method)

    def _greeting(self, params: Object) -> Object:
        return {
            "protocolVersion": params.get("protocolVersion", ""),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": self._server.name, "version": self._server.version},
        }

    async def _called(self, number: object, params: Object) -> Object:
        name, given = params.get("name", ""), as_object_or_none(params.get("arguments")) or {}
        tools = self._server.tools
        if name not in tools:
            return make_error_content(f"unknown tool '{name}'; available: {', '.join(tools) or 'none'}")
        _, schema, handler = tools[name]
        if why := explain_schema_failure(schema, given):
            return make_error_content(f"the input of '{name}' {why}")
        task = self._running[number] = asyncio.ensure_future(call_tool_handler(handler, given))
        try:
            return result_to_wire(await task)
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            return make_error_content("CancelledError: the function, or something it awaited, was cancelled")
        except ToolError as error:
            return make_error_content(str(error))
        except Exception as error:  # noqa: BLE001  # any exception of the program's function becomes the result
            log_callback_failure(handler, error)
            return make_error_content(f"{type(error).__name__}: {error}"[:MOST_SAID])
        finally:
            self._running.pop(number, None)
            task.cancel()


async def call_tool_handler(handler: Callable[[Any], Any], given: Object) -> Any:
    """A function that is not `async` runs in a thread, so it does not block the event loop."""
    if inspect.iscoroutinefunction(handler):
        return await handler(given)
    made = await asyncio.to_thread(handler, given)
    return await made if inspect.isawaitable(made) else made


def result_to_wire(made: object) -> Object:
    if isinstance(made, str):
        return {"content": [{"type": "text", "text": made}]}
    said = as_object_or_none(made)
    if said is None or not isinstance(said.get("content"), list):
        return make_error_content(
            "the tool did not return a result: return {'content': [{'type': 'text', 'text': ...}]}"
        )
    return {"content": said["content"], "isError": bool(said.get("is_error") or said.get("isError"))}


def make_error_content(words: str) -> Object:
    return {"content": [{"type": "text", "text": words}], "isError": True}


def unknown_method_error(number: object, method: object) -> Object:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": NO_METHOD, "message": f"no '{method}' here"}}


def make_response(number: object, result: Object) -> Object:
    return {"jsonrpc": "2.0", "id": number, "result": result}


class SdkMcpServers:
    def __init__(self, given: Mapping[str, Any] | str | os.PathLike[str]) -> None:
        named: Mapping[str, Any] = {} if isinstance(given, str | os.PathLike) else given
        here = {name: one["instance"] for name, one in named.items() if one.get("type") == "sdk"}
        self._ours = {name: SdkMcpSession(one) for name, one in here.items() if isinstance(one, SdkMcpServer)}
        self._others: dict[str, Any] = {name: one for name, one in here.items() if name not in self._ours}
        self._foreign: dict[str, ForeignServer] = {}

    async def hear(self, name: str, message: Object) -> Object:
        """Raises `UsageError` if there is no such server, `ConnectionError` if it does not run."""
        if name in self._ours:
            return await self._ours[name].hear(message)
        if name not in self._others:
            raise UsageError(f"no MCP server '{name}' in this program")
        return await (await self._begun(name, message)).hear(message)

    async def _begun(self, name: str, message: Object) -> ForeignServer:
        """A server that has ended is restarted by a handshake. Other messages get an error: the new server would not
        know the session.
        """
        from mainspring.sdk.official_mcp_server import ForeignServer

        known = self._foreign.get(name)
        if known is not None and (not known.over or message.get("method") != "initialize"):
            return known
        self._foreign[name] = ForeignServer(self._others[name])
        if known is not None:
            await known.close()
        return self._foreign[name]

    async def close(self) -> None:
        foreign, self._foreign = self._foreign, {}
        for one in foreign.values():
            await one.close()
