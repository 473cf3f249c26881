"""The one `tool` decorator: its forms, partial functions, time limits, and how often a tool may fail."""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator
from sdk.stage import Stage, outcomes, play
from sdk.stage import call as wire_call

import mainspring
import mainspring.sdk
from mainspring import ToolContext, ToolError, open_run, tool
from mainspring.core.errors import UsageError
from mainspring.core.updates import CallDone
from mainspring.sdk import Options, SdkMcpTool, ToolAnnotations, create_sdk_mcp_server
from mainspring.sdk.options import check_options
from mainspring.simulator.replies import Say
from mainspring.testing import Scripted, call, says, virtually
from mainspring.tools.base import StrictInput, Tool, ToolAnswer
from mainspring.tools.custom import FunctionTool
from tools.desk import Desk

# --- its forms ------------------------------------------------------------------------------------------------------


def test_both_modules_export_the_same_object() -> None:
    assert mainspring.tool is mainspring.sdk.tool
    assert mainspring.sdk.tools.tool is tool


def test_on_a_function_bare_and_with_options() -> None:
    @tool
    def bare(a: int) -> int:
        """Bare."""
        return a

    @tool(name="other-name", description="With options.", read_only=True, timeout=1.5, retries=2)
    def named(a: int) -> int:
        return a

    assert isinstance(bare, FunctionTool)
    assert (bare.name, bare.about, bare.timeout, bare.retries) == ("bare", "Bare.", None, None)
    assert (named.name, named.about, named.timeout, named.retries) == ("other-name", "With options.", 1.5, 2)
    assert named.is_read_only(named.parse({"a": 1}))
    assert (bare(1), named(a=2)) == (1, 2)


async def add(given: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": str(given["a"] + given["b"])}]}


@pytest.mark.parametrize(
    "made",
    [
        tool("add", "Adds.", {"a": float, "b": float}, ToolAnnotations(readOnlyHint=True))(add),
        tool(name="add", description="Adds.", input_schema={"a": float, "b": float},
             annotations=ToolAnnotations(readOnlyHint=True))(add),
    ],
)  # fmt: skip
def test_as_claude_agent_sdk_has_it(made: SdkMcpTool[Any]) -> None:
    assert made == SdkMcpTool(
        "add", "Adds.", {"a": float, "b": float}, add, ToolAnnotations(readOnlyHint=True)
    )  # fmt: skip
    assert create_sdk_mcp_server("sums", tools=[made])["type"] == "sdk"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tool(name="", description="x", input_schema={}), "'tool(name, description, schema)' needs a name"),
        (
            lambda: tool("a", "x", {}, read_only=True),  # type: ignore[call-overload]
            "'tool(name, description, schema)' has no option 'read_only': use 'annotations'",
        ),
        (lambda: tool(read_onyl=True), "'tool' has no option 'read_onyl'. Did you mean 'read_only'?"),  # type: ignore[call-overload]
        (lambda: tool(timeout=0), "'timeout' must be a number of seconds above 0, not 0"),
        (lambda: tool(timeout="5"), "'timeout' must be a number of seconds above 0, not '5'"),  # type: ignore[call-overload]
        (lambda: tool(retries=-1), "'retries' must be a whole number from 0 on, not -1"),
        (lambda: tool(retries=True), "'retries' must be a whole number from 0 on, not True"),
        (
            lambda: create_sdk_mcp_server("s", tools=[tool(lambda_free)]),  # type: ignore[list-item]
            "the server 's' has 'lambda_free', which is a tool by itself: put it into 'Options.tools', or make it with",
        ),
        (
            lambda: check_options(Options(tools=[tool("add", "Adds.", {})(add)])),  # type: ignore[list-item]
            "'tools' has 'add', made by 'tool(name, description, schema)': pass it to 'create_sdk_mcp_server'",
        ),
    ],
)
def test_what_is_wrong_is_named(make: Any, message: str) -> None:
    with pytest.raises(UsageError) as error:
        make()
    assert str(error.value).startswith(message)


def lambda_free(a: int = 0) -> int:
    return a


# --- partial functions ------------------------------------------------------------------------------------------------


