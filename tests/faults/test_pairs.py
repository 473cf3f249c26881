"""All pairs of two different faults in one session: an end, only valid requests, a bounded number of calls."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from itertools import combinations, islice

import pytest
from tiers import long

from faults.stage import ALONE, ARGUMENTS, IMPATIENT, WITH_FALLBACK, Played, played, staged, together
from mainspring.simulator.faults import FAULTS, FaultPlan, PlannedFault

# See `PENDING` in test_recovery.py: until that is mended, a paused turn voids the thinking behind it.


def pairs(one_in: int) -> Iterator[tuple[str, list[str]]]:
    """Each pair once, or one in so many of them; which of them comes first goes by turns."""
    rows: dict[str, list[str]] = {}
    for number, (one, other) in enumerate(islice(combinations(FAULTS, 2), 0, None, one_in)):
        first, second = (one, other) if number % 2 else (other, one)
        rows.setdefault(first, []).append(second)
    yield from rows.items()


async def play(first: str, seconds: list[str]) -> list[Played]:
    """The first request is hit by the one, the next by the other; every second session has a model to fall back to."""
    planned = [PlannedFault(first, argument=ARGUMENTS.get(first, ""))]
    planned += [PlannedFault(name, after=1, prompt=f"[{name}]", argument=ARGUMENTS.get(name, "")) for name in seconds]
    async with staged(FaultPlan(*planned)) as stage:
        prompts = [f"{first}, then [{second}]" for second in seconds]
        sessions = [
            partial(stage.play, prompt, (ALONE, WITH_FALLBACK)[number % 2], deadlines=IMPATIENT)
            for number, prompt in enumerate(prompts)
        ]
        return [played(stage, prompt, seen) for prompt, seen in zip(prompts, await together(sessions), strict=True)]


@pytest.mark.covers("G-15", "F-20", "E-12")
@pytest.mark.parametrize("one_in", [6, long(1)])
def test_all_pairs_of_faults(one_in: int) -> None:
    async def main() -> list[Played]:
        rows = await together([partial(play, first, seconds) for first, seconds in pairs(one_in)], at_once=2)
        return [session for row in rows for session in row]

    sessions = asyncio.run(main())
    assert len(sessions) == len(range(0, len(FAULTS) * (len(FAULTS) - 1) // 2, one_in))
    for seen, _, wrong in sessions:
        prompt = seen.session.state.history[0].text
        seen.check()
        assert wrong == [], prompt
        assert set(seen.ran.values()) <= {1} or "duplicate_ids" in prompt, prompt
