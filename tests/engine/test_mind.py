"""Context layers in the real loop: a real provider, the simulator's server and meter, real tools' pipeline left out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mainspring.context.layers import LayerLimits
from mainspring.core.config import Config
from mainspring.core.models import MODELS, Model
from mainspring.core.reasons import Cause, Subtype, Terminal, Transition
from mainspring.core.updates import Boundary, RequestStarted, Result, Update
from mainspring.core.view import Fold
from mainspring.engine.model_context import ModelContext, ModelContextConfig, size_of
from mainspring.engine.session import EngineSession
from mainspring.engine.session_deps import AgentDeps, new_id
from mainspring.engine.shared_state import Ledger
from mainspring.engine.side_calls import SideCalls
from mainspring.hooks.events import HookPoint, HookResult
from mainspring.hooks.runner import Hook, HookRunner
from mainspring.permissions.checker import AllowAll
from mainspring.providers.anthropic.provider import Anthropic
from mainspring.providers.base import Provider
from mainspring.providers.http.client import Transport
from mainspring.providers.retry import PATIENCE, RetryProfile
from mainspring.simulator.replies import ReceivedRequest, Refuse, Reply, Say
from mainspring.simulator.server import ModelServer
from mainspring.tools.base import Input, Tool, ToolAnswer, ToolContext, Workspace, make_answer
from mainspring.tools.toolset import Toolset

MODEL = replace(MODELS["claude-sonnet-4-5"], window=40_000)
SMALL = MODELS["claude-haiku-4-5"]
SYSTEM = ("You are mainspring.",)
SUMMED_UP = "## Task\nmend it\n## Decisions\nnone\n## Files\na.py\n## Open items\ntests\n## Last action\nlooked"


class LookInput(Input, frozen=True):
    size: int


async def look(given: LookInput, calling: ToolContext) -> ToolAnswer:
    return make_answer("some code here\n" * (given.size // 15))


LOOK = Tool(name="Look", about="Looks.", input=LookInput, run=look, read_only=True)


class Looker:
    """A model that looks so often, with many words, and then says that it is done."""

    def __init__(self, turns: int, words: int = 3_000, size: int = 600) -> None:
        self.turns, self.words, self.size = turns, words, size
        self.turn = 0
        self.summaries: list[ReceivedRequest] = []
        self.collapses: list[ReceivedRequest] = []
        self.summary: Callable[[int], Reply] = lambda _: Say.of(SUMMED_UP)

    def __call__(self, received: ReceivedRequest) -> Reply:
        body = received.body
        if body["model"] == SMALL.name:
            self.collapses.append(received)
            return Say.of("They looked at things.")
        last = body["messages"][-1]["content"][-1]
        if "too long and will be cut here" in str(last.get("text", "")):
            self.summaries.append(received)
            return self.summary(len(self.summaries))
        self.turn += 1
        if self.turn > self.turns:
            return Say.of("Done.")
        call = {"type": "tool_use", "id": f"toolu_{self.turn}", "name": "Look", "input": {"size": self.size}}
        words = min(self.words, 3 * body["max_tokens"] - 300)  # a server writes no more than it was asked for
        return Say.of(f"Thought {self.turn}. " + "I have an idea here. " * (words // 21), call)


class Told:
    """What came of a run."""

    def __init__(self, updates: list[Update], session: EngineSession, server: ModelServer) -> None:
        self.updates, self.session, self.server = updates, session, server

    @property
    def result(self) -> Result:
        last = self.updates[-1]
        assert isinstance(last, Result)
        return last

    def boundaries(self, layer: str) -> list[Boundary]:
        return [update for update in self.updates if isinstance(update, Boundary) and update.layer == layer]

    @property
    def transitions(self) -> list[Transition | None]:
        return [update.transition for update in self.updates if isinstance(update, RequestStarted)]


def played(
    model: Looker,
    tmp_path: Path,
    *,
    limits: LayerLimits | None = None,
    money: int | None = None,
    hooks: Iterable[Hook] = (),
    window: Model = MODEL,
    prompts: Iterable[str] = ("go",),
    compact: str | None = None,
) -> Told:
    async def main() -> Told:
        async with ModelServer(choose=model, metered=True) as server:
            transport = Transport()
            patience = replace(PATIENCE[RetryProfile.FOREGROUND], tries=1)
            provider: Provider = Anthropic(base_url=server.url, transport=transport, patience=patience)
            config = Config(model=window, thinking=False, advise_after=10**6, end_after=10**7)
            ledger = Ledger(money)
            runner = HookRunner(tuple(hooks), common=dict, warn=print, say=print)
            hands = Toolset([LOOK], place=Workspace(str(tmp_path)), gate=AllowAll(), hooks=runner)
            sight = ModelContextConfig(
                config,
                new_id,
                ask=lambda: SideCalls(
                    provider, config, small=SMALL, ledger=lambda: ledger, system=SYSTEM, tools=lambda: hands.specs
                ),
                folder=str(tmp_path / "spilled"),
                fixed=lambda: size_of(SYSTEM, hands.specs),
                hooks=runner,
                limits=(lambda: limits) if limits is not None else None,
            )
            deps = AgentDeps(provider, hands, system=SYSTEM, mind=ModelContext(sight))
            session = EngineSession(deps, config, ledger=ledger, side_jobs=deps.side_jobs)
            updates: list[Update] = []
            for prompt in prompts:
                async with session.run(prompt) as run:
                    updates += [update async for update in run]
            if compact is not None:
                async with session.compact(compact) as run:
                    updates += [update async for update in run]
            await transport.close()
            assert server.violations == []
            return Told(updates, session, server)

    return asyncio.run(main())


NO_COLLAPSE = replace(LayerLimits(), collapse=False, snip=False)


@pytest.mark.covers("D-22", "D-23", "D-35", "B-03")
def test_a_conversation_that_grows_too_long_is_summed_up_and_goes_on(tmp_path: Path) -> None:
    model = Looker(50)
    told = played(model, tmp_path, limits=NO_COLLAPSE)
    assert told.result.terminal is Terminal.COMPLETED
    assert len(model.summaries) >= 1
    assert len(told.boundaries("summary")) == len(model.summaries)
    assert Transition.AUTO_COMPACT in told.transitions
    [*_, fold] = [edit for edit in told.session.state.edits if isinstance(edit, Fold)]
    assert "## Task\nmend it" in fold.summary.text
    sizes = [len(request.raw) for request in told.server.requests]
    assert max(sizes) < 40_000 * 5  # a token is never more than five bytes here


def test_a_summary_is_asked_with_the_conversation_as_it_was_so_that_it_is_read_from_the_cache(tmp_path: Path) -> None:
    model = Looker(45)
    told = played(model, tmp_path, limits=NO_COLLAPSE)
    asked = model.summaries[0].body
    before = next(r.body for r in reversed(told.server.requests[: told.server.requests.index(model.summaries[0])]))
    for part in ("system", "tools", "model"):
        assert asked.get(part) == before.get(part), part
    [charged] = [a for a in told.server.answers if a.request is model.summaries[0]]
    assert charged.usage.cache_read > charged.usage.input + charged.usage.cache_write  # results were cleared just now


@pytest.mark.covers("H-14", "D-17")
def test_what_side_questions_cost_is_in_the_result_and_in_the_ledger(tmp_path: Path) -> None:
    class Quieter(Looker):
        """Its last turns add nothing that is worth a collapse, so the end of the run cuts none off: that one would
        count with all that was reserved for it."""

        def __call__(self, received: ReceivedRequest) -> Reply:
            self.words, self.size = (1_500, 600) if self.turn < 60 else (0, 10)
            return super().__call__(received)

    model = Quieter(70)
    told = played(model, tmp_path, limits=replace(LayerLimits(), stage=8_000, recent_turns=2), money=10**12)
    assert model.collapses
    assert told.session.shared.ledger.account.reserved == 0
    assert told.session.shared.ledger.account.spent == told.server.cost
    last = sum(a.cost for a in told.server.answers if a.request in model.collapses[-1:])
    assert told.server.cost - last <= told.result.cost <= told.server.cost  # one may end after the last turn


@pytest.mark.covers("D-30")
def test_three_summaries_that_fail_open_the_breaker_and_the_run_goes_on_by_trimming(tmp_path: Path) -> None:
    model = Looker(120)
    model.summary = lambda _: Refuse(400, "invalid_request_error", "no summaries today")
    told = played(model, tmp_path, limits=NO_COLLAPSE)
    assert told.result.terminal is Terminal.COMPLETED
    assert len(model.summaries) == 3
    assert len(told.boundaries("trim")) > 3


@pytest.mark.parametrize("text", ["", "x" * 40_000], ids=["empty", "too long"])
def test_a_summary_that_is_of_no_use_is_not_taken(tmp_path: Path, text: str) -> None:
    model = Looker(45)
    model.summary = lambda _: Say.of(text or {"type": "thinking", "thinking": "hm"}, *([] if text else [" "]))
    told = played(model, tmp_path, limits=NO_COLLAPSE)
    assert told.result.terminal is Terminal.COMPLETED
    assert not told.boundaries("summary")
    assert told.boundaries("trim")


@pytest.mark.covers("D-36")
def test_hooks_steer_a_summary_and_hear_of_it(tmp_path: Path) -> None:
    heard: list[dict[str, Any]] = []

    async def before(facts: dict[str, Any]) -> HookResult:
        return HookResult(context=("Keep every number.",))

    async def after(facts: dict[str, Any]) -> HookResult:
        heard.append(facts)
        return HookResult()

    hooks = [Hook(HookPoint.PRE_COMPACT, before, ""), Hook(HookPoint.POST_COMPACT, after, "")]
    model = Looker(45)
    played(model, tmp_path, limits=NO_COLLAPSE, hooks=hooks)
    assert "Keep every number." in str(model.summaries[0].body["messages"][-1])
    assert heard[0]["trigger"] == "auto"
    assert "## Task\nmend it" in heard[0]["compact_summary"]


def test_a_hook_may_refuse_a_summary(tmp_path: Path) -> None:
    async def no(facts: dict[str, Any]) -> HookResult:
        return HookResult(block=True, reason="not now")

    model = Looker(45)
    told = played(model, tmp_path, limits=NO_COLLAPSE, hooks=[Hook(HookPoint.PRE_COMPACT, no, "")])
    assert model.summaries == []
    assert told.boundaries("trim")


def test_without_money_for_it_nothing_is_summed_up_and_the_limit_holds(tmp_path: Path) -> None:
    """Whatever the limit is, it is never passed, and the run ends with its result."""
    for money in (10_000_000, 100_000_000, 300_000_000, 1_000_000_000):
        told = played(Looker(60), tmp_path, money=money)
        spent = told.session.shared.ledger.account.spent
        assert told.server.cost <= spent <= money  # of a question that the end cut short, all that was set aside
        assert told.result.cause in (Cause.END_TURN, Cause.BUDGET_USD)


def test_results_that_are_too_large_are_stored_and_shown_with_both_ends(tmp_path: Path) -> None:
    model = Looker(3, words=20, size=60_000)
    told = played(model, tmp_path, window=MODELS["claude-sonnet-4-5"])
    assert told.boundaries("tool_results")
    [first, *_] = (tmp_path / "spilled").iterdir()
    assert len(first.read_text()) == 60_000 // 15 * 15
    assert first.stat().st_mode & 0o777 == 0o600
    assert str(first) in str(told.server.requests[-1].body)


def test_a_session_of_many_prompts_keeps_what_it_knows_of_its_size(tmp_path: Path) -> None:
    model = Looker(0, words=10)
    told = played(model, tmp_path, prompts=[f"question {n}: " + "please look at this. " * 300 for n in range(30)])
    assert len(model.summaries) >= 1
    assert told.result.terminal is Terminal.COMPLETED


@pytest.mark.covers("D-36")
def test_somebody_asks_for_a_compaction(tmp_path: Path) -> None:
    model = Looker(12)
    told = played(model, tmp_path, limits=NO_COLLAPSE, compact="keep the numbers")
    assert told.result.cause is Cause.COMPACTED
    assert told.result.subtype is Subtype.SUCCESS
    assert "keep the numbers" in str(model.summaries[0].body["messages"][-1])
    assert [edit for edit in told.session.state.edits if isinstance(edit, Fold)]
    assert len(told.boundaries("summary")) == 1


def test_a_compaction_that_somebody_asks_for_may_fail(tmp_path: Path) -> None:
    model = Looker(0)
    told = played(model, tmp_path, prompts=[], compact="")
    assert told.result.cause is Cause.NOT_COMPACTED
    assert told.result.detail == "it is empty"
    model = Looker(12)
    model.summary = lambda _: Refuse(400, "invalid_request_error", "no summaries today")
    told = played(model, tmp_path, compact="")
    assert told.result.cause is Cause.NOT_COMPACTED
    assert "no summaries today" in told.result.detail
    told = played(Looker(12), tmp_path, money=150_000_000, compact="")
    assert told.result.cause is Cause.BUDGET_USD
