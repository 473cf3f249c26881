"""`can_use_tool`: the caller is asked. See stream-json 5.1."""

from __future__ import annotations

import asyncio
import json
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

from mainspring.agent.permission_updates import update_to_change
from mainspring.core.errors import UsageError
from mainspring.settings import trust
from mainspring.settings.edit import ListChange
from mainspring.settings.values import SettingsSource
from mainspring.simulator.replies import Say
from mainspring.tools.base import Workspace
from pipe.raw import prompt
from pipe.stage import Serve, Stage, Told, bash, call, exchange, words

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


def write(name: str) -> dict[str, Any]:
    return call("Write", name, file_path=name, content="x")


ACCEPT_EDITS = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}


@pytest.mark.covers("N-11")
def test_the_suggested_mode_covers_the_next_edit(serve: Serve) -> None:
    """5.1: the first suggestion for an edit is the mode that accepts edits, for this session. Whoever hands it back is
    not asked about the next edit, and still is about a command."""
    command = bash('python3 -c \'open("made", "w")\'')
    stage = serve(Say.of(write("a.txt")), Say.of(write("b.txt")), Say.of(command), Say.of("Done."))
    asked: list[tuple[str, list[dict[str, Any]]]] = []

    async def answer(name: str, input: dict[str, Any], context: ToolPermissionContext) -> PermissionResult:
        asked.append((name, [one.to_dict() for one in context.suggestions]))
        return PermissionResultAllow(updated_permissions=context.suggestions[:1] if name == "Write" else None)

    told = stage.ask("write", can_use_tool=answer)
    assert [name for name, _ in asked] == ["Write", "Bash"]
    assert asked[0][1][0] == ACCEPT_EDITS
    assert ACCEPT_EDITS not in asked[1][1]
    assert (told.error, told.result.permission_denials) == (None, [])
    assert all((stage.folder / name).exists() for name in ("a.txt", "b.txt", "made"))
    assert not list(stage.folder.glob(".claude/settings*.json"))  # for this session alone


@pytest.mark.parametrize("place", [0, 1])
def test_each_suggestion_covers_the_same_edit_again(serve: Serve, place: int) -> None:
    stage = serve(Say.of(write("a.txt")), Say.of(write("a.txt")), Say.of("Done."))
    asked: list[str] = []

    async def answer(name: str, input: dict[str, Any], context: ToolPermissionContext) -> PermissionResult:
        asked.append(name)
        return PermissionResultAllow(updated_permissions=[context.suggestions[place]])

    stage.ask("write", can_use_tool=answer)
    assert asked == ["Write"]


def test_the_mode_is_suggested_only_where_it_helps(serve: Serve) -> None:
    """5.1: not for a file that the mode does not cover, not for reading, not for a command."""
    outside = str(serve().folder.parent / "outside.txt")
    tries = [write(outside), write(".git/config"), call("Read", file_path="/etc/hostname"), bash("touch made")]
    stage = serve(*[Say.of(one) for one in tries], Say.of("Done."))
    asked: Asked = []
    stage.ask("write", can_use_tool=answering(DENY, asked=asked))
    assert len(asked) == len(tries)
    assert [one.to_dict() for *_, context in asked for one in context.suggestions if one.type == "setMode"] == []


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


# --- and for later sessions --------------------------------------------------------------------------

FILES = {
    "userSettings": "home/settings.json",
    "projectSettings": "work/.claude/settings.json",
    "localSettings": "work/.claude/settings.local.json",
}
destinations = pytest.mark.parametrize("destination", FILES)


def settings_of(stage: Stage) -> dict[str, Any]:
    """What the files hold, by destination."""
    base = stage.folder.parent
    return {name: json.loads((base / file).read_text()) for name, file in FILES.items() if (base / file).exists()}


def trust_it(stage: Stage) -> None:
    stage.home.mkdir(exist_ok=True)
    trust.add_trusted_folder(str(stage.home), str(stage.folder), at=1)


def answered(stage: Stage, *updates: PermissionUpdate, **chosen: Any) -> tuple[list[str], Told]:
    """One session: the commands that were asked about, each allowed with these updates; and what was told."""
    asked: Asked = []
    callback = answering(PermissionResultAllow(updated_permissions=[*updates] or None), asked=asked)
    told = stage.ask("make", can_use_tool=callback, **chosen)
    assert told.result.result == "Done."
    return [input.get("command", "") for _, input, _ in asked], told


