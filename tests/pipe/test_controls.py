"""What the client asks of the program between and inside turns. See stream-json 4."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest
from claude_agent_sdk import (
    ClaudeSDKClient,
    PermissionResultAllow,
    ToolPermissionContext,
    UserMessage,
    create_sdk_mcp_server,
    tool,
)
from claude_agent_sdk.types import TaskStartedMessage, TaskUpdatedMessage
from mcp.types import ToolAnnotations

from mainspring.simulator.replies import Say
from pipe.raw import prompt
from pipe.stage import Serve, Told, bash, call, exchange, response

CONTEXT_KEYS: dict[str, type | tuple[type, ...]] = {
    "categories": list,
    "totalTokens": int,
    "maxTokens": int,
    "rawMaxTokens": int,
    "percentage": (int, float),
    "model": str,
    "isAutoCompactEnabled": bool,
    "memoryFiles": list,
    "mcpTools": list,
    "agents": list,
    "gridRows": list,
}


@tool("add", "Adds.", {"a": int, "b": int})
async def add(given: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": str(given["a"] + given["b"])}]}


@tool("look", "Looks.", {}, annotations=ToolAnnotations(read_only_hint=True))
async def look(given: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": "seen"}]}


def calculator() -> dict[str, Any]:
    return {"calc": create_sdk_mcp_server("calc", "2.0.0", [add, look])}


# --- one by one -------------------------------------------------------------------------------------


def test_an_unknown_one(serve: Serve) -> None:
    """4: exactly one answer, an error that names it; an idle `interrupt` is answered and does nothing."""
    with serve().pipe() as pipe:
        pipe.initialize()
        said = pipe.control("make_coffee")
        assert (said["subtype"], said["error"]) == ("error", "Unsupported control request subtype: make_coffee")
        assert pipe.control("interrupt")["subtype"] == "success"
        assert pipe.rest() == []
        assert pipe.exit() == 0


@pytest.mark.covers("N-12")
def test_modes(serve: Serve) -> None:
    """4: `set_permission_mode` answers the mode and works from then on; a wrong one is an error, and so is
    `bypassPermissions` in a session that was not started so."""
    stage = serve(Say.of(call("Write", file_path="a.txt", content="x")), Say.of("Done."))
    with stage.pipe() as pipe:
        pipe.initialize()
        assert pipe.control("set_permission_mode", mode="acceptEdits")["response"]["mode"] == "acceptEdits"
        assert pipe.control("set_permission_mode", mode="sometimes")["subtype"] == "error"
        assert pipe.control("set_permission_mode", mode="bypassPermissions")["subtype"] == "error"
        pipe.turn("write")
        assert pipe.finish() == 0
    assert pipe.of("system/init")[0]["permissionMode"] == "acceptEdits"
    assert (stage.folder / "a.txt").read_text() == "x"


def test_models(serve: Serve) -> None:
    """4: `set_model` answers what the name stands for; the next call uses it; `null` is the default again."""
    stage = serve(*[Say.of("Hi.")] * 3)
    with stage.pipe("--model", "claude-opus-5") as pipe:
        pipe.initialize()
        assert pipe.control("set_model", model="claude-sonnet-5")["response"]["model"] == "claude-sonnet-5"
        pipe.turn("one")
        alias = pipe.control("set_model", model="haiku")["response"]["model"]
        pipe.turn("two")
        assert pipe.control("set_model", model=None)["subtype"] == "success"
        pipe.turn("three")
        assert pipe.finish() == 0
    models = [received.body["model"] for received in stage.requests]
    assert models[:2] == ["claude-sonnet-5", alias]
    assert models[2] != alias
    assert [frame["model"] for frame in pipe.of("system/init")] == models


def test_how_the_context_is_used(serve: Serve) -> None:
    """4: `get_context_usage` has every key of the caller's types, before and behind a turn."""
    stage = serve(Say.of("Hi."))
    usages: list[Any] = []

    async def main(client: ClaudeSDKClient) -> None:
        usages.append(await client.get_context_usage())
        await exchange(client, "hello " * 500)
        usages.append(await client.get_context_usage())

    stage.talk(main, model="claude-opus-5")
    for usage in usages:
        assert {name for name, kind in CONTEXT_KEYS.items() if not isinstance(usage.get(name), kind)} == set()
        assert all(isinstance(each["tokens"], int) and each["name"] and each["color"] for each in usage["categories"])
        assert 0 <= usage["percentage"] <= 100
        assert usage["model"] == "claude-opus-5"
    assert usages[1]["totalTokens"] > 0


