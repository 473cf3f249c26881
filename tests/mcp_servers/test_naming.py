"""Names of tools: rules about a server cover all that it has, and no name stands for two (law 6)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.agent.mcp import taken_away
from mainspring.core.errors import UsageError
from mainspring.mcp.base import LONGEST, make_tool_name, normalize_server_name
from mainspring.permissions.rules import names_tool, parse_rule
from mainspring.settings.keys import InvalidSetting
from mainspring.settings.mcp_servers import LONGEST_NAME, check_mcp_entries, check_mcp_entry

ODD = "ab_-.é" * 2 + " /"  # few, so that names meet
SERVERS = st.text(ODD, max_size=70) | st.text("ab", min_size=30, max_size=64) | st.text(max_size=70)
TOOLS = st.text(ODD, max_size=90) | st.text("ab", min_size=40, max_size=90) | st.text(max_size=90)


def accepted(server: str) -> str | None:
    """Its plain name, if it may have one."""
    try:
        check_mcp_entry(server, {"command": "x"})
        return normalize_server_name(server)
    except (UsageError, InvalidSetting):
        return None


@pytest.mark.covers("N-10")
@given(SERVERS, TOOLS)
def test_rules_about_a_server_cover_all_its_tools(server: str, tool: str) -> None:
    name = accepted(server)
    if name is None:
        return
    full = make_tool_name(name, tool)
    assert len(full) <= LONGEST
    for rule in (f"mcp__{name}", f"mcp__{name}__*"):
        assert names_tool(parse_rule(rule, "deny"), full)
    assert taken_away([f"mcp__{name}"])(full)


@given(SERVERS, TOOLS, SERVERS, TOOLS)
def test_two_servers_never_share_a_name(server: str, tool: str, other: str, its: str) -> None:
    """Nor does a rule for one cover the other."""
    one, two = accepted(server), accepted(other)
    if one is None or two is None or one == two:
        return
    assert make_tool_name(one, tool) != make_tool_name(two, its)
    assert not names_tool(parse_rule(f"mcp__{one}", "deny"), make_tool_name(two, its))


def test_a_long_name_is_refused_with_words() -> None:
    longest = "s" * LONGEST_NAME
    assert names_tool(parse_rule(f"mcp__{longest}", "deny"), make_tool_name(normalize_server_name(longest), "t" * 90))
    with pytest.raises(UsageError, match="has 41 characters, the limit is 40"):
        normalize_server_name(longest + "s")
    (wrong,) = check_mcp_entries({longest + "s": {"command": "x"}}).wrong
    assert "1 to 40 characters" in wrong.says
