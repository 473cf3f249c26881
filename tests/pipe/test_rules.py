"""Who may do what without a question. See stream-json 9."""

from __future__ import annotations

import json
from typing import Any

import pytest
from claude_agent_sdk import (
    HookMatcher,
    PermissionResultAllow,
    PermissionUpdate,
    ToolPermissionContext,
    create_sdk_mcp_server,
    tool,
)
from claude_agent_sdk.types import PermissionRuleValue

from mainspring.settings import trust
from mainspring.simulator.replies import Say
from pipe.stage import Serve, bash, call, words

FILES = {
    "userSettings": "home/settings.json",
    "projectSettings": "work/.claude/settings.json",
    "localSettings": "work/.claude/settings.local.json",
}


@pytest.mark.parametrize(
    ("allowed", "runs"),
    [
        (["Bash()"], {"a", "b", "c", "cc", "d", "e"}),
        (["Bash(*)"], {"a", "b", "c", "cc", "d", "e"}),
        (["Read", "Bash(touch b)", "Bash(mkdir c:*)", "Bash(mkfifo *)"], {"b", "c", "cc", "d", "e"}),
    ],
    ids=["empty", "star", "some"],
)
@pytest.mark.covers("N-10")
def test_rules_that_allow(allowed: list[str], runs: set[str], serve: Serve) -> None:
    """9: `Tool()`, `Tool(*)`, exact, `prefix:*`, `prefix *`; all else is denied at once, with nobody to ask."""
    commands = {"a": "touch a", "b": "touch b", "c": "mkdir c", "cc": "mkdir c -p cc", "d": "mkfifo d", "e": "mkfifo e"}
    stage = serve(Say.of(*[bash(command, name) for name, command in commands.items()]), Say.of("Done."))
    told = stage.ask("make", allowed_tools=allowed)
    assert {name for name in commands if (stage.folder / name).exists()} == runs
    denied = [denial["tool_use_id"] for denial in told.result.permission_denials or []]
    assert denied == [f"toolu_{name}" for name in commands if name not in runs]
    assert told.result.result == "Done."


@pytest.mark.covers("N-10", "N-16")
def test_rules_that_deny_stand_above_the_mode(serve: Serve) -> None:
    """9 step 2: a specifier in `disallowed_tools` denies, also with `bypassPermissions`; split outside parentheses."""
    stage = serve(Say.of(bash("touch a", "a"), bash("rm -f x", "b"), bash("echo one, two", "c")), Say.of("Done."))
    told = stage.ask(
        "make", permission_mode="bypassPermissions", disallowed_tools=["Bash(rm:*)", "Bash(echo one, two)"]
    )
    assert {block.tool_use_id: bool(block.is_error) for block in told.outcomes} == {
        "toolu_a": False,
        "toolu_b": True,
        "toolu_c": True,
    }


@pytest.mark.parametrize(
    ("mode", "written", "shell"),
    [
        ("default", False, False),
        ("acceptEdits", True, None),
        ("plan", False, False),
        ("dontAsk", False, False),
        ("bypassPermissions", True, True),
    ],
)
@pytest.mark.covers("N-12", "N-13", "N-14", "N-16")
def test_modes_with_nobody_to_ask(mode: Any, written: bool, shell: bool | None, serve: Serve) -> None:
    """9 steps 3 to 5: edits and commands by mode; reads in the folder and plainly harmless commands always pass."""
    calls = [
        call("Write", file_path="a.txt", content="x"),
        bash("python3 -c \"open('b.txt', 'w')\"", "shell"),
        call("Read", file_path="here.txt"),
        bash("echo hello", "echo"),
    ]
    stage = serve(*[Say.of(each) for each in calls], Say.of("Done."))
    (stage.folder / "here.txt").write_text("here")
    told = stage.ask("make", permission_mode=mode)
    ran = {block.tool_use_id: not block.is_error for block in told.outcomes}
    assert (stage.folder / "a.txt").exists() is written is ran["toolu_Write"]
    assert (ran["toolu_Read"], ran["toolu_echo"]) == (True, True)
    if shell is not None:
        assert (stage.folder / "b.txt").exists() is shell
    assert told.init["permissionMode"] == mode


