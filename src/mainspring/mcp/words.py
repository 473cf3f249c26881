"""The words of a server, cut to what they may take; and our own words for what goes wrong with one."""

from __future__ import annotations

import asyncio
import re
from typing import Any, cast

from mainspring.core.errors import UsageError
from mainspring.mcp.base import (
    ListedTool,
    McpConnectionLostError,
    McpInvalidReplyError,
    McpRefusedError,
    McpTimeoutError,
    McpTimeouts,
)
from mainspring.secrets.redaction import redact
from mainspring.tools.results import clean_mcp_text, text_or_empty

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
