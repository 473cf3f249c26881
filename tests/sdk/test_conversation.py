"""A client: one session, many turns, and what the program may do meanwhile."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from mcp.server import MCPServer

from mainspring.core.errors import UsageError
from mainspring.core.models import DEFAULT_MODEL
from mainspring.providers.scripted import Scripted, says
from mainspring.providers.scripted import call as scripted_call
from mainspring.sdk import (
    AgentDefinition,
    AssistantMessage,
    ClaudeSDKError,
    CLIConnectionError,
    Client,
    HookMatcher,
    Message,
    NotStartedError,
    Options,
    PermissionResultAllow,
    PermissionResultDeny,
    ProcessError,
    RateLimitEvent,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    ToolAnnotations,
    ToolPermissionContext,
    ToolProgressMessage,
    UserMessage,
    create_sdk_mcp_server,
    query,
)
from mainspring.sdk import tool as sdk_tool
from mainspring.sdk.options import KINDS
from mainspring.simulator.replies import RawStream, Refuse, ReplyStamp, Say, frame_event, stream_events
from mainspring.tools.custom import tool
from sdk.stage import Stage, call, outcomes, play, texts


async def response(client: Client) -> list[Message]:
    return [message async for message in client.receive_response()]


@pytest.mark.covers("L-07", "M-15")
def test_many_turns_in_one_session(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        async with Client(stage.options()) as client:
            await client.query("one")
            first = await response(client)
            await client.query("two")
            second = await response(client)
        assert (texts(first), texts(second)) == (["A."], ["B."])
        assert first[-1].session_id == second[-1].session_id  # type: ignore[union-attr]
        assert "one" in str(stage.server.requests[1].body)
        assert isinstance(first[0], SystemMessage)
        assert first[0].subtype == "init"

    play(main, tmp_path, Say.of("A."), Say.of("B."))


@pytest.mark.covers("E-15", "M-18")
@pytest.mark.parametrize("wanted", [True, False])
def test_pieces_only_for_who_wants_them(wanted: bool, tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        told = await stage.ask(include_partial_messages=wanted)
        assert any(isinstance(message, StreamEvent) for message in told) is wanted

    play(main, tmp_path, Say.of("Slowly, and in pieces."))


def test_it_goes_on_after_the_client_is_gone(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        first = await stage.ask("remember the milk")
        told = await stage.ask("what?", resume=first[-1].session_id)  # type: ignore[union-attr]
        assert told[-1].session_id == first[-1].session_id  # type: ignore[union-attr]
        assert "remember the milk" in str(stage.server.requests[1].body)

    play(main, tmp_path, Say.of("A."), Say.of("B."))


def test_connected_twice_or_not_at_all(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        client = Client(stage.options())
        with pytest.raises(CLIConnectionError, match="the client is not connected"):
            await client.query("go")
        await client.disconnect()  # it does no harm
        await client.connect()
        with pytest.raises(CLIConnectionError, match="already connected"):
            await client.connect()
        await client.disconnect()
        await client.disconnect()
        with pytest.raises(CLIConnectionError, match="the client is not connected"):
            await client.interrupt()
        await client.connect("hello")  # again, as another session
        assert texts(await response(client)) == ["Hi."]
        await client.disconnect()

    play(main, tmp_path, Say.of("Hi."))


def test_what_the_session_refuses_is_raised_and_it_goes_on(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        async with Client(stage.options()) as client:
            with pytest.raises(ClaudeSDKError, match="Invalid permission mode 'reckless'"):
                await client.set_permission_mode("reckless")  # type: ignore[arg-type]
            with pytest.raises(ClaudeSDKError, match="File checkpointing is not enabled"):
                await client.rewind_files("11111111-1111-1111-1111-111111111111")
            await client.query("go")
            assert texts(await response(client)) == ["Hi."]
            info = await client.get_server_info()
            assert info is not None
            assert "compact" in [command["name"] for command in info["commands"]]

    play(main, tmp_path, Say.of("Hi."))


# --- the program's own functions ---------------------------------------------------------------------


def test_permission_is_asked_of_the_program(tmp_path: Path) -> None:
    asked: list[tuple[str, dict[str, Any], str | None]] = []

    async def may(name: str, given: dict[str, Any], context: ToolPermissionContext) -> Any:
        asked.append((name, given, context.tool_use_id))
        if "no" in given["command"]:
            return PermissionResultDeny(message="not that one")
        return PermissionResultAllow(updated_input={"command": "echo other"})

    async def main(stage: Stage) -> None:
        yes, no = outcomes(await stage.ask(can_use_tool=may))
        assert (yes.content, no.is_error) == ("other", True)
        assert "not that one" in str(no.content)
        assert asked == [("Bash", {"command": "touch this"}, "toolu_a"), ("Bash", {"command": "touch no"}, "toolu_b")]

    play(
        main,
        tmp_path,
        Say.of(call("Bash", "a", command="touch this")),
        Say.of(call("Bash", "b", command="touch no")),
        Say.of("Done."),
    )


@pytest.mark.parametrize("wrong", ["raises", "returns nothing"])
def test_a_callback_that_fails_is_a_no(wrong: str, tmp_path: Path) -> None:
    async def may(name: str, given: dict[str, Any], context: ToolPermissionContext) -> Any:
        if wrong == "raises":
            raise ValueError("oh dear")

    async def main(stage: Stage) -> None:
        [no] = outcomes(await stage.ask(can_use_tool=may))
        assert no.is_error
        assert ("oh dear" if wrong == "raises" else "PermissionResultAllow") in str(no.content)
        assert not (stage.folder / "this").exists()

    play(main, tmp_path, Say.of(call("Bash", command="touch this")), Say.of("Done."))


def test_a_hook_says_no_and_another_that_fails_can_say_no_too(tmp_path: Path) -> None:
    async def no(input: Any, id: str | None, context: Any) -> Any:
        return {
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": "deny",
                "permissionDecisionReason": f"no {input['tool_input']['command']}",
            }
        }

    async def broken(input: Any, id: str | None, context: Any) -> Any:
        raise RuntimeError("broken")

    async def main(stage: Stage) -> None:
        for hook, words in ((no, "no touch this"), (broken, "broken")):
            hooks: Any = {"PreToolUse": [HookMatcher(matcher="Bash", hooks=[hook], on_failure="block")]}
            [result] = outcomes(await stage.ask(hooks=hooks, allowed_tools=["Bash"]))
            assert result.is_error
            assert words in str(result.content)
        assert not (stage.folder / "this").exists()

    said = (Say.of(call("Bash", command="touch this")), Say.of("Done."))
    play(main, tmp_path, *said, *said)


def test_continue_and_async_by_their_python_names(tmp_path: Path) -> None:
    async def stop(input: Any, id: str | None, context: Any) -> Any:
        return {"continue_": False, "stopReason": "enough"}

    async def main(stage: Stage) -> None:
        told = await stage.ask(hooks={"PreToolUse": [HookMatcher(hooks=[stop])]}, allowed_tools=["Bash"])
        assert len(stage.server.requests) == 1
        assert isinstance(told[-1], ResultMessage)

    play(main, tmp_path, Say.of(call("Bash", command="echo")), Say.of("Done."))


# --- our own: a provider and tools without a server -------------------------------------------------


@tool(read_only=True)
async def area(width: float, height: float) -> float:
    """The area of a rectangle."""
    return width * height


@pytest.mark.covers("M-01", "N-09")
def test_without_a_server_and_without_a_key(tmp_path: Path) -> None:
    """A scripted model and a typed function: the whole session, and nothing is asked of the network."""
    model = Scripted([says(scripted_call("area", width=2, height=3.5)), says("Seven.")])

    async def main() -> None:
        options = Options(provider=model, tools=[area], cwd=tmp_path, env={"MAINSPRING_HOME": str(tmp_path / "home")})
        told = [message async for message in query(prompt="How large?", options=options)]
        assert (outcomes(told)[0].content, texts(told)) == ("7.0", ["Seven."])
        assert told[0].data["tools"] == ["area"]  # type: ignore[union-attr]

    asyncio.run(main())


def test_a_denied_tool_stays_denied_even_if_the_program_brings_it(tmp_path: Path) -> None:
    model = Scripted([says(scripted_call("area", width=2, height=3.5)), says("Pity.")])

    async def main() -> None:
        options = Options(
            provider=model,
            tools=["Read", area],
            disallowed_tools=["area"],
            cwd=tmp_path,
            env={"MAINSPRING_HOME": str(tmp_path / "home")},
        )
        told = [message async for message in query(prompt="How large?", options=options)]
        assert outcomes(told)[0].is_error
        assert told[0].data["tools"] == ["Read"]  # type: ignore[union-attr]

    asyncio.run(main())


# --- what is wrong with the options ------------------------------------------------------------------

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"permission_mode": "yolo"}, "'permission_mode' must be one of"),
    ({"effort": "huge"}, "'effort' must be one of"),
    ({"max_turns": -1}, "'max_turns' must be a whole number of at least 0"),
    ({"max_budget_usd": -1.0}, "'max_budget_usd' must be an amount in dollars such as 0.50, not '-1.0'"),
    ({"max_budget_usd": float("nan")}, "'max_budget_usd' must be an amount in dollars such as 0.50, not 'nan'"),
    ({"max_budget_usd": 1e12}, "'max_budget_usd' must be an amount in dollars such as 0.50, not '1000000000000.0'"),
    ({"task_budget": {"total": 0}}, "'task_budget' must be a whole number of at least 1, not '0'"),
    ({"task_budget": {"tokens": 5}}, "'task_budget' needs 'total', a whole number, not None"),
    ({"session_id": "mine"}, "'session_id=mine': Must be a valid UUID, such as "),
    ({"tools": ["Raed"]}, "'tools=Raed': there is no such tool"),
    ({"thinking": {"type": "hard"}}, "'thinking' must have the type"),
    ({"system_prompt": {"type": "poem"}}, "'system_prompt' must be a string"),
    ({"output_format": {"type": "xml"}}, "'output_format' is"),
    ({"settings": "{"}, "'settings' cannot be read in line 1, column 2: "),
    ({"cwd": "/nowhere/at/all"}, "the working directory '/nowhere/at/all' does not exist"),
    ({"mcp_servers": "{"}, "'mcp_servers' cannot be read in line 1, column 2: "),
    ({"extra_args": {"jump": None}}, "'extra_args' has 'jump'"),
    ({"skills": "some"}, "'skills' must be a list of names"),
    ({"can_use_tool": len, "permission_prompt_tool_name": "mcp__a__b"}, "cannot be combined"),
    ({"plugins": [{"type": "market", "path": "."}]}, "use {'type': 'local', 'path': FOLDER}"),
    ({"plugins": [{"type": "local", "path": "no-such"}]}, "'plugins': there is no folder 'no-such'"),
]


@pytest.mark.covers("M-11")
@pytest.mark.parametrize(("chosen", "words"), WRONG)
def test_bad_options_are_named_before_anybody_pays(chosen: dict[str, Any], words: str, tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        tasks = asyncio.all_tasks()
        with pytest.raises(UsageError) as raised:
            await stage.ask(**chosen)
        assert words in str(raised.value)
        assert stage.server.requests == []
        assert asyncio.all_tasks() == tasks

    play(main, tmp_path)


def test_agents_are_refused_where_nothing_may_come_from_elsewhere(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        stage.home.mkdir()
        (stage.home / "settings.json").write_text('{"disableSideloadFlags": true}')
        with pytest.raises(UsageError, match="'agents' is disabled by 'disableSideloadFlags': remove it"):
            await stage.ask(agents={"a": AgentDefinition("d", "p")}, setting_sources=["user"])
        assert stage.server.requests == []

    play(main, tmp_path)


def test_no_key_is_told_with_the_way_out(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        with pytest.raises(UsageError, match="no API key found"):
            await stage.ask(env={"ANTHROPIC_API_KEY": "", "ANTHROPIC_BASE_URL": ""})

    play(main, tmp_path)


def test_a_prompt_that_is_none(tmp_path: Path) -> None:
    async def prompts() -> Any:
        yield {"type": "user", "message": {"role": "assistant", "content": "hm"}}

    async def main(stage: Stage) -> None:
        with pytest.raises(UsageError, match="the role must be 'user'"):
            async for _ in query(prompt=prompts(), options=stage.options()):
                pass

    play(main, tmp_path)


def test_prompts_that_break_off_are_the_programs_own_error(tmp_path: Path) -> None:
    async def prompts() -> Any:
        yield {"message": {"role": "user", "content": "hello"}}
        raise KeyError("mine")

    async def main(stage: Stage) -> None:
        told: list[Message] = []
        with pytest.raises(KeyError, match="mine"):
            async for message in query(prompt=prompts(), options=stage.options()):
                told.append(message)
        assert texts(told) == ["Hi."]  # what was said before it is done

    play(main, tmp_path, Say.of("Hi."))


def test_one_session_cannot_be_open_twice(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        async with Client(stage.options()) as client:
            await client.query("go")
            told = await response(client)
            with pytest.raises(ProcessError, match="is open in this process"):
                await stage.ask(resume=told[-1].session_id)  # type: ignore[union-attr]

    play(main, tmp_path, Say.of("Hi."))


# --- more than the five ------------------------------------------------------------------------------


@pytest.mark.covers("M-17", "M-03")
def test_how_a_call_gets_on_and_why_it_waits(tmp_path: Path) -> None:
    """What the other SDK tells, and the Python one did not: progress of tools, limits, retries, hooks, tasks."""

    async def hook(input: Any, id: str | None, context: Any) -> Any:
        return {"systemMessage": "a word from a hook"}

    async def main(stage: Stage) -> None:
        told = await stage.ask(
            allowed_tools=["Bash"],
            include_partial_messages=True,
            include_hook_events=True,
            hooks={"PreToolUse": [HookMatcher(hooks=[hook])]},
        )
        [limit] = [message for message in told if isinstance(message, RateLimitEvent)]
        assert limit.rate_limit_info.status == "rejected"
        said = [message for message in told if isinstance(message, ToolProgressMessage)]
        assert said
        assert (said[0].tool_name, said[0].tool_use_id) == ("Bash", "toolu_Bash")
        assert "one" in said[-1].text
        subtypes = [message.subtype for message in told if isinstance(message, SystemMessage)]
        assert {"init", "api_retry", "informational", "hook_started", "hook_response"} <= {*subtypes}

    slow = call("Bash", command="echo one; sleep 1.5; echo two")
    wait = Refuse(429, "rate_limit_error", "slow down", headers={"retry-after": "1"})
    play(main, tmp_path, wait, Say.of(slow), Say.of("Done."))


@pytest.mark.covers("M-03", "M-05")
def test_a_summary_is_told_and_words_for_ourselves_are_answered(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        async with Client(stage.options()) as client:
            for prompt in ("hello", "really?"):
                await client.query(prompt)
                await response(client)
            await client.query("/compact")
            told = await response(client)
            assert "compact_boundary" in [message.subtype for message in told if isinstance(message, SystemMessage)]
            await client.query("/context")
            assert "tokens" in str((await response(client))[-1].result)  # type: ignore[union-attr]

    play(main, tmp_path, Say.of("The first answer. " * 2_000), Say.of("Yes."), Say.of("A summary."))


@pytest.mark.covers("M-12", "K-09")
def test_the_model_and_its_effort(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        await stage.ask()
        await stage.ask(model="claude-opus-5-5", effort="low")
        first, second = [request.body for request in stage.server.requests]
        assert (first["model"], second["model"]) == (DEFAULT_MODEL.name, "claude-opus-5-5")
        assert (first.get("output_config", {}).get("effort"), second["output_config"]["effort"]) == (None, "low")

    play(main, tmp_path, Say.of("A."), Say.of("B."))


@pytest.mark.covers("M-13")
@pytest.mark.parametrize("sources", [["project"], []])
def test_what_a_project_brings(sources: list[Any], tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        (stage.folder / "CLAUDE.md").write_text("The word is swordfish.")
        skill = stage.folder / ".claude/skills/deploy/SKILL.md"
        skill.parent.mkdir(parents=True)
        skill.write_text("---\ndescription: Deploys it.\n---\nDo it.")
        told = await stage.ask(setting_sources=sources)
        assert ("swordfish" in str(stage.server.requests[0].body)) is bool(sources)
        assert ("deploy" in told[0].data["skills"]) is bool(sources)  # type: ignore[union-attr]

    play(main, tmp_path, Say.of("A."))


@pytest.mark.covers("N-17", "N-18", "N-06", "M-11")
def test_an_agent_of_the_programs(tmp_path: Path) -> None:
    """A conversation of its own, tools of its own; only its last words come back."""

    async def main(stage: Stage) -> None:
        kind = AgentDefinition(description="Looks.", prompt="You look.", tools=["Read"], effort="low")
        told = await stage.ask(agents={"looker": kind}, forward_subagent_text=True)
        own = stage.server.requests[1].body
        assert [tool["name"] for tool in own["tools"]] == ["Read"]
        assert "You look." in str(own["system"])
        assert "go" not in [str(message["content"]) for message in own["messages"]]
        assert outcomes(told)[-1].content == "Seen."
        inner = [m for m in told if isinstance(m, AssistantMessage) and m.parent_tool_use_id == "toolu_Task"]
        assert texts(list(inner)) == ["Seen."]

    sent = call("Task", description="look", prompt="Look there.", subagent_type="looker")
    play(main, tmp_path, Say.of(sent), Say.of("Seen."), Say.of("Done."))


# --- servers of the program --------------------------------------------------------------------------


class Sum(TypedDict):
    a: Annotated[int, "the first one"]
    b: int


@sdk_tool("add", "Adds.", {"a": float, "b": float})
async def add(given: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": str(given["a"] + given["b"])}]}


@sdk_tool("add_all", "Adds, too.", Sum, ToolAnnotations(readOnlyHint=True))
def add_all(given: Any) -> Any:  # not async: it runs in a thread
    return f"{given['a'] + given['b']} in {threading.current_thread() is threading.main_thread()}"


@sdk_tool("fail", "Fails.", {})
async def fail(given: dict[str, Any]) -> dict[str, Any]:
    raise ValueError("not today")


@sdk_tool("odd", "Is odd.", {})
async def odd(given: dict[str, Any]) -> Any:
    return 42


@pytest.mark.covers("N-09")
@pytest.mark.parametrize(
    ("name", "given", "said", "failed"),
    [
        ("add", {"a": 1, "b": 2.5}, "3.5", False),
        ("add_all", {"a": 1, "b": 2}, "3 in False", False),
        ("add", {"a": "one"}, "is invalid", True),
        ("fail", {}, "ValueError: not today", True),
        ("odd", {}, "did not return a result", True),
    ],
)
def test_tools_of_a_server_within_the_program(
    name: str, given: dict[str, Any], said: str, failed: bool, tmp_path: Path
) -> None:
    async def main(stage: Stage) -> None:
        server = create_sdk_mcp_server("sums", tools=[add, add_all, fail, odd])
        told = await stage.ask(mcp_servers={"sums": server}, allowed_tools=["mcp__sums"])
        [result] = outcomes(told)
        assert said in str(result.content)
        assert bool(result.is_error) is failed

    play(main, tmp_path, Say.of(call(f"mcp__sums__{name}", **given)), Say.of("Done."))


def test_a_schema_that_is_none_is_told_where_it_stands() -> None:
    with pytest.raises(UsageError, match="the input of the tool 'bad' cannot be described"):
        sdk_tool("bad", "Bad.", {"a": object()})
    with pytest.raises(UsageError, match="the input of the tool 'bad' is not an object"):
        sdk_tool("bad", "Bad.", int)


def test_a_server_of_the_official_package(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        official = MCPServer("theirs")

        @official.tool()
        def shout(word: str) -> str:
            """Shouts."""
            return word.upper()

        servers = {"theirs": {"type": "sdk", "name": "theirs", "instance": official}}
        told = await stage.ask(mcp_servers=servers, allowed_tools=["mcp__theirs"])
        assert "HELLO" in str(outcomes(told)[0].content)
        assert told[0].data["mcp_servers"][0]["status"] == "connected"  # type: ignore[union-attr]

    play(main, tmp_path, Say.of(call("mcp__theirs__shout", word="hello")), Say.of("Done."))


def print_it(text: str) -> None:
    """Prints."""
    raise AssertionError(text)


# --- guards that would be off ------------------------------------------------------------------------

OFF: list[tuple[dict[str, Any], str]] = [
    ({"hooks": {"PreToolUze": []}}, "'hooks' has 'PreToolUze'"),
    ({"hooks": {"SessionStart": []}}, "'hooks' has 'SessionStart'"),
    ({"hooks": {"PreToolUse": [print]}}, "use a list of HookMatcher"),
    ({"hooks": {"PreToolUse": [HookMatcher(hooks=[5])]}}, "which is not a function"),  # type: ignore[list-item]
    ({"disallowed_tools": "Bash"}, "'disallowed_tools' must be a list of strings, not 'Bash'"),
    ({"allowed_tools": None, "tools": "Read"}, "'tools' must be a list of names and tools"),
    ({"can_use_tool": 5}, "'can_use_tool' must be a function"),
    ({"max_turns": "5"}, "'max_turns' must be a whole number, not '5'"),
    ({"include_partial_messages": "no"}, "'include_partial_messages' must be True or False"),
    ({"env": {"A": 1}}, "'env' must be a dict of strings"),
    ({"provider": "openai"}, "'provider' must be a provider"),
    ({"agents": {"a": {"description": "d"}}}, "'agents' must be a dict of AgentDefinition"),
    ({"session_store": object()}, "'session_store' must be a session store"),
    ({"mcp_servers": {"a": "b"}}, "use a dict"),
    ({"tools": ["Read", "Read"]}, "'tools' has 'Read' twice"),
    ({"tools": [add]}, "pass it to 'create_sdk_mcp_server'"),
    ({"add_dirs": ["/nowhere/at/all"]}, "'add_dirs=/nowhere/at/all': there is no such directory"),
    ({"fork_session": True}, "'fork_session' needs 'resume=ID' or 'continue_conversation'"),
    ({"thinking": {"type": "enabled"}}, "needs 'budget_tokens'"),
    ({"system_prompt": {"type": "file"}}, "file (with 'path')"),
    ({"mcp_servers": {"a": {"type": "sdk", "name": "a"}}}, "no 'instance' for 'a'"),
    ({"extra_args": {"max-budget-usd": "0.50"}}, "'extra_args' has 'max-budget-usd'"),
    ({"hooks": {"PreToolUse": [HookMatcher(on_failure="deny")]}}, "'on_failure' at 'PreToolUse'"),  # type: ignore[arg-type]
    ({"tools": [tool(name="Bash")(print_it)]}, "that name is taken"),
    ({"agents": {"a b": AgentDefinition("d", "p")}}, "'agents' is not valid: the agent 'a b': "),
    ({"permission_prompt_tool_name": "foo"}, "'permission_prompt_tool_name=foo' must be the full name of an MCP"),
]


@pytest.mark.parametrize(("chosen", "words"), OFF)
def test_what_would_be_silently_off_is_refused(chosen: dict[str, Any], words: str, tmp_path: Path) -> None:
    """As one class, whichever of the known ones a program catches."""

    async def main(stage: Stage) -> None:
        with pytest.raises(NotStartedError) as raised:
            await stage.ask(**chosen)
        assert words in str(raised.value)
        assert isinstance(raised.value, UsageError)
        assert isinstance(raised.value, ClaudeSDKError)
        assert stage.server.requests == []

    play(main, tmp_path)


def test_a_deny_that_matches_nothing_is_told(tmp_path: Path) -> None:
    said: list[str] = []

    async def main(stage: Stage) -> None:
        await stage.ask(disallowed_tools=["Shell"], stderr=said.append)
        assert said == ["'disallowed_tools=Shell': there is no tool 'Shell'"]

    play(main, tmp_path, Say.of("Hi."))


@pytest.mark.parametrize("where", ["guard", "hook", "tool"])
def test_what_a_callback_waited_for_was_cancelled(where: str, tmp_path: Path) -> None:
    """As when a browser goes away. It is a failure like any other, and nobody waits for ever."""

    async def gone(*_: Any) -> Any:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    chosen: dict[str, dict[str, Any]] = {
        "guard": {"can_use_tool": gone},
        "hook": {"hooks": {"PreToolUse": [HookMatcher(hooks=[gone], on_failure="block")]}, "allowed_tools": ["Bash"]},
        "tool": {
            "mcp_servers": {"s": create_sdk_mcp_server("s", tools=[sdk_tool("gone", "Goes.", {})(gone)])},
            "allowed_tools": ["mcp__s"],
        },
    }

    async def main(stage: Stage) -> None:
        [result] = outcomes(await stage.ask(**chosen[where]))
        assert result.is_error
        assert "CancelledError" in str(result.content)

    name = "mcp__s__gone" if where == "tool" else "Bash"
    play(main, tmp_path, Say.of(call(name, **({} if where == "tool" else {"command": "touch x"}))), Say.of("Done."))


def test_plain_functions_will_do_and_an_odd_input_is_a_no(tmp_path: Path) -> None:
    def may(name: str, given: dict[str, Any], context: ToolPermissionContext) -> Any:
        return PermissionResultAllow(updated_input="echo safe" if "odd" in given["command"] else None)  # type: ignore[arg-type]

    def look(input: Any, id: str | None, context: Any) -> Any:
        return {"systemMessage": "seen"}

    async def main(stage: Stage) -> None:
        hooks: Any = {"PreToolUse": [HookMatcher(hooks=[look])]}
        odd, plain = outcomes(await stage.ask(can_use_tool=may, hooks=hooks))
        assert (odd.is_error, plain.is_error) == (True, False)
        assert not (stage.folder / "odd").exists()
        assert (stage.folder / "plain").exists()

    calls = [Say.of(call("Bash", name, command=f"touch {name}")) for name in ("odd", "plain")]
    play(main, tmp_path, *calls, Say.of("Done."))


def test_bugs_of_the_program_are_in_its_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def my_guard(name: str, given: dict[str, Any], context: ToolPermissionContext) -> Any:
        raise KeyError("mine")

    async def main(stage: Stage) -> None:
        await stage.ask(can_use_tool=my_guard)

    play(main, tmp_path, Say.of(call("Bash", command="touch x")), Say.of("Done."))
    [record] = [record for record in caplog.records if "my_guard" in record.getMessage()]
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], KeyError)


@pytest.mark.parametrize("prompt", [None, 5, b"hello"])
def test_a_prompt_of_a_wrong_type_is_refused_and_the_session_lives(prompt: Any, tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        async with Client(stage.options()) as client:
            with pytest.raises(UsageError, match="'prompt' must be a string"):
                await client.query(prompt)
            await client.query("hello")
            assert texts(await response(client)) == ["Hi."]
        with pytest.raises(UsageError, match="'prompt' must be a string"):
            async for _ in query(prompt=prompt, options=stage.options()):
                pass
        assert len(stage.server.requests) == 1

    play(main, tmp_path, Say.of("Hi."))


def test_two_readers(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        async with Client(stage.options()) as client:
            first = asyncio.ensure_future(response(client))
            await asyncio.sleep(0)
            with pytest.raises(UsageError, match="another task is already reading"):
                await response(client)
            await client.query("hello")
            assert texts(await first) == ["Hi."]

    play(main, tmp_path, Say.of("Hi."))


def test_another_event_loop(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        async with Client(stage.options()) as client:

            def elsewhere() -> None:
                asyncio.run(client.query("hello"))

            with pytest.raises(CLIConnectionError, match="another event loop"):
                await asyncio.to_thread(elsewhere)

    play(main, tmp_path)


def test_a_session_that_failed_to_begin_can_be_taken_up(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        first = await stage.ask()
        again = first[-1].session_id  # type: ignore[union-attr]
        with pytest.raises(NotStartedError):
            await stage.ask(resume=again, agents={"a b": AgentDefinition("d", "p")})
        assert texts(await stage.ask(resume=again)) == ["B."]

    play(main, tmp_path, Say.of("A."), Say.of("B."))


@pytest.mark.parametrize("steps", range(4))
def test_an_interrupt_behind_a_result_is_for_that_turn(steps: int, tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        async with Client(stage.options()) as client:
            await client.query("one")
            async for message in client.receive_response():
                if isinstance(message, ResultMessage):
                    for _ in range(steps):
                        await asyncio.sleep(0)
                    await client.interrupt()
            await client.query("two")
            assert texts(await response(client)) == ["B."]

    play(main, tmp_path, Say.of("A."), Say.of("B."))


def test_who_reads_may_stop_a_task(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        async with Client(stage.options(allowed_tools=["Bash"], include_partial_messages=True)) as client:
            await client.query("go")
            async for message in client.receive_response():
                if isinstance(message, StreamEvent):
                    await client.stop_task("nobody")

    play(main, tmp_path, Say.of("word " * 400, call("Bash", command="echo")), Say.of("Done."))


def test_a_clear_that_cannot_be_leaves_the_session(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        async with Client(stage.options()) as client:
            await client.query("one")
            await response(client)
            stage.folder.rename(stage.folder.with_name("moved"))
            await client.query("/clear")
            assert "Cannot start a new conversation" in str((await response(client))[-1].result)  # type: ignore[union-attr]
            stage.folder.with_name("moved").rename(stage.folder)
            await client.query("two")
            assert texts(await response(client)) == ["B."]
        assert "one" in str(stage.server.requests[1].body)

    play(main, tmp_path, Say.of("A."), Say.of("B."))


def test_no_schema_is_run_as_python(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    sdk_tool("odd", "Odd.", {"type": "object", "title": f"open({str(mark)!r}, 'w')"})
    with pytest.raises(UsageError, match="strings for types"):
        sdk_tool("odd", "Odd.", {"title": f"open({str(mark)!r}, 'w')"})
    assert not mark.exists()


def test_a_program_that_cannot_hear_goes_on(tmp_path: Path) -> None:
    def deaf(words: str) -> None:
        raise ValueError(words)

    async def main(stage: Stage) -> None:
        assert texts(await stage.ask(disallowed_tools=["Shell"], stderr=deaf)) == ["Hi."]

    play(main, tmp_path, Say.of("Hi."))


def test_the_type_of_every_option_is_checked() -> None:
    """The others do nothing within one process, have a check of their own (plugins), or may be anything (deps)."""
    unchecked = {"plugins", "cli_path", "max_buffer_size", "debug_stderr", "user", "client_app", "deps"}
    assert {option.name for option in fields(Options)} == KINDS.keys() | unchecked


# --- calls while a reply streams ----------------------------------------------------------------------------------

CALL_FIRST = Say.of(call("mcp__s__look"), "And so on. " * 50, pace_ms=10)


@sdk_tool("look", "Looks.", {}, annotations=ToolAnnotations(readOnlyHint=True))
async def look(_: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": "seen"}]}


def with_look() -> dict[str, Any]:
    return {"mcp_servers": {"s": create_sdk_mcp_server("s", tools=[look])}, "allowed_tools": ["mcp__s"]}


@pytest.mark.covers("O-10", "F-01")
def test_a_safe_call_starts_while_the_reply_streams(tmp_path: Path) -> None:
    """This reply does not end, and the result of its call comes all the same."""
    events = list(stream_events(CALL_FIRST, ReplyStamp("claude-sonnet-5-5", "msg_1", str)))
    calls = [event["type"] for event in events].index("content_block_stop") + 1
    endless = RawStream(tuple([frame_event(event) for event in events[:calls]]), end="hang")

    async def main(stage: Stage) -> None:
        async with Client(stage.options(**with_look())) as client:
            await client.query("go")
            told: list[Message] = []
            async for message in client.receive_response():
                told.append(message)
                if isinstance(message, UserMessage):
                    await client.interrupt()
        [outcome] = outcomes(told)
        assert (outcome.content, outcome.is_error) == ("seen", False)
        assert isinstance(told[-1], ResultMessage)
        assert told[-1].terminal_reason == "aborted_streaming"

    play(main, tmp_path, endless)


@pytest.mark.covers("O-10", "F-02")
def test_calls_wait_for_the_end_of_the_reply_if_streaming_tools_are_off(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        settings = '{"features": {"streamingTools": false}}'
        told = await stage.ask(include_partial_messages=True, settings=settings, **with_look())
        kinds = [message.event["type"] if isinstance(message, StreamEvent) else type(message) for message in told]
        assert kinds.index("message_stop") < kinds.index(UserMessage)

    play(main, tmp_path, CALL_FIRST, Say.of("Done."))
