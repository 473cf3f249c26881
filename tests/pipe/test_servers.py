"""MCP servers, above all those in the client's process. See stream-json 5.3 and 11."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from typing import Any

import pytest
from claude_agent_sdk import AssistantMessage, ClaudeSDKClient, UserMessage, create_sdk_mcp_server, tool
from mcp.types import ToolAnnotations

from mainspring.simulator.replies import ReceivedRequest, Reply, Say
from pipe.raw import LIMIT, Frame
from pipe.stage import Serve, Stage, Told, call, exchange, response, words
from pipe.test_handshake import PIXEL

ECHO = """
import json, sys
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOL = {"name": "echo", "description": "Echoes.", "inputSchema": SCHEMA}
for line in sys.stdin:
    asked = json.loads(line)
    params = asked.get("params") or {}
    answers = {
        "initialize": {
            "protocolVersion": params.get("protocolVersion"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "echo", "version": "1"},
        },
        "tools/list": {"tools": [TOOL]},
        "tools/call": {"content": [{"type": "text", "text": "echoed " + str(params.get("arguments", {}).get("text"))}]},
    }
    if "id" not in asked:
        continue
    known = asked["method"] in answers
    said = {"result": answers[asked["method"]]} if known else {"error": {"code": -32601, "message": "no such method"}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}), flush=True)