def test_the_context_is_that_of_the_model_that_was_set(serve: Serve) -> None:
    """At once, and not only behind the next reply; and the default's again when it is set back."""
    stage = serve(*[Say.of("Hi.")] * 2)
    seen: dict[str, list[Any]] = {}

    async def main(client: ClaudeSDKClient) -> None:
        async def look(when: str) -> None:
            usage = await client.get_context_usage()
            seen[when] = [usage["model"], usage["maxTokens"], usage.get("autoCompactThreshold")]

        await exchange(client, "one")
        await look("first")
        await client.set_model("claude-haiku-4-5")
        await look("at once")
        await exchange(client, "two")
        await look("behind a turn")
        await client.set_model(None)
        await look("set back")

    stage.talk(main, model="claude-opus-5")
    assert seen["first"][0] == "claude-opus-5"
    assert seen["at once"][0] == "claude-haiku-4-5"
    assert seen["at once"] == seen["behind a turn"] == ["claude-haiku-4-5", 200_000, 167_000]
    assert seen["set back"] == seen["first"]
    assert seen["first"][1] > 200_000


def test_servers_their_state_and_their_switch(serve: Serve) -> None:
    """4: `mcp_status`, `mcp_toggle`, `mcp_reconnect`."""
    stage = serve(Say.of("Hi."), Say.of("Hi."))
    servers = {**calculator(), "bad": {"command": "/no/such/program", "args": []}}

    async def main(client: ClaudeSDKClient) -> None:
        first = await exchange(client, "hello")
        shown = {server["name"]: server for server in (await client.get_mcp_status())["mcpServers"]}
        calc, bad = shown["calc"], shown["bad"]
        assert (calc["status"], bad["status"]) == ("connected", "failed")
        assert calc["serverInfo"] == {"name": "calc", "version": "2.0.0"}
        assert {each["name"]: each.get("annotations", {}).get("readOnly", False) for each in calc["tools"]} == {
            "add": False,
            "look": True,
        }
        assert bad["error"]
        assert "mcp__calc__add" in first.init["tools"]
        await client.toggle_mcp_server("calc", enabled=False)
        assert (await states(client))["calc"] == "disabled"
        second = await exchange(client, "again")
        assert "mcp__calc__add" not in second.init["tools"]
        await client.toggle_mcp_server("calc", enabled=True)
        assert (await states(client))["calc"] == "connected"
        with pytest.raises(Exception, match="nobody"):
            await client.toggle_mcp_server("nobody", enabled=True)
        for name in ("bad", "nobody"):
            with pytest.raises(Exception, match=r"."):
                await client.reconnect_mcp_server(name)

    stage.talk(main, mcp_servers=servers)


async def states(client: ClaudeSDKClient) -> dict[str, str]:
    return {server["name"]: server["status"] for server in (await client.get_mcp_status())["mcpServers"]}


def test_files_are_rewound(serve: Serve) -> None:
    """4: every file our tools changed is as it was at that prompt; files made since are gone."""
    stage = serve(
        Say.of(call("Write", "new", file_path="new.txt", content="new"), call("Read", file_path="old.txt")),
        Say.of(call("Edit", file_path="old.txt", old_string="was", new_string="is")),
        Say.of("Done."),
    )
    (stage.folder / "old.txt").write_text("it was")

    async def main(client: ClaudeSDKClient) -> None:
        told = await exchange(client, "change")
        assert (stage.folder / "old.txt").read_text() == "it is"
        assert (stage.folder / "new.txt").exists()
        with pytest.raises(Exception, match=r"."):
            await client.rewind_files(str(uuid.uuid4()))
        [echo] = [message for message in told.of(UserMessage) if message.content == "change"]
        assert echo.uuid is not None
        await client.rewind_files(echo.uuid)

    stage.talk(
        main,
        permission_mode="bypassPermissions",
        enable_file_checkpointing=True,
        extra_args={"replay-user-messages": None},
    )
    assert (stage.folder / "old.txt").read_text() == "it was"
    assert not (stage.folder / "new.txt").exists()


