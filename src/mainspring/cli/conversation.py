"""`mainspring` in a terminal: a plain conversation, line by line, until the real terminal interface comes.

Between turns the event loop rests and the keyboard is read; while a turn is under way, Ctrl-C interrupts it.
"""

from __future__ import annotations

import asyncio

from mainspring.assembly.harmless import harmless
from mainspring.assembly.options import Options
from mainspring.assembly.words import clip
from mainspring.assembly.world import World
from mainspring.cli.collector import begun
from mainspring.cli.flags import readable
from mainspring.cli.output import Output, Style, wants_colour
from mainspring.cli.screen import Screen
from mainspring.cli.signals import Signals, nothing
from mainspring.cli.talk import Talk
from mainspring.cli.typed import TypedAhead, ask, load_line_editing
from mainspring.cli.wrap import AsItIs
from mainspring.core.errors import MainspringError, ToolError
from mainspring.core.messages import Assistant, Message, user
from mainspring.core.updates import Asked, Result
from mainspring.engine.prompts import Blocked
from mainspring.engine.run import Run
from mainspring.engine.wishes import compaction

MOST_ABSENT = 5  # names that are told
LONGEST_LAST = 200  # columns of what was said last, in a session that is taken up again


def converse(options: Options) -> int:
    output = Output(colour=wants_colour(), wrap=AsItIs())
    with Signals() as signals, asyncio.Runner() as runner:
        talk = Talk(options, output, runner)
        signals.check()
        ahead = TypedAhead()

        def kill() -> None:
            talk.parts.kit.kill()
            ahead.put_back()

        signals.kill = kill
        talk.begin()
        begun()
        greet(output, talk.world)
        load_line_editing()
        try:
            talk.open()
            said = readable(options.words[0]) if options.words else ask(signals, output)
            while said is not None:
                if said.strip() and (meant := understood(said, talk)):
                    tell_of_absent(meant, talk.world, output)
                    wish = said if meant is said else ""  # the words of a skill or a command are for the model
                    with ahead:
                        runner.run(turn(talk, meant, wish, signals))
                said = ask(signals, output)
        finally:
            talk.close()
    return 0


def understood(said: str, talk: Talk) -> str:
    """The prompt that it stands for; empty if it was for us, or nobody knows it: a slip should cost nothing."""
    if said.startswith("!") and "\n" not in said:  # a paste is never run
        from mainspring.cli.own_commands import run_own

        run_own(said[1:], talk.output)
        return ""
    word, words = (*said.split(None, 1), "")[:2]
    if not word.startswith("/") or "/" in word[1:] or compaction(said) is not None:
        return said
    from mainspring.cli import slash_words

    return slash_words.understood(word[1:], words.strip(), talk)


def tell_of_absent(said: str, world: World, output: Output) -> None:
    """A file that is not there, the model looks for in vain, and somebody pays for it."""
    if "@" not in said:
        return
    from mainspring.context.includes import absent

    for name in absent(said, world.about.cwd)[:MOST_ABSENT]:
        output.line(
            f"There is no file '{harmless(name)}' here: '@{harmless(name)}' is sent as it stands.", Style.YELLOW
        )


def greet(output: Output, world: World) -> None:
    about = world.about
    output.line(f"mainspring, {about.model.name}. '/help' says more. Ctrl-D leaves.", Style.BOLD)
    output.line(f"{len(about.tools)} tools. Mode: {about.mode}. {about.sandbox().capitalize()}.", Style.DIM)
    tell_of_last(output, world)


def tell_of_last(output: Output, world: World) -> None:
    """Who goes on with a session should know where."""
    last = next((m.text for m in world.session.state.history.newest_first() if is_said(m)), "")
    if last:
        words = clip(" ".join(harmless(last).split()), LONGEST_LAST)
        output.line(
            f"Going on with session '{world.about.session_id[:8]}', where this was said last: {words}", Style.DIM
        )


def is_said(message: Message) -> bool:
    """By the model, in words."""
    return isinstance(message, Assistant) and bool(message.text.strip())


async def turn(talk: Talk, said: str, wish: str, signals: Signals) -> None:
    """`wish`: what of it is for the loop itself."""
    world, screen = talk.world, Screen(talk.output, talk.model)
    try:
        heard = await world.prompts.said(user(said))
    except ToolError as error:  # a server did not bring the prompt that was named
        heard = Blocked(str(error))
    if isinstance(heard, Blocked):
        screen.broke_off(heard.reason)
        return
    whole = await followed(world.run(wish, heard), talk, screen, signals)
    while whole and world.has_more and not signals.code:
        from mainspring.cli.waiting import waited  # few have agents in the background

        screen.waits_for(world.agents.away)
        if await waited(world, signals):
            whole = await followed(world.go_on(), talk, screen, signals)
        else:
            screen.stops_waiting()


async def followed(run: Run, talk: Talk, screen: Screen, signals: Signals) -> bool:
    """Whether it came to its end."""
    async with run:
        signals.during(signals.ending(asyncio.get_running_loop(), run.interrupt))
        if signals.code:
            return False  # it was heard before there was anything to interrupt
        try:
            async for update in run:
                screen.show(update)
                talk.cost.see(update)
                if isinstance(update, Result):
                    talk.world.agents.took(update.turns)
                if isinstance(update, Asked):
                    talk.keyboard.may_ask(update.id)
        except BrokenPipeError:
            raise
        except (MainspringError, OSError) as error:
            screen.broke_off(str(error))
            return False
        finally:
            signals.during(nothing)
    return True
