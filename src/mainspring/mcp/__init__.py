"""MCP servers: programs and services that offer tools. The official client (extra `mcp`) talks to them."""

from typing import TYPE_CHECKING

from mainspring.lazy import load_attribute

if TYPE_CHECKING:
    from mainspring.mcp.client import LastHttpStatus as LastHttpStatus
    from mainspring.mcp.client import StrayOutput as StrayOutput
    from mainspring.mcp.client import connect_over_http as connect_over_http
    from mainspring.mcp.client import connect_over_pipes as connect_over_pipes
    from mainspring.mcp.client import open_client_session as open_client_session
    from mainspring.mcp.elicitation import DECLINE as DECLINE
    from mainspring.mcp.elicitation import ask_form as ask_form
    from mainspring.mcp.host_transport import SHUT as SHUT
    from mainspring.mcp.host_transport import open_host_session as open_host_session
    from mainspring.mcp.server_process import McpServerProcess as McpServerProcess

# Loaded on first use, so that a start pays only for what it needs.
MODULES = {
    "DECLINE": "elicitation",
    "LastHttpStatus": "client",
    "McpServerProcess": "server_process",
    "SHUT": "host_transport",
    "StrayOutput": "client",
    "ask_form": "elicitation",
    "connect_over_http": "client",
    "connect_over_pipes": "client",
    "open_client_session": "client",
    "open_host_session": "host_transport",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return load_attribute(__name__, MODULES, name)
