"""`/trust`: enable the configuration of this folder, now and in later sessions, or disable it again."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from mainspring.agent.options import StartError
from mainspring.agent.slash.lines import SlashCommandError, TextStyle, print_line
from mainspring.cli import trust as cli_trust
from mainspring.core.errors import UsageError

if TYPE_CHECKING:
    from mainspring.cli.terminal_session import TerminalSession


async def trust(talk: TerminalSession, words: str) -> None:
    folder, is_trusted = talk.config.cwd, talk.world.around.memory.where.trusted
    if words not in ("", "remove"):
        raise SlashCommandError("Usage: /trust trusts this folder, /trust remove stops trusting it.")
    if is_trusted is not bool(words):
        already = "trusted. Type /trust remove to undo it" if is_trusted else "not trusted. Type /trust to trust it"
        print_line(talk, f"'{folder}' is {already}.", TextStyle.DIM)
    else:
        try:
            await (trust_named_folder(talk, folder) if not words else take_back(talk, folder))
        except (StartError, UsageError, OSError) as error:
            raise SlashCommandError(f"Nothing changed: {error}") from None


async def trust_named_folder(talk: TerminalSession, folder: str) -> None:
    held = await asyncio.to_thread(cli_trust.list_untrusted_content, talk)
    cli_trust.trust_folder(folder, os.environ)
    what = f"Now enabled: {', '.join(held)}." if held else "It has no configuration to enable."
    print_line(talk, f"'{folder}' is trusted. {what}", TextStyle.DIM)
    await begin_again(talk)


async def take_back(talk: TerminalSession, folder: str) -> None:
    cli_trust.take_back(folder, os.environ)
    print_line(talk, f"'{folder}' is no longer trusted.", TextStyle.DIM)
    await begin_again(talk)


async def begin_again(talk: TerminalSession) -> None:
    """The trust decision is already stored; if the reload fails, it takes effect in the next conversation."""
    try:
        await talk.change(talk.session.reload())
    except (StartError, UsageError) as error:  # such as an address in the environment that has changed
        print_line(talk, f"Takes effect in the next conversation: {error}", TextStyle.YELLOW)
