"""Dispatch slash commands in a conversation.

`agent/slash_commands.py` lists the slash commands of every front end, and `agent/slash/` has their text forms; `DOES`
has the ones that the terminal draws in its own way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TYPE_CHECKING, cast

from mainspring.agent.slash.answer import is_replaced
from mainspring.agent.slash.answer import load_slash_command as load_text_form
from mainspring.agent.slash.held_back import is_held_back
from mainspring.agent.slash.lines import SlashCommandError, TextStyle
from mainspring.agent.slash_commands import TERMINAL, SlashCommand, find_builtin, list_other_commands, names_at
from mainspring.core.errors import ToolError
from mainspring.text import closest_name, strip_control_characters

if TYPE_CHECKING:
    from mainspring.cli.terminal_session import TerminalSession


# Takes the text after the command's name; a returned text is a prompt.
Does = Callable[["TerminalSession", str], Awaitable[str | None]]

# The commands with a form for the terminal: name -> module in `cli/slash/` and function in it. All others have their
# text form (`agent/slash/`). Imported when the user runs the command.
DOES = {
    "context": ("terminal_forms", "show_context"),
    "copy": ("terminal_forms", "copy"),
    "login": ("login", "login"),
    "logout": ("login", "logout"),
    "trace": ("trace", "trace"),
    "trust": ("trust", "trust"),
}


async def run_slash_command(word: str, words: str, talk: TerminalSession) -> str:
    """Run `/word words`. Returns the prompt it expands to; empty for a built-in or unknown command."""
    own = find_builtin(word)
    if own is not None and not is_replaced(own, talk.world):
        return await run_builtin(own, words, talk)
    try:
        return talk.world.skill(word, words)
    except ToolError as error:
        if is_held_back(word, talk.world.around):
            told = f"/{word} is disabled because this folder is not trusted. Run /trust to enable it."
            talk.output.line(strip_control_characters(told), TextStyle.YELLOW)
        else:
            talk.output.line(
                f"{strip_control_characters(str(error).rstrip('.'))}{suggest_slash_command(word, talk)}", TextStyle.DIM
            )
        return ""


async def run_builtin(word: SlashCommand, words: str, talk: TerminalSession) -> str:
    if words and not word.hint:
        talk.output.line(f"/{word.name} takes no arguments.", TextStyle.DIM)
        return ""
    if word.name not in DOES and not word.text:  # `/compact`, which the loop runs, and `/exit`
        return ""
    try:
        return await load_slash_command(word)(talk, words) or ""
    except SlashCommandError as error:
        talk.output.line(strip_control_characters(str(error)), TextStyle.YELLOW)
        return ""


def load_slash_command(word: SlashCommand) -> Does:
    if word.name not in DOES:
        return load_text_form(word)
    file, name = DOES[word.name]
    return cast("Does", getattr(import_module(f"mainspring.cli.slash.{file}"), name))


def suggest_slash_command(word: str, talk: TerminalSession) -> str:
    own = names_at(TERMINAL)
    near = closest_name(word, (*own, *[one.name for one in list_other_commands(talk.world.around, own)]))
    return f". Did you mean /{strip_control_characters(near)}?" if near else ". Type /help for a list of commands."
