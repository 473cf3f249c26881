"""Dispatch slash commands in a conversation, print their output, and run `!COMMAND`.

`agent/slash_commands.py` lists the slash commands of every front end; `DOES` maps each name to the module and function
that implement it in the terminal.

Output is whole lines without control characters; long lists are cut.

The user runs `!COMMAND` in the terminal, as in a shell. Permission rules and the sandbox do not apply: they are for
the model's calls. The model does not see the command or its output.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, cast

from mainspring import cli
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


# Takes the text after the command's name; a returned text is a prompt.
Does = Callable[["TerminalSession", str], Awaitable[str | None]]

# Name -> module in `cli/slash/` and function in it. Imported when the user runs the command.
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
    """Run `/word words`. Returns the prompt it expands to; empty for a built-in or unknown command."""
    own = next((one for one in words_at(TERMINAL) if one.name == word), None)
    if own is not None:
        if words and not own.hint:
            talk.output.line(f"/{word} takes no arguments.", TextStyle.DIM)
        elif word in DOES:
            return await load_slash_command(word)(talk, words) or ""
        return ""
    try:
        return talk.world.skill(word, words)
    except ToolError as error:
        if waits_for_trust(word, talk):
            told = f"/{word} is disabled because this folder is not trusted. Run /trust to enable it."
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
    return cli.is_held_back(word, talk.world.around)


def suggest_slash_command(word: str, talk: TerminalSession) -> str:
    own = names_at(TERMINAL)
    near = closest_name(word, (*own, *[one.name for one in list_other_commands(talk.world.around, own)]))
    return f". Did you mean /{strip_control_characters(near)}?" if near else ". Type /help for a list of commands."


MOST_LISTED = 50  # rows of a list: more than fit on a screen
LONGEST_ABOUT = 90  # columns of a description


def print_to_terminal(talk: TerminalSession, text: str, style: TextStyle = TextStyle.PLAIN) -> None:
    talk.output.line(strip_control_characters(text), style)


def clean_line(text: str) -> str:
    """Untrusted text on one line, redacted and without control characters."""
    return " ".join(strip_control_characters(redact(text)).split())


def shorten_about(text: str) -> str:
    return truncate(clean_line(text), LONGEST_ABOUT)


def tell_all(talk: TerminalSession, rows: Iterable[str], style: TextStyle = TextStyle.PLAIN) -> None:
    for row in rows:
        print_to_terminal(talk, row, style)


def tell_list(
    talk: TerminalSession, rows: Sequence[str], style: TextStyle = TextStyle.PLAIN, most: int = MOST_LISTED
) -> None:
    """Print at most `most` rows, then how many more there are."""
    tell_all(talk, rows[:most], style)
    if len(rows) > most:
        print_to_terminal(talk, f"and {len(rows) - most:,} more", TextStyle.DIM)


def print_usage(talk: TerminalSession, words: str) -> None:
    """Print how a command is used, after wrong or missing arguments."""
    print_to_terminal(talk, words, TextStyle.DIM)


def file_of(talk: TerminalSession) -> str:
    """The journal file of the session. Empty: the session is not stored, or has no prompt yet."""
    journal = talk.opened.journal
    return journal.file if journal is not None and journal.stored and size_of(journal.file) else ""


def title_of(talk: TerminalSession) -> str:
    """The title that a list of sessions shows; empty: none yet. Reads only two pieces of the file."""
    file = file_of(talk)
    if not file:
        return ""
    found = describe_session(SessionEntry(talk.world.about.session_id, Path(file), 0, size_of(file)))
    return found.title if found is not None else ""


async def run_own(command: str, output: LineWriter) -> None:
    """While the command runs, Ctrl-C goes to it alone. Not SIG_IGN, which the child would inherit."""
    if not command.strip():
        output.line("Type a command after '!', such as '!git status'.", TextStyle.DIM)
        return
    before = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        child = await asyncio.create_subprocess_exec(os.environ.get("SHELL") or "/bin/sh", "-c", command)
        try:
            code = await child.wait()
        except asyncio.CancelledError:  # the process ends, and the command with it
            child.send_signal(signal.SIGHUP)
            raise
    except OSError as error:
        output.line(f"Cannot start the shell: {strip_control_characters(str(error))}", TextStyle.RED)
        return
    finally:
        signal.signal(signal.SIGINT, before)
    if code > 0:
        output.line(f"(exit code {code})", TextStyle.YELLOW)
    elif code < 0:
        output.line()  # after the `^C` of the terminal
        output.line(f"(ended by signal {-code})", TextStyle.YELLOW)
