"""Hooks in the caller's process: when they are heard, and what they may say. See stream-json 5.2 and 10."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import (
    AgentDefinition,
    ClaudeSDKClient,
    HookEventMessage,
    HookMatcher,
    PermissionResultAllow,
    PermissionResultDeny,
    ToolPermissionContext,
    create_sdk_mcp_server,
    tool,
)

from mainspring.simulator.replies import RawStream, ReceivedRequest, Reply, Say
from pipe.raw import prompt
from pipe.stage import Serve, bash, call, exchange, words

Hook = Callable[[Any, str | None, Any], Awaitable[Any]]
FREE = {"permission_mode": "bypassPermissions"}
# One pixel.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def saying(output: Any, heard: list[Any] | None = None) -> Hook:
    async def hook(input: Any, id: str | None, context: Any) -> Any:
        if heard is not None:
            heard.append({**input, "id": id})
        return output

    return hook


def one(event: str, hook: Hook, matcher: str | None = None, **more: Any) -> dict[str, Any]:
    return {event: [HookMatcher(matcher=matcher, hooks=[hook], **more)]}


def specific(event: str, **fields: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, **fields}}


# --- what is heard ----------------------------------------------------------------------------------


@pytest.mark.of_the_pipe  # our library refuses names that nobody knows
@pytest.mark.covers("I-01", "I-02", "I-04")
def test_the_events_of_a_turn(serve: Serve) -> None:
    """10: the events of a turn with their inputs, in order; a failure has its own event; unknown ones are told."""
    stage = serve(Say.of(bash("echo hello", "good")), Say.of(bash("exit 3", "bad")), Say.of("Done."))
    heard: list[Any] = []
    names = (
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "PostToolUseFailure",
        "Stop",
        "SessionStart",
        "NoSuchEvent",
    )
    hooks: Any = {name: [HookMatcher(hooks=[saying({}, heard)])] for name in names}
    told = stage.ask("go", hooks=hooks, **FREE)
    assert told.error is None
    assert ["NoSuchEvent" in line or "SessionStart" in line for line in told.stderr] == [True, True]
    assert [each["hook_event_name"] for each in heard] == [
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "PreToolUse",
        "PostToolUseFailure",
        "Stop",
    ]
    submit, before, after, _, failed, stop = heard
    for each in heard:
        assert each["session_id"] == told.result.session_id
        assert each["transcript_path"].endswith(f"{told.result.session_id}.jsonl")
        assert each["cwd"] == os.path.realpath(stage.folder)
        assert "agent_id" not in each
        assert each["id"]
    assert Path(submit["transcript_path"]).exists()
    assert (submit["prompt"], submit["permission_mode"]) == ("go", "bypassPermissions")
    assert (before["tool_name"], before["tool_use_id"], before["id"]) == ("Bash", "toolu_good", "toolu_good")
    assert before["tool_input"]["command"] == "echo hello"
    assert after["tool_response"]["stdout"].strip() == "hello"
    assert after["duration_ms"] >= 0
    assert (failed["tool_use_id"], bool(failed["error"]), failed["is_interrupt"]) == ("toolu_bad", True, False)
    assert (stop["stop_hook_active"], stop["last_assistant_message"]) == (False, "Done.")
    assert (stop["background_tasks"], stop["session_crons"]) == ([], [])


def test_what_still_runs_is_told_at_the_end(serve: Serve) -> None:
    """10: `background_tasks`, to a function and to a command."""
    given = bash("sleep 60", "nap", run_in_background=True, description="Naps")
    stage = serve(Say.of(given), Say.of("Done."))
    heard: list[Any] = []
    entries = {"Stop": [{"hooks": [{"type": "command", "command": "cat > told"}]}]}
    stage.ask("go", hooks=one("Stop", saying({}, heard)), settings=json.dumps({"hooks": entries}), **FREE)
    [task] = heard[0]["background_tasks"]
    assert json.loads((stage.folder / "told").read_text())["background_tasks"] == [task]
    assert task.pop("id")
    assert task == {"type": "shell", "status": "running", "description": "Naps", "command": "sleep 60"}


@pytest.mark.covers("I-01")
def test_the_events_of_a_sub_agent(serve: Serve) -> None:
    """10: its start, its stop and its tools, each with its id and kind."""
    stage = serve(choose=delegating)
    heard: list[Any] = []
    names = ("SubagentStart", "SubagentStop", "PreToolUse", "Stop")
    hooks: Any = {name: [HookMatcher(hooks=[saying({}, heard)])] for name in names}
    agents = {"greeter": AgentDefinition(description="Greets.", prompt="You greet.", tools=["Bash"])}
    told = stage.ask("delegate", hooks=hooks, agents=agents, **FREE)
    assert told.result.result == "All done."
    assert [each["hook_event_name"] for each in heard] == [
        "PreToolUse",
        "SubagentStart",
        "PreToolUse",
        "SubagentStop",
        "Stop",
    ]
    spawn, start, inside, end, stop = heard
    assert "agent_id" not in spawn
    assert "agent_id" not in stop
    assert {each["agent_id"] for each in (start, inside, end)} == {start["agent_id"]}
    assert {each["agent_type"] for each in (start, inside, end)} == {"greeter"}
    assert (end["stop_hook_active"], end["last_assistant_message"]) == (False, "Hello from below.")
    assert end["agent_transcript_path"].endswith(f"agent-{start['agent_id']}.jsonl")
    assert Path(end["agent_transcript_path"]).exists()


def delegating(received: ReceivedRequest) -> Reply:
    """The main model asks a greeter, which runs a command."""
    talk = received.talk
    if "say hello below" in str(talk.messages[0]):
        return Say.of("Hello from below.") if talk.results() else Say.of(bash("echo below", "below"))
    given = {"prompt": "say hello below", "subagent_type": "greeter", "run_in_background": False}
    return Say.of("All done.") if talk.results() else Say.of(call("Agent", "spawn", description="greet", **given))


MATCHERS: dict[str | None, list[str]] = {
    None: ["Bash", "Read"],
    "": ["Bash", "Read"],
    "*": ["Bash", "Read"],
    "Bash": ["Bash"],
    "Read|Write": ["Read"],
    "R.*": ["Read"],
    "ash": [],
    "bash": [],
}


def test_which_tools_a_hook_is_for(serve: Serve) -> None:
    """10: nothing or `*` for all; else a regular expression that must match the whole name, capitals and all."""
    stage = serve(Say.of(bash("echo a")), Say.of(call("Read", file_path="a.txt")), Say.of("Done."))
    (stage.folder / "a.txt").write_text("a")
    found: dict[str | None, list[Any]] = {matcher: [] for matcher in MATCHERS}
    matchers = [HookMatcher(matcher=matcher, hooks=[saying({}, heard)]) for matcher, heard in found.items()]
    stage.ask("go", hooks={"PreToolUse": matchers})
    assert {matcher: [each["tool_name"] for each in heard] for matcher, heard in found.items()} == MATCHERS


def test_all_are_asked_at_once(serve: Serve) -> None:
    """10, 17.16: all matching callbacks of an event, in whichever order they answer; deny over ask over allow."""
    stage = serve(Say.of(bash("touch a")), Say.of("Done."))
    together: list[str] = []
    all_here = asyncio.Event()

    def hook(word: str) -> Hook:
        async def wait(input: Any, id: str | None, context: Any) -> Any:
            together.append(word)
            if len(together) == 3:
                all_here.set()
            await all_here.wait()
            return specific("PreToolUse", permissionDecision=word, permissionDecisionReason=f"said {word}")

        return wait

    hooks: Any = {
        "PreToolUse": [
            HookMatcher(hooks=[hook("allow"), hook("deny")]),
            HookMatcher(matcher="Bash", hooks=[hook("ask")]),
        ]
    }
    told = stage.ask("go", hooks=hooks)
    assert sorted(together) == ["allow", "ask", "deny"]
    assert (told.outcomes[0].is_error, "said deny" in words(told.outcomes[0])) == (True, True)


# --- what it may say ----------------------------------------------------------------------------------


@pytest.mark.covers("I-04")
def test_another_input(serve: Serve) -> None:
    """10: `updatedInput` replaces the tool's input."""
    stage = serve(Say.of(bash("touch a")), Say.of("Done."))
    output = specific("PreToolUse", permissionDecision="allow", updatedInput={"command": "touch b"})
    assert stage.ask("go", hooks=one("PreToolUse", saying(output))).error is None
    assert [path.name for path in stage.folder.glob("?")] == ["b"]


