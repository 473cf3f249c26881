"""Permission mode auto through the real SDKs: both accept the mode, and a call that the classifier allows runs without
asking the program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import PermissionResultDeny

from mainspring.simulator.replies import ReceivedRequest, Reply, Say
from pipe.stage import Serve, Stage, call
from pipe.typescript import Client

CLASSIFIER = "</call>"  # in every question to it


def answer(received: ReceivedRequest) -> Reply:
    """Two files; the classifier allows the first."""
    if CLASSIFIER in received.talk.prompt:
        return Say.of("ALLOW: the user asked for it" if "first" in received.talk.prompt else "ASK: it is not asked for")
    done = len(received.talk.results())
    if done == 2:
        return Say.of("Done.")
    return Say.of(call("Write", f"{done}", file_path=("first", "second")[done], content="x\n"))


def check(stage: Stage) -> None:
    assert [(stage.folder / name).exists() for name in ("first", "second")] == [True, False]
    assert sum(CLASSIFIER in request.talk.prompt for request in stage.requests) == 2


@pytest.mark.of_the_pipe
@pytest.mark.covers("N-15")
def test_the_python_sdk(serve: Serve) -> None:
    stage, asked = serve(choose=answer), list[str]()

    async def deny(tool: str, input: dict[str, Any], _: object) -> PermissionResultDeny:
        asked.append(input["file_path"])
        return PermissionResultDeny(message="no")

    async def prompts() -> Any:
        yield {"type": "user", "session_id": "", "message": {"role": "user", "content": "Make it."}}

    told = stage.ask(prompts(), permission_mode="auto", can_use_tool=deny)
    assert (told.error, told.result.subtype, told.init["permissionMode"]) == (None, "success", "auto")
    assert [Path(name).name for name in asked] == ["second"]
    check(stage)


@pytest.mark.long
@pytest.mark.of_the_pipe
@pytest.mark.covers("N-15")
def test_the_typescript_sdk(serve: Serve, tmp_path: Path) -> None:
    stage = serve(choose=answer)
    with Client(stage, tmp_path, "Make it.", permissionMode="auto") as client:
        frames = client.read_all()
    assert (client.code, frames[-1]["subtype"]) == (0, "success")
    assert [denied["tool_input"]["file_path"] for denied in frames[-1]["permission_denials"]] == ["second"]
    [init] = [frame for frame in frames if frame.get("subtype") == "init"]
    assert init["permissionMode"] == "auto"
    check(stage)
