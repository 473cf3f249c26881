"""The input within the test: the real application, its keys pressed one after the other, and no terminal."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable

from prompt_toolkit.application.current import set_app
from prompt_toolkit.input import DummyInput
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.key_binding.key_processor import _Flush  # what it feeds itself after a pause
from prompt_toolkit.output import DummyOutput

from mainspring.cli.tui.app import TerminalApp
from mainspring.cli.tui.screen import ESCAPE

SEQUENCE = re.compile(r"\x1b\[200~.*?\x1b\[201~|\x1b\[[\d;]*[~A-Z]|\x1b[bf]|.", re.DOTALL)


class Desk:
    def __init__(self, *, vi: bool = False) -> None:
        self.app = TerminalApp(input=DummyInput(), output=DummyOutput())
        self.app._vi.switch(on=vi)

    def press(self, keys: str) -> Desk:
        """Each after a pause, which is too long for a sequence that begins with Escape, and not for others."""
        for key in self._parsed(keys):
            self._feed([key])
            if self.app.stage.app.timeoutlen == ESCAPE:
                self._feed([_Flush])
        return self

    def _feed(self, presses: list[KeyPress]) -> None:
        processor = self.app.stage.app.key_processor
        processor.feed_multiple(presses)
        processor.process_keys()

    def _parsed(self, keys: str) -> list[KeyPress]:
        """Escape, and then a letter, are two keys here: the letter comes after a pause."""
        found: list[KeyPress] = []
        for part in SEQUENCE.findall(keys):
            Vt100Parser(found.append).feed_and_flush(part)
        return found

    @property
    def text(self) -> str:
        """With a bar for the cursor."""
        buffer = self.app._editor.buffer
        at = buffer.cursor_position
        return f"{buffer.text[:at]}|{buffer.text[at:]}"

    @property
    def remark(self) -> str:
        return self.app._remarked

    @property
    def mode(self) -> str:
        return self.app._vi.name


def at_desk(play: Callable[[Desk], object | Awaitable[object]], *, vi: bool = False) -> None:
    async def main() -> None:
        desk = Desk(vi=vi)
        with set_app(desk.app.stage.app):
            played = play(desk)
            if isinstance(played, Awaitable):
                await played
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    asyncio.run(main())
