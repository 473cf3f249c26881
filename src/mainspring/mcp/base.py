"""Types, names, limits and errors of MCP servers and their tools. Nothing here needs the official client.

A tool of a server is called `mcp__server__tool`, for the model and in permission rules. A rule `mcp__server` covers all
tools of a server. So a server's name must not contain two `_` in a row, nor begin or end with one: the tools of a
server 'a__b' would pass for those of 'a' and have the same permissions. Nor may it be so long that a shortened name
loses the second `__`: no rule for the server would cover that tool.

`fetch_all_pages` reads a server's list page by page, up to a limit. The texts that a server sends are cut to a limit,
too.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from enum import StrEnum
from hashlib import sha256
from typing import Any, Protocol, cast

from mainspring.core.errors import UsageError
from mainspring.core.value import Value
from mainspring.secrets.redaction import redact
from mainspring.settings.mcp_servers import LONGEST_NAME
from mainspring.tools.results import clean_mcp_text, text_or_empty


class McpStatus(StrEnum):
    """The values are those of stream-json 4."""

    PENDING = "pending"
    CONNECTED = "connected"
    FAILED = "failed"
    NEEDS_AUTH = "needs-auth"
    DISABLED = "disabled"


DYNAMIC = "dynamic"  # the scope, also from stream-json 4, of a server within the host program


class ListedTool(Value):
    """A tool as its server describes it."""

    name: str  # set by the server
    about: str
    schema: dict[str, Any]
    annotations: dict[str, Any]
    meta: dict[str, Any]

    @property
    def only_reads(self) -> bool:
        """The server's own claim. It grants no permission."""
        return self.annotations.get("readOnlyHint") is True


class McpTimeouts(Value):
    """In seconds."""

    start: float = 30.0  # until a server has listed its tools
    lists: float = 3.0  # for its other lists, and for lists that have changed: a turn waits for them
    call: float = 600.0  # builds and long searches take minutes; MCP_TOOL_TIMEOUT sets another limit
    first_turn: float = 5.0  # how long the first turn waits for servers


class McpProgress(Protocol):
    async def __call__(self, progress: float, total: float | None, message: str | None) -> None: ...


class McpSession(Protocol):
    """A session with a server over any transport. All methods but `lost` raise the errors defined below."""

    lost: bool

    @property
    def instructions(self) -> str: ...

    @property
    def info(self) -> dict[str, str]: ...

    @property
    def brings(self) -> frozenset[str]:
        """The capabilities that the server announced, with the protocol's names: 'tools', 'resources', 'prompts'."""
        ...

    async def listed(self, sort: McpListKind) -> tuple[list[dict[str, Any]], bool]:
        """The entries as JSON, and whether the server has more than the limit."""
        ...

    async def call(self, name: str, arguments: dict[str, Any], progress: McpProgress) -> dict[str, Any]:
        """The result as JSON. Cancelling this cancels the call at the server; so do the next two."""
        ...

    async def read(self, uri: str) -> dict[str, Any]: ...

    async def prompt(self, name: str, arguments: dict[str, str]) -> dict[str, Any]: ...

    async def folders_changed(self) -> None:
        """Tell the server that the working directories changed, so that it can ask for them again."""
        ...


class McpListKind(StrEnum):
    """A list that a server offers; the value is the name of the field in its answer."""

    TOOLS = "tools"
    RESOURCES = "resources"
    TEMPLATES = "resourceTemplates"
    PROMPTS = "prompts"


MOST = {
    McpListKind.TOOLS: 2_000,
    McpListKind.RESOURCES: 1_000,
    McpListKind.TEMPLATES: 200,
    McpListKind.PROMPTS: 200,
}  # per server
MOST_TOOLS = MOST[McpListKind.TOOLS]
MOST_PAGES = 100  # per list

UNAUTHORIZED = (401, 403)  # HTTP status


class McpRefusedError(Exception):
    """The server answered with an error."""


class McpConnectionLostError(Exception):
    """The connection to the server is lost: the outcome of the call is unknown."""


class McpSessionGoneError(Exception):
    """The server does not know this session any more (it was restarted, or dropped the session), so it did nothing."""


