"""Messages of side calls in the library: one line per batch of tool calls, and a suggested next prompt."""

from __future__ import annotations

from pathlib import Path

from mainspring.sdk import (
    ClaudeSDKClient,
    PromptSuggestionMessage,
    ResultMessage,
    ToolUseSummaryMessage,
)
from mainspring.simulator.replies import ReceivedRequest, Reply, Say
from sdk.stage import Stage, call, play

FREE = {"permission_mode": "bypassPermissions"}


def choose(received: ReceivedRequest) -> Reply:
    if "haiku" not in str(received.body["model"]):
        return Say.of("Done. " * 80, pace_ms=10) if received.talk.results() else Say.of(call("Bash", command="echo hi"))
    is_summary = "tool calls that a coding agent made" in received.talk.prompt
    return Say.of("Printed a greeting" if is_summary else "next: now run the tests")


def test_they_are_sent_when_asked_for(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        told = await stage.ask(tool_use_summaries=True, prompt_suggestions=True, **FREE)
        [result] = [message for message in told if isinstance(message, ResultMessage)]
        [line] = [message for message in told if isinstance(message, ToolUseSummaryMessage)]
        last = told[-1]
        assert isinstance(last, PromptSuggestionMessage)
        assert told.index(line) < told.index(result) == len(told) - 2
        assert line == ToolUseSummaryMessage("Printed a greeting", ["toolu_Bash"], line.uuid, result.session_id)
        assert last == PromptSuggestionMessage("now run the tests", last.uuid, result.session_id)

    play(main, tmp_path, choose=choose)


def test_they_are_not_sent_by_default(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        told = await stage.ask(**FREE)
        assert not [one for one in told if isinstance(one, ToolUseSummaryMessage | PromptSuggestionMessage)]
        assert len(stage.server.requests) == 2

    play(main, tmp_path, choose=choose)


def test_a_client_reads_the_suggestion_after_the_response(tmp_path: Path) -> None:
    """`receive_response` ends with the result; the suggestion is among the messages after it."""

    async def main(stage: Stage) -> None:
        async with ClaudeSDKClient(stage.options(prompt_suggestions=True, **FREE)) as client:
            await client.query("go")
            told = [message async for message in client.receive_response()]
            assert isinstance(told[-1], ResultMessage)
            async for message in client.receive_messages():
                if isinstance(message, PromptSuggestionMessage):
                    break

    play(main, tmp_path, choose=choose)
