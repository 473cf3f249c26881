"""Claude Code, as claude-agent-sdk bundles it, against our server: no 400 for what the API accepts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import claude_agent_sdk
import pytest
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ResultMessage
from tiers import long

from mainspring.simulator.replies import ReceivedRequest, Say
from mainspring.simulator.server import ModelServer

BUNDLED = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
SHELL = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "echo hello"}}
# what the newest requests have that older servers refuse
NEW_PARTS = {"output_config on a message", "display updates", "clear_thinking_20251015", "system message"}

needs_claude_code = pytest.mark.skipif(not BUNDLED.exists(), reason="this build of claude-agent-sdk bundles no program")


def answer(request: ReceivedRequest) -> Say:
    return Say.of("Done.") if "tool_result" in str(request.body["messages"]) else Say.of(SHELL)


async def converse(model: str, folder: Path) -> tuple[list[str | None], ModelServer]:
    """Two prompts, with a command in the first."""
    async with ModelServer(choose=answer) as server:
        env = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-x", "CLAUDE_CONFIG_DIR": str(folder / "home")}
        env |= {"IS_SANDBOX": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        options = ClaudeAgentOptions(cli_path=BUNDLED, cwd=folder, env=env, model=model, allowed_tools=["Bash"])
        results: list[str | None] = []
        async with ClaudeSDKClient(options) as client:
            for prompt in ("Run it.", "And again?"):
                await client.query(prompt)
                async for message in client.receive_response():
                    if isinstance(message, ResultMessage):
                        results.append(message.result)
        return results, server


def new_parts(request: ReceivedRequest) -> set[str]:
    body, parts = request.body, set[str]()
    parts |= {"system message" for message in body["messages"] if message["role"] == "system"}
    parts |= {"output_config on a message" for message in body["messages"] if "output_config" in message}
    managed: dict[str, Any] = body.get("context_management") or {}
    parts |= {edit["type"] for edit in managed.get("edits", [])}
    return parts | ({"display updates"} if body["thinking"].get("display") == "updates" else set())


@needs_claude_code
@pytest.mark.parametrize(
    "model",
    [
        "claude-sonnet-5-5",
        long("claude-opus-5-5"),
        long("claude-haiku-5-5"),
        long("claude-fable-5-1"),
        long("claude-sonnet-5"),
        long("claude-opus-5"),
        "claude-haiku-4-5",
    ],
)
def test_a_conversation_is_never_refused(model: str, tmp_path: Path) -> None:
    results, server = asyncio.run(asyncio.wait_for(converse(model, tmp_path), 60))
    assert [violation.said for violation in server.violations] == []
    assert results == ["Done.", "Done."]
    if model == "claude-sonnet-5-5":
        assert set().union(*map(new_parts, server.requests)) == NEW_PARTS
