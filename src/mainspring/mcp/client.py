"""A session with a server through the official client, and the client's transports (stdio, HTTP, SSE).

All knowledge of the official client is in this module. Loading it takes half a second, so a thread loads it while the
servers start. The task that opens a connection also closes it, as anyio requires; calls may come from any task.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

import anyio
import httpx2
import mcp_types as types
from mcp.client.session import ClientRequestContext, ClientSession, IncomingMessage
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from pydantic import BaseModel, ValidationError

from mainspring.mcp.base import (
    MOST,
    UNAUTHORIZED,
    McpConnectionLostError,
    McpInvalidReplyError,
    McpListKind,
    McpProgress,
    McpRefusedError,
    McpSessionGoneError,
    Page,
    fetch_all_pages,
)
from mainspring.secrets.redaction import redact
from mainspring.settings.values import McpServer
from mainspring.text import plural
from mainspring.version import __version__

if TYPE_CHECKING:
    import asyncio
    from types import TracebackType

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.client._transport import ReadStream, WriteStream

    from mainspring.mcp.server_process import McpServerProcess

    Streams = tuple[ReadStream[SessionMessage | Exception], WriteStream[SessionMessage]]


NOT_FOUND = 404
BROKEN = "SSE stream"  # how the client's error text begins for an answer that broke off

logging.getLogger("mcp").addHandler(logging.NullHandler())  # its log is not for the user at the terminal

T = TypeVar("T")


class WatchedStream:
    """A stream of messages that records when it has ended."""

    def __init__(self, inner: ReadStream[SessionMessage | Exception], ended: Callable[[], None]) -> None:
        self._inner, self._ended = inner, ended

    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return await self._inner.receive()

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> ReadStream[SessionMessage | Exception]:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self._inner.__anext__()
        except (StopAsyncIteration, anyio.ClosedResourceError):
            self._ended()
            raise

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        self._ended()
        return await self._inner.__aexit__(exc_type, exc_val, exc_tb)


class OfficialClientSession:
    """A session with a server."""

    def __init__(self, session: ClientSession, news: Callable[[], None], heard: LastHttpStatus | None = None) -> None:
        """`news` is called when the connection is lost. `heard`: the last HTTP status, for a server over HTTP."""
        self._session, self._news, self._heard = session, news, heard
        self.lost = False

    def drop(self) -> None:
        self.lost = True
        self._news()

    @property
    def instructions(self) -> str:
        return self._session.instructions or ""

    @property
    def info(self) -> dict[str, str]:
        found = self._session.server_info
        return {"name": found.name, "version": found.version or ""} if found is not None else {}

    @property
    def brings(self) -> frozenset[str]:
        said = self._session.server_capabilities
        if said is None:
            return frozenset({"tools"})
        return frozenset([name for name in ("tools", "resources", "prompts") if getattr(said, name) is not None])

    async def listed(self, sort: McpListKind) -> tuple[list[dict[str, Any]], bool]:
        return await fetch_all_pages(lambda cursor: self._page(sort, cursor), MOST[sort])

    async def _page(self, sort: McpListKind, cursor: str | None) -> Page:
        session, asked = self._session, types.PaginatedRequestParams(cursor=cursor) if cursor else None
        found: list[Any]
        match sort:
            case McpListKind.TOOLS:
                tools = await self._told(session.list_tools(params=asked))
                found, following = [*tools.tools], tools.next_cursor
            case McpListKind.RESOURCES:
                resources = await self._told(session.list_resources(params=asked))
                found, following = [*resources.resources], resources.next_cursor
            case McpListKind.TEMPLATES:
                templates = await self._told(session.list_resource_templates(params=asked))
                found, following = [*templates.resource_templates], templates.next_cursor
            case McpListKind.PROMPTS:
                prompts = await self._told(session.list_prompts(params=asked))
                found, following = [*prompts.prompts], prompts.next_cursor
        return [model_to_json(one) for one in found], following

    async def call(self, name: str, arguments: dict[str, Any], progress: McpProgress) -> dict[str, Any]:
        """The result as JSON. Cancelling this cancels the call at the server.

        Not with `call_tool`: that drops a result that does not fit the server's own schema, although the call was done.
        """
        asked = types.CallToolRequest(params=types.CallToolRequestParams(name=name, arguments=arguments))
        asking = self._session.send_request(asked, types.CallToolResult, progress_callback=progress)
        return model_to_json(await self._told(asking))

    async def read(self, uri: str) -> dict[str, Any]:
        asked = types.ReadResourceRequest(params=types.ReadResourceRequestParams(uri=uri))
        return model_to_json(await self._told(self._session.send_request(asked, types.ReadResourceResult)))

    async def prompt(self, name: str, arguments: dict[str, str]) -> dict[str, Any]:
        asked = types.GetPromptRequest(params=types.GetPromptRequestParams(name=name, arguments=arguments))
        return model_to_json(await self._told(self._session.send_request(asked, types.GetPromptResult)))

    async def folders_changed(self) -> None:
        await self._told(self._session.send_notification(types.RootsListChangedNotification()))

    async def _told(self, asking: Awaitable[T]) -> T:
        """Turn every failure into one of our errors."""
        try:
            return await asking
        except MCPError as error:
            raise self._meant(error) from None
        except (ValidationError, RecursionError) as error:
            raise McpInvalidReplyError(str(error).partition("\n")[0]) from None
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise McpConnectionLostError from None

    def _meant(self, error: MCPError) -> Exception:
        if self._heard is not None and self._heard.status == NOT_FOUND:  # by the protocol: the session is
            self.drop()
            return McpSessionGoneError()
        if self._heard is not None and error.code == types.CONNECTION_CLOSED and BROKEN in str(error):
            self.drop()
        if self.lost:
            return McpConnectionLostError()
        return McpRefusedError(str(error))


class ServerListener(Protocol):
    """Receives the server's own notifications and requests."""

    def lost(self) -> None: ...

    def changed(self) -> None:
        """Its tools or prompts have changed."""
        ...

    async def asked(self, wish: dict[str, Any]) -> dict[str, Any]:
        """It asks the user for something (`elicitation/create`). Returns the answer, as JSON."""
        ...

    def folders(self) -> tuple[str, ...]:
        """The working directories."""
        ...


