"""Sessions, streams, plain code: what is begun is ended, whenever it is left."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import signal
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from mainspring import Agent, Interrupted, ToolContext, UsageError, ask
from mainspring.core.reasons import Failure, Trouble
from mainspring.core.updates import BlockDone, Delta, RequestStarted, Result
from mainspring.library import background_loop
from mainspring.testing import Break, Scripted, call, fails, says

PATIENCE = 20  # seconds; only what hangs takes so long


def play(main: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE):
            await main()

    asyncio.run(bounded())


async def alone() -> None:
    """Return when no task is left but ours; the test's time limit tells if one stays."""
    gc.collect()
    while len(asyncio.all_tasks()) > 1:  # noqa: ASYNC110  # their ends set no event
        await asyncio.sleep(0.001)


def slow(*, pace: int = 5) -> Scripted:
    return Scripted([says("one two three four five six seven eight nine ten", pace=pace)] * 3)


# --- sessions ---


def test_a_session_remembers() -> None:
    model = Scripted(["Hello Ada.", "Ada."])

    async def main() -> None:
        async with Agent(model, max_budget_usd=1).session() as chat:
            first = await chat.run("My name is Ada.")
            second = await chat.run("What is my name?")
            assert [message.text for message in second.messages] == ["What is my name?", "Ada."]
            assert [m.text for m in chat.messages] == [m.text for m in (*first.messages, *second.messages)]
            assert first.session_id == second.session_id == chat.session_id
            assert chat.cost_usd == pytest.approx(first.cost_usd + second.cost_usd)

    play(main)
    assert model.conversations[1].messages[0].text == "My name is Ada."


def test_a_session_is_resumed_and_forked() -> None:
    async def main() -> None:
        answer = await ask("My name is Ada.", model=Scripted(["Hello."]))
        for fork in (False, True):
            model = Scripted(["Ada."])
            async with Agent(model).session(resume=answer.session_id, fork=fork) as chat:
                assert (await chat.run("Who?")).text == "Ada."
                assert (chat.session_id == answer.session_id) is not fork
            assert model.conversations[0].messages[0].text == "My name is Ada."

    play(main)


def test_a_run_that_is_left_does_not_end_its_session() -> None:
    async def main() -> None:
        async with Agent(slow()).session() as chat:
            async with chat.stream_text("go") as stream:
                async for _ in stream:
                    break
            with pytest.raises(UsageError, match="the stream has no answer yet"):
                _ = stream.answer
            assert (await chat.run("again")).text.startswith("one two")

    play(main)


def test_a_run_is_interrupted() -> None:
    async def main() -> None:
        async with Agent(slow()).session() as chat:
            stream = chat.stream_text("go")
            with pytest.raises(Interrupted, match="the run was interrupted") as raised:
                async for _ in stream:
                    chat.interrupt()
            assert raised.value.answer is not None
            assert raised.value.answer.text.startswith("one two")
            assert (await chat.run("again")).text.startswith("one two")

    play(main)


def test_one_run_at_a_time() -> None:
    async def main() -> None:
        async with Agent(slow()).session() as chat:
            stream = chat.stream_text("go")
            await anext(stream)
            with pytest.raises(UsageError, match="a run of this session is active"):
                await chat.run("again")
            await stream.aclose()
        with pytest.raises(UsageError, match="the session is not open"):
            await chat.run("again")
        with pytest.raises(UsageError, match="a session is entered once"):
            await chat.__aenter__()

    play(main)


# --- streams ---


def test_text_comes_in_pieces_and_replies_are_apart() -> None:
    def look() -> str:
        """Look."""
        return "a cat"

    model = Scripted([says("Let me look at it.", call("look")), says("It is a cat, I think.")])

    async def main() -> None:
        stream = Agent(model, tools=[look]).stream_text("What is it?")
        pieces = [piece async for piece in stream]
        assert len(pieces) == 4
        assert "".join(pieces) == "Let me look at it.\n\nIt is a cat, I think."
        assert stream.answer.text == "It is a cat, I think."

    play(main)


def test_a_stream_has_every_update() -> None:
    async def main() -> None:
        updates = [update async for update in Agent(Scripted(["hi"])).stream("go")]
        assert [type(one) for one in updates if isinstance(one, RequestStarted | Delta | BlockDone | Result)] == [
            RequestStarted,
            Delta,
            BlockDone,
            Result,
        ]

    play(main)


def test_a_stream_raises_at_its_end() -> None:
    async def main() -> None:
        pieces: list[str] = []
        cut = says("half an ans", Break(Failure(Trouble.AUTH, "key revoked")))
        with pytest.raises(Exception, match="key revoked"):
            async for piece in Agent(Scripted([cut])).stream_text("go"):
                pieces.append(piece)
        assert pieces == ["half an ans"]

    play(main)


def test_a_stream_that_is_left_closes_itself() -> None:
    async def main() -> None:
        agent = Agent(slow())
        async for _ in agent.stream_text("go"):
            break
        await alone()
        async for _ in agent.stream("go"):
            break
        await alone()

    play(main)


def test_a_stream_that_was_never_read_costs_nothing() -> None:
    model = slow()

    async def main() -> None:
        Agent(model).stream_text("go")
        await alone()

    play(main)
    assert model.requests == []


# --- cancelling ---


