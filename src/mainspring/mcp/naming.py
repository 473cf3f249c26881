"""The names that servers and their tools have for the model and in rules: `mcp__server__tool`.

A rule `mcp__server` covers all tools of a server. So no name of a server may hold two `_` in a row, nor begin or end
with one: the tools of a server 'a__b' would pass for those of 'a', and have the rights of that one. Nor may it be so
long that a name which is cut loses the second `__`: no rule for the server would cover that tool.
"""

from __future__ import annotations

from mainspring.core.errors import UsageError
from mainspring.settings.mcp_servers import LONGEST_NAME

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