@pytest.mark.covers("N-10")
@pytest.mark.parametrize("where", FILES)
@pytest.mark.parametrize("destination", FILES)
def test_no_rule_that_is_kept_weakens_one_that_denies(destination: Any, where: str, serve: Serve) -> None:
    """9 step 2, 5.1: whichever file has the deny rule and whichever is written to: it stands there, and it denies, in
    this session and in the next one, whatever an answer adds, replaces or removes."""
    calls = [Say.of(bash("touch yes", "y")), Say.of(bash("touch no", "n")), Say.of("Done.")]
    stage = serve(*calls, *calls)
    stage.home.mkdir()
    trust.add_trusted_folder(str(stage.home), str(stage.folder), at=1)
    denying = stage.folder.parent / FILES[where]
    denying.parent.mkdir(exist_ok=True)
    denying.write_text('{"permissions": {"deny": ["Bash(touch no)"]}}')
    no, everything = [PermissionRuleValue("Bash", "touch no")], [PermissionRuleValue("Bash")]
    updates = [
        PermissionUpdate("addRules", rules=no, behavior="allow", destination=destination),
        PermissionUpdate("addRules", rules=everything, behavior="allow", destination=destination),
        PermissionUpdate("removeRules", rules=no, behavior="deny", destination=destination),
        PermissionUpdate("replaceRules", rules=[], behavior="deny", destination=destination),
        PermissionUpdate("setMode", mode="acceptEdits", destination=destination),
    ]

    async def allow(name: str, input: dict[str, Any], context: ToolPermissionContext) -> PermissionResultAllow:
        return PermissionResultAllow(updated_permissions=updates)

    for _ in range(2):
        told = stage.ask("make", can_use_tool=allow)
        assert {block.tool_use_id: bool(block.is_error) for block in told.outcomes} == {
            "toolu_y": False,
            "toolu_n": True,
        }
        assert json.loads(denying.read_text())["permissions"]["deny"] == ["Bash(touch no)"]
    written = json.loads((stage.folder.parent / FILES[destination]).read_text())["permissions"]
    assert (written["allow"], written["defaultMode"]) == (["Bash(touch no)", "Bash"], "acceptEdits")
    assert not (stage.folder / "no").exists()


def test_edits_outside_are_not_accepted(serve: Serve) -> None:
    """9 step 3: `acceptEdits` allows edits inside the working directories only."""
    stage = serve(Say.of(call("Write", file_path="../out.txt", content="x")), Say.of("Done."))
    told = stage.ask("make", permission_mode="acceptEdits")
    assert told.outcomes[0].is_error
    assert not (stage.folder.parent / "out.txt").exists()


@pytest.mark.covers("N-14")
def test_not_even_a_callback_is_asked(serve: Serve) -> None:
    """9 step 3: `dontAsk` denies whatever would be asked, without asking."""
    stage = serve(Say.of(bash("touch a")), Say.of("Done."))
    asked: list[str] = []

    async def allow(name: str, input: dict[str, Any], context: ToolPermissionContext) -> PermissionResultAllow:
        asked.append(name)
        return PermissionResultAllow()

    told = stage.ask("make", permission_mode="dontAsk", can_use_tool=allow)
    assert (asked, told.outcomes[0].is_error) == ([], True)


