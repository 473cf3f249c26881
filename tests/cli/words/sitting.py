"""A conversation within the test: the real session, over real sockets and files, and a sheet of paper for a screen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from cli.stage import Stage
from mainspring.cli.flags import parse
from mainspring.cli.output import Style
from mainspring.cli.slash_words import understood
from mainspring.cli.talk import Talk
from mainspring.core.view import Fold
from mainspring.engine.deps import Question
from mainspring.engine.prompts import Blocked
from mainspring.engine.run import Run
from mainspring.engine.session import Session


class Paper:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.told: list[str] = []  # what a person should know, beside

    def line(self, text: str = "", style: Style = Style.PLAIN) -> None:
        assert not set(text) & set(map(chr, range(32))) - {"\n", "\t"}, f"a terminal would obey: {text!r}"
        self.lines += text.split("\n")


class Stern:
    """Says no to everything."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def speak_for(self, session: Session) -> None:
        pass

    async def answer(self, question: Question) -> str:
        self.asked.append(question.text)
        return "deny"


class Sitting:
    def __init__(self, talk: Talk, paper: Paper, stern: Stern) -> None:
        self.talk, self.paper, self.stern = talk, paper, stern
        self.meant = ""  # the prompt that the last word stood for

    async def said(self, line: str) -> str:
        """A word with a slash; what was shown of it."""
        before = len(self.paper.lines)
        word, words = (*line.split(None, 1), "")[:2]
        self.meant = await understood(word.removeprefix("/"), words, self.talk)
        return "\n".join(self.paper.lines[before:])

    async def asked(self, prompt: str) -> None:
        """A turn to its end."""
        heard = await self.talk.world.heard(prompt)
        assert not isinstance(heard, Blocked)
        await self._followed(self.talk.world.run("", heard))

    async def summed_up(self) -> None:
        await self._followed(self.talk.world.run("/compact", ()))
        assert any(isinstance(edit, Fold) for edit in self.talk.world.session.state.edits), "there was too little of it"

    async def _followed(self, run: Run) -> None:
        async with run:
            async for update in run:
                self.talk.saw(update)


def here(stage: Stage, monkeypatch: pytest.MonkeyPatch, **more: str) -> None:
    """The process stands where the command would, and finds what it would find."""
    monkeypatch.chdir(stage.folder)
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_MODEL", "CLAUDE_CONFIG_DIR", "VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (stage.environment | more).items():
        monkeypatch.setenv(name, value)
    stage.home.mkdir(parents=True, exist_ok=True)
    settings = stage.home / "settings.toml"
    if not settings.exists():  # a turn is thought of when it is over, which would take a reply of the script
        settings.write_text("autoMemoryEnabled = false\n")


@asynccontextmanager
async def seated(*arguments: str) -> AsyncIterator[Sitting]:
    paper = Paper()
    options = parse([*arguments])
    options.in_process, options.notice = True, paper.told.append
    talk = Talk(options, paper, stern := Stern())
    talk.begin()
    await talk.open()
    try:
        yield Sitting(talk, paper, stern)
    finally:
        await talk.close()


def sat(play: Callable[[Sitting], Awaitable[None]], *arguments: str) -> None:
    """One sitting, from its beginning to its end."""

    async def main() -> None:
        async with seated(*arguments) as sitting:
            await play(sitting)

    asyncio.run(main())
