"""What becomes of what is said, at any moment: nothing is lost, nothing is said twice, and all of it in its order."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mainspring.cli.flags import parse
from mainspring.cli.repl.asker import Asker
from mainspring.cli.repl.conversation import Conversation
from mainspring.cli.repl.lines import PaperLines
from mainspring.cli.repl.shown import Shown
from mainspring.cli.repl.status import Status
from mainspring.cli.talk import Talk
from mainspring.core.messages import Origin, User
from mainspring.simulator.received import Received
from mainspring.simulator.replies import Reply, Say
from mainspring.simulator.server import ModelServer
from repl.seeing import ReadPaper

PATIENCE = 30
SHELL = {"type": "tool_use", "name": "Bash", "input": {"command": "true"}}


class Place:
    """A terminal that nobody looks at."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def redraw(self) -> None:
        pass

    def rests(self, seconds: float) -> None:
        pass

    def draft(self, text: str) -> None:
        pass

    def ring(self) -> None:
        pass

    @asynccontextmanager
    async def given_away(self) -> AsyncGenerator[None]:
        yield

    def chooses(self, word: str) -> bool:
        return False

    async def choose(self, word: str) -> str | None:
        return None


class Sitting:
    def __init__(self) -> None:
        paper, lines, options = ReadPaper(200), PaperLines(), parse(["--permission-mode", "bypassPermissions"])
        lines.paper = paper
        asker = Asker(options, lines)
        self.talk = Talk(options, lines, asker)
        self.talk.begin()
        self.place = Place()
        self.conversation = Conversation(self.talk, asker, Shown(paper, self.talk.model), Status(), self.place)
        self.work = asyncio.ensure_future(self.conversation.work())
        self.taken_back: list[str] = []

    async def take_back(self) -> None:
        self.taken_back += (await self.conversation.take_back()).splitlines()

    async def rest(self) -> None:
        """Until nothing is left to do."""
        async with asyncio.timeout(PATIENCE):
            while self.conversation.is_busy or self.conversation.waiting:  # noqa: ASYNC110  # as somebody looks
                await asyncio.sleep(0.001)

    async def end(self) -> None:
        self.conversation.leave()
        async with asyncio.timeout(PATIENCE):
            await self.work
            await self.talk.close()

    @property
    def heard(self) -> list[str]:
        """By the model, from the user."""
        history = self.talk.world.session.state.history
        return [m.text for m in history if isinstance(m, User) and m.origin is Origin.PROMPT and m.text.startswith("p")]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("MAINSPRING_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("IS_SANDBOX", "1")
    (tmp_path / "home").mkdir()
    settings = "autoMemoryEnabled = false\n[sandbox]\nenabled = false\n"
    (tmp_path / "home" / "settings.toml").write_text(settings)
    return tmp_path


def answers(chance: random.Random) -> Reply:
    """A reply of some length, with a call or without."""
    blocks = [{**SHELL, "id": f"toolu_{chance.randrange(10**9)}"}] if chance.random() < 0.4 else []
    return Say.of("word " * chance.randint(1, 6), *blocks, pace_ms=chance.choice((0, 1, 3)))


@pytest.mark.covers("O-04")
@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_said_is_heard_once_and_in_order(seed: int, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)

    def choose(_: Received) -> Reply:
        return answers(chance)

    async def main() -> None:
        async with ModelServer(choose=choose) as server:
            monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
            sitting = Sitting()
            said: list[str] = []
            for number in range(chance.randint(3, 12)):
                match chance.randrange(8):
                    case 0:
                        sitting.conversation.interrupt()
                    case 1:
                        await sitting.take_back()
                    case 2:
                        sitting.conversation.say("/cost")
                    case 3:
                        await sitting.rest()
                    case _:
                        said.append(f"p{number:02}")
                        sitting.conversation.say(said[-1])
                await asyncio.sleep(chance.choice((0, 0, 0.002, 0.01)))
            await sitting.rest()
            kept = [text for text in said if text not in sitting.taken_back]
            assert sitting.heard == kept
            assert [text for text in sitting.place.said if text.startswith("p")] == kept
            await sitting.end()

    asyncio.run(main())
