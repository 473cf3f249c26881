"""`/mcp`: the servers of this session, and a new try with one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.cli.output import TextStyle
from mainspring.cli.slash.telling import clean_line, print_to_terminal, print_usage, tell_list
from mainspring.core.errors import MainspringError
from mainspring.text import strip_control_characters

if TYPE_CHECKING:
    from mainspring.cli.terminal_session import TerminalSession

NONE = (
    "This session has no MCP servers. docs/mcp.md says where to name them, 'mainspring mcp' tries those of this folder."
)


async def mcp(talk: TerminalSession, words: str) -> None:
    verb, name = (*words.split(None, 1), "", "")[:2]
    if not words:
        print_servers(talk)
    elif verb == "reconnect" and name:
        await reconnect_server(talk, name)
    else:
        print_usage(talk, "'/mcp' shows the servers, '/mcp reconnect NAME' tries one again.")


def print_servers(talk: TerminalSession) -> None:
    from mainspring.cli.commands.config import format_server_state

    servers, found = talk.world.mcp, talk.config.servers
    if servers is None:
        print_to_terminal(talk, NONE, TextStyle.DIM)
        return
    off = [{"name": name, "status": "disabled"} for name in (found.off if found is not None else ())]
    rows = [line for state in (*servers.status(), *off) for line in format_server_state(state)]
    tell_list(talk, [f"{indent_row(row)}{clean_line(row)}" for row in rows])
    tell_list(
        talk, [clean_line(problem) for problem in (found.problems if found is not None else ())], TextStyle.YELLOW
    )


def indent_row(row: str) -> str:
    return " " * (len(row) - len(row.lstrip(" ")))


async def reconnect_server(talk: TerminalSession, name: str) -> None:
    """Its tools come with the next prompt."""
    servers = talk.world.mcp
    if servers is None:
        print_to_terminal(talk, NONE, TextStyle.DIM)
        return
    try:
        await talk.session.reconnect_mcp(name)
    except (MainspringError, OSError) as error:
        print_to_terminal(talk, f"It did not come to that: {clean_line(str(error))}", TextStyle.YELLOW)
        return
    print_to_terminal(talk, f"The MCP server '{strip_control_characters(name)}' is connected.", TextStyle.DIM)
