"""The name that was probably meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.text import closest_name, did_you_mean, distance

TOOLS = ("Bash", "BashOutput", "Read", "Edit", "Write", "NotebookEdit", "Glob", "Grep", "WebFetch", "Agent")
FLAGS = ("--print", "--model", "--fallback-model", "--allowedTools", "--allowed-tools", "--max-turns")
COMMANDS = ("demo", "sessions", "models", "context", "config", "trust", "permissions", "mcp", "doctor")
LETTERS = st.text("abcdef", max_size=8)


@pytest.mark.parametrize(
    ("said", "names", "found"),
    [
        ("Bsh", TOOLS, "Bash"),
        ("read", TOOLS, "Read"),
        ("BASH", TOOLS, "Bash"),
        ("Web", TOOLS, "WebFetch"),
        ("Notebok", TOOLS, ""),
        ("NotebokEdit", TOOLS, "NotebookEdit"),
        ("--modle", FLAGS, "--model"),
        ("--allowed-tool", FLAGS, "--allowed-tools"),
        ("sesions", COMMANDS, "sessions"),
        ("dcotor", COMMANDS, "doctor"),
        ("conf", COMMANDS, "config"),
        ("summarize", COMMANDS, ""),
        ("hello", COMMANDS, ""),
        ("mc", COMMANDS, ""),
        ("MCP", COMMANDS, "mcp"),
        ("", COMMANDS, ""),
        ("x", (), ""),
    ],
)
def test_what_was_meant(said: str, names: tuple[str, ...], found: str) -> None:
    assert closest_name(said, names) == found
    assert did_you_mean(said, names) == (f". Did you mean '{found}'?" if found else "")


@given(st.sampled_from(sorted(TOOLS)), st.data())
def test_one_slip_in_the_name_of_a_tool_is_forgiven(name: str, data: st.DataObject) -> None:
    """One letter too many, too few, wrong, or two that changed places: it is that tool, or one that is as near."""
    place = data.draw(st.integers(0, len(name) - 2))
    letter = data.draw(st.sampled_from("xq"))
    slips = (
        name[:place] + letter + name[place:],
        name[:place] + name[place + 1 :],
        name[:place] + letter + name[place + 1 :],
        name[:place] + name[place + 1] + name[place] + name[place + 2 :],
    )
    said = data.draw(st.sampled_from(slips))
    found = closest_name(said, TOOLS)
    assert found == name or distance(said.lower(), found.lower()) <= 1 or found.lower().startswith(said.lower())


@given(LETTERS, LETTERS, LETTERS)
def test_the_distance_is_one(one: str, other: str, more: str) -> None:
    assert distance(one, other) == distance(other, one)
    assert (distance(one, other) == 0) == (one == other)
    assert abs(len(one) - len(other)) <= distance(one, other) <= max(len(one), len(other))
    assert distance(one + more, other + more) <= distance(one, other)