# Resources are listed on demand and never kept, so a list cannot be stale.
CHANGED = (types.ToolListChangedNotification, types.PromptListChangedNotification)


@asynccontextmanager
async def open_client_session(
    streams: Streams, news: ServerListener, heard: LastHttpStatus | None = None
) -> AsyncGenerator[OfficialClientSession, None]:
    read, write = streams

    async def hear_of(message: IncomingMessage) -> None:
        if isinstance(message, CHANGED):
            news.changed()

    async def elicited(
        context: ClientRequestContext,  # noqa: ARG001
        params: types.ElicitRequestParams,
    ) -> types.ElicitResult | types.ErrorData:
        return types.ElicitResult.model_validate(await news.asked(model_to_json(params)))

    async def roots(context: ClientRequestContext) -> types.ListRootsResult | types.ErrorData:  # noqa: ARG001
        places = [Path(folder) for folder in news.folders()]
        return types.ListRootsResult.model_validate(
            {"roots": [{"uri": place.as_uri(), "name": place.name or str(place)} for place in places]}
        )

    def ended() -> None:
        link.drop()

    session = ClientSession(
        WatchedStream(read, ended),
        write,
        message_handler=hear_of,
        client_info=types.Implementation(name="mainspring", version=__version__),
        elicitation_callback=elicited,
        list_roots_callback=roots,
    )
    link = OfficialClientSession(session, news.lost, heard)
    async with session:
        await greet_server(session, link)
        yield link


def model_to_json(value: BaseModel) -> dict[str, Any]:
    return value.model_dump(by_alias=True, mode="json", exclude_none=True)


async def greet_server(session: ClientSession, link: OfficialClientSession) -> None:
    """`initialize`, then `discover` for servers of a newer protocol version. Others may reject a `discover` that comes
    first.
    """
    try:
        await session.initialize()
    except MCPError as error:
        if link.lost:
            raise McpConnectionLostError from None
        if error.code not in (types.METHOD_NOT_FOUND, types.UNSUPPORTED_PROTOCOL_VERSION):
            raise McpRefusedError(str(error)) from None
        try:
            await session.discover()
        except MCPError:
            raise McpRefusedError(str(error)) from None


