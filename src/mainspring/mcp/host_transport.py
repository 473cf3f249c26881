"""A session with a server that lives in the host program (stream-json 5.3 and 11), with our own JSON-RPC.

One function sends a message to the host and returns the answer, so the official client, which takes half a second to
load, is not needed. The server cannot send anything by itself: no progress, no changed lists, no questions. Its answers
are untrusted JSON and are checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

from mainspring.core.value import as_object_or_none
from mainspring.mcp.base import (
    MOST,
    McpConnectionLostError,
    McpInvalidReplyError,
    McpListKind,
    McpProgress,
    McpRefusedError,
    Page,
    fetch_all_pages,
)
from mainspring.tools.results import one_line_name, text_or_empty
from mainspring.version import __version__

# Sends a message to the server of this name and returns the answer. Raises `RelayError`, or `ConnectionError` if no
# answer can come any more.
Send = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]

VERSION = "2025-11-25"  # of the protocol; our messages are the same in all earlier versions
GREETING = "initialize"
METHODS = {
    McpListKind.TOOLS: "tools/list",
    McpListKind.RESOURCES: "resources/list",
    McpListKind.TEMPLATES: "resources/templates/list",
    McpListKind.PROMPTS: "prompts/list",
}
HAS = {
    sort: "resources" if sort is McpListKind.TEMPLATES else str(sort) for sort in McpListKind
}  # the capability that each list needs
NAMED = {
    **dict.fromkeys(McpListKind, "name"),
    McpListKind.RESOURCES: "uri",
    McpListKind.TEMPLATES: "uriTemplate",
}  # the field that each entry needs
SHUT = "its host program does not respond any more"
MOMENT = 0.5  # seconds, at the end, to cancel a call at the server


class RelayError(Exception):
    """The host cannot deliver the message to its server. The text is the host's."""


