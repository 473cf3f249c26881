"""`mainspring` in a terminal, from the command line to the end: what is made, in which order, and who ends whom.

The prompt comes first. What is needed only when something is shown is loaded while somebody looks at it.
"""

from __future__ import annotations

import asyncio
import os
import termios
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from mainspring.assembly.options import Options
from mainspring.cli.collector import begun
from mainspring.cli.conversation import greet
from mainspring.cli.flags import readable
from mainspring.cli.repl.asker import Asker
from mainspring.cli.repl.desk import Desk
from mainspring.cli.repl.helps import helps_for
from mainspring.cli.repl.lines import PaperLines
from mainspring.cli.signals import HURRY, INTERRUPT, Signals, nothing
from mainspring.cli.talk import Talk

AS_BEFORE = b"\x1b[?2004l\x1b[?25h\x1b[0m\r\n"  # no marks around pastes, a cursor, no colour


def converse(options: Options) -> int:
    lines = PaperLines()
    options.notice = options.remark = lambda words: lines.note(str(words))
    with Signals() as signals, asyncio.Runner() as runner:
        asker = Asker(options, lines)
        talk = Talk(options, lines, asker)
        signals.check()
        put_back = terminal_as_it_is()

        def kill() -> None:
            talk.parts.kit.kill()
            put_back()

        signals.kill = kill
        talk.suggested = str  # the desk will hear it
        talk.begin()
        begun()
        greet(lines, talk.world)
        runner.run(Sitting(talk, asker, lines, signals).go())
    return signals.code


def terminal_as_it_is() -> Callable[[], None]:
    """For an end that leaves no block."""
    before: list[Any] | None = None
    with suppress(termios.error):
        before = termios.tcgetattr(0)

    def put_back() -> None:
        with suppress(termios.error, OSError):
            os.write(1, AS_BEFORE)
            if before is not None:
                termios.tcsetattr(0, termios.TCSANOW, before)

    return put_back


class Sitting:
    def __init__(self, talk: Talk, asker: Asker, lines: PaperLines, signals: Signals) -> None:
        self._talk, self._asker, self._lines, self._signals = talk, asker, lines, signals

    async def go(self) -> None:
        helps = helps_for(self._talk)
        desk = Desk(self._talk, helps)
        self._lines.paper, self._asker.stage = desk.stage, desk.stage
        self._hear_signals(desk)
        drawing = asyncio.ensure_future(desk.run())
        try:
            await asyncio.wait({drawing, asyncio.ensure_future(desk.drawn.wait())}, return_when=asyncio.FIRST_COMPLETED)
            helps.files.refresh()  # the first '@' finds them there
            await self._work(desk, drawing)
        finally:
            self._signals.during(nothing)
            desk.end()
            await drawing
            helps.files.close()
            self._lines.paper = None
            await self._talk.close()

    async def _work(self, desk: Desk, drawing: asyncio.Future[None]) -> None:
        from mainspring.cli.repl.conversation import Conversation
        from mainspring.cli.repl.shown import Shown

        shown = Shown(desk.stage, self._talk.model)
        conversation = Conversation(self._talk, self._asker, shown, desk.status, desk)
        desk.begin(conversation, shown)
        self._asker.interrupt = conversation.interrupt
        words = self._talk.parts.options.words
        work = asyncio.ensure_future(conversation.work(readable(words[0]) if words else ""))
        await asyncio.wait({work, drawing}, return_when=asyncio.FIRST_COMPLETED)
        conversation.leave()  # if the terminal is gone
        await work

    def _hear_signals(self, desk: Desk) -> None:
        loop, signals = asyncio.get_running_loop(), self._signals

        def heard() -> None:
            if signals.code == INTERRUPT:
                signals.forgive()
                desk.stop()
            else:
                desk.leave()
                loop.call_later(HURRY, signals.kill)

        signals.during(lambda: loop.call_soon_threadsafe(heard))
        signals.resumed = lambda: loop.call_soon_threadsafe(desk.take_terminal_again)
