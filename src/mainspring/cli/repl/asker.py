"""Who answers questions of running calls: the person, by menus. What draws those is loaded at the first question."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from mainspring.assembly.options import Options
from mainspring.cli.granting import Granting
from mainspring.cli.output import Style
from mainspring.cli.talk import Lines
from mainspring.core.messages import ToolCall
from mainspring.core.updates import AgentUpdate, Asked, CallDone, CallStarted, Update
from mainspring.engine.deps import Question
from mainspring.engine.session import Session
from mainspring.settings.load import Asked as Kept

if TYPE_CHECKING:
    from collections.abc import Callable

    from mainspring.cli.repl.questions import Questions
    from mainspring.cli.repl.stage import Stage


class Asker:
    stage: Stage  # both are there before anything can ask
    interrupt: Callable[[], object]

    def __init__(self, options: Options, lines: Lines) -> None:
        self._lines = lines
        self._granting = Granting(Kept(options.settings, options.setting_sources))
        self._questions: Questions | None = None
        self._calls: dict[str, ToolCall] = {}  # under way
        self._seen: dict[str, asyncio.Future[str]] = {}  # by question: the call that asks, once it is on the screen

    def speak_for(self, session: Session) -> None:
        self._granting.session = session

    def see(self, update: Update) -> None:
        """All that came before a question is on the screen when it is put."""
        match update:
            case CallStarted():
                self._calls[update.call.id] = update.call
            case CallDone():
                self._calls.pop(update.result.call_id, None)
            case Asked():
                seen = self._question(update.id)
                if not seen.done():  # else it was taken back before it was seen
                    seen.set_result(update.call_id)
            case AgentUpdate():
                self.see(update.update)
            case _:
                pass

    def rests(self) -> None:
        """A run is over, and with it all that it asked."""
        self._calls.clear()
        self._seen.clear()

    async def answer(self, question: Question) -> str:
        try:
            await self._question(question.id)
            return await self._asking().answer(question)
        finally:
            self._seen.pop(question.id, None)

    def _question(self, id: str) -> asyncio.Future[str]:
        if id not in self._seen:
            self._seen[id] = asyncio.get_running_loop().create_future()
        return self._seen[id]

    async def _call_of(self, question: Question) -> ToolCall | None:
        return self._calls.get(await self._question(question.id))

    def _interrupt(self) -> None:
        self.interrupt()

    def _asking(self) -> Questions:
        if self._questions is None:
            from mainspring.cli.repl.diffs import proposed
            from mainspring.cli.repl.questions import Outside, Questions

            self._questions = Questions(
                Outside(
                    place=self.stage,
                    granting=self._granting,
                    call_of=self._call_of,
                    tell=lambda words: self._lines.line(words, Style.DIM),
                    warn=lambda words: self._lines.line(words, Style.YELLOW),
                    interrupt=self._interrupt,
                    now=self.stage.attended,
                    changes=proposed,
                )
            )
        return self._questions
