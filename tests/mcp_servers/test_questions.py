"""What servers ask by themselves: something of the user, and the working folders."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.agent.mcp import McpConfig, new_servers
from mainspring.mcp.base import McpTimeouts
from mainspring.mcp.elicitation import ask_form
from mainspring.mcp.server_process import McpServerDefaults
from mainspring.tools.base import Workspace
from mainspring.tools.builtin import BuiltinTools
from mcp_servers.by_hand import by_hand
from mcp_servers.stage import LIBRARY, Counter, counter, program, stdio, until

HERE = stdio("library", LIBRARY)
RULES = ("allow mcp__library", "allow mcp__odd")


def test_a_form_is_asked_field_by_field(tmp_path: Path) -> None:
    async def main() -> None:
        async with counter(tmp_path, [HERE], rules=RULES) as desk:
            await desk.settle()
            desk.answer("y", "Ann", "two", "200", "30", "", "y")
            card = json.loads(await desk.text("mcp__library__join"))
            assert card == {"name": "Ann", "age": 30, "sort": "grown", "news": True}
            asks, wants = (
                "The MCP server 'library' asks: Who are you?",
                "name, age, sort (optional), news (optional)",
            )
            assert desk.asked == [
                f"{asks}\nIt wants to know: {wants}\nAnswer it? y, or n to decline.",
                "name: Name: As it stands on the card\nText.",
                "age: Age\nA whole number.",
                "Not a valid answer: 'two' is no whole number.\nage: Age\nA whole number.",
                "Not a valid answer: 150 is the maximum.\nage: Age\nA whole number.",
                "sort: Sort\n  1. child\n  2. grown\nA number or a name; empty for grown.",
                "news: News\ny or n; empty for False.",
            ]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("tool", "answers", "said"),
    [
        ("join", ("n",), "decline"),
        ("join", ("",), "decline"),
        ("join", ("y", "", "", ""), "cancel"),  # three times nothing where something is needed
        ("confirm", ("y",), "accept"),
        ("confirm", ("n",), "decline"),
    ],
)
def test_a_no_is_a_no(tmp_path: Path, tool: str, answers: tuple[str, ...], said: str) -> None:
    async def main() -> None:
        async with counter(tmp_path, [HERE], rules=RULES) as desk:
            await desk.settle()
            desk.answer(*answers)
            assert await desk.text(f"mcp__library__{tool}") == said
            assert desk.answers == []

    asyncio.run(main())


def test_an_address_is_shown_and_not_opened(tmp_path: Path) -> None:
    async def main() -> None:
        async with counter(tmp_path, [HERE], rules=RULES) as desk:
            await desk.settle()
            desk.answer("y")
            assert await desk.text("mcp__library__sign", url="https://example.com/a?b=c") == "accept"
            assert "It wants you to open: https://example.com/a?b=c" in desk.asked[0]
            assert await desk.text("mcp__library__sign", url="file:///etc/passwd") == "decline"
            assert len(desk.asked) == 1

    asyncio.run(main())


@pytest.mark.parametrize("why", ["nobody is there", "a program drives us"])
def test_where_nobody_is_there_it_is_declined(tmp_path: Path, why: str) -> None:
    async def main() -> None:
        async with counter(tmp_path, [HERE], rules=RULES) as desk:
            await desk.settle()
            if why == "nobody is there":
                desk.hands.attended = False
            else:
                desk.servers.host.asks = False
            assert await desk.text("mcp__library__join") == "decline"
            assert desk.asked == []

    asyncio.run(main())


class Slow(Counter):
    """Somebody who takes their time."""

    def __init__(self, desk: Counter) -> None:
        self.__dict__ = desk.__dict__
        self.said = asyncio.Event()

    async def ask(self, text: str, about: Any = None) -> str:
        self.asked.append(text)
        await self.said.wait()
        return "y"


def test_the_clock_of_a_call_stands_still_meanwhile(tmp_path: Path) -> None:
    """The limit of a call is 1 s, and the answer comes later. What comes after the answer counts again."""

    async def main() -> None:
        async with counter(tmp_path, [HERE], rules=RULES) as desk:
            await desk.settle()
            desk.servers.host.limits = McpTimeouts(call=1.0)
            slow = Slow(desk)
            calling = asyncio.create_task(slow.text("mcp__library__confirm"))
            await until(lambda: bool(slow.asked))
            began = time.monotonic()
            done, _ = await asyncio.wait([calling], timeout=1.5)  # longer than the limit
            assert not done
            slow.said.set()
            assert await calling == "accept"
            assert time.monotonic() - began > 1.4

    asyncio.run(main())


def test_who_cancels_the_call_withdraws_the_question(tmp_path: Path) -> None:
    async def main() -> None:
        async with counter(tmp_path, [HERE], rules=RULES) as desk:
            await desk.settle()
            slow = Slow(desk)
            calling = asyncio.create_task(slow.text("mcp__library__confirm"))
            await until(lambda: bool(slow.asked))
            server = desk.servers.servers["library"]
            assert server._questions == 1
            calling.cancel()
            await asyncio.wait([calling])
            await until(lambda: server._questions == 0)
            desk.answer("y")
            assert await desk.text("mcp__library__confirm") == "accept"  # nobody holds the turn to ask

    asyncio.run(main())


# --- servers that misbehave -------------------------------------------------------------------------------------------

ASKS = """
FORM = {"message": "Well?", "requestedSchema": {"type": "object", "properties": {}}}
def ask(number, form=FORM):
    send(id=f"q{number}", method="elicitation/create", params=form)
