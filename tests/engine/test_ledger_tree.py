"""Law 5 for a whole tree: a parent, early tools, background jobs, summaries and three children on one ledger.

The world is scripted and honest: no call is charged for more than it was asked for, and what was charged is written
down as it happens, also of calls that break off or are interrupted. Prices, delays, failures and the moments at which
somebody interrupts are drawn.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from functools import partial
from itertools import count

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tiers import examples

from mainspring.context.attachments import PreparedContext, Summary
from mainspring.context.summary import MAX_OUTPUT
from mainspring.context.tokens import LEAST, total_bytes
from mainspring.context.tokens import SideCall as SideQuestion
from mainspring.core.config import Config
from mainspring.core.effects import Compact, CompactionKind, Request
from mainspring.core.errors import ProviderError
from mainspring.core.messages import Stop, Text, ToolCall, ToolResult, User, result, user
from mainspring.core.models import Model
from mainspring.core.money import Lineage, Price, Usage, cost
from mainspring.core.reasons import AbortReason, Cause, Failure, Trouble
from mainspring.core.state import State
from mainspring.core.updates import BlockKind, Result, Update
from mainspring.core.value import Bundle
from mainspring.engine.deps import EngineCallContext, ToolOutcome
from mainspring.engine.run import Run
from mainspring.engine.session import EngineSession
from mainspring.engine.shared_state import EnginePolicy, Ledger
from mainspring.engine.side_calls import SideCalls
from mainspring.engine.tasks import SideJobs
from mainspring.providers.base import (
    Batch,
    BlockDelta,
    BlockFinished,
    BlockOpened,
    Conversation,
    StreamEnded,
    StreamStarted,
)
from mainspring.testing import VirtualLoop, World, virtually
from mainspring.testing.play import assert_nothing_is_left

CHARS = 4  # of a token; the loop's own estimate for a reply that is cut off takes three
CHILDREN = 3
NEAR = 1.0  # of the threshold of compaction

# --- what is drawn ------------------------------------------------------------------------------------------


class Turn(Bundle):
    """One reply of a model and what happens around it."""

    context: float  # size of the prompt, as a part of the threshold
    read: float  # how much of what the loop expects the server counts
    written: float  # how much of what it may write the model writes
    pieces: int
    pace: int  # milliseconds before each piece
    breaks: Trouble | None
    calls: tuple[str, ...]


class Plan(Bundle):
    limit: int
    child_limits: tuple[int | None, ...]
    price: Price
    small: Price
    thinking: bool
    parent: tuple[Turn, ...]
    children: tuple[tuple[Turn, ...], ...]
    delays: tuple[int, ...]  # milliseconds, of whatever else takes time
    spends: tuple[int, ...]  # nano-dollars that tools want, and a thousandth part of them that they do spend
    ends: tuple[tuple[int, str], ...]  # in which round of the event loop somebody interrupts whom


CALLS = ("Agent", "Agent", "Read", "Edit", "Bash")  # Read and Agent may start while the model still talks
WHO = ("parent", "child 0", "child 1", "leave")


def prices() -> st.SearchStrategy[Price]:
    def made(inward: int, outward: int) -> Price:
        return Price(inward, inward * 5 // 4, inward * 2, inward // 10, outward)

    return st.builds(made, st.sampled_from([0, 100, 3_000]), st.sampled_from([0, 1_000, 15_000]))


def turns(calls: tuple[str, ...], most: int) -> st.SearchStrategy[tuple[Turn, ...]]:
    share = st.sampled_from([0.0, 0.1, 0.5, 1.0])
    one = st.builds(
        Turn,
        context=st.sampled_from([0.01, 0.1, 0.5, NEAR]),
        read=share,
        written=share,
        pieces=st.integers(1, 3),
        pace=st.integers(0, 20),
        breaks=st.sampled_from([None, None, None, None, Trouble.OVERLOADED, Trouble.NETWORK, Trouble.PROMPT_TOO_LONG]),
        calls=st.lists(st.sampled_from(calls), max_size=4).map(tuple),
    )
    return st.lists(one, min_size=1, max_size=most).map(tuple)


PLANS = st.builds(
    Plan,
    limit=st.sampled_from([0, 10**7, 10**8, 5 * 10**8, 2 * 10**9, 10**10]).flatmap(lambda n: st.integers(n // 2, n)),
    child_limits=st.tuples(*[st.none() | st.integers(0, 10**9)] * CHILDREN),
    price=prices(),
    small=prices(),
    thinking=st.booleans(),
    parent=turns(CALLS, 5),
    children=st.tuples(*[turns(("Read", "Edit", "Bash"), 3)] * CHILDREN),
    delays=st.lists(st.integers(0, 30), min_size=1, max_size=6).map(tuple),
    spends=st.lists(st.integers(0, 3 * 10**8), min_size=1, max_size=6).map(tuple),
    ends=st.lists(st.tuples(st.integers(1, 200), st.sampled_from(WHO)), max_size=3).map(tuple),
)


# --- the ledger, looked at whenever it changes --------------------------------------------------------------


class Watched(Ledger):
    """What it finds wrong it keeps: raised in the middle of the engine, it would be taken for a crash."""

    def __init__(self, limit: int | None, parent: Watched | None = None) -> None:
        super().__init__(limit, parent)
        self.wrong: list[str] = parent.wrong if parent is not None else []

    def child(self, limit: int | None = None) -> Watched:
        return Watched(limit, self)

    def _book(self, lineage: Lineage) -> None:
        super()._book(lineage)
        account = self.account
        if account.reserved < 0:
            self.wrong.append(f"more was given back than was set aside: {account}")
        if account.left is not None and account.left < 0:
            self.wrong.append(f"over the limit: {account}")


# --- the world ----------------------------------------------------------------------------------------------


class Till:
    """What servers and tools really charged."""

    def __init__(self) -> None:
        self.charges: list[int] = []

    def open(self) -> int:
        self.charges.append(0)
        return len(self.charges) - 1

    @property
    def total(self) -> int:
        return sum(self.charges)


class Tree:
    """All agents of one plan, and what came of them."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.till = Till()
        self.model = Model("big", 60_000, 45_000, plan.price, thinking_budget=32_000)
        self.small = Model("small", 60_000, 10_000, plan.small)
        self.root = Watched(plan.limit)
        self.results: list[Result] = []
        self.under_way: dict[str, Run] = {}
        self.begun = count()
        self._delays, self._spends = count(), count()

    def config(self, depth: int = 0) -> Config:
        whose = {"source": f"agent:{depth}", "depth": depth} if depth else {}
        return replace(Config(model=self.model), max_output=400, thinking=self.plan.thinking, max_turns=6, **whose)

    async def wait(self) -> None:
        delays = self.plan.delays
        await asyncio.sleep(delays[next(self._delays) % len(delays)] / 1_000)

    def wanted(self) -> int:
        return self.plan.spends[next(self._spends) % len(self.plan.spends)]

    async def run(self, name: str, world: Agent, ledger: Ledger, depth: int) -> Result:
        """To its end, whoever interrupts it: there is always a result."""
        session = EngineSession(world, self.config(depth), ledger=ledger, side_jobs=world.side_jobs)
        run = session.run("go")
        self.under_way[name] = run
        last: Update | None = None
        try:
            async with run:
                async for update in run:
                    last = update
                    if name in world.gone:
                        break
        finally:
            del self.under_way[name]
            self.results.append(run.result)
        assert name in world.gone or last == run.result, "the result is the last that is shown"
        return run.result