class McpTimeoutError(Exception):
    """The server did not answer in time. The request was cancelled at the server."""


class McpInvalidReplyError(Exception):
    """The server's answer is not a valid reply."""


START = "mcp__"
LONGEST = 64  # characters of a tool's name that all providers accept


def replace_forbidden(name: str) -> str:
    """Replace the characters that a tool's name cannot contain."""
    return "".join([c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in name])


def normalize_server_name(name: str) -> str:
    """Raises `UsageError` for a name that could be mistaken for another server's."""
    found = replace_forbidden(name)
    if len(found) > LONGEST_NAME:
        raise UsageError(
            f"the MCP server '{name}' cannot be used: its name has {len(found)} characters, the limit is {LONGEST_NAME}"
        )
    if not found.strip("_") or "__" in found or found.startswith("_") or found.endswith("_"):
        raise UsageError(
            f"the MCP server '{name}' would be called '{found}', which could be mistaken for another: give it a name "
            "of letters, digits and '-'"
        )
    return found


def make_tool_name(server: str, tool: str) -> str:
    """Shorten a name that is too long after the server's part, with a checksum that keeps it unique."""
    whole = f"{START}{server}__{replace_forbidden(tool)}"
    if len(whole) <= LONGEST:
        return whole
    return f"{whole[: LONGEST - 9]}_{sha256(tool.encode(errors='surrogatepass')).hexdigest()[:8]}"


LONGEST_INSTRUCTIONS = 2_000  # characters
LONGEST_ABOUT = 4_000  # characters of a tool's description
MOST_TOLD = 1_000  # characters of an error


def parse_listed_tool(tool: dict[str, Any]) -> ListedTool:
    """Cut the server's texts to the limits."""

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
    """Explain why the server's list is missing."""
    match error:
        case McpRefusedError():
            return f"refused to list them ({clean_mcp_text(str(error))[:MOST_TOLD]})"
        case TimeoutError():
            return f"did not list them within {seconds:g} s"
        case _:
            return f"sent an invalid list ({clean_mcp_text(str(error))[:MOST_TOLD]})"


def describe_call_failure(
    error: McpRefusedError | McpInvalidReplyError | McpTimeoutError, seconds: float, setting: str
) -> str:
    said = redact(clean_mcp_text(str(error)))[:MOST_TOLD]
    match error:
        case McpRefusedError():
            return f"refused the call: {said}"
        case McpInvalidReplyError():
            return f"sent an invalid answer: {said}. It is unknown what the call did."
        case McpTimeoutError():
            return (
                f"did not answer within {seconds:g} s, and the call was cancelled. It is unknown what it did until "
                f"then. {setting}, in milliseconds, sets another limit."
            )


_ADDRESS = re.compile(r"(https?://)([^\s'\"<>]*)", re.IGNORECASE)


def redact_urls(said: str) -> str:
    """Remove from addresses what is often secret: user name and password, the query."""

    def one(found: re.Match[str]) -> str:
        host, slash, path = re.split(r"[?#]", found[2], maxsplit=1)[0].partition("/")
        return f"{found[1]}{host.rpartition('@')[2]}{slash}{path}"

    return _ADDRESS.sub(one, said)


def describe_end_reason(error: BaseException | None, limits: McpTimeouts) -> str:
    """Describe why the connection ended; empty if there is nothing to add."""
    while isinstance(error, BaseExceptionGroup):  # of the client's tasks; the first one caused the others
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
            return f"it sent an invalid answer: {redact_urls(clean_mcp_text(str(error)))}"
        case _:
            said = f"{type(error).__name__}: {redact_urls(clean_mcp_text(str(error)))}".removesuffix(": ")
            return f"it cannot be reached: {said}" if type(error).__module__.startswith("httpx") else said


Page = tuple[list[dict[str, Any]], str | None]  # entries as JSON, and the cursor of the next page


async def fetch_all_pages(
    page: Callable[[str | None], Awaitable[Page]], most: int
) -> tuple[list[dict[str, Any]], bool]:
    """All entries up to the limit, and whether there are more."""
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