class Library:
    def __init__(self) -> None:
        self.asked: list[tuple[str, str, int]] = []

    async def find(self, index: str, word: str, most: int = 5) -> str:
        """Find a word.

        Args:
            word: What to find.
        """
        self.asked.append((index, word, most))
        return f"{index}: {word}"


def test_a_partial_function_hides_what_the_program_has_set() -> None:
    library = Library()
    made = tool(functools.partial(library.find, "prod", most=2))
    assert (made.name, made.about) == ("find", "Find a word.")
    assert made.spec.schema == {
        "type": "object",
        "properties": {"word": {"type": "string", "description": "What to find."}},
        "required": ["word"],
    }
    assert Desk([made]).now("find", word="a").answer.text == "prod: a"
    refused = Desk([made]).now("find", word="a", most=100).answer
    assert refused.is_error
    assert "unknown field `most`" in refused.text
    assert library.asked == [("prod", "a", 2)]


def test_a_partial_function_in_a_thread_and_with_a_name() -> None:
    def scale(factor: int, number: int) -> int:
        return factor * number

    made = tool(name="double")(functools.partial(scale, 2))
    assert made(4) == 8
    assert Desk([made]).now("double", number=4).answer.data == 8


# --- time limits ----------------------------------------------------------------------------------------------------


def test_a_tool_that_takes_too_long_is_cancelled() -> None:
    ended: list[str] = []

    @tool(timeout=2.5)
    async def wait() -> None:
        try:
            await asyncio.sleep(1_000)
        finally:
            ended.append("cancelled")

    answer = virtually(Desk([wait]).call("wait")).answer
    assert answer.text == (
        "'wait' did not finish within 2.5 seconds and was cancelled. What it did until then is not known."
    )
    assert (answer.is_error, ended) == (True, ["cancelled"])


def test_a_plain_function_that_takes_too_long_is_left() -> None:
    leave, over = threading.Event(), threading.Event()

    @tool(timeout=0.01)
    def block(context: ToolContext) -> None:
        assert leave.wait(60)
        try:
            context.progress("still here")
        except ToolError:
            over.set()

    async def main() -> str:
        answer = (await Desk([block]).call("block")).answer
        leave.set()
        return answer.text

    assert asyncio.run(main()).startswith("'block' did not finish within 0.01 seconds")
    assert over.wait(60)


def test_within_its_time_nothing_changes_and_its_own_timeouts_are_its_own(caplog: pytest.LogCaptureFixture) -> None:
    @tool(timeout=60)
    async def quick() -> str:
        return "done"

    @tool(timeout=60)
    async def late() -> str:
        raise TimeoutError("the server is slow")

    assert Desk([quick]).now("quick").answer.text == "done"
    assert Desk([late]).now("late").answer.text == "'late' failed: TimeoutError: the server is slow"
    assert [record.name for record in caplog.records] == ["mainspring.tools"]


# --- retries ----------------------------------------------------------------------------------------------------------

CLOSED = "'guess' has failed {} in a row and does not run again in this run. Go on without it."


def guessing(**options: Any) -> tuple[Tool, list[int]]:
    ran: list[int] = []

    @tool(**options)
    def guess(number: int) -> str:
        ran.append(number)
        if number != 7:
            raise ToolError("Wrong.")
        return "Right."

    return guess, ran


def results(tools: list[Tool], *prompts: list[Any]) -> list[str]:
    """What the model is told of its calls, each of them in a reply of its own; each list is one run."""
    told: list[str] = []

    async def main() -> None:
        for calls in prompts:
            model = Scripted([*[says(one) for one in calls], says("Done.")])
            async with open_run("go", provider=model, tools=tools) as run:
                told.extend([update.result.text async for update in run if isinstance(update, CallDone)])

    asyncio.run(main())
    return told


def test_a_model_may_correct_itself_as_often_as_the_tool_allows() -> None:
    guess, ran = guessing(retries=2)
    calls = [call("guess", number=n) for n in (1, 2, 3, 7)]
    told = results([guess], calls)
    assert told == [
        "Wrong.",
        "Wrong.",
        f"Wrong.\n[{CLOSED.format('3 times')}]",
        f"Not run: {CLOSED.format('3 times')}",
    ]
    assert ran == [1, 2, 3]


