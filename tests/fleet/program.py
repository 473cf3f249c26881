"""A program that runs a fleet, for tests that kill it: `program.py OUT TASKS PROCESSES BUDGET`."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from mainspring import Agent, Fleet, FleetTask


def note(text: str) -> str:
    """Write a note."""
    file = os.open("notes", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, f"{text}\n".encode())
    os.close(file)
    return "noted"


async def main(out: str, tasks: int, processes: int, budget: float) -> None:
    options: dict[str, Any] = {"model": "claude-haiku-4-5", "max_output": 1_000}
    if processes > 1:
        fleet = Fleet(
            {**options, "tools": ["Read"]}, out=out, processes=processes, max_concurrent=40, max_budget_usd=budget
        )
    else:
        agent = Agent("claude-haiku-4-5", max_output=1_000, tools=[note])
        fleet = Fleet(agent, out=out, max_concurrent=40, max_budget_usd=budget)
    async for result in fleet.run([FleetTask(f"t{n}", f"task {n}.") for n in range(tasks)]):
        print(result.id, flush=True)
    print(f"stopped: {fleet.stats.stopped}", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])))
