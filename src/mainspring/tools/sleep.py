"""`Sleep`: waiting without a process, and without holding up anybody (N-07)."""

import asyncio
from typing import Annotated

from msgspec import Meta

from mainspring.tools.base import Input, Tool, ToolAnswer, ToolContext, make_answer

MOST = 600  # seconds, as long as a command may take


class SleepInput(Input, frozen=True):
    seconds: Annotated[float, Meta(gt=0, le=MOST), "How long."]


async def run_sleep(given: SleepInput, calling: ToolContext) -> ToolAnswer:  # noqa: ARG001  # every tool gets it
    """Cancelling the task ends it at once."""
    await asyncio.sleep(given.seconds)
    return make_answer(f"{given.seconds:g} seconds have passed.", {"seconds": given.seconds})


def summarize_sleep_input(given: SleepInput) -> str:
    return f"Sleep for {given.seconds:g} s"


SLEEP = Tool(
    name="Sleep",
    about="Wait. Use it rather than the command 'sleep', for instance before you look again at a background command.",
    input=SleepInput,
    run=run_sleep,
    read_only=True,
    summary=summarize_sleep_input,
)
