"""`/help`, `/status`, `/context`, `/cost`: what there is, and how things stand."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mainspring.agent.options import StartError
from mainspring.agent.slash_commands import TERMINAL, list_other_commands, names_at, words_at
from mainspring.cli.output import TextStyle
from mainspring.cli.slash.stored import file_of, title_of
from mainspring.cli.slash.telling import clean_line, print_to_terminal, shorten_about, tell_all, tell_list
from mainspring.text import plural, strip_control_characters

if TYPE_CHECKING:
    from mainspring.cli.terminal_session import TerminalSession

HELP = """\
/NAME [words]           A skill or a command of yours, or of a trusted project: they stand below
@PATH                   A file or a folder that goes along; '@a.py#L10-20' is a part of one
!COMMAND                Run it yourself, here: the model is not told
+500k ...               Go on until so many tokens were written
A backslash at the end of a line says that more is to come.
A paste is one prompt, however many lines it has."""

COLUMN = 23
LABEL = 10  # columns
FEW = 8  # of what stands on one line


async def show_help(talk: TerminalSession, _: str) -> None:
    for word in words_at(TERMINAL):
        print_to_terminal(talk, f"{f'/{word.name} {word.hint}':<{COLUMN}} {word.about}")
    print_to_terminal(talk, HELP)
    found = (*list_other_commands(talk.world.around, names_at(TERMINAL)), *talk.world.servers.words())
    rows = [
        f"{strip_control_characters(f'/{one.name} {one.hint}'.rstrip()):<{COLUMN}} {shorten_about(one.about)}".rstrip()
        for one in found
    ]
    tell_list(talk, rows, TextStyle.DIM)


async def show_context(talk: TerminalSession, _: str) -> None:
    from mainspring.cli.commands.sessions import lines_of

    session = talk.world.about.session_id
    try:
        lines = await asyncio.to_thread(lambda: list(lines_of(session)))  # it reads the whole file
    except StartError:
        print_to_terminal(talk, "There is nothing in the conversation yet.", TextStyle.DIM)
        return
    tell_all(talk, lines)


async def show_cost(talk: TerminalSession, _: str) -> None:
    from mainspring.cli.slash.cost import cost_lines, limit_lines

    usage, account = talk.session.usage, talk.world.session.shared.ledger.account
    tell_all(talk, [*cost_lines(usage), *limit_lines(usage, account)])


# --- how things stand ---------------------------------------------------------------------------------------------


async def status(talk: TerminalSession, _: str) -> None:
    """The sandbox may be tried out for it, and the context is counted: not on the loop."""
    for label, words in await asyncio.to_thread(lambda: list(iter_status_facts(talk))):
        print_to_terminal(talk, f"{label:<{LABEL}}{clean_line(words)}")


def iter_status_facts(talk: TerminalSession) -> Iterator[tuple[str, str]]:
    from mainspring.version import __version__

    world, config = talk.world, talk.config
    title = title_of(talk)
    yield "Version", f"mainspring {__version__}"
    yield "Session", world.about.session_id + (f", '{title}'" if title else "")
    yield "File", kept_in(talk)
    yield "Model", f"{talk.model.name}, {server_of(talk)}; key: {world.about.key_source}"
    yield "Mode", world.session.shared.policy.mode
    yield "Folder", config.cwd
    if world.kit.place.folders:
        yield "Also", join_or_none(list(world.kit.place.folders))
    yield "Sandbox", world.about.sandbox().removeprefix("sandbox: ")
    yield (
        "MCP",
        join_or_none([one_server(one) for one in world.mcp.status()] if world.mcp is not None else []) or "no servers",
    )
    yield "Settings", join_or_none(settings_files(talk)) or "no file: everything has its default"
    yield "Memory", join_or_none([file.path for file in world.around.memory.files]) or "no file: '/init' writes one"
    yield "Context", format_context_share(talk)


def join_or_none(words: list[str]) -> str:
    more = f" and {len(words) - FEW:,} more" if len(words) > FEW else ""
    return ", ".join(words[:FEW]) + more


def kept_in(talk: TerminalSession) -> str:
    journal = talk.opened.journal
    if journal is None or not journal.stored:
        return "none: nothing of this session is stored"
    return journal.file if file_of(talk) else f"{journal.file}, from the first prompt on"


def server_of(talk: TerminalSession) -> str:
    """Its address, without what may be a key in it. A name and a password no address may hold."""
    from mainspring.agent.endpoints import endpoint_of

    settings = talk.config.settings
    endpoint = endpoint_of(talk.model.name, settings, talk.config.environment)
    url = endpoint.url if endpoint is not None else settings.api.base_url
    return f"at {url.partition('?')[0]}" if url else "at Anthropic's own server"


def one_server(state: dict[str, object]) -> str:
    tools = state.get("tools")
    number = f", {plural(len(tools), 'tool')}" if isinstance(tools, list) else ""  # pyright: ignore[reportUnknownArgumentType]
    return f"{state['name']} ({state['status']}{number})"


def settings_files(talk: TerminalSession) -> list[str]:
    """Those that are there, in the order in which the later one wins."""
    from mainspring.settings.load import SettingsPaths, home_folder

    options = talk.config.options
    places = SettingsPaths(home_folder(talk.config.environment, compatible=False), talk.config.cwd)
    found = [path for _, path in places.files(options.setting_sources) if os.path.exists(path)]  # noqa: PTH110
    return [*found, *([options.spell("settings")] if options.settings is not None else [])]


def format_context_share(talk: TerminalSession) -> str:
    from mainspring.agent.context_usage import context_usage

    used = context_usage(talk.world)
    return f"{used['percentage']} % of {used['maxTokens']:,} tokens; '/context' says more"