def test_a_success_counts_as_a_new_beginning() -> None:
    guess, ran = guessing(retries=1)
    told = results([guess], [call("guess", number=n) for n in (1, 7, 2, 7)])
    assert told == ["Wrong.", "Right.", "Wrong.", "Right."]
    assert ran == [1, 7, 2, 7]


def test_a_wrong_input_and_a_bug_count_as_failures() -> None:
    @tool(retries=1)
    def divide(by: int) -> float:
        return 1 / by

    told = results([divide], [call("divide", by="x"), call("divide", by=0), call("divide", by=1)])
    assert "Expected `int`, got `str`" in told[0]
    assert told[1].startswith("'divide' failed: ZeroDivisionError: division by zero\n['divide' has failed 2 times")
    assert told[2].startswith("Not run: 'divide' has failed 2 times")


def test_each_run_begins_anew_and_without_a_limit_there_is_none() -> None:
    guess, ran = guessing(retries=0)
    told = results([guess], [call("guess", number=1)], [call("guess", number=7)])
    assert told == [f"Wrong.\n[{CLOSED.format('1 time')}]", "Right."]
    free, _ = guessing()
    assert (
        results([free], [call("guess", number=1)] * 1 + [call("guess", number=n) for n in range(20, 26)])
        == ["Wrong."] * 7
    )
    assert ran == [1, 7]


# --- what the developer is told ---------------------------------------------------------------------------------------


def test_a_tool_made_by_hand_is_logged_too(caplog: pytest.LogCaptureFixture) -> None:
    async def run(given: Any, context: ToolContext) -> ToolAnswer:
        raise ZeroDivisionError("by hand")

    made = Tool(name="handmade", about="", input=StrictInput, run=run)
    assert Desk([made]).now("handmade").answer.text == "The tool itself failed: ZeroDivisionError: by hand"
    [record] = caplog.records
    assert (record.name, record.levelname, record.getMessage()) == (
        "mainspring.tools",
        "ERROR",
        "tool 'handmade' failed",
    )
    assert record.exc_info is not None


def broken(value: int) -> int:
    raise RuntimeError("a bug in a validator")


def test_a_bug_in_a_validator_is_told_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    def keep(it: Annotated[int, AfterValidator(broken)]) -> None: ...

    answer = Desk([keep]).now("keep", it=1).answer
    assert (answer.text, answer.is_error) == ("The tool itself failed: RuntimeError: a bug in a validator", True)
    assert "in broken" in caplog.text


@pytest.mark.parametrize("kind", ["function", "server"])
def test_errors_of_tools_in_a_session(kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    @tool
    async def tell() -> None:
        raise ToolError("Say it otherwise.")

    @tool
    async def crash() -> None:
        raise ValueError("kaput")

    async def tell_by_dict(given: dict[str, Any]) -> dict[str, Any]:
        raise ToolError("Say it otherwise.")

    async def crash_by_dict(given: dict[str, Any]) -> dict[str, Any]:
        raise ValueError("kaput")

    server = create_sdk_mcp_server(
        "s", tools=[tool("tell", "", {})(tell_by_dict), tool("crash", "", {})(crash_by_dict)]
    )
    prefix = "mcp__s__" if kind == "server" else ""

    async def main(stage: Stage) -> None:
        chosen: dict[str, Any] = (
            {"mcp_servers": {"s": server}, "allowed_tools": ["mcp__s"]}
            if kind == "server"
            else {"tools": [tell, crash]}
        )
        told = await stage.ask(**chosen)
        said, kaput = [one.content for one in outcomes(told)]
        assert "Say it otherwise." in str(said)
        assert "ValueError: kaput" in str(kaput)
        assert "Traceback" not in str(kaput)

    replies = [Say.of(wire_call(f"{prefix}tell")), Say.of(wire_call(f"{prefix}crash")), Say.of("Done.")]
    with caplog.at_level(logging.ERROR, "mainspring"):
        play(main, tmp_path, *replies)
    [record] = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.name.startswith("mainspring")
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ValueError)
