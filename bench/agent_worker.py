"""One agent library in a process of its own, for bench/speed.py and bench/agent_peers.py:

    agent_worker.py LIBRARY first                the first answer of a fresh process
    agent_worker.py LIBRARY turns REPEATS        milliseconds of a run, each time but the first
    agent_worker.py LIBRARY sessions COUNT       so many runs at once: seconds, and of the processor
    agent_worker.py LIBRARY token COUNT          processor microseconds of a streamed token

The address of the model, in the environment, says how many turns a run has (`agent_server.py`). It needs no package of
ours unless the library is ours, so that the peers' environment can run it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from time import perf_counter, process_time
from typing import Any

MODEL = os.environ.get("BENCH_MODEL", "claude-sonnet-5")
MOST = 10_000  # turns


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


def make_open_run() -> Ask:
    from mainspring import open_run

    async def ask(prompt: str) -> str:
        async with open_run(prompt, model=MODEL, tools=[add], max_turns=MOST) as run:
            async for _ in run:
                pass
        assert run.result is not None
        return run.result.text

    return ask


def make_bare() -> Ask:
    sys.path.insert(0, os.path.dirname(__file__))  # noqa: PTH120  # pathlib would be measured, too
    from wire_bare import run  # type: ignore[import-not-found]  # beside this file

    async def ask(prompt: str) -> Any:
        return await run(os.environ["ANTHROPIC_BASE_URL"], prompt, {"add": add})

    return ask


def make_mainspring_sdk(**more: Any) -> Ask:
    from mainspring.sdk import Options, ResultMessage, query, tool

    own = tool(add)

    async def ask(prompt: str) -> Any:
        options = Options(model=MODEL, tools=[own], allowed_tools=["add"], setting_sources=[], max_turns=MOST, **more)
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
    from agno.agent import Agent  # type: ignore[import-not-found]
    from agno.models.anthropic import Claude  # type: ignore[import-not-found]

    model = Claude(id=MODEL, client_params={"base_url": os.environ["ANTHROPIC_BASE_URL"]})
    agent = Agent(model=model, tools=[add], telemetry=False)

    async def ask(prompt: str) -> Any:
        return (await agent.arun(prompt)).content

    return ask


def make_claude_agent_sdk(**more: Any) -> Ask:
    from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, create_sdk_mcp_server, query, tool

    @tool("add", "Add two numbers.", {"a": int, "b": int})
    async def own(given: dict[str, int]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": str(given["a"] + given["b"])}]}

    server = create_sdk_mcp_server("bench", tools=[own])

    async def ask(prompt: str) -> Any:
        allowed: Any = {"mcp_servers": {"bench": server}, "allowed_tools": ["mcp__bench__add"], "setting_sources": []}
        options = ClaudeAgentOptions(model=MODEL, max_turns=MOST, **allowed, **more)
        text: Any = None
        async for message in query(prompt=prompt, options=options):
            text = message.result if isinstance(message, ResultMessage) else text
        return text

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
    "bare": make_bare,
    "mainspring.open_run": make_open_run,
    "mainspring.sdk": make_mainspring_sdk,
    "mainspring.sdk, partial": lambda: make_mainspring_sdk(include_partial_messages=True),
    "mainspring": make_mainspring,
    "mainspring, persist=False": lambda: make_mainspring(persist=False),
    "claude-agent-sdk": make_claude_agent_sdk,
    "claude-agent-sdk, partial": lambda: make_claude_agent_sdk(include_partial_messages=True),
    "anthropic's tool runner": make_anthropic,
    "pydantic-ai": make_pydantic_ai,
    "openai-agents": make_openai_agents,
    "agno": make_agno,
}


def assert_done(said: Any) -> None:
    assert str(said).endswith("Done."), said  # agno returns the text of all turns


async def time_runs(ask: Ask, repeats: int) -> list[float]:
    times: list[float] = []
    for number in range(repeats + 1):
        began = perf_counter()
        assert_done(await ask("Go."))
        times += [1_000 * (perf_counter() - began)] if number else []  # the first run connects and imports
    return times


async def time_sessions(ask: Ask, count: int) -> list[float]:
    await ask("Go.")
    began, spent = perf_counter(), process_time()
    for said in await asyncio.gather(*[ask("Go.") for _ in range(count)]):
        assert_done(said)
    return [perf_counter() - began, process_time() - spent]


async def time_tokens(ask: Ask, count: int) -> list[float]:
    await ask("Go.")
    spent = process_time()
    assert str(await ask("Go.")).endswith(f"word{count - 1}")
    return [1e6 * (process_time() - spent) / count]


def main(library: str, job: str, number: str = "1") -> None:
    ask = LIBRARIES[library]()

    async def once(ask: Ask, _: int) -> list[float]:
        assert_done(await ask("Go."))
        return []

    jobs = {"first": once, "turns": time_runs, "sessions": time_sessions, "token": time_tokens}
    print(asyncio.run(jobs[job](ask, int(number))))


if __name__ == "__main__":
    main(*sys.argv[1:])
