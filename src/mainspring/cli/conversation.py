"""`mainspring` in a terminal: a plain conversation, line by line, until the real terminal interface comes.

Between turns the event loop rests and the keyboard is read; while a turn is under way, Ctrl-C interrupts it.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from importlib import import_module

from mainspring.cli.asking import Keyboard
from mainspring.cli.flags import Options, readable
from mainspring.cli.output import Output, Style, wants_colour
from mainspring.cli.screen import Screen
from mainspring.cli.signals import Signals, nothing
from mainspring.cli.world import World, begin, prepare
from mainspring.cli.wrap import AsItIs
from mainspring.core.errors import MainspringError, ToolError
from mainspring.core.messages import user
from mainspring.core.updates import Asked
from mainspring.engine.prompts import Blocked
from mainspring.engine.wishes import compaction

PROMPT = "> "
LEAVE = ("/exit", "/quit", "exit", "quit")
HELP = """\
/compact [words]   sum the conversation up now, heeding these words
/help              this
/exit              leave; so does Ctrl-D
/NAME [words]      a skill of yours, or of a trusted project
+500k ...          go on until so many tokens were written
A backslash at the end of a line says that more is to come."""
HOW_TO_LEAVE = "Ctrl-D leaves; so does '/exit', or Ctrl-C twice."


def converse(options: Options) -> int:
    output = Output(colour=wants_colour(), wrap=AsItIs())
    with Signals() as signals, asyncio.Runner() as runner:
        parts = prepare(options, dict(os.environ))
        signals.check()
        signals.kill = parts.kit.kill
        keyboard = Keyboard(output)
        world = begin(parts, keyboard.answer)
        keyboard.session = world.session
        greet(output, world)
        load_line_editing()
        said = readable(options.words[0]) if options.words else ask(signals, output)
        try:
            while said is not None:
                if said.strip() and (said := understood(said, world, output)):
                    runner.run(turn(world, said, Screen(output, world.about.model), signals, keyboard))
                said = ask(signals, output)
        finally:
            runner.run(leave(world))
    return 0


def understood(said: str, world: World, output: Output) -> str:
    """The prompt that it stands for; empty if it was for us, or nobody knows it: a slip should cost nothing."""
    word, _, words = said.strip().partition(" ")
    if not word.startswith("/") or "/" in word[1:] or compaction(said) is not None:
        return said
    if word == "/help":
        output.line(HELP)
        return ""
    try:
        return world.skill(word[1:], words)
    except ToolError:
        output.line(f"There is no command and no skill '{word}': '/help' says what there is.", Style.DIM)
        return ""


async def leave(world: World) -> None:
    await world.close()


def greet(output: Output, world: World) -> None:
    about = world.about
    output.line(f"mainspring, {about.model.name}. '/help' says more. {HOW_TO_LEAVE}", Style.BOLD)
    output.line(f"{len(about.tools)} tools. Mode: {about.mode}. {about.sandbox().capitalize()}.", Style.DIM)


def ask(signals: Signals, output: Output) -> str | None:
    """What was typed; None to leave. A backslash at its end says that more is to come."""
    said = ""
    while True:
        try:
            with signals.heard_at_once():
                line = readable(input("  " if said else PROMPT))
        except EOFError:
            output.line()
            return None
        except KeyboardInterrupt:
            output.line()
            output.line(HOW_TO_LEAVE, Style.DIM)
            said = ""
            continue
        if line.strip() in LEAVE and not said:
            return None
        said += line
        if not said.endswith("\\"):
            return said
        said = said[:-1] + "\n"


def load_line_editing() -> None:
    """Arrow keys and a history: `input` uses it where the system has it."""
    with suppress(ImportError):
        import_module("readline")


async def turn(world: World, said: str, screen: Screen, signals: Signals, keyboard: Keyboard) -> None:
    loop = asyncio.get_running_loop()
    heard = await world.prompts.said(user(said))
    if isinstance(heard, Blocked):
        screen.broke_off(heard.reason)
        return
    async with world.run(said, heard) as run:
        signals.during(signals.ending(loop, run.interrupt))
        if signals.code:
            return  # it was heard before there was anything to interrupt
        try:
            async for update in run:
                screen.show(update)
                if isinstance(update, Asked):
                    keyboard.may_ask(update.id)
        except BrokenPipeError:
            raise
        except (MainspringError, OSError) as error:
            screen.broke_off(str(error))
        finally:
            signals.during(nothing)
