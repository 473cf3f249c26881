"""The parts of the engine by themselves: channel, ledger, the plain world, the scripted model, the public door."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import uuid
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest

import mainspring
from engine.stage import CONFIG, assert_clean
from mainspring.context.attachments import PreparedContext, Summary
from mainspring.core.config import Config
from mainspring.core.effects import Compact, Request, RunStopHooks
from mainspring.core.errors import ToolError, UsageError
from mainspring.core.events import StopDecision
from mainspring.core.history import History
from mainspring.core.messages import RedactedThinking, ServerBlock, Thinking, ToolCall, User, result, user
from mainspring.core.models import Model
from mainspring.core.reasons import Terminal, Trouble
from mainspring.core.state import State
from mainspring.core.updates import CallDone, CallStarted, Delta, Result, Update
from mainspring.engine.deps import CallQuestion, Deps, EngineCallContext, ToolOutcome
from mainspring.engine.executor import Executor
from mainspring.engine.model_context import ModelContext, ModelContextConfig
from mainspring.engine.session import EngineSession
from mainspring.engine.session_deps import AgentDeps, BasicDeps
from mainspring.engine.shared_state import EnginePolicy, Ledger, SharedState
from mainspring.engine.tasks import Channel, SideJobs
from mainspring.permissions.checker import AllowAll
from mainspring.providers.base import Batch, Conversation, Provider
from mainspring.providers.scripted import ScriptedReply
from mainspring.sessions.records import Journal, MemoryJournal
from mainspring.testing import Scripted, World, call, fails, says, virtually
from mainspring.testing.conformance import ProviderConformance
from mainspring.tools.base import Workspace
from mainspring.tools.custom import tool
from mainspring.tools.toolset import Toolset


class TestScripted(ProviderConformance):
    def provider(self, replies: list[ScriptedReply]) -> Provider:
        return Scripted(replies)


# --- the channel ------------------------------------------------------------------------------------


@pytest.mark.covers("A-03")
def test_the_channel_hands_on_everything_in_order_and_makes_the_producer_wait() -> None:
    async def main() -> None:
        channel: Channel[int] = Channel(capacity=4)
        made: list[int] = []

        async def produce() -> None:
            for number in range(20):
                await channel.room()
                channel.push(number)
                made.append(number)
            channel.close()

        producer = asyncio.get_running_loop().create_task(produce())
        await asyncio.sleep(1)
        assert made == [0, 1, 2, 3]
        seen = []
        async for number in channel:
            seen.append(number)
            assert len(made) - len(seen) <= 4
        assert seen == list(range(20))
        await producer

    virtually(main())


def test_a_reader_that_leaves_frees_the_producer_and_ends_the_iteration() -> None:
    async def main() -> None:
        channel: Channel[int] = Channel(capacity=1)
        channel.push(1)
        waiting = asyncio.get_running_loop().create_task(channel.room())
        await asyncio.sleep(1)
        assert not waiting.done()
        channel.leave()
        await waiting
        channel.push(2)
        assert [item async for item in channel] == []

    virtually(main())


def test_a_waiting_reader_hears_of_the_close() -> None:
    async def main() -> None:
        channel: Channel[int] = Channel()
        loop = asyncio.get_running_loop()
        loop.call_later(1, channel.push, 7)
        loop.call_later(2, channel.close)
        assert [item async for item in channel] == [7]
        assert loop.time() == 2

    virtually(main())


# --- the ledger -------------------------------------------------------------------------------------


@pytest.mark.covers("H-09")
def test_the_ledger_of_a_tree() -> None:
    root = Ledger(limit=100)
    child = root.child(limit=60)
    grandchild = child.child()
    assert grandchild.funds == 60
    assert grandchild.reserve(50)
    assert (root.funds, child.funds) == (50, 10)
    assert not child.reserve(11)
    assert root.reserve(50)
    assert not child.reserve(1)
    grandchild.settle(50, 20)
    assert (root.account.spent, child.account.spent, grandchild.account.spent) == (20, 20, 20)
    assert child.funds == 30
    assert Ledger().funds is None


# --- the plain world and the public door ------------------------------------------------------------


@tool(name="Shout", concurrent=True)
async def shout(text: str) -> str:
    """Shout."""
    if not text:
        raise ToolError("'text' is empty; give a word to shout")
    return text.upper()


@tool(name="Count", concurrent=lambda given: len(given.text) < 10)
async def count(text: str) -> int:
    """Count the letters."""
    return len(text)


@pytest.mark.covers("A-02", "A-04")
def test_open_run_is_all_it_takes() -> None:
    async def main() -> None:
        model = Scripted([says("Listen.", call("Shout", text="hey")), says("Done.")])
        updates: list[Update] = []
        async with mainspring.open_run("go", provider=model, tools=[shout], max_turns=3) as run:
            async for update in run:
                updates.append(update)
        assert [update.result.text for update in updates if isinstance(update, CallDone)] == ["HEY"]
        assert "".join(u.text for u in updates if isinstance(u, Delta) and u.kind == "text") == "Listen.Done."
        assert run.result.terminal is Terminal.COMPLETED
        assert run.result.text == "Done."

    asyncio.run(main())


def test_no_descriptor_and_no_task_is_left_on_a_real_loop() -> None:
    """Twenty runs each: to the end, left, interrupted, cancelled."""

    async def one(how: str) -> None:
        model = Scripted([says("Listen.", call("Shout", text="hey"), pace=1), says("Done.", pace=1)])
        async with mainspring.open_run("go", provider=model, tools=[shout]) as run:
            async for update in run:
                if isinstance(update, CallDone) and how == "left":
                    break
                if isinstance(update, CallDone) and how == "interrupted":
                    run.interrupt()
                if isinstance(update, CallDone) and how == "cancelled":
                    task = asyncio.current_task()
                    assert task is not None
                    task.cancel()

    async def main() -> None:
        before = descriptors()
        for how in ("ended", "left", "interrupted", "cancelled") * 20:
            task = asyncio.get_running_loop().create_task(one(how))
            await asyncio.wait({task})
            assert task.cancelled() is (how == "cancelled")
            assert asyncio.all_tasks() == {asyncio.current_task()}
        assert descriptors() == before

    asyncio.run(main(), debug=True)


def descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def test_wrong_calls_are_results_that_name_the_way_out() -> None:
    async def main() -> None:
        calls = call("Whisper", text="hey"), call("Shout", text=""), call("Shout", loud=True), call("Count", text="abc")
        model = Scripted([says(*calls), says("Oh.")])
        session = EngineSession(BasicDeps(model, [shout, count]), CONFIG)
        async with session.run("go") as run:
            async for _ in run:
                pass
        texts = [message.text for message in session.state.history]
        assert texts[2] == "There is no tool 'Whisper'. Available: Shout, Count."
        assert texts[3] == "'text' is empty; give a word to shout"
        assert "unknown field `loud`. It takes text." in texts[4]
        assert texts[5] == "3"

    asyncio.run(main())


def test_the_plain_world_estimates_tokens_from_the_last_count_and_says_when_the_window_is_full() -> None:
    async def main() -> None:
        model = Scripted([says("x", call("Shout", text="a" * 90_000)), fails(Trouble.PROMPT_TOO_LONG)])
        config = Config(model=Model("small", 50_000, 8_000))
        session = EngineSession(BasicDeps(model, [shout]), config)
        async with session.run("go") as run:
            async for _ in run:
                pass
        assert session.state.tokens == 120 + 30_000  # what the server counted, and the result since then
        assert run.result.terminal is Terminal.PROMPT_TOO_LONG

    asyncio.run(main())


def test_the_plain_world_has_real_ids_and_nobody_to_ask() -> None:
    deps = BasicDeps(Scripted([]))
    assert uuid.UUID(deps.new_id()).version == 4
    assert len({deps.new_id() for _ in range(1_000)}) == 1_000
    assert deps.now() > 1_700_000_000_000
    with pytest.raises(UsageError, match="cannot ask 'sure\\?': this run has no way to ask the user"):
        asyncio.run(deps.ask(CallQuestion("1", "2", "sure?")))


PUBLIC = [
    "Agent", "AgentChat", "AgentError", "AgentHook", "AgentOptions", "AgentStream", "Answer", "Approval",
    "ApprovalRequest",
    "Assistant", "BudgetExceeded", "Client", "Document", "Fleet", "FleetLimits", "FleetStats", "FleetTask",
    "HookCall", "Image", "Interrupted", "MainspringError", "MaxTurnsExceeded",
    "Message", "ModelError", "ModelSettings", "Options", "OutputError", "TaskResult", "Text", "Tool",
    "ToolAnswer", "ToolCall", "ToolContext",
    "ToolError", "ToolResult", "Update", "UsageError", "User", "__version__", "ask", "instrument",
    "open_run", "query", "tool",
]  # fmt: skip


def test_the_public_names_are_these_and_cost_nothing_until_used() -> None:
    assert sorted(mainspring.__all__) == PUBLIC
    with pytest.raises(AttributeError, match="module 'mainspring' has no attribute 'nonsense'"):
        mainspring.nonsense  # noqa: B018
    heavy = ("asyncio", "msgspec", "mainspring.core")
    code = f"import sys, mainspring; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"


# --- the executor and its seam ----------------------------------------------------------------------


@pytest.mark.covers("F-03", "F-12")
def test_the_states_of_a_call() -> None:
    async def main() -> None:
        world = World([])
        states: dict[str, list[str]] = {}
        crashes: list[BaseException] = []

        def look(update: Update) -> None:
            for job in executor._jobs.values():
                seen = states.setdefault(job.call.id, [])
                if not seen or seen[-1] != job.slot.status:
                    seen.append(job.slot.status)

        world.answers = ["yes"]
        executor = Executor(world, CONFIG, SharedState(History()), look, crashes.append, Channel[Update]().room)
        calls = (call("Read", "r", ms=5, ask="?"), call("Edit", "w", ms=5))
        for offered in calls:
            executor.offer(offered)
        results, stopped = await executor.finish(calls, start=True)
        assert [one.call_id for one in results] == ["r", "w"]
        assert (stopped, crashes) == (None, [])
        assert states["r"] == ["executing", "waiting", "executing", "completed", "yielded"]
        assert states["w"] == ["queued", "executing", "completed"]  # yielded when there was nothing more to show

    virtually(main())


@pytest.mark.covers("A-25", "A-30")
def test_the_scripted_and_the_plain_world_are_the_same_seam() -> None:
    """mypy holds both to the protocol; here we see that neither lacks a name."""
    seams: list[Deps] = [World([]), BasicDeps(Scripted([])), TenMembers(Scripted([]))]
    assert names_of(Deps) == {
        *("stream", "shrink", "summarize", "new_id"),  # the four that tests replace most
        *("run_tool", "is_concurrent", "stop_hooks", "ask", "journal", "now"),
    }
    for seam in seams:
        assert names_of(Deps) <= set(dir(seam))


def names_of(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


class TenMembers:
    """`Deps` as you would write them: these ten, and nothing inherited."""

    def __init__(self, model: Scripted) -> None:
        self._model = model
        self._ids = itertools.count()
        self._journal = MemoryJournal()

    def stream(self, request: Request, state: State, policy: EnginePolicy) -> AsyncGenerator[Batch, None]:
        return self._model.stream(request, Conversation(state.history, state.edits))

    async def shrink(self, state: State, queued: tuple[User, ...]) -> PreparedContext:
        return PreparedContext(100)

    async def summarize(self, state: State, effect: Compact) -> Summary:
        return Summary(before=100, after=10)

    def new_id(self) -> str:
        return f"id-{next(self._ids)}"

    async def run_tool(self, call: ToolCall, asking: EngineCallContext) -> ToolOutcome:
        return ToolOutcome(result(call.id, await asking.ask("May I?")))

    def is_concurrent(self, call: ToolCall) -> bool:
        return False

    async def stop_hooks(self, state: State, effect: RunStopHooks) -> StopDecision:
        return StopDecision()

    async def ask(self, question: CallQuestion) -> str:
        return "yes"

    @property
    def journal(self) -> Journal:
        return self._journal

    def now(self) -> int:
        return 0


def test_a_run_needs_no_more_than_the_ten() -> None:
    assert names_of(TenMembers) == names_of(Deps)

    async def main() -> list[Update]:
        session = EngineSession(TenMembers(Scripted([says("Look.", call("Read", "r")), says("Done.")])), CONFIG)
        async with session.run("go") as run:
            updates = [update async for update in run]
        async with session.compact() as run:
            updates += [update async for update in run]
        assert_clean()
        return updates

    updates = virtually(main())
    assert [update.line for update in updates if isinstance(update, CallStarted)] == ["Read"]
    assert [update.result.text for update in updates if isinstance(update, CallDone)] == ["yes"]
    assert [update.cause for update in updates if isinstance(update, Result)] == ["end_turn", "compacted"]


def test_a_session_describes_calls_and_tells_which_tool_is_expected() -> None:
    expected: list[str] = []

    def run(*, describe: Callable[[ToolCall], str] | None, expect_tool: Callable[[str], None]) -> list[str]:
        async def main() -> list[str]:
            deps = TenMembers(Scripted([says("Look.", call("Read", "r", file_path="a.py")), says("Done.")]))
            session = EngineSession(deps, CONFIG, side_jobs=SideJobs(expect_tool=expect_tool), describe=describe)
            async with session.run("go", deltas=False) as run:
                return [update.line async for update in run if isinstance(update, CallStarted)]

        return virtually(main())

    assert run(describe=lambda call: f"Read {call.input['file_path']}", expect_tool=expected.append) == ["Read a.py"]
    assert expected == ["Read"]
    # Both are for people and for speed: a run that cannot have them goes on without.
    assert run(describe=lambda call: str(call.input["missing"]), expect_tool=fail) == ["Read"]


def fail(tool: str) -> None:
    raise RuntimeError(f"no thread left for '{tool}'")


def test_an_agent_session_has_the_side_jobs_of_its_mind() -> None:
    hands = Toolset([], place=Workspace("/"), gate=AllowAll())
    alone = AgentDeps(Scripted([]), hands).side_jobs
    assert (alone.expect_tool is not None, alone.recall, alone.stage, alone.summarize_tools) == (True, None, None, None)
    mind = ModelContext(ModelContextConfig(CONFIG, lambda: "id"))
    jobs = AgentDeps(Scripted([]), hands, mind=mind).side_jobs
    assert (jobs.recall, jobs.stage) == (mind.recall, mind.stage)


# --- the scripted model -----------------------------------------------------------------------------


def test_every_kind_of_block_can_be_scripted() -> None:
    async def main() -> None:
        blocks = (Thinking("hm", "s"), RedactedThinking("x"), ServerBlock("web_search", "{}"))
        session = EngineSession(World([says(*blocks, "Done.")]), CONFIG)
        async with session.run("go") as run:
            async for _ in run:
                pass
        assert session.state.history[1].blocks[:3] == blocks  # type: ignore[union-attr]
        assert_clean()

    virtually(main())


def test_a_prompt_may_be_messages_with_ids_of_their_own() -> None:
    async def main() -> None:
        from msgspec.structs import replace

        session = EngineSession(World([says("Done.")]), CONFIG)
        async with session.run((replace(user("one"), id="mine"), user("two"))) as run:
            async for _ in run:
                pass
        first, second = list(session.state.history)[:2]
        assert first.id == "mine"
        assert second.id

    virtually(main())


def test_no_call_waits_for_spare_money() -> None:
    """A summary of tool calls must not delay a request, however little is left."""

    async def main() -> None:
        ledger = Ledger(100)
        assert ledger.reserve(60, spare=True)
        assert await asyncio.wait_for(ledger.share(), 1) == 40
        assert not await asyncio.wait_for(ledger.reserve_in_turn(50), 1)
        assert ledger.reserve(30)
        waiting = asyncio.ensure_future(ledger.share())  # for the other call
        await asyncio.sleep(0)
        assert not waiting.done()
        ledger.settle(60, 10, spare=True)
        assert await waiting == 60
        assert not ledger.reserve(61)
        ledger.settle(30, 30)
        assert (ledger.account.reserved, ledger.account.spent) == (0, 40)

    asyncio.run(main())
