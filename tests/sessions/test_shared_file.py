"""A session that the real Claude Code and we write in turns: each resume shows the model all that was said."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from mainspring.simulator.replies import ReceivedRequest, Reply, Say
from sessions.shared import OURS, THEIRS, TOOL, SharedSession, is_for_a_summary, needs_claude_code, staying

pytestmark = needs_claude_code


@pytest.mark.parametrize(
    "plan",
    [
        [(THEIRS, ""), (OURS, TOOL), (THEIRS, TOOL), (OURS, ""), (THEIRS, "")],
        [(OURS, ""), (THEIRS, TOOL), (THEIRS, ""), (OURS, ""), (OURS, TOOL), (THEIRS, "")],
    ],
)
def test_turns_of_both_programs_are_shown_to_the_model_of_either(tmp_path: Path, plan: list[tuple[str, str]]) -> None:
    async def scene() -> None:
        session = SharedSession(tmp_path)
        async with session.server:
            for who, more in plan:
                await session.turn(who, more)

    asyncio.run(scene())


def test_the_default_model_of_claude_code_says_more_to_the_model_and_all_is_shown(tmp_path: Path) -> None:
    """It sends system messages in mid-conversation, and its thinking is bound to them."""

    async def scene() -> None:
        session = SharedSession(tmp_path, "claude-opus-5-5")
        async with session.server:
            for who, more in ((THEIRS, TOOL), (OURS, TOOL), (THEIRS, ""), (OURS, "")):
                await session.turn(who, more)

    asyncio.run(scene())


def test_a_summary_of_claude_code_replaces_what_it_stands_for(tmp_path: Path) -> None:
    async def scene() -> None:
        session = SharedSession(tmp_path)
        async with session.server:
            await session.turn(OURS, TOOL)
            await session.turn(THEIRS)
            await session.compact(THEIRS)
            await session.turn(OURS)
            shown = str(session.server.requests[-1].body["messages"])
            assert "I run two commands." not in shown, "what was summarized is still in view"
            await session.turn(THEIRS)
            await session.turn(OURS)

    asyncio.run(scene())


def test_turns_written_while_our_process_had_the_file_open_are_shown_by_the_next(tmp_path: Path) -> None:
    async def scene() -> None:
        session = SharedSession(tmp_path)
        async with session.server:
            await session.turn(THEIRS)
            async with staying(session, THEIRS) as claude_code, staying(session, OURS) as mainspring:
                await claude_code.turn(TOOL)
                await mainspring.turn()
                await claude_code.turn()
                await mainspring.turn(TOOL)
                await claude_code.turn()
            await session.turn(OURS)

    asyncio.run(scene())


def test_turns_after_a_killed_one_and_a_torn_line_are_shown(tmp_path: Path) -> None:
    async def scene() -> None:
        session = SharedSession(tmp_path)
        async with session.server:
            await session.turn(OURS)
            await session.kill_in_a_tool(OURS)
            await session.turn(THEIRS)
            await session.turn(OURS)
            session.tear()
            await session.turn(THEIRS)
            await session.turn(OURS)
            await session.turn(THEIRS)

    asyncio.run(scene())


ROUNDS = 14


class LongSession(SharedSession):
    """The first prompt makes the model run many commands, each with a long output that has a word of its own."""

    def _choose(self, received: ReceivedRequest) -> Reply:
        done = len(received.talk.results())
        if is_for_a_summary(received.body):
            return Say.of("<summary>It went on.</summary>")
        if "read-all" not in json.dumps(received.body["messages"]) or self.long_done:
            return super()._choose(received)
        if "tools" not in received.body:  # a collapse, or another question beside the conversation
            return Say.of("Outputs were read.")
        if done >= ROUNDS:
            self.long_done = True
            return super()._choose(received)
        word = f"output-{900 + done}"
        self.said.append(word)
        given = {"command": f"echo {word}; head -c 9000 words.txt", "description": "reads"}
        return Say.of(f"Look {done}.", {"type": "tool_use", "id": f"toolu_l{done}", "name": "Bash", "input": given})

    long_done = False


def test_claude_code_takes_no_edit_of_ours_for_a_boundary_of_its_own(tmp_path: Path) -> None:
    """Cleared, snipped and collapsed in our view; it reads the file from the first prompt on."""

    async def scene() -> None:
        session = LongSession(tmp_path)
        (session.work / "words.txt").write_text("words and words\n" * 700)
        async with session.server:
            flags = ("--output-format=stream-json", "--verbose", "--context-window=50000")
            process = await session.start(OURS, "-p", session.prompt("read-all"), *flags)
            out, _ = await process.communicate()
            assert process.returncode == 0, out.decode()
            frames = [json.loads(line) for line in out.splitlines() if line.startswith(b"{")]
            subtypes = [frame.get("subtype") for frame in frames]
            assert "mainspring_context_edit" in subtypes
            assert "compact_boundary" not in subtypes
            assert "[Old tool result cleared" in json.dumps(session.server.requests[-1].body)
            await session.turn(THEIRS)  # which checks that every word is shown to the model
            await session.turn(THEIRS, TOOL)

    asyncio.run(scene())