"""


def text(said: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said}]}


@tool("add", "Adds two numbers.", {"a": int, "b": int})
async def add(given: dict[str, Any]) -> dict[str, Any]:
    return text(str(given["a"] + given["b"]))


@tool("fail", "Fails.", {})
async def fail(given: dict[str, Any]) -> dict[str, Any]:
    return {**text("it is broken"), "is_error": True}


@tool("blow up", "Raises.", {})
async def blow_up(given: dict[str, Any]) -> dict[str, Any]:
    raise ValueError("it blew up")


@tool("draw", "Draws.", {})
async def draw(given: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "image", "data": base64.b64encode(PIXEL).decode(), "mimeType": "image/png"}]}


@tool("flood", "Says too much.", {})
async def flood(given: dict[str, Any]) -> dict[str, Any]:
    return text("w" * 2_500_000)


def calc(*tools: Any) -> dict[str, Any]:
    return {"calc": create_sdk_mcp_server("calc", "2.0.0", [*tools])}


FREE = {"permission_mode": "bypassPermissions"}


@pytest.mark.covers("N-09")
def test_tools_of_the_callers_process(serve: Serve) -> None:
    """11: results, errors, images; `init` shows the server connected and its tools by full name."""
    names = ["add", "fail", "blow_up", "draw"]
    stage = serve(
        Say.of(*[call(f"mcp__calc__{name}", name, **({"a": 2, "b": 3} if name == "add" else {})) for name in names]),
        Say.of("Done."),
    )
    told = stage.ask("go", mcp_servers=calc(add, fail, blow_up, draw), allowed_tools=["mcp__calc"])
    assert (told.error, told.result.result, told.stderr) == (None, "Done.", [])
    [server] = [each for each in told.init["mcp_servers"] if each["name"] == "calc"]
    assert server["status"] == "connected"
    assert {f"mcp__calc__{name}" for name in names} <= set(told.init["tools"])
    outcomes = {block.tool_use_id.removeprefix("toolu_"): block for block in told.outcomes}
    assert (bool(outcomes["add"].is_error), "5" in words(outcomes["add"])) == (False, True)
    assert (outcomes["fail"].is_error, "it is broken" in words(outcomes["fail"])) == (True, True)
    assert (outcomes["blow_up"].is_error, "it blew up" in words(outcomes["blow_up"])) == (True, True)
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PIXEL).decode()}
    assert source in [block.get("source") for block in outcomes["draw"].content or [] if isinstance(block, dict)]
    assert source["data"] in stage.said(1)


def test_the_handshake_on_the_wire(serve: Serve) -> None:
    """5.3, 11, 3.1: `initialize`, `notifications/initialized`, `tools/list`, and nothing else before the answer."""
    stage = serve(Say.of(call("mcp__calc__add", a=2, b=3)), Say.of("Done."))
    heard: list[Frame] = []

    def answer(frame: Frame) -> Frame | None:
        request = frame["request"]
        if request["subtype"] != "mcp_message":
            return None
        assert request["server_name"] == "calc"
        message = request["message"]
        heard.append(message)
        return {
            "mcp_response": {"jsonrpc": "2.0", "id": message.get("id"), "result": SERVED.get(message["method"], {})}
        }

    config = json.dumps({"mcpServers": {"calc": {"type": "sdk", "name": "calc"}}})
    with stage.pipe("--mcp-config", config, "--allowedTools", "mcp__calc__add") as pipe:
        pipe.answer = answer
        pipe.initialize()
        assert set(pipe.kinds) <= {"control_request", "control_response"}
        assert pipe.turn("go")["result"] == "Done."
        assert pipe.finish() == 0
    methods = [message["method"] for message in heard]
    assert methods[:3] == ["initialize", "notifications/initialized", "tools/list"]
    assert {"protocolVersion", "capabilities", "clientInfo"} <= set(heard[0]["params"])
    assert "id" not in heard[1]
    assert heard[-1]["params"]["name"] == "add"
    assert heard[-1]["params"]["arguments"] == {"a": 2, "b": 3}
    ids = [message["id"] for message in heard if "id" in message]
    assert len(ids) == len(set(ids))
    assert pipe.of("system/init")[0]["mcp_servers"][0]["status"] == "connected"


SERVED: dict[str, Frame] = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "calc", "version": "2.0.0"},
    },
    "tools/list": {
        "tools": [
            {
                "name": "add",
                "description": "Adds.",
                "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
            }
        ]
    },
    "tools/call": {"content": [{"type": "text", "text": "5"}]},
}


def test_a_server_that_fails_the_handshake(serve: Serve) -> None:
    """11: it is `failed`, and the run goes on, with the other one."""
    stage = serve(Say.of("Hi."))

    def answer(frame: Frame) -> Frame | None:
        request = frame["request"]
        message = request["message"]
        if request["server_name"] == "bad":
            error = {"code": -32603, "message": "no"}
            return {"mcp_response": {"jsonrpc": "2.0", "id": message.get("id"), "error": error}}
        return {
            "mcp_response": {"jsonrpc": "2.0", "id": message.get("id"), "result": SERVED.get(message["method"], {})}
        }

    config = json.dumps({"mcpServers": {name: {"type": "sdk", "name": name} for name in ("bad", "calc")}})
    with stage.pipe("--mcp-config", config) as pipe:
        pipe.answer = answer
        pipe.initialize()
        assert pipe.turn("hello")["result"] == "Hi."
        assert pipe.finish() == 0
    [init] = pipe.of("system/init")
    assert {server["name"]: server["status"] for server in init["mcp_servers"]} == {
        "bad": "failed",
        "calc": "connected",
    }


def test_a_result_that_is_too_long(serve: Serve) -> None:
    """1.4, 11: kept below the limit of a line."""
    stage = serve(Say.of(call("mcp__calc__flood")), Say.of("Done."))
    told = stage.ask("go", mcp_servers=calc(flood), **FREE)
    assert (told.error, told.result.result) == (None, "Done.")
    assert len(words(told.outcomes[0])) < LIMIT


def test_calls_that_may_run_together(serve: Serve) -> None:
    """11: `readOnlyHint` marks a tool that may run in parallel."""
    here: list[int] = []
    all_here = asyncio.Event()

    @tool("look", "Looks.", {"n": int}, annotations=ToolAnnotations(read_only_hint=True))
    async def look(given: dict[str, Any]) -> dict[str, Any]:
        here.append(given["n"])
        if len(here) == 3:
            all_here.set()
        async with asyncio.timeout(10):
            await all_here.wait()
        return text("seen")

    stage = serve(Say.of(*[call("mcp__calc__look", f"l{n}", n=n) for n in range(3)]), Say.of("Done."))
    told = stage.ask("look", mcp_servers=calc(look), **FREE)
    assert [bool(block.is_error) for block in told.outcomes] == [False] * 3


def test_an_interrupt_cancels_the_call(serve: Serve) -> None:
    """11: the server is told; the session goes on."""
    stage = serve(Say.of(call("mcp__calc__wait")), Say.of("Again."))
    began, cancelled = asyncio.Event(), asyncio.Event()

    @tool("wait", "Waits.", {})
    async def wait(given: dict[str, Any]) -> dict[str, Any]:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        raise AssertionError

    async def main(client: ClaudeSDKClient) -> None:
        await client.query("wait")
        await began.wait()
        await client.interrupt()
        told = await response(client)
        assert told.result.terminal_reason == "aborted_tools"
        await cancelled.wait()
        assert (await exchange(client, "again")).result.result == "Again."

    stage.talk(main, mcp_servers=calc(wait), **FREE)


def test_a_server_in_a_process_of_its_own(serve: Serve) -> None:
    """11, 1.2: a stdio entry of `mcp_servers`; the first turn waits for it; names of tools are made safe."""
    stage = serve(Say.of(call("mcp__my_echo__echo", text="this")), Say.of("Done."))
    script = stage.folder / "echo.py"
    script.write_text(ECHO)
    servers = {"my echo": {"command": sys.executable, "args": [str(script)]}}
    told = stage.ask("go", mcp_servers=servers, strict_mcp_config=True, **FREE)
    assert "echoed this" in words(told.outcomes[0])
    assert [server["status"] for server in told.init["mcp_servers"]] == ["connected"]
    assert "mcp__my_echo__echo" in told.init["tools"]


def test_a_call_without_a_word_of_it_in_the_request(serve: Serve) -> None:
    """17.19: MCP tools may be loaded on demand, yet a call by name works."""
    stage = serve(Say.of(call("mcp__calc__add", a=1, b=2)), Say.of("Done."))
    told = stage.ask("go", mcp_servers=calc(add), **FREE)
    assert "3" in words(told.outcomes[0])


# --- servers that take their time -------------------------------------------------------------------

LATE = """
import os, sys, time
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
"""


def late_server(stage: Stage) -> dict[str, Any]:
    """It does not answer before the file `open` is there."""
    return {"late": {"command": sys.executable, "args": ["-c", LATE + ECHO, str(stage.folder / "open")]}}


def test_a_call_waits_for_a_server_that_is_still_connecting(serve: Serve) -> None:
    """11: the first turn does not wait for ever; a call of a tool that it knows of, as after a resume, waits for the
    server. So does that of an agent, and of two calls at once each has its result."""
    agent = call("Agent", description="x", prompt="the errand", run_in_background=False)
    calls = [call("mcp__late__echo", name, text=name) for name in ("one", "two")]

    def choose(received: ReceivedRequest) -> Reply:
        said = json.dumps(received.body["messages"])
        if "the errand" in said and "toolu_Agent" not in said:
            return Say.of("Reported.") if received.talk.results() else Say.of(call("mcp__late__echo", "in", text="in"))
        if not received.talk.results():
            return Say.of(agent, *calls)
        return Say.of("Done.")

    stage = serve(choose=choose)
    told: list[Told] = []

    async def main(client: ClaudeSDKClient) -> None:
        await client.query("go")
        async for message in client.receive_messages():
            if isinstance(message, AssistantMessage):  # the model was asked: the first turn has waited in vain
                break
        (stage.folder / "open").touch()
        told.append(await response(client))

    stage.talk(main, mcp_servers=late_server(stage), **FREE)
    outcomes = {block.tool_use_id: (bool(block.is_error), words(block)) for block in told[0].outcomes}
    for name in ("one", "two"):
        failed, said = outcomes[f"toolu_{name}"]
        assert (failed, f"echoed {name}" in said) == (False, True)
    assert any("echoed in" in json.dumps(request.body["messages"]) for request in stage.requests)


@pytest.mark.long
def test_a_call_of_a_server_that_never_connects(serve: Serve) -> None:
    """11: it waits as long as connecting may take, and then says what is wrong with the server."""
    stage = serve(Say.of(call("mcp__late__echo", text="x")), Say.of("A pity."))
    told = stage.ask("go", mcp_servers=late_server(stage), env={"MCP_TIMEOUT": "6000"}, **FREE)
    [block] = told.outcomes
    assert (block.is_error, told.result.result) == (True, "A pity.")
    assert "the MCP server 'late' cannot be used" in words(block)


@pytest.mark.long
def test_an_interrupt_ends_the_wait(serve: Serve) -> None:
    first = call("TaskList", "toolu_first")  # its result tells that the calls have begun
    stage = serve(Say.of(first, call("mcp__late__echo", text="x")), Say.of("Again."))
    told: list[Told] = []

    async def main(client: ClaudeSDKClient) -> None:
        await client.query("go")
        async for message in client.receive_messages():
            if isinstance(message, UserMessage):
                break
        await client.interrupt()
        told.append(await response(client))
        told.append(await exchange(client, "again"))

    stage.talk(main, mcp_servers=late_server(stage), **FREE)
    ended, again = [one.result.terminal_reason for one in told]
    assert ended in ("aborted_tools", "aborted_streaming")  # the first call may be done before the reply has ended
    assert again == "completed"


# --- what is told of them ---------------------------------------------------------------------------

SECRET = "hunter2-is-no-password"


def test_the_status_has_the_configuration_and_the_error(serve: Serve) -> None:
    """4: each server's `config`, as `McpServerStatus` of the client has it, without its secrets."""
    stage = serve(Say.of("Hi."))
    servers: dict[str, Any] = {
        **calc(add),
        "bad": {
            "command": "/no/such/program",
            "args": ["--token", SECRET, f"--api-key={SECRET}", "--verbose"],
            "env": {"API_TOKEN": SECRET, "COLOR": "no"},
        },
        "far": {
            "type": "http",
            "url": f"http://name:{SECRET}@127.0.0.1:9/mcp?access_token={SECRET}&page=1",
            "headers": {"Authorization": f"Bearer {SECRET}", "X-Api-Key": SECRET, "Accept": "text/plain"},
        },
        "old": {"type": "sse", "url": "http://127.0.0.1:9/sse"},
    }
    shown: dict[str, Any] = {}

    async def main(client: ClaudeSDKClient) -> None:
        shown["before"] = await client.get_mcp_status()
        await exchange(client, "hello")
        shown["after"] = await client.get_mcp_status()

    stage.talk(main, mcp_servers=servers)
    assert SECRET not in json.dumps(shown)
    by_name = {server["name"]: server for server in shown["after"]["mcpServers"]}
    assert {name: server["config"] for name, server in by_name.items()} == {
        "calc": {"type": "sdk", "name": "calc"},
        "bad": {
            "type": "stdio",
            "command": "/no/such/program",
            "args": ["--token", "[redacted]", "--api-key=[redacted]", "--verbose"],
            "env": {"API_TOKEN": "[redacted]", "COLOR": "no"},
        },
        "far": {
            "type": "http",
            "url": "http://[redacted]@127.0.0.1:9/mcp?access_token=[redacted]&page=[redacted]",
            "headers": {"Authorization": "[redacted]", "X-Api-Key": "[redacted]", "Accept": "text/plain"},
        },
        "old": {"type": "sse", "url": "http://127.0.0.1:9/sse"},
    }
    assert {name: server["status"] for name, server in by_name.items()} == {
        "calc": "connected",
        "bad": "failed",
        "far": "failed",
        "old": "failed",
    }
    assert all(by_name[name]["error"] for name in ("bad", "far", "old"))
    assert "error" not in by_name["calc"]
    assert by_name["calc"]["tools"] == [{"name": "add", "description": "Adds two numbers.", "annotations": {}}]