async def wait_for_ever(context: ToolContext[asyncio.Event | None]) -> str:
    """Wait."""
    if context.deps is not None:
        context.deps.set()
    await asyncio.Event().wait()
    return ""


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144])
def test_cancelling_at_any_moment_is_clean(steps: int) -> None:
    async def main() -> None:
        model = Scripted([says("Let me wait.", call("wait_for_ever"))])
        task = asyncio.ensure_future(ask("go", model=model, tools=[wait_for_ever]))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await alone()

    play(main)


def test_a_cancelled_run_leaves_its_session_usable() -> None:
    async def main() -> None:
        model, runs = Scripted([says(call("wait_for_ever")), says("fine")]), asyncio.Event()
        async with Agent(model, tools=[wait_for_ever], deps=asyncio.Event).session(deps=runs) as chat:
            task = asyncio.ensure_future(chat.run("go"))
            await runs.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await chat.run("again")).text == "fine"

    play(main)


def test_a_timeout_is_a_cancellation() -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ask("go", model=Scripted([says(call("wait_for_ever"))]), tools=[wait_for_ever]), 0.2)
        await alone()

    play(main)


def test_nothing_is_left_behind() -> None:
    before = set(threading.enumerate())

    async def main() -> None:
        def thread() -> str:
            """A plain function runs in a thread."""
            return "x"

        for model in (Scripted([says(call("thread")), says("done")]), Scripted([fails(Trouble.AUTH)])):
            await asyncio.gather(ask("go", model=model, tools=[thread]), return_exceptions=True)
            assert len(asyncio.all_tasks()) == 2  # this one and the next
            own = [one for one in set(threading.enumerate()) - before if not one.name.startswith("asyncio_")]
            for one in own:  # a module that loads while the model writes
                one.join(PATIENCE)
                assert not one.is_alive()

    asyncio.run(asyncio.wait_for(main(), PATIENCE))
    assert set(threading.enumerate()) - before == set()


def test_many_runs_at_once() -> None:
    async def main() -> None:
        agent = Agent(lambda shown: shown.prompt.upper(), persist=False)
        answers = await asyncio.gather(*[agent.run(f"run {number}") for number in range(30)])
        assert [answer.text for answer in answers] == [f"RUN {number}" for number in range(30)]

    play(main)


# --- plain code ---

name = contextvars.ContextVar("name", default="")


def greet() -> str:
    """Greet."""
    return f"Hello {name.get()}"


def test_plain_code_and_code_in_a_loop() -> None:
    agent = Agent(lambda shown: shown.results[0].text if shown.results else says(call("greet")), tools=[greet])
    name.set("Ada")
    assert agent.run_sync("go").text == "Hello Ada"

    async def main() -> None:
        assert agent.run_sync("go").text == "Hello Ada"

    asyncio.run(main())
    assert [one.name for one in threading.enumerate()].count("mainspring") == 1


def test_many_threads_wait_at_once() -> None:
    agent, told = Agent(lambda shown: shown.prompt.upper(), persist=False), dict[int, str]()

    def work(number: int) -> None:
        told[number] = agent.run_sync(f"run {number}").text

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert told == {number: f"RUN {number}" for number in range(8)}


def test_an_error_reaches_plain_code() -> None:
    with pytest.raises(UsageError, match="no API key found"):
        Agent("haiku").run_sync("go")


def test_an_interrupt_of_the_user_ends_the_run_first() -> None:
    ended: list[str] = []

    async def stop_the_program() -> str:
        """Stop."""
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("tool")
        return ""

    with pytest.raises(KeyboardInterrupt):
        Agent(Scripted([says(call("stop_the_program"))]), tools=[stop_the_program]).run_sync("go")
    assert ended == ["tool"]


def test_an_interrupt_as_early_as_can_be_ends_the_run_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop's thread may do much of the run before the caller gets to wait for it."""
    background, begun, ended = background_loop.BackgroundLoop(), threading.Event(), list[str]()
    schedule = background.loop.call_soon_threadsafe

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("work")

    def interrupted(callback: Callable[[], object]) -> None:
        monkeypatch.undo()
        schedule(callback)
        begun.wait()
        raise KeyboardInterrupt

    monkeypatch.setattr(background.loop, "call_soon_threadsafe", interrupted)
    with pytest.raises(KeyboardInterrupt):
        background.run(work())
    there = [*ended]
    background.stop()
    assert there == ["work"]


def test_an_interrupt_before_the_start_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    background, started = background_loop.BackgroundLoop(), list[str]()

    async def work() -> None:
        started.append("work")

    def interrupted(_: Callable[[], object]) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(background.loop, "call_soon_threadsafe", interrupted)
    with pytest.raises(KeyboardInterrupt):
        background.run(work())
    background.stop()
    assert started == []


def test_waiting_in_the_loop_itself_is_refused() -> None:
    agent = Agent(lambda shown: "x", persist=False)

    async def wait_inside() -> str:
        """Wait."""
        return agent.run_sync("go").text

    outer = Agent(Scripted([says(call("wait_inside")), says("done")]), tools=[wait_inside])
    answer = outer.run_sync("go")
    assert "use 'await agent.run(...)' there" in "".join([message.text for message in answer.messages])


def test_a_forked_process_has_a_loop_of_its_own(tmp_path: Path) -> None:
    agent = Agent(lambda shown: shown.prompt.upper(), persist=False)
    agent.run_sync("one")
    before = background_loop._current[0]
    background_loop._forget()
    try:
        assert agent.run_sync("two").text == "TWO"
        assert background_loop._current[0] is not before
    finally:
        before.stop()