class HostMcpSession:
    def __init__(self, name: str, send: Send, ids: Iterator[int], news: Callable[[], None]) -> None:
        """`ids` must be unique to this session. `news` is called when the connection is lost."""
        self._name, self._send, self._ids, self._news = name, send, ids, news
        self.instructions = ""
        self.info: dict[str, str] = {}
        self.lost = False
        self.brings: frozenset[str] = frozenset()
        self._open: dict[int, asyncio.Future[object]] = {}  # requests
        self._asides: set[asyncio.Task[None]] = set()  # notifications sent without waiting

    def drop(self) -> None:
        self.lost = True
        self._news()

    # --- life cycle ---

    async def greet(self) -> None:
        """The three steps of the handshake in order, each answered before the next: the host runs a task for each."""
        us = {"name": "mainspring", "version": __version__}
        said = await self._ask(GREETING, {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": us})
        if not isinstance(said.get("protocolVersion"), str):
            raise McpInvalidReplyError("its greeting names no 'protocolVersion'")
        capabilities, info = as_object_or_none(said.get("capabilities")), as_object_or_none(said.get("serverInfo"))
        self.brings = frozenset(("tools",) if capabilities is None else capabilities)
        self.instructions = text_or_empty(said.get("instructions"))
        self.info = {key: one_line_name(info.get(key)) for key in ("name", "version")} if info else {}
        await self._carry(make_jsonrpc_message("notifications/initialized", {}))

    async def close(self) -> None:
        """End open calls as lost and cancel them at the server."""
        self.lost = True
        for number, asking in self._open.items():
            self._leave(number)
            asking.cancel()
        try:
            if self._asides:
                await asyncio.wait(self._asides, timeout=MOMENT)
        finally:  # also if this task is cancelled
            for aside in self._asides:
                aside.cancel()

    # --- lists and calls ---

    async def listed(self, sort: McpListKind) -> tuple[list[dict[str, Any]], bool]:
        return (
            await fetch_all_pages(lambda cursor: self._page(sort, cursor), MOST[sort])
            if HAS[sort] in self.brings
            else ([], False)
        )

    async def _page(self, sort: McpListKind, cursor: str | None) -> Page:
        page = await self._ask(METHODS[sort], {"cursor": cursor} if cursor else {})
        found = as_object_list(page.get(sort), f"its list of {HAS[sort]}")
        if any(not text_or_empty(one.get(NAMED[sort])) for one in found):
            raise McpInvalidReplyError(f"its list has a {HAS[sort][:-1]} without '{NAMED[sort]}'")
        return found, text_or_empty(page.get("nextCursor")) or None

    async def call(
        self,
        name: str,
        arguments: dict[str, Any],
        progress: McpProgress,  # noqa: ARG002  # none comes
    ) -> dict[str, Any]:
        result = await self._ask("tools/call", {"name": name, "arguments": arguments})
        if result.get("structuredContent") is None or "content" in result:
            as_object_list(result.get("content"), "its 'content'")
        return result

    async def read(self, uri: str) -> dict[str, Any]:
        result = await self._ask("resources/read", {"uri": uri})
        as_object_list(result.get("contents"), "its 'contents'")
        return result

    async def prompt(self, name: str, arguments: dict[str, str]) -> dict[str, Any]:
        result = await self._ask("prompts/get", {"name": name, "arguments": arguments})
        as_object_list(result.get("messages"), "its 'messages'")
        return result

    async def folders_changed(self) -> None:
        """Does nothing: this transport never announced roots, because the server cannot ask for them."""

    # --- messages ---

    async def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The result. Cancelling this cancels the request at the server; but not the handshake, which the protocol does
        not allow to cancel.
        """
        if self.lost:
            raise McpConnectionLostError
        number = next(self._ids)
        asking = asyncio.ensure_future(self._carry(make_jsonrpc_message(method, params, number)))
        asking.add_done_callback(ignore_exception)
        if method != GREETING:
            self._open[number] = asking
        try:
            await asyncio.wait([asking])
        finally:
            if not asking.done():
                self._leave(number)  # before the relay itself is cancelled
                asking.cancel()
            self._open.pop(number, None)
        if asking.cancelled():  # by `close`
            raise McpConnectionLostError
        return result_of(asking.result(), number)

    def _leave(self, number: int) -> None:
        if number in self._open:
            gone = make_jsonrpc_message(
                "notifications/cancelled", {"requestId": number, "reason": "the request was cancelled"}
            )
            aside = asyncio.create_task(self._tell(gone))
            self._asides.add(aside)
            aside.add_done_callback(self._asides.discard)

    async def _tell(self, said: dict[str, Any]) -> None:
        with suppress(McpRefusedError, McpConnectionLostError):  # the server was notified, or cannot be
            await self._carry(said)

    async def _carry(self, said: dict[str, Any]) -> object:
        try:
            return await self._send(self._name, said)
        except RelayError as error:
            raise McpRefusedError(str(error)) from None
        except ConnectionError:
            self.drop()
            raise McpConnectionLostError from None


def ignore_exception(asked: asyncio.Future[object]) -> None:
    """If no caller waits any more, the error is ignored."""
    if not asked.cancelled():
        asked.exception()


@asynccontextmanager
async def open_host_session(
    name: str, send: Send, ids: Iterator[int], news: Callable[[], None]
) -> AsyncGenerator[HostMcpSession, None]:
    link = HostMcpSession(name, send, ids, news)
    try:
        await link.greet()
        yield link
    finally:
        await link.close()


# --- message format -------------------------------------------------------------------------------------------------


def make_jsonrpc_message(method: str, params: dict[str, Any], id: int | None = None) -> dict[str, Any]:
    """Without an id the message is a notification."""
    numbered = {} if id is None else {"id": id}
    return {"jsonrpc": "2.0", **numbered, "method": method, "params": params}


def result_of(answer: object, id: int) -> dict[str, Any]:
    given = as_object_or_none(answer)
    if given is None:
        raise McpInvalidReplyError("it is not an object")
    if given.get("id") not in (id, None):
        raise McpInvalidReplyError("it answers another request")
    if given.get("error") is not None:
        error = as_object_or_none(given["error"]) or {}
        raise McpRefusedError(
            text_or_empty(error.get("message")) or f"an error without a message (code {error.get('code')})"
        )
    result = as_object_or_none(given.get("result"))
    if result is None:
        raise McpInvalidReplyError("it has neither a result nor an error")
    return result


def as_object_list(value: object, what: str) -> list[dict[str, Any]]:
    found = [as_object_or_none(item) for item in cast("list[object]", value)] if isinstance(value, list) else [None]
    if None in found:
        raise McpInvalidReplyError(f"{what} is not a list of objects")
    return [item for item in found if item is not None]