class Agent(World):
    """Provider and everything else: `Deps` for one agent, and the model that its side questions go to."""

    def __init__(self, tree: Tree, turns: tuple[Turn, ...], ledger: Ledger) -> None:
        super().__init__(safe=("Read", "Agent"))
        self.tree = tree
        self.turns = turns
        self.ledger = ledger
        self.gone: set[str] = set()
        self.asked = 0
        self.provider = Served(self)
        config = tree.config()
        self.side = SideCalls(self.provider, config, small=tree.small, ledger=lambda: ledger)

    @property
    def turn(self) -> Turn:
        return self.turns[min(self.asked, len(self.turns) - 1)]

    # --- Deps ---

    async def shrink(self, state: State, queued: tuple[User, ...]) -> PreparedContext:
        await self.tree.wait()
        usage, spent = self.side.taken()
        tokens = round(self.turn.context * self.tree.config().compact_at(self.tree.model))
        return PreparedContext(max(1, tokens), usage=usage, cost=spent)

    def stream(self, request: Request, state: State, policy: EnginePolicy) -> AsyncGenerator[Batch, None]:
        turn, self.asked = self.turn, self.asked + 1
        over = self.asked > len(self.turns)  # the script has come to its end
        calls = () if over else turn.calls
        return self.provider.play(request, replace(turn, calls=calls), state.tokens, self.tree.model)

    async def summarize(self, state: State, effect: Compact) -> Summary:
        """As the mind does it: a question to the model, and then whatever hooks there are."""
        if effect.how is not CompactionKind.SUMMARY:
            return Summary(before=100, after=50)
        self.provider.tokens = state.tokens
        answer = await self.side(SideQuestion((user("sum up"),), MAX_OUTPUT))
        await self.tree.wait()
        return Summary(before=100, after=10, usage=answer.usage, cost=answer.cost, failed=answer.failed)

    @property
    def side_jobs(self) -> SideJobs:
        return SideJobs(recall=self.recall, stage=self.stage, summarize_tools=self.summarize_tools)

    async def stage(self, state: State) -> None:
        await self._in_the_background()

    async def summarize_tools(self, calls: tuple[ToolCall, ...], results: tuple[ToolResult, ...]) -> str | None:
        await self._in_the_background()
        return None

    async def _in_the_background(self) -> None:
        await self.tree.wait()
        await self.side(SideQuestion((user("w" * 2_000),), 1_200, small=True))

    async def run_tool(self, call: ToolCall, asking: EngineCallContext) -> ToolOutcome:
        assert asking.ledger is self.ledger
        number = next(self.tree.begun) if call.name == "Agent" else CHILDREN
        if number < CHILDREN:
            return await self._run_child(call, number, asking.ledger)
        return await self._spend(call, asking.ledger)

    async def _run_child(self, call: ToolCall, number: int, ledger: Ledger) -> ToolOutcome:
        own = ledger.child(self.tree.plan.child_limits[number])
        child = Agent(self.tree, self.tree.plan.children[number], own)
        ended = await self.tree.run(f"child {number}", child, own, 1)
        return ToolOutcome(result(call.id, ended.text))

    async def _spend(self, call: ToolCall, ledger: Ledger) -> ToolOutcome:
        """A tool that pays for something: first it sets money aside, and what it does not need it gives back."""
        wanted = self.tree.wanted()
        if not ledger.reserve(wanted):
            return ToolOutcome(result(call.id, "no money", is_error=True), failed=True)
        spent, till = wanted, self.tree.till
        place = till.open()
        try:
            till.charges[place] = wanted // 2
            await self.tree.wait()
            spent = wanted // 2
        finally:
            ledger.settle(wanted, spent)
        return ToolOutcome(result(call.id, "bought"))


