"""`/trust`: what this folder brings takes effect, from now on and in this conversation; or no longer."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from mainspring.agent.options import StartError
from mainspring.cli import trust as cli_trust
from mainspring.cli.output import TextStyle
from mainspring.cli.slash.telling import print_to_terminal, print_usage
from mainspring.core.errors import UsageError

if TYPE_CHECKING:
    from mainspring.cli.terminal_session import TerminalSession


async def trust(talk: TerminalSession, words: str) -> None:
    folder, is_trusted = talk.config.cwd, talk.world.around.memory.where.trusted
    if words not in ("", "remove"):
        print_usage(talk, "'/trust' trusts this folder, '/trust remove' takes that back.")
    elif is_trusted is not bool(words):
        already = "trusted already: '/trust remove' takes it back" if is_trusted else "not trusted: '/trust' trusts it"
        print_to_terminal(talk, f"'{folder}' is {already}.", TextStyle.DIM)
    else:
        try:
            await (trust_named_folder(talk, folder) if not words else take_back(talk, folder))
        except (StartError, UsageError, OSError) as error:
            print_to_terminal(talk, f"Nothing has changed: {error}", TextStyle.YELLOW)


async def trust_named_folder(talk: TerminalSession, folder: str) -> None:
    held = await asyncio.to_thread(cli_trust.list_untrusted_content, talk)
    cli_trust.trust_folder(folder, os.environ)
    what = f"From now on these count: {', '.join(held)}." if held else "It brings nothing that waited for it."
    print_to_terminal(talk, f"'{folder}' is trusted. {what}", TextStyle.DIM)
    await begin_again(talk)


async def take_back(talk: TerminalSession, folder: str) -> None:
    cli_trust.take_back(folder, os.environ)
    print_to_terminal(talk, f"'{folder}' is no longer trusted.", TextStyle.DIM)
    await begin_again(talk)


async def begin_again(talk: TerminalSession) -> None:
    """Who is trusted is known from here on at any rate; what cannot take effect now does when one begins anew."""
    try:
        await talk.change(talk.session.reload())
    except (StartError, UsageError) as error:  # such as an address in the environment that was changed meanwhile
        print_to_terminal(talk, f"This conversation goes on as it was: {error}", TextStyle.YELLOW)
