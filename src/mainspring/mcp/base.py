"""What is known of a server and its tools, and what can go wrong with them. Nothing here needs the official client.

The names that servers and their tools have for the model and in rules: `mcp__server__tool`.

A rule `mcp__server` covers all tools of a server. So no name of a server may hold two `_` in a row, nor begin or end
with one: the tools of a server 'a__b' would pass for those of 'a', and have the rights of that one. Nor may it be so
long that a name which is cut loses the second `__`: no rule for the server would cover that tool.

The words of a server, cut to what they may take; and our own words for what goes wrong with one.

A list of a server, page by page, and how much of it is taken.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any, Protocol, cast

from mainspring.core.errors import UsageError
from mainspring.core.value import Value
from mainspring.secrets.redaction import redact
from mainspring.settings.mcp_servers import LONGEST_NAME
from mainspring.tools.results import clean_mcp_text, text_or_empty


class McpStatus(StrEnum):
    """In the words of stream-json 4."""

    PENDING = "pending"
    CONNECTED = "connected"
    FAILED = "failed"
    NEEDS_AUTH = "needs-auth"
    DISABLED = "disabled"


DYNAMIC = "dynamic"  # the scope, in the same words, of a server within the program that drives us


class ListedTool(Value):
    """A tool as its server tells of it."""

    name: str  # with the server
    about: str
    schema: dict[str, Any]
    annotations: dict[str, Any]
    meta: dict[str, Any]

    @property
    def only_reads(self) -> bool:
        """By the server's own word, which grants no right to anybody."""
        return self.annotations.get("readOnlyHint") is True


class McpTimeouts(Value):
    """In seconds."""

    start: float = 30.0  # until a server has told its tools
    lists: float = 3.0  # for what else it lists, and for lists that it says have changed: a turn waits for them
    call: float = 600.0  # builds and long searches take minutes; who needs more says so (MCP_TOOL_TIMEOUT)
    first_turn: float = 5.0  # that the first turn waits for servers


class McpProgress(Protocol):
    async def __call__(self, progress: float, total: float | None, message: str | None) -> None: ...


class McpSession(Protocol):
    """A session with a server, whatever it goes over. All but `lost` raises what stands below."""

    lost: bool

    @property
    def instructions(self) -> str: ...

    @property
    def info(self) -> dict[str, str]: ...

    @property
    def brings(self) -> frozenset[str]:
        """What it says that it has, in the protocol's words: 'tools', 'resources', 'prompts'."""
        ...

    async def listed(self, sort: McpListKind) -> tuple[list[dict[str, Any]], bool]:
        """As JSON; and whether it has more than we take."""
        ...

    async def call(self, name: str, arguments: dict[str, Any], progress: McpProgress) -> dict[str, Any]:
        """The result as JSON. Who cancels this cancels the call at the server; so do the next two."""
        ...

    async def read(self, uri: str) -> dict[str, Any]: ...

    async def prompt(self, name: str, arguments: dict[str, str]) -> dict[str, Any]: ...

    async def folders_changed(self) -> None:
        """It may ask for the working folders again."""
        ...


class McpListKind(StrEnum):
    """What a server lists: the name of the field in its answer."""

    TOOLS = "tools"
    RESOURCES = "resources"
    TEMPLATES = "resourceTemplates"
    PROMPTS = "prompts"


MOST = {
    McpListKind.TOOLS: 2_000,
    McpListKind.RESOURCES: 1_000,
    McpListKind.TEMPLATES: 200,
    McpListKind.PROMPTS: 200,
}  # of one server
MOST_TOOLS = MOST[McpListKind.TOOLS]
MOST_PAGES = 100  # of a list

UNAUTHORIZED = (401, 403)  # HTTP


class McpRefusedError(Exception):
    """The server answered, and its answer is an error."""


class McpConnectionLostError(Exception):
    """The server is gone: nobody knows what became of the call."""


class McpSessionGoneError(Exception):
    """The server knows nothing of us any more, so it did nothing: it was started anew, or has forgotten us."""


class McpTimeoutError(Exception):
    """The time for an answer is over. The server was told so."""


class McpInvalidReplyError(Exception):
    """The server answered what is none."""


START = "mcp__"
LONGEST = 64  # characters of a tool's name that all providers take


def replace_forbidden(name: str) -> str:
    """Without the characters that no name of a tool can have."""
    return "".join([c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in name])


def normalize_server_name(name: str) -> str:
    """Raises `UsageError` for a name that could be mistaken for another's."""
    found = replace_forbidden(name)
    if len(found) > LONGEST_NAME:
        raise UsageError(
            f"the MCP server '{name}' cannot be used: its name has {len(found)} characters; {LONGEST_NAME} is the most"
        )
    if not found.strip("_") or "__" in found or found.startswith("_") or found.endswith("_"):
        raise UsageError(
            f"the MCP server '{name}' would be called '{found}', which could be mistaken for another: give it a name "
            "of letters, digits and '-'"
        )
    return found


