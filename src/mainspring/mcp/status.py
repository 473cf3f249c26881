"""What is told of a server to the program that drives us: its state, its tools, and how it is configured.

The configuration is for people and logs, so the secrets in it are left out: what settings filled in, what the name of a
variable, a header or a flag says, the parameters of an address, and what looks like a secret anywhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainspring.mcp.base import DYNAMIC, ListedTool, McpStatus
from mainspring.mcp.server import McpServerConnection
from mainspring.secrets.redaction import REDACTED, is_secret, redact
from mainspring.settings.mcp_servers import SDK
from mainspring.settings.values import McpServer

DESTINED = {"readOnlyHint": "readOnly", "destructiveHint": "destructive", "openWorldHint": "openWorld"}


def status_of(server: McpServerConnection) -> dict[str, Any]:
    found: dict[str, Any] = {"name": server.wanted.name, "status": str(server.status)}
    if server.info:
        found["serverInfo"] = server.info
    if server.error:
        found["error"] = server.error
    if server.status is McpStatus.CONNECTED:
        found["tools"] = [tool_info(tool) for tool in server.tools.values()]
    return found | redact_configuration(server.wanted)


def left_out(wanted: McpServer, why: str) -> dict[str, Any]:
    """One that was never started."""
    return {"name": wanted.name, "status": str(McpStatus.FAILED), "error": why} | redact_configuration(wanted)


def redact_configuration(wanted: McpServer) -> dict[str, Any]:
    return {
        "config": redact_config_fields(wanted),
        "scope": DYNAMIC if wanted.kind == SDK else str(wanted.origin.source),
    }


def redact_config_fields(wanted: McpServer) -> dict[str, Any]:
    if wanted.kind == SDK:
        return {"type": SDK, "name": wanted.name}
    if wanted.kind == "stdio":
        found: dict[str, Any] = {
            "type": wanted.kind,
            "command": redact(wanted.command),
            "args": redact_arguments(wanted.args),
        }
        return found | ({"env": without_secrets(wanted.env)} if wanted.env else {})
    found = {"type": wanted.kind, "url": redact_url(wanted.url)}
    return found | ({"headers": without_secrets(wanted.headers)} if wanted.headers else {})


def without_secrets(named: Mapping[str, str]) -> dict[str, str]:
    return {name: REDACTED if is_secret(name) else redact(value) for name, value in named.items()}


def redact_arguments(args: tuple[str, ...]) -> list[str]:
    """`--token=VALUE` in one word, or in two."""
    found: list[str] = []
    flag = ""
    for word in args:
        name, given, _ = word.partition("=")
        if given and name.startswith("-") and is_secret(name.lstrip("-")):
            found.append(f"{name}={REDACTED}")
        elif flag and not word.startswith("-"):
            found.append(REDACTED)
        else:
            found.append(redact(word))
        flag = word if word.startswith("-") and not given and is_secret(word.lstrip("-")) else ""
    return found


def redact_url(url: str) -> str:
    """A service may take its key as any parameter, so none of them is told; nor is who asks."""
    base, asked, query = url.partition("?")
    scheme, between, rest = base.partition("://")
    host, slash, path = rest.partition("/")
    user, at, name = host.rpartition("@")
    shown = f"{scheme}{between}{REDACTED if user else ''}{at}{name}{slash}{path}"
    return redact(shown) + asked + "&".join([redact_parameter(*pair.partition("=")) for pair in query.split("&")])


def redact_parameter(name: str, given: str, value: str) -> str:
    return f"{name}={REDACTED}" if value else f"{name}{given}"


def tool_info(tool: ListedTool) -> dict[str, Any]:
    said = {"description": tool.about} if tool.about else {}
    return {"name": tool.name, **said, "annotations": tool_hints(tool)}


def tool_hints(tool: ListedTool) -> dict[str, bool]:
    return {ours: tool.annotations[theirs] for theirs, ours in DESTINED.items() if tool.annotations.get(theirs) is True}
