"""Rules for tools without a grammar of their own: servers, agents, skills, addresses, fields of an input."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring.cli.flags import split_list
from mainspring.permissions.policy import PermissionDecision
from permissions.deciding import CWD, call

SERVERS = [
    ({}, "ask"),
    ({"allow": ["mcp__s"]}, "allow"),
    ({"allow": ["mcp__s__*"]}, "allow"),
    ({"allow": ["mcp__s__t"]}, "allow"),
    ({"allow": ["mcp__s__t*"]}, "allow"),
    ({"allow": ["mcp__s__u*"]}, "ask"),
    ({"allow": ["mcp__s__tt"]}, "ask"),
    ({"allow": ["mcp__s2"]}, "ask"),
    ({"allow": ["mcp__"]}, "ask"),
    ({"allow": ["mcp__*"]}, "ask"),
    ({"allow": ["*"]}, "ask"),
    ({"allow": ["MCP__s__t"]}, "ask"),
    ({"allow": ["mcp__s__t(x)"]}, "ask"),
    ({"allow": ["mcp__s"], "ask": ["mcp__s__t"]}, "ask"),
    ({"allow": ["mcp__s"], "ask": ["mcp__*"]}, "ask"),
    ({"allow": ["mcp__s"], "deny": ["mcp__s__t"]}, "deny"),
    ({"allow": ["mcp__s__t"], "deny": ["mcp__s"]}, "deny"),
    ({"allow": ["mcp__s__t"], "deny": ["mcp__*"]}, "deny"),
    ({"allow": ["mcp__s__t"], "deny": ["*"]}, "deny"),
    ({"allow": ["mcp__s__t"], "deny": ["mcp__s__t(*)"]}, "deny"),
    ({"allow": ["mcp__s__t"], "ask": ["*"], "mode": "bypassPermissions"}, "ask"),
    ({"mode": "bypassPermissions"}, "allow"),
    ({"mode": "dontAsk"}, "deny"),
    ({"mode": "acceptEdits"}, "ask"),
    ({"mode": "plan"}, "ask"),
    ({"mode": "plan", "allow": ["mcp__s"]}, "allow"),
]


@pytest.mark.parametrize(("given", "wanted"), SERVERS)
def test_tools_of_servers(given: dict[str, Any], wanted: str) -> None:
    assert call("mcp__s__t", {"x": 1}, **given).decision == wanted


NAMED = [
    ("Agent", {"subagent_type": "x"}, {}, "allow"),
    ("Agent", {"subagent_type": "x"}, {"allow": ["Agent(x)"]}, "allow"),
    ("Agent", {"subagent_type": "xy"}, {"allow": ["Agent(x)"]}, "allow"),
    ("Agent", {}, {"allow": ["Agent(x)"], "ask": ["Agent"]}, "ask"),
    ("Agent", {"subagent_type": "x"}, {"allow": ["Agent"], "ask": ["Agent(x)"]}, "ask"),
    ("Agent", {"subagent_type": "y"}, {"allow": ["Agent"], "ask": ["Agent(x)"]}, "allow"),
    ("Agent", {"subagent_type": "x"}, {"allow": ["Agent"], "deny": ["Task(x)"]}, "deny"),
    ("Task", {"subagent_type": "x"}, {"allow": ["Agent"], "deny": ["Agent(x)"]}, "deny"),
    ("Agent", {"model": "opus"}, {"allow": ["Agent"], "deny": ["Agent(model:opus)"]}, "deny"),
    ("Agent", {"model": "opus-2"}, {"allow": ["Agent"], "ask": ["Agent(model:opus*)"]}, "ask"),
    ("Agent", {"model": "haiku"}, {"allow": ["Agent"], "deny": ["Agent(model:opus)"]}, "allow"),
    ("Agent", {"background": True}, {"allow": ["Agent"], "deny": ["Agent(background:true)"]}, "deny"),
    ("Agent", {"background": False}, {"allow": ["Agent"], "deny": ["Agent(background:false)"]}, "deny"),
    ("Agent", {"background": True}, {"allow": ["Agent"], "deny": ["Agent(background:false)"]}, "allow"),
    ("Agent", {"turns": 3}, {"allow": ["Agent"], "ask": ["Agent(turns:3)"]}, "ask"),
    ("Agent", {"turns": [3]}, {"allow": ["Agent"], "ask": ["Agent(turns:3)"]}, "allow"),
    ("Skill", {"skill": "a"}, {"allow": ["Skill(a)"]}, "allow"),
    ("Skill", {"command": "a"}, {"allow": ["Skill(a)"]}, "allow"),
    ("Skill", {"skill": "ab"}, {"allow": ["Skill(a)"]}, "ask"),
    ("Skill", {"skill": "a:b"}, {"allow": ["Skill(a:*)"]}, "allow"),
    ("Skill", {"skill": "a b"}, {"allow": ["Skill(a *)"]}, "allow"),
    ("Skill", {"skill": "ab"}, {"allow": ["Skill(a:*)"]}, "ask"),
    ("Skill", {"skill": "a"}, {"allow": ["Skill"], "ask": ["Skill(a:*)"]}, "ask"),
    ("Task", {"subagent_type": "a"}, {"ask": ["Agent(a)"]}, "ask"),
    ("Agent", {}, {"deny": ["Agent(general-purpose)"]}, "deny"),  # that is what it means
    ("Agent", {"subagent_type": None}, {"ask": ["Task(general-purpose)"]}, "ask"),
    ("Agent", {}, {"deny": ["Agent(Explore)"]}, "allow"),
    ("Other", {}, {"allow": ["Other"]}, "allow"),
    ("Other", {"name": "x"}, {"allow": ["Other(x)"]}, "ask"),
    ("TodoWrite", {}, {}, "allow"),
    ("TodoWrite", {}, {"mode": "plan"}, "allow"),
    ("TodoWrite", {}, {"mode": "dontAsk"}, "allow"),
    ("TodoWrite", {}, {"ask": ["TodoWrite"]}, "ask"),
    ("TodoWrite", {}, {"deny": ["TodoWrite"]}, "deny"),
    ("Glob", {}, {}, "allow"),
    ("LS", {}, {}, "allow"),
    ("Grep", {}, {}, "allow"),
    ("Read", {}, {}, "deny"),
    ("Bash", {"command": 5}, {"mode": "bypassPermissions"}, "deny"),
    ("Bash", {}, {"allow": ["Bash"]}, "deny"),
]


@pytest.mark.parametrize(("tool", "input", "given", "wanted"), NAMED)
def test_tools_by_name(tool: str, input: dict[str, Any], given: dict[str, Any], wanted: str) -> None:
    assert call(tool, input, **given).decision == wanted


def test_the_whole_verdict() -> None:
    assert call("mcp__s__t", {"x": 1}) == PermissionDecision(
        "ask", "no rule covers 'mcp__s__t'", shown='mcp__s__t: {"x":1}', is_default=True
    )
    assert call("mcp__s__t", {}, mode="auto", allow=["WebFetch"]) == PermissionDecision(
        "ask",
        "no rule covers 'mcp__s__t'; the classifier is not asked: nothing contains its effects",
        shown="mcp__s__t: {}",
    )
    assert call("WebFetch", {"url": "https://x.com/"}) == PermissionDecision(
        "ask", "no rule covers the host 'x.com'", shown="WebFetch: https://x.com/", is_default=True
    )
    assert call(
        "WebFetch", {"url": "https://x.com/"}, ask=["WebFetch(domain:x.com)"], allow=["WebFetch"]
    ) == PermissionDecision(
        "ask",
        "an ask rule of source 'flag': WebFetch(domain:x.com)",
        "WebFetch(domain:x.com)",
        "flag",
        "WebFetch: https://x.com/",
    )
    assert call("WebFetch", {}).reason == "'' is no plain http or https address"
    assert call("WebFetch", {"url": "x y"}).reason == (
        "the address contains characters that programs read differently: write the host in ASCII"
    )
    assert call("TodoWrite", {}) == PermissionDecision(
        "allow", "it only reads, where reading is free", shown="TodoWrite: {}"
    )
    assert call("Read", {"file_path": f"{CWD}/x"}) == PermissionDecision(
        "allow", "it only reads, where reading is free", shown=f"Read: {CWD}/x"
    )
    assert call("Bash", {"command": "npm x"}) == PermissionDecision(
        "ask", "no rule covers 'npm x'", shown="Bash: npm x", is_default=True
    )
    assert call("Bash", {"command": "npm x"}, allow=["Bash(npm:*)"]) == PermissionDecision(
        "allow", "allowed by Bash(npm:*)", "Bash(npm:*)", "flag", "Bash: npm x"
    )


CLASSES = [
    ("[a-c].txt", "a b c", "d - A"),
    ("[!a-c].txt", "d - A", "a b c"),
    ("[^a-cx].txt", "d y", "a c x"),
    ("[a-cx].txt", "a b c x", "d w"),
    ("[xa-c].txt", "x a c", "d -"),
    ("[a-].txt", "a -", "b"),
    ("?.txt", "a b", "ab"),
    ("[ab].txt", "a b", "c"),
]


@pytest.mark.parametrize(("name", "denied", "others"), CLASSES)
def test_classes_in_path_rules(name: str, denied: str, others: str) -> None:
    for letter in denied.split():
        assert call("Read", {"file_path": f"{letter}.txt"}, deny=[f"Read({name})"]).decision == "deny", letter
    for letter in others.split():
        assert call("Read", {"file_path": f"{letter}.txt"}, deny=[f"Read({name})"]).decision == "allow", letter


def test_a_redirect_is_covered_by_rules_for_files_and_names_them() -> None:
    read = call("Bash", {"command": "npm x < /data/y"}, allow=["Bash(npm:*)", "Read(//data/**)"])
    assert (read.decision, read.rule) == ("allow", "Bash(npm:*), Read(//data/**)")
    write = call("Bash", {"command": "npm x > y"}, allow=["Bash(npm:*)", "Write(y)"])
    assert (write.decision, write.rule) == ("allow", "Bash(npm:*), Write(y)")
    assert call("Bash", {"command": "npm x > y"}, allow=["Bash(npm:*)", "NotebookEdit(y)"]).decision == "ask"


def test_lists_of_rules_are_split_outside_parentheses() -> None:
    assert list(split_list("Bash(a (b), c),Read")) == ["Bash(a (b), c)", "Read"]
    assert list(split_list("Bash(f(g(x), y) z) Edit")) == ["Bash(f(g(x), y) z)", "Edit"]
