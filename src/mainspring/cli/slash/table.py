"""What the words with a slash do in a conversation: which file does which. Which there are, for every door, is in
`agent/slash_commands.py`.

How words with a slash tell something: whole lines, nothing that a terminal obeys, and lists that come to an end.

The file of the session that is spoken to, as far as there is one.

`!COMMAND` at the prompt of a conversation: the user runs it, in the terminal, as in a shell.

No rule and no sandbox is asked: these are for what a model wants. The model is not told of it either.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, cast

from mainspring.agent.slash_commands import TERMINAL, list_other_commands, names_at, words_at
from mainspring.cli.output import TextStyle
from mainspring.cli.terminal_session import LineWriter
from mainspring.core.errors import ToolError
from mainspring.secrets.redaction import redact
from mainspring.sessions.listing import SessionEntry, describe_session
from mainspring.sessions.paths import size_of
from mainspring.text import closest_name, strip_control_characters, truncate

if TYPE_CHECKING:
    from mainspring.cli.terminal_session import TerminalSession


Does = Callable[["TerminalSession", str], Awaitable[str | None]]  # with what stands behind the word; a text is a prompt

# Where each is done, in `cli/slash/`: a file, and a function in it. Loaded when somebody says the word.
DOES = {
    "help": ("info", "show_help"),
    "status": ("info", "status"),
    "context": ("info", "show_context"),
    "cost": ("info", "show_cost"),
    "model": ("settings", "model"),
    "permissions": ("settings", "permissions"),
    "add-dir": ("settings", "add_dir"),
    "clear": ("session", "clear"),
    "resume": ("session", "resume"),
    "rename": ("session", "rename"),
    "rewind": ("session", "rewind"),
    "export": ("session", "export"),
    "memory": ("settings", "memory"),
    "init": ("settings", "init"),
    "skills": ("settings", "skills"),
    "agents": ("info", "agents"),
    "tasks": ("info", "tasks"),
    "mcp": ("info", "mcp"),
    "hooks": ("settings", "hooks"),
    "config": ("settings", "config"),
    "doctor": ("settings", "doctor"),
    "trust": ("settings", "trust"),
}


async def run_slash_command(word: str, words: str, talk: TerminalSession) -> str:
    """The prompt that `/word words` stands for; empty if it was for us, or nobody knows it: a slip costs nothing."""
    own = next((one for one in words_at(TERMINAL) if one.name == word), None)
    if own is not None:
        if words and not own.hint:
            talk.output.line(f"'/{word}' takes no words.", TextStyle.DIM)
        elif word in DOES:
            return await load_slash_command(word)(talk, words) or ""
        return ""
    try:
        return talk.world.skill(word, words)
    except ToolError as error:
        if waits_for_trust(word, talk):
            told = f"'/{word}' is held back: this folder is not trusted. '/trust' trusts it."
            talk.output.line(strip_control_characters(told), TextStyle.YELLOW)
        else:
            talk.output.line(
                f"{strip_control_characters(str(error).rstrip('.'))}{suggest_slash_command(word, talk)}", TextStyle.DIM
            )
        return ""


def load_slash_command(word: str) -> Does:
    file, name = DOES[word]
    return cast("Does", getattr(import_module(f"mainspring.cli.slash.{file}"), name))


def waits_for_trust(word: str, talk: TerminalSession) -> bool:
    from mainspring.cli.trust import is_held_back  # few say a word that nobody knows

    return is_held_back(word, talk.world.around)


def suggest_slash_command(word: str, talk: TerminalSession) -> str:
    own = names_at(TERMINAL)
    near = closest_name(word, (*own, *[one.name for one in list_other_commands(talk.world.around, own)]))
    return f". Did you mean '/{strip_control_characters(near)}'?" if near else ": '/help' says what there is."


MOST_LISTED = 50  # rows of a list: more than fit on a screen
LONGEST_ABOUT = 90  # columns of what is said of a thing


def print_to_terminal(talk: TerminalSession, text: str, style: TextStyle = TextStyle.PLAIN) -> None:
    talk.output.line(strip_control_characters(text), style)


def clean_line(text: str) -> str:
    """Words of others, on one line and without keys."""
    return " ".join(strip_control_characters(redact(text)).split())


def shorten_about(text: str) -> str:
    return truncate(clean_line(text), LONGEST_ABOUT)


def tell_all(talk: TerminalSession, rows: Iterable[str], style: TextStyle = TextStyle.PLAIN) -> None:
    for row in rows:
        print_to_terminal(talk, row, style)


def tell_list(
    talk: TerminalSession, rows: Sequence[str], style: TextStyle = TextStyle.PLAIN, most: int = MOST_LISTED
) -> None:
    """As many as somebody reads, and how many more there are."""
    tell_all(talk, rows[:most], style)
    if len(rows) > most:
        print_to_terminal(talk, f"and {len(rows) - most:,} more", TextStyle.DIM)


def print_usage(talk: TerminalSession, words: str) -> None:
    """How a word is used, for somebody who used it otherwise."""
    print_to_terminal(talk, words, TextStyle.DIM)


def file_of(talk: TerminalSession) -> str:
    """Empty: nothing of the session is stored, or nothing was said yet."""
    journal = talk.opened.journal
    return journal.file if journal is not None and journal.stored and size_of(journal.file) else ""


def title_of(talk: TerminalSession) -> str:
    """As a list of sessions shows it; empty: it has none yet. Reads two pieces of its file, however long it is."""
    file = file_of(talk)
    if not file:
        return ""
    found = describe_session(SessionEntry(talk.world.about.session_id, Path(file), 0, size_of(file)))
    return found.title if found is not None else ""


async def run_own(command: str, output: LineWriter) -> None:
    """Ctrl-C is for the command alone, as long as it runs; a handler, unlike an ignored signal, is not handed down."""
    if not command.strip():
        output.line("'!' runs what stands behind it, such as '!git status'.", TextStyle.DIM)
        return
    before = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        child = await asyncio.create_subprocess_exec(os.environ.get("SHELL") or "/bin/sh", "-c", command)
        try:
            code = await child.wait()
        except asyncio.CancelledError:  # we are to end, and it with us
            child.send_signal(signal.SIGHUP)
            raise
    except OSError as error:
        output.line(f"The shell cannot be started: {strip_control_characters(str(error))}", TextStyle.RED)
        return
    finally:
        signal.signal(signal.SIGINT, before)
    if code > 0:
        output.line(f"(exit code {code})", TextStyle.YELLOW)
    elif code < 0:
        output.line()  # behind the `^C` of the terminal
        output.line(f"(ended by signal {-code})", TextStyle.YELLOW)