def make_tool_name(server: str, tool: str) -> str:
    """One that is too long is cut behind the server's name, and told from its like by the sum of the whole."""
    whole = f"{START}{server}__{replace_forbidden(tool)}"
    if len(whole) <= LONGEST:
        return whole
    from hashlib import sha256

    return f"{whole[: LONGEST - 9]}_{sha256(tool.encode(errors='surrogatepass')).hexdigest()[:8]}"


LONGEST_INSTRUCTIONS = 2_000  # characters
LONGEST_ABOUT = 4_000  # characters of a tool's description
MOST_TOLD = 1_000  # characters of an error


def parse_listed_tool(tool: dict[str, Any]) -> ListedTool:
    """The words of a server have no end by themselves."""

    def inner(key: str) -> dict[str, Any]:
        value = tool.get(key)
        return cast("dict[str, Any]", value) if isinstance(value, dict) else {}

    about = clean_mcp_text(tool.get("description")) or clean_mcp_text(tool.get("title"))
    return ListedTool(
        text_or_empty(tool.get("name")),
        about[:LONGEST_ABOUT],
        inner("inputSchema"),
        inner("annotations"),
        inner("_meta"),
    )


def clip_instructions(said: str) -> str:
    said = clean_mcp_text(said).strip()
    return said if len(said) <= LONGEST_INSTRUCTIONS else f"{said[:LONGEST_INSTRUCTIONS]}\n[the rest was left out]"


def explain_missing_list(error: Exception, seconds: float) -> str:
    """Why there is no list."""
    match error:
        case McpRefusedError():
            return f"refuses to tell them ({clean_mcp_text(str(error))[:MOST_TOLD]})"
        case TimeoutError():
            return f"did not tell them within {seconds:g} s"
        case _:
            return f"told what is no list ({clean_mcp_text(str(error))[:MOST_TOLD]})"


def describe_call_failure(
    error: McpRefusedError | McpInvalidReplyError | McpTimeoutError, seconds: float, setting: str
) -> str:
    said = redact(clean_mcp_text(str(error)))[:MOST_TOLD]
    match error:
        case McpRefusedError():
            return f"refused the call: {said}"
        case McpInvalidReplyError():
            return f"answered what is no answer: {said}. What it did, nobody knows."
        case McpTimeoutError():
            return (
                f"did not answer within {seconds:g} s, and was told to leave it. What it did until then, nobody knows. "
                f"{setting}, in milliseconds, sets another limit."
            )


_ADDRESS = re.compile(r"(https?://)([^\s'\"<>]*)", re.IGNORECASE)


def redact_urls(said: str) -> str:
    """Addresses without what is often secret in them: a name and password, the query."""

    def one(found: re.Match[str]) -> str:
        host, slash, path = re.split(r"[?#]", found[2], maxsplit=1)[0].partition("/")
        return f"{found[1]}{host.rpartition('@')[2]}{slash}{path}"

    return _ADDRESS.sub(one, said)


def describe_end_reason(error: BaseException | None, limits: McpTimeouts) -> str:
    """In words; empty if there is nothing to say beyond that it ended."""
    while isinstance(error, BaseExceptionGroup):  # of the client's tasks; the first one is why the others ended
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    match error:
        case None | McpConnectionLostError() | asyncio.CancelledError():
            return ""
        case TimeoutError():
            return f"it did not answer within {limits.start:g} s (MCP_TIMEOUT, in milliseconds, sets another limit)"
        case UsageError():
            return str(error)
        case McpRefusedError():
            return f"it refused: {redact_urls(clean_mcp_text(str(error)))}"
        case McpInvalidReplyError():
            return f"it answered what is no answer: {redact_urls(clean_mcp_text(str(error)))}"
        case _:
            said = f"{type(error).__name__}: {redact_urls(clean_mcp_text(str(error)))}".removesuffix(": ")
            return f"it cannot be reached: {said}" if type(error).__module__.startswith("httpx") else said


Page = tuple[list[dict[str, Any]], str | None]  # entries as JSON, and where the next page begins


async def fetch_all_pages(
    page: Callable[[str | None], Awaitable[Page]], most: int
) -> tuple[list[dict[str, Any]], bool]:
    """All of them; and whether there are more than we take."""
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        more, following = await page(cursor)
        found += more
        if not following or following == cursor:
            return found[:most], len(found) > most
        if len(found) >= most:
            break
        cursor = following
    return found[:most], True
