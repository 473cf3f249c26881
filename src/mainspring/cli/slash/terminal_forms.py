"""The terminal's own forms of `/copy` and `/context`, which have more to work with than the text forms."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from mainspring import cli
from mainspring.agent.options import StartError
from mainspring.agent.slash.answers import find_copied_text
from mainspring.agent.slash.lines import SlashCommandError, TextStyle, print_line, tell_all
from mainspring.cli.clipboard import copy_text, count_words

if TYPE_CHECKING:
    from mainspring.cli.terminal_session import TerminalSession


async def copy(talk: TerminalSession, words: str) -> None:
    """To the clipboard, by a program of the desktop and by the terminal itself."""
    text = find_copied_text(talk, words)
    where = await copy_text(text, talk.config.environment, talk.config.cwd, talk.write_sequence)
    if not where:
        raise SlashCommandError("Cannot copy here: install wl-clipboard (Wayland), xclip (X.Org), or use a terminal.")
    what = f"code block {words}" if words else "the last answer"
    print_line(talk, f"Copied {what} ({count_words(text)}) with {where}.", TextStyle.DIM)


async def show_context(talk: TerminalSession, _: str) -> None:
    """The whole report of `mainspring context`, from the session file."""
    session = talk.world.about.session_id
    try:
        lines = await asyncio.to_thread(lambda: list(cli.lines_of(session)))  # reads the whole file
    except StartError:
        print_line(talk, "The conversation is empty.", TextStyle.DIM)
        return
    tell_all(talk, lines)
