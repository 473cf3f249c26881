"""Sessions to look at: written by the real engine and the real journal, on the virtual clock, so that every time is
known to the millisecond."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mainspring.context.attachments import PreparedContext, Summary
from mainspring.core.config import Config
from mainspring.core.effects import Compact, RunStopHooks
from mainspring.core.events import Shrunk, StopDecision
from mainspring.core.messages import Thinking, ToolCall, User
from mainspring.core.money import Usage
from mainspring.core.reasons import Failure, Trouble
from mainspring.core.state import State
from mainspring.core.updates import CallStarted
from mainspring.engine.deps import CallQuestion, EngineCallContext, ToolOutcome
from mainspring.engine.session import EngineSession
from mainspring.providers.base import PrefixBreak, Retry
from mainspring.sessions.journal import Durability, FileJournal, JournalOptions
from mainspring.sessions.line_format import Envelope
from mainspring.sessions.records import AgentRecord
from mainspring.sessions.subagents import open_journal
from mainspring.testing import Pause, ScriptedReply, World, call, says, virtually
from mainspring.viewer.spans import Span, SpanKind
from mainspring.viewer.trace import Trace

ID = "11111111-2222-4333-8444-555555555555"
AGENT = "a0011223344556677"
ENVELOPE = Envelope(ID, "/somewhere", "0.1")
OPTIONS = JournalOptions(Durability.NONE)
CONFIG = Config()
FULL = 990_000  # tokens: above the threshold of the default model
USAGE = Usage(input=2_000, cache_read=18_000, cache_write=500, output=400)

HOSTILE = '<img src=x onerror="window.hacked=1"></script><script>window.hacked=1</script>\u2028\u202eevil \x1b[2J'


class Slow(World):
    """Its context, its hooks, its summaries and its people take time; a rule decides about each call."""

    def __init__(self, replies: Iterable[ScriptedReply], *, takes: int = 0, **scripts: Any) -> None:
        super().__init__(replies, **scripts)
        self.takes = takes  # milliseconds of each of these
        self.session: EngineSession | None = None

    async def _pass(self) -> None:
        if self.takes:
            await asyncio.sleep(self.takes / 1_000)

    async def shrink(self, state: State, queued: tuple[User, ...]) -> PreparedContext:
        await self._pass()
        return await super().shrink(state, queued)

    async def summarize(self, state: State, effect: Compact) -> Summary:
        await asyncio.sleep(self.takes * 20 / 1_000)
        return await super().summarize(state, effect)

    async def stop_hooks(self, state: State, effect: RunStopHooks) -> StopDecision:
        await self._pass()
        return await super().stop_hooks(state, effect)

    async def ask(self, question: CallQuestion) -> str:
        await asyncio.sleep(self.takes * 50 / 1_000)
        return await super().ask(question)

    async def run_tool(self, call: ToolCall, asking: EngineCallContext) -> ToolOutcome:
        await asking.note_decision("ask" if "ask" in call.input else "allow", f"rule {call.name}(*)")
        return await super().run_tool(call, asking)

    async def _act(self, call: ToolCall, asking: EngineCallContext) -> ToolOutcome:
        if call.name == "Agent":
            await self._send_out(call)
        return await super()._act(call, asking)

    async def _send_out(self, call: ToolCall) -> None:
        assert isinstance(self.journal, FileJournal)
        about = {"agentType": "Explore", "description": "look for the cause", "toolUseId": call.id}
        await self.journal.append(AgentRecord(AGENT, False, self.now()))
        journal = open_journal(self.journal, ENVELOPE, AGENT, about)
        world = Slow(
            [says("Looking.", Pause(300), *[Call("Grep", 400)] * 2, Pause(1), usage=USAGE), says("Found it.")], takes=10
        )
        world._journal = journal
        world._numbers = iter(range(0x7000_0000, 0x7FFF_0000))  # type: ignore[assignment]  # ids of its own
        session = EngineSession(world, CONFIG)
        async with session.run("look for the cause", deltas=False) as run:
            async for _ in run:
                pass
        journal.close()
        await self.journal.append(AgentRecord(AGENT, False, self.now(), ended=True, cost=run.result.cost))


def Call(name: str, ms: int, **input: Any) -> ToolCall:  # noqa: N802  # it stands for `call`
    return call(name, ms=ms, **input)


def write(file: Path, world: World, *prompts: str, config: Config = CONFIG, interrupt: str = "") -> Path:
    """Runs, one after the other; two seconds after the call `interrupt` has begun, its run is interrupted."""

    async def main() -> None:
        journal = FileJournal.create(file, ENVELOPE, OPTIONS)
        world._journal = journal
        session = EngineSession(world, config)
        for prompt in prompts:
            async with session.run(prompt) as run:
                async for update in run:
                    if isinstance(update, CallStarted) and update.call.id == interrupt:
                        asyncio.get_running_loop().call_later(2, run.interrupt)
        world.check()
        journal.close()

    virtually(main())
    return file


def looked(file: Path) -> Trace:
    trace = Trace(file)
    trace.look()
    return trace


def of(trace: Trace, kind: SpanKind, place: int = 0) -> list[Span]:
    return [span for span in trace.files[place].tracer.sheet.spans if span.kind is kind]


def story(folder: Path) -> Path:
    """A session with everything in it."""
    file = folder / f"{ID}.jsonl"
    retry = Retry(Failure(Trouble.OVERLOADED, "the server is overloaded", 529), 1, 1_500)
    replies = [
        says(
            Thinking("I should look at the tests first.", "signed"),
            "Let me look at the failing test and at what it tests.",
            call(
                "Read",
                "toolu_read1",
                ms=900,
                file_path="/else/tests/test_parser.py",
                text="def test(): ...\n" * 40,
            ),
            call("Grep", "toolu_grep1", ms=1_400, pattern="def parse", text="src/parser.py:12:def parse(text):"),
            Pause(700),
            "Both at once.",
            call("Bash", "toolu_bash1", ms=2_200, command="pytest -x tests/test_parser.py", text="1 failed"),
            usage=USAGE,
            pace=40,
        ),
        says(
            retry,
            Pause(1_500),
            PrefixBreak(3, "the tools", "a tool was added", 12_000, 24_000_000),
            "An agent may search while I ask.",
            call("Agent", "toolu_agent", description="look for the cause", prompt="Where is the cause?"),
            usage=USAGE,
            pace=30,
        ),
        says("I want to change it.", call("Edit", "toolu_edit", file_path="/else/src/parser.py", ask="May I edit?")),
        says(
            "That failed.", call("Bash", "toolu_bash2", ms=500, command=f"echo '{HOSTILE}'", fails=True, text=HOSTILE)
        ),
        says("The tests pass now.", usage=USAGE, pace=50),
        says("Fine, all is done.", usage=USAGE, pace=50),
        says("Let me try something long.", call("Bash", "toolu_bash3", ms=60_000, command="make all"), pace=20),
    ]
    world = Slow(
        replies,
        takes=40,
        contexts=[
            PreparedContext(20_000), PreparedContext(31_000, shrunk=(Shrunk("trim", 4_000), Shrunk("microcompact",
                1_500))),
            PreparedContext(FULL), PreparedContext(12_000),
        ],
        summaries=[Summary(before=FULL, after=12_000, usage=Usage(input=9_000, output=700), cost=40_000_000)],
        hooks=[StopDecision(("the linter found 3 errors",))],
        answers=["yes"],
    )  # fmt: skip
    return write(file, world, f"Why does the parser fail? {HOSTILE}", "And now the rest", interrupt="toolu_bash3")
