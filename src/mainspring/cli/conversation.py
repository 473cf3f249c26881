"""`mainspring` in a terminal that is no more than a typewriter (`TERM=dumb`): a plain conversation, line by line.

Between turns the event loop rests and the keyboard is read; while a turn is under way, Ctrl-C interrupts it.
"""

from __future__ import annotations

import asyncio
import os

from mainspring.agent.config import ResolvedConfig, resolve_config
from mainspring.agent.open_session import open_session
from mainspring.agent.prompt_expansion import parse_compact_command
from mainspring.agent.session_parts import SessionParts
from mainspring.agent.slash_commands import lines_of_attached
from mainspring.agent.updates import (
    AnyUpdate,
    Idle,
    Notice,
    PromptAnswered,
    PromptBlocked,
    PromptExpanded,
    PromptReturned,
    RunBroken,
    SessionUpdate,
)
from mainspring.cli.asking import PlainHost
from mainspring.cli.collector import freeze_garbage_collector
from mainspring.cli.flags import Arguments, show_argument
from mainspring.cli.output import TerminalOutput, TextStyle, wants_colour
from mainspring.cli.plain import PlainScreen
from mainspring.cli.plain_input import TypedAhead, load_line_editing, read_typed_line
from mainspring.cli.signals import Signals, do_nothing
from mainspring.cli.terminal_session import LineWriter, TerminalSession
from mainspring.cli.wrap import NoWrap
from mainspring.core.messages import Assistant, Message
from mainspring.text import strip_control_characters, truncate

MOST_ABSENT = 5  # names that are told
LONGEST_LAST = 200  # columns of what was said last, in a session that is taken up again


def run_plain_conversation(arguments: Arguments) -> int:
    output = TerminalOutput(colour=wants_colour(), wrap=NoWrap())
    with Signals() as signals, asyncio.Runner() as runner:
        keyboard = PlainHost(output, lambda: talk.session.permissions)
        config = resolve_config(arguments.session, dict(os.environ))
        signals.check()
        ahead = TypedAhead()
        talk = runner.run(new_talk(config, output, keyboard))

        def kill() -> None:
            talk.session.kill()
            ahead.put_back()

        signals.kill = kill
        freeze_garbage_collector()
        print_greeting(output, talk.world)
        load_line_editing()
        try:
            runner.run(talk.open())
            said = show_argument(arguments.words[0]) if arguments.words else read_typed_line(signals, output)
            while said is not None:
                if said.strip() and (meant := runner.run(expand_typed_line(said, talk, output))):
                    with ahead:
                        runner.run(PlainRun(talk, output, signals).follow(meant))
                said = read_typed_line(signals, output, keyboard.take_early())
        finally:
            runner.run(talk.close())
    return 0


async def new_talk(config: ResolvedConfig, output: TerminalOutput, keyboard: PlainHost) -> TerminalSession:
    """Raises `StartError`."""
    return TerminalSession(open_session(config, keyboard), output)


async def expand_typed_line(said: str, talk: TerminalSession, output: TerminalOutput) -> str:
    """The prompt that it stands for; empty if it was for us, or nobody knows it: a slip should cost nothing."""
    if said.startswith("!") and "\n" not in said:  # a paste is never run
        from mainspring.cli.slash.own_commands import run_own

        await run_own(said[1:], output)
        return ""
    word, words = (*said.split(None, 1), "")[:2]
    if not word.startswith("/") or "/" in word[1:] or parse_compact_command(said) is not None:
        return said
    from mainspring.cli.slash import table

    return await table.run_slash_command(word[1:], words.strip(), talk)


def tell_of_mentions(update: PromptExpanded, output: LineWriter) -> None:
    """A file that is not there, the model looks for in vain, and somebody pays for it."""
    for name in update.missing[:MOST_ABSENT]:
        shown = strip_control_characters(name)
        output.line(f"There is no file '{shown}' here: '@{shown}' is sent as it stands.", TextStyle.YELLOW)
    for line in lines_of_attached(update.attached):
        output.line(line, TextStyle.DIM)


def print_greeting(output: LineWriter, world: SessionParts) -> None:
    about = world.about
    output.line(f"mainspring, {about.model.name}. '/help' says more. Ctrl-D leaves.", TextStyle.BOLD)
    output.line(f"{len(about.tools)} tools. Mode: {about.mode}. {about.sandbox().capitalize()}.", TextStyle.DIM)
    tell_of_last(output, world)


def tell_of_last(output: LineWriter, world: SessionParts) -> None:
    """Who goes on with a session should know where."""
    last = next((m.text for m in world.session.state.history.newest_first() if is_said(m)), "")
    if last:
        words = truncate(" ".join(strip_control_characters(last).split()), LONGEST_LAST)
        output.line(
            f"Going on with session '{world.about.session_id[:8]}', where this was said last: {words}", TextStyle.DIM
        )


def is_said(message: Message) -> bool:
    """By the model, in words."""
    return isinstance(message, Assistant) and bool(message.text.strip())


class PlainRun:
    def __init__(self, talk: TerminalSession, output: TerminalOutput, signals: Signals) -> None:
        self._talk, self._signals = talk, signals
        self._screen = PlainScreen(output, talk.model)

    async def follow(self, text: str) -> None:
        """To the end of all that comes of it."""
        session, signals = self._talk.session, self._signals
        await session.submit(text)
        signals.during(signals.ending(asyncio.get_running_loop(), lambda: session.interrupt(hold_reports=True)))
        if signals.code:  # it was heard before there was anything to interrupt
            session.interrupt(hold_reports=True)
        waits = False
        try:
            async for update in session.updates():
                if isinstance(update, Idle) and not session.queued:
                    if not update.background:
                        break
                    waits = True
                    self._screen.waits_for(update.background)
                self._show(update)
        finally:
            signals.during(do_nothing)
        if waits and self._talk.world.agents.away:
            self._screen.stops_waiting()

    def _show(self, update: AnyUpdate) -> None:
        screen, output = self._screen, self._talk.output
        match update:
            case PromptExpanded():
                tell_of_mentions(update, output)
            case PromptBlocked():
                screen.broke_off(update.reason)
            case PromptAnswered():
                output.line(strip_control_characters(update.text))
            case PromptReturned():
                output.line("(interrupted)", TextStyle.YELLOW)
            case RunBroken():
                screen.broke_off(str(update.error))
            case Notice():
                self._talk.config.options.say(update.text)
            case SessionUpdate():
                pass
            case _:
                screen.show(update)
