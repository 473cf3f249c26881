"""A conversation within the test: the real session, over real sockets and files, and a sheet of paper for a screen."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from cli.stage import Stage
from mainspring.agent.config import resolve_config
from mainspring.agent.host import ApprovalRequest, NoHost, Reach
from mainspring.agent.open_session import open_session
from mainspring.agent.prompt_expansion import Prompt
from mainspring.agent.updates import Notice, PromptBlocked, PromptExpanded, PromptReturned, RunBroken
from mainspring.cli.flags import parse_arguments
from mainspring.cli.output import TextStyle
from mainspring.cli.slash.table import run_slash_command
from mainspring.cli.terminal_session import TerminalSession
from mainspring.core.updates import Result
from mainspring.core.view import Fold
from mainspring.tools.base import Approval


class Paper:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.told: list[str] = []  # what a person should know, beside

    def line(self, text: str = "", style: TextStyle = TextStyle.PLAIN) -> None:
        assert not set(text) & set(map(chr, range(32))) - {"\n", "\t"}, f"a terminal would obey: {text!r}"
        self.lines += text.split("\n")


class Stern(NoHost):
    """Says no to everything."""

    reach: Reach = "during_run"

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def approve(self, request: ApprovalRequest) -> Approval:
        self.asked.append(request.tool_name)
        return Approval("deny")


class Sitting:
    def __init__(self, talk: TerminalSession, paper: Paper, stern: Stern) -> None:
        self.talk, self.paper, self.stern = talk, paper, stern
        self.meant = ""  # the prompt that the last word stood for

    async def said(self, line: str) -> str:
        """A word with a slash; what was shown of it."""
        before = len(self.paper.lines)
        word, words = (*line.split(None, 1), "")[:2]
        self.meant = await run_slash_command(word.removeprefix("/"), words, self.talk)
        updates = self.talk.session.updates()
        while updates.unread:
            if isinstance(update := await anext(updates), Notice):
                self.paper.line(update.text)
        return "\n".join(self.paper.lines[before:])

    async def asked(self, prompt: str) -> None:
        """A run to its end."""
        await self.expanded(prompt)

    async def ask(self, prompt: Prompt) -> None:
        await self.expanded(prompt)

    async def expanded(self, prompt: str | Prompt) -> list[PromptExpanded]:
        """The same, and what its mentions brought."""
        found: list[PromptExpanded] = []
        await self.talk.session.submit(prompt)
        async for update in self.talk.session.updates():
            assert not isinstance(update, PromptBlocked | PromptReturned | RunBroken), update
            if isinstance(update, PromptExpanded):
                found.append(update)
            if isinstance(update, Result):
                break
        return found

    async def summed_up(self) -> None:
        await self.asked("/compact")
        assert any(isinstance(edit, Fold) for edit in self.talk.world.session.state.edits), "there was too little of it"


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
    options = parse_arguments([*arguments]).session.replace(in_process=True, notice=paper.told.append)
    talk = TerminalSession(open_session(resolve_config(options, dict(os.environ)), stern := Stern()), paper)
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
