"""`mainspring` in a terminal that is no more than a typewriter (`TERM=dumb`): a plain conversation, line by line.

Between turns the event loop rests and the keyboard is read; while a turn is under way, Ctrl-C interrupts it.
"""

from __future__ import annotations

import asyncio

from mainspring.assembly.harmless import harmless
from mainspring.assembly.options import Options
from mainspring.assembly.said import told_of_attached
from mainspring.assembly.words import clip
from mainspring.assembly.world import World
from mainspring.cli.asking import Keyboard
from mainspring.cli.collector import begun
from mainspring.cli.flags import readable
from mainspring.cli.output import Output, Style, wants_colour
from mainspring.cli.screen import Screen
from mainspring.cli.signals import Signals, nothing
from mainspring.cli.talk import Lines, Talk
from mainspring.cli.typed import TypedAhead, ask, load_line_editing
from mainspring.cli.wrap import AsItIs
from mainspring.core.errors import MainspringError
from mainspring.core.messages import Assistant, Message
from mainspring.core.updates import Asked
from mainspring.engine.prompts import Blocked
from mainspring.engine.run import Run
from mainspring.engine.wishes import compaction
from mainspring.settings.load import Asked as Kept

MOST_ABSENT = 5  # names that are told
LONGEST_LAST = 200  # columns of what was said last, in a session that is taken up again


def converse(options: Options) -> int:
    output = Output(colour=wants_colour(), wrap=AsItIs())
    with Signals() as signals, asyncio.Runner() as runner:
        keyboard = Keyboard(output, Kept(options.settings, options.setting_sources))
        talk = Talk(options, output, keyboard)
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
            runner.run(talk.open())
            said = readable(options.words[0]) if options.words else ask(signals, output)
            while said is not None:
                if said.strip() and (meant := runner.run(understood(said, talk, output))):
                    tell_of_absent(meant, talk.world, output)
                    wish = said if meant is said else ""  # the words of a skill or a command are for the model
                    with ahead:
                        runner.run(Turn(talk, keyboard, output, signals).follow(meant, wish))
                said = ask(signals, output, keyboard.take_early())
        finally:
            runner.run(talk.close())
    return 0


async def understood(said: str, talk: Talk, output: Output) -> str:
    """The prompt that it stands for; empty if it was for us, or nobody knows it: a slip should cost nothing."""
    if said.startswith("!") and "\n" not in said:  # a paste is never run
        from mainspring.cli.own_commands import run_own

        await run_own(said[1:], output)
        return ""
    word, words = (*said.split(None, 1), "")[:2]
    if not word.startswith("/") or "/" in word[1:] or compaction(said) is not None:
        return said
    from mainspring.cli import slash_words

    return await slash_words.understood(word[1:], words.strip(), talk)


def tell_of_absent(said: str, world: World, output: Lines) -> None:
    """A file that is not there, the model looks for in vain, and somebody pays for it."""
    if "@" not in said:
        return
    from mainspring.context.includes import absent

    for name in absent(said, world.about.cwd)[:MOST_ABSENT]:
        output.line(
            f"There is no file '{harmless(name)}' here: '@{harmless(name)}' is sent as it stands.", Style.YELLOW
        )


def greet(output: Lines, world: World) -> None:
    about = world.about
    output.line(f"mainspring, {about.model.name}. '/help' says more. Ctrl-D leaves.", Style.BOLD)
    output.line(f"{len(about.tools)} tools. Mode: {about.mode}. {about.sandbox().capitalize()}.", Style.DIM)
    tell_of_last(output, world)


def tell_of_last(output: Lines, world: World) -> None:
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


class Turn:
    def __init__(self, talk: Talk, keyboard: Keyboard, output: Output, signals: Signals) -> None:
        self._talk, self._keyboard, self._signals = talk, keyboard, signals
        self._screen = Screen(output, talk.model)

    async def follow(self, said: str, wish: str) -> None:
        """`wish`: what of it is for the loop itself."""
        world, screen, signals = self._talk.world, self._screen, self._signals
        heard = await world.heard(said)
        if isinstance(heard, Blocked):
            screen.broke_off(heard.reason)
            return
        for line in told_of_attached(heard):
            self._talk.output.line(line, Style.DIM)
        whole = await self._followed(world.run(wish, heard))
        while whole and world.has_more and not signals.code:
            from mainspring.cli.waiting import waited  # few have agents in the background

            screen.waits_for(world.agents.away)
            if await waited(world, signals):
                whole = await self._followed(world.go_on())
            else:
                screen.stops_waiting()

    async def _followed(self, run: Run) -> bool:
        """Whether it came to its end."""
        talk, signals = self._talk, self._signals
        async with run:
            signals.during(signals.ending(asyncio.get_running_loop(), run.interrupt))
            if signals.code:
                return False  # it was heard before there was anything to interrupt
            try:
                async for update in run:
                    self._screen.show(update)
                    talk.saw(update)
                    if isinstance(update, Asked):
                        self._keyboard.may_ask(update.id)
            except BrokenPipeError:
                raise
            except (MainspringError, OSError) as error:
                self._screen.broke_off(str(error))
                return False
            finally:
                signals.during(nothing)
        return True
