"""`can_use_tool`: the caller is asked. Section 5.1 of the contract."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from claude_agent_sdk import (
    ClaudeSDKClient,
    PermissionResultAllow,
    PermissionResultDeny,
    PermissionUpdate,
    ResultError,
    ToolPermissionContext,
)
from claude_agent_sdk.types import PermissionResult, PermissionRuleValue

from mainspring.simulator.replies import Say
from pipe.raw import prompt
from pipe.stage import Serve, bash, call, exchange, words

Asked = list[tuple[str, dict[str, Any], ToolPermissionContext]]
Callback = Callable[[str, dict[str, Any], ToolPermissionContext], Awaitable[PermissionResult]]


def answering(*answers: PermissionResult, asked: Asked | None = None) -> Callback:
    """One answer after the other; the last for all that follow."""
    left = list(answers)

    async def answer(name: str, input: dict[str, Any], context: ToolPermissionContext) -> PermissionResult:
        if asked is not None:
            asked.append((name, input, context))
        return left.pop(0) if len(left) > 1 else left[0]

    return answer


ALLOW, DENY = PermissionResultAllow(), PermissionResultDeny(message="not today")


@pytest.mark.covers("N-11")
def test_allowed(serve: Serve) -> None:
    """5.1: the callback gets name, input, the call's id, suggestions; allow runs the tool; reads are not asked for."""
    stage = serve(Say.of(bash("touch made"), call("Read", file_path="a.txt")), Say.of("Done."))
    (stage.folder / "a.txt").write_text("text")
    asked: Asked = []
    told = stage.ask("make", can_use_tool=answering(ALLOW, asked=asked))
    [(name, input, context)] = asked
    assert (name, input["command"], context.tool_use_id, context.agent_id) == ("Bash", "touch made", "toolu_Bash", None)
    assert context.suggestions
    assert {each.type for each in context.suggestions} <= {"addRules", "addDirectories", "setMode"}
    assert (told.error, told.result.permission_denials) == (None, [])
    assert (stage.folder / "made").exists()


def test_allowed_with_another_input(serve: Serve) -> None:
    """5.1: the tool runs with `updatedInput`."""
    stage = serve(Say.of(bash("touch made")), Say.of("Done."))
    told = stage.ask("make", can_use_tool=answering(PermissionResultAllow(updated_input={"command": "touch other"})))
    assert told.error is None
    assert (stage.folder / "other").exists()
    assert not (stage.folder / "made").exists()


@pytest.mark.covers("N-11")
def test_denied(serve: Serve) -> None:
    """5.1, 6.4: the message is the error result, the loop goes on, the call is listed in the result."""
    stage = serve(Say.of(bash("touch made")), Say.of("A pity."))
    told = stage.ask("make", can_use_tool=answering(DENY))
    [block] = told.outcomes
    assert (block.is_error, "not today" in words(block)) == (True, True)
    assert (told.result.result, told.result.is_error, told.error) == ("A pity.", False, None)
    assert told.result.permission_denials == [
        {"tool_name": "Bash", "tool_use_id": "toolu_Bash", "tool_input": {"command": "touch made"}}
    ]
    assert "not today" in stage.said(1)
    assert not (stage.folder / "made").exists()


def test_denied_and_stopped(serve: Serve) -> None:
    """5.1, 6.4: with `interrupt` there is no further model call; `error_during_execution`, `aborted_tools`, exit 1."""
    stage = serve(Say.of(bash("touch made")), Say.of("never"))
    told = stage.ask("make", can_use_tool=answering(PermissionResultDeny(message="stop", interrupt=True)))
    assert (told.result.subtype, told.result.is_error) == ("error_during_execution", True)
    assert told.result.terminal_reason == "aborted_tools"
    assert isinstance(told.error, ResultError)
    assert told.error.exit_code == 1
    assert len(stage.requests) == 1


def test_a_callback_that_raises(serve: Serve) -> None:
    """5.1: an error answer is a denial whose result holds the error's text."""
    stage = serve(Say.of(bash("touch made")), Say.of("Oh."))

    async def fail(name: str, input: dict[str, Any], context: ToolPermissionContext) -> PermissionResult:
        raise ValueError("the callback is ill")

    told = stage.ask("make", can_use_tool=fail)
    [block] = told.outcomes
    assert (block.is_error, "the callback is ill" in words(block)) == (True, True)
    assert told.result.result == "Oh."
    assert not (stage.folder / "made").exists()