SLICE = 65_536
LONGEST_STRAY = 200  # characters of a line that a message shows
LONGEST_LINE = 32_000_000  # bytes of one message: an image of the largest size, with some room


class StrayOutput:
    """The last of what a program printed beside its messages, in case that it never sends one."""

    def __init__(self) -> None:
        self.count = 0
        self.last = b""

    def add(self, line: bytes) -> None:
        self.count += 1
        self.last = line[: 10 * LONGEST_STRAY]

    @property
    def words(self) -> str:
        shown = redact(self.last.decode(errors="replace"))[:LONGEST_STRAY]  # redact first: no half secrets
        return (
            f"; it printed {plural(self.count, 'line')} that are not messages, such as '{shown}'" if self.count else ""
        )


@asynccontextmanager
async def connect_over_pipes(program: McpServerProcess, strays: StrayOutput) -> AsyncGenerator[Streams, None]:
    reader, writer = await program.pipes()
    to_us, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, from_us = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read_from_server, reader, to_us, strays)
            tasks.start_soon(write_to_server, writer, from_us, to_us)
            yield read, write
            tasks.cancel_scope.cancel()
    finally:
        writer.close()
        for stream in (to_us, read, write, from_us):
            stream.close()


async def read_from_server(
    reader: asyncio.StreamReader, to_us: MemoryObjectSendStream[SessionMessage | Exception], strays: StrayOutput
) -> None:
    """Read until the server's output ends, which ends the session. Reading pauses while a message is not consumed."""
    kept = bytearray()
    async with to_us:
        while data := await reader.read(SLICE):
            kept += data
            if b"\n" in data:
                *lines, rest = bytes(kept).split(b"\n")
                kept = bytearray(rest)
                for line in lines:
                    if not await forward_line(line, to_us, strays):
                        return
            if len(kept) > LONGEST_LINE:
                strays.add(b"a message of more than 32 MB")
                return


async def forward_line(
    line: bytes, to_us: MemoryObjectSendStream[SessionMessage | Exception], strays: StrayOutput
) -> bool:
    """Forward a message. Many servers also print log lines to standard output: these are skipped."""
    if not line.strip():
        return True
    try:
        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        strays.add(line)
        return True
    try:
        await to_us.send(SessionMessage(message))
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        return False
    return True


async def write_to_server(
    writer: asyncio.StreamWriter,
    from_us: MemoryObjectReceiveStream[SessionMessage],
    to_us: MemoryObjectSendStream[SessionMessage | Exception],
) -> None:
    try:
        async with from_us:
            async for message in from_us:
                json = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                writer.write(json.encode(errors="replace") + b"\n")
                await writer.drain()
    except OSError:  # it does not read any more
        to_us.close()


class LastHttpStatus:
    """The status of the last HTTP response: the client's session does not expose it."""

    def __init__(self) -> None:
        self.status = 0

    async def note(self, response: httpx2.Response) -> None:
        """The status of a background stream matters only if it says that access is denied."""
        if response.request.method == "POST" or response.status_code in UNAUTHORIZED:
            self.status = response.status_code


def connect_over_http(server: McpServer, heard: LastHttpStatus, seconds: float) -> AbstractAsyncContextManager[Streams]:
    def client(headers: Any = None, timeout: Any = None, auth: Any = None) -> httpx2.AsyncClient:  # noqa: ARG001
        return httpx2.AsyncClient(
            headers={"User-Agent": f"mainspring/{__version__}", **server.headers},
            timeout=httpx2.Timeout(30.0, read=seconds),
            event_hooks={"response": [heard.note]},
        )

    if server.kind == "sse":
        return sse_client(server.url, sse_read_timeout=seconds, httpx_client_factory=client)
    return _streamable(server.url, client)


@asynccontextmanager
async def _streamable(url: str, client: Callable[[], httpx2.AsyncClient]) -> AsyncGenerator[Streams, None]:
    async with client() as one, streamable_http_client(url, http_client=one) as streams:
        yield streams
