"""Random interleavings of the real Claude Code and us on one session file: each resume shows all turns."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from sessions.shared import OURS, THEIRS, TOOL, SharedSession, needs_claude_code, staying

pytestmark = needs_claude_code
ROUNDS = 50
STEPS = ("turn", "turn", "turn", "turn", "compact", "kill", "tear")


async def step(session: SharedSession, chance: random.Random) -> None:
    who, more = chance.choice((OURS, THEIRS)), chance.choice(("", TOOL))
    match chance.choice(STEPS) if session.exists() else "turn":
        case "compact":
            await session.compact(who)
        case "kill":
            await session.kill_in_a_tool(OURS)
        case "tear":
            session.tear()
        case _:
            await session.turn(who, more)


async def side_by_side(session: SharedSession, chance: random.Random) -> None:
    """Both programs have the file open and do not see each other's turns; whoever resumes it next sees them all."""
    async with staying(session, THEIRS) as theirs, staying(session, OURS) as ours:
        for _ in range(chance.randint(2, 4)):
            await chance.choice((theirs, ours)).turn(chance.choice(("", TOOL)))


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_each_resume_shows_every_turn(tmp_path: Path, seed: int) -> None:
    async def scene() -> None:
        chance = random.Random(seed)
        session = SharedSession(tmp_path)
        async with session.server:
            for _ in range(chance.randint(4, 8)):
                await step(session, chance)
            if seed % 5 == 0:  # Claude Code itself follows one branch only, so this comes last
                await side_by_side(session, chance)
                await session.turn(OURS)
            else:
                await session.turn(OURS)
                await session.turn(THEIRS)
            await session.turn(OURS)

    asyncio.run(scene())