# --- what an answer changes for later ---------------------------------------------------------------


def touch(tail: str, behavior: Any = "allow") -> dict[str, Any]:
    return {"rules": [PermissionRuleValue("Bash", f"touch {tail}")], "behavior": behavior}


def test_rules_are_added_replaced_and_removed(serve: Serve) -> None:
    """5.1: `addRules`, `replaceRules` and `removeRules` hold for the session from the next call on."""
    session: Any = {"destination": "session"}
    commands = ["touch a1", "touch a2", "touch b1", "touch a3", "touch b2"]
    stage = serve(*[Say.of(bash(text, text[-2:])) for text in commands], Say.of("Done."))
    allow = [
        PermissionUpdate("addRules", **touch("a2"), **session),  # asked for a1; a2 is not asked for
        PermissionUpdate("replaceRules", **touch("a3"), **session),  # asked for b1; a3 is not
        PermissionUpdate("removeRules", **touch("a3"), **session),  # asked for b2
    ]
    asked: Asked = []
    answers = [PermissionResultAllow(updated_permissions=[update]) for update in allow]
    told = stage.ask("make", can_use_tool=answering(*answers, asked=asked))
    assert told.result.result == "Done."
    assert [input["command"] for _, input, _ in asked] == ["touch a1", "touch b1", "touch b2"]
    assert {path.name for path in stage.folder.iterdir() if path.is_file()} == {text[-2:] for text in commands}


def test_a_rule_without_content_and_a_rule_that_denies(serve: Serve) -> None:
    """5.1: `ruleContent` may be null: the whole tool; `behavior` may be deny."""
    stage = serve(
        Say.of(bash("touch a", "a")), Say.of(bash("touch b", "b")), Say.of(bash("touch c", "c")), Say.of("Done.")
    )
    updates = [
        PermissionUpdate("addRules", **touch("c", "deny"), destination="session"),
        PermissionUpdate("addRules", rules=[PermissionRuleValue("Bash")], behavior="allow", destination="session"),
    ]
    asked: Asked = []
    told = stage.ask("make", can_use_tool=answering(PermissionResultAllow(updated_permissions=updates), asked=asked))
    assert len(asked) == 1
    assert [bool(block.is_error) for block in told.outcomes] == [False, False, True]


def test_the_mode_is_set(serve: Serve) -> None:
    """5.1: `setMode`; from then on edits in the folder are not asked for."""
    stage = serve(
        Say.of(call("Write", "a", file_path="a.txt", content="x")),
        Say.of(call("Write", "b", file_path="b.txt", content="x")),
        Say.of("Done."),
    )
    update = PermissionUpdate("setMode", mode="acceptEdits", destination="session")
    asked: Asked = []
    told = stage.ask("make", can_use_tool=answering(PermissionResultAllow(updated_permissions=[update]), asked=asked))
    assert told.result.result == "Done."
    assert [input["file_path"].rsplit("/")[-1] for _, input, _ in asked] == ["a.txt"]
    assert (stage.folder / "b.txt").exists()


def test_folders_are_added_and_removed(serve: Serve) -> None:
    """5.1: `addDirectories`, `removeDirectories`; reading there is not asked for, then it is again."""
    stage = serve(
        *[Say.of(call("Read", f"r{n}", file_path=f"../far/{n}.txt")) for n in range(2)],
        Say.of(bash("touch made")),
        Say.of(call("Read", "r2", file_path="../far/2.txt")),
        Say.of("Done."),
    )
    far = stage.folder.parent / "far"
    far.mkdir()
    for number in range(3):
        (far / f"{number}.txt").write_text("text")
    asked: Asked = []
    answers = [
        PermissionUpdate("addDirectories", directories=[str(far)], destination="session"),
        PermissionUpdate("removeDirectories", directories=[str(far)], destination="session"),
    ]
    callback = answering(*[PermissionResultAllow(updated_permissions=[each]) for each in answers], ALLOW, asked=asked)
    told = stage.ask("look", can_use_tool=callback)
    assert told.result.result == "Done."
    assert [context.tool_use_id for _, _, context in asked] == ["toolu_r0", "toolu_Bash", "toolu_r2"]


