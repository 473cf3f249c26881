"""The words of a server, cut to what they may take; and our own words for what goes wrong with one."""

from __future__ import annotations

import asyncio
import re
from typing import Any, cast

from mainspring.core.errors import UsageError
from mainspring.secrets.redaction import redact
from mainspring.tools.mcp.results import clean, text
from mainspring.tools.mcp.values import DamagedError, LateError, Limits, Listed, LostError, RefusedError

LONGEST_INSTRUCTIONS = 2_000  # characters
LONGEST_ABOUT = 4_000  # characters of a tool's description
MOST_TOLD = 1_000  # characters of an error


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


def untold(error: Exception, seconds: float) -> str:
    """Why there is no list."""
    match error:
        case RefusedError():
            return f"refuses to tell them ({clean(str(error))[:MOST_TOLD]})"
        case TimeoutError():
            return f"did not tell them within {seconds:g} s"
        case _:
            return f"told what is no list ({clean(str(error))[:MOST_TOLD]})"


def trouble(error: RefusedError | DamagedError | LateError, seconds: float, setting: str) -> str:
    said = redact(clean(str(error)))[:MOST_TOLD]
    match error:
        case RefusedError():
            return f"refused the call: {said}"
        case DamagedError():
            return f"answered what is no answer: {said}. What it did, nobody knows."
        case LateError():
            return (
                f"did not answer within {seconds:g} s, and was told to leave it. What it did until then, nobody knows. "
                f"{setting}, in milliseconds, sets another limit."
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
