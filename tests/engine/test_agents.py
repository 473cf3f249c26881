"""Agents on a virtual clock: interrupted, left, cancelled at every await of the tree; money, questions, order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable

import pytest
from tiers import parametrize_few

from engine.stage import CONFIG, assert_clean, assert_in_order
from mainspring.context.agent_types import BUILTIN_AGENT_TYPES
from mainspring.core.effects import Request
from mainspring.core.money import NANOS_PER_USD, Account, Usage, cost
from mainspring.core.pairing import find_unpaired_ids
from mainspring.core.reasons import AbortReason, Terminal
from mainspring.core.updates import AgentDone, AgentStarted, AgentUpdate, CallDone, Result, Update
from mainspring.engine.deps import CallQuestion
from mainspring.engine.model_context import ModelContext, ModelContextConfig
from mainspring.engine.run import Run
from mainspring.engine.session import EngineSession
from mainspring.engine.session_deps import AgentDeps, new_id
from mainspring.engine.shared_state import Ledger
from mainspring.engine.subagents import SubagentEnvironment, SubagentJournal, SubagentRegistry
from mainspring.permissions.checker import AllowAll, PermissionChecker
from mainspring.providers.base import Batch, Conversation
from mainspring.providers.scripted import Scripted, ScriptedReply
from mainspring.sessions.records import MemoryJournal
from mainspring.testing import VirtualLoop, call, says, virtually
from mainspring.tools.agent import agent_tool
from mainspring.tools.base import Input, Tool, ToolAnswer, ToolContext, Workspace, make_answer
from mainspring.tools.toolset import Toolset

ABORTS = (Terminal.ABORTED_STREAMING, Terminal.ABORTED_TOOLS)


class LookInput(Input, frozen=True):
    ms: int = 5


async def look(given: LookInput, calling: ToolContext) -> ToolAnswer:
    await asyncio.sleep(given.ms / 1_000)
    return make_answer(f"looked for {given.ms} ms")


LOOK = Tool(name="Look", about="Looks.", input=LookInput, run=look, read_only=True)


class Theatre:
    """A provider: the session plays one script, its agents another, by the order in which they come."""

    def __init__(self, main: Iterable[ScriptedReply], *agents: Iterable[ScriptedReply]) -> None:
        self._main = Scripted(main)
        self._scripts = [Scripted(one) for one in agents]
        self._playing: dict[str, Scripted] = {}

    def stream(self, request: Request, conversation: Conversation) -> AsyncGenerator[Batch, None]:
        if not request.source.startswith("agent:"):
            return self._main.stream(request, conversation)
        if request.source not in self._playing:
            self._playing[request.source] = self._scripts[len(self._playing)]
        return self._playing[request.source].stream(request, conversation)


class Troupe:
    """A session with agents, all of it in memory."""

    def __init__(
        self, provider: Theatre, *, answers: Iterable[str] = (), gate: PermissionChecker | None = None
    ) -> None:
        self.answers, self.asked = list(answers), list[CallQuestion]()
        self.journals: list[MemoryJournal] = []
        tool = agent_tool("any", lambda: self.agents.send)
        self.hands = Toolset([LOOK, tool], place=Workspace("/"), gate=gate or AllowAll(), attended=bool(self.answers))
        self.ledger = Ledger()
        deps = AgentDeps(provider, self.hands, answer=self.answer, journal=MemoryJournal())
        self.session = EngineSession(deps, CONFIG, ledger=self.ledger, side_jobs=deps.side_jobs, describe=deps.describe)
        home = SubagentEnvironment(
            kinds=BUILTIN_AGENT_TYPES,
            provider=lambda _: provider,
            config=CONFIG,
            hands=self.hands,
            system=lambda kind, _: (kind.prompt,),
            mind=lambda config, *_: ModelContext(ModelContextConfig(config, new_id)),
            journal=lambda *_: self.kept(),
            model=lambda _: CONFIG.model,
            shared=lambda: self.session.shared,
            note=self.session.deps.journal.append,
            now=self.session.deps.now,
        )
        self.agents = SubagentRegistry(home, self.session.submit)

    def kept(self) -> SubagentJournal:
        self.journals.append(MemoryJournal())
        return SubagentJournal(self.journals[-1])

    async def answer(self, question: CallQuestion) -> str:
        self.asked.append(question)
        await asyncio.sleep(0.002)
        return self.answers.pop(0)


def two_agents() -> Theatre:
    """Two at once, each with calls of its own, while the model still talks."""
    return Theatre(
        [
            says(
                "Go.",
                call("Agent", "a1", description="one", prompt="do one"),
                call("Agent", "a2", description="two", prompt="do two"),
                "And meanwhile I talk.",
                pace=2,
            ),
            says("Both are back.", pace=1),
        ],
        [says("I look.", call("Look", "l1", ms=4), pace=1), says("One is done.", pace=1)],
        [says(call("Look", "l2", ms=7), call("Look", "l3", ms=3), pace=1), says("Two is done.", pace=1)],
    )


class Played:
    """Two agents and their session, with something done to the run in a given round of the loop."""

    def __init__(self, number: int, act: Callable[[Run], None]) -> None:
        self.updates: list[Update] = []
        self.troupe = Troupe(two_agents())
        self.run: Run | None = None
        self.loop = VirtualLoop({number: lambda: act(self.run) if self.run else None})
        virtually(self.play(), self.loop)

    async def play(self) -> None:
        async with self.troupe.session.run("go") as self.run:
            async for update in self.run:
                self.updates.append(update)
        assert_clean()

    @property
    def result(self) -> Result:
        last = self.updates[-1]
        assert isinstance(last, Result)
        return last


def assert_whole(played: Played) -> None:
    troupe = played.troupe
    assert_in_order(troupe.session)
    for journal in troupe.journals:
        assert journal.events, "an agent that was begun has a history"
    begun = [update.agent_id for update in played.updates if isinstance(update, AgentStarted)]
    done = [update.agent_id for update in played.updates if isinstance(update, AgentDone)]
    assert sorted(begun) == sorted(done), "each that is seen to begin is seen to end"
    assert troupe.ledger.account.reserved == 0
    assert troupe.ledger.account.spent == played.result.cost + troupe.session.shared.take_agents_cost()


@pytest.mark.covers("N-17", "N-18", "F-01")
def test_two_agents_and_what_is_seen_of_them() -> None:
    played = Played(-1, lambda run: None)
    assert_whole(played)
    assert (played.result.terminal, played.result.text) == (Terminal.COMPLETED, "Both are back.")
    reports = {u.result.call_id: u.result.text for u in played.updates if isinstance(u, CallDone)}
    assert reports == {"a1": "One is done.", "a2": "Two is done."}
    inner = [update.update for update in played.updates if isinstance(update, AgentUpdate)]
    assert sorted(u.result.call_id for u in inner if isinstance(u, CallDone)) == ["l1", "l2", "l3"]
    assert played.result.usage.input == 200, "its own two calls"
    assert played.result.cost == played.troupe.ledger.account.spent > 0, "those of its agents, too"
    began = [n for n, update in enumerate(played.updates) if isinstance(update, AgentStarted)]
    ended = [n for n, update in enumerate(played.updates) if isinstance(update, AgentDone)]
    assert began[1] < ended[0], "at the same time"


@pytest.mark.covers("J-01", "J-07")
@parametrize_few("reason", list(AbortReason), keep=1)
def test_interrupted_at_every_await_of_the_tree(reason: AbortReason) -> None:
    whole = Played(-1, lambda run: None)
    for at in range(1, whole.loop.rounds):
        played = Played(at, lambda run: run.interrupt(reason))
        assert played.result.terminal in (*ABORTS, Terminal.COMPLETED), at
        assert_whole(played)
    assert whole.loop.rounds > 50


def test_left_at_every_update() -> None:
    async def leave_after(number: int) -> int:
        troupe = Troupe(two_agents())
        seen = 0
        async with troupe.session.run("go") as run:
            async for _ in run:
                seen += 1
                if seen == number:
                    break
        assert_clean()
        assert find_unpaired_ids(troupe.session.state.history) == ()
        assert troupe.ledger.account.reserved == 0
        return seen

    total = len(Played(-1, lambda run: None).updates)
    assert [virtually(leave_after(number)) for number in range(1, total + 1)] == list(range(1, total + 1))


def test_an_agents_question_is_asked_by_its_session() -> None:
    """By a gate that asks about everything; the answer reaches the agent that waits for it."""
    provider = Theatre(
        [says(call("Agent", "a1", description="one", prompt="do one")), says("Back.")],
        [says(call("Edit", "e1")), says("It may not.")],
    )
    troupe = Troupe(provider, answers=['{"behavior": "deny", "message": "not now"}'], gate=PermissionChecker())

    class EditInput(Input, frozen=True):
        pass

    async def edit(given: EditInput, calling: ToolContext) -> ToolAnswer:
        raise AssertionError("nobody allowed it")

    troupe.hands.add([Tool(name="Change", about="Changes.", input=EditInput, run=edit)])
    provider._scripts[0].replies[0] = says(call("Change", "e1"))

    async def main() -> list[Update]:
        async with troupe.session.run("go") as run:
            return [update async for update in run]

    updates = virtually(main())
    (question,) = troupe.asked
    assert question.call_id == "a1"
    assert question.text.startswith("general-purpose: Change: ")
    assert question.about["tool_name"] == "Change"
    assert question.about["agent_type"] == "general-purpose"
    (refused,) = [u.update.result for u in updates if isinstance(u, AgentUpdate) and isinstance(u.update, CallDone)]
    assert refused.text == "not now"


def test_in_the_background_it_outlives_the_run_and_ends_with_the_session() -> None:
    provider = Theatre(
        [
            says(call("Agent", "a1", description="one", prompt="do one", run_in_background=True)),
            says("I go on."),
            says("It said so."),
        ],
        [says("I think.", pace=100)],
        [says("never", pace=10_000_000)],
    )
    troupe = Troupe(provider)

    async def main() -> tuple[list[Update], list[Update]]:
        async with troupe.session.run("go") as run:
            first = [update async for update in run]
        assert troupe.agents.away == 1
        await troupe.agents.next_report()
        async with troupe.session.run() as run:
            second = [update async for update in run]
        await troupe.agents.close()
        assert_clean()
        return first, second

    first, second = virtually(main())
    assert [type(update).__name__ for update in first if isinstance(update, AgentStarted | AgentDone)] == [
        "AgentStarted"
    ]
    (done,) = [update for update in second if isinstance(update, AgentDone)]
    assert done.result is not None
    assert done.result.text == "I think."
    result = second[-1]
    assert isinstance(result, Result)
    assert result.text == "It said so."
    spent = sum(update.cost for update in (first[-1], result) if isinstance(update, Result))
    assert troupe.ledger.account.spent == spent


def test_one_that_is_still_away_at_the_end_is_ended() -> None:
    provider = Theatre(
        [says(call("Agent", "a1", description="one", prompt="do one", run_in_background=True)), says("Bye.")],
        [says("never", pace=10_000_000)],
    )
    troupe = Troupe(provider)

    async def main() -> None:
        async with troupe.session.run("go") as run:
            async for _ in run:
                pass
        await troupe.agents.close()
        assert troupe.agents.away == 0
        assert_clean()

    virtually(main())
    assert troupe.ledger.account.reserved == 0


def test_many_at_once_and_a_slow_reader() -> None:
    """All of them wait for the one who reads, and none is forgotten."""
    many = 40
    calls = [call("Agent", f"a{n}", description="one", prompt=f"do {n}") for n in range(many)]
    troupe = Troupe(Theatre([says(*calls), says("All are back.")], *[[says(call("Look", ms=1)), says("ok")]] * many))

    async def main() -> list[Update]:
        seen = list[Update]()
        async with troupe.session.run("go") as run:
            async for update in run:
                seen.append(update)
                await asyncio.sleep(0.001)
        assert_clean()
        return seen

    updates = virtually(main())
    assert sum(isinstance(update, AgentDone) for update in updates) == many
    assert isinstance(updates[-1], Result)
    assert updates[-1].text == "All are back."


def test_agents_that_share_little_money_wait_for_each_other() -> None:
    """What is set aside for one call is most of what there is; when it has ended, it is there for the next."""
    dear = Usage(input=100, output=20)
    for dollars in (0.05, 0.2, 1.0, 3.0):
        troupe = Troupe(two_agents())
        troupe.ledger.account = Account(round(dollars * NANOS_PER_USD), 0)

        async def main(troupe: Troupe = troupe) -> list[Update]:
            async with troupe.session.run("go") as run:
                seen = [update async for update in run]
            assert_clean()
            return seen

        updates = virtually(main())
        reports = {u.result.call_id: u.result.text for u in updates if isinstance(u, CallDone)}
        assert reports == {"a1": "One is done.", "a2": "Two is done."}, dollars
        result = updates[-1]
        assert isinstance(result, Result)
        assert result.cost == troupe.ledger.account.spent == 6 * cost(dear, CONFIG.model.price)
        assert troupe.ledger.account.reserved == 0
