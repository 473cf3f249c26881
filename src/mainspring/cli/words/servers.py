"""`/mcp`: the servers of this session, and a new try with one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.agent.harmless import strip_control_characters
from mainspring.cli.output import Style
from mainspring.cli.words.telling import clean, tell, tell_list, usage
from mainspring.core.errors import MainspringError

if TYPE_CHECKING:
    from mainspring.cli.talk import Talk

NONE = (
    "This session has no MCP servers. docs/mcp.md says where to name them, 'mainspring mcp' tries those of this folder."
)


async def mcp(talk: Talk, words: str) -> None:
    verb, name = (*words.split(None, 1), "", "")[:2]
    if not words:
        show(talk)
    elif verb == "reconnect" and name:
        await reconnect(talk, name)
    else:
        usage(talk, "'/mcp' shows the servers, '/mcp reconnect NAME' tries one again.")


def show(talk: Talk) -> None:
    from mainspring.cli.mcp_command import lines

    servers, found = talk.world.mcp, talk.config.servers
    if servers is None:
        tell(talk, NONE, Style.DIM)
        return
    off = [{"name": name, "status": "disabled"} for name in (found.off if found is not None else ())]
    rows = [line for state in (*servers.status(), *off) for line in lines(state)]
    tell_list(talk, [f"{margin(row)}{clean(row)}" for row in rows])
    tell_list(talk, [clean(problem) for problem in (found.problems if found is not None else ())], Style.YELLOW)


def margin(row: str) -> str:
    return " " * (len(row) - len(row.lstrip(" ")))


async def reconnect(talk: Talk, name: str) -> None:
    """Its tools come with the next prompt."""
    servers = talk.world.mcp
    if servers is None:
        tell(talk, NONE, Style.DIM)
        return
    try:
        await talk.session.reconnect_mcp(name)
    except (MainspringError, OSError) as error:
        tell(talk, f"It did not come to that: {clean(str(error))}", Style.YELLOW)
        return
    tell(talk, f"The MCP server '{strip_control_characters(name)}' is connected.", Style.DIM)
