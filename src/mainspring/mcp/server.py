"""One server, from its start to its end.

    pending --> connected --> (lost) --> pending --> connected
        \\--> failed, needs-auth            \\--> failed

A task of its own opens the connection, keeps it and closes it. A server that is lost is started again by the next call
of one of its tools, once; when it has answered a call, it has earned another time. What it says has changed is asked
for again before the next turn, and not before: whoever shouts all the time is heard once a turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

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

BACKOFF = 0.5  # seconds before a lost server is started again
ENDING = 4.0  # seconds for a connection to close; a program has its own grace in them
LONGEST_PROGRESS = 200
MOST_QUESTIONS = 10  # of one server that wait for the person


class ConnectionAttempt:
    """What was opened for one connection, to tell what became of it."""

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
        """`name` is the plain one; `news` is called when its status or its tools have changed."""
        self.wanted, self.name, self._host, self._news = wanted, name, host, news
        self.status = McpStatus.PENDING
        self.error = ""
        self.tools: dict[str, ListedTool] = {}
        self.prompts: dict[str, McpPrompt] = {}  # by their own names
        self.brings: frozenset[str] = frozenset()  # what it has, in the protocol's words
        self.has_more: list[McpListKind] = []  # than we take
        self.notes: list[str] = []  # what a person should know of it, beside its status
        self.instructions = ""
        self.info: dict[str, str] = {}
        self._task: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()  # it is connected, or is not going to be
        self._woken = asyncio.Event()  # the next one is true, or it is lost
        self._stopping = False
        self._stale = False  # what it listed
        self._deaf = False  # to its news: it has not answered when it was asked again
        self._waiting: list[CallClock] = []  # calls under way, the last one last
        self._questions = 0  # to the person, under way
        self._link: McpSession | None = None
        self._may_return = True
        self._returning = asyncio.Lock()

    # --- its life ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._stopping = self._stale = self._deaf = False
        self._settled.clear()
        self.status, self.error = McpStatus.PENDING, ""
        self._task = asyncio.create_task(self._live(ConnectionAttempt()), name=f"MCP server {self.name}")

    async def restart(self) -> None:
        """When somebody asks for it; over when it is connected, or is not going to be."""
        await self.close()
        self._may_return = True
        self.start()
        await self.settled()

    async def settled(self) -> None:
        await self._settled.wait()

    async def close(self) -> None:
        """However far it is. When this is over, so is the server."""
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
        """All that is opened here is closed here, by the same task."""
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
        except asyncio.CancelledError as error:  # by `close`, or because the loop ends
            why = error
            raise
        except Exception as error:  # whatever the client, the system or the server came up with  # noqa: BLE001
            why = error
        finally:
            self._link = None
            self._over(why, ways)

    async def _reach(self, stack: AsyncExitStack, ways: ConnectionAttempt) -> McpSession:
        if self.wanted.kind == SDK:
            return await stack.enter_async_context(self._within_driver(ways))
        host = self._host
        loading = host.load()  # it takes its time, and so does a program: they take the same
        if self.wanted.kind == "stdio":
            from mainspring.mcp.server_process import McpServerProcess

            ways.program = McpServerProcess(host.children(), self.wanted, host.env(), host.ground)
            stack.push_async_callback(ways.program.close)
        await asyncio.shield(loading)
        from mainspring.mcp.client import open_client_session

        streams = await stack.enter_async_context(self._way(ways))
        return await stack.enter_async_context(open_client_session(streams, self, ways.heard))

    def _way(self, ways: ConnectionAttempt) -> AbstractAsyncContextManager[Streams]:
        from mainspring.mcp.client import LastHttpStatus, StrayOutput, connect_over_http, connect_over_pipes

        if ways.program is not None:
            ways.strays = StrayOutput()
            return connect_over_pipes(ways.program, ways.strays)
        ways.heard = LastHttpStatus()
        return connect_over_http(self.wanted, ways.heard, self._host.limits.call)

    def _within_driver(self, ways: ConnectionAttempt) -> AbstractAsyncContextManager[McpSession]:
        """Nothing of the official client is loaded for it."""
        from mainspring.mcp.host_transport import SHUT, open_host_session

        if self._host.relay is None:
            raise UsageError(NO_DRIVER)
        ways.end = SHUT
        return open_host_session(self.wanted.name, self._host.relay, self._host.ids, self.lost)

    async def _keep(self, link: McpSession) -> None:
        while not self._stopping and not link.lost:
            await self._woken.wait()
            self._woken.clear()

    # --- what it says by itself ---

    def lost(self) -> None:
        """The session says so."""
        self._woken.set()

    def changed(self) -> None:
        if not self._deaf:
            self._stale = True
            self._news()

    def folders(self) -> tuple[str, ...]:
        return self._host.folders()

    async def asked(self, wish: dict[str, Any]) -> dict[str, Any]:
        """For the person. Which of its calls it is about, the protocol does not say: it counts as one of the last."""
        from mainspring.mcp.elicitation import DECLINE, ask_form

        if not self._waiting or not self._host.asks or self._questions >= MOST_QUESTIONS:
            return DECLINE
        waiting = self._waiting[-1]
        self._questions += 1
        try:
            async with waiting.paused(), self._host.one:
                return await ask_form(self.wanted.name, wish, waiting.ask)
        except Exception:  # noqa: BLE001  # whoever is asked may fail in any way, and has not said yes
            return DECLINE
        finally:
            self._questions -= 1

    # --- what it lists ---

    async def refresh(self) -> None:
        """Before a turn, if it said that its lists have changed. If it does not tell them, it keeps what it had."""
        link = self._link
        if not self._stale or link is None or link.lost:
            return
        self._stale = False
        seconds = self._host.limits.lists
        try:
            async with asyncio.timeout(seconds):
                await self._ask(link)
        except (McpConnectionLostError, McpSessionGoneError):  # `_live` sees to it
            pass
        except Exception as error:  # whatever the client came up with: a turn waits for this  # noqa: BLE001
            self._deaf = True
            self._note(
                f"said that its lists have changed, and {explain_missing_list(error, seconds)}: the old ones stand"
            )

    async def _ask(self, link: McpSession) -> None:
        """For its tools and prompts. Each name once: the first one who has it keeps it."""
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
        """Without them its tools are still of use."""
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
        """They are others now. Who does not listen is not waited for."""
        link = self._link
        if link is not None and not link.lost:
            with suppress(Exception):  # whoever cannot be told does not know
                async with asyncio.timeout(self._host.limits.lists):
                    await link.folders_changed()

    def _set(self, status: McpStatus, error: str = "") -> None:
        self.status, self.error = status, error
        self._settled.set()
        self._news()

    def _over(self, why: BaseException | None, ways: ConnectionAttempt) -> None:
        """With why, unless we wanted it."""
        if self._stopping:
            self._set(McpStatus.DISABLED)
            return
        refused = ways.heard is not None and ways.heard.status in UNAUTHORIZED
        said = describe_end_reason(why, self._host.limits) or ways.ended
        if refused:
            said = "it wants to know who you are (HTTP 401 or 403): give it an 'Authorization' in 'headers'"
        words = redact(f"{said}{ways.note}{ways.last_words}")  # also for the model: they may hold what it was given
        self._set(McpStatus.NEEDS_AUTH if refused else McpStatus.FAILED, words[:MOST_TOLD])

    # --- what is asked of it ----------------------------------------------------------------------------------------

    async def call(self, tool: str, arguments: dict[str, Any], calling: ToolContext) -> dict[str, Any]:
        """The result as JSON. Raises `ToolError` with what the model should hear; so do the next ones."""

        async def told(progress: float, total: float | None, message: str | None) -> None:
            amount = f"{progress:g}/{total:g}" if total else f"{progress:g}"
            calling.progress(f"{amount} {one_line_name(message)}".strip()[:LONGEST_PROGRESS])

        return await self._answered(lambda link: link.call(tool, arguments, told), self._host.limits.call, calling)

    async def read(self, uri: str, calling: ToolContext | None = None) -> dict[str, Any]:
        """A resource. Without a call, somebody waits who has just said something: that is not for long."""
        limits = self._host.limits
        return await self._answered(lambda link: link.read(uri), limits.call if calling else limits.start, calling)

    async def prompt(self, name: str, arguments: dict[str, str]) -> dict[str, Any]:
        return await self._answered(lambda link: link.prompt(name, arguments), self._host.limits.start)

    async def resources(self, sort: McpListKind) -> tuple[list[dict[str, Any]], bool]:
        """Or their templates, as they are now; and whether it has more than we take."""
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
            except McpSessionGoneError:  # nothing was done, so it can be asked again
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
        """Raises `McpTimeoutError`; the server is told then that nobody waits any more."""
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
            f"The MCP server '{self.name}' was lost during the call, and what it did, nobody knows: "
            f"{self.error or 'it is gone'}. {again}"
        )

    async def _ready(self) -> McpSession:
        if self._link is not None and not self._link.lost:
            return self._link
        async with self._returning:  # several calls wait for one return
            if self._task is not None and (self._link is not None or self.status is not McpStatus.PENDING):
                await asyncio.wait([self._task], timeout=ENDING)  # until the old one is closed
            if self.status is not McpStatus.PENDING and self._link is None and self._may_return and not self._stopping:
                await asyncio.sleep(BACKOFF)
                self._may_return = False  # now, and not before: who waits here may be cancelled
                self.start()
            await self.settled()
            if self._link is None:
                raise ToolError(
                    f"The MCP server '{self.name}' cannot be reached: {self.error or self.status}. Nothing was done; "
                    "go on without its tools."
                )
            return self._link
