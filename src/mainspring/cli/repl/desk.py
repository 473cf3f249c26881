"""Where somebody sits: the stage, the input, the keys and the last line, put together. A key becomes what it asks for.

Nothing here needs rich, which takes a while to load: the first prompt stands there before.
"""

from __future__ import annotations

import asyncio
import os
import sys
import termios
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from prompt_toolkit.application import in_terminal
from prompt_toolkit.data_structures import Size
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.output import Output
from prompt_toolkit.output.vt100 import Vt100_Output

from mainspring.assembly.harmless import harmless
from mainspring.cli.output import wants_colour
from mainspring.cli.repl.editor import Editor
from mainspring.cli.repl.helps import Helps
from mainspring.cli.repl.keys import Bindings, help_rows
from mainspring.cli.repl.stage import Stage
from mainspring.cli.repl.status import Status, next_mode
from mainspring.cli.signals import DOUBLE

if TYPE_CHECKING:
    from rich.text import Text

    from mainspring.cli.repl.conversation import Conversation
    from mainspring.cli.repl.shown import Shown
    from mainspring.cli.repl.status_command import StatusCommand
    from mainspring.cli.talk import Talk

BEAT = 0.1  # seconds between two drawings while something is under way
LONG = 10  # seconds: who waits longer than this may have looked away
AGAIN = "Ctrl-C again leaves"
COLUMN = 28  # of what a key does


def this_terminal() -> Output:
    """Where the cursor stands is not asked for: some terminals do not answer, and we need not know."""

    def size() -> Size:
        try:
            columns, rows = os.get_terminal_size(1)
        except OSError:  # it is gone
            columns, rows = 0, 0
        return Size(rows=rows or 24, columns=columns or 80)

    return Vt100_Output(sys.stdout, size, term=os.environ.get("TERM"), enable_cpr=False)