def test_more_for_the_model(serve: Serve) -> None:
    """10: `additionalContext` is in the next request, whichever event says it; several are joined."""
    stage = serve(Say.of(bash("echo a", "good")), Say.of(bash("exit 3", "bad")), Say.of("Done."))
    events = {
        "UserPromptSubmit": 0,
        "PreToolUse": 1,
        "PostToolUse": 1,
        "PostToolUseFailure": 2,
    }  # by request
    hooks: Any = {
        event: [
            HookMatcher(hooks=[saying(specific(event, additionalContext=f"{event} said {word}"))])
            for word in ("this", "that")
        ]
        for event in events
    }
    assert stage.ask("go", hooks=hooks, **FREE).error is None
    for event, number in events.items():
        assert f"{event} said this" in stage.said(number)
        assert f"{event} said that" in stage.said(number)


def test_what_is_for_the_model_is_no_part_of_the_result(serve: Serve) -> None:
    """10: the program sees what the tool said, and the model what hooks add to it."""
    stage = serve(Say.of(bash("echo a", "good")), Say.of(bash("echo b; exit 3", "bad")), Say.of("Done."))
    hooks: Any = {
        event: [HookMatcher(hooks=[saying(specific(event, additionalContext=f"{event} adds"))])]
        for event in ("PreToolUse", "PostToolUse", "PostToolUseFailure")
    }
    told = stage.ask("go", hooks=hooks, **FREE)
    good, bad = told.outcomes
    assert words(good) == "a"
    assert "adds" not in words(bad)
    assert all(f"{event} adds" in stage.said(-1) for event in hooks)