@destinations
def test_a_rule_is_there_in_the_next_session(destination: Any, serve: Serve) -> None:
    """5.1: it is written where the answer says, beside what stands there; the next session does not ask."""
    stage = serve(*[Say.of(bash("touch a")), Say.of("Done.")] * 2)
    trust_it(stage)
    file = stage.folder.parent / FILES[destination]
    file.parent.mkdir(exist_ok=True)
    file.write_text('{"x": [1], "permissions": {"deny": ["WebFetch"]}}')
    update = PermissionUpdate("addRules", **touch("a"), destination=destination)
    asked, told = answered(stage, update)
    assert (asked, [line for line in told.stderr if "kept" in line]) == (["touch a"], [])
    rules = {"deny": ["WebFetch"], "allow": ["Bash(touch a)"]}
    assert settings_of(stage) == {destination: {"x": [1], "permissions": rules}}
    assert answered(stage)[0] == []


def test_what_is_suggested_can_be_handed_back(serve: Serve) -> None:
    """5.1: a rule is suggested for the local settings, as Claude Code does it."""
    stage = serve(*[Say.of(bash("touch a")), Say.of("Done.")] * 2)
    trust_it(stage)
    asked: list[str] = []

    async def back(name: str, input: dict[str, Any], context: ToolPermissionContext) -> PermissionResult:
        asked.append(name)
        return PermissionResultAllow(updated_permissions=context.suggestions)

    for _ in range(2):
        assert stage.ask("make", can_use_tool=back).result.result == "Done."
    assert asked == ["Bash"]
    assert settings_of(stage) == {"localSettings": {"permissions": {"allow": ["Bash(touch a)"]}}}


