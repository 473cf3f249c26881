"""What a front end can rely on: a program that reads updates and calls methods in one task never deadlocks, and the
host is called only when the reader has taken every earlier update."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from agent.stage import ScriptedHost, Stage, play, read_until_idle
from mainspring.agent.host import ApprovalRequest
from mainspring.agent.options import StartError
from mainspring.agent.prompt_expansion import Prompt
from mainspring.agent.session import AgentSession
from mainspring.agent.updates import AnyUpdate, Idle, PromptReturned, RunStarted, SessionReset, StateChanged
from mainspring.core.errors import UsageError
from mainspring.core.messages import Text
from mainspring.core.updates import Delta, QuestionAsked, Result
from mainspring.simulator.replies import ReceivedRequest, Reply, Say
from mainspring.tools.base import Approval

STEPS = 60  # updates after which a program stops calling methods


class Watching(ScriptedHost):
    """Fails if it is called before the program has seen why."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.session: AgentSession | None = None
        self.taken: list[AnyUpdate] = []
        self._chance = chance

    async def approve(self, request: ApprovalRequest) -> Approval:
        assert self.session is not None
        assert not self.session.updates().unread, "the reader has not taken everything"
        asked = [one.call_id for one in self.taken if isinstance(one, QuestionAsked)]
        assert request.tool_use_id in asked, "the reader has not seen that it is asked"
        states = [one.state for one in self.taken if isinstance(one, StateChanged)]
        assert states[-1] == "requires_action"
        await super().approve(request)
        await asyncio.sleep(self._chance.choice((0, 0, 0.002)))
        return Approval(self._chance.choice(("allow", "allow", "deny")))


class Program:
    """Reads and calls in one task, whatever comes to its mind."""

    def __init__(self, session: AgentSession, host: Watching, chance: random.Random) -> None:
        self.session, self.host, self._chance = session, host, chance
        self.submitted = 0
        self.ended = 0

    async def run(self) -> None:
        await self.submit()
        async for update in self.session.updates():
            self.host.taken.append(update)
            if isinstance(update, Result | PromptReturned):
                self.ended += 1
            if isinstance(update, Idle):
                if len(self.host.taken) >= STEPS:
                    break
                await self.submit()  # else nothing more would come
            elif len(self.host.taken) < STEPS:
                await self.call()

    async def call(self) -> None:
        session = self.session
        match self._chance.randrange(16):
            case 0 | 1:
                await self.submit()
            case 2:
                session.interrupt(hold_reports=self._chance.random() < 0.5)
            case 3:
                await session.set_mode(self._chance.choice(("default", "acceptEdits", "plan")))
            case 4:
                await session.set_model(self._chance.choice((None, "claude-haiku-4-5")))
            case 5:
                if session.queued and await session.withdraw(session.queued[-1].id) is not None:
                    self.submitted -= 1
            case 6:
                try:
                    await session.clear()
                except StartError:
                    assert session.state != "idle"
            case 7:
                await session.stop_task("nobody")
            case 8:
                session.release()
            case 9:
                await asyncio.sleep(0)
            case _:
                pass

    async def submit(self) -> None:
        self.submitted += 1
        await self.session.submit(Prompt((Text(f"prompt {self.submitted}"),)))


def answers(chance: random.Random) -> Reply:
    call = {"type": "tool_use", "id": f"toolu_{chance.randrange(10**9)}", "name": "Bash", "input": {"command": "id -u"}}
    more = {**call, "id": f"{call['id']}_2", "input": {"command": "touch made"}}
    return Say.of("word " * chance.randint(1, 5), *([call, more][: chance.choice((0, 0, 1, 2))]))


@pytest.mark.parametrize("seed", range(25))
def test_reading_and_calling_in_one_task_never_deadlocks(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)

    def choose(_: ReceivedRequest) -> Reply:
        return answers(chance)

    async def main(stage: Stage) -> None:
        host = Watching(chance)
        session = host.session = stage.open(host)
        program = Program(session, host, chance)
        await session.start()
        await program.run()
        await session.close()
        started = [one for one in host.taken if isinstance(one, RunStarted)]
        assert program.ended == len(started), "each run has one end"
        assert len(started) >= program.submitted

    play(main, tmp_path, choose=choose)


def test_nothing_runs_before_it_is_read(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        session = stage.open()
        await session.start()
        await session.submit("hello")
        await asyncio.sleep(0.05)
        assert stage.server.requests == []
        await read_until_idle(session)
        assert len(stage.server.requests) == 1
        await session.close()

    play(main, tmp_path, Say.of("Hi."))


def test_a_run_waits_for_a_slow_reader(tmp_path: Path) -> None:
    """Between two runs, too: the second one does not begin before the first one's result is taken."""

    async def main(stage: Stage) -> None:
        session = stage.open()
        await session.start()
        await session.submit("one")
        await session.submit("two")
        updates = session.updates()
        while not isinstance(await anext(updates), Result):
            pass
        await asyncio.sleep(0.05)
        assert len(stage.server.requests) == 1
        await read_until_idle(session)
        assert len(stage.server.requests) == 2
        await session.close()

    play(main, tmp_path, Say.of("Hi."), Say.of("Ho."))


def test_whoever_has_the_result_finds_the_session_in_order(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        session = stage.open()
        await session.start()
        await session.submit("one")
        async for update in session.updates():
            if isinstance(update, Result):
                break
        history = session.world.session.state.history
        assert [message.text for message in history if message.text][-1] == "Hi."
        before = session.world.about.session_id
        await session.clear()
        reset = await anext(session.updates())
        assert isinstance(reset, SessionReset)
        assert (reset.before, reset.after, reset.why) == (before, session.world.about.session_id, "clear")
        await session.close()

    play(main, tmp_path, Say.of("Hi."))


def test_one_reads(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        session = stage.open()
        await session.start()
        first = asyncio.ensure_future(anext(session.updates()))
        await asyncio.sleep(0)
        with pytest.raises(UsageError, match="another task is already reading"):
            await anext(session.updates())
        first.cancel()
        await session.close()

    play(main, tmp_path)


def test_a_read_that_is_cancelled_loses_nothing(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        session = stage.open()
        await session.start()
        await session.submit("hello")
        text, result = "", None
        while result is None:
            reading = asyncio.ensure_future(anext(session.updates()))
            await asyncio.sleep(0)  # once round the loop, which may have brought something
            if not reading.done():
                reading.cancel()
            try:
                update = await reading
            except asyncio.CancelledError:
                continue
            if isinstance(update, Delta):
                text += update.text
            elif isinstance(update, Result):
                result = update
        assert text == result.text == "word " * 40
        await session.close()

    play(main, tmp_path, Say.of("word " * 40, pace_ms=2))


def test_the_end_comes_when_all_is_done(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        session = stage.open()
        await session.start()
        await session.submit("one")
        await session.submit("two")
        session.finish()
        with pytest.raises(UsageError, match="no more prompts"):
            await session.submit("three")
        taken = [update async for update in session.updates()]
        assert [update.text for update in taken if isinstance(update, Result)] == ["Hi.", "Ho."]
        await session.close()
        await session.close()

    play(main, tmp_path, Say.of("Hi."), Say.of("Ho."))


def test_closing_ends_the_reader(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        session = stage.open()
        await session.start()
        await session.submit("hello")
        reading = asyncio.ensure_future(read_until_idle(session))
        await stage.server.until(lambda: len(stage.server.requests) == 1, seconds=20)
        await session.close()
        taken = await reading
        assert not any(isinstance(update, Idle) for update in taken)

    play(main, tmp_path, Say.of("word " * 500, pace_ms=20))
