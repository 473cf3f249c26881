"""The order of decision and the modes (N-10 to N-16, Z-22)."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring.permissions.policy import Mode
from permissions.deciding import bash, call, verdict

EDIT = {"file_path": "x"}


@pytest.mark.covers("N-10")
def test_allowed_tools_are_approved_and_disallowed_ones_blocked() -> None:
    for tool in ("Bash", "WebFetch", "Skill", "mcp__a__b", "Whatever"):
        given = {"command": "npm x", "url": "http://x.com", "subagent_type": "y"}
        assert call(tool, given).decision == "ask"
        assert call(tool, given, allow=[tool]).decision == "allow"
        for mode in Mode:
            assert call(tool, given, deny=[tool], allow=[tool], mode=mode, hook="allow").decision == "deny"


@pytest.mark.covers("N-11")
def test_default_asks_for_what_no_rule_covers() -> None:
    found = verdict("npm run x")
    assert (found.decision, found.rule, found.shown) == ("ask", "", "Bash: npm run x")
    assert "npm run x" in found.reason


@pytest.mark.covers("N-12")
def test_accept_edits_lets_file_changes_through() -> None:
    def run(command: str) -> str:
        return bash(command, mode="acceptEdits")

    for tool in ("Edit", "Write", "MultiEdit"):
        assert call(tool, EDIT, mode="acceptEdits").decision == "allow"
        assert call(tool, {"file_path": "../x"}, mode="acceptEdits").decision == "ask"
        assert call(tool, EDIT, mode="acceptEdits", deny=["Edit(x)"]).decision == "deny"
        assert call(tool, EDIT, mode="acceptEdits", ask=["Edit(x)"]).decision == "ask"
    for command in (
        "mkdir -p a/b",
        "touch x",
        "rm -f x",
        "rm -- -x",
        "rmdir a",
        "mv a b",
        "cp -r a b",
        "sed -i 's/a/b/' x",
        "mkdir a && touch a/b",
        "timeout 5 mkdir x",
        "NO_COLOR=1 mv a b",
        "ls && rm x",
        "sed -i -n 5p x",
    ):
        assert run(command) == "allow", command
    for command in (
        "npm x",
        "mkdir ../x",
        "cp a /etc/x",
        "mv a ~/b",
        "rm -rf .",
        "rm *",
        "rm $x",
        "touch .git/x",
        "cp --bogus a b",
        "cp -Z a b",
        "sed -i 's/a/b/e' x",
        "sed -i -e p x",
        "FOO=1 mkdir x",
        "mkdir",
        "chmod +x a",
        "cd .. && touch x",
        "touch -",
        "cd $x; touch y",
        "sed -i",
        "cp /etc/passwd x",
    ):
        assert run(command) == "ask", command
    assert run("rm x > y") == "allow"
    assert bash("rm x", mode="acceptEdits", ask=["Edit(x)"]) == "ask"


@pytest.mark.covers("N-13")
def test_plan_reads_and_never_edits() -> None:
    for tool in ("Edit", "Write", "MultiEdit"):
        assert call(tool, EDIT, mode="plan", allow=["Edit", tool]).decision == "deny"
    assert call("Read", EDIT, mode="plan").decision == "allow"
    assert bash("ls", mode="plan") == "allow"
    assert bash("npm test", mode="plan", allow=["Bash"]) == "ask"
    assert bash("npm test", mode="plan", allow=["Bash(npm test)"]) == "ask"
    assert bash("ls; cat x", mode="plan", allow=["Bash"]) == "allow"
    assert bash("ls > x", mode="plan", allow=["Bash"]) == "ask"
    assert bash("cd x && git status", mode="plan", allow=["Bash"]) == "ask"
    assert bash("ls 'x", mode="plan", allow=["Bash"]) == "ask"
    assert call("WebFetch", {"url": "http://x.com"}, mode="plan", allow=["WebFetch"]).decision == "allow"


@pytest.mark.covers("N-14")
def test_dont_ask_denies_what_would_be_asked() -> None:
    assert bash("npm x", mode="dontAsk") == "deny"
    assert bash("npm x", mode="dontAsk", allow=["Bash(npm:*)"]) == "allow"
    assert bash("ls", mode="dontAsk") == "allow"
    assert bash("npm x", mode="dontAsk", allow=["Bash"], ask=["Bash(npm:*)"]) == "deny"
    assert "dontAsk" in verdict("npm x", mode="dontAsk").reason


def test_bypass_allows_what_is_left() -> None:
    assert bash("anything $x", mode="bypassPermissions") == "allow"
    assert call("Edit", {"file_path": "/x/y"}, mode="bypassPermissions").decision == "allow"
    assert bash("anything", mode="bypassPermissions", deny=["Bash(anything)"]) == "deny"
    assert bash("anything", mode="bypassPermissions", ask=["Bash(anything)"]) == "ask"
    assert bash("anything", mode="bypassPermissions", hook="deny") == "deny"
    assert bash("anything", mode="bypassPermissions", hook="ask") == "ask"


@pytest.mark.covers("N-10")
def test_a_hook_tightens_and_never_loosens() -> None:
    assert bash("npm x", hook="allow") == "allow"
    assert bash("npm x", hook="allow", deny=["Bash(npm:*)"]) == "deny"
    assert bash("npm x", hook="allow", ask=["Bash(npm:*)"]) == "ask"
    assert bash("npm x", hook="deny", allow=["Bash"]) == "deny"
    assert bash("npm x", hook="ask", allow=["Bash"]) == "ask"
    assert bash("$x", hook="allow", deny=["Bash(npm:*)"]) == "ask"
    assert bash("npm x", hook="ask", mode="dontAsk", allow=["Bash"]) == "deny"
    # Input that a hook changed is decided again, and deny and ask hold for what it was.
    changed = {"command": "npm x"}
    for before, wanted in (("rm x", "deny"), ("curl x", "ask"), ("ls", "allow"), ("$x", "ask")):
        rules: dict[str, Any] = {"allow": ["Bash"], "deny": ["Bash(rm:*)"], "ask": ["Bash(curl:*)"]}
        assert call("Bash", changed, before={"command": before}, hook="allow", **rules).decision == wanted
    assert call("Bash", {"command": "rm x"}, before=changed, deny=["Bash(rm:*)"]).decision == "deny"
    assert call("Bash", changed, before={"command": 5}).decision == "deny"


@pytest.mark.parametrize(
    ("tool", "input", "rule", "wanted"),
    [
        ("Agent", {"subagent_type": "Explore"}, "Agent(Explore)", True),
        ("Agent", {"subagent_type": "Explore"}, "Task(Explore)", True),
        ("Task", {"subagent_type": "Explore"}, "Agent(Explore)", True),
        ("Agent", {"subagent_type": "Plan"}, "Agent(Explore)", False),
        ("Agent", {}, "Agent(Explore)", False),
        ("Skill", {"skill": "deploy"}, "Skill(deploy)", True),
        ("Skill", {"skill": "deploy"}, "Skill(deploy:*)", True),
        ("Skill", {"skill": "deploy prod"}, "Skill(deploy *)", True),
        ("Skill", {"skill": "deploy:prod"}, "Skill(deploy:*)", True),
        ("Skill", {"skill": "deployer"}, "Skill(deploy:*)", False),
        ("Skill", {"command": "deploy"}, "Skill(deploy)", True),
        ("Agent", {"subagent_type": "a b"}, "Agent(a *)", False),
        ("mcp__a__x", {}, "mcp__a", True),
        ("mcp__a__x", {}, "mcp__a__*", True),
        ("mcp__a__x", {}, "mcp__b", False),
        ("WebSearch", {"query": "x"}, "WebSearch", True),
        ("WebSearch", {"query": "x"}, "WebSearch(x)", True),
        ("WebSearch", {"query": "x y"}, "WebSearch(x)", False),
    ],
)
def test_tools_by_name(tool: str, input: dict[str, Any], rule: str, wanted: bool) -> None:
    free = tool in ("Agent", "Task")  # to send one out needs no permission: each of its calls does
    assert call(tool, input, allow=[rule]).decision == ("allow" if wanted or free else "ask")
    assert call(tool, input, deny=[rule], allow=[tool, "Agent"]).decision == ("deny" if wanted else "allow")


@pytest.mark.parametrize(
    ("tool", "input", "rule", "wanted"),
    [
        ("Agent", {"model": "opus"}, "Agent(model:opus)", True),
        ("Agent", {"model": "opus"}, "Agent(model : o*s)", True),
        ("Agent", {"model": "haiku"}, "Agent(model:opus)", False),
        ("Agent", {}, "Agent(model:*)", False),
        ("Agent", {"model": {}}, "Agent(model:*)", False),
        ("Bash", {"command": "ls", "run_in_background": True}, "Bash(run_in_background:true)", True),
        ("Bash", {"command": "ls", "run_in_background": False}, "Bash(run_in_background:true)", False),
        ("Bash", {"command": "ls", "timeout": 5}, "Bash(timeout:5)", True),
        ("Bash", {"command": "ls"}, "Bash(command:*)", False),
        ("mcp__a__x", {"n": 1.5}, "mcp__a__x(n:1.5)", True),
        ("Agent", {"model": "opus"}, "Bash(model:opus)", False),
    ],
)
def test_deny_and_ask_by_one_field(tool: str, input: dict[str, Any], rule: str, wanted: bool) -> None:
    assert (call(tool, input, deny=[rule], allow=[tool]).decision == "deny") is wanted
    assert (call(tool, input, ask=[rule], allow=[tool]).decision == "ask") is wanted
    free = tool == "Agent" or (tool == "Bash" and input["command"] == "ls")
    assert call(tool, input, allow=[rule]).decision in ("ask", "allow" if free else "ask")


def test_some_tools_need_no_permission() -> None:
    assert call("TodoWrite", {}).decision == "allow"
    assert call("TodoWrite", {}, mode="plan").decision == "allow"
    assert call("TodoWrite", {}, deny=["TodoWrite"]).decision == "deny"
    assert call("Agent", {}).decision == call("Task", {}, mode="dontAsk").decision == "allow"
    assert call("Bash", {}, allow=["Bash"]).decision == "deny"
    assert call("WebFetch", {}, allow=["WebFetch"]).decision == "deny"


def test_what_decided_is_told() -> None:
    found = verdict("npm x", allow=["Bash(npm:*)"])
    assert (found.rule, found.source) == ("Bash(npm:*)", "flag")
    found = verdict("npm x && cargo y && npm z", allow=["Bash(npm:*)", "Bash(cargo:*)"])
    assert found.rule == "Bash(npm:*), Bash(cargo:*)"
    found = verdict("npm x", deny=["Bash(npm:*)"])
    assert (found.rule, found.source, found.decision) == ("Bash(npm:*)", "flag", "deny")
    assert verdict("npm x > y", allow=["Bash(npm:*)"]).reason == "no rule covers the redirect to 'y'"
    assert verdict("ls").reason == "it only reads, where reading is free"
    assert verdict("cd $x; ls").reason == "it goes to a folder that is computed"


def test_s10_all_of_a_command_is_shown_with_what_cannot_be_seen() -> None:
    command = "echo \x1b[2J \u202eabc \u200b \u00a0 \ud800 é 日本\n\tx" + "a" * 20_000
    found = verdict(command)
    assert found.shown.startswith("Bash: echo <U+001B>[2J <U+202E>abc <U+200B> <U+00A0> <U+D800> é 日本\n\txaaa")
    assert found.shown.endswith("a" * 20_000)
    assert call("Read", {"file_path": "a\u202eb"}).shown == "Read: a<U+202E>b"
    assert call("mcp__a__b", {"x": "\u202e", "y": [1]}).shown == 'mcp__a__b: {"x":"<U+202E>","y":[1]}'
    assert "ud800" in call("mcp__a__b", {"x": "\ud800"}).shown


@pytest.mark.parametrize("mode", list(Mode))
def test_the_same_call_and_policy_give_the_same_verdict(mode: Mode) -> None:
    for command in ("ls", "npm x", "$x", "rm -rf /"):
        assert verdict(command, mode=mode, deny=["Bash(curl:*)"]) == verdict(command, mode=mode, deny=["Bash(curl:*)"])
