"""What a programmer reads after a mistake: one test for each message, the good ones included.

The messages name the option or the value, and say what to do, in words of Python and never in those of the command
line.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import warnings
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import claude_agent_sdk.types
import pytest

from mainspring import open_run, tool
from mainspring.core.errors import UsageError
from mainspring.sdk import (
    CanUseToolShadowedWarning,
    ClaudeSDKError,
    CLIConnectionError,
    Client,
    ContextUsageResponse,
    HookMatcher,
    McpStatusResponse,
    NotStartedError,
    Options,
    PermissionResultAllow,
    ProcessError,
    ResultMessage,
    create_sdk_mcp_server,
    query,
)
from mainspring.sdk import tool as sdk_tool
from mainspring.simulator.replies import Say
from mainspring.testing import Scripted, says
from sdk.stage import Stage, call, outcomes, play

FLAG = re.compile(r"(?<![\w-])--[a-z]")  # as the command line has them


async def drain(messages: AsyncIterator[Any]) -> list[Any]:
    return [message async for message in messages]


def result_of(messages: list[Any]) -> str | None:
    last = messages[-1]
    assert isinstance(last, ResultMessage)
    return last.result


def refused(tmp_path: Path, *replies: Any, **chosen: Any) -> str:
    """The message of the error that these options end with."""
    found: list[str] = []

    async def main(stage: Stage) -> None:
        with pytest.raises((ProcessError, TypeError)) as error:
            await stage.ask("go", **chosen)
        found.append(str(error.value))

    play(main, tmp_path, *replies)
    assert not FLAG.search(found[0]), found[0]
    return found[0]


# --- models and keys --------------------------------------------------------------------------------


def test_no_key(tmp_path: Path) -> None:
    said = refused(tmp_path, env={"ANTHROPIC_API_KEY": "", "ANTHROPIC_BASE_URL": ""})
    assert "ANTHROPIC_API_KEY" in said
    assert "OPENAI_API_KEY" in said


def test_a_model_with_a_typing_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main(stage: Stage) -> None:
        await stage.ask("go", model="claude-sonet-9")

    play(main, tmp_path, Say.of("Hi."))
    assert any("Did you mean 'claude-sonnet-5'?" in record.getMessage() for record in caplog.records)


def test_a_provider_that_does_not_exist(tmp_path: Path) -> None:
    said = refused(tmp_path, model="foo/bar")
    assert "'foo/bar'" in said
    assert "'foo'" in said
    assert "anthropic, openai" in said


def test_no_server_there(tmp_path: Path) -> None:
    env = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:1", "CLAUDE_CODE_MAX_RETRIES": "0"}
    said = refused(tmp_path, env=env)
    assert "127.0.0.1:1" in said
    assert "refused" in said
    assert "ANTHROPIC_BASE_URL" in said


# --- options ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ({"max_turns": "3"}, "'max_turns' must be a whole number, not '3'"),
        ({"allowed_tools": "Bash"}, "'allowed_tools' must be a list of strings, not 'Bash'"),
        ({"agents": {"a": {"prompt": "x"}}}, "'agents' must be a dict of AgentDefinition, not {'a'"),
        ({"hooks": {"PreToolUs": []}}, "Did you mean 'PreToolUse'?"),
    ],
)
def test_options_of_a_wrong_type(chosen: dict[str, Any], words: str, tmp_path: Path) -> None:
    assert words in refused(tmp_path, **chosen)


def test_an_option_that_does_not_exist() -> None:
    unknown: dict[str, Any] = {"max_turn": 3}
    with pytest.raises(TypeError, match=r"^unknown option 'max_turn'. Did you mean 'max_turns'\?$"):
        Options(**unknown)
    with pytest.raises(TypeError, match=r"^unknown option 'zzz'$"):
        Options(**dict[str, Any](zzz=3))
    assert Options(max_turns=3).max_turns == 3


def test_a_fallback_that_is_the_main_model(tmp_path: Path) -> None:
    said = refused(tmp_path, model="claude-opus-5", fallback_model="claude-opus-5")
    assert "'fallback_model=claude-opus-5' is the main model" in said


def test_a_transport() -> None:
    other: Any = object()
    with pytest.raises(UsageError, match="'transport' is not supported, because sessions run in this process"):
        Client(transport=other)


def test_manual_is_a_permission_mode(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        assert result_of(await stage.ask("go", permission_mode="manual")) == "Hi."

    play(main, tmp_path, Say.of("Hi."))


# --- prompts ----------------------------------------------------------------------------------------


def test_a_prompt_by_position(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        assert result_of(await drain(query("hello", options=stage.options()))) == "Hi."

    play(main, tmp_path, Say.of("Hi."))


def test_a_prompt_stream_of_strings(tmp_path: Path) -> None:
    async def prompts() -> AsyncIterator[Any]:
        yield "hello"

    async def main(stage: Stage) -> None:
        with pytest.raises(UsageError, match=r"the prompt stream yielded 'hello': yield dicts, as in \{'type': 'user'"):
            await drain(query(prompt=prompts(), options=stage.options()))

    play(main, tmp_path)


def test_a_prompt_that_is_a_number(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        wrong: Any = 5
        with pytest.raises(
            Exception, match="'prompt' must be a string, or messages to iterate with 'async for', not 5"
        ):
            await drain(query(wrong, options=stage.options()))

    play(main, tmp_path)


# --- tools ------------------------------------------------------------------------------------------


def no_hint(city):  # type: ignore[no-untyped-def]  # pyright: ignore[reportUnknownParameterType, reportMissingParameterType]
    """The weather."""


UNNAMED: Callable[[str], str] = lambda city: city  # noqa: E731


def any_number(*cities: str) -> str:
    """The weather."""
    return ""


def in_pieces(city: str):  # type: ignore[no-untyped-def]
    """The weather."""
    yield city


UNFIT: dict[str, Any] = {"'city'": no_hint, "'cities'": any_number, "'in_pieces'": in_pieces, "lambda": UNNAMED}


@pytest.mark.parametrize("words", UNFIT)
def test_functions_that_cannot_be_tools(words: str) -> None:
    with pytest.raises(UsageError, match=words):
        tool(UNFIT[words])


@tool
def breaks(x: int) -> int:
    """Fails."""
    raise ValueError("kaput")


@sdk_tool("fails", "Fails.", {"x": int})
async def fails(given: dict[str, Any]) -> dict[str, Any]:
    raise ValueError("kaput")


async def failing_hook(*_: Any) -> Any:
    raise ValueError("kaput")


async def failing_callback(*_: Any) -> PermissionResultAllow:
    raise ValueError("kaput")


@pytest.mark.parametrize(
    ("chosen", "reply"),
    [
        ({"tools": [breaks], "allowed_tools": ["breaks"]}, call("breaks", x=1)),
        (
            {
                "mcp_servers": {"own": create_sdk_mcp_server("own", tools=[fails])},
                "allowed_tools": ["mcp__own__fails"],
            },
            call("mcp__own__fails", x=1),
        ),
        ({"hooks": {"PreToolUse": [HookMatcher(hooks=[failing_hook])]}}, call("Read", file_path="x")),
        ({"can_use_tool": failing_callback}, call("Bash", command="touch x")),
    ],
    ids=["mainspring.tool", "sdk.tool", "a hook", "can_use_tool"],
)
def test_an_exception_in_a_function_of_the_program(
    chosen: dict[str, Any], reply: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has it with its traceback."""

    async def main(stage: Stage) -> None:
        assert outcomes(await stage.ask("go", **chosen))

    with caplog.at_level(logging.ERROR):
        play(main, tmp_path, Say.of(reply), Say.of("Done."))
    logged = [record for record in caplog.records if record.name.startswith("mainspring") and record.exc_info]
    assert logged
    assert "kaput" in str(logged[0].exc_info)


