"""Servers within a driver that never answer, or answer what is none; drivers that go away. And that the official client
is neither needed nor loaded for them."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.errors import ToolError, UsageError
from mainspring.mcp.base import McpInvalidReplyError, McpListKind, McpRefusedError, McpStatus, McpTimeouts
from mainspring.mcp.host_transport import RelayError, open_host_session
from mainspring.mcp.resources import build_prompt_content, format_prompt_hint, parse_prompt, read_answer
from mcp_servers.driver import GOOD, GREETING, TOOL, ByHand, never
from mcp_servers.stage import PATIENCE, counter, until, within_driver

RULES = ("allow mcp__odd", "allow mcp__good")
NO_ANSWER = "it sent an invalid answer: "


def result(value: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda message: {"jsonrpc": "2.0", "id": message.get("id"), "result": value}


def answer(value: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda _: value


def raising(error: Exception) -> Callable[[dict[str, Any]], Any]:
    def odd(_: dict[str, Any]) -> Any:
        raise error

    return odd


def beside(odd: ByHand) -> Callable[[str, dict[str, Any]], Any]:
    """A driver with a server 'odd', and others that are fine."""
    good = ByHand()

    async def send(name: str, message: dict[str, Any]) -> dict[str, Any]:
        return await (odd if name == "odd" else good).send(name, message)

    return send


def failed(folder: Path, odd: ByHand, limits: McpTimeouts = McpTimeouts(first_turn=PATIENCE)) -> str:  # noqa: B008  # frozen
    """Why it failed; the other one is there all the same."""

    async def main() -> str:
        both = within_driver("odd", "good")
        async with counter(folder, both, limits=limits, rules=RULES, relay=beside(odd)) as desk:
            assert await desk.settle() == ("mcp__good__hello",)
            why = desk.servers.servers["odd"].error
            assert desk.servers.servers["odd"].status is McpStatus.FAILED
            assert desk.warned == [f"the MCP server 'odd' cannot be used: {why}"]
            assert await desk.text("mcp__good__hello") == "hello"
            return why

    return asyncio.run(main())


SAID: list[tuple[str, Callable[[dict[str, Any]], Any], str]] = [
    ("initialize", answer(None), f"{NO_ANSWER}it is not an object"),
    ("initialize", answer([1]), f"{NO_ANSWER}it is not an object"),
    ("initialize", answer({}), f"{NO_ANSWER}it has neither a result nor an error"),
    ("initialize", result([]), f"{NO_ANSWER}it has neither a result nor an error"),
    ("initialize", result({}), f"{NO_ANSWER}its greeting names no 'protocolVersion'"),
    ("initialize", answer({"id": 99, "result": GREETING}), f"{NO_ANSWER}it answers another request"),
    ("initialize", answer({"error": {"message": "not today"}}), "it refused: not today"),
    ("initialize", answer({"error": {"code": -32603}}), "it refused: an error without a message (code -32603)"),
    ("initialize", answer({"error": "x"}), "it refused: an error without a message (code None)"),
    ("initialize", raising(RelayError("no such server")), "it refused: no such server"),
    ("initialize", raising(ConnectionError()), "its host program does not respond any more"),
    ("notifications_initialized", raising(RelayError("busy")), "it refused: busy"),
    ("tools_list", result({"tools": None}), f"{NO_ANSWER}its list of tools is not a list of objects"),
    ("tools_list", result({"tools": [TOOL, 1]}), f"{NO_ANSWER}its list of tools is not a list of objects"),
    ("tools_list", result({"tools": [{"inputSchema": {}}]}), f"{NO_ANSWER}its list has a tool without 'name'"),
]


@pytest.mark.parametrize(("method", "odd", "why"), SAID)
def test_one_that_fails_the_handshake(
    tmp_path: Path, method: str, odd: Callable[[dict[str, Any]], Any], why: str
) -> None:
    assert failed(tmp_path, ByHand(**{method: odd})) == why


@pytest.mark.parametrize("method", ["initialize", "notifications_initialized", "tools_list"])
def test_one_that_never_answers(tmp_path: Path, method: str) -> None:
    """A list that nobody waits for is taken back; a greeting cannot be."""
    odd = ByHand(**{method: never})
    began = time.monotonic()
    why = failed(tmp_path, odd, McpTimeouts(start=0.5, first_turn=PATIENCE))
    assert why == "it did not answer within 0.5 s (MCP_TIMEOUT, in milliseconds, sets another limit)"
    assert 0.5 <= time.monotonic() - began < 60
    assert len(odd.said("notifications/cancelled")) == (1 if method == "tools_list" else 0)


def test_one_that_was_late_is_greeted_under_another_number(tmp_path: Path) -> None:
    odd = ByHand(initialize=never)

    async def main() -> None:
        limits = McpTimeouts(start=0.2, first_turn=PATIENCE)
        async with counter(tmp_path, within_driver("odd"), limits=limits, relay=odd.send) as desk:
            await desk.settle()
            with pytest.raises(UsageError, match="'odd' cannot be used: it did not answer within"):
                await desk.servers.reconnect("odd")
            odd.odd.clear()
            await desk.servers.reconnect("odd")
            assert await desk.settle() == ("mcp__odd__hello",)
        assert [message["id"] for message in odd.said("initialize")] == [1, 2, 3]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        (
            result({}),
            "sent an invalid answer: its 'content' is not a list of objects. It is unknown what the call did.",
        ),
        (result({"content": "x"}), "sent an invalid answer: its 'content' is not a list of objects."),
        (result({"content": ["x"]}), "sent an invalid answer: its 'content' is not a list of objects."),
        (answer({"id": 1, "result": {"content": []}}), "sent an invalid answer: it answers another request."),
        (answer(7), "sent an invalid answer: it is not an object."),
        (answer({"error": {"message": "SDK MCP server 'odd' stopped"}}), "refused the call: SDK MCP server 'odd' stop"),
        (raising(RelayError("no room")), "refused the call: no room"),
    ],
)
def test_a_call_that_comes_to_nothing(tmp_path: Path, odd: Callable[[dict[str, Any]], Any], why: str) -> None:
    """It is told, and the next one is not worse off."""
    one = ByHand(tools_call=odd)

    async def main() -> None:
        async with counter(tmp_path, within_driver("odd"), rules=RULES, relay=one.send) as desk:
            await desk.settle()
            done = (await desk.call("mcp__odd__hello")).answer
            assert done.is_error
            assert done.text.startswith(f"The MCP server 'odd' {why}")
            one.odd.clear()
            assert await desk.text("mcp__odd__hello") == "hello"
            assert len(one.said("initialize")) == 1

    asyncio.run(main())


def test_structured_content_alone_is_an_answer(tmp_path: Path) -> None:
    one = ByHand(tools_call=result({"structuredContent": {"sum": 5}}))

    async def main() -> None:
        async with counter(tmp_path, within_driver("odd"), rules=RULES, relay=one.send) as desk:
            await desk.settle()
            done = (await desk.call("mcp__odd__hello")).answer
            assert (done.text, done.data, done.is_error) == ('{"sum":5}', {"sum": 5}, False)

    asyncio.run(main())


def test_a_driver_that_goes_away_in_mid_call(tmp_path: Path) -> None:
    """Standard input has ended: whatever is open ends, and so does whatever comes."""
    calls: list[asyncio.Future[Any]] = []

    def held(_: dict[str, Any]) -> asyncio.Future[Any]:
        calls.append(asyncio.get_running_loop().create_future())
        return calls[-1]

    one = ByHand(tools_call=held)

    async def main() -> None:
        async with counter(tmp_path, within_driver("odd"), rules=RULES, relay=one.send) as desk:
            await desk.settle()
            both = [asyncio.create_task(desk.text("mcp__odd__hello")) for _ in range(2)]
            await until(lambda: len(calls) == 2)
            for method in ("initialize", "tools/call", "notifications/cancelled"):
                one.odd[method] = raising(ConnectionError())
            calls[0].set_exception(ConnectionError())
            for text in await asyncio.gather(*both):
                assert text == (
                    "The MCP server 'odd' was lost during the call, and it is unknown what the call did: its host "
                    "program does not respond any more. The next call starts it again."
                )
            for _ in range(2):
                gone = await desk.text("mcp__odd__hello")
                assert gone.startswith("The MCP server 'odd' cannot be reached: its host program does not respond")
            assert len(one.said("initialize")) == 2  # tried once more, and not again
            assert desk.servers.status()[0]["status"] == "failed"

    asyncio.run(main())


def test_a_driver_that_does_not_acknowledge_holds_nobody_up(tmp_path: Path) -> None:
    """Neither who cancels a call, nor, for long, the end of the session."""
    one = ByHand(tools_call=never, notifications_cancelled=never)

    async def main() -> None:
        async with counter(tmp_path, within_driver("odd"), rules=RULES, relay=one.send) as desk:
            await desk.settle()
            calling = asyncio.create_task(desk.call("mcp__odd__hello"))
            await until(lambda: len(one.said("tools/call")) == 1)
            calling.cancel()
            await asyncio.wait([calling])
            assert calling.cancelled()
            await until(lambda: len(one.said("notifications/cancelled")) == 1)
            began = time.monotonic()
        assert time.monotonic() - began < 60
        await until(lambda: len(asyncio.all_tasks()) == 1)

    asyncio.run(main())


# --- the list of tools ----------------------------------------------------------------------------------------------


def listing(pages: int) -> Callable[[dict[str, Any]], Any]:
    """A tool on each page."""

    def page(message: dict[str, Any]) -> Any:
        at = int(message["params"].get("cursor", "0"))
        more = {"nextCursor": str(at + 1)} if at + 1 < pages else {}
        return result({"tools": [{**TOOL, "name": f"t{at}"}], **more})(message)

    return page


@pytest.mark.parametrize(("pages", "taken", "warned"), [(3, 3, 0), (100, 100, 0), (1_000_000, 100, 1)])
def test_a_list_of_several_pages(tmp_path: Path, pages: int, taken: int, warned: int) -> None:
    async def main() -> None:
        async with counter(tmp_path, within_driver("odd"), relay=ByHand(tools_list=listing(pages)).send) as desk:
            assert await desk.settle() == tuple([f"mcp__odd__t{n}" for n in range(taken)])
            assert len(desk.warned) == warned

    asyncio.run(main())


def test_one_without_tools_is_not_asked_for_them(tmp_path: Path) -> None:
    one = ByHand(initialize=result({**GREETING, "capabilities": {"logging": {}}, "instructions": "Be kind."}))

    async def main() -> None:
        async with counter(tmp_path, within_driver("odd"), relay=one.send) as desk:
            assert await desk.settle() == ()
            assert desk.servers.servers["odd"].status is McpStatus.CONNECTED
            assert '<mcp-server name="odd">\nBe kind.\n</mcp-server>' in desk.servers.instructions()
            assert one.said("tools/list") == []

    asyncio.run(main())


KEYS = [
    *("id", "result", "error", "tools", "name", "content", "nextCursor", "message", "code", "resources", "uri"),
    *("contents", "text", "blob", "mimeType", "prompts", "arguments", "messages", "role", "capabilities"),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS) | st.text(max_size=3),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


METHODS = ["initialize", *[name.replace("/", "_") for name in GOOD if name.count("/") and "notif" not in name]]


@given(method=st.sampled_from(METHODS), odd=JSON, whole=st.booleans())
def test_whatever_comes_is_an_answer_or_a_trouble_of_ours(method: str, odd: Any, whole: bool) -> None:
    """Any JSON in place of an answer, or of its result."""
    rich = {**GREETING, "capabilities": {"tools": {}, "resources": {}, "prompts": {}}}
    one = ByHand(**{"initialize": result(rich), method: answer(odd) if whole else result(odd)})

    async def no_progress(progress: float, total: float | None, message: str | None) -> None:
        raise AssertionError(progress)

    async def main() -> None:
        try:
            async with open_host_session("odd", one.send, count(1), lambda: None) as link:
                for sort in McpListKind:
                    found, _ = await link.listed(sort)
                    for prompt in found if sort is McpListKind.PROMPTS else ():
                        format_prompt_hint(parse_prompt(prompt))
                assert isinstance(await link.call("hello", {}, no_progress), dict)
                with suppress(ToolError):  # it is empty
                    read_answer(await link.read("odd://one"), "")
                with suppress(ToolError):
                    build_prompt_content("mcp__odd__greet", "odd", await link.prompt("greet", {}))
        except (McpInvalidReplyError, McpRefusedError):
            pass

    asyncio.run(main())


# --- without the official client ------------------------------------------------------------------------------------

SESSION = """
import asyncio, json, sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("mcp", "mcp_types"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

if "hide" in sys.argv:
    sys.meta_path.insert(0, Hidden())

from mainspring.cli.flags import parse_arguments
from mainspring.agent.mcp import McpConfigInput, SessionMcpServers, load_mcp_config, new_servers
from mainspring.settings.values import Settings
from mainspring.tools.base import Workspace as Site
from mainspring.tools.toolset import Toolset
from mainspring.tools.builtin import BuiltinTools

RESULTS = json.loads(sys.argv[2])

async def send(name, message):
    return {"jsonrpc": "2.0", "id": message.get("id"), "result": RESULTS[message["method"]]}

async def main():
    cwd = sys.argv[1]
    found = load_mcp_config(McpConfigInput(parse_arguments(["--mcp-config", sys.argv[3]]).session, Settings(), {}, cwd,
        lambda: True))
    kit = BuiltinTools(Site(cwd), {"PATH": "/usr/bin:/bin"})
    servers = new_servers(found, kit, {}, is_away=lambda _: False, warn=lambda _: None, relay=send)
    wired = SessionMcpServers(servers, Toolset([], place=Site(cwd)))
    await wired.open(wait=True)
    answers = [await server.call("hello", {}, None) for server in servers.servers.values() if server.tools]
    told = {"states": wired.states(), "tools": wired.tools, "answers": answers, "status": servers.status()}
    await wired.close()
    await kit.close()
    heavy = {"mcp", "mcp_types", "anyio", "pydantic", "httpx2", "mainspring.mcp.client"}
    print(json.dumps({**told, "loaded": sorted(heavy & set(sys.modules))}))

asyncio.run(main())
"""


def session(folder: Path, servers: dict[str, Any], *more: str) -> dict[str, Any]:
    """A session of the command line's parts, in a process of its own."""
    from mcp_servers.driver import GOOD

    words = [str(folder), json.dumps(GOOD), json.dumps({"mcpServers": servers}), *more]
    done = subprocess.run(
        [sys.executable, "-c", SESSION, *words],
        capture_output=True,
        timeout=PATIENCE,
        env={**os.environ, "HOME": str(folder)},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("more", [(), ("hide",)])
def test_the_official_client_is_neither_loaded_nor_needed(tmp_path: Path, more: tuple[str, ...]) -> None:
    found = session(tmp_path, {"calc": {"type": "sdk", "name": "calc"}, "notes": {"type": "sdk"}}, *more)
    assert found["loaded"] == []
    assert found["states"] == [{"name": name, "status": "connected", "source": "sdk"} for name in ("calc", "notes")]
    assert found["tools"] == ["mcp__calc__hello", "mcp__notes__hello"]
    assert found["answers"] == [{"content": [{"type": "text", "text": "hello"}]}] * 2


def test_who_needs_the_official_client_says_so_and_the_others_go_on(tmp_path: Path) -> None:
    """The test above hides it indeed."""
    servers = {"calc": {"type": "sdk", "name": "calc"}, "far": {"command": sys.executable, "args": ["-c", "0"]}}
    found = session(tmp_path, servers, "hide")
    calc, far = found["status"]
    assert (calc["status"], far["status"]) == ("connected", "failed")
    assert far["error"].startswith("MCP servers need the package 'mcp' (No module named 'mcp")
    assert found["tools"] == ["mcp__calc__hello"]
