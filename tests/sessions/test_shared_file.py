"""A session that the real Claude Code and we write in turns: each resume shows the model all that was said."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sessions.shared import OURS, THEIRS, TOOL, SharedSession, needs_claude_code, staying

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
