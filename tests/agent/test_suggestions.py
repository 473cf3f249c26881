"""Suggestions for the next prompt: after the result, when asked for; one implementation for all of them (N-21)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent.stage import PATIENCE, Stage, play, read_until_idle
from mainspring.agent.session import AgentSession
from mainspring.agent.updates import AnyUpdate, PromptSuggested, RunStarted
from mainspring.core.updates import Result
from mainspring.engine import side_calls
from mainspring.simulator.replies import RawStream, ReceivedRequest, Reply, Say
from mainspring.simulator.scripts import Choose

HANGS = RawStream(end="hang")
LONG = Say.of("Done. " * 100)
NEXT = Say.of("next: now run the tests")
ASKED: dict[str, Any] = {"prompt_suggestions": True}


def is_small(received: ReceivedRequest) -> bool:
    return "haiku" in str(received.body["model"])


def answering(small: Reply) -> Choose:
    return lambda received: small if is_small(received) else LONG


async def run(session: AgentSession, *prompts: str) -> list[AnyUpdate]:
    """To the end: no more prompts follow."""
    await session.start()
    for prompt in prompts or ("go",):
        await session.submit(prompt)
    session.finish()
    return [update async for update in session.updates()]


def in_short(updates: list[AnyUpdate]) -> list[str]:
    """The beginnings and ends of runs, and the suggestions."""
    kinds = (RunStarted, Result, PromptSuggested)
    return [update.text if isinstance(update, PromptSuggested) else type(update).__name__
            for update in updates if isinstance(update, kinds)]  # fmt: skip


def spent(session: AgentSession) -> int:
    account = session.world.session.shared.ledger.account
    assert account.reserved == 0
    return account.spent


@pytest.mark.covers("N-21")
@pytest.mark.parametrize(
    ("chosen", "shown"),
    [
        ({}, []),
        (ASKED, ["now run the tests"]),
        ({**ASKED, "settings": {"promptSuggestionEnabled": False}}, []),
    ],
    ids=["not asked for", "asked for", "switched off"],
)
def test_a_suggestion_follows_the_result_if_it_was_asked_for(
    tmp_path: Path, chosen: dict[str, Any], shown: list[str]
) -> None:
    async def main(stage: Stage) -> None:
        session = stage.open(**chosen)
        assert in_short(await run(session)) == ["RunStarted", "Result", *shown]
        await session.close()
        assert len(stage.server.requests) == 1 + len(shown)
        assert spent(session) == stage.server.cost

    play(main, tmp_path, choose=answering(NEXT))


def test_a_suggestion_does_not_come_before_the_result_though_hooks_are_slow(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        gate = stage.folder / "gate"
        wait = f"while [ ! -e {gate} ]; do sleep 0.01; done"
        hooks = {"Stop": [{"hooks": [{"type": "command", "command": wait}]}]}
        session = stage.open(**ASKED, settings={"hooks": hooks})
        reading = asyncio.ensure_future(run(session))
        await stage.server.until(lambda: len(stage.server.answers) == 2)
        ledger = session.world.session.shared.ledger
        while ledger.account.spent != stage.server.cost:  # noqa: ASYNC110  # the small model has answered
            await asyncio.sleep(0.001)
        gate.touch()
        assert in_short(await reading) == ["RunStarted", "Result", "now run the tests"]
        await session.close()

    play(main, tmp_path, choose=answering(NEXT))


def test_no_suggestion_if_the_next_prompt_is_there(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        session = stage.open(**ASKED)
        shown = in_short(await run(session, "one", "two"))
        assert shown == ["RunStarted", "Result", "RunStarted", "Result", "now run the tests"]
        await session.close()

    play(main, tmp_path, choose=answering(NEXT))


def test_a_suggestion_that_comes_too_late_is_dropped(tmp_path: Path) -> None:
    """The next run has begun: it is shown neither in this run nor after its result."""
    answers = iter((Say.of("next: too late", pace_ms=50), Say.of("next: none")))

    def choose(received: ReceivedRequest) -> Reply:
        if is_small(received):
            return next(answers)
        return LONG if "two" not in received.talk.prompt else Say.of("Done. " * 100, pace_ms=20)

    async def main(stage: Stage) -> None:
        session = stage.open(**ASKED)
        await session.start()
        await session.submit("one")
        first = await read_until_idle(session)
        await session.submit("two")
        second = await read_until_idle(session)
        await stage.server.until(lambda: len(stage.server.answers) == 4)
        await session.close()
        assert in_short(first) == in_short(second) == ["RunStarted", "Result"]

    play(main, tmp_path, choose=choose)


def test_the_end_of_the_session_does_not_wait_for_a_suggestion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_calls, "GRACE", 2 * PATIENCE)

    async def main(stage: Stage) -> None:
        session = stage.open(**ASKED)
        await session.start()
        await session.submit("one")
        await read_until_idle(session)
        await stage.server.until(lambda: len(stage.server.requests) == 2)
        await session.close()
        await stage.server.until(lambda: stage.server.aborted == 1)

    play(main, tmp_path, choose=answering(HANGS))


@pytest.mark.parametrize("how", ["close", "interrupt", "abandon"])
def test_an_end_while_the_small_model_is_asked_leaves_no_task_and_settles_the_money(tmp_path: Path, how: str) -> None:
    async def main(stage: Stage) -> None:
        before = asyncio.all_tasks()
        session = stage.open(**ASKED, max_budget_usd=5.0)
        reading = asyncio.ensure_future(run(session))
        await stage.server.until(lambda: len(stage.server.requests) == 2)
        while session.state != "idle":  # noqa: ASYNC110  # the result was read
            await asyncio.sleep(0.001)
        if how == "interrupt":
            session.interrupt()
        elif how == "abandon":
            session.abandon()
        if how != "close":
            assert in_short(await reading) == ["RunStarted", "Result"]
        await session.close()
        await asyncio.wait({reading})
        await stage.server.until(lambda: stage.server.aborted == 1)
        assert spent(session) >= stage.server.cost
        assert asyncio.all_tasks() - before - {asyncio.current_task(), reading} == set()

    play(main, tmp_path, choose=answering(HANGS))


def test_the_next_result_has_the_cost_of_the_suggestion(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        session = stage.open(**ASKED)
        await session.start()
        await session.submit("one")
        async for update in session.updates():
            if isinstance(update, PromptSuggested):
                break
        before = stage.server.cost
        await session.submit("two")
        updates = await read_until_idle(session)
        [result] = [update for update in updates if isinstance(update, Result)]
        await session.close()
        [one, small, two] = [answer.cost for answer in stage.server.answers[:3]]
        assert (before, result.cost) == (one + small, small + two)

    play(main, tmp_path, choose=answering(NEXT))
