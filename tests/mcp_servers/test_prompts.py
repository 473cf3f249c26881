"""Prompts of a real server as words with a slash; and lists of all sorts that change in mid-session."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from mainspring.agent.mcp import SessionMcpServers
from mainspring.core.errors import ToolError
from mainspring.mcp.base import McpStatus, McpTimeouts
from mainspring.mcp.resources import LIST, McpPrompt, PromptArgument, fill_prompt_arguments
from mcp_servers.by_hand import by_hand
from mcp_servers.stage import LIBRARY, PATIENCE, Counter, counter, program, stdio, until

HERE = stdio("library", LIBRARY)
RULES = (f"allow {LIST}", "allow mcp__library", "allow mcp__odd")


def wired(desk: Counter) -> SessionMcpServers:
    return SessionMcpServers(desk.servers, desk.hands)


async def nobody(server: str, uri: str) -> bool:
    raise AssertionError(server, uri)  # nothing is named


async def said(desk: Counter, words: str) -> str:
    (message,) = await wired(desk).brought(words, nobody)
    return message.text


def test_what_is_there(tmp_path: Path) -> None:
    async def main() -> None:
        async with counter(tmp_path, [HERE]) as desk:
            await desk.settle()
            assert [(word.name, word.about, word.hint) for word in wired(desk).words()] == [
                ("mcp__library__greet", "Greet somebody.", "whom [how]"),
                ("mcp__library__play", "", ""),
                ("mcp__library__broken", "", ""),
            ]
            assert wired(desk).knows("mcp__library__play", "")
            assert not wired(desk).knows("mcp__library__none", "")
            with pytest.raises(
                ToolError, match=r"'/mcp__library__greet' needs 'whom': write '/mcp__library__greet whom"
            ):
                wired(desk).knows("mcp__library__greet", "")

    asyncio.run(main())


def test_what_they_say(tmp_path: Path) -> None:
    async def main() -> None:
        async with counter(tmp_path, [HERE]) as desk:
            await desk.settle()
            head = "The user chose this prompt of the MCP server 'library'. Do what it says."
            assert await said(desk, '/mcp__library__greet "Ann and Bob" very warmly') == (
                f'<mcp-prompt name="mcp__library__greet">\n{head}\n\n'
                "Say hello to Ann and Bob, very warmly. <\\/mcp-prompt>\n</mcp-prompt>"
            )
            assert "Say hello to Ann, kindly." in await said(desk, "/mcp__library__greet Ann")
            assert "[user]\nKnock, knock.\n[assistant]\nWho is there?\n[user]\nGuess." in await said(
                desk, "/mcp__library__play"
            )
            for words, why in {
                "/mcp__library__broken": "The MCP server 'library' refused the call: ",
                "/mcp__library__none": "No MCP server has the prompt '/mcp__library__none'.",
                "/mcp__library__greet": "'/mcp__library__greet' needs 'whom'",
            }.items():
                with pytest.raises(ToolError) as raised:
                    await said(desk, words)
                assert str(raised.value).startswith(why)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("", {}),
        ("one", {"a": "one"}),
        ("one two", {"a": "one", "b": "two"}),
        ("one two three", {"a": "one", "b": "two three"}),
        ('"one two" three', {"a": "one two", "b": "three"}),
        ("don't won't", {"a": "don't", "b": "won't"}),
        ('say "so', {"a": "say", "b": '"so'}),
        ("C:\\new x", {"a": "C:\\new", "b": "x"}),
        ("# x", {"a": "#", "b": "x"}),
    ],
)
def test_arguments_are_positional(words: str, found: dict[str, str]) -> None:
    prompt = McpPrompt("p", "", (PromptArgument("a"), PromptArgument("b")))
    assert fill_prompt_arguments(prompt, "mcp__x__p", words) == found
    assert fill_prompt_arguments(McpPrompt("p", ""), "mcp__x__p", words) == {}


def test_a_word_for_a_server_that_is_not_there_yet(tmp_path: Path) -> None:
    """Who speaks first may speak before the servers are there: it is taken at its word, and waited for."""
    go = tmp_path / "go"
    prompts = '{"prompts/list": lambda p: {"prompts": [{"name": "hi"}]}, "prompts/get": lambda p: GOT}'
    got = 'GOT = {"messages": [{"role": "user", "content": {"type": "text", "text": "Hi."}}]}'
    waits = f"while not os.path.exists({str(go)!r}): time.sleep(0.01)"
    slow = by_hand(f"{got}\n{waits}\nserve(has=('tools', 'prompts'), more={prompts})")

    async def main() -> None:
        async with counter(tmp_path, [program("odd", slow)]) as desk:
            assert wired(desk).knows("mcp__odd__hi", "")
            asking = asyncio.create_task(said(desk, "/mcp__odd__hi"))
            go.touch()
            assert "\nHi.\n" in await asking
            assert not wired(desk).knows("mcp__odd__ho", "")

    asyncio.run(main())


def test_a_rule_that_takes_a_server_away_takes_its_prompts(tmp_path: Path) -> None:
    async def main() -> None:
        async with counter(tmp_path, [HERE], is_away=lambda name: name.startswith("mcp__library__")) as desk:
            assert await desk.settle() == ()
            assert wired(desk).words() == ()

    asyncio.run(main())


# --- lists that change ------------------------------------------------------------------------------------------------


@pytest.mark.covers("N-09")
def test_what_has_changed_is_there_in_the_next_turn(tmp_path: Path) -> None:
    """Nobody waits for it in between: the turn asks for it."""

    async def main() -> None:
        async with counter(tmp_path, [HERE], rules=RULES) as desk:
            first = await desk.settle()
            before = [spec.name for spec in desk.hands.specs]
            assert await desk.text("mcp__library__grow") == "grown"
            assert await desk.settle() == ("mcp__library__fresh",)
            assert [spec.name for spec in desk.hands.specs] == [*before, "mcp__library__fresh"]  # at the end (law 4)
            assert before == list(first)
            assert "mcp__library__newest" in [word.name for word in wired(desk).words()]
            assert "shelf://new" in await desk.text(LIST)
            assert await desk.settle() == ()

    asyncio.run(main())


FLOOD = """
import threading
asked = 0
def list_tools(params):
    global asked
    asked += 1
    return {"tools": TOOLS}
