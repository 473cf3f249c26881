"""The service clears old results itself (D-14): the boundary comes with the reply, and its figure is the service's."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mainspring.core.config import Config
from mainspring.core.models import MODELS
from mainspring.core.money import Usage
from mainspring.core.reasons import Terminal
from mainspring.core.updates import BlockDone, Boundary, PrefixBroken, ReplyDone, ReplyStarted, Result, Update
from mainspring.engine.session import EngineSession
from mainspring.engine.session_deps import AgentDeps
from mainspring.permissions.checker import AllowAll
from mainspring.providers.anthropic.provider import Anthropic, ServerSideClearing
from mainspring.providers.http.client import Transport
from mainspring.sessions.records import MemoryJournal, NoteRecord
from mainspring.simulator.replies import Reply, Say
from mainspring.simulator.server import ModelServer
from mainspring.tools.base import Input, Tool, ToolAnswer, ToolContext, Workspace, make_answer
from mainspring.tools.toolset import Toolset

CONFIG = Config(model=MODELS["claude-sonnet-4-5"], thinking=False)
CLEARING = ServerSideClearing(trigger=1_000, keep=1, at_least=100)
SEEN = Usage(input=900, output=30)  # what the model saw: far less than what was sent


class LookInput(Input, frozen=True):
    at: int


async def look(given: LookInput, calling: ToolContext) -> ToolAnswer:
    return make_answer(f"{given.at}: some code here\n" * 300)


LOOK = Tool(name="Look", about="Looks.", input=LookInput, run=look, read_only=True)


def looks(at: int, cleared: tuple[int, int] | None = None) -> Say:
    call = {"type": "tool_use", "id": f"toolu_{at}", "name": "Look", "input": {"at": at}}
    return Say.of("Let me look.", call, usage=SEEN, cleared=cleared)


def done(cleared: tuple[int, int] | None = None) -> Say:
    return Say.of("Done.", usage=SEEN, cleared=cleared)


class Told:
    """What came of one session with these replies."""

    def __init__(
        self,
        folder: Path,
        *replies: Reply,
        clearing: ServerSideClearing | None = CLEARING,
        prompts: tuple[str, ...] = ("go",),
    ) -> None:
        self.prompts = prompts
        self.updates: list[Update] = []
        self.journal = MemoryJournal()
        self.server = ModelServer(replies)
        asyncio.run(self._play(folder, clearing))

    async def _play(self, folder: Path, clearing: ServerSideClearing | None) -> None:
        async with self.server as server, Transport() as transport:
            provider = Anthropic(base_url=server.url, transport=transport, clearing=clearing)
            hands = Toolset([LOOK], place=Workspace(str(folder)), gate=AllowAll())
            self.session = EngineSession(AgentDeps(provider, hands, journal=self.journal), CONFIG)
            for prompt in self.prompts:
                async with self.session.run(prompt) as run:
                    self.updates += [update async for update in run]
        assert self.server.violations == []
        last = self.updates[-1]
        assert isinstance(last, Result)
        assert last.terminal is Terminal.COMPLETED

    @property
    def boundaries(self) -> list[Boundary]:
        return [update for update in self.updates if isinstance(update, Boundary)]

    @property
    def notes(self) -> list[str]:
        return [record.text for record in self.journal.records if isinstance(record, NoteRecord)]


@pytest.mark.covers("D-14")
def test_the_boundary_comes_with_the_reply_and_has_the_figure_of_the_service(tmp_path: Path) -> None:
    told = Told(tmp_path, looks(1), looks(2, (1, 4_321)), done((1, 4_321)))
    assert told.boundaries == [Boundary("microcompact", freed=4_321)]
    kinds = (ReplyStarted, BlockDone, Boundary, ReplyDone)
    order = [type(update).__name__ for update in told.updates if isinstance(update, kinds)]
    first, last = ["ReplyStarted", "BlockDone", "BlockDone", "ReplyDone"], ["ReplyStarted", "BlockDone", "ReplyDone"]
    assert order == [*first, *first[:-1], "Boundary", "ReplyDone", *last]
    assert told.notes == ["4321 tokens; 4321 in 1 results so far"]


@pytest.mark.covers("D-14")
def test_what_is_sent_stays_whole_and_what_is_counted_is_what_the_model_saw(tmp_path: Path) -> None:
    told = Told(tmp_path, looks(1), looks(2, (1, 4_321)), done((1, 4_321)))
    asked = [request.body for request in told.server.requests]
    assert [body["context_management"] for body in asked] == [{"edits": [CLEARING.edit]}] * 3
    assert all("some code here" in str(message) for message in asked[2]["messages"][2::2])
    assert not any(isinstance(update, PrefixBroken) for update in told.updates)
    assert told.session.state.edits == ()
    assert told.session.state.tokens == SEEN.total


@pytest.mark.covers("D-14")
def test_only_what_was_cleared_since_the_last_reply_is_news(tmp_path: Path) -> None:
    """The last three: less than before, as after a summary; then nothing; then as much as once before."""
    figures = [(1, 500), (1, 500), (3, 1_700), (2, 900), None, (3, 1_700)]
    told = Told(tmp_path, *[looks(at, cleared) for at, cleared in enumerate(figures)], done((3, 1_700)))
    assert [boundary.freed for boundary in told.boundaries] == [500, 1_200, 1_700]


@pytest.mark.covers("D-14")
def test_the_next_prompt_does_not_tell_it_again(tmp_path: Path) -> None:
    replies = (looks(1), looks(2, (1, 4_321)), done((1, 4_321)), done((1, 4_321)), done((2, 5_000)))
    told = Told(tmp_path, *replies, prompts=("go", "and now?", "and now?"))
    assert [boundary.freed for boundary in told.boundaries] == [4_321, 679]


@pytest.mark.covers("D-14")
def test_nothing_is_asked_or_shown_when_it_is_off(tmp_path: Path) -> None:
    told = Told(tmp_path, looks(1), done(), clearing=None)
    assert not any("context_management" in request.body for request in told.server.requests)
    assert (told.boundaries, told.notes) == ([], [])