def heard(request):
    if "method" not in request:
        answers.append(request.get("result", {}).get("action", "error"))
        if len(answers) == wanted:
            send(id=last[0], result={"content": [{"type": "text", "text": json.dumps(answers)}]})
    if request.get("method") == "tools/call":
        last.append(request["id"])
answers, last, wanted = [], [], 0
"""


def asking(code: str) -> str:
    return by_hand(f"{ASKS}\n{code}")


def test_one_that_asks_outside_of_a_call(tmp_path: Path) -> None:
    """Nobody wanted anything of it: it is declined, and nobody is disturbed."""
    lists = '{"tools/list": lambda p: (ask(1), {"tools": TOOLS})[1]}'
    tells = 'lambda *_: {"content": [{"type": "text", "text": json.dumps(answers)}]}'
    code = asking(f"serve({tells}, heard=heard, more={lists})")

    async def main() -> None:
        async with counter(tmp_path, [program("odd", code)], rules=RULES) as desk:
            await desk.settle()
            while (answers := await desk.text("mcp__odd__hello")) == "[]":
                pass
            assert answers == '["decline"]'
            assert desk.asked == []

    asyncio.run(main())


def test_one_that_asks_without_end(tmp_path: Path) -> None:
    """Ten questions may wait for the person, one after the other; 90 are declined at once."""
    declined = tmp_path / "declined"
    calls = '{"tools/call": lambda p: [ask(n) for n in range(100)] and None}'
    counts = f"lambda request: (heard(request), len(answers) == 90 and open({str(declined)!r}, 'w').close())"
    code = asking(f"wanted = 100\nserve(heard={counts}, more={calls})")

    async def main() -> None:
        async with counter(tmp_path, [program("odd", code)], rules=RULES) as desk:
            await desk.settle()
            slow = Slow(desk)
            calling = asyncio.create_task(slow.text("mcp__odd__hello"))
            server = desk.servers.servers["odd"]
            await until(declined.exists)
            assert (server._questions, len(slow.asked)) == (10, 1)
            slow.said.set()
            answers = json.loads(await calling)
            assert (answers.count("accept"), answers.count("decline")) == (10, 90)

    asyncio.run(main())


def test_one_that_does_not_wait_for_the_answer(tmp_path: Path) -> None:
    """Its call is over, and so is the question."""
    code = asking('serve(lambda *_: (ask(1), {"content": []})[1], heard=heard)')

    async def main() -> None:
        async with counter(tmp_path, [program("odd", code)], rules=RULES) as desk:
            await desk.settle()
            slow = Slow(desk)
            server = desk.servers.servers["odd"]
            for _ in range(3):
                assert await slow.text("mcp__odd__hello") == "(nothing)"
                await until(lambda: server._questions == 0)

    asyncio.run(main())


def test_one_that_dies_while_it_waits_for_the_answer(tmp_path: Path) -> None:
    """The question is withdrawn, and the call is lost."""
    code = asking("serve(lambda *_: (ask(1), time.sleep(0.3), os._exit(3)), heard=heard)")

    async def main() -> None:
        async with counter(tmp_path, [program("odd", code)], rules=RULES) as desk:
            await desk.settle()
            slow = Slow(desk)
            calling = asyncio.create_task(slow.text("mcp__odd__hello"))
            await until(lambda: bool(slow.asked))
            assert (
                "was lost during the call, and it is unknown what the call did: it ended with exit code 3"
                in await calling
            )
            await until(lambda: desk.servers.servers["odd"]._questions == 0)

    asyncio.run(main())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "enum", "oneOf", "const",
    "title", "items", "default", "minimum", "properties", "required", "message", "requestedSchema", "mode", "url"])
    | st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
KINDS = st.sampled_from(["string", "number", "integer", "boolean", "array", "object"])


@given(
    fields=st.dictionaries(st.text(max_size=5), st.fixed_dictionaries({"type": KINDS}, optional={"enum": JSON,
    "default": JSON, "minimum": JSON, "items": JSON, "description": JSON, "minLength": JSON}), max_size=3),
    required=JSON, odd=JSON, said=st.lists(st.text(max_size=5), min_size=1, max_size=30),
)  # fmt: skip
def test_whatever_a_server_asks_has_an_answer(fields: Any, required: Any, odd: Any, said: list[str]) -> None:
    """Any JSON in place of a form, and any words in place of an answer: an answer in the protocol's words."""

    async def main(wish: Any) -> None:
        answers = iter(said * 10)

        async def ask(text: str) -> str:
            assert len(text) < 50_000
            return next(answers, "")

        answer = await ask_form("odd", wish, ask)
        assert answer["action"] in ("accept", "decline", "cancel")
        json.dumps(answer, allow_nan=False)

    schema = {"type": "object", "properties": fields, "required": required}
    asyncio.run(main({"message": odd, "requestedSchema": schema}))
    asyncio.run(main({"message": "", "requestedSchema": odd}))