@pytest.mark.parametrize("destination", ["session", "cliArg", "elsewhere", None])
def test_other_destinations_are_for_the_session(destination: Any, serve: Serve) -> None:
    stage = serve(Say.of(bash("touch a", "1")), Say.of(bash("touch a", "2")), Say.of("Done."))
    trust_it(stage)
    more: list[dict[str, Any]] = [
        {"type": "setMode", "mode": "default"},
        {"type": "addDirectories", "directories": ["/"]},
    ]
    rule = {"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "touch a"}], "behavior": "allow"}
    with stage.pipe("--permission-prompt-tool", "stdio") as pipe:
        pipe.initialize()
        pipe.send(prompt("make"))
        request = pipe.asked("can_use_tool")
        updates = [each | {"destination": destination} for each in (rule, *more)]
        pipe.reply(
            request, {"behavior": "allow", "updatedInput": {"command": "touch a"}, "updatedPermissions": updates}
        )
        pipe.idle()
        assert pipe.finish() == 0
    assert len([frame for frame in pipe.frames if frame["type"] == "control_request"]) == 1
    assert settings_of(stage) == {}


@destinations
def test_rules_are_replaced_and_removed_in_the_file(destination: Any, serve: Serve) -> None:
    stage = serve(*[Say.of(bash("touch z")), Say.of("Done.")] * 2)
    trust_it(stage)
    file = stage.folder.parent / FILES[destination]
    file.parent.mkdir(exist_ok=True)
    file.write_text('{"permissions": {"allow": ["Bash(touch a)", "Bash(touch b)"], "ask": ["Read(x)", "Read(y)"]}}')
    ask = {"rules": [PermissionRuleValue("Read", "x")], "behavior": "ask", "destination": destination}
    _, told = answered(
        stage,
        PermissionUpdate("removeRules", **touch("a"), destination=destination),
        PermissionUpdate("replaceRules", **ask),
    )
    assert settings_of(stage)[destination] == {"permissions": {"allow": ["Bash(touch b)"], "ask": ["Read(x)"]}}
    assert len([line for line in told.stderr if "stay in force until it ends" in line]) == 2
    answered(stage, PermissionUpdate("replaceRules", **touch("c"), destination=destination))
    assert settings_of(stage)[destination]["permissions"]["allow"] == ["Bash(touch c)"]


@destinations
def test_folders_and_the_mode_are_kept(destination: Any, serve: Serve) -> None:
    stage = serve(
        Say.of(bash("touch a")),
        Say.of("Done."),
        Say.of(call("Read", file_path="../far/0.txt"), call("Write", file_path="b.txt", content="x")),
        Say.of("Done."),
        Say.of(bash("rm -rf a")),
        Say.of("Done."),
    )
    trust_it(stage)
    far = stage.folder.parent / "far"
    far.mkdir()
    (far / "0.txt").write_text("text")
    folders: Any = {"directories": ["../far"], "destination": destination}
    mode = PermissionUpdate("setMode", mode="acceptEdits", destination=destination)
    answered(stage, PermissionUpdate("addDirectories", **folders), mode)
    named = str(far) if destination == "userSettings" else "../far"
    kept = {"additionalDirectories": [named], "defaultMode": "acceptEdits"}
    assert settings_of(stage) == {destination: {"permissions": kept}}
    asked, told = answered(stage)
    assert (asked, told.init["permissionMode"]) == ([], "acceptEdits")
    assert "text" in words(told.outcomes[0])
    back = PermissionUpdate("setMode", mode="default", destination=destination)
    answered(stage, back, PermissionUpdate("removeDirectories", **folders), permission_mode="default")
    assert settings_of(stage)[destination]["permissions"] == {"additionalDirectories": [], "defaultMode": "default"}


def test_a_folder_that_is_not_trusted_is_told_of(serve: Serve) -> None:
    """9: its allow rules do not count in the next session; whoever relies on one is told, and it holds for this one."""
    calls = [Say.of(bash("touch a", "1")), Say.of(bash("touch a", "2")), Say.of("Done.")]
    stage = serve(*calls, *calls)
    update = PermissionUpdate("addRules", **touch("a"), destination="projectSettings")
    asked, told = answered(stage, update)
    assert asked == ["touch a"]
    assert settings_of(stage) == {"projectSettings": {"permissions": {"allow": ["Bash(touch a)"]}}}
    words = "'Bash(touch a)' was saved, but it counts only after 'mainspring trust': this folder is not trusted"
    assert words in [line.removeprefix("mainspring: ") for line in told.stderr]
    assert answered(stage)[0] == ["touch a", "touch a"]


def test_what_cannot_be_written_is_told_and_holds_for_the_session(serve: Serve) -> None:
    """A broken file stays as it is; a rule that nobody can read is not written; nor is a mode that was refused."""
    stage = serve(Say.of(bash("touch a", "1")), Say.of(bash("touch a", "2")), Say.of("Done."))
    trust_it(stage)
    (stage.folder / ".claude").mkdir()
    broken = stage.folder / ".claude/settings.local.json"
    broken.write_text('{"permissions": \n{')
    odd: Any = {"rules": [PermissionRuleValue("WebFetch", "example.com")], "behavior": "allow"}
    asked, told = answered(
        stage,
        PermissionUpdate("addRules", **touch("a"), destination="localSettings"),
        PermissionUpdate("addRules", **odd, destination="userSettings"),
        PermissionUpdate("setMode", mode="bypassPermissions", destination="userSettings"),
        permission_mode="default",
    )
    assert asked == ["touch a"]
    assert broken.read_text() == '{"permissions": \n{'
    assert not (stage.home / "settings.json").exists()
    said = "\n".join(told.stderr)
    assert f"not saved in the local settings, applies to this session only: {broken}:2:2: " in said
    assert "not saved in the user settings: the rule 'WebFetch(example.com)' needs the form" in said


def test_what_no_answer_makes_of_a_file() -> None:
    """Everything goes, a deny rule goes: that is for whoever opens the file."""
    for source in (SettingsSource.USER, SettingsSource.PROJECT, SettingsSource.LOCAL):
        with pytest.raises(UsageError, match="an answer cannot make 'bypassPermissions' the default"):
            update_to_change({"type": "setMode", "mode": "bypassPermissions"}, source, Workspace("/work"))
        rules: dict[str, Any] = {"rules": [{"toolName": "Bash", "ruleContent": None}], "behavior": "deny"}
        with pytest.raises(UsageError, match="an answer cannot remove a deny rule from a file"):
            update_to_change({"type": "removeRules", **rules}, source, Workspace("/work"))
        assert update_to_change({"type": "replaceRules", **rules}, source, Workspace("/work")) == ListChange(
            "deny", ("Bash",)
        )


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
        rule = {"toolName": "Bash", "ruleContent": "touch made"}
        assert request["permission_suggestions"] == [
            {"type": "addRules", "rules": [rule], "behavior": "allow", "destination": "localSettings"}
        ]
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