def test_another_output(serve: Serve) -> None:
    """10: `updatedToolOutput`, in the tool's own shape, is what the model sees."""
    stage = serve(Say.of(bash("echo secret")), Say.of("Done."))
    changed = {"stdout": "hidden", "stderr": "", "interrupted": False}
    stage.ask("go", hooks=one("PostToolUse", saying(specific("PostToolUse", updatedToolOutput=changed))), **FREE)
    results = str(stage.requests[1].talk.results())
    assert "hidden" in results
    assert "secret" not in results


@tool("weigh", "Weighs.", {})
async def weigh(_: dict[str, Any]) -> dict[str, Any]:
    picture = {"type": "image", "data": PNG, "mimeType": "image/png"}
    return {"content": [{"type": "text", "text": "5 kg"}, picture]}


SCALES: dict[str, Any] = {
    "mcp_servers": {"scales": create_sdk_mcp_server("scales", tools=[weigh])},
    "allowed_tools": ["mcp__scales__weigh", "Bash"],
}
WEIGHED = [
    {"type": "text", "text": "5 kg"},
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
]


def test_the_result_of_a_server_s_tool_has_blocks(serve: Serve) -> None:
    """10, 11: `tool_response` as the model gets it; for a command hook, too. Handed back, it changes nothing."""
    stage = serve(Say.of(call("mcp__scales__weigh")), Say.of("Done."))
    heard: list[Any] = []

    async def same(input: Any, id: str | None, context: Any) -> Any:
        heard.append(input["tool_response"])
        return specific("PostToolUse", updatedToolOutput=input["tool_response"])

    entry = {"hooks": [{"type": "command", "command": "cat > told"}]}
    settings = json.dumps({"hooks": {"PostToolUse": [entry]}})
    assert stage.ask("go", hooks=one("PostToolUse", same), settings=settings, **SCALES).error is None
    assert heard == [WEIGHED]
    assert json.loads((stage.folder / "told").read_text())["tool_response"] == WEIGHED
    [result] = stage.requests[1].talk.results()
    assert result["content"] == WEIGHED


