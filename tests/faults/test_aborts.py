"""An interrupt at any moment of any fault: the run ends, its history is in order, and the session can go on."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from typing import NamedTuple

import pytest
from tiers import parametrize_few

from faults.stage import ARGUMENTS, IMPATIENT, PATIENT, SILENT, WITH_FALLBACK, Stage, staged, together, updates_of
from mainspring.core.pairing import find_unpaired_ids
from mainspring.core.updates import Result
from mainspring.engine.run import Run
from mainspring.providers.http.client import Transport
from mainspring.simulator.faults import FAULTS, FaultPlan, PlannedFault

MOMENTS = 24  # updates: two replies have about as many


class Stopped(NamedTuple):
    result: Result
    ran: Counter[int]


async def stopped(stage: Stage, name: str, at: int) -> Stopped:
    """A session, interrupted behind its `at`-th update, and then taken up again."""
    ran = Counter[int]()

    async def interrupt(run: Run, number: int) -> None:
        if number == at:
            run.interrupt()

    async with Transport(deadlines=IMPATIENT if name in SILENT else PATIENT) as transport:
        session = stage.session(transport, WITH_FALLBACK, ran)
        updates = await updates_of(session, f"[{name}] {at}", deltas=True, meanwhile=interrupt)
        assert find_unpaired_ids(session.state.history) == ()
        again = await updates_of(session, "Go on, please.")
        assert isinstance(again[-1], Result)
        assert find_unpaired_ids(session.state.history) == ()
    result = updates[-1]
    assert isinstance(result, Result)
    return Stopped(result, ran)


@pytest.mark.covers("J-01", "J-02", "J-07", "F-20")
@parametrize_few("name", FAULTS, keep=6)
def test_an_interrupt_at_any_moment_of_any_fault(name: str) -> None:
    """Behind every update, deltas among them, until both spoilt replies are over. What is sent afterwards breaks no
    rule, and no call runs twice."""

    async def main() -> None:
        argument = "2000" if name == "huge_text" else ARGUMENTS.get(name, "")
        async with staged(FaultPlan(PlannedFault(name, 2, argument=argument))) as stage:
            every = await together([partial(stopped, stage, name, at) for at in range(1, MOMENTS + 1)])
            assert every[0].result.interrupted, "behind the first update nothing can be over yet"
            limits = IMPATIENT if name in SILENT else PATIENT
            undisturbed = (await stage.play(name, WITH_FALLBACK, deadlines=limits)).result
            for stop in every:
                # The loop may be ahead of whoever reads it, and have come to its end already.
                assert stop.result.interrupted or stop.result.cause == undisturbed.cause or name in SILENT
                assert set(stop.ran.values()) <= {1} or name == "duplicate_ids"
            assert stage.server.violations == []
            await stage.server.until(lambda: stage.server.open_connections == 0)

    asyncio.run(main())


@pytest.mark.covers("J-07")
@pytest.mark.parametrize("name", ["silence", "stall", "stall_at_start", "rate_limited", "drip"])
def test_an_interrupt_while_nothing_comes(name: str) -> None:
    """It waits for no deadline and for no retry, and the server sees the connection go."""

    async def main() -> None:
        planned = PlannedFault(name, None, argument={"rate_limited": "60", "drip": "1000"}.get(name, ""))
        async with staged(FaultPlan(planned)) as stage:
            loop, watching = asyncio.get_running_loop(), list[asyncio.Task[None]]()
            server, since = stage.server, list[float]()

            async def later(run: Run) -> None:
                await server.until(lambda: len(server.answers) == 1)
                since.append(loop.time())
                run.interrupt()

            async def watch(run: Run, number: int) -> None:
                if number == 1:
                    watching.append(loop.create_task(later(run)))

            seen = await stage.play(name, deadlines=PATIENT, meanwhile=watch)
            assert loop.time() - since[0] < 5  # milliseconds, in fact; the deadlines are at half a minute
            assert seen.result.interrupted
            seen.check()
            await server.until(lambda: server.open_connections == 0)

    asyncio.run(main())
