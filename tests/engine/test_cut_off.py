"""What a request costs that somebody interrupts: nothing if nobody had begun to answer, else an estimate, marked so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from mainspring.context.tokens import LEAST, SideCall, total_bytes
from mainspring.core.config import Config
from mainspring.core.effects import Compact, CompactionKind, Request
from mainspring.core.history import History
from mainspring.core.messages import Text, user
from mainspring.core.models import MODELS
from mainspring.core.money import Usage, cost, grant
from mainspring.core.reasons import Terminal, Trouble
from mainspring.core.state import State
from mainspring.core.updates import Delta, RequestStarted, Result, Retrying
from mainspring.engine.model_context import ModelContext, ModelContextConfig
from mainspring.engine.run import Run
from mainspring.engine.sampler import SideCallInterrupted
from mainspring.engine.session import EngineSession
from mainspring.engine.session_deps import AgentDeps, new_id
from mainspring.engine.shared_state import Ledger
from mainspring.engine.side_calls import SideCalls
from mainspring.hooks.events import HookPoint, HookResult, NoHooks
from mainspring.permissions.checker import AllowAll
from mainspring.providers.anthropic.provider import Anthropic
from mainspring.providers.base import Batch, BlockDelta, Conversation, WebSearchSpec
from mainspring.providers.http.client import Deadlines, Transport
from mainspring.simulator.faults import FaultPlan, PlannedFault
from mainspring.simulator.replies import Say
from mainspring.simulator.server import ModelServer
from mainspring.testing.clock import VirtualLoop, virtually
from mainspring.tools.base import Workspace
from mainspring.tools.toolset import Toolset

MODEL = MODELS["claude-sonnet-4-5"]
CONFIG = Config(model=MODEL, thinking=False)
PATIENT = Deadlines(connect=30, headers=30, idle=30)
USED = Usage(input=700, output=90)
LIMITS = pytest.mark.parametrize("limit", [None, 10**12])
WORDS = "These are the first words of an answer that never comes to its end."


class Heard:
    """A provider through which one hears when a reply has begun."""

    def __init__(self, provider: Anthropic) -> None:
        self._provider = provider
        self.words = asyncio.Event()

    async def stream(self, request: Request, conversation: Conversation) -> AsyncGenerator[Batch, None]:
        async for batch in self._provider.stream(request, conversation):
            if any(isinstance(item, BlockDelta) for item in batch):
                asyncio.get_running_loop().call_soon(self.words.set)  # when whoever asked has it
            yield batch


def serving(fault: str) -> ModelServer:
    return ModelServer([Say.of(WORDS, usage=USED)], faults=FaultPlan(PlannedFault(fault, None)))


def interrupted(fault: str, folder: Path, limit: int | None) -> tuple[Result, Ledger]:
    """One prompt; Ctrl-C when the server has the request, or when the first words are there."""

    async def main() -> tuple[Result, Ledger]:
        ledger = Ledger(limit)
        async with serving(fault) as server, Transport(deadlines=PATIENT) as transport:
            provider = Anthropic(base_url=server.url, transport=transport)
            deps = AgentDeps(provider, Toolset([], place=Workspace(str(folder)), gate=AllowAll()))
            session = EngineSession(deps, CONFIG, ledger=ledger)
            async with session.run("go") as run:
                async for update in run:
                    if isinstance(update, Delta):
                        run.interrupt()
                    elif isinstance(update, RequestStarted) and fault == "silence":
                        await server.until(lambda: len(server.requests) == 1)
                        run.interrupt()
            return run.result, ledger

    return asyncio.run(main())


@pytest.mark.covers("J-01", "H-14")
@LIMITS
def test_a_request_that_nobody_answers_costs_nothing(tmp_path: Path, limit: int | None) -> None:
    result, ledger = interrupted("silence", tmp_path, limit)
    assert result.terminal is Terminal.ABORTED_STREAMING
    assert (result.usage, result.cost, result.estimated) == (Usage(), 0, False)
    assert (ledger.account.spent, ledger.account.reserved) == (0, 0)


@pytest.mark.covers("J-01", "H-14")
@LIMITS
def test_a_reply_that_had_begun_is_charged_by_estimate_and_marked(tmp_path: Path, limit: int | None) -> None:
    result, ledger = interrupted("stall", tmp_path, limit)
    assert result.usage.input == USED.input
    assert 0 < result.usage.output < USED.output
    assert result.estimated
    assert result.usage.estimated
    assert result.cost == ledger.account.spent == cost(result.usage, MODEL.price)


def test_a_port_where_nobody_listens_costs_nothing(tmp_path: Path) -> None:
    async def main() -> Result:
        async with serving("silence") as server:
            url = server.url
        async with Transport(deadlines=PATIENT) as transport:
            provider = Anthropic(base_url=url, transport=transport)
            session = EngineSession(
                AgentDeps(provider, Toolset([], place=Workspace(str(tmp_path)), gate=AllowAll())), CONFIG
            )
            async with session.run("go") as run:
                async for update in run:
                    if isinstance(update, Retrying):
                        assert update.failure.kind is Trouble.NETWORK
                        run.interrupt()
            return run.result

    result = asyncio.run(main())
    assert (result.usage, result.cost, result.estimated) == (Usage(), 0, False)


# --- questions beside the conversation ------------------------------------------------------------------


def cut_off(
    fault: str, limit: int | None, *, small: bool = False
) -> tuple[SideCallInterrupted, Ledger, tuple[Usage, int]]:
    """What an interrupted question tells, the ledger, and what is told with the next request."""

    async def main() -> tuple[SideCallInterrupted, Ledger, tuple[Usage, int]]:
        ledger = Ledger(limit)
        async with serving(fault) as server, Transport(deadlines=PATIENT) as transport:
            heard = Heard(Anthropic(base_url=server.url, transport=transport))
            side = SideCalls(heard, CONFIG, small=MODEL, ledger=lambda: ledger)
            asking = asyncio.create_task(side(SideCall((user("sum up"),), 2_000, small=small)))
            await server.until(lambda: len(server.requests) == 1)
            if fault != "silence":
                await heard.words.wait()
            asking.cancel()
            with pytest.raises(SideCallInterrupted) as caught:
                await asking
            return caught.value, ledger, side.taken()

    return asyncio.run(main())


def test_a_summary_that_nobody_begins_costs_nothing() -> None:
    cut, _, later = cut_off("silence", None)
    assert (cut.usage, cut.cost) == (Usage(), 0)
    assert later == (Usage(), 0)


def test_a_summary_that_is_interrupted_tells_what_it_came_to() -> None:
    cut, _, later = cut_off("stall", None)
    assert cut.usage.estimated
    assert (cut.usage.input, cut.cost) == (USED.input, cost(cut.usage, MODEL.price))
    assert cut.usage.output > 0
    assert later == (Usage(), 0)


def test_without_a_limit_an_interrupted_question_of_the_small_model_is_told_too() -> None:
    cut, _, later = cut_off("stall", None, small=True)
    assert later == (cut.usage, cut.cost)
    assert cut.cost > 0


def test_with_a_limit_all_that_was_set_aside_for_it_counts() -> None:
    """A run ends such questions itself, in the middle: the limit holds whatever the server makes of that."""
    cut, ledger, (_, spent) = cut_off("stall", 10**12, small=True)
    assert spent == ledger.account.spent > cut.cost
    assert ledger.account.reserved == 0


class Waits(NoHooks):
    """A hook before a summary that takes its time."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    def any_at(self, point: HookPoint, tool: str = "") -> bool:
        return point is HookPoint.PRE_COMPACT

    async def ask(self, point: HookPoint, facts: dict[str, Any], tool: str = "") -> HookResult:
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError


def test_a_summary_that_a_hook_holds_up_costs_nothing() -> None:
    async def main() -> None:
        hooks = Waits()
        mind = ModelContext(ModelContextConfig(CONFIG, new_id, hooks=hooks))
        state = State(History([user("go")]), model=MODEL)
        effect = Compact(CompactionKind.SUMMARY, Trouble.NEAR_LIMIT, 5_000, None)
        asking = asyncio.create_task(mind.summarize(state, effect))
        await hooks.asked.wait()
        asking.cancel()
        with pytest.raises(SideCallInterrupted) as caught:
            await asking
        assert (caught.value.usage, caught.value.cost) == (Usage(), 0)

    asyncio.run(main())


@pytest.mark.covers("D-36", "H-14")
@LIMITS
@pytest.mark.parametrize("fault", ["silence", "stall"])
def test_a_compaction_that_somebody_interrupts(tmp_path: Path, fault: str, limit: int | None) -> None:
    """Ctrl-C during `/compact`: the money shown is the money booked, whether there is a limit or not."""

    async def main() -> None:
        ledger = Ledger(limit)
        planned = FaultPlan(PlannedFault(fault, None, after=1))
        talk = [Say.of("Yes. " * 2_000, usage=USED), Say.of(WORDS, usage=USED)]
        async with ModelServer(talk, faults=planned) as server, Transport(deadlines=PATIENT) as transport:
            heard = Heard(Anthropic(base_url=server.url, transport=transport))
            hands = Toolset([], place=Workspace(str(tmp_path)), gate=AllowAll())
            sight = ModelContextConfig(
                CONFIG, new_id, ask=lambda: SideCalls(heard, CONFIG, small=MODEL, ledger=lambda: ledger)
            )
            deps = AgentDeps(heard, hands, mind=ModelContext(sight))
            session = EngineSession(deps, CONFIG, ledger=ledger, side_jobs=deps.side_jobs)
            async with session.run("go") as run:
                assert [update async for update in run]
            first, heard.words = ledger.account.spent, asyncio.Event()
            async with session.compact() as run:
                reading = asyncio.create_task(to_its_end(run))
                await server.until(lambda: len(server.requests) == 2)
                if fault == "stall":
                    await heard.words.wait()
                run.interrupt()
                await reading
            shown = run.result
            assert shown.terminal is Terminal.ABORTED_STREAMING
            assert shown.cost == ledger.account.spent - first == cost(shown.usage, MODEL.price)
            assert ledger.account.reserved == 0
            assert shown.estimated is (fault == "stall")
            assert (shown.usage.input, shown.cost > 0) == ((USED.input, True) if fault == "stall" else (0, False))

    asyncio.run(main())