@pytest.mark.parametrize(
    ("field", "output", "seen"),
    [
        ("updatedMCPToolOutput", [{"type": "text", "text": "4 kg"}], "4 kg"),
        ("updatedMCPToolOutput", {"content": [{"type": "text", "text": "4 kg"}]}, "4 kg"),
        ("updatedMCPToolOutput", "4 kg", "4 kg"),
        ("updatedToolOutput", [{"type": "text", "text": "4 kg"}], "4 kg"),
        ("updatedToolOutput", {"kg": 4}, '{"kg": 4}'),
    ],
)
def test_another_output_of_a_server_s_tool(field: str, output: Any, seen: str, serve: Serve) -> None:
    """10: blocks, text or any JSON; `updatedMCPToolOutput` says nothing about other tools."""
    stage = serve(Say.of(call("mcp__scales__weigh"), bash("echo 5 kg")), Say.of("Done."))
    hook = saying(specific("PostToolUse", **{field: output}))
    matcher = None if field == "updatedMCPToolOutput" else "mcp__scales__.*"
    told = stage.ask("go", hooks=one("PostToolUse", hook, matcher), **SCALES)
    assert [words(block) for block in told.outcomes] == [seen, "5 kg"]
    told_to_the_model = [result["content"] for result in stage.requests[1].talk.results()]
    assert told_to_the_model == [[{"type": "text", "text": text}] for text in (seen, "5 kg")]


@pytest.mark.parametrize("by", ["function", "command"])
@pytest.mark.covers("I-07")
def test_more_for_a_model_that_is_done(by: str, serve: Serve) -> None:
    """10: `additionalContext` at Stop reaches the model, which it can only if it goes on."""
    stage = serve(Say.of("Done."), Say.of("Really done."))
    answer = specific("Stop", additionalContext="the tests are red")

    async def hook(input: Any, id: str | None, context: Any) -> Any:
        return {} if input["stop_hook_active"] else answer

    command = f"grep -q 'active\":true' || echo '{json.dumps(answer)}'"
    entries = {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}
    chosen: Any = {"hooks": one("Stop", hook)} if by == "function" else {"settings": json.dumps({"hooks": entries})}
    assert stage.ask("go", **chosen).result.result == "Really done."
    assert "the tests are red" in stage.said(1)


@pytest.mark.covers("I-05", "I-07", "Q-04")
def test_the_model_must_go_on(serve: Serve) -> None:
    """10: `decision: block` on Stop gives the model the reason; the next time `stop_hook_active` is true."""
    stage = serve(Say.of("Done."), Say.of("Really done."))
    active: list[bool] = []

    async def hook(input: Any, id: str | None, context: Any) -> Any:
        active.append(input["stop_hook_active"])
        return {} if input["stop_hook_active"] else {"decision": "block", "reason": "the tests are red"}

    told = stage.ask("go", hooks=one("Stop", hook))
    assert (active, told.result.result) == ([False, True], "Really done.")
    assert "the tests are red" in stage.said(1)


def test_a_prompt_is_blocked(serve: Serve) -> None:
    """10, 6.4: no model call; `success` with the reason as result and no turns."""
    stage = serve(Say.of("never"))
    told = stage.ask("go", hooks=one("UserPromptSubmit", saying({"decision": "block", "reason": "not on Sundays"})))
    assert stage.requests == []
    assert (told.result.subtype, told.result.is_error, told.result.num_turns) == ("success", False, 0)
    assert "not on Sundays" in (told.result.result or "")
    assert told.error is None


