"""One server, from its start to its end.

    pending --> connected --> (lost) --> pending --> connected
        \\--> failed, needs-auth            \\--> failed

A task of its own opens the connection, keeps it and closes it. A server that is lost is started again by the next call
of one of its tools, once; when it has answered a call, it has earned another time.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from itertools import count
from typing import TYPE_CHECKING, Any, cast

from mainspring.core.errors import ToolError, UsageError
from mainspring.secrets.redaction import redact
from mainspring.settings.mcp import NO_DRIVER, SDK
from mainspring.settings.values import McpServer
from mainspring.tools.base import Calling
from mainspring.tools.mcp.results import clean, named, text
from mainspring.tools.mcp.values import (
    UNAUTHORIZED,
    DamagedError,
    GoneError,
    LateError,
    Limits,
    Listed,
    LostError,
    Reached,
    RefusedError,
    Status,
)

if TYPE_CHECKING:
    from mainspring.processes.children import Children
    from mainspring.tools.mcp.ground import Ground
    from mainspring.tools.mcp.program import Program
    from mainspring.tools.mcp.relayed import Send
    from mainspring.tools.mcp.ways import Heard, Strays, Streams

BACKOFF = 0.5  # seconds before a lost server is started again
ENDING = 4.0  # seconds for a connection to close; a program has its own grace in them
LONGEST_INSTRUCTIONS = 2_000  # characters
LONGEST_PROGRESS = 200
LONGEST_ABOUT = 4_000  # characters of a tool's description
MOST_TOLD = 1_000  # characters of an error


class Host:
    """What all servers of a session share."""

    def __init__(
        self,
        children: Callable[[], Children],
        env: Callable[[], Mapping[str, str]],
        ground: Ground,
        relay: Send | None = None,
    ) -> None:
        """`relay` reaches the servers within the program that drives us; None: nobody does."""
        self.children, self.env, self.ground, self.relay = children, env, ground, relay
        self.limits = Limits()
        self.ids = count(1)  # of messages by `relay`, over all lives of a server: it may keep one that was given up
        self._loading: asyncio.Task[None] | None = None

    def load(self) -> asyncio.Task[None]:
        """The official client, once, in a thread: it takes half a second."""
        if self._loading is None:
            self._loading = asyncio.create_task(asyncio.to_thread(load_link))
            self._loading.add_done_callback(
                lambda task: task.cancelled() or task.exception()
            )  # all may be gone by then
        return self._loading


def load_link() -> None:
    """Afterwards, to import it takes no time."""
    from importlib import import_module

    try:
        import_module("mainspring.tools.mcp.link")
        import_module("mainspring.tools.mcp.ways")
    except ImportError as error:
        raise UsageError(f"MCP servers need the package 'mcp' ({error}): pip install 'mainspring[mcp]'") from None


class Ways:
    """What was opened for one connection, to tell what became of it."""

    def __init__(self) -> None:
        self.program: Program | None = None
        self.strays: Strays | None = None
        self.heard: Heard | None = None
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
        return clean(strays + (self.program.last_words if self.program is not None else ""))


class Server:
    def __init__(self, wanted: McpServer, name: str, host: Host, news: Callable[[], None]) -> None:
        """`name` is the plain one; `news` is called when its status or its tools have changed."""
        self.wanted, self.name, self._host, self._news = wanted, name, host, news
        self.status = Status.PENDING
        self.error = ""
        self.tools: dict[str, Listed] = {}
        self.has_more = False  # tools than we take
        self.instructions = ""
        self.info: dict[str, str] = {}
        self._task: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()  # it is connected, or is not going to be
        self._woken = asyncio.Event()  # one of the next two is true, or it is lost
        self._stopping = self._stale = False
        self._link: Reached | None = None
        self._may_return = True
        self._returning = asyncio.Lock()

    # --- its life ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._stopping = self._stale = False
        self._settled.clear()
        self.status, self.error = Status.PENDING, ""
        self._task = asyncio.create_task(self._live(Ways()), name=f"MCP server {self.name}")

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

    async def _live(self, ways: Ways) -> None:
        """All that is opened here is closed here, by the same task."""
        why: BaseException | None = None
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self._host.limits.start):
                    link = await self._reach(stack, ways)
                    await self._ask(link)
                self._link, self.instructions, self.info = link, instructed(link.instructions), link.info
                self._set(Status.CONNECTED)
                await self._keep(link)
        except asyncio.CancelledError as error:  # by `close`, or because the loop ends
            why = error
            raise
        except Exception as error:  # whatever the client, the system or the server came up with  # noqa: BLE001
            why = error
        finally:
            self._link = None
            self._over(why, ways)

    async def _reach(self, stack: AsyncExitStack, ways: Ways) -> Reached:
        if self.wanted.kind == SDK:
            return await stack.enter_async_context(self._within_driver(ways))
        host = self._host
        loading = host.load()  # it takes its time, and so does a program: they take the same
        if self.wanted.kind == "stdio":
            from mainspring.tools.mcp.program import Program

            ways.program = Program(host.children(), self.wanted, host.env(), host.ground)
            stack.push_async_callback(ways.program.close)
        await asyncio.shield(loading)
        from mainspring.tools.mcp.link import linked

        streams = await stack.enter_async_context(self._way(ways))
        return await stack.enter_async_context(linked(streams, self, ways.heard))

    def _way(self, ways: Ways) -> AbstractAsyncContextManager[Streams]:
        from mainspring.tools.mcp.ways import Heard, Strays, over_http, over_pipes

        if ways.program is not None:
            ways.strays = Strays()
            return over_pipes(ways.program, ways.strays)
        ways.heard = Heard()
        return over_http(self.wanted, ways.heard, self._host.limits.call)

    def _within_driver(self, ways: Ways) -> AbstractAsyncContextManager[Reached]:
        """Nothing of the official client is loaded for it."""
        from mainspring.tools.mcp.relayed import SHUT, relayed

        if self._host.relay is None:
            raise UsageError(NO_DRIVER)
        ways.end = SHUT
        return relayed(self.wanted.name, self._host.relay, self._host.ids, self.lost)

    async def _keep(self, link: Reached) -> None:
        while not self._stopping and not link.lost:
            await self._woken.wait()
            self._woken.clear()
            if self._stale and not self._stopping and not link.lost:
                self._stale = False
                async with asyncio.timeout(self._host.limits.start):
                    await self._ask(link)
                self._news()

    def lost(self) -> None:
        """The session says so."""
        self._woken.set()

    def changed(self) -> None:
        self._stale = True
        self._woken.set()

    async def _ask(self, link: Reached) -> None:
        """For its tools. Each name once: the first one who has it keeps it."""
        found: dict[str, Listed] = {}
        tools, self.has_more = await link.tools()
        for tool in tools:
            one = listed(tool)
            found.setdefault(one.name, one)
        self.tools = found

    def _set(self, status: Status, error: str = "") -> None:
        self.status, self.error = status, error
        self._settled.set()
        self._news()

    def _over(self, why: BaseException | None, ways: Ways) -> None:
        """With why, unless we wanted it."""
        if self._stopping:
            self._set(Status.DISABLED)
            return
        refused = ways.heard is not None and ways.heard.status in UNAUTHORIZED
        said = reason(why, self._host.limits) or ways.ended
        if refused:
            said = "it wants to know who you are (HTTP 401 or 403): give it an 'Authorization' in 'headers'"
        words = redact(f"{said}{ways.note}{ways.last_words}")  # also for the model: they may hold what it was given
        self._set(Status.NEEDS_AUTH if refused else Status.FAILED, words[:MOST_TOLD])

    # --- its tools --------------------------------------------------------------------------------------------------

    async def call(self, tool: str, arguments: dict[str, Any], calling: Calling) -> dict[str, Any]:
        """The result as JSON. Raises `ToolError` with what the model should hear."""

        async def told(progress: float, total: float | None, message: str | None) -> None:
            amount = f"{progress:g}/{total:g}" if total else f"{progress:g}"
            calling.progress(f"{amount} {named(message)}".strip()[:LONGEST_PROGRESS])

        seconds = self._host.limits.call
        try:
            try:
                result = await (await self._ready()).call(tool, arguments, seconds, told)
            except GoneError:  # nothing was done, so it can be asked again
                result = await (await self._ready()).call(tool, arguments, seconds, told)
        except (LostError, GoneError):
            raise ToolError(await self._told_lost()) from None
        except (RefusedError, DamagedError, LateError) as error:
            raise ToolError(f"The MCP server '{self.name}' {trouble(error, seconds)}") from None
        self._may_return = True
        return result

    async def _told_lost(self) -> str:
        if self._task is not None:
            await asyncio.wait([self._task], timeout=ENDING)
        again = "The next call starts it again." if self._may_return else "It is not started again."
        return (
            f"The MCP server '{self.name}' was lost during the call, and what it did, nobody knows: "
            f"{self.error or 'it is gone'}. {again}"
        )

    async def _ready(self) -> Reached:
        if self._link is not None and not self._link.lost:
            return self._link
        async with self._returning:  # several calls wait for one return
            if self._task is not None and (self._link is not None or self.status is not Status.PENDING):
                await asyncio.wait([self._task], timeout=ENDING)  # until the old one is closed
            if self.status is not Status.PENDING and self._link is None and self._may_return and not self._stopping:
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


# --- what it says ---------------------------------------------------------------------------------------------------


def listed(tool: dict[str, Any]) -> Listed:
    """The words of a server have no end by themselves."""

    def inner(key: str) -> dict[str, Any]:
        value = tool.get(key)
        return cast("dict[str, Any]", value) if isinstance(value, dict) else {}

    about = clean(tool.get("description")) or clean(tool.get("title"))
    return Listed(
        text(tool.get("name")), about[:LONGEST_ABOUT], inner("inputSchema"), inner("annotations"), inner("_meta")
    )


def instructed(said: str) -> str:
    said = clean(said).strip()
    return said if len(said) <= LONGEST_INSTRUCTIONS else f"{said[:LONGEST_INSTRUCTIONS]}\n[the rest was left out]"


def trouble(error: RefusedError | DamagedError | LateError, seconds: float) -> str:
    said = redact(clean(str(error)))[:MOST_TOLD]
    match error:
        case RefusedError():
            return f"refused the call: {said}"
        case DamagedError():
            return f"answered what is no answer: {said}. What it did, nobody knows."
        case LateError():
            return (
                f"did not answer within {seconds:g} s, and was told to leave it. What it did until then, nobody knows. "
                "MCP_TOOL_TIMEOUT, in milliseconds, sets another limit."
            )


_ADDRESS = re.compile(r"(https?://)([^\s'\"<>]*)", re.IGNORECASE)


def public(said: str) -> str:
    """Addresses without what is often secret in them: a name and password, the query."""

    def one(found: re.Match[str]) -> str:
        host, slash, path = re.split(r"[?#]", found[2], maxsplit=1)[0].partition("/")
        return f"{found[1]}{host.rpartition('@')[2]}{slash}{path}"

    return _ADDRESS.sub(one, said)


def reason(error: BaseException | None, limits: Limits) -> str:
    """In words; empty if there is nothing to say beyond that it ended."""
    while isinstance(error, BaseExceptionGroup):  # of the client's tasks; the first one is why the others ended
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    match error:
        case None | LostError() | asyncio.CancelledError():
            return ""
        case TimeoutError():
            return f"it did not answer within {limits.start:g} s (MCP_TIMEOUT, in milliseconds, sets another limit)"
        case UsageError():
            return str(error)
        case RefusedError():
            return f"it refused: {public(clean(str(error)))}"
        case DamagedError():
            return f"it answered what is no answer: {public(clean(str(error)))}"
        case _:
            said = f"{type(error).__name__}: {public(clean(str(error)))}".removesuffix(": ")
            return f"it cannot be reached: {said}" if type(error).__module__.startswith("httpx") else said
