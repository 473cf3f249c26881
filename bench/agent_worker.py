"""One agent library in a process of its own, for bench/agent_peers.py: `agent_worker.py LIBRARY [TURNS REPEATS]`.

It needs no package of ours unless the library is ours, so that the peers' environment can run it. Without more
arguments it prints one answer and ends; else it prints the best time of a run, in milliseconds.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any

MODEL = "claude-haiku-4-5"
MOST = 1_000  # turns


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


Ask = Callable[[str], Awaitable[Any]]


def make_mainspring(**given: Any) -> Ask:
    from mainspring import Agent

    agent = Agent(MODEL, tools=[add], **given)

    async def ask(prompt: str) -> str:
        return (await agent.run(prompt)).text

    return ask


def make_mainspring_sdk() -> Ask:
    from mainspring.sdk import Options, ResultMessage, query, tool

    own = tool(add)

    async def ask(prompt: str) -> Any:
        options = Options(model=MODEL, tools=[own], allowed_tools=["add"], setting_sources=[])
        text: Any = None
        async for message in query(prompt=prompt, options=options):
            text = message.result if isinstance(message, ResultMessage) else text
        return text

    return ask


def make_pydantic_ai() -> Ask:
    from pydantic_ai import Agent, UsageLimits  # type: ignore[import-not-found]

    agent = Agent(f"anthropic:{MODEL}", tools=[add])
    limits = UsageLimits(request_limit=MOST)

    async def ask(prompt: str) -> Any:
        return (await agent.run(prompt, usage_limits=limits)).output

    return ask


def make_openai_agents() -> Ask:
    from agents import Agent, Runner, function_tool  # type: ignore[import-not-found]

    agent = Agent("assistant", model="gpt-5-mini", tools=[function_tool(add)])

    async def ask(prompt: str) -> Any:
        return (await Runner.run(agent, prompt, max_turns=MOST)).final_output

    return ask


def make_agno() -> Ask:
    import os

    from agno.agent import Agent  # type: ignore[import-not-found]
    from agno.models.anthropic import Claude  # type: ignore[import-not-found]

    model = Claude(id=MODEL, client_params={"base_url": os.environ["ANTHROPIC_BASE_URL"]})
    agent = Agent(model=model, tools=[add], telemetry=False)

    async def ask(prompt: str) -> Any:
        return (await agent.arun(prompt)).content

    return ask


def make_anthropic() -> Ask:
    from anthropic import AsyncAnthropic, beta_async_tool  # type: ignore[import-not-found,unused-ignore]

    @beta_async_tool  # type: ignore[untyped-decorator,unused-ignore]
    async def add(a: int, b: int) -> str:
        """Add two numbers."""
        return str(a + b)

    client = AsyncAnthropic()

    async def ask(prompt: str) -> Any:
        messages = [{"role": "user", "content": prompt}]
        runner = client.beta.messages.tool_runner(model=MODEL, max_tokens=1_000, tools=[add], messages=messages)
        return (await runner.until_done()).content[0].text

    return ask


LIBRARIES: dict[str, Callable[[], Ask]] = {
    "mainspring": make_mainspring,
    "mainspring, persist=False": lambda: make_mainspring(persist=False),
    "mainspring.sdk": make_mainspring_sdk,
    "anthropic's tool runner": make_anthropic,
    "pydantic-ai": make_pydantic_ai,
    "openai-agents": make_openai_agents,
    "agno": make_agno,
}


async def time_runs(ask: Ask, turns: int, repeats: int) -> float:
    best = float("inf")
    for number in range(repeats + 1):
        began = perf_counter()
        assert await ask(f"turns={turns}.") == "Done."
        best = min(best, perf_counter() - began) if number else best  # the first run connects and imports
    return 1_000 * best


def main(library: str, turns: str = "", repeats: str = "") -> None:
    ask = LIBRARIES[library]()
    if turns:
        print(asyncio.run(time_runs(ask, int(turns), int(repeats))))
    else:

        async def once() -> None:
            print(await ask("turns=0."))

        asyncio.run(once())


if __name__ == "__main__":
    main(*sys.argv[1:])