def test_a_result_is_objected_to(serve: Serve) -> None:
    """10: `decision: block` on PostToolUse: the reason goes to the model."""
    stage = serve(Say.of(bash("echo a")), Say.of("Done."))
    stage.ask("go", hooks=one("PostToolUse", saying({"decision": "block", "reason": "that was wrong"})), **FREE)
    assert "that was wrong" in stage.said(1)


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse"])
@pytest.mark.covers("I-03", "I-10")
def test_it_ends_here(event: str, serve: Serve) -> None:
    """10, 6.4: `continue: false` ends the run: `success`, `hook_stopped`, an empty result, exit 0."""
    stage = serve(Say.of(bash("echo a")), Say.of("never"))
    told = stage.ask("go", hooks=one(event, saying({"continue_": False, "stopReason": "enough"})), **FREE)
    assert (told.result.subtype, told.result.is_error, told.result.terminal_reason) == (
        "success",
        False,
        "hook_stopped",
    )
    assert (told.result.result, told.error) == ("", None)
    assert len(stage.requests) == 1
    if event == "PostToolUse":  # else it is what became of the call
        assert [frame["content"] for frame in told.system("informational")] == ["enough"]


def test_a_call_is_deferred(serve: Serve) -> None:
    """10, 6.4 [O]: `defer` stops the run; the result carries the call."""
    stage = serve(Say.of(bash("touch a")), Say.of("never"))
    told = stage.ask("go", hooks=one("PreToolUse", saying(specific("PreToolUse", permissionDecision="defer"))))
    assert (told.result.subtype, told.result.terminal_reason) == ("success", "tool_deferred")
    assert told.result.deferred_tool_use is not None
    assert (told.result.deferred_tool_use.id, told.result.deferred_tool_use.name) == ("toolu_Bash", "Bash")
    assert not (stage.folder / "a").exists()


def test_a_word_for_the_caller(serve: Serve) -> None:
    """10, 6.7 [O]: `systemMessage` is shown as `informational`."""
    stage = serve(Say.of(bash("echo a")), Say.of("Done."))
    told = stage.ask("go", hooks=one("PreToolUse", saying({"systemMessage": "mind the step"})), **FREE)
    assert any("mind the step" in frame["content"] for frame in told.system("informational"))


# --- trouble ----------------------------------------------------------------------------------------


async def ill(input: Any, id: str | None, context: Any) -> Any:
    raise ValueError("the hook is ill")


def test_a_hook_that_raises(serve: Serve) -> None:
    """10: no opinion, and a line on stderr; with `on_failure="block"` it blocks."""
    stage = serve(*[Say.of(bash("touch a")), Say.of("Done.")] * 2)
    told = stage.ask("go", hooks=one("PreToolUse", ill, on_failure="block"), **FREE)
    assert told.outcomes[0].is_error
    assert not (stage.folder / "a").exists()
    told = stage.ask("go", hooks=one("PreToolUse", ill), **FREE)
    assert not told.outcomes[0].is_error
    assert (stage.folder / "a").exists()
    assert "the hook is ill" in "\n".join(told.stderr)


@pytest.mark.timeout(60)
def test_a_hook_that_takes_too_long(serve: Serve) -> None:
    """10, 5: its request is withdrawn; the call is refused with an error result, and it goes on."""
    stage = serve(Say.of(bash("touch a")), Say.of("Done."))
    cancelled: list[bool] = []

    async def slow(input: Any, id: str | None, context: Any) -> Any:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    told = stage.ask("go", hooks=one("PreToolUse", slow, timeout=0.3), **FREE)
    assert cancelled == [True]
    assert told.outcomes[0].is_error
    assert (told.result.result, told.error) == ("Done.", None)
    assert not (stage.folder / "a").exists()


def test_one_that_is_not_waited_for(serve: Serve) -> None:
    """10: `async` answers let the call go on."""
    stage = serve(Say.of(bash("touch a")), Say.of("Done."))
    told = stage.ask("go", hooks=one("PreToolUse", saying({"async_": True, "asyncTimeout": 1_000})), **FREE)
    assert (told.result.result, (stage.folder / "a").exists()) == ("Done.", True)


