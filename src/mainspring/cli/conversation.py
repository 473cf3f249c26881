"""`mainspring` in a terminal: a plain conversation, line by line, until the real terminal interface comes.

Between turns the event loop rests and the keyboard is read; while a turn is under way, Ctrl-C interrupts it.
"""

from __future__ import annotations

import asyncio
import os

from mainspring.assembly.harmless import harmless
from mainspring.assembly.options import Options, StartError
from mainspring.assembly.parts import prepare
from mainspring.assembly.words import clip, count
from mainspring.assembly.world import World, begin
from mainspring.cli.asking import Keyboard
from mainspring.cli.collector import begun
from mainspring.cli.flags import readable
from mainspring.cli.output import Output, Style, wants_colour
from mainspring.cli.screen import Screen
from mainspring.cli.signals import Signals, nothing
from mainspring.cli.typed import TypedAhead, ask, load_line_editing
from mainspring.cli.wrap import AsItIs
from mainspring.core.errors import MainspringError, ToolError
from mainspring.core.messages import Assistant, Message, user
from mainspring.core.updates import Asked, Result
from mainspring.engine.prompts import Blocked
from mainspring.engine.run import Run
from mainspring.engine.wishes import compaction

HELP = """\
/compact [words]   sum the conversation up now, heeding these words
/context           what fills the model's window
/help              this
/exit              leave; so does Ctrl-D
/NAME [words]      a skill or a command of yours, or of a trusted project: they stand below
@PATH              a file or a folder that goes along; '@a.py#L10-20' is a part of one
!COMMAND           run it yourself, here: the model is not told
+500k ...          go on until so many tokens were written
A backslash at the end of a line says that more is to come.
A paste is one prompt, however many lines it has."""

OURS = ("compact", "context", "help", "exit", "quit")  # no skill and no command takes their place

MOST_ABSENT = 5  # names that are told
MOST_LISTED = 50  # skills and commands
LONGEST_ABOUT = 90  # columns of what is said of each
LONGEST_LAST = 200  # columns of what was said last, in a session that is taken up again


def converse(options: Options) -> int:
    output = Output(colour=wants_colour(), wrap=AsItIs())
    with Signals() as signals, asyncio.Runner() as runner:
        parts = prepare(options, dict(os.environ))
        signals.check()
        ahead = TypedAhead()

        def kill() -> None:
            parts.kit.kill()
            ahead.put_back()

        signals.kill = kill
        keyboard = Keyboard(output)
        world = begin(parts, keyboard.answer)
        begun()
        keyboard.session = world.session
        greet(output, world)
        load_line_editing()
        try:
            runner.run(opened(world))
            said = readable(options.words[0]) if options.words else ask(signals, output)
            while said is not None:
                if said.strip() and (meant := understood(said, world, output)):
                    tell_of_absent(meant, world, output)
                    wish = said if meant is said else ""  # the words of a skill or a command are for the model
                    with ahead:
                        runner.run(turn(world, meant, wish, Screen(output, world.about.model), signals, keyboard))
                said = ask(signals, output)
        finally:
            if world.agents.away:
                output.line(f"({count(world.agents.away, 'agent')} still at work: ended with the session)", Style.DIM)
            runner.run(leave(world))
    return 0


def understood(said: str, world: World, output: Output) -> str:
    """The prompt that it stands for; empty if it was for us, or nobody knows it: a slip should cost nothing."""
    if said.startswith("!") and "\n" not in said:  # a paste is never run
        from mainspring.cli.own_commands import run_own

        run_own(said[1:], output)
        return ""
    word, words = (*said.split(None, 1), "")[:2]
    if not word.startswith("/") or "/" in word[1:] or compaction(said) is not None:
        return said
    if word == "/help":
        show_help(world, output)
        return ""
    if word == "/context":
        show_context(world, output)
        return ""
    try:
        return world.skill(word[1:], words.strip())
    except ToolError as error:
        output.line(f"{harmless(str(error).rstrip('.'))}: '/help' says what there is.", Style.DIM)
        return ""


def show_help(world: World, output: Output) -> None:
    from mainspring.assembly.said import others

    output.line(HELP)
    found = others(world.around, OURS)
    for one in found[:MOST_LISTED]:
        word = f"/{one.name} {one.hint}".rstrip()
        output.line(f"{harmless(word):<18} {clip(harmless(one.about), LONGEST_ABOUT)}".rstrip(), Style.DIM)
    if len(found) > MOST_LISTED:
        output.line(f"and {len(found) - MOST_LISTED} more", Style.DIM)


def show_context(world: World, output: Output) -> None:
    from mainspring.cli.context_command import lines_of

    try:
        for line in lines_of(world.about.session_id):
            output.line(line)
    except StartError:
        output.line("There is nothing in the conversation yet.", Style.DIM)


def tell_of_absent(said: str, world: World, output: Output) -> None:
    """A file that is not there, the model looks for in vain, and somebody pays for it."""
    if "@" not in said:
        return
    from mainspring.context.includes import absent

    for name in absent(said, world.about.cwd)[:MOST_ABSENT]:
        output.line(
            f"There is no file '{harmless(name)}' here: '@{harmless(name)}' is sent as it stands.", Style.YELLOW
        )


async def opened(world: World) -> None:
    await world.open()


async def leave(world: World) -> None:
    await world.close()


def greet(output: Output, world: World) -> None:
    about = world.about
    output.line(f"mainspring, {about.model.name}. '/help' says more. Ctrl-D leaves.", Style.BOLD)
    output.line(f"{len(about.tools)} tools. Mode: {about.mode}. {about.sandbox().capitalize()}.", Style.DIM)
    last = next((m.text for m in world.session.state.history.newest_first() if is_said(m)), "")
    if last:
        words = clip(" ".join(harmless(last).split()), LONGEST_LAST)
        output.line(f"Going on with session '{about.session_id[:8]}', where this was said last: {words}", Style.DIM)


def is_said(message: Message) -> bool:
    """By the model, in words."""
    return isinstance(message, Assistant) and bool(message.text.strip())


async def turn(  # noqa: PLR0913, PLR0917  # all that a turn takes
    world: World, said: str, wish: str, screen: Screen, signals: Signals, keyboard: Keyboard
) -> None:
    """`wish`: what of it is for the loop itself."""
    heard = await world.prompts.said(user(said))
    if isinstance(heard, Blocked):
        screen.broke_off(heard.reason)
        return
    whole = await followed(world.run(wish, heard), world, screen, signals, keyboard)
    while whole and world.has_more and not signals.code:
        from mainspring.cli.waiting import waited  # few have agents in the background

        screen.waits_for(world.agents.away)
        if await waited(world, signals):
            whole = await followed(world.go_on(), world, screen, signals, keyboard)
        else:
            screen.stops_waiting()


async def followed(run: Run, world: World, screen: Screen, signals: Signals, keyboard: Keyboard) -> bool:
    """Whether it came to its end."""
    async with run:
        signals.during(signals.ending(asyncio.get_running_loop(), run.interrupt))
        if signals.code:
            return False  # it was heard before there was anything to interrupt
        try:
            async for update in run:
                screen.show(update)
                if isinstance(update, Result):
                    world.agents.took(update.turns)
                if isinstance(update, Asked):
                    keyboard.may_ask(update.id)
        except BrokenPipeError:
            raise
        except (MainspringError, OSError) as error:
            screen.broke_off(str(error))
            return False
        finally:
            signals.during(nothing)
    return True
