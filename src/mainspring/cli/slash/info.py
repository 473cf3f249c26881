"""`/agents` and `/tasks`: who can be sent out, and what goes on in the background."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from mainspring.cli.output import TextStyle
from mainspring.cli.slash.settings import held_back
from mainspring.cli.slash.stored import file_of
from mainspring.cli.slash.telling import (
    LONGEST_ABOUT,
    clean_line,
    print_to_terminal,
    print_usage,
    shorten_about,
    tell_list,
)
from mainspring.text import truncate

if TYPE_CHECKING:
    from mainspring.cli.terminal_session import TerminalSession
    from mainspring.context.agent_types import AgentType
    from mainspring.core.messages import Block
    from mainspring.engine.subagents import SubagentStatus
    from mainspring.tools.background import BackgroundCommand

TAIL = 4_000  # bytes of an output in which the last line is looked for,
AGENT_TAIL = 64_000  # and of an agent's file
FEW = 8  # tools that are named


# --- kinds --------------------------------------------------------------------------------------------------------


async def agents(talk: TerminalSession, _: str) -> None:
    from mainspring.context.agent_types import OURS

    world = talk.world
    tell_list(talk, [line for kind in (world.kinds or OURS).values() for line in format_agent_type(kind)], most=100)
    for words in await asyncio.to_thread(held_back, world.around.memory.places("agents")):
        print_to_terminal(talk, words, TextStyle.YELLOW)
    away = talk.world.agents.at_work()
    if away:
        print_to_terminal(talk, "At work in the background ('/tasks stop ID' ends one):", TextStyle.DIM)
        tell_list(talk, await asyncio.to_thread(rows_of_agents, talk, away))


def format_agent_type(kind: AgentType) -> list[str]:
    return [
        f"{kind.name}  ({', '.join([describe_type_source(kind), tools_of(kind), *model_of(kind)])})",
        f"    {shorten_about(kind.about)}",
    ]


def describe_type_source(kind: AgentType) -> str:
    from mainspring.context.agent_types import OURS

    if kind.path:
        return f"{'the project' if kind.project else 'you'}: '{clean_line(kind.path)}'"
    return "ours" if OURS.get(kind.name) is kind else "command line"


def tools_of(kind: AgentType) -> str:
    without = f" but {', '.join(map(clean_line, kind.without[:FEW]))}" if kind.without else ""
    if kind.tools is None:
        return f"all tools{without}"
    more = f" and {len(kind.tools) - FEW} more" if len(kind.tools) > FEW else ""
    return f"tools: {', '.join(map(clean_line, kind.tools[:FEW])) or 'none'}{more}{without}"


def model_of(kind: AgentType) -> list[str]:
    return [f"model {clean_line(kind.model)}"] if kind.model else []


# --- what goes on -------------------------------------------------------------------------------------------------


async def tasks(talk: TerminalSession, words: str) -> None:
    verb, name = (*words.split(None, 1), "", "")[:2]
    running, away = talk.world.kit.background.running, talk.world.agents.at_work()
    if words and (verb != "stop" or not name):
        print_usage(talk, "'/tasks' shows what runs in the background, '/tasks stop ID' ends one of them.")
    elif words:
        await stop_task(talk, name, [*[one.id for one in running], *[one.agent_id for one in away]])
    elif not running and not away:
        print_to_terminal(talk, "Nothing runs in the background.", TextStyle.DIM)
    else:
        of_agents = await asyncio.to_thread(rows_of_agents, talk, away)
        tell_list(talk, [*[row for one in running for row in format_command(one)], *of_agents], most=100)
        print_to_terminal(talk, "'/tasks stop ID' ends one.", TextStyle.DIM)


async def stop_task(talk: TerminalSession, name: str, known: list[str]) -> None:
    if name not in known:
        there = ", ".join([f"'{one}'" for one in known]) or "nothing"
        print_to_terminal(talk, f"There is no '{name}' in the background: {there} runs there.", TextStyle.YELLOW)
        return
    await talk.world.stop(name)
    print_to_terminal(talk, f"'{name}' was ended.", TextStyle.DIM)


def format_command(running: BackgroundCommand) -> list[str]:
    head = f"{running.id}  {running.told}  {shorten_about(running.about or running.command)}"
    return [head, *indent_about(last_line(running))]


def rows_of_agents(talk: TerminalSession, away: tuple[SubagentStatus, ...]) -> list[str]:
    found: list[str] = []
    for one in away:
        found += [
            f"{one.agent_id}  running for {one.seconds:.0f} s  {clean_line(one.kind)}: {shorten_about(one.about)}"
        ]
        found += indent_about(last_said(talk, one.agent_id))
    return found


def indent_about(words: str) -> list[str]:
    return [f"    {truncate(clean_line(words), LONGEST_ABOUT)}"] if words.strip() else []


def last_line(running: BackgroundCommand) -> str:
    """What the model has taken is no longer in memory, but in the file."""
    text = running.child.stdout.end(TAIL) or end_of(running.path)
    return next((row for row in reversed(text.splitlines()) if row.strip()), "")


def end_of(path: str) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC) if path else -1
    except OSError:
        return ""
    if fd < 0:
        return ""
    try:
        return os.pread(fd, TAIL, max(0, os.fstat(fd).st_size - TAIL)).decode(errors="replace")
    finally:
        os.close(fd)


def last_said(talk: TerminalSession, agent_id: str) -> str:
    """By the end of its file: between two runs nothing is shown of it. Empty: nothing of it is stored."""
    from mainspring.messages_api import Unreadable
    from mainspring.sessions.line_parser import reply_blocks, spoke_of
    from mainspring.sessions.paths import agent_file
    from mainspring.sessions.reader import JournalReader

    said, file = "", file_of(talk)
    try:
        with JournalReader(Path(agent_file(file, agent_id))) as reader:
            for _, line in reader.lines(max(0, reader.size - AGENT_TAIL)):
                if line.type == "assistant":
                    blocks = reply_blocks(line, spoke_of(line), None)
                    said = next((words for block in reversed(blocks) if (words := format_block(block))), said)
    except (OSError, *Unreadable):
        return said
    return said


def format_block(block: Block) -> str:
    from mainspring.core.messages import Text, ToolCall

    if isinstance(block, ToolCall):
        value = next((one for one in block.input.values() if isinstance(one, str) and one), "")
        return f"{block.name}: {value}" if value else block.name
    return block.text if isinstance(block, Text) else ""
