"""Between two runs of a conversation that goes on by itself: agents in the background have not all reported."""

from __future__ import annotations

import asyncio

from mainspring.agent.world import World
from mainspring.cli.signals import Signals, nothing


async def waited(world: World, signals: Signals) -> bool:
    """Until one has reported; false if somebody wanted an end meanwhile."""
    loop = asyncio.get_running_loop()
    waiting = loop.create_task(world.wait_for_more())
    signals.during(signals.ending(loop, waiting.cancel))
    try:
        if not signals.code:
            await asyncio.wait({waiting})
    finally:
        waiting.cancel()
        signals.during(nothing)
    return not signals.code
