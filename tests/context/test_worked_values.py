"""The worked values of the context, through the whole engine: a real provider, and a server that counts and refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from engine.test_mind import LOOK, SYSTEM, Looker, Told
from engine.test_mind import SMALL as SMALL_MODEL
from msgspec.structs import replace

from mainspring.context.layers import LayerLimits
from mainspring.core.config import Config
from mainspring.core.events import ContextReady
from mainspring.core.messages import Image, Text, User
from mainspring.core.models import MODELS, Model
from mainspring.core.money import Price
from mainspring.core.reasons import Cause, Terminal, Transition
from mainspring.core.updates import Failed, RequestStarted, Update
from mainspring.engine.model_context import ModelContext, ModelContextConfig, size_of
from mainspring.engine.session import EngineSession
from mainspring.engine.session_deps import AgentDeps, new_id
from mainspring.engine.shared_state import Ledger
from mainspring.engine.side_calls import SideCalls
from mainspring.permissions.checker import AllowAll
from mainspring.providers.anthropic.provider import Anthropic
from mainspring.providers.http.client import Transport
from mainspring.providers.retry import PATIENCE, RetryProfile
from mainspring.sessions.records import MemoryJournal
from mainspring.simulator.replies import ReceivedRequest, Refuse, Reply, Say
from mainspring.simulator.server import ModelServer
from mainspring.tools.base import Workspace
from mainspring.tools.toolset import Toolset

# What it is believed to take; nothing is cleared for money's sake.
FREE = replace(MODELS["claude-sonnet-4-5"], window=200_000, price=Price())
SUMMARY_ONLY = replace(LayerLimits(), snip=False, clear=False, collapse=False)
STAGING = replace(LayerLimits(), snip=False, clear=False, stage=8_000, tail=4_000)
PIXEL = Image(
    "image/png", "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

Choose = Callable[[ReceivedRequest], Reply]


def played(
    choose: Choose,
    folder: Path,
    *,
    limits: LayerLimits = SUMMARY_ONLY,
    limit: int | None = None,
    model: Model = FREE,
    auto: bool = True,
    prompts: tuple[str | tuple[User, ...], ...] = ("go",),
) -> Told:
    """A run for each prompt, to its end, with every request held to the rules of the API."""

    async def main() -> Told:
        async with ModelServer(choose=choose, metered=True, limit=limit) as server:
            transport = Transport()
            patience = replace(PATIENCE[RetryProfile.FOREGROUND], tries=1)
            provider = Anthropic(base_url=server.url, transport=transport, patience=patience)
            config = Config(model=model, thinking=False, auto_compact=auto, advise_after=10**6, end_after=10**7)
            hands = Toolset([LOOK], place=Workspace(str(folder)), gate=AllowAll())

            def questions() -> SideCalls:
                return SideCalls(
                    provider, config, small=SMALL_MODEL, ledger=Ledger, system=SYSTEM, tools=lambda: hands.specs
                )

            fixed = size_of(SYSTEM, hands.specs)
            sight = ModelContextConfig(config, new_id, ask=questions, fixed=lambda: fixed, limits=lambda: limits)
            deps = AgentDeps(provider, hands, system=SYSTEM, mind=ModelContext(sight), journal=MemoryJournal())
            session = EngineSession(deps, config, side_jobs=deps.side_jobs)
            updates: list[Update] = []
            for prompt in prompts:
                async with session.run(prompt) as run:
                    updates += [update async for update in run]
            await transport.close()
            assert server.violations == []
            return Told(updates, session, server)

    return asyncio.run(main())


def ready(told: Told) -> list[ContextReady]:
    journal = told.session.deps.journal
    assert isinstance(journal, MemoryJournal)
    return [event for event in journal.events if isinstance(event, ContextReady)]


def recoveries(told: Told) -> list[Transition]:
    """Why requests were made, but for the first and those of a new turn."""
    return [t for t in told.transitions if t is not None and t is not Transition.NEXT_TURN]


# --- the thresholds at 200,000 ------------------------------------------------------------------------------


class Slower(Looker):
    """Says much until the window is nearly full, and then little at a time."""

    def __call__(self, received: ReceivedRequest) -> Reply:
        self.words = 50_000 if self.turn < 12 else 2_000
        return super().__call__(received)


@pytest.mark.covers("D-24", "D-25", "D-32", "B-17")
def test_at_200_000_the_request_that_would_reach_167_000_is_summed_up_first(tmp_path: Path) -> None:
    model = Slower(40)
    told = played(model, tmp_path)
    assert told.result.terminal is Terminal.COMPLETED
    assert recoveries(told) == [Transition.AUTO_COMPACT]
    [boundary] = told.boundaries("summary")
    sizes = [event.tokens for event in ready(told)]
    at = sizes.index(boundary.before)
    assert sizes[at - 1] < 167_000 <= boundary.before < 168_000
    assert boundary.after < 60_000
    assert max(answer.usage.prompt for answer in told.server.answers if answer.request not in model.summaries) < 167_000


@pytest.mark.covers("D-26", "D-28")
def test_without_automatic_compaction_177_000_blocks(tmp_path: Path) -> None:
    model = Slower(60)
    told = played(model, tmp_path, auto=False)
    assert (told.result.terminal, told.result.cause) == (Terminal.BLOCKING_LIMIT, Cause.WINDOW)
    *_, last, over = [event.tokens for event in ready(told)]
    assert last < 177_000 <= over < 178_000
    assert told.result.detail == f"{over:,} tokens in context"
    assert model.summaries == []


# --- the server says that the prompt is too long: rung by rung ----------------------------------------------


REAL = 20_000  # tokens that the server takes, where the loop believes in 200,000


@pytest.mark.covers("D-18", "G-02", "C-12")
def test_first_rung_what_is_staged_is_drained_one_at_a_time(tmp_path: Path) -> None:
    model = Looker(40, words=1_500)
    told = played(model, tmp_path, limit=REAL, limits=STAGING)
    assert told.result.terminal is Terminal.COMPLETED
    assert recoveries(told) == [Transition.COLLAPSE_DRAIN_RETRY] * 2  # two times it was full, each time one was enough
    assert len(told.boundaries("collapse")) == 2
    assert model.summaries == []


@pytest.mark.covers("G-05")
def test_second_rung_media_leaves(tmp_path: Path) -> None:
    """Twelve images of 1,600 tokens fit, until the work has taken up the rest."""
    said = User((Text("compare these"), *[PIXEL] * 12))
    model = Looker(8, words=1_500)
    told = played(model, tmp_path, limit=REAL, prompts=((said,),))
    assert told.result.terminal is Terminal.COMPLETED
    assert recoveries(told) == [Transition.STRIP_MEDIA_RETRY]
    assert "image/png" not in str(told.server.requests[-1].body)
    assert "compare these" in str(told.server.requests[-1].body)
    assert model.summaries == []


@pytest.mark.covers("C-13", "G-03")
def test_third_rung_one_summary_that_fits_itself(tmp_path: Path) -> None:
    model = Looker(40, words=1_500)
    told = played(model, tmp_path, limit=REAL)
    assert told.result.terminal is Terminal.COMPLETED
    assert recoveries(told) == [Transition.REACTIVE_COMPACT_RETRY]
    [asked] = [answer for answer in told.server.answers if answer.request in model.summaries]
    assert asked.usage.prompt < REAL
    refused = [answer for answer in told.server.answers if isinstance(answer.reply, Refuse)]
    assert len(refused) == 1
    assert not any(isinstance(update, Failed) for update in told.updates)


@pytest.mark.covers("G-06", "D-21")
@pytest.mark.parametrize("summary", ["refused", "empty", "too long", "longer than what it is for"])
def test_fourth_rung_the_trim_when_the_summary_is_of_no_use(tmp_path: Path, summary: str) -> None:
    answers: dict[str, Reply] = {
        "refused": Refuse(400, "invalid_request_error", "no summaries today"),
        "empty": Say.of(" "),
        "too long": Say.of("x" * 33_000),
        "longer than what it is for": Say.of("x" * 31_000),
    }
    model = Looker(12, words=1_500)
    model.summary = lambda _: answers[summary]
    told = played(model, tmp_path, limit=6_000, limits=replace(SUMMARY_ONLY, tail=1_000))
    assert told.result.terminal is Terminal.COMPLETED
    assert recoveries(told)[0] is Transition.TRIM_RETRY
    assert set(recoveries(told)) == {Transition.TRIM_RETRY}
    assert not told.boundaries("summary")


class Stubborn(Looker):
    """Once it has said that it is done, it takes nothing any more, whatever is left of it."""

    def __init__(self, turns: int, status: int) -> None:
        super().__init__(turns, words=1_500)
        self.status = status

    def __call__(self, received: ReceivedRequest) -> Reply:
        reply = super().__call__(received)
        beside = reply == self.summary(1) or received.body["model"] == SMALL_MODEL.name
        if beside or self.turn <= self.turns + 1:
            return reply
        kind = "request_too_large" if self.status == 413 else "invalid_request_error"
        return Refuse(self.status, kind, "prompt is too long: 20001 tokens > 20000 maximum")


@pytest.mark.covers("G-01", "G-04", "E-10", "D-41")
@pytest.mark.parametrize("status", [400, 413])
@pytest.mark.parametrize("works", [True, False], ids=["summary works", "summary fails"])
def test_the_whole_ladder_and_then_the_failure_is_shown_once(tmp_path: Path, status: int, works: bool) -> None:
    model = Stubborn(34, status)
    if not works:
        model.summary = lambda _: Say.of(" ")
    said = User((Text("compare these"), PIXEL))
    told = played(model, tmp_path, limits=replace(STAGING, tail=24_000), prompts=("go", (said,)))
    assert recoveries(told) == [
        *[Transition.COLLAPSE_DRAIN_RETRY] * 3,
        Transition.STRIP_MEDIA_RETRY,
        *([Transition.REACTIVE_COMPACT_RETRY] if works else []),
        Transition.TRIM_RETRY,
    ]
    assert len(model.summaries) == 1
    assert (told.result.terminal, told.result.cause) == (Terminal.PROMPT_TOO_LONG, Cause.WINDOW)
    [failed] = [update for update in told.updates if isinstance(update, Failed)]
    assert failed.failure.status == status
    assert "20001 tokens" in failed.failure.detail
    last = [update for update in told.updates if isinstance(update, RequestStarted)][-1]
    assert told.updates.index(failed) > told.updates.index(last)  # withheld until no rung was left


# --- it fills up again and again ----------------------------------------------------------------------------


@pytest.mark.covers("C-05")
def test_three_refills_end_the_run_with_its_numbers(tmp_path: Path) -> None:
    """Each reply alone is more than the window holds."""
    model = Looker(40, words=140_000)
    told = played(model, tmp_path, model=replace(FREE, window=40_000))
    assert (told.result.terminal, told.result.cause) == (Terminal.PROMPT_TOO_LONG, Cause.REFILL)
    assert told.result.detail == "the context is full again, soon after 3 compactions in a row"
    rewrites = len(told.boundaries("summary")) + len(told.boundaries("trim"))
    assert rewrites >= 3
    assert told.result.turns == model.turn + 1 == 6  # it ends soon,
    assert told.result.model_calls == model.turn + len(model.summaries)  # and says what that took
    assert told.result.usage == told.server.usage
