"""Slash commands for keys: `/login` and `/logout`. The terminal asks (`tui/setup_screen.py`), and they apply the
answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from mainspring.agent.options import StartError
from mainspring.cli.commands.login import KNOWN, format_key_sources, remove_key
from mainspring.cli.output import TextStyle
from mainspring.cli.provider_setup import require_home
from mainspring.core.errors import UsageError
from mainspring.secrets.credentials import Credentials
from mainspring.text import strip_control_characters

if TYPE_CHECKING:
    from mainspring.cli.terminal_session import TerminalSession


def write_line(talk: TerminalSession, text: str, style: TextStyle = TextStyle.PLAIN) -> None:
    talk.output.line(strip_control_characters(text), style)


async def login(talk: TerminalSession, model: str) -> None:
    """Reads keys and settings again, in this conversation. `model`: the one that was chosen; empty: as it was."""
    if not model:
        for line in format_key_sources(talk.config.environment):
            write_line(talk, line)
        write_line(talk, "To store a key, run 'mainspring login'.", TextStyle.DIM)
        return
    try:
        await talk.change(talk.session.reload(model=model))
        await talk.session.set_model(None)
    except (StartError, UsageError) as error:
        write_line(talk, f"It takes effect in the next session: {error}.", TextStyle.YELLOW)
        return
    write_line(talk, f"This conversation now uses {talk.model.name}.", TextStyle.DIM)


async def logout(talk: TerminalSession, provider: str) -> None:
    """The key stays in this process until it ends: a running conversation is not interrupted."""
    try:
        credentials = Credentials(require_home(talk.config.environment))
        names = [provider] if provider else list(await asyncio.to_thread(credentials.sources))
        said = [await asyncio.to_thread(remove_key, name, credentials) for name in names]
    except (StartError, UsageError, OSError) as error:
        write_line(talk, f"Not removed: {error}", TextStyle.YELLOW)
        return
    for line in said or [f"No key is stored. Providers: {', '.join(KNOWN)}."]:
        write_line(talk, line)
    if said:
        write_line(talk, "This session keeps its key until it ends.", TextStyle.DIM)