def shout():
    while True:
        send(method="notifications/tools/list_changed")
        time.sleep(0.001)
def answer(name, arguments):
    return {"content": [{"type": "text", "text": str(asked)}]}
threading.Thread(target=shout, daemon=True).start()
serve(answer, more={"tools/list": list_tools})
"""


def test_one_that_shouts_is_asked_once_a_turn(tmp_path: Path) -> None:
    async def main() -> None:
        async with counter(tmp_path, [program("odd", by_hand(FLOOD))], rules=RULES) as desk:
            await desk.settle()
            for _ in range(3):
                await until(desk.servers._news.is_set)
                await desk.settle()
            # At the start, perhaps once in the first turn, and once in each of three.
            assert int(await desk.text("mcp__odd__hello")) in (4, 5)

    asyncio.run(main())


ONCE = """
lists = 0
def list_tools(params):
    global lists
    lists += 1
    return {"tools": TOOLS} if lists == 1 else AGAIN
def answer(name, arguments):
    send(method="notifications/tools/list_changed")
    return {"content": [{"type": "text", "text": str(lists)}]}
serve(answer, more={"tools/list": list_tools})
"""


@pytest.mark.parametrize(
    ("again", "why"),
    [
        ("None", "did not list them within 0.5 s"),
        ('{"tools": 5}', "sent an invalid list ("),
    ],
)
def test_one_that_does_not_tell_what_has_changed(tmp_path: Path, again: str, why: str) -> None:
    """It keeps the tools that it had, and is not asked again, however often it says so."""

    async def main() -> None:
        code = by_hand(ONCE.replace("AGAIN", again))
        async with counter(tmp_path, [program("odd", code)], rules=RULES) as desk:
            await desk.settle()
            desk.servers.host.limits = McpTimeouts(lists=0.5)
            assert await desk.text("mcp__odd__hello") == "1"
            began = time.monotonic()
            assert await desk.settle() == ()
            assert time.monotonic() - began < 60
            (told,) = desk.warned
            assert told.startswith(f"the MCP server 'odd' said that its lists have changed, and {why}")
            assert told.endswith(": the old ones are used")
            assert await desk.text("mcp__odd__hello") == "2"
            await desk.settle()
            assert await desk.text("mcp__odd__hello") == "2"
            assert len(desk.warned) == 1

    asyncio.run(main())


def odd_prompts(answer: str) -> str:
    return by_hand(f'serve(has=("tools", "prompts"), more={{"prompts/list": lambda p: {answer}}})')


PROMPTS = {
    "None": "has prompts, and did not list them within 1 s: they are left out",
    '{"prompts": [{"title": 5}]}': "has prompts, and sent an invalid list (",
    '{"prompts": [], "nextCursor": str(time.time())}': "has more prompts than the limit (200, on at most 100",
}


@pytest.mark.parametrize("answer", PROMPTS)
def test_without_prompts_the_tools_are_there(tmp_path: Path, answer: str) -> None:
    async def main() -> None:
        limits = McpTimeouts(first_turn=PATIENCE, lists=1)
        async with counter(tmp_path, [program("odd", odd_prompts(answer))], limits=limits, rules=RULES) as desk:
            assert await desk.settle() == ("mcp__odd__hello",)
            (told,) = desk.warned
            assert PROMPTS[answer] in told
            assert wired(desk).words() == ()
            assert desk.servers.servers["odd"].status is McpStatus.CONNECTED

    asyncio.run(main())


GOT = {
    "None": r"did not answer within 1.5 s.*\. MCP_TIMEOUT, in milliseconds, sets another limit",
    "os._exit(3)": "was lost during the call",
    '{"messages": []}': "is empty",
    '{"messages": [5]}': "sent an invalid answer",
    '{"messages": [{"role": "user", "content": {"type": "text", "text": "x" * 900_000}}]}': "",
}


@pytest.mark.parametrize("answer", GOT)
def test_prompts_that_are_none(tmp_path: Path, answer: str) -> None:
    more = f'{{"prompts/list": lambda p: {{"prompts": [{{"name": "hi"}}]}}, "prompts/get": lambda p: {answer}}}'
    code = by_hand(f'serve(has=("tools", "prompts"), more={more})')

    async def main() -> None:
        async with counter(tmp_path, [program("odd", code)]) as desk:
            await desk.settle()
            desk.servers.host.limits = McpTimeouts(start=1.5)
            if not GOT[answer]:
                text = await said(desk, "/mcp__odd__hi")
                assert 100_000 < len(text) < 101_000
                assert "[Cut: 800,000 more characters.]" in text
                return
            with pytest.raises(ToolError, match=GOT[answer]):
                await said(desk, "/mcp__odd__hi")

    asyncio.run(main())
