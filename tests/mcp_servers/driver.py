"""Programs that drive us and hold servers themselves: the real client's part of one, and one that misbehaves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

from claude_agent_sdk._internal.query import Query
from claude_agent_sdk._internal.transport import Transport
from mcp.server import Server

ACKNOWLEDGED = {"jsonrpc": "2.0", "result": {}}


class Driver:
    """The client's own dispatch, from the message of a request to `mcp_response`. All goes through JSON, as on the
    pipe; `heard` is what came, in order."""

    def __init__(self, **servers: Server[Any]) -> None:
        self._query = Query(cast("Transport", None), is_streaming_mode=True, sdk_mcp_servers=servers)
        self.heard: list[tuple[str, dict[str, Any]]] = []
        self.left: list[list[str]] = []  # for each request that we stopped to wait for: what was heard until then

    async def send(self, name: str, message: dict[str, Any]) -> dict[str, Any]:
        said = json.loads(json.dumps(message))
        self.heard.append((name, said))
        try:
            answer = await self._query._handle_sdk_mcp_request(name, said)
        except asyncio.CancelledError:
            self.left.append(self.methods(name))
            raise
        return cast("dict[str, Any]", json.loads(json.dumps(ACKNOWLEDGED if answer is None else answer)))

    def methods(self, name: str) -> list[str]:
        return [message["method"] for whose, message in self.heard if whose == name]

    def said(self, method: str) -> list[dict[str, Any]]:
        return [message for _, message in self.heard if message["method"] == method]

    async def close(self) -> None:
        for bridge in self._query._sdk_mcp_bridges.values():
            await bridge.aclose()
        self._query._message_send.close()
        self._query._message_receive.close()


@asynccontextmanager
async def driving(**servers: Server[Any]) -> AsyncGenerator[Driver, None]:
    driver = Driver(**servers)
    try:
        yield driver
    finally:
        await driver.close()


GREETING = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "by hand", "version": "1"},
}
TOOL = {"name": "hello", "inputSchema": {"type": "object"}}
GOOD: dict[str, Any] = {
    "initialize": GREETING,
    "notifications/initialized": {},
    "notifications/cancelled": {},
    "tools/list": {"tools": [TOOL]},
    "tools/call": {"content": [{"type": "text", "text": "hello"}]},
    "resources/list": {"resources": [{"uri": "odd://one", "name": "one"}]},
    "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "odd://{which}", "name": "any"}]},
    "resources/read": {"contents": [{"uri": "odd://one", "text": "the one"}]},
    "prompts/list": {"prompts": [{"name": "greet", "arguments": [{"name": "whom", "required": True}]}]},
    "prompts/get": {"messages": [{"role": "user", "content": {"type": "text", "text": "Say hello."}}]},
}


class ByHand:
    """Every server in it answers alike. `odd` has, by method, what to do instead: to make another answer of a message,
    to raise, or to wait."""

    def __init__(self, **odd: Callable[[dict[str, Any]], Any]) -> None:
        self.odd = {name.replace("_", "/"): answer for name, answer in odd.items()}
        self.heard: list[dict[str, Any]] = []

    async def send(self, name: str, message: dict[str, Any]) -> dict[str, Any]:
        self.heard.append(message)
        answer = self.odd.get(message["method"])
        if answer is not None:
            found = answer(message)
            return cast("dict[str, Any]", await found if asyncio.isfuture(found) else found)
        return {"jsonrpc": "2.0", "id": message.get("id"), "result": GOOD[message["method"]]}

    def said(self, method: str) -> list[dict[str, Any]]:
        return [message for message in self.heard if message["method"] == method]


def never(_: dict[str, Any]) -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()
