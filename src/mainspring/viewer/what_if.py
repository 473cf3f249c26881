"""What if: a recorded session goes on differently from one of its turns, and both futures are compared.

    found = await run_what_if(file, WhatIfChange(model="claude-opus-5"), after_turn=3)
    found.comparison.first, found.comparison.b.cost

The past is served from the record: it is a fork, so no request and no tool of it runs again. The future is an agent
session with the recorded configuration, except for the change. Its model is real, or scripted by the caller. A call
that the recorded future has made, too, gets the recorded result. Any other call runs, if rules allow it: the user
cannot be asked.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from mainspring.agent.config import HostSupplied, ResolvedConfig, resolve_config
from mainspring.agent.open_session import open_session
from mainspring.agent.options import SessionOptions
from mainspring.agent.results import make_outcome
from mainspring.agent.resume import OpenedSession
from mainspring.agent.session import AgentSession
from mainspring.agent.updates import AnyUpdate, PromptBlocked, RunBroken
from mainspring.context.attachments import PreparedContext, Summary
from mainspring.core.config import Config
from mainspring.core.effects import Compact, Request, RunStopHooks
from mainspring.core.errors import UsageError
from mainspring.core.events import StopDecision
from mainspring.core.messages import ToolCall, ToolResult, User, result
from mainspring.core.reasons import Failure
from mainspring.core.state import State
from mainspring.core.step import step
from mainspring.core.updates import Failed, Result
from mainspring.engine.deps import CallQuestion, Deps, EngineCallContext, ToolOutcome
from mainspring.engine.session_deps import new_id
from mainspring.engine.shared_state import EnginePolicy
from mainspring.providers.base import Batch
from mainspring.sessions.decoder import LoadedSession
from mainspring.sessions.journal import FileJournal
from mainspring.sessions.line_format import Envelope
from mainspring.sessions.paths import Place, file_of
from mainspring.sessions.reader import JournalReader
from mainspring.sessions.records import Journal
from mainspring.text import plural
from mainspring.version import __version__
from mainspring.viewer.compare import SessionComparison, compare_transcripts
from mainspring.viewer.forks import find_turn, load_turn, open_fork
from mainspring.viewer.journal_walk import JournalWalk, WalkedEvent
from mainspring.viewer.transcript import ItemKind, Transcript, TranscriptBuilder, format_call, read_transcript

CompactionChoice = Literal["on", "off", "now"]
OtherCalls = Literal["run", "refuse"]

NOT_RECORDED = "This call is not in the record of the session, and calls are not run here: continue without its result."
# Fields of the recorded configuration that the future keeps: the change should be the only difference.
KEPT = (
    "token_budget", "task_budget", "max_output", "thinking", "effort", "auto_compact", "reactive_compact", "stop_hooks",
    "siblings", "early_safe", "early_unsafe",
)  # fmt: skip


class WhatIfChange(Struct, frozen=True, omit_defaults=True):
    """The change. None: as recorded."""

    model: str | None = None
    prompt: str | None = None  # replaces the recorded prompt, or interrupts the recorded run after its turn
    compaction: CompactionChoice | None = None  # automatic compaction on or off; now: compact, then continue


class WhatIfResult(Struct):
    id: str  # of the new session
    file: str
    change: WhatIfChange
    after_turn: int  # the past ends with this turn
    comparison: SessionComparison  # a: the recorded future, up to the end of its run; b: the new one
    recorded_calls: int  # calls whose result came from the record
    other_calls: int
    error: str = ""  # why the new run failed


class WhatIfPast(Struct):
    """The part of a session that is served from the record."""

    transcript: Transcript
    after_turn: int
    loaded: LoadedSession | None  # None: there is no past, the session begins with another prompt


# --- the past -------------------------------------------------------------------------------------------------


def load_past(file: Place, change: WhatIfChange, after_turn: int | None = None) -> WhatIfPast:
    """Without `after_turn`, the past ends before the last run; if only compaction changes, before the first turn for
    which the core decides otherwise. Raises OSError or UsageError."""
    if change == WhatIfChange():
        raise UsageError("nothing is changed: give another model, prompt or compaction")
    transcript = read_transcript(file)
    if after_turn is None:
        after_turn = find_default_turn(transcript, change)
    turns = transcript.turns
    if not 0 <= after_turn <= len(turns):
        find_turn(transcript, after_turn)  # raises
    if change.prompt is not None:
        return WhatIfPast(transcript, after_turn, load_before_prompt(transcript, after_turn))
    if after_turn == len(turns):
        raise UsageError(f"turn {after_turn} is the last one: give a prompt, or an earlier turn")
    turn = turns[after_turn]
    state = turn.ready if change.compaction in ("on", "off") else turn.asked
    return WhatIfPast(transcript, after_turn, load_turn(transcript, state, turn.asked_id))


def load_before_prompt(transcript: Transcript, after_turn: int) -> LoadedSession | None:
    if not after_turn:
        return None
    turn = transcript.turns[after_turn - 1]
    return load_turn(transcript, turn.done, turn.last_id)


def find_default_turn(transcript: Transcript, change: WhatIfChange) -> int:
    if change.compaction in ("on", "off") and change.model is None and change.prompt is None:
        found = find_changed_decision(transcript.file, lambda config: change_config(config, change))
        if found is None:
            has = plural(len(transcript.turns), "turn")
            raise UsageError(
                f"compaction '{change.compaction}' changes no decision in {has}: choose a turn to start from"
            )
        return found
    last = len(transcript.turns) - (change.prompt is None)
    prompts = [item.turn for item in transcript.items if item.kind is ItemKind.PROMPT]
    return max([start for start in transcript.run_starts or prompts if start <= last], default=0)


def find_changed_decision(file: Place, change: Callable[[Config], Config]) -> int | None:
    """After how many turns the core first decides otherwise with another configuration."""
    with JournalReader(Path(file)) as reader:
        builder = TranscriptBuilder(Transcript(Path(file)), JournalWalk(reader, forget=False))
        for offset, line in reader.lines():
            for told in builder.walk.take(offset, line):
                builder.take(told)
                if isinstance(told, WalkedEvent) and told.step is not None and told.before is not None:
                    other = step(told.before, told.event, change(builder.walk.config))
                    if type(other.effect) is not type(told.step.effect):
                        return len(builder.made.turns)
    return None


def change_config(config: Config, change: WhatIfChange) -> Config:
    if change.compaction not in ("on", "off"):
        return config
    on = change.compaction == "on"
    return replace(config, auto_compact=on, reactive_compact=on)


# --- the future -----------------------------------------------------------------------------------------------


async def run_what_if(  # noqa: PLR0913  # keywords, nearly all of them
    file: Place,
    change: WhatIfChange,
    *,
    after_turn: int | None = None,
    options: SessionOptions | None = None,
    supplied: HostSupplied | None = None,
    environment: dict[str, str] | None = None,
    folder: Place | None = None,
    other_calls: OtherCalls = "run",
) -> WhatIfResult:
    """`options`: of the new session; `supplied`: its model and tools, if they are not those of the settings; `folder`:
    where its file goes, None: beside the other. `other_calls`: what happens to calls without a recorded result.
    Raises OSError, UsageError or `StartError`; then nothing was written."""
    past = load_past(file, change, after_turn)
    config = resolve_future(past, change, options or SessionOptions(), supplied, environment)
    opened = open_future(past, folder, config.cwd)
    assert opened.journal is not None
    try:
        session = open_session(config, opened=opened, deltas=False)
    except BaseException:
        opened.journal.close()
        raise
    served = RecordedDeps(session.world.session.deps, past, refuses=other_calls == "refuse")
    session.world.session.deps = served
    error = await follow_future(session, change)
    recorded = cut_recorded_future(past)
    comparison = compare_transcripts(recorded, read_transcript(opened.journal.file))
    return WhatIfResult(
        opened.session_id,
        opened.journal.file,
        change,
        past.after_turn,
        comparison,
        served.recorded_calls,
        served.other_calls,
        error,
    )


def resolve_future(
    past: WhatIfPast,
    change: WhatIfChange,
    options: SessionOptions,
    supplied: HostSupplied | None,
    environment: dict[str, str] | None,
) -> ResolvedConfig:
    """The recorded model and configuration, except for the change. Raises `StartError`."""
    given = options.replace(model=change.model or find_recorded_model(past))
    config = resolve_config(given, dict(os.environ) if environment is None else environment, supplied)
    recorded = past.loaded.config if past.loaded is not None else None
    kept = {name: getattr(recorded, name) for name in KEPT} if recorded is not None else {}
    return replace(config, loop=change_config(replace(config.loop, **kept), change))


def find_recorded_model(past: WhatIfPast) -> str | None:
    turns, items = past.transcript.turns, past.transcript.items
    near = turns[min(past.after_turn, len(turns) - 1)] if turns else None
    return (items[near.item].model if near is not None else "") or None


def open_future(past: WhatIfPast, folder: Place | None, cwd: str) -> OpenedSession:
    source = past.transcript.file
    if past.loaded is None:
        session_id = new_id()
        file = file_of(folder or source.parent, session_id)
        return OpenedSession(session_id, FileJournal.create(file, Envelope(session_id, cwd, __version__)))
    standing, policy = past.loaded.standing, past.loaded.policy
    if policy is not None:  # a model that was chosen later in the session would win over the change
        standing = replace(standing, policy=replace(policy, model=None))
    return open_fork(past.loaded._replace(standing=standing), folder, cwd, f"what if after turn {past.after_turn}")


async def follow_future(session: AgentSession, change: WhatIfChange) -> str:
    """Runs to the end. Returns why the run failed."""
    ends = RunEnds()
    try:
        await session.start()
        if change.compaction == "now":
            await session.compact()
        if change.prompt is not None:
            await session.submit(change.prompt)
        else:
            session.continue_run()
        session.finish()
        async for update in session.updates():
            ends.take(update)
    finally:
        await session.close()
    return ends.error


class RunEnds:
    """How the last run ended."""

    def __init__(self) -> None:
        self.error = ""
        self._failure: Failure | None = None

    def take(self, update: AnyUpdate) -> None:
        match update:
            case Failed():
                self._failure = update.failure
            case Result():
                outcome = make_outcome(update, self._failure)
                self.error = outcome.words if outcome.is_error else ""
            case RunBroken():
                self.error = str(update.error)
            case PromptBlocked():
                self.error = update.reason
            case _:
                pass


def cut_recorded_future(past: WhatIfPast) -> Transcript:
    """The recorded session up to the end of the run that the future replaces."""
    transcript, turns = past.transcript, past.transcript.turns
    begin = turns[past.after_turn].item if past.after_turn < len(turns) else len(transcript.items)
    ends = [place for place in range(begin, len(transcript.items)) if transcript.items[place].kind is ItemKind.END]
    if not ends:
        return transcript
    kept = transcript.items[: ends[0] + 1]
    last = kept[-1].turn
    starts = [start for start in transcript.run_starts if start < last]
    return replace(transcript, items=kept, turns=turns[:last], run_starts=starts, spent=kept[-1].spent)


# --- recorded results -----------------------------------------------------------------------------------------


class RecordedDeps:
    """The dependencies of the future: calls that the recorded future has made, too, get the recorded results, each one
    once and in order."""

    def __init__(self, deps: Deps, past: WhatIfPast, *, refuses: bool) -> None:
        self._deps, self._refuses = deps, refuses
        self._results: dict[str, deque[ToolResult]] = {}
        self.recorded_calls = self.other_calls = 0
        for item in past.transcript.items:
            if item.kind is ItemKind.REPLY and item.turn > past.after_turn:
                for call_id, words in item.calls:
                    found = past.transcript.results.get(call_id)
                    if found is not None and not found.synthetic:
                        self._results.setdefault(words, deque()).append(found)

    async def run_tool(self, call: ToolCall, asking: EngineCallContext) -> ToolOutcome:
        with suppress(KeyError, IndexError):
            recorded = self._results[format_call(call)].popleft()
            self.recorded_calls += 1
            return ToolOutcome(ToolResult(call.id, recorded.content, recorded.is_error))
        self.other_calls += 1
        if self._refuses:
            return ToolOutcome(result(call.id, NOT_RECORDED, is_error=True), denied=True)
        return await self._deps.run_tool(call, asking)

    def is_concurrent(self, call: ToolCall) -> bool:
        return self._deps.is_concurrent(call)

    def stream(self, request: Request, state: State, policy: EnginePolicy) -> AsyncGenerator[Batch, None]:
        return self._deps.stream(request, state, policy)

    async def shrink(self, state: State, queued: tuple[User, ...]) -> PreparedContext:
        return await self._deps.shrink(state, queued)

    async def summarize(self, state: State, effect: Compact) -> Summary:
        return await self._deps.summarize(state, effect)

    async def stop_hooks(self, state: State, effect: RunStopHooks) -> StopDecision:
        return await self._deps.stop_hooks(state, effect)

    async def ask(self, question: CallQuestion) -> str:
        return await self._deps.ask(question)

    def new_id(self) -> str:
        return self._deps.new_id()

    def now(self) -> int:
        return self._deps.now()

    @property
    def journal(self) -> Journal:
        return self._deps.journal