class Served:
    """A server that never charges more than it was asked for, and keeps account of it."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._ids = count(1)
        self.tokens = 0  # of the prompt that is to be summed up

    def stream(self, request: Request, conversation: Conversation) -> AsyncGenerator[Batch, None]:
        """A question beside the conversation."""
        tree = self._agent.tree
        model = tree.small if request.model == tree.small.name else tree.model
        expected = round(total_bytes(conversation.history) / LEAST) if model is tree.small else self.tokens
        return self.play(request, replace(self._agent.turn, calls=()), expected, model)

    async def play(self, request: Request, turn: Turn, expected: int, model: Model) -> AsyncGenerator[Batch, None]:
        till = self._agent.tree.till
        place = till.open()
        used = Usage(input=round(expected * turn.read))
        await asyncio.sleep(turn.pace / 1_000)
        if turn.breaks is not None and not turn.written:
            raise ProviderError(Failure(turn.breaks, "at once"))
        till.charges[place] = cost(used, model.price)
        yield (StreamStarted(used),)
        whole = max(1, round(request.max_output * turn.written))
        yield (BlockOpened(BlockKind.TEXT),)
        said = ""
        for number in range(turn.pieces):
            some = whole // turn.pieces + (whole % turn.pieces if not number else 0)
            used = replace(used, output=used.output + some)
            till.charges[place] = cost(used, model.price)
            said += "word" * some
            yield (BlockDelta(BlockKind.TEXT, "word" * some),)
            await asyncio.sleep(turn.pace / 1_000)
            if turn.breaks is not None and number == turn.pieces // 2:
                raise ProviderError(Failure(turn.breaks, "on its way"))
        yield (BlockFinished(Text(said)),)
        for name in turn.calls:
            yield (BlockFinished(ToolCall(f"call_{id(self)}_{next(self._ids)}", name, {})),)
            await asyncio.sleep(turn.pace / 1_000)
        yield (StreamEnded(Stop.TOOL_USE if turn.calls else Stop.END_TURN, used, model.name),)


# --- the law ------------------------------------------------------------------------------------------------


def played(plan: Plan) -> Tree:
    tree = Tree(plan)
    parent = Agent(tree, plan.parent, tree.root)

    def end(who: str) -> None:
        if who == "leave":
            parent.gone.add("parent")
        elif who in tree.under_way:
            tree.under_way[who].interrupt(AbortReason.HARD if who == "parent" else AbortReason.TIMEOUT)

    async def main() -> None:
        await tree.run("parent", parent, tree.root, 0)
        assert_nothing_is_left()

    loop = VirtualLoop({at: partial(end, who) for at, who in plan.ends})
    virtually(main(), loop)
    return tree


def keeps_the_law(plan: Plan) -> Tree:
    tree = played(plan)
    account = tree.root.account
    assert tree.root.wrong == []
    assert account.reserved == 0, "something that was set aside was never given back"
    assert tree.till.total <= account.spent, "more was charged than the ledger knows of"
    assert account.spent <= plan.limit
    return tree


def crowded(plan: Plan) -> Plan:
    """Every turn needs a summary, whose writer thinks at length, and those who interrupt come early."""
    full = tuple([replace(turn, context=NEAR, written=1.0, breaks=None) for turn in plan.parent])
    ends = tuple([(at % 100 + 1, who) for at, who in plan.ends])
    return replace(plan, thinking=True, limit=max(plan.limit, 10**9), parent=full, ends=ends)


# A plan says all there is to know of a failure, and to make it shorter would take minutes.
AS_DRAWN = settings(phases=[Phase.explicit, Phase.generate], max_examples=max(examples(300), settings().max_examples))


@pytest.mark.covers("H-09", "H-12", "H-14")
@pytest.mark.parametrize("plans", [PLANS, PLANS.map(crowded)], ids=["any", "crowded"])
def test_a_tree_never_spends_more_than_its_limit_and_always_ends_with_its_result(
    plans: st.SearchStrategy[Plan], capsys: pytest.CaptureFixture[str]
) -> None:
    causes, sums = Counter[str](), Counter[str]()

    @AS_DRAWN
    @given(plans)
    def hold(plan: Plan) -> None:
        tree = keeps_the_law(plan)
        causes.update([str(made.cause) for made in tree.results])
        sums.update(
            trees=1, children=len(tree.results) - 1, paid=tree.root.account.spent > 0, calls=len(tree.till.charges)
        )

    hold()
    with capsys.disabled():
        ends = ", ".join(f"{name} {times:,}" for name, times in causes.most_common())
        print(
            f"\nledger trees: {sums['trees']} trees with {sums['children']} children, {sums['calls']:,} calls; "
            f"{sums['paid']} of them paid for something; {ends}"
        )
    assert {"end_turn", "budget_usd", "hard"} <= set(causes)
    assert sums["children"] > sums["trees"] // 10
    assert sums["paid"] > sums["trees"] // 10


@pytest.mark.long
def test_so_it_is_whoever_is_interrupted_in_whichever_round() -> None:
    """Three children at once, early tools and background jobs, and money for most of it."""
    busy = replace(PLAIN, calls=("Read", "Agent", "Agent", "Agent", "Edit"), pieces=3)
    works = (replace(PLAIN, calls=("Read", "Edit")), replace(PLAIN, context=NEAR), PLAIN)
    plan = replace(LONE, limit=40_000_000, thinking=True, parent=(busy, *works), children=(works,) * CHILDREN)
    plan = replace(plan, delays=(3, 1, 7), spends=(900_000, 100_000))
    causes = Counter[str]()
    for who in WHO:
        for at in range(1, 240, 2):
            tree = keeps_the_law(replace(plan, ends=((at, who),)))
            causes.update([str(made.cause) for made in tree.results])
    assert {"end_turn", "budget_usd", "hard", "timeout", "parent"} <= set(causes)


# --- what it found ------------------------------------------------------------------------------------------

FREE_TO_READ = Price(output=1_000)
PLAIN = Turn(context=0.01, read=1.0, written=1.0, pieces=1, pace=1, breaks=None, calls=())
LONE = Plan(
    limit=10**10,
    child_limits=(None,) * CHILDREN,
    price=FREE_TO_READ,
    small=FREE_TO_READ,
    thinking=False,
    parent=(replace(PLAIN, context=NEAR), PLAIN),
    children=((PLAIN,),) * CHILDREN,
    delays=(1,),
    spends=(0,),
    ends=(),
)


@pytest.mark.parametrize("tokens", [500, 1_000, 3_000, 7_999, 8_000, 12_000, 40_000])
def test_a_summary_that_could_not_be_paid_for_to_its_end_is_not_begun(tokens: int) -> None:
    """It may write 8,000 tokens, whatever is left."""
    keeps_the_law(replace(LONE, limit=tokens * FREE_TO_READ.output))


def test_a_summary_that_breaks_off_is_booked_with_what_it_had_written() -> None:
    tree = keeps_the_law(replace(LONE, parent=(replace(LONE.parent[0], breaks=Trouble.NETWORK), PLAIN)))
    assert tree.root.account.spent >= MAX_OUTPUT * FREE_TO_READ.output


def test_so_is_a_question_in_the_background() -> None:
    works = replace(PLAIN, calls=("Edit",), pace=0)
    keeps_the_law(replace(LONE, parent=(works, replace(PLAIN, breaks=Trouble.NETWORK, pace=20))))


def test_a_summary_that_is_interrupted_is_booked_with_what_it_may_have_thought() -> None:
    """In every round of the event loop until long after it."""
    causes = [keeps_the_law(replace(LONE, thinking=True, ends=((at, "parent"),))).results[0].cause for at in range(60)]
    assert set(causes) == {Cause.HARD, Cause.END_TURN}


def test_until_a_summary_is_booked_nobody_else_can_have_its_money() -> None:
    """Hooks may take their time between the answer and the booking; others go on spending."""
    whole, thought = 20_000, 32_000

    async def main() -> None:
        tree = Tree(replace(LONE, limit=(whole + thought) * FREE_TO_READ.output, thinking=True))
        ledger = tree.root
        agent = Agent(tree, LONE.parent, ledger)
        assert ledger.reserve(whole * FREE_TO_READ.output)  # as the core does
        answer = await agent.side(SideQuestion((user("sum up"),), MAX_OUTPUT))
        assert answer.usage.output == MAX_OUTPUT + thought
        left = ledger.funds
        assert left is not None
        assert ledger.reserve(left)  # a child, say
        ledger.settle(whole * FREE_TO_READ.output, answer.cost)
        ledger.settle(left, left)
        _, told_later = agent.side.taken()
        assert ledger.wrong == []
        assert answer.cost + told_later == tree.till.total == ledger.account.spent - left

    virtually(main())