# --- clients, runs, sessions ------------------------------------------------------------------------


def test_a_client_that_is_not_connected() -> None:
    with pytest.raises(
        CLIConnectionError, match=r"use 'await client.connect\(\)', or 'async with Client\(...\) as client'"
    ):
        asyncio.run(Client().query("hello"))


def test_a_client_of_another_event_loop(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        async with Client(stage.options()) as client:

            def elsewhere() -> None:
                with pytest.raises(CLIConnectionError, match="was connected in another event loop: use it there"):
                    asyncio.run(client.query("hello"))

            await asyncio.to_thread(elsewhere)

    play(main, tmp_path)


def test_a_run_that_is_read_too_early_or_twice() -> None:
    async def main() -> None:
        run = open_run("go", provider=Scripted([says("Hi.")]))
        with pytest.raises(
            UsageError, match=r"a run is iterated inside its block: 'async with session.run\(...\) as run'"
        ):
            await anext(run)
        async with run:
            with pytest.raises(UsageError, match="the run has no result: iterate it to its end first"):
                _ = run.result
            assert [update async for update in run]
        with pytest.raises(UsageError, match="a run is entered once: start another one"):
            async with run:
                pass

    asyncio.run(main())


def test_two_readers_of_one_session(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        async with Client(stage.options()) as client:
            first = asyncio.ensure_future(drain(client.receive_messages()))
            await asyncio.sleep(0)
            with pytest.raises(UsageError, match="another task is already reading this session: read in one task"):
                await drain(client.receive_messages())
            first.cancel()

    play(main, tmp_path)


def test_one_session_in_two_clients(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        async with Client(stage.options()) as client:
            await client.query("one")
            [*_, last] = await drain(client.receive_response())
            assert isinstance(last, ResultMessage)
            with pytest.raises(ProcessError) as error:
                await stage.ask("two", resume=last.session_id)
            assert "close it there, or fork it with 'fork_session'" in str(error.value)

    play(main, tmp_path, Say.of("One."))


def test_a_mode_that_was_not_chosen_at_the_start(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        async with Client(stage.options()) as client:
            with pytest.raises(ClaudeSDKError, match=r"was not launched with permission_mode=bypassPermissions$"):
                await client.set_permission_mode("bypassPermissions")

    play(main, tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_home_that_cannot_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main(stage: Stage) -> None:
        stage.home.mkdir(mode=0o500)
        assert result_of(await stage.ask("go")) == "Hi."

    play(main, tmp_path, Say.of("Hi."))
    assert len([record for record in caplog.records if str(tmp_path) in record.getMessage()]) == 1


# --- event loops and warnings -----------------------------------------------------------------------


def test_another_kind_of_event_loop() -> None:
    """As trio would drive it: no asyncio below."""
    for coroutine in (drain(query(prompt="hello")), Client().connect()):
        with pytest.raises(NotStartedError, match=r"mainspring needs asyncio: .* trio is not supported"):
            coroutine.send(None)


def test_a_warning_points_at_the_line_of_the_program(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        options = stage.options(can_use_tool=failing_callback, allowed_tools=["Bash"])
        async for _ in query(prompt="go", options=options):
            pass
        async with Client(options):
            pass

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        play(main, tmp_path, Say.of("Hi."))
    shadowed = [one for one in caught if one.category is CanUseToolShadowedWarning]
    assert [one.filename for one in shadowed] == [__file__] * 2


async def typed_answers(client: Client) -> tuple[ContextUsageResponse, McpStatusResponse]:
    """The type checkers see that these are the types of `claude-agent-sdk`."""
    return await client.get_context_usage(), await client.get_mcp_status()


def test_the_answers_of_a_client_have_their_types(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        async with Client(stage.options(mcp_servers={"own": create_sdk_mcp_server("own", tools=[fails])})) as client:
            usage, servers = await typed_answers(client)
        assert usage.keys() >= claude_agent_sdk.types.ContextUsageResponse.__required_keys__
        assert [(server["name"], server["status"]) for server in servers["mcpServers"]] == [("own", "connected")]

    play(main, tmp_path)
