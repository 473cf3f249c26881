"""Slash commands without a screen: the answer to a prompt that begins with a slash (settled 42).

- A built-in command that needs no screen is run, and its lines are the answer: no request is sent.
- One that needs a screen fails, and so does a name that is close to a known one: a typo costs nothing.
- Everything else is text for the model: `/etc/hosts is empty`, and the skills and custom commands that expand.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TYPE_CHECKING, cast

from mainspring.agent.run_loop import LocalAnswer, LocalCommand
from mainspring.agent.slash.held_back import is_held_back
from mainspring.agent.slash.lines import SlashCommandError, SlashContext, TextStyle
from mainspring.agent.slash_commands import (
    PIPE,
    TERMINAL,
    YIELDING,
    explain_screen_only,
    find_builtin,
    list_other_commands,
    names_at,
)
from mainspring.core.errors import ToolError
from mainspring.text import closest_name, strip_control_characters

if TYPE_CHECKING:
    from mainspring.agent.session import AgentSession
    from mainspring.agent.session_parts import SessionParts
    from mainspring.agent.slash_commands import SlashCommand

RunSlashCommand = Callable[[SlashContext, str], Awaitable[str | None]]


class CollectedLines:
    """The lines of one command."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def line(self, text: str = "", style: TextStyle = TextStyle.PLAIN) -> None:  # noqa: ARG002  # there is no colour
        self.lines.append(text)


class ScreenlessContext(SlashContext):
    door = PIPE


def find_local_command(text: str, session: AgentSession) -> LocalCommand | None:
    """The command that answers this prompt. None: the prompt is for the model."""
    name, arguments = (*text.split(None, 1), "")[:2]
    if not text.startswith("/") or "/" in name[1:]:
        return None
    word, arguments = find_builtin(name[1:]), arguments.strip()
    if word is None or is_replaced(word, session.world):
        wrong = explain_unknown_command(name[1:], arguments, session.world)
        return fail(wrong) if wrong else None
    if word.needs_screen:
        return fail(explain_screen_only(word))
    if not word.text:  # `/compact`: the loop runs it
        return None
    if arguments and not word.hint:
        return fail(f"/{word.name} takes no arguments.")
    return LocalCommand(lambda: run_without_screen(word, arguments, session), starts_anew=word.switches)


def is_replaced(word: SlashCommand, world: SessionParts) -> bool:
    """By a skill or custom command of the same name, which may still need trust."""
    if word.name not in YIELDING:
        return False
    others = list_other_commands(world.around, ())
    return word.name in [one.name for one in others] or is_held_back(word.name, world.around)


def fail(words: str) -> LocalCommand:
    async def answer() -> LocalAnswer:
        return LocalAnswer(words, failed=True)

    return LocalCommand(answer)


async def run_without_screen(word: SlashCommand, arguments: str, session: AgentSession) -> LocalAnswer:
    output = CollectedLines()
    try:
        prompt = await load_slash_command(word)(ScreenlessContext(session, output), arguments)
    except SlashCommandError as error:
        return LocalAnswer("\n".join([*output.lines, strip_control_characters(str(error))]), failed=True)
    return LocalAnswer("\n".join(output.lines), prompt=prompt or "")


def load_slash_command(word: SlashCommand) -> RunSlashCommand:
    file, _, name = word.text.partition(".")
    return cast("RunSlashCommand", getattr(import_module(f"mainspring.agent.slash.{file}"), name))


def explain_unknown_command(name: str, arguments: str, world: SessionParts) -> str:
    """Why `/name` is probably a mistake. Empty: it is a skill or custom command, or text."""
    try:
        world.skill(name, arguments)
    except ToolError as error:
        known = names_at(TERMINAL)
        others = [one.name for one in list_other_commands(world.around, known)]
        near = closest_name(name, (*known, *others))
        if near:
            more = "" if near == name else f". Did you mean /{near}?"
            return strip_control_characters(f"{str(error).rstrip('.')}{more}")
    return ""
