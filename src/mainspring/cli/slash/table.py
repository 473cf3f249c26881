"""What the words with a slash do in a conversation: which file does which. Which there are, for every door, is in
`agent/slash_commands.py`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TYPE_CHECKING, cast

from mainspring.agent.slash_commands import TERMINAL, list_other_commands, names_at, words_at
from mainspring.cli.output import TextStyle
from mainspring.core.errors import ToolError
from mainspring.text import strip_control_characters

if TYPE_CHECKING:
    from mainspring.cli.terminal_session import TerminalSession

Does = Callable[["TerminalSession", str], Awaitable[str | None]]  # with what stands behind the word; a text is a prompt

# Where each is done, in `cli/slash/`: a file, and a function in it. Loaded when somebody says the word.
DOES = {
    "help": ("overview", "show_help"),
    "status": ("overview", "status"),
    "context": ("overview", "show_context"),
    "cost": ("overview", "show_cost"),
    "model": ("choices", "model"),
    "permissions": ("choices", "permissions"),
    "add-dir": ("choices", "add_dir"),
    "clear": ("session", "clear"),
    "resume": ("session", "resume"),
    "rename": ("session", "rename"),
    "rewind": ("session", "rewind"),
    "export": ("exporting", "export"),
    "memory": ("settings", "memory"),
    "init": ("settings", "init"),
    "skills": ("settings", "skills"),
    "agents": ("info", "agents"),
    "tasks": ("info", "tasks"),
    "mcp": ("servers", "mcp"),
    "hooks": ("checks", "hooks"),
    "config": ("checks", "config"),
    "doctor": ("checks", "doctor"),
    "trust": ("trusting", "trust"),
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
    from mainspring.text import closest_name

    own = names_at(TERMINAL)
    near = closest_name(word, (*own, *[one.name for one in list_other_commands(talk.world.around, own)]))
    return f". Did you mean '/{strip_control_characters(near)}'?" if near else ": '/help' says what there is."
