"""What becomes of what is said, at any moment: nothing is lost, nothing is said twice, and all of it in its order."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mainspring.agent.config import resolve_config
from mainspring.agent.host import NoHost, Reach
from mainspring.agent.open_session import open_session
from mainspring.cli.flags import parse_arguments
from mainspring.cli.terminal_session import TerminalSession
from mainspring.cli.tui.run_view import RunView
from mainspring.cli.tui.session import SessionController
from mainspring.cli.tui.start import ScrollbackLines
from mainspring.cli.tui.status import StatusLine
from mainspring.core.messages import Origin, User
from mainspring.simulator.replies import ReceivedRequest, Reply, Say
from mainspring.simulator.server import ModelServer
from tui.seeing import ReadPaper

PATIENCE = 30
SHELL = {"type": "tool_use", "name": "Bash", "input": {"command": "true"}}


class Place:
    """A terminal that nobody looks at."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.drafted: list[str] = []  # said, and given back before the model had heard it

    def say(self, text: str) -> None:
        self.said.append(text)

    def redraw(self) -> None:
        pass

    def rests(self, seconds: float) -> None:
        pass

    def draft(self, text: str) -> None:
        self.drafted.append(text)

    def suggest(self, words: str) -> None:
        pass

    def ring(self, words: str) -> None:
        pass

    @asynccontextmanager
    async def given_away(self) -> AsyncGenerator[None]:
        yield

    def show_past(self) -> None:
        pass

    def tell_of_start(self, *, asked: bool) -> None:
        pass

    async def trusts(self, held: list[str]) -> bool:
        raise AssertionError(f"there is nothing to trust: {held}")

    def chooses(self, word: str) -> bool:
        return False

    async def choose(self, word: str) -> str | None:
        return None


class Silent(NoHost):
    """Somebody is there, and is never asked."""

    reach: Reach = "during_run"


class Sitting:
    def __init__(self) -> None:
        paper = ReadPaper(200)
        lines = ScrollbackLines(lambda: paper)
        options = parse_arguments(["--permission-mode", "bypassPermissions"]).session
        options = options.replace(in_process=True)  # nothing of the process of the tests is ours to change
        config = resolve_config(options, dict(os.environ))
        self.talk = TerminalSession(open_session(config, Silent()), lines)
        self.place = Place()
        self.conversation = SessionController(self.talk, RunView(paper, self.talk.model), StatusLine(), self.place)
        self.work = asyncio.ensure_future(self.conversation.work())
        self.taken_back: list[str] = []

    async def take_back(self) -> None:
        self.taken_back.append(await self.conversation.waiting.take_back())

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

    def choose(_: ReceivedRequest) -> Reply:
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
            given_back = {*sitting.taken_back, *sitting.place.drafted}
            kept = [text for text in said if text not in given_back]
            assert sitting.heard == kept
            shown = [text for text in sitting.place.said if text not in sitting.place.drafted]
            assert [text for text in shown if text.startswith("p")] == kept
            await sitting.end()

    asyncio.run(main())


def conversation(
    monkeypatch: pytest.MonkeyPatch, play: Callable[[Sitting, ModelServer], Awaitable[None]], *replies: Reply
) -> None:
    async def main() -> None:
        async with ModelServer(replies) as server:
            monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
            sitting = Sitting()
            await play(sitting, server)
            await sitting.end()

    asyncio.run(main())


SLOW = Say.of("word " * 50, pace_ms=20)


async def under_way(sitting: Sitting, server: ModelServer, requests: int) -> None:
    await server.until(lambda: len(server.requests) == requests, seconds=PATIENCE)


@pytest.mark.usefixtures("home")
def test_words_of_ours_are_the_same_during_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(sitting: Sitting, server: ModelServer) -> None:
        sitting.conversation.say("p first")
        await under_way(sitting, server, 1)
        sitting.conversation.say(" /cost")
        sitting.conversation.say("p second, behind it")
        sitting.conversation.interrupt()
        await sitting.rest()
        assert sitting.place.said == ["p first", " /cost", "p second, behind it"]
        assert sitting.heard == ["p first", "p second, behind it"]
        sitting.conversation.say("p third")
        await under_way(sitting, server, 3)
        sitting.conversation.say(" exit ")
        async with asyncio.timeout(PATIENCE):
            await sitting.work

    conversation(monkeypatch, play, SLOW, Say.of("Yes."), SLOW)


@pytest.mark.usefixtures("home")
def test_what_another_sitting_handed_on_waits_for_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words of ours are none; another conversation has its own."""

    async def play(sitting: Sitting, server: ModelServer) -> None:
        await sitting.rest()
        await sitting.talk.world.session.submit("p from before")
        sitting.conversation.say("/cost")
        await under_way_is_nothing(sitting)
        assert sitting.conversation.waits_for_a_word
        assert (server.requests, sitting.place.said) == ([], ["/cost"])
        sitting.conversation.say("/clear")
        sitting.conversation.say("p in another one")
        await sitting.rest()
        assert sitting.heard == ["p in another one"]
        await sitting.talk.world.session.submit("p again")
        sitting.conversation.go_on()
        await sitting.rest()
        assert sitting.heard == ["p in another one", "p again"]

    conversation(monkeypatch, play, Say.of("One."), Say.of("Two."))


async def under_way_is_nothing(sitting: Sitting) -> None:
    async with asyncio.timeout(PATIENCE):
        while sitting.conversation.is_busy or sitting.conversation.waiting.has_own:  # noqa: ASYNC110  # as somebody looks
            await asyncio.sleep(0.001)


def test_a_hook_that_takes_its_time_can_be_stopped_and_left(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hook = {"type": "command", "command": f"touch {home}/asked; sleep 60"}
    settings = {"hooks": {"UserPromptSubmit": [{"hooks": [hook]}]}, "sandbox": {"enabled": False}}
    (home / "home" / "settings.toml").unlink()
    (home / "home" / "settings.json").write_text(json.dumps(settings))

    async def asked() -> None:
        async with asyncio.timeout(PATIENCE):
            while not (home / "asked").exists():  # noqa: ASYNC110  # a hook is another process
                await asyncio.sleep(0.01)
        (home / "asked").unlink()

    async def play(sitting: Sitting, server: ModelServer) -> None:
        sitting.conversation.say("p one")
        await asked()
        assert sitting.conversation.interrupt()
        await sitting.rest()
        assert (sitting.heard, server.requests) == ([], [])
        sitting.conversation.say("p two")
        await asked()
        sitting.conversation.leave()
        async with asyncio.timeout(10):
            await sitting.work

    conversation(monkeypatch, play)
