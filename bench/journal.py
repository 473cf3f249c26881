"""What sessions cost: appending, resuming, listing, and memory. It fails when a target is missed.

The real core and the real journal make the sessions, without the engine between them: each turn has a reply with a line
of text and one call, eight deltas, and a result of 18,000 characters; every 45 turns everything but the last turn is
summarized; every 100 turns a run ends. `bench/README.md` explains the table.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, perf_counter_ns

from msgspec.structs import replace

from mainspring.context.attachments import PreparedContext, Summary
from mainspring.core.config import Config
from mainspring.core.effects import CallModel, Compact, Effect, Finish, PrepareContext, Request, RunTools
from mainspring.core.events import Compacted, ContextReady, Event, HooksDone, Replied, Submitted, ToolsDone
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Block, Origin, Stop, Text, ToolCall, User, result, user
from mainspring.core.money import Usage
from mainspring.core.state import State, checkpoint
from mainspring.core.step import step
from mainspring.core.updates import BlockKind, Delta
from mainspring.core.value import Stamp
from mainspring.core.view import Fold
from mainspring.engine.deps import EngineCallContext, ToolOutcome
from mainspring.engine.session import EngineSession
from mainspring.engine.session_deps import BasicDeps
from mainspring.engine.shared_state import EnginePolicy
from mainspring.providers.base import Batch, Conversation
from mainspring.providers.scripted import Scripted, says
from mainspring.sessions.journal import Durability, FileJournal, JournalOptions
from mainspring.sessions.line_format import Envelope
from mainspring.sessions.listing import list_sessions_in
from mainspring.sessions.records import (
    BlockRecord,
    CheckpointRecord,
    ConfigRecord,
    DeltaRecord,
    EventRecord,
    IntentRecord,
    OutcomeRecord,
    Record,
)
from mainspring.sessions.resume import load_session

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, only this directory's files would be found
from bench.figures import Figure, best_speed, best_time, scaled, show

CONFIG = Config(max_turns=1_000_000)
OPTIONS = JournalOptions(Durability.NONE)  # syncs run in a separate thread, and depend on the disk
FULL = 990_000  # tokens: the context must be compacted
SUM_UP_EVERY = 45  # turns: sessions of 100 and of 10,000 turns both end 10 turns after a summary
RUN = 100  # turns
RESULT = 18_000  # characters
TEXT = "Let me look at the next one of these files, and see what it has to say about it."
USAGE = Usage(input=400, cache_read=40_000, output=300)

Append = Callable[[Record], Awaitable[None]]


class Player:
    """A session of many turns, as the driver would journal it."""

    def __init__(self, append: Append, size: int = RESULT, run: int = RUN) -> None:
        self.append = append
        self.state = State(History())
        self.content = 0  # characters of the conversation
        self._size = size
        self._run = run
        self._ids = 0

    def id(self) -> str:
        self._ids += 1
        return f"{self._ids:08x}-0000-4000-8000-{self._ids:012x}"

    async def decide(self, event: Event) -> Effect:
        event = replace(event, stamp=Stamp(self.id(), self._ids))
        self.state, effect, _ = step(self.state, event, CONFIG)
        await self.append(EventRecord(event))
        return effect

    async def play(self, turns: int, at_turn: Callable[[int], None] = lambda _: None) -> None:
        await self.append(ConfigRecord(CONFIG))
        effect: Effect = Finish  # type: ignore[assignment]  # nothing is under way
        turn = summed_up = 0
        while turn < turns or not isinstance(effect, Finish):
            match effect:
                case PrepareContext():
                    full = turn % SUM_UP_EVERY == 0 and summed_up != turn
                    effect = await self.decide(ContextReady(FULL if full else 10_000, model=CONFIG.model))
                case Compact():
                    summed_up = turn
                    effect = await self.compacted()
                case CallModel():
                    turn += 1
                    at_turn(turn)
                    effect = await self.reply(last=turn % self._run == 0)
                case RunTools():
                    effect = await self.tools(effect)
                    if turn % 50 == 0:
                        await self.append(CheckpointRecord(checkpoint(self.state), self.state.history))
                case Finish() | type():
                    if isinstance(effect, Finish):
                        await self.append(CheckpointRecord(checkpoint(self.state), self.state.history))
                    effect = await self.decide(Submitted((replace(user("go on"), id=self.id(), at=self._ids),)))
                case _:
                    effect = await self.decide(HooksDone())
        await self.append(CheckpointRecord(checkpoint(self.state), self.state.history))

    async def reply(self, *, last: bool) -> Effect:
        reply_id, at = self.id(), self._ids
        call = ToolCall(self.id(), "Read", {"file_path": f"/some/folder/file-{at}.py"})
        for begin in range(0, len(TEXT), 10):
            delta = Delta(reply_id, 0, BlockKind.TEXT, TEXT[begin : begin + 10])
            await self.append(DeltaRecord((delta,), at))
        blocks: tuple[Block, ...] = (Text(TEXT),) if last else (Text(TEXT), call)
        for index, block in enumerate(blocks):
            await self.append(BlockRecord(reply_id, index, block, at, CONFIG.model.name, USAGE))
        self.content += len(TEXT) + 40
        stop = Stop.END_TURN if last else Stop.TOOL_USE
        return await self.decide(Replied(Assistant(blocks, CONFIG.model.name, stop, USAGE, id=reply_id, at=at)))

    async def tools(self, effect: RunTools) -> Effect:
        (call,) = effect.calls
        await self.append(IntentRecord(call, self._ids))
        text = f"{self._ids} " + "some line of a file\n" * (self._size // 20)
        outcome = replace(result(call.id, text), id=self.id(), at=self._ids)
        await self.append(OutcomeRecord(outcome))
        self.content += len(text)
        return await self.decide(ToolsDone((outcome,)))

    async def compacted(self) -> Effect:
        history = self.state.history
        last = len(history) - 1
        while last > history.begin and not isinstance(history[last], Assistant):
            last -= 1
        words = replace(user("What happened before. " * 200, Origin.SUMMARY), id=self.id(), at=self._ids)
        fold = Fold(history[history.begin].id, history[max(last - 1, history.begin)].id, words)
        return await self.decide(Compacted((fold,), before=FULL, after=10_000))


def made(
    folder: Path, number: int, turns: int, size: int = RESULT, run: int = RUN
) -> tuple[Path, int, list[tuple[str, float]]]:
    """A session on disk; the characters of its conversation; and how long each append took, by kind of record."""
    session_id = f"{number:08x}-0000-4000-8000-000000000000"
    journal = FileJournal.create(folder / f"{session_id}.jsonl", Envelope(session_id, "/some/folder", "0.1"), OPTIONS)
    times: list[tuple[str, float]] = []

    async def timed(record: Record) -> None:
        start = perf_counter_ns()
        await journal.append(record)
        times.append((type(record).__name__, (perf_counter_ns() - start) / 1_000))

    player = Player(timed, size, run)
    asyncio.run(player.play(turns))
    journal.close()
    return Path(journal.file), player.content, times


# --- figures --------------------------------------------------------------------------------------------------


def append_figures(times: list[tuple[str, float]], speed: float) -> Iterator[Figure]:
    yield Figure("append, p50 of all records", median([time for _, time in times]), "us", scaled(10, speed))
    for kind in ("DeltaRecord", "IntentRecord", "BlockRecord", "OutcomeRecord", "EventRecord", "CheckpointRecord"):
        yield Figure(f"append, p50: {kind}", median([time for name, time in times if name == kind]), "us")


def resume_figures(short: Path, long: Path) -> Iterator[Figure]:
    def milliseconds(file: Path) -> float:
        return best_time(lambda: load_session(file), repeats=10) / 1_000

    assert load_session(long).how == load_session(short).how == "checkpoint"
    least = {file: float("inf") for file in (short, long)}
    for _ in range(3):  # alternately, so that a slow moment does not affect only one of them
        least = {file: min(best, milliseconds(file)) for file, best in least.items()}
    yield Figure("session of 10,000 turns", long.stat().st_size / 1e6, "MB")
    yield Figure("resume, 100 turns", least[short], "ms", 150)
    yield Figure("resume, 10,000 turns", least[long], "ms", 150)
    yield Figure("resume, 10,000 / 100", least[long] / least[short], "x", 1.5)


def listing_figures(folder: Path, sample: Path) -> Iterator[Figure]:
    folder.mkdir()
    for number in range(10_000):
        shutil.copyfile(sample, folder / f"{number:08x}-0000-4000-8000-000000000000.jsonl")
    yield Figure(
        "list 10,000 sessions, the first 50 shown", best_time(lambda: list_sessions_in(folder), 5) / 1_000, "ms", 100
    )
    yield Figure("list 10,000 sessions, all shown", best_time(lambda: list_sessions_in(folder, None), 1) / 1_000, "ms")


def size_figures(folder: Path) -> Iterator[Figure]:
    for number, size in enumerate((2_000, 5_000, RESULT), 100):
        file, content, _ = made(folder, number, 500, size)
        yield Figure(
            f"bytes on disk to characters said, {size:,} a turn", file.stat().st_size / content, "x", AIMS[size]
        )


AIMS = {2_000: None, 5_000: None, RESULT: 1.3}


def memory_figures(folder: Path) -> Iterator[Figure]:
    """In a separate process: resident memory keeps what others have freed."""
    for number, what in enumerate(("journal", "session"), 200):
        command = [
            sys.executable,
            __file__,
            "--grow",
            what,
            str(folder / f"{number:08x}-0000-4000-8000-000000000000.jsonl"),
        ]
        grown, opened = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        words = "the journal's own" if what == "journal" else "a whole session"
        yield Figure(f"memory from turn 500 to 10,000, {words}", float(grown), "MB", 10)
        yield Figure("open files from turn 500 to 10,000, more by", float(opened), "", 0)


class Measured:
    """Memory and open files at two turns."""

    def __init__(self) -> None:
        self._at: dict[int, tuple[float, int]] = {}

    def at(self, turn: int) -> None:
        if turn in (500, 10_000):
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            memory = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
            self._at[turn] = memory, sum(1 for _ in Path("/proc/self/fd").iterdir())

    def tell(self) -> None:
        (before, opened), (after, then) = self._at[500], self._at[10_000]
        print(after - before, then - opened)


def grow_journal(journal: FileJournal, measured: Measured) -> None:
    """Plays 10,000 turns by hand, and forgets what the last summary covers."""

    def at_turn(turn: int) -> None:
        if turn % 100 == 1:
            player.state = replace(player.state, history=player.state.history.forget(len(player.state.history) - 200))
        measured.at(turn)

    player = Player(journal.append, 2_000)
    asyncio.run(player.play(10_000, at_turn))


class Endless(BasicDeps):
    """The environment of one session of the real engine: each turn one call, every 45 turns a summary."""

    turn = summed_up = 0

    def __init__(self, journal: FileJournal, measured: Measured) -> None:
        super().__init__(Scripted(()), journal=journal)
        self._measured = measured

    def stream(self, request: Request, state: State, policy: EnginePolicy) -> AsyncGenerator[Batch, None]:  # noqa: ARG002
        self.turn += 1
        self._measured.at(self.turn)
        last = self.turn % RUN == 0
        reply = says(TEXT) if last else says(TEXT, ToolCall(self.new_id(), "Read", {"file_path": f"/a/{self.turn}.py"}))
        return Scripted([reply]).stream(request, Conversation(state.history))

    async def shrink(self, state: State, queued: tuple[User, ...]) -> PreparedContext:  # noqa: ARG002
        full = self.turn % SUM_UP_EVERY == 0 and self.summed_up != self.turn
        return PreparedContext(FULL if full else 10_000)

    async def summarize(self, state: State, effect: Compact) -> Summary:  # noqa: ARG002
        self.summed_up = self.turn
        messages = list(state.history)
        last = max(n for n, message in enumerate(messages) if isinstance(message, Assistant))
        words = replace(user("What happened before. " * 200, Origin.SUMMARY), id=self.new_id(), at=self.now())
        return Summary((Fold(messages[0].id, messages[max(0, last - 1)].id, words),), before=FULL, after=10_000)

    async def run_tool(self, call: ToolCall, asking: EngineCallContext) -> ToolOutcome:  # noqa: ARG002
        return ToolOutcome(result(call.id, f"{self.turn} " + "some line of a file\n" * 100))


def grow_session(journal: FileJournal, measured: Measured) -> None:
    async def main() -> None:
        world = Endless(journal, measured)
        session = EngineSession(world, CONFIG)
        while world.turn < 10_000:
            async with session.run("go on", deltas=False) as run:
                async for _ in run:
                    pass

    asyncio.run(main())


def grow(what: str, file: Path) -> None:
    journal = FileJournal.create(file, Envelope(file.stem, "/", "0.1"), OPTIONS)
    measured = Measured()
    {"journal": grow_journal, "session": grow_session}[what](journal, measured)
    measured.tell()


def figures() -> Iterator[Figure]:
    speed = best_speed()
    yield Figure("yardstick: a thousand additions", speed, "us")
    with TemporaryDirectory() as name:
        folder = Path(name)
        long, _, times = made(folder, 1, 10_000)
        yield from append_figures(times, speed)
        short, _, _ = made(folder, 2, 100)
        sample, _, _ = made(folder, 3, 2, 1_000, 2)
        yield from resume_figures(short, long)
        yield from listing_figures(folder / "many", sample)
        yield from size_figures(folder)
        yield from memory_figures(folder)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--grow"]:
        grow(sys.argv[2], Path(sys.argv[3]))
        sys.exit()
    began = perf_counter()
    met = show(figures())
    print(f"{perf_counter() - began:.0f} s")
    sys.exit(not met)