@pytest.mark.covers("I-12")
def test_what_a_hook_says_stands_above_rules_and_modes(serve: Serve) -> None:
    """9 step 1: `deny` over everything, `ask` forces the question, `allow` skips it, but not a deny rule."""
    stage = serve(*[Say.of(bash(f"touch {name}", name)) for name in ("deny", "ask", "allow", "rule")], Say.of("Done."))
    asked: list[tuple[str, str | None]] = []

    async def hook(input: Any, id: str | None, context: Any) -> Any:
        word = input["tool_input"]["command"].split()[-1]
        decision = {
            "permissionDecision": word if word != "rule" else "allow",
            "permissionDecisionReason": f"said {word}",
        }
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **decision}}

    async def allow(name: str, input: dict[str, Any], context: ToolPermissionContext) -> PermissionResultAllow:
        asked.append((input["command"], context.decision_reason))
        return PermissionResultAllow()

    told = stage.ask(
        "make",
        allowed_tools=["Bash(touch ask)"],
        disallowed_tools=["Bash(touch rule)"],
        hooks={"PreToolUse": [HookMatcher(hooks=[hook])]},
        can_use_tool=allow,
    )
    assert {block.tool_use_id: bool(block.is_error) for block in told.outcomes} == {
        "toolu_deny": True,
        "toolu_ask": False,
        "toolu_allow": False,
        "toolu_rule": True,
    }
    assert asked == [("touch ask", "said ask")]
    assert "said deny" in words(told.outcomes[0])


def test_a_hooks_no_stands_above_bypass(serve: Serve) -> None:
    """9 step 1: also over `bypassPermissions`."""
    stage = serve(Say.of(bash("touch a")), Say.of("Done."))

    async def hook(input: Any, id: str | None, context: Any) -> Any:
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"}}

    told = stage.ask("make", permission_mode="bypassPermissions", hooks={"PreToolUse": [HookMatcher(hooks=[hook])]})
    assert told.outcomes[0].is_error
    assert not (stage.folder / "a").exists()


@pytest.mark.covers("N-09")
def test_rules_for_servers(serve: Serve) -> None:
    """9: `mcp__server__tool`, and `mcp__server` for all of a server's tools; without a rule they are denied."""
    ran: list[str] = []

    @tool("open", "Opens.", {})
    async def open_it(given: dict[str, Any]) -> dict[str, Any]:
        ran.append("open")
        return {"content": [{"type": "text", "text": "open"}]}

    stage = serve(*[Say.of(call("mcp__gate__open")), Say.of("Done.")] * 3)
    servers = {"gate": create_sdk_mcp_server("gate", "1.0.0", [open_it])}
    for rules, times in (([], 0), (["mcp__gate__open"], 1), (["mcp__gate"], 2)):
        told = stage.ask("open", mcp_servers=servers, allowed_tools=rules)
        assert (bool(told.outcomes[0].is_error), len(ran)) == (not rules, times)


def test_a_tool_that_is_asked_instead(serve: Serve) -> None:
    """9 step 5, 1.2: `permission_prompt_tool_name` names an MCP tool; its first text is the answer of 5.1."""
    asked: list[dict[str, Any]] = []

    @tool("approve", "Approves.", {"tool_name": str, "input": dict, "tool_use_id": str})
    async def approve(given: dict[str, Any]) -> dict[str, Any]:
        asked.append(given)
        answer = (
            '{"behavior":"allow","updatedInput":{"command":"touch other"}}'
            if given["input"]["command"] == "touch yes"
            else '{"behavior":"deny","message":"not that"}'
        )
        return {"content": [{"type": "text", "text": answer}]}

    stage = serve(Say.of(bash("touch yes", "y")), Say.of(bash("touch no", "n")), Say.of("Done."))
    told = stage.ask(
        "make",
        mcp_servers={"gate": create_sdk_mcp_server("gate", "1.0.0", [approve])},
        permission_prompt_tool_name="mcp__gate__approve",
    )
    assert [(each["tool_name"], each["tool_use_id"]) for each in asked] == [("Bash", "toolu_y"), ("Bash", "toolu_n")]
    assert (stage.folder / "other").exists()
    assert not (stage.folder / "no").exists()
    assert "not that" in words(told.outcomes[1])