def test_the_frame_of_a_call_comes_before_its_hooks(serve: Serve) -> None:
    """5.2, 7 rule 2: the request carries the callback's id and the call's; the call was shown before."""
    stage = serve(Say.of(bash("echo a")), Say.of("Done."))
    with stage.pipe("--permission-mode", "bypassPermissions") as pipe:
        pipe.initialize(hooks={"PreToolUse": [{"matcher": "Bash", "hookCallbackIds": ["mine"], "timeout": 30}]})
        pipe.send(prompt("go"))
        asked = pipe.asked("hook_callback")
        assert pipe.kinds.count("assistant") == 1
        request = asked["request"]
        assert (request["callback_id"], request["tool_use_id"]) == ("mine", "toolu_Bash")
        assert request["input"]["hook_event_name"] == "PreToolUse"
        assert pipe.control("get_context_usage")["subtype"] == "success"  # 7 rule 8: also while a hook is open
        pipe.reply(asked, {})
        assert pipe.result()["result"] == "Done."
        assert pipe.finish() == 0


def test_an_event_that_is_never_called_is_told(serve: Serve) -> None:
    stage = serve(Say.of("Done."))
    with stage.pipe() as pipe:
        matchers = [{"matcher": None, "hookCallbackIds": ["mine"]}]
        pipe.initialize(hooks={"PreToolUze": matchers, "SessionStart": matchers})
        pipe.send(prompt("go"))
        assert pipe.result()["result"] == "Done."
        assert pipe.finish() == 0
    said = pipe.stderr.decode()
    assert "hooks for 'PreToolUze' in the 'initialize' request never run: there is no such event. Did you" in said
    assert "hooks for 'SessionStart' in the 'initialize' request never run: define them in the settings" in said


# --- events of questions and of compaction ------------------------------------------------------------


