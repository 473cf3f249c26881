"""A session with a server that lives in the program which drives us (stream-json 5.3 and 11), in JSON-RPC of our own.

One function takes a message there and brings its answer, so the official client, which takes half a second to load, is
not needed. Nothing comes by itself: no progress, no news of other tools, no questions of the server. What does come
is somebody else's JSON, and nothing in it is believed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

from mainspring.tools.mcp.pages import Page, paged
from mainspring.tools.mcp.results import named, text
from mainspring.tools.mcp.values import MOST, DamagedError, LostError, Progress, RefusedError, Sort
from mainspring.version import __version__

# Takes a message to the server of this name, and brings the answer. Raises `RelayError`, or `ConnectionError` if no
# answer can come any more.
Send = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]

VERSION = "2025-11-25"  # of the protocol; what we say is the same in all that came before
GREETING = "initialize"
METHODS = {
    Sort.TOOLS: "tools/list",
    Sort.RESOURCES: "resources/list",
    Sort.TEMPLATES: "resources/templates/list",
    Sort.PROMPTS: "prompts/list",
}
HAS = {sort: "resources" if sort is Sort.TEMPLATES else str(sort) for sort in Sort}  # what it must say that it has
NAMED = {**dict.fromkeys(Sort, "name"), Sort.RESOURCES: "uri", Sort.TEMPLATES: "uriTemplate"}  # what each entry needs
SHUT = "the program that it lives in listens no more"
MOMENT = 0.5  # seconds, at the end, to tell the server that a call was left


class RelayError(Exception):
    """The program that drives us cannot bring the message to its server. In its words."""


class Relayed:
    def __init__(self, name: str, send: Send, ids: Iterator[int], news: Callable[[], None]) -> None:
        """`ids` are used by nobody else. `news` is called when it is lost."""
        self._name, self._send, self._ids, self._news = name, send, ids, news
        self.instructions = ""
        self.info: dict[str, str] = {}
        self.lost = False
        self.brings: frozenset[str] = frozenset()
        self._open: dict[int, asyncio.Future[object]] = {}  # requests
        self._asides: set[asyncio.Task[None]] = set()  # what is told while nobody waits for it

    def drop(self) -> None:
        self.lost = True
        self._news()

    # --- its life ---

    async def greet(self) -> None:
        """The three steps in their order, each answered before the next: the other side has a task for each."""
        us = {"name": "mainspring", "version": __version__}
        said = await self._ask(GREETING, {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": us})
        if not isinstance(said.get("protocolVersion"), str):
            raise DamagedError("its greeting names no 'protocolVersion'")
        capabilities, info = table(said.get("capabilities")), table(said.get("serverInfo"))
        self.brings = frozenset(("tools",) if capabilities is None else capabilities)
        self.instructions = text(said.get("instructions"))
        self.info = {key: named(info.get(key)) for key in ("name", "version")} if info else {}
        await self._carry(message("notifications/initialized", {}))

    async def close(self) -> None:
        """What is open is lost, and the server is told of it."""
        self.lost = True
        for number, asking in self._open.items():
            self._leave(number)
            asking.cancel()
        try:
            if self._asides:
                await asyncio.wait(self._asides, timeout=MOMENT)
        finally:  # also where we are cancelled ourselves
            for aside in self._asides:
                aside.cancel()

    # --- what it brings ---

    async def listed(self, sort: Sort) -> tuple[list[dict[str, Any]], bool]:
        return (
            await paged(lambda cursor: self._page(sort, cursor), MOST[sort])
            if HAS[sort] in self.brings
            else ([], False)
        )

    async def _page(self, sort: Sort, cursor: str | None) -> Page:
        page = await self._ask(METHODS[sort], {"cursor": cursor} if cursor else {})
        found = tables(page.get(sort), f"its list of {HAS[sort]}")
        if any(not text(one.get(NAMED[sort])) for one in found):
            raise DamagedError(f"its list has a {HAS[sort][:-1]} without a {NAMED[sort]}")
        return found, text(page.get("nextCursor")) or None

    async def call(
        self,
        name: str,
        arguments: dict[str, Any],
        progress: Progress,  # noqa: ARG002  # none comes
    ) -> dict[str, Any]:
        result = await self._ask("tools/call", {"name": name, "arguments": arguments})
        if result.get("structuredContent") is None or "content" in result:
            tables(result.get("content"), "its 'content'")
        return result

    async def read(self, uri: str) -> dict[str, Any]:
        result = await self._ask("resources/read", {"uri": uri})
        tables(result.get("contents"), "its 'contents'")
        return result

    async def prompt(self, name: str, arguments: dict[str, str]) -> dict[str, Any]:
        result = await self._ask("prompts/get", {"name": name, "arguments": arguments})
        tables(result.get("messages"), "its 'messages'")
        return result

    async def folders_changed(self) -> None:
        """It was never told that it may ask for them: it has no way to."""

    # --- messages ---

    async def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The result. Who cancels this leaves the request, and the server is told so; but for the greeting, which the
        protocol lets nobody take back."""
        if self.lost:
            raise LostError
        number = next(self._ids)
        asking = asyncio.ensure_future(self._carry(message(method, params, number)))
        asking.add_done_callback(heeded)
        if method != GREETING:
            self._open[number] = asking
        try:
            await asyncio.wait([asking])
        finally:
            if not asking.done():
                self._leave(number)  # before the way itself is told that nobody waits
                asking.cancel()
            self._open.pop(number, None)
        if asking.cancelled():  # by `close`
            raise LostError
        return result_of(asking.result(), number)

    def _leave(self, number: int) -> None:
        if number in self._open:
            gone = message("notifications/cancelled", {"requestId": number, "reason": "nobody waits for it any more"})
            aside = asyncio.create_task(self._tell(gone))
            self._asides.add(aside)
            aside.add_done_callback(self._asides.discard)

    async def _tell(self, said: dict[str, Any]) -> None:
        with suppress(RefusedError, LostError):  # it was told, or cannot be
            await self._carry(said)

    async def _carry(self, said: dict[str, Any]) -> object:
        try:
            return await self._send(self._name, said)
        except RelayError as error:
            raise RefusedError(str(error)) from None
        except ConnectionError:
            self.drop()
            raise LostError from None