# --- the working folders ----------------------------------------------------------------------------------------------


def test_a_server_may_know_the_working_folders(tmp_path: Path) -> None:
    more = tmp_path / "a b"

    async def main() -> None:
        async with counter(tmp_path, [HERE], rules=RULES) as desk:
            await desk.settle()
            told = (await desk.call("mcp__library__folders")).answer.data["result"]
            assert told == [f"{tmp_path.name} {tmp_path.as_uri()}"]
            desk.servers.host.folders = lambda: (str(tmp_path), str(more))
            told = (await desk.call("mcp__library__folders")).answer.data["result"]
            assert told == [f"{tmp_path.name} {tmp_path.as_uri()}", f"a b {more.as_uri()}"]

    asyncio.run(main())


def test_a_session_tells_the_folders_that_it_has_then() -> None:
    async def relay(name: str, message: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError(name, message)

    def made(relay: Any) -> McpServerDefaults:
        return new_servers(
            McpConfig(), BuiltinTools(place, {}), {}, is_away=lambda _: False, warn=print, relay=relay
        ).host

    place = Workspace("/work", folders=("/more",))
    alone, driven = made(None), made(relay)
    assert alone.folders() == ("/work", "/more")
    place.folders = ("/other",)
    place.cwd = "/work/deep"
    assert alone.folders() == driven.folders() == ("/work", "/other")
    assert (alone.asks, driven.asks) == (True, False)  # over a pipe nobody has words for a server's question


def test_a_server_hears_that_the_folders_have_changed(tmp_path: Path) -> None:
    """Before the next turn, and once."""
    heard = tmp_path / "heard"
    note = f"open({str(heard)!r}, 'a').write(request['method'] + ' ')"
    code = by_hand(f"serve(heard=lambda request: {note})")

    async def main() -> None:
        async with counter(tmp_path, [program("odd", code)], rules=RULES) as desk:
            await desk.settle()
            await desk.settle()
            await desk.text("mcp__odd__hello")
            desk.servers.host.folders = lambda: (str(tmp_path), "/more")
            await desk.settle()
            await desk.settle()
            await desk.text("mcp__odd__hello")
            said = heard.read_text().split()
            assert said == [
                *("initialize", "notifications/initialized", "tools/list", "tools/call"),
                *("notifications/roots/list_changed", "tools/call"),
            ]

    asyncio.run(main())