class Desk:
    def __init__(self, talk: Talk, helps: Helps, *, input: Input | None = None, output: Output | None = None) -> None:
        self.status = Status()
        self.drawn = asyncio.Event()  # the first prompt stands there
        self._talk = talk
        self._history, self._pastes = helps.history, helps.pastes
        self._suggested = ""  # what may be said next
        self._editor = Editor(helps.completer, helps.history, lambda: self._suggested)
        self._conversation: Conversation | None = None  # it comes after the first prompt,
        self._shown: Shown | None = None
        self._changing = asyncio.Lock()
        self._early: list[str] = []  # and what was said before is kept for it
        self._own_status: StatusCommand | None = None
        self._helping = False
        self._stopped = -DOUBLE  # when Ctrl-C found nothing to stop
        output = output or this_terminal()
        bindings = Bindings(self._editor, self).made
        self.stage = Stage(self._editor, bindings, self._footer, input=input, output=output, colour=wants_colour())
        self.stage.app.after_render += self._is_drawn
        self._raw: list[Any] | None = None  # how the terminal is while it is ours

    def begin(self, conversation: Conversation, shown: Shown) -> None:
        self._conversation, self._shown = conversation, shown
        self.stage.above = (shown, conversation.waiting, self)
        self._talk.suggested = self._suggest
        if command := self._talk.parts.settings.status_line:
            from mainspring.cli.repl.status_command import StatusCommand  # few have one

            self._own_status = StatusCommand(self._talk, command, self.stage.redraw)
            self._own_status.ask()
        for text in self._early:
            conversation.say(text)

    async def run(self) -> None:
        """Until `end`, or until the terminal is gone."""
        beat = asyncio.ensure_future(self._beat())
        try:
            with suppress(EOFError):
                await self.stage.app.run_async(handle_sigint=False, set_exception_handler=False)
        finally:
            beat.cancel()

    def _is_drawn(self, _: object) -> None:
        if not self.drawn.is_set():
            self.drawn.set()
            with suppress(termios.error):
                self._raw = termios.tcgetattr(0)

    def end(self) -> None:
        if self.stage.app.is_running:
            self.stage.app.exit()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT)
            if self._conversation is not None and self._conversation.is_busy:
                self.stage.redraw()

    def take_terminal_again(self) -> None:
        """Somebody else has had it: a shell, while we were stopped."""
        if self._raw is not None:
            with suppress(termios.error):
                termios.tcsetattr(0, termios.TCSANOW, self._raw)
            self.stage.app.renderer.reset()
            self.stage.redraw()

    # --- what is drawn ----------------------------------------------------------------------------------------------

    def _footer(self) -> StyleAndTextTuples:
        mode = self._talk.world.session.shared.policy.mode
        away = self._talk.world.agents.away
        waits = f"{away} in the background" if away else ""
        own = self._own_status.text if self._own_status is not None else ""
        return self.status.line(self.stage.size.columns, mode, self._talk.model, waits, own)

    def _suggest(self, words: str) -> None:
        self._suggested = harmless(words)
        self.stage.redraw()

    def draw(self, width: int, height: int) -> Sequence[Text]:
        if not self._helping:
            return ()
        from rich.text import Text

        rows = [f"  {shown:<{COLUMN}}{about}" for shown, about in help_rows()]
        lines = [Text(row, "note") for row in rows[:height]]
        for line in lines:
            line.truncate(width, overflow="ellipsis")
        return lines

    # --- what keys ask for ------------------------------------------------------------------------------------------

    def send(self) -> None:
        text = self._editor.take()
        said = self._pastes.expand(text)
        self._helping, self._suggested = False, ""
        if not said.strip():
            return
        self._history.append_string(text)
        if self._conversation is None:
            self._early.append(said)
        else:
            self._conversation.say(said)

    def stop(self) -> None:
        now = time.monotonic()
        if self._conversation is not None and self._conversation.interrupt():
            return
        if self._editor.buffer.text:
            self._editor.clear()
        elif now - self._stopped < DOUBLE:
            self.leave()
        else:
            self._stopped, self.status.remark = now, AGAIN
            asyncio.get_running_loop().call_later(DOUBLE, self._forget_remark)

    def _forget_remark(self) -> None:
        self.status.remark = ""
        self.stage.redraw()

    def escape(self) -> None:
        self._helping = False
        if self._conversation is not None:
            self._conversation.interrupt()

    def leave(self) -> None:
        if self._conversation is not None:
            self._conversation.leave()
        else:
            self.end()

    def next_mode(self) -> None:
        self._talk.beside(self._change_mode())

    async def _change_mode(self) -> None:
        """One after the other: each goes on from what the one before has chosen."""
        async with self._changing:
            session = self._talk.world.session
            await session.change(replace(session.shared.policy, mode=next_mode(session.shared.policy.mode)))
        self.stage.redraw()

    def unfold(self) -> None:
        if self._shown is not None and not self._shown.unfold():
            self.status.remark = "there is nothing to unfold"
            asyncio.get_running_loop().call_later(DOUBLE, self._forget_remark)

    def toggle_tasks(self) -> None:
        if self._shown is not None:
            self._shown.tasks_shown = not self._shown.tasks_shown

    def toggle_help(self) -> None:
        self._helping = not self._helping

    def take_back(self) -> bool:
        conversation = self._conversation
        if conversation is None or not conversation.waiting:
            return False

        async def take() -> None:
            if text := await conversation.take_back():
                self._editor.put(text)
                self.stage.redraw()

        self._talk.beside(take())
        return True

    def complete(self) -> None:
        if self._suggested and not self._editor.buffer.text:
            self._editor.put(self._suggested)
        else:
            self._editor.take_completion()

    def paste(self, text: str) -> None:
        document = self._editor.buffer.document
        self._editor.buffer.insert_text(self._pastes.put(text, document.text_before_cursor, document.text_after_cursor))

    def erase(self) -> None:
        buffer = self._editor.buffer
        buffer.delete_before_cursor(self._pastes.before(buffer.text, buffer.cursor_position))

    def erase_next(self) -> None:
        buffer = self._editor.buffer
        buffer.delete(self._pastes.after(buffer.text, buffer.cursor_position))

    # --- what a conversation asks for -------------------------------------------------------------------------------

    def say(self, text: str) -> None:
        from mainspring.cli.repl.spoken import spoken

        self.stage.put(*spoken(text))

    def rests(self, seconds: float) -> None:
        if self._own_status is not None:
            self._own_status.ask()
        if seconds > LONG:
            self.ring()

    def ring(self) -> None:
        if self._talk.parts.settings.rings:
            self.stage.app.output.bell()

    def redraw(self) -> None:
        self.stage.redraw()

    @asynccontextmanager
    async def given_away(self) -> AsyncGenerator[None]:
        await self.stage.settled()
        async with in_terminal():
            yield

    def chooses(self, word: str) -> bool:
        from mainspring.cli.repl.choosing import CHOICES

        return word in CHOICES

    async def choose(self, word: str) -> str | None:
        from mainspring.cli.repl.choosing import CHOICES

        return await CHOICES[word](self._talk, self.stage)
