"""Slash commands that show the state of a session: help, status, context, cost, agents, tasks, mcp, doctor.

Two of them also act: `/tasks stop ID` stops a background task, `/mcp reconnect NAME` reconnects a server.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mainspring import agent, context, sessions
from mainspring.agent.context_usage import context_usage
from mainspring.agent.loop_notices import list_prefix_breaks
from mainspring.agent.slash.lines import (
    LONGEST_ABOUT,
    SlashCommandError,
    TextStyle,
    clean_line,
    file_of,
    print_line,
    shorten_about,
    tell_all,
    tell_list,
    title_of,
)
from mainspring.agent.slash.settings import held_back
from mainspring.agent.slash_commands import TERMINAL, list_other_commands, names_at, words_at
from mainspring.agent.usage import UsageMeter
from mainspring.core.errors import MainspringError
from mainspring.core.messages import Text, ToolCall
from mainspring.core.models import has_price
from mainspring.core.money import NANOS_PER_USD, Account
from mainspring.messages_api import Unreadable
from mainspring.settings.load import SettingsPaths, home_folder
from mainspring.text import plural, strip_control_characters, truncate
from mainspring.version import __version__

if TYPE_CHECKING:
    from mainspring.agent.slash.lines import SlashContext
    from mainspring.context.agent_types import AgentType
    from mainspring.core.messages import Block
    from mainspring.engine.subagents import SubagentStatus
    from mainspring.tools.background import BackgroundCommand


TAIL = 4_000  # bytes of an output to search for its last line,
AGENT_TAIL = 64_000  # and of a subagent's file
MOST_TOOLS = 12  # tools of a server named in a line
FEW = 8  # tools named before "and N more"


# --- agent types --------------------------------------------------------------------------------------------------


async def agents(talk: SlashContext, _: str) -> None:
    world = talk.world
    tell_list(
        talk,
        [line for kind in (world.kinds or context.BUILTIN_AGENT_TYPES).values() for line in format_agent_type(kind)],
        most=100,
    )
    for words in await asyncio.to_thread(held_back, world.around.memory.places("agents")):
        print_line(talk, words, TextStyle.YELLOW)
    away = talk.world.agents.at_work()
    if away:
        print_line(talk, "Running in the background (/tasks stop ID stops one):", TextStyle.DIM)
        tell_list(talk, await asyncio.to_thread(rows_of_agents, talk, away))


def format_agent_type(kind: AgentType) -> list[str]:
    return [
        f"{kind.name}  ({', '.join([describe_type_source(kind), tools_of(kind), *model_of(kind)])})",
        f"    {shorten_about(kind.about)}",
    ]


def describe_type_source(kind: AgentType) -> str:
    if kind.path:
        return f"{'project' if kind.project else 'user'}: '{clean_line(kind.path)}'"
    return "built-in" if context.BUILTIN_AGENT_TYPES.get(kind.name) is kind else "command line"


def tools_of(kind: AgentType) -> str:
    without = f" except {', '.join(map(clean_line, kind.without[:FEW]))}" if kind.without else ""
    if kind.tools is None:
        return f"all tools{without}"
    more = f" and {len(kind.tools) - FEW} more" if len(kind.tools) > FEW else ""
    return f"tools: {', '.join(map(clean_line, kind.tools[:FEW])) or 'none'}{more}{without}"


def model_of(kind: AgentType) -> list[str]:
    return [f"model {clean_line(kind.model)}"] if kind.model else []


# --- background tasks ---------------------------------------------------------------------------------------------


async def tasks(talk: SlashContext, words: str) -> None:
    verb, name = (*words.split(None, 1), "", "")[:2]
    running, away = talk.world.kit.background.running, talk.world.agents.at_work()
    if words and (verb != "stop" or not name):
        raise SlashCommandError("Usage: /tasks lists background tasks, /tasks stop ID stops one.")
    if words:
        await stop_task(talk, name, [*[one.id for one in running], *[one.agent_id for one in away]])
    elif not running and not away:
        print_line(talk, "No background tasks.", TextStyle.DIM)
    else:
        of_agents = await asyncio.to_thread(rows_of_agents, talk, away)
        tell_list(talk, [*[row for one in running for row in format_command(one)], *of_agents], most=100)
        print_line(talk, "Type /tasks stop ID to stop one.", TextStyle.DIM)


async def stop_task(talk: SlashContext, name: str, known: list[str]) -> None:
    if name not in known:
        there = ", ".join([f"'{one}'" for one in known]) or "none"
        raise SlashCommandError(f"No background task '{name}'. Running: {there}.")
    await talk.world.stop(name)
    print_line(talk, f"Stopped '{name}'.", TextStyle.DIM)


def format_command(running: BackgroundCommand) -> list[str]:
    head = f"{running.id}  {running.told}  {shorten_about(running.about or running.command)}"
    return [head, *indent_about(last_line(running))]


def rows_of_agents(talk: SlashContext, away: tuple[SubagentStatus, ...]) -> list[str]:
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
    """The last line of output. Output that the model has already read is in the file only."""
    text = running.end_of_output(TAIL)
    return next((row for row in reversed(text.splitlines()) if row.strip()), "")


def last_said(talk: SlashContext, agent_id: str) -> str:
    """The last block of a subagent, from its journal: no updates arrive between two runs. Empty: it is not stored."""
    said, file = "", file_of(talk)
    try:
        with sessions.JournalReader(Path(sessions.agent_file(file, agent_id))) as reader:
            for _, line in reader.lines(max(0, reader.size - AGENT_TAIL)):
                if line.type == "assistant":
                    blocks = sessions.reply_blocks(line, sessions.spoke_of(line), None)
                    said = next((words for block in reversed(blocks) if (words := format_block(block))), said)
    except (OSError, *Unreadable):
        return said
    return said


def format_block(block: Block) -> str:
    if isinstance(block, ToolCall):
        value = next((one for one in block.input.values() if isinstance(one, str) and one), "")
        return f"{block.name}: {value}" if value else block.name
    return block.text if isinstance(block, Text) else ""


HELP = """\
/NAME [arguments]       Run a skill or custom command (listed below)
@PATH                   Attach a file or folder; '@a.py#L10-20' attaches lines 10 to 20
!COMMAND                Run a shell command yourself; the model sees it with your next prompt
!!COMMAND               Run a shell command yourself; the model does not see it
+500k ...               Keep working until this many tokens are written
End a line with a backslash to continue on the next one.
A paste is one prompt, even if it has several lines."""

HELP_WITHOUT_SCREEN = """\
/NAME [arguments]       Run a skill or custom command (listed below)
@PATH                   Attach a file or folder; '@a.py#L10-20' attaches lines 10 to 20
+500k ...               Keep working until this many tokens are written"""

COLUMN = 23
LABEL = 10  # columns


async def show_help(talk: SlashContext, _: str) -> None:
    found = (*list_other_commands(talk.world.around, names_at(TERMINAL)), *talk.world.servers.words())
    replaced = {one.name for one in found}
    for word in [one for one in words_at(talk.door) if one.name not in replaced]:
        print_line(talk, f"{f'/{word.name} {word.hint}':<{COLUMN}} {word.about}")
    print_line(talk, HELP if talk.door == TERMINAL else HELP_WITHOUT_SCREEN)
    rows = [
        f"{strip_control_characters(f'/{one.name} {one.hint}'.rstrip()):<{COLUMN}} {shorten_about(one.about)}".rstrip()
        for one in found
    ]
    tell_list(talk, rows, TextStyle.DIM)


async def show_context(talk: SlashContext, _: str) -> None:
    """The terminal has a form of its own, from the session file: `cli/slash/terminal_forms.py`."""
    tell_all(talk, talk.session.context_text().split("\n"))


async def show_cost(talk: SlashContext, _: str) -> None:
    usage, account = talk.session.usage, talk.world.session.shared.ledger.account
    tell_all(talk, [*cost_lines(usage), *break_lines(usage), *limit_lines(usage, account)])


# --- doctor -------------------------------------------------------------------------------------------------------


async def doctor(talk: SlashContext, _: str) -> None:
    """Runs one check after another, each in a thread: some probe the sandbox, which takes seconds."""
    checks = agent.run_checks(talk.config.options)
    problems = 0
    while (found := await asyncio.to_thread(next, checks, None)) is not None:
        problems += found.state is agent.CheckState.PROBLEM
        shown = agent.Finding(found.name, found.state, clean_line(found.words), clean_line(found.way_out))
        style = TextStyle.YELLOW if found.state is agent.CheckState.PROBLEM else TextStyle.PLAIN
        print_line(talk, agent.format_finding(shown), style)
    print_line(talk, agent.format_doctor_summary(problems))


# --- status -------------------------------------------------------------------------------------------------------


async def status(talk: SlashContext, _: str) -> None:
    """Runs in a thread: it may probe the sandbox, and counts the context."""
    for label, words in await asyncio.to_thread(lambda: list(iter_status_facts(talk))):
        print_line(talk, f"{label:<{LABEL}}{clean_line(words)}")


def iter_status_facts(talk: SlashContext) -> Iterator[tuple[str, str]]:
    world, config = talk.world, talk.config
    title = title_of(talk)
    yield "Version", f"mainspring {__version__}"
    yield "Session", world.about.session_id + (f", '{title}'" if title else "")
    yield "File", kept_in(talk)
    yield "Model", f"{talk.model.name}, {server_of(talk)}; key: {world.about.key_source}"
    yield "Mode", world.session.shared.policy.mode
    yield "Folder", config.cwd
    if world.kit.place.folders:
        yield "Added", join_or_none(list(world.kit.place.folders))
    yield "Sandbox", world.about.sandbox().removeprefix("sandbox: ")
    yield (
        "MCP",
        join_or_none([one_server(one) for one in world.mcp.status()] if world.mcp is not None else []) or "no servers",
    )
    yield "Settings", join_or_none(settings_files(talk)) or "no file (all defaults)"
    yield "Memory", join_or_none([file.path for file in world.around.memory.files]) or "no file (/init creates one)"
    yield "Context", format_context_share(talk)


def join_or_none(words: list[str]) -> str:
    more = f" and {len(words) - FEW:,} more" if len(words) > FEW else ""
    return ", ".join(words[:FEW]) + more


def kept_in(talk: SlashContext) -> str:
    journal = talk.opened.journal
    if journal is None or not journal.stored:
        return "none (this session is not stored)"
    return journal.file if file_of(talk) else f"{journal.file} (created with the first prompt)"


def server_of(talk: SlashContext) -> str:
    """The address without its query, which may contain a key. An address cannot contain a user name or password."""
    settings = talk.config.settings
    endpoint = agent.endpoint_of(talk.model.name, settings, talk.config.environment)
    url = endpoint.url if endpoint is not None else settings.api.base_url
    return f"at {url.partition('?')[0]}" if url else "at api.anthropic.com"


def one_server(state: dict[str, object]) -> str:
    tools = state.get("tools")
    number = f", {plural(len(tools), 'tool')}" if isinstance(tools, list) else ""  # pyright: ignore[reportUnknownArgumentType]
    return f"{state['name']} ({state['status']}{number})"


def settings_files(talk: SlashContext) -> list[str]:
    """The files that exist; later ones override earlier ones."""
    options = talk.config.options
    places = SettingsPaths(home_folder(talk.config.environment, compatible=False), talk.config.cwd)
    found = [path for _, path in places.files(options.setting_sources) if os.path.exists(path)]  # noqa: PTH110
    return [*found, *([options.spell("settings")] if options.settings is not None else [])]


def format_context_share(talk: SlashContext) -> str:
    used = context_usage(talk.world)
    return f"{used['percentage']}% of {used['maxTokens']:,} tokens used (details: /context)"


NONE = "No MCP servers configured. See 'mainspring help guides/mcp-server'."


async def mcp(talk: SlashContext, words: str) -> None:
    verb, name = (*words.split(None, 1), "", "")[:2]
    if not words:
        print_servers(talk)
    elif verb == "reconnect" and name:
        await reconnect_server(talk, name)
    else:
        raise SlashCommandError("Usage: /mcp lists the servers, /mcp reconnect NAME reconnects one.")


def print_servers(talk: SlashContext) -> None:
    servers, found = talk.world.mcp, talk.config.servers
    if servers is None:
        print_line(talk, NONE, TextStyle.DIM)
        return
    off = [{"name": name, "status": "disabled"} for name in (found.off if found is not None else ())]
    rows = [line for state in (*servers.status(), *off) for line in format_server_state(state)]
    tell_list(talk, [f"{indent_row(row)}{clean_line(row)}" for row in rows])
    tell_list(
        talk, [clean_line(problem) for problem in (found.problems if found is not None else ())], TextStyle.YELLOW
    )


def format_server_state(state: dict[str, Any]) -> list[str]:
    about = state.get("serverInfo", {})
    version = f" ({about['name']} {about['version']})".replace(" )", ")") if about else ""
    found = [f"{state['name']}: {state['status']}{version}{': ' + state['error'] if 'error' in state else ''}"]
    names = [tool["name"] for tool in state.get("tools", [])]
    if names:
        more = f" and {len(names) - MOST_TOOLS} more" if len(names) > MOST_TOOLS else ""
        found.append(f"  {plural(len(names), 'tool')}: {', '.join(names[:MOST_TOOLS])}{more}")
    return [*found, *[f"  ! {note}" for note in state.get("notes", [])]]


def indent_row(row: str) -> str:
    return " " * (len(row) - len(row.lstrip(" ")))


async def reconnect_server(talk: SlashContext, name: str) -> None:
    """The model gets its tools with the next prompt."""
    servers = talk.world.mcp
    if servers is None:
        raise SlashCommandError(NONE)
    try:
        await talk.session.reconnect_mcp(name)
    except (MainspringError, OSError) as error:
        raise SlashCommandError(f"Cannot reconnect: {clean_line(str(error))}") from None
    print_line(talk, f"Connected to MCP server '{strip_control_characters(name)}'.", TextStyle.DIM)


def cost_lines(usage: UsageMeter) -> Iterator[str]:
    rows = usage.by_model()
    passed = f"API time {format_duration(usage.api_ms)}, session time {format_duration(usage.age)}"
    if not rows:
        yield f"Nothing spent yet. {passed}."
        return
    models = [usage.find_model(name) for name in rows]
    if any(model.price.estimated for model in models):
        cost = "Cost unknown (no price for this model)"
    elif any(has_price(model) for model in models):
        cost = format_cost(usage.cost)
    else:
        cost = "No cost (a local model)"
    yield f"{cost}. {passed}."
    for name, row in rows.items():
        cost = f", ${row['costUSD']:.4f}" if has_price(usage.find_model(name)) else ""
        yield f"  {name}: {format_token_row(row)}{cost}"


def break_lines(usage: UsageMeter) -> Iterator[str]:
    if all(has_price(usage.find_model(name)) for name in usage.by_model()):
        yield from list_prefix_breaks(usage)


def limit_lines(usage: UsageMeter, account: Account) -> Iterator[str]:
    """The limit is per process: earlier conversations of this process count against it too."""
    spent, limit = format_cost(account.spent), account.limit
    others = account.spent != usage.cost
    if limit is not None:
        whose = "all conversations since the start, " if others else ""
        yield f"Limit: {whose}{spent} of {format_cost(limit)} spent, {format_cost(max(0, limit - account.spent))} left."
    elif others:
        yield f"All conversations since the start: {spent}."


def format_token_row(row: dict[str, Any]) -> str:
    read, written = row["cacheReadInputTokens"], row["cacheCreationInputTokens"]
    prompt = row["inputTokens"] + read + written
    cached = f" ({read:,} cached)" if read else ""
    return f"{prompt:,} tokens in{cached}, {row['outputTokens']:,} out"


def format_cost(nanos: int) -> str:
    return f"${nanos / NANOS_PER_USD:.4f}"


def format_duration(milliseconds: int) -> str:
    seconds = milliseconds / 1_000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"