def heeded(asked: asyncio.Future[object]) -> None:
    """Nobody may wait for it any more, and then its error is nobody's."""
    if not asked.cancelled():
        asked.exception()


@asynccontextmanager
async def relayed(name: str, send: Send, ids: Iterator[int], news: Callable[[], None]) -> AsyncGenerator[Relayed, None]:
    link = Relayed(name, send, ids, news)
    try:
        await link.greet()
        yield link
    finally:
        await link.close()


# --- what is said ---------------------------------------------------------------------------------------------------


def message(method: str, params: dict[str, Any], id: int | None = None) -> dict[str, Any]:
    """Without an id it is a notification."""
    numbered = {} if id is None else {"id": id}
    return {"jsonrpc": "2.0", **numbered, "method": method, "params": params}


def result_of(answer: object, id: int) -> dict[str, Any]:
    given = table(answer)
    if given is None:
        raise DamagedError("it is no object")
    if given.get("id") not in (id, None):
        raise DamagedError("it answers another request")
    if given.get("error") is not None:
        error = table(given["error"]) or {}
        raise RefusedError(text(error.get("message")) or f"an error without words (code {error.get('code')})")
    result = table(given.get("result"))
    if result is None:
        raise DamagedError("it has neither a result nor an error")
    return result


def table(value: object) -> dict[str, Any] | None:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def tables(value: object, what: str) -> list[dict[str, Any]]:
    found = [table(item) for item in cast("list[object]", value)] if isinstance(value, list) else [None]
    if None in found:
        raise DamagedError(f"{what} is no list of objects")
    return [item for item in found if item is not None]
