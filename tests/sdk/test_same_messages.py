"""One program, twice: with `claude-agent-sdk` and the command, and with our library alone. Both see the same.

`tests/pipe` is the longer proof: `make test` runs it with both libraries.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import claude_agent_sdk
import pytest
from pipe.stage import PROGRAM

import mainspring.sdk
from mainspring.simulator.replies import Refuse, Reply, Say
from mainspring.simulator.server import ModelServer
from sdk.stage import call

ID = re.compile(r"\ba[0-9a-f]{16}\b|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
ANY = {"duration_ms", "duration_api_ms", "end_time", "totalDurationMs"}  # what the clock says


async def told(sdk: ModuleType, folder: Path, replies: tuple[Reply, ...], **chosen: Any) -> list[Any]:
    async with ModelServer(list(replies)) as server:
        env = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-x", "IS_SANDBOX": "1"}
        env["CLAUDE_CONFIG_DIR"] = str(folder / "home")
        (folder / "work").mkdir(parents=True)
        options = sdk.ClaudeAgentOptions(cli_path=PROGRAM, cwd=folder / "work", env=env, **chosen)
        found: list[Any] = []
        try:
            async for message in sdk.query(prompt="go", options=options):
                found.append(message)
        except Exception as error:  # noqa: BLE001  # compared, too
            found.append(error)
        return found


def plain(value: Any, folder: Path) -> Any:
    """By value, without what differs from run to run."""
    if isinstance(value, mainspring.sdk.SystemMessage) and value.subtype.startswith("mainspring_"):
        value = claude_agent_sdk.SystemMessage(value.subtype, value.data)  # ours has the fields as attributes, too
    if is_dataclass(value) and not isinstance(value, type):
        return {"is": type(value).__name__} | plain(asdict(value), folder)
    if isinstance(value, Exception):
        return type(value).__name__
    if isinstance(value, dict):
        return {key: 0 if key in ANY else plain(item, folder) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item, folder) for item in value]
    return plain_text(value, str(folder)) if isinstance(value, str) else value


def plain_text(text: str, folder: str) -> str:
    """A session's folder is named by the one that it works in."""
    return ID.sub("ID", text).replace(folder, "").replace(re.sub(r"\W|_", "-", folder), "")


NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}}
AGENT = call("Task", description="d", prompt="p", subagent_type="general-purpose")
SHELL = call("Bash", command="echo hello")
CASES: dict[str, tuple[tuple[Reply, ...], dict[str, Any]]] = {
    "words": ((Say.of("Hi."),), {}),
    "a tool": ((Say.of("I look.", SHELL), Say.of("Done.")), {"allowed_tools": ["Bash"]}),
    "denied": ((Say.of(SHELL), Say.of("Pity.")), {"disallowed_tools": ["Bash(echo:*)"]}),
    "pieces": ((Say.of("Slowly."),), {"include_partial_messages": True}),
    "turns": ((Say.of(SHELL), Say.of(SHELL)), {"allowed_tools": ["Bash"], "max_turns": 1}),
    "refused": ((Refuse(400, "invalid_request_error", "nonsense"),), {}),
    "a shape": (
        (Say.of(call("StructuredOutput", n=1)),),
        {
            "output_format": {
                "type": "json_schema",
                "schema": {"type": "object", "properties": {"n": {"type": "integer"}}},
            }
        },
    ),
    "money": ((), {"max_budget_usd": 0.00001}),
    "an agent": (
        (
            Say.of(call("Task", description="d", prompt="p", subagent_type="general-purpose")),
            Say.of("A."),
            Say.of("B."),
        ),
        {},
    ),
}


@pytest.mark.covers("M-01", "M-02", "M-04", "M-07", "M-08", "M-09", "M-10", "M-16", "M-18", "M-19", "E-15")
@pytest.mark.parametrize("case", CASES)
def test_a_program_sees_the_same(case: str, tmp_path: Path) -> None:
    replies, chosen = CASES[case]
    theirs = asyncio.run(told(claude_agent_sdk, tmp_path / "theirs", replies, **chosen))
    ours = asyncio.run(told(mainspring.sdk, tmp_path / "ours", replies, **chosen))
    assert plain(ours, tmp_path / "ours") == plain(theirs, tmp_path / "theirs")
    assert len(ours) > 1


SHARED = sorted(set(claude_agent_sdk.__all__) & set(mainspring.sdk.__all__))


@pytest.mark.covers("M-11", "M-14")
@pytest.mark.parametrize("name", SHARED)
def test_the_fields_have_the_same_names_in_the_same_order(name: str) -> None:
    """Ours may have more, behind theirs; options are keywords, in any order."""
    theirs, ours = getattr(claude_agent_sdk, name), getattr(mainspring.sdk, name)
    if not (isinstance(theirs, type) and is_dataclass(theirs)):
        return
    known, here = [field.name for field in fields(theirs)], [field.name for field in fields(ours)]
    if name == "ClaudeAgentOptions":
        assert set(known) <= set(here)
    else:
        assert here[: len(known)] == known


def test_every_exported_name_exists() -> None:
    assert set(claude_agent_sdk.__all__) <= set(mainspring.sdk.__all__)
    for name in claude_agent_sdk.__all__:
        assert getattr(mainspring.sdk, name) is not None
