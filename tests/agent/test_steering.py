"""Prompts that join the run under way: when they do, and that a withdrawn one never reaches a request."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from tiers import long

from agent.stage import Stage, play
from mainspring.agent.prompt_expansion import Prompt
from mainspring.agent.session import AgentSession
from mainspring.agent.updates import AnyUpdate, PromptQueued, PromptReturned, RunStarted
from mainspring.core.messages import Image, Text, User
from mainspring.core.updates import CallStarted, Result
from mainspring.simulator.replies import ReceivedRequest, Reply, Say

READ = {"type": "tool_use", "id": "toolu_1", "name": "Glob", "input": {"pattern": "*.none"}}


def steer(text: str, id: str = "", **more: Any) -> Prompt:
    return Prompt((Text(text),), id, delivery="steer", **more)


def read_then_answer(turns: int) -> Any:
    """A model that calls a tool in so many turns, and again after each new prompt."""

    def choose(received: ReceivedRequest) -> Reply:
        talk = received.talk
        return Say.of(READ | {"id": f"toolu_{talk.turns()}"}) if talk.turns() < turns else Say.of("Done.")

    return choose


def said_to_the_model(stage: Stage) -> list[str]:
    return [str(request.body["messages"]) for request in stage.server.requests]


async def read_to_the_end(session: AgentSession) -> list[AnyUpdate]:
    session.finish()
    return [update async for update in session.updates()]


# --- one at a time ----------------------------------------------------------------------------------------


@pytest.mark.covers("O-04", "A-16")
def test_a_steering_prompt_joins_the_next_request(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        session = stage.open()
        await session.start()
        await session.submit("go")
        seen: list[AnyUpdate] = []
        async for update in session.updates():
            seen.append(update)
            if isinstance(update, CallStarted):
                queued = await session.submit(steer("Also look there.", "id-of-the-client"))
                assert queued.id == "id-of-the-client"
                assert [one.prompt for one in session.queued] == [steer("Also look there.", "id-of-the-client")]
                session.finish()
        await session.close()
        assert [update for update in seen if isinstance(update, PromptQueued)] == [
            PromptQueued("id-of-the-client", "steer")
        ]
        assert sum(isinstance(update, Result) for update in seen) == 1
        first, second = said_to_the_model(stage)
        assert ("Also look there." in first, second.count("Also look there.")) == (False, 1)

    play(main, tmp_path, choose=read_then_answer(1))


@pytest.mark.parametrize(
    "prompt",
    [
        steer("look at @README.md"),
        steer("/context"),
        steer("+500k go on"),
        Prompt((Text("see"), Image("image/png", "iVBORw0KGgo=")), delivery="steer"),
        steer("see", data="piped"),
    ],
)
def test_what_must_be_expanded_gets_a_run_of_its_own(tmp_path: Path, prompt: Prompt) -> None:
    async def main(stage: Stage) -> None:
        session = stage.open()
        await session.start()
        await session.submit("go")
        seen: list[AnyUpdate] = []
        async for update in session.updates():
            seen.append(update)
            if isinstance(update, CallStarted):
                await session.submit(prompt)
                session.finish()
        await session.close()
        assert [update.delivery for update in seen if isinstance(update, PromptQueued)] == ["next_run"]
        assert [update.cause for update in seen if isinstance(update, RunStarted)] == ["prompt", "prompt"]

    play(main, tmp_path, choose=read_then_answer(1))


def test_a_literal_prompt_with_a_mention_can_steer(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        session = stage.open()
        await session.start()
        await session.submit("go")
        async for update in session.updates():
            if isinstance(update, CallStarted):
                await session.submit(steer("/ask @someone", literal=True))
                session.finish()
        await session.close()
        assert "/ask @someone" in said_to_the_model(stage)[1]

    play(main, tmp_path, choose=read_then_answer(1))


def test_without_a_run_it_is_an_ordinary_prompt(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        session = stage.open()
        await session.start()
        await session.submit(steer("go"))
        seen = await read_to_the_end(session)
        await session.close()
        assert [update.delivery for update in seen if isinstance(update, PromptQueued)] == ["next_run"]
        assert len(stage.server.requests) == 1

    play(main, tmp_path, choose=read_then_answer(0))


# --- withdrawn at any moment ------------------------------------------------------------------------------


class SteeringProgram:
    """Submits and withdraws at random moments, in one task beside the reader."""

    def __init__(self, session: AgentSession, chance: random.Random) -> None:
        self.session, self._chance = session, chance
        self.kept: list[str] = []
        self.withdrawn: list[str] = []
        self.returned: list[str] = []

    async def run(self) -> None:
        open_ids: dict[str, str] = {}
        for number in range(self._chance.randrange(1, 7)):
            await self._pause()
            text = f"note-{number}."
            delivery: Any = self._chance.choice(("steer", "steer", "next_run"))
            queued = await self.session.submit(Prompt((Text(text),), delivery=delivery))
            open_ids[queued.id] = text
            if self._chance.random() < 0.2:
                self.session.interrupt()
            while open_ids and self._chance.random() < 0.6:
                await self._pause()
                id = self._chance.choice(list(open_ids))
                (self.kept if await self.session.withdraw(id) is None else self.withdrawn).append(open_ids.pop(id))
        self.kept += open_ids.values()

    async def _pause(self) -> None:
        """Some rounds of the event loop, or some time: a request takes a few milliseconds."""
        if self._chance.random() < 0.5:
            for _ in range(self._chance.randrange(12)):
                await asyncio.sleep(0)
        else:
            await asyncio.sleep(self._chance.random() * 0.01)


@pytest.mark.parametrize("seed", [*range(12), *[long(seed) for seed in range(12, 200)]])
def test_a_withdrawn_prompt_never_reaches_a_request(tmp_path: Path, seed: int) -> None:
    """And one that was not withdrawn is part of the conversation once, interrupted or not."""
    chance = random.Random(seed)

    async def main(stage: Stage) -> None:
        session = stage.open()
        await session.start()
        await session.submit("go")
        program = SteeringProgram(session, chance)
        writing: asyncio.Task[None] | None = None
        async for update in session.updates():
            if isinstance(update, PromptReturned) and update.prompt is not None:
                program.returned.append(update.prompt.text)  # interrupted before the model saw it: given back
            if writing is None:
                writing = asyncio.ensure_future(program.run())
                writing.add_done_callback(lambda _: session.finish())
        assert writing is not None
        await writing
        await session.close()
        every = said_to_the_model(stage)
        for text in program.withdrawn:
            assert not any(text in request for request in every), text
        history = session.world.session.state.history
        said = "".join([message.text for message in history if isinstance(message, User)])
        for text in program.kept:
            assert said.count(text) == (text not in program.returned), text
            assert all(request.count(text) <= 1 for request in every), text

    play(main, tmp_path, choose=read_then_answer(6))