def test_rewinding_must_be_asked_for(serve: Serve) -> None:
    """4: an error where checkpoints are not enabled."""
    stage = serve(Say.of("Hi."))
    with stage.pipe() as pipe:
        pipe.initialize()
        id = str(uuid.uuid4())
        pipe.turn("hello", uuid=id)
        assert pipe.control("rewind_files", user_message_id=id)["subtype"] == "error"


def test_a_task_is_stopped(serve: Serve) -> None:
    """4, 6.6: `stop_task` kills a background shell; its terminal frame comes; an unknown id is no trouble."""
    stage = serve(Say.of(bash("sleep 60", run_in_background=True)), *[Say.of("Started.")] * 3)

    async def main(client: ClaudeSDKClient) -> None:
        [started] = (await exchange(client, "start")).of(TaskStartedMessage)
        assert started.task_type == "local_bash"
        await client.stop_task("nobody")
        await client.stop_task(started.task_id)
        async for message in client.receive_messages():
            if isinstance(message, TaskUpdatedMessage) and message.status is not None:
                assert (message.task_id, message.status) == (started.task_id, "killed")
                break

    stage.talk(main, permission_mode="bypassPermissions")


# --- in the middle of a turn ------------------------------------------------------------------------


def test_all_are_answered_while_a_question_is_open(serve: Serve) -> None:
    """4, 7 rule 8: at any time, also while a permission request waits; a mode and a model work inside the turn."""
    stage = serve(Say.of(bash("touch made"), call("Write", file_path="a.txt", content="x")), Say.of("Done."))
    asked: list[str] = []
    told: list[Told] = []

    async def main(client: ClaudeSDKClient) -> None:
        open, go_on = asyncio.Event(), asyncio.Event()

        async def allow(name: str, input: dict[str, Any], context: ToolPermissionContext) -> PermissionResultAllow:
            asked.append(name)
            open.set()
            await go_on.wait()
            return PermissionResultAllow()

        gate.append(allow)
        await client.query("make")
        await open.wait()
        await client.set_model("claude-sonnet-5")
        assert (await client.get_context_usage())["categories"] is not None
        assert await states(client) == {"calc": "connected"}
        await client.set_permission_mode("acceptEdits")
        with pytest.raises(Exception, match=r"."):
            await client.rewind_files(str(uuid.uuid4()))
        await client.stop_task("nobody")
        go_on.set()
        told.append(await response(client))

    gate: list[Any] = []

    async def ask(name: str, input: dict[str, Any], context: ToolPermissionContext) -> PermissionResultAllow:
        answer: PermissionResultAllow = await gate[0](name, input, context)
        return answer

    stage.talk(main, can_use_tool=ask, mcp_servers=calculator(), model="claude-opus-5")
    assert asked == ["Bash"]  # the mode of edits was there before the second call was
    assert told[0].result.result == "Done."
    assert stage.requests[-1].body["model"] == "claude-sonnet-5"
    assert (stage.folder / "a.txt").read_text() == "x"


def test_answers_while_the_model_speaks(serve: Serve) -> None:
    """4: quickly, long before the reply is complete; each request has one answer."""
    stage = serve(Say.of("One two three four five six seven eight nine ten.", pace_ms=150))
    with stage.pipe("--include-partial-messages") as pipe:
        pipe.initialize()
        pipe.send(prompt("speak"))
        pipe.until("stream_event")
        ids = [pipe.request(name) for name in ("mcp_status", "get_context_usage", "make_coffee")]
        for id in ids:
            pipe.answer_to(id)
        assert "result" not in pipe.kinds
        pipe.result()
        assert pipe.finish() == 0
    answered = [frame["response"]["request_id"] for frame in pipe.of("control_response")]
    assert sorted(answered) == sorted(set(answered))


def test_a_change_of_mode_is_told(serve: Serve) -> None:
    """4 [O]: a `status` frame with the new mode."""
    with serve().pipe() as pipe:
        pipe.initialize()
        pipe.request("set_permission_mode", mode="plan")
        assert pipe.until("system/status")["permissionMode"] == "plan"