async def to_its_end(run: Run) -> None:
    async for _ in run:
        pass


# --- questions that break off by themselves -------------------------------------------------------------

FEW_ATTEMPTS, ALL_ATTEMPTS = 3, CONFIG.max_retries + 1
MID_STREAM = ["cut_in_text", "cut_at_start", "error_event", "malformed_http", "stall"]


def broken_off(kind: str, fault: str, times: int, limit: int | None) -> tuple[str, int, Ledger, int]:
    """The answer, how often it was asked for, the ledger, and what whoever asked is told that it cost."""
    loop = VirtualLoop()

    async def main() -> tuple[str, int, Ledger, int]:
        ledger = Ledger(limit)
        faults = FaultPlan(PlannedFault(fault, times))
        replies = [Say.of(WORDS, usage=USED)] * (ALL_ATTEMPTS + 1)
        async with ModelServer(replies, faults=faults, clock=loop.milliseconds) as server, Transport() as transport:
            provider = Anthropic(base_url=server.url, transport=transport)
            side = SideCalls(provider, CONFIG, small=MODEL, ledger=lambda: ledger)
            if kind == "search":
                blocks = await side.search("find", WebSearchSpec(5), MODEL)
                text, told = "".join([block.text for block in blocks if isinstance(block, Text)]), 0
            else:
                answer = await side(SideCall((user("sum up"),), 2_000, small=kind == "small"))
                text, told = answer.text, answer.cost if kind == "summary" else 0
            return text, len(server.requests), ledger, told + side.taken()[1]

    return virtually(main(), loop)


CASES = [
    *[("summary", times, fault) for times in (1, 5, 9) for fault in MID_STREAM],
    *[(kind, 2, fault) for kind in ("small", "search") for fault in MID_STREAM if fault != "error_event"],
]


@pytest.mark.covers("D-36", "H-14")
@LIMITS
@pytest.mark.parametrize(("kind", "times", "fault"), CASES)
def test_a_question_that_breaks_off_is_asked_again(kind: str, times: int, fault: str, limit: int | None) -> None:
    text, asked, ledger, told = broken_off(kind, fault, times, limit)
    assert (text, asked) == (WORDS, times + 1)
    assert ledger.account.reserved == 0
    assert told > cost(USED, MODEL.price)  # what was lost is paid for, too
    if kind != "summary":  # whose money the core books
        assert ledger.account.spent == told


def test_a_side_job_does_not_wait_for_an_overloaded_model() -> None:
    text, asked, *_ = broken_off("small", "error_event", 1, None)
    assert (text, asked) == ("", 1)


@pytest.mark.parametrize(("kind", "most"), [("summary", ALL_ATTEMPTS), ("small", FEW_ATTEMPTS)])
def test_a_question_that_always_breaks_off_is_given_up(kind: str, most: int) -> None:
    text, asked, ledger, _ = broken_off(kind, "cut_in_text", most + 5, 10**12)
    assert (text, asked) == ("", most)
    assert ledger.account.reserved == 0


def test_a_question_is_not_asked_again_without_money_for_it() -> None:
    """With a limit that two attempts do not fit into: what was lost counts, and the limit holds."""
    tokens = round(total_bytes((user("sum up"),)) / LEAST)
    granted = grant(10**12, tokens, 2_000, MODEL.price, marked=False)  # it sets no mark, so no cache write is reserved
    assert granted is not None
    text, asked, ledger, _ = broken_off("small", "cut_in_text", 5, granted.reserve)
    assert (text, asked) == ("", 1)
    assert 0 < ledger.account.spent <= granted.reserve