@pytest.mark.parametrize("behavior", ["allow", "deny"])
def test_a_hook_answers_a_question(behavior: str, serve: Serve) -> None:
    """10: PermissionRequest runs beside the callback; the first answer wins."""
    stage = serve(Say.of(bash("touch a")), Say.of("Done."))
    heard: list[Any] = []

    async def never(
        name: str, input: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResultAllow | PermissionResultDeny:
        await asyncio.Event().wait()
        raise AssertionError

    decision = {"behavior": behavior} | ({"message": "no"} if behavior == "deny" else {})
    hook = saying(specific("PermissionRequest", decision=decision), heard)
    told = stage.ask("go", hooks=one("PermissionRequest", hook), can_use_tool=never)
    assert (heard[0]["tool_name"], heard[0]["tool_input"]["command"]) == ("Bash", "touch a")
    [suggested] = heard[0]["permission_suggestions"]  # 5.1
    assert (suggested["type"], suggested["behavior"]) == ("addRules", "allow")
    assert suggested["rules"] == [{"toolName": "Bash", "ruleContent": "touch a"}]
    assert (stage.folder / "a").exists() is (behavior == "allow")
    assert told.result.result == "Done."


@pytest.mark.covers("I-01", "I-11")
def test_before_compaction(serve: Serve) -> None:
    """10: PreCompact with `manual` and the instructions."""
    stage = serve(Say.of("A long story. " * 2_000), Say.of("Yes."), Say.of("A summary."))
    heard: list[Any] = []

    async def main(client: ClaudeSDKClient) -> None:
        for text in ("hello", "really?", "/compact keep the names"):
            assert not (await exchange(client, text)).result.is_error

    stage.talk(main, hooks=one("PreCompact", saying({}, heard)))
    assert [(each["trigger"], each["custom_instructions"]) for each in heard] == [("manual", "keep the names")]


# --- what a program sees of them --------------------------------------------------------------------

EVENTS = ("UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "Stop")


def test_their_events_for_those_who_ask(serve: Serve) -> None:
    """6.7: functions of the program and commands of the settings alike, each when it is asked and when it answered."""
    stage = serve(Say.of(bash("echo a", "good")), Say.of(bash("exit 3", "bad")), Say.of("Done."))
    hooks: Any = {event: [HookMatcher(hooks=[saying({"systemMessage": event})])] for event in EVENTS}
    command = {"hooks": [{"type": "command", "command": "echo '{\"suppressOutput\": true}'"}]}
    settings = json.dumps({"hooks": {event: [command] for event in EVENTS}})
    told = stage.ask("go", hooks=hooks, settings=settings, include_hook_events=True, **FREE)
    assert (told.error, told.result.result) == (None, "Done.")
    seen = told.of(HookEventMessage)
    by_id: dict[str, list[HookEventMessage]] = {}
    for one in seen:
        by_id.setdefault(one.data["hook_id"], []).append(one)
    assert [[one.subtype for one in pair] for pair in by_id.values()] == [["hook_started", "hook_response"]] * 12
    calls = ["UserPromptSubmit", "PreToolUse", "PostToolUse", "PreToolUse", "PostToolUseFailure", "Stop"]
    assert sorted(pair[1].hook_event_name for pair in by_id.values()) == sorted(calls * 2)
    answers = [pair[1].data for pair in by_id.values()]
    mine = [one for one in answers if one["exit_code"] is None]
    assert {one["output"] for one in mine} == {f'{{"systemMessage":"{event}"}}' for event in EVENTS}
    assert {one["stdout"] for one in answers if one not in mine} == {'{"suppressOutput": true}'}
    assert {one["outcome"] for one in answers} == {"success"}


def test_their_events_come_in_their_place(serve: Serve) -> None:
    """7 rule 2: behind the frame of the call; a function is asked after that; at once, and not with the next frame."""
    stage = serve(Say.of(bash("echo a")), Say.of("Done."))
    with stage.pipe("--permission-mode", "bypassPermissions", "--include-hook-events") as pipe:
        pipe.initialize(hooks={"PreToolUse": [{"matcher": "Bash", "hookCallbackIds": ["mine"], "timeout": 30}]})
        pipe.send(prompt("go"))
        asked = pipe.asked("hook_callback")
        assert pipe.kinds[-3:] == ["assistant", "system/hook_started", "control_request"]
        pipe.reply(asked, {})
        assert pipe.result()["result"] == "Done."
        answered = pipe.kinds.index("system/hook_response")
        assert answered < pipe.kinds.index("user")
        assert pipe.finish() == 0


def test_an_answer_is_told_of_at_once(serve: Serve) -> None:
    """Nothing else happens meanwhile: the model takes its time."""
    stage = serve(RawStream(end="hang"))
    with stage.pipe("--include-hook-events") as pipe:
        pipe.initialize(hooks={"UserPromptSubmit": [{"hookCallbackIds": ["mine"]}]})
        pipe.send(prompt("go"))
        pipe.reply(pipe.asked("hook_callback"), {})
        pipe.until("system/hook_response")
        stage.until(lambda: len(stage.requests) == 1)
        assert pipe.control("interrupt")["subtype"] == "success"
        assert pipe.result()["subtype"] == "error_during_execution"
        assert pipe.finish() == 1


def test_nothing_of_them_stands_behind_a_result(serve: Serve) -> None:
    """6.4: behind a result that is an error, a frame that the client does not expect would make it forget the error.
    What goes on is told of with a later turn; what is asked when the session ends, not at all."""
    stage = serve(choose=lambda _: Say.of("Fine."))
    go_on = stage.folder / "go-on"
    waits = f"echo '{{\"async\": true}}'; until test -e {go_on}; do sleep 0.01; done"
    entries: Any = {event: [{"hooks": [{"type": "command", "command": waits}]}] for event in ("Stop", "SessionEnd")}
    with stage.pipe("--include-hook-events", "--settings", json.dumps({"hooks": entries})) as pipe:
        pipe.initialize()
        pipe.turn("one")
        assert pipe.kinds.count("system/hook_started") == 1
        assert pipe.of("system/hook_response") == []
        go_on.touch()
        while not pipe.of("system/hook_response"):
            pipe.turn("and now?")
        assert pipe.finish() == 0
        behind = [after for before, after in pairwise(pipe.kinds) if before == "result"]
        assert set(behind) <= {"system/session_state_changed/idle", "system/init"}  # the latter, if we were quick
        assert pipe.kinds[-1] == behind[-1]
        assert pipe.of("system/hook_response")[0]["hook_name"] == "Stop"


def test_no_events_for_those_who_do_not_ask(serve: Serve) -> None:
    stage = serve(Say.of(bash("echo a")), Say.of("Done."))
    told = stage.ask("go", hooks=one("PreToolUse", saying({})), **FREE)
    assert told.of(HookEventMessage) == []
