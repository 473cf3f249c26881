"""What is known of a server and its tools, and what can go wrong with them. Nothing here needs the official client."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Protocol

from mainspring.core.value import Value


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
