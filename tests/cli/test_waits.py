"""A long wait in the front ends without a screen: one line when it begins, one for each heartbeat (G-24)."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, cast

import pytest

from mainspring.cli.print_mode import TextOutput
from mainspring.core.reasons import Failure, Trouble
from mainspring.core.updates import Retrying
from mainspring.providers.retry import plan_countdown
from mainspring.text import describe_wait

if TYPE_CHECKING:
    from mainspring.agent.session import AgentSession

BUSY = Failure(Trouble.OVERLOADED, "529: Overloaded", 529)


def print_waits(*waits: Retrying) -> None:
    async def main() -> None:
        output = TextOutput(cast("AgentSession", None), lambda _: asyncio.sleep(0))
        for wait in waits:
            await output.show(wait)

    asyncio.run(main())


@pytest.mark.covers("G-24")
def test_print_mode_prints_a_line_for_each_heartbeat(capfd: pytest.CaptureFixture[str]) -> None:
    """On standard error: a job that prints nothing for minutes looks dead."""
    waits = [Retrying(BUSY, 11, left, 81, beat) for beat, left in enumerate(plan_countdown(150_000))]
    print_waits(*waits, Retrying(BUSY, 1, 500, 81))
    out, err = capfd.readouterr()
    lines = [line.partition(", at ")[0] for line in err.splitlines()]
    assert out == ""
    assert lines == [
        "mainspring: 529: Overloaded; retrying in 2 min 30 s",
        "mainspring: still waiting; retrying in 2 min 0 s",
        "mainspring: still waiting; retrying in 1 min 30 s",
        "mainspring: still waiting; retrying in 1 min 0 s",
        "mainspring: still waiting; retrying in 30 s",
    ]


def test_a_long_wait_says_until_when() -> None:
    at = time.strftime("%H:%M:%S", time.localtime(1_800_002_833))
    assert describe_wait(2_833, 1_800_000_000) == f"47 min 13 s, at {at}"
    assert describe_wait(59.4, 0) == "59 s"
