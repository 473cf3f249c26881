"""One MCP server, from its start to its end.

    pending --> connected --> (lost) --> pending --> connected
        \\--> failed, needs-auth            \\--> failed

A task of its own opens the connection, keeps it and closes it. If the connection is lost, the next call of one of the
server's tools restarts it, once; after a successful call it may be restarted again. Changed lists are fetched before
the next turn and not earlier, so a server that sends notifications all the time causes one request per turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mainspring import mcp
from mainspring.core.errors import ToolError, UsageError
from mainspring.mcp.base import (
    MOST_TOLD,
    UNAUTHORIZED,
    ListedTool,
    McpConnectionLostError,
    McpInvalidReplyError,
    McpListKind,
    McpRefusedError,
    McpSession,
    McpSessionGoneError,
    McpStatus,
    McpTimeoutError,
    clip_instructions,
    describe_call_failure,
    describe_end_reason,
    explain_missing_list,
    parse_listed_tool,
)
from mainspring.mcp.resources import McpPrompt, parse_prompt
from mainspring.mcp.server_process import CallClock, McpServerDefaults
from mainspring.secrets.redaction import redact
from mainspring.settings.mcp_servers import NO_DRIVER, SDK
from mainspring.settings.values import McpServer
from mainspring.tools.base import ToolContext
from mainspring.tools.results import clean_mcp_text, one_line_name

if TYPE_CHECKING:
    from mainspring.mcp.client import LastHttpStatus, StrayOutput, Streams
    from mainspring.mcp.server_process import McpServerProcess

_LOG = logging.getLogger("mainspring.mcp")

BACKOFF = 0.5  # seconds before a lost server is started again
ENDING = 4.0  # seconds for a connection to close; this includes the grace period of a program
LONGEST_PROGRESS = 200
MOST_QUESTIONS = 10  # questions of one server that may wait for the user


class ConnectionAttempt:
    """The resources of one connection attempt, to find out why it ended."""

    def __init__(self) -> None:
        self.program: McpServerProcess | None = None
        self.strays: StrayOutput | None = None
        self.heard: LastHttpStatus | None = None
        self.end = "the connection ended"

    @property
    def ended(self) -> str:
        return self.program.ended if self.program is not None and self.program.ended else self.end

    @property
    def note(self) -> str:
        return self.program.note if self.program is not None else ""

    @property
    def last_words(self) -> str:
        strays = self.strays.words if self.strays is not None else ""
        return clean_mcp_text(strays + (self.program.last_words if self.program is not None else ""))


class McpServerConnection:
    def __init__(self, wanted: McpServer, name: str, host: McpServerDefaults, news: Callable[[], None]) -> None:
        """`name` is the normalized one; `news` is called when the status or the tools have changed."""
        self.wanted, self.name, self._host, self._news = wanted, name, host, news
        self.status = McpStatus.PENDING
        self.error = ""
        self.tools: dict[str, ListedTool] = {}
        self.prompts: dict[str, McpPrompt] = {}  # by the server's own names
        self.brings: frozenset[str] = frozenset()  # capabilities, with the protocol's names
        self.has_more: list[McpListKind] = []  # lists that are longer than the limit
        self.notes: list[str] = []  # notes for the user, beside the status
        self.instructions = ""
        self.info: dict[str, str] = {}
        self._task: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()  # connected, or failed
        self._woken = asyncio.Event()  # `close` was called, or the connection is lost
        self._stopping = False
        self._stale = False  # the lists it sent
        self._deaf = False  # to its notifications: it did not answer when asked for the lists again
        self._waiting: list[CallClock] = []  # calls that run, newest last
        self._questions = 0  # questions to the user that are open
        self._link: McpSession | None = None
        self._may_return = True
        self._returning = asyncio.Lock()

    # --- life cycle -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._stopping = self._stale = self._deaf = False
        self._settled.clear()
        self.status, self.error = McpStatus.PENDING, ""
        self._task = asyncio.create_task(self._live(ConnectionAttempt()), name=f"MCP server {self.name}")

    async def restart(self) -> None:
        """Restart on request; returns when the server is connected or has failed."""
        await self.close()
        self._may_return = True
        self.start()
        await self.settled()

    async def settled(self) -> None:
        await self._settled.wait()

    async def close(self) -> None:
        """Close the server in any state. When this returns, the server has ended."""
        self._stopping = True
        self._woken.set()
        task = self._task
        if task is None:
            return
        if self._link is None:
            task.cancel()
        await asyncio.wait([task], timeout=ENDING)
        if not task.done():
            task.cancel()
            await asyncio.wait([task])

    async def _live(self, ways: ConnectionAttempt) -> None:
        """This task closes everything that it opens."""
        why: BaseException | None = None
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self._host.limits.start):
                    link = await self._reach(stack, ways)
                    await self._ask(link)
                self._link, self.instructions, self.info = link, clip_instructions(link.instructions), link.info
                self.brings = link.brings
                self._set(McpStatus.CONNECTED)
                await self._keep(link)
        except asyncio.CancelledError as error:  # by `close`, or because the event loop ends
            why = error
            raise
        except Exception as error:  # any error of the client, the system or the server  # noqa: BLE001
            why = error
        finally:
            self._link = None
            self._over(why, ways)

    async def _reach(self, stack: AsyncExitStack, ways: ConnectionAttempt) -> McpSession:
        if self.wanted.kind == SDK:
            return await stack.enter_async_context(self._within_driver(ways))
        host = self._host
        loading = host.load()  # loading takes time, and so does starting a program: do both at once
        if self.wanted.kind == "stdio":
            ground = replace(host.ground, trusted=True) if self.wanted.by_host else host.ground
            ways.program = mcp.McpServerProcess(host.children(), self.wanted, host.env(), ground)
            stack.push_async_callback(ways.program.close)
        await asyncio.shield(loading)
        streams = await stack.enter_async_context(self._way(ways))
        return await stack.enter_async_context(mcp.open_client_session(streams, self, ways.heard))

    def _way(self, ways: ConnectionAttempt) -> AbstractAsyncContextManager[Streams]:
        if ways.program is not None:
            ways.strays = mcp.StrayOutput()
            return mcp.connect_over_pipes(ways.program, ways.strays)
        ways.heard = mcp.LastHttpStatus()
        return mcp.connect_over_http(self.wanted, ways.heard, self._host.limits.call)

    def _within_driver(self, ways: ConnectionAttempt) -> AbstractAsyncContextManager[McpSession]:
        """Connect without loading the official client."""
        if self._host.relay is None:
            raise UsageError(NO_DRIVER)
        ways.end = mcp.SHUT
        return mcp.open_host_session(self.wanted.name, self._host.relay, self._host.ids, self.lost)

    async def _keep(self, link: McpSession) -> None:
        while not self._stopping and not link.lost:
            await self._woken.wait()
            self._woken.clear()

    # --- notifications and requests of the server ---

    def lost(self) -> None:
        """Called by the session."""
        self._woken.set()

    def changed(self) -> None:
        if not self._deaf:
            self._stale = True
            self._news()

    def folders(self) -> tuple[str, ...]:
        return self._host.folders()

    async def asked(self, wish: dict[str, Any]) -> dict[str, Any]:
        """Ask the user. The protocol does not say which call the question is for: it counts for the latest one."""
        if not self._waiting or not self._host.asks or self._questions >= MOST_QUESTIONS:
            return mcp.DECLINE
        waiting = self._waiting[-1]
        self._questions += 1
        try:
            async with waiting.paused(), self._host.one:
                return await mcp.ask_form(self.wanted.name, wish, waiting.ask)
        except Exception:  # noqa: BLE001  # the callback may fail in any way: that is no approval
            return mcp.DECLINE
        finally:
            self._questions -= 1

    # --- lists ---

    async def refresh(self) -> None:
        """Called before a turn: fetch the lists again if the server said that they changed. If it does not send them,
        it keeps the old ones.
        """
        link = self._link
        if not self._stale or link is None or link.lost:
            return
        self._stale = False
        seconds = self._host.limits.lists
        try:
            async with asyncio.timeout(seconds):
                await self._ask(link)
        except (McpConnectionLostError, McpSessionGoneError):  # `_live` handles it
            pass
        except Exception as error:  # any error of the client: a turn waits for this  # noqa: BLE001
            self._deaf = True
            self._note(
                f"said that its lists have changed, and {explain_missing_list(error, seconds)}: the old ones are used"
            )

    async def _ask(self, link: McpSession) -> None:
        """Fetch its tools and prompts. If a name comes twice, the first entry wins."""
        found: dict[str, ListedTool] = {}
        more: list[McpListKind] = []
        tools = await self._list(link, McpListKind.TOOLS, more)
        for tool in tools:
            one = parse_listed_tool(tool)
            found.setdefault(one.name, one)
        prompts = await self._ask_prompts(link, more)
        self.tools, self.prompts, self.has_more = found, prompts, more

    async def _list(self, link: McpSession, sort: McpListKind, more: list[McpListKind]) -> list[dict[str, Any]]:
        if sort not in link.brings:
            return []
        found, has_more = await link.listed(sort)
        if has_more:
            more.append(sort)
        return found

    async def _ask_prompts(self, link: McpSession, more: list[McpListKind]) -> dict[str, McpPrompt]:
        """Without its prompts the tools are still useful."""
        seconds = self._host.limits.lists
        try:
            async with asyncio.timeout(seconds):
                found = await self._list(link, McpListKind.PROMPTS, more)
        except (McpRefusedError, McpInvalidReplyError, TimeoutError) as error:
            self._note(f"has prompts, and {explain_missing_list(error, seconds)}: they are left out")
            return self.prompts
        prompts: dict[str, McpPrompt] = {}
        for one in found:
            prompt = parse_prompt(one)
            prompts.setdefault(prompt.name, prompt)
        return prompts

    def _note(self, words: str) -> None:
        self.notes.append(redact(f"the MCP server '{self.wanted.name}' {words}")[:MOST_TOLD])
        self._news()

    async def tell_of_folders(self) -> None:
        """Tell the server that the working directories changed. Do not wait for a server that does not read."""
        link = self._link
        if link is not None and not link.lost:
            with suppress(Exception):  # a server that cannot be reached stays uninformed
                async with asyncio.timeout(self._host.limits.lists):
                    await link.folders_changed()

    def _set(self, status: McpStatus, error: str = "") -> None:
        self.status, self.error = status, error
        _LOG.debug("server %s name=%r%s", status, self.name, f" error={error!r}" if error else "")
        self._settled.set()
        self._news()

    def _over(self, why: BaseException | None, ways: ConnectionAttempt) -> None:
        """With the reason, unless we ended it on purpose."""
        if self._stopping:
            self._set(McpStatus.DISABLED)
            return
        refused = ways.heard is not None and ways.heard.status in UNAUTHORIZED
        said = describe_end_reason(why, self._host.limits) or ways.ended
        if refused:
            said = "it requires authentication (HTTP 401 or 403): add 'Authorization' to 'headers'"
        words = redact(f"{said}{ways.note}{ways.last_words}")  # may contain its credentials
        self._set(McpStatus.NEEDS_AUTH if refused else McpStatus.FAILED, words[:MOST_TOLD])

    # --- requests to the server
    # -----------------------------------------------------------------------------------------

    async def call(self, tool: str, arguments: dict[str, Any], calling: ToolContext) -> dict[str, Any]:
        """The result as JSON. Raises `ToolError` with the text for the model; so do the next ones."""

        async def told(progress: float, total: float | None, message: str | None) -> None:
            amount = f"{progress:g}/{total:g}" if total else f"{progress:g}"
            calling.progress(f"{amount} {one_line_name(message)}".strip()[:LONGEST_PROGRESS])

        return await self._answered(lambda link: link.call(tool, arguments, told), self._host.limits.call, calling)

    async def read(self, uri: str, calling: ToolContext | None = None) -> dict[str, Any]:
        """Read a resource. Without a call, a user waits who has just submitted a prompt: use the short limit."""
        limits = self._host.limits
        return await self._answered(lambda link: link.read(uri), limits.call if calling else limits.start, calling)

    async def prompt(self, name: str, arguments: dict[str, str]) -> dict[str, Any]:
        return await self._answered(lambda link: link.prompt(name, arguments), self._host.limits.start)

    async def resources(self, sort: McpListKind) -> tuple[list[dict[str, Any]], bool]:
        """Resources or their templates, as they are now; and whether there are more than the limit."""
        found: tuple[list[dict[str, Any]], bool] = [], False

        async def listed(link: McpSession) -> dict[str, Any]:
            nonlocal found
            found = await link.listed(sort)
            return {}

        await self._answered(listed, self._host.limits.start)
        return found

    async def _answered(
        self, ask: Callable[[McpSession], Awaitable[dict[str, Any]]], seconds: float, calling: ToolContext | None = None
    ) -> dict[str, Any]:
        async def once() -> dict[str, Any]:
            link = await self._ready()
            async with self._within(seconds, calling):
                return await ask(link)

        try:
            try:
                result = await once()
            except McpSessionGoneError:  # the server did nothing, so it can be asked again
                result = await once()
        except (McpConnectionLostError, McpSessionGoneError):
            raise ToolError(await self._told_lost()) from None
        except (McpRefusedError, McpInvalidReplyError, McpTimeoutError) as error:
            setting = "MCP_TIMEOUT" if calling is None else "MCP_TOOL_TIMEOUT"
            raise ToolError(f"The MCP server '{self.name}' {describe_call_failure(error, seconds, setting)}") from None
        self._may_return = True
        return result

    @asynccontextmanager
    async def _within(self, seconds: float, calling: ToolContext | None) -> AsyncGenerator[None, None]:
        """Raises `McpTimeoutError`; the request is cancelled at the server then."""
        clock = asyncio.timeout(seconds)
        waiting = CallClock(calling, clock) if calling is not None else None
        try:
            async with clock:
                if waiting is not None:
                    self._waiting.append(waiting)
                try:
                    yield
                finally:
                    if waiting is not None:
                        self._waiting.remove(waiting)
                        waiting.end()
        except TimeoutError:
            raise McpTimeoutError from None

    async def _told_lost(self) -> str:
        if self._task is not None:
            await asyncio.wait([self._task], timeout=ENDING)
        again = "The next call starts it again." if self._may_return else "It is not started again."
        return (
            f"The MCP server '{self.name}' was lost during the call, and it is unknown what the call did: "
            f"{self.error or 'it is gone'}. {again}"
        )

    async def _ready(self) -> McpSession:
        if self._link is not None and not self._link.lost:
            return self._link
        async with self._returning:  # several calls may wait for one restart
            if self._task is not None and (self._link is not None or self.status is not McpStatus.PENDING):
                await asyncio.wait([self._task], timeout=ENDING)  # until the old one is closed
            if self.status is not McpStatus.PENDING and self._link is None and self._may_return and not self._stopping:
                await asyncio.sleep(BACKOFF)
                self._may_return = False  # only now: a caller that waits here may be cancelled
                self.start()
            await self.settled()
            if self._link is None:
                raise ToolError(
                    f"The MCP server '{self.name}' cannot be reached: {self.error or self.status}. Nothing was done; "
                    "go on without its tools."
                )
            return self._link
