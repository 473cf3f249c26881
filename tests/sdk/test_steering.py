"""Prompts that join the turn under way, within the program: `Client.submit` and `Client.withdraw`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mainspring.sdk import AssistantMessage, Client, Message, ResultMessage, SystemMessage, ToolUseBlock
from mainspring.simulator.replies import Say
from sdk.stage import Stage, call, play


def is_call(message: Message) -> bool:
    return isinstance(message, AssistantMessage) and any(isinstance(block, ToolUseBlock) for block in message.content)


def said(stage: Stage, number: int) -> str:
    return str(stage.server.requests[number].body["messages"])


@pytest.mark.covers("O-04")
def test_a_prompt_joins_the_turn_and_another_is_withdrawn(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        seen: list[Message] = []
        async with Client(stage.options(permission_mode="bypassPermissions")) as client:
            await client.query("go")
            async for message in client.receive_response():
                seen.append(message)
                if is_call(message):
                    kept = await client.submit("Also look there.", delivery="steer")
                    dropped = await client.submit(
                        {"message": {"role": "user", "content": "Not this."}}, delivery="steer"
                    )
                    later = await client.submit("Nor that.")
                    assert await client.withdraw(dropped)
                    assert await client.withdraw(later)
                    assert not await client.withdraw(later)
                    (stage.folder / "go").touch()
            assert not await client.withdraw(kept)
        told = [message.data for message in seen if isinstance(message, SystemMessage)]
        ours = [data for data in told if data["subtype"] == "mainspring_prompt"]
        assert [(data["prompt_id"], data["status"]) for data in ours] == [
            (kept, "queued"),
            (dropped, "queued"),
            (kept, "delivered"),
        ]
        assert len(stage.server.requests) == 2
        assert "Also look there." not in said(stage, 0)
        assert said(stage, 1).count("Also look there.") == 1
        assert not any(text in said(stage, 1) for text in ("Not this.", "Nor that."))

    wait = "for n in $(seq 2000); do [ -e go ] && exit; sleep 0.02; done"
    play(main, tmp_path, Say.of(call("Bash", command=wait)), Say.of("Done."))


def test_by_default_a_prompt_is_a_turn_of_its_own(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        async with Client(stage.options(permission_mode="bypassPermissions")) as client:
            await client.query("go")
            await client.submit("And then?")
            for _ in range(2):
                messages = [message async for message in client.receive_response()]
                assert isinstance(messages[-1], ResultMessage)
                assert not any(
                    isinstance(one, SystemMessage) and one.subtype == "mainspring_prompt" for one in messages
                )
        assert len(stage.server.requests) == 2

    play(main, tmp_path, Say.of("One."), Say.of("Two."))


def test_a_steered_message_of_a_stream_of_prompts(tmp_path: Path) -> None:
    """`delivery` is a field of the message, as on the pipe."""

    async def main(stage: Stage) -> None:
        began = asyncio.Event()

        async def prompts() -> AsyncIterator[dict[str, Any]]:
            yield {"type": "user", "message": {"role": "user", "content": "go"}}
            await began.wait()
            steered = {"role": "user", "content": "Also look there."}
            yield {"type": "user", "message": steered, "delivery": "steer", "uuid": "own-id"}
            (stage.folder / "go").touch()

        async with Client(stage.options(permission_mode="bypassPermissions")) as client:
            await client.query(prompts())
            async for message in client.receive_response():
                if is_call(message):
                    began.set()
        assert (len(stage.server.requests), said(stage, 1).count("Also look there.")) == (2, 1)

    wait = "for n in $(seq 2000); do [ -e go ] && exit; sleep 0.02; done"
    play(main, tmp_path, Say.of(call("Bash", command=wait)), Say.of("Done."))