def test_a_rule_holds_for_the_session_and_no_settings_are_written(serve: Serve) -> None:
    """5.1, but for the destination: `localSettings` holds for this session only (docs/pipe.md)."""
    stage = serve(*[Say.of(bash("touch a")), Say.of("Done.")] * 2)
    update = PermissionUpdate("addRules", **touch("a"), destination="localSettings")
    asked: Asked = []
    callback = answering(PermissionResultAllow(updated_permissions=[update]), asked=asked)

    async def main(client: ClaudeSDKClient) -> None:
        for _ in range(2):
            assert (await exchange(client, "make")).result.result == "Done."

    stage.talk(main, can_use_tool=callback)
    assert len(asked) == 1
    assert not (stage.folder / ".claude").exists()


# --- many questions ----------------------------------------------------------------------------------


def test_reads_are_asked_for_together(serve: Serve) -> None:
    """5.1, 17.16: calls that may run together may be asked for together; answers may come in any order."""
    far = [call("Read", f"r{n}", file_path=f"../far/{n}.txt") for n in range(3)]
    stage = serve(Say.of(*far), Say.of("Done."))
    (stage.folder.parent / "far").mkdir()
    for number in range(3):
        (stage.folder.parent / "far" / f"{number}.txt").write_text(f"text {number}")
    all_here = asyncio.Event()
    here: list[str] = []

    async def wait(name: str, input: dict[str, Any], context: ToolPermissionContext) -> PermissionResult:
        here.append(input["file_path"])
        if len(here) == 3:
            all_here.set()
        await all_here.wait()
        await asyncio.sleep(0.02 * (3 - here.index(input["file_path"])))  # the first one's answer comes last
        return ALLOW

    told = stage.ask("look", can_use_tool=wait)
    read = {block.tool_use_id: words(block) for block in told.outcomes}
    assert len(read) == 3
    assert all(f"text {n}" in read[f"toolu_r{n}"] for n in range(3))


def test_a_question_is_withdrawn(serve: Serve) -> None:
    """5, 7 rule 7: an interrupt while a question is open cancels it, and the next prompt works."""
    stage = serve(Say.of(bash("touch made")), Say.of("Again."))
    cancelled: list[str] = []

    async def main(client: ClaudeSDKClient) -> None:
        await client.query("make")
        await asked.wait()
        await client.interrupt()
        async for message in client.receive_response():
            messages.append(message)
        assert (await exchange(client, "again")).result.result == "Again."

    asked = asyncio.Event()
    messages: list[Any] = []

    async def wait(name: str, input: dict[str, Any], context: ToolPermissionContext) -> PermissionResult:
        asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(name)
            raise
        raise AssertionError

    stage.talk(main, can_use_tool=wait)
    assert cancelled == ["Bash"]
    assert (messages[-1].subtype, messages[-1].is_error) == ("error_during_execution", True)
    assert not (stage.folder / "made").exists()


def test_the_request_on_the_wire(serve: Serve) -> None:
    """5.1, 7 rules 2 and 3: `requires_action` just before the request, `running` when it is answered; the call's frame
    comes before both; suggestions fit the rule they stand for."""
    stage = serve(Say.of(bash("touch made")), Say.of("Done."))
    with stage.pipe("--permission-prompt-tool", "stdio") as pipe:
        pipe.initialize()
        pipe.send(prompt("make"))
        asked = pipe.asked("can_use_tool")
        request = asked["request"]
        assert (request["tool_name"], request["tool_use_id"]) == ("Bash", "toolu_Bash")
        assert request["input"]["command"] == "touch made"
        for each in request["permission_suggestions"]:
            assert each["destination"] in ("session", "localSettings", "projectSettings", "userSettings")
            assert all(rule["toolName"] == "Bash" for rule in each.get("rules", []))
        pipe.reply(asked, {"behavior": "allow", "updatedInput": request["input"]})
        pipe.idle()
        assert pipe.finish() == 0
    state = "system/session_state_changed"
    shown = [each for each in pipe.kinds if each.startswith((state, "assistant", "control_request", "user", "result"))]
    assert shown == [
        f"{state}/running",
        "assistant",
        f"{state}/requires_action",
        "control_request",
        f"{state}/running",
        "user",
        "assistant",
        "result",
        f"{state}/idle",
    ]
    assert all(
        frame["sdk_host_only"] is True for frame in pipe.frames if frame.get("subtype") == "session_state_changed"
    )
