"""The driver: performs effects, reports events. No policy: every `if` here is about I/O.

The order that law 3 asks for: what happened is journaled, then decided on; what comes of it is journaled, then shown;
then the next effect is performed.
"""

from __future__ import annotations

import asyncio
from typing import assert_never

from msgspec.structs import replace

from mainspring.core.config import Config
from mainspring.core.effects import CallModel, Compact, Effect, Finish, PrepareContext, RunStopHooks, RunTools
from mainspring.core.events import Aborted, Compacted, ContextReady, Event, HooksDone, Submitted, ToolsDone
from mainspring.core.messages import ToolCall, ToolResult, User
from mainspring.core.reasons import AbortReason
from mainspring.core.state import State, checkpoint
from mainspring.core.step import step
from mainspring.core.updates import Appended, Injected, Result, ToolSummary, Update
from mainspring.core.value import Stamp
from mainspring.engine.background import Background, settled
from mainspring.engine.channel import Channel
from mainspring.engine.deps import Deps
from mainspring.engine.executor import Executor
from mainspring.engine.sampling import Sampler
from mainspring.engine.shared import Command, Shared
from mainspring.sessions.records import CheckpointRecord, EventRecord, NoteRecord, SaidRecord

CHECKPOINT_TURNS = 50  # settled 6


class Driver:
    """One run: from a submission to its result."""

    def __init__(  # noqa: PLR0913  # what a run is made of
        self, state: State, config: Config, deps: Deps, shared: Shared, channel: Channel[Update], *, deltas: bool = True
    ) -> None:
        self.state = state
        self.result: Result | None = None
        self.started_commands: list[Command] = []
        self._config = config
        self._deps = deps
        self._shared = shared
        self._channel = channel
        self._background = Background()
        self._executor = Executor(deps, config, channel.push)
        self._sampler = Sampler(deps, shared, self._executor, channel.push, deltas=deltas)
        self._memory: asyncio.Task[tuple[User, ...]] | None = None
        self._abort: AbortReason | None = None
        self._work: asyncio.Task[Event] | None = None

    async def run(self, messages: tuple[User, ...]) -> None:
        try:
            event: Event = Submitted(messages)
            while True:
                effect = await self._decide(event)
                if isinstance(effect, Finish):
                    return
                event = await self._perform(effect)
        finally:
            await self._end()

    def interrupt(self, reason: AbortReason) -> None:
        """Takes effect at once, wherever the run is; the first reason counts."""
        self._abort = self._abort or reason
        if self._work is not None:
            self._work.cancel()

    async def _end(self) -> None:
        """Nothing that this run started outlives it, however it ends."""
        try:
            await self._executor.stop()
        finally:
            try:
                await self._background.end()
            finally:
                self._channel.close()

    # --- what happened, and what to do about it ---

    async def _decide(self, event: Event) -> Effect:
        event = replace(event, stamp=Stamp(self._deps.new_id(), self._deps.now()))
        await self._deps.journal.append(EventRecord(event))
        turn = self.state.turn
        self.state, effect, updates = step(self.state, event, self._config)
        if self.state.turn != turn and self.state.turn % CHECKPOINT_TURNS == 0:
            await self._deps.journal.append(CheckpointRecord(checkpoint(self.state)))
        for update in updates:
            await self._show(update)
        return effect

    async def _show(self, update: Update) -> None:
        if isinstance(update, Appended):
            await self._deps.journal.append(SaidRecord(update.message))
        if isinstance(update, Result):
            self.result = update
            await self._deps.journal.append(CheckpointRecord(checkpoint(self.state)))
            await self._deps.journal.sync()  # L-03: nothing is outstanding when the result is seen
        self._channel.push(update)

    # --- performing, and being interrupted ---

    async def _perform(self, effect: Effect) -> Event:
        if self._abort is None:
            self._work = asyncio.get_running_loop().create_task(self._do(effect))
            try:
                return await self._work
            except asyncio.CancelledError:
                if self._abort is None:  # not by `interrupt`: whoever owns this run ends it
                    raise
            finally:
                self._work = None
        return await self._aborted(self._abort)

    async def _aborted(self, reason: AbortReason) -> Aborted:
        results = await self._executor.stop()
        partial, usage = await self._sampler.interrupted()
        return Aborted(reason, partial, results, usage)

    async def _do(self, effect: Effect) -> Event:
        await self._channel.room()
        match effect:
            case PrepareContext():
                return await self._prepare(effect)
            case CallModel():
                self._prefetch()
                return await self._sampler.call(effect, self.state)
            case RunTools():
                return await self._run_tools(effect)
            case RunStopHooks():
                return HooksDone(await self._deps.stop_hooks(self.state, effect))
            case Compact():
                return await self._compact(effect)
            case Finish():
                raise AssertionError("nothing is left to perform")
            case _:
                assert_never(effect)

    async def _prepare(self, effect: PrepareContext) -> ContextReady:
        """Commands are only looked at until the context is ready: an abort meanwhile must not lose them."""
        commands = self._shared.inbox.waiting(effect.take)
        queued = (*self._remembered(), *[command.message(self._deps.now()) for command in commands])
        prepared = await self._deps.shrink(self.state, queued)
        injected = tuple([self._stamped(message) for message in (*prepared.attachments, *queued)])
        for message in injected:
            await self._deps.journal.append(SaidRecord(message))
            self._channel.push(Injected(message))
        self._shared.inbox.take(commands)
        self.started_commands.extend(commands)
        return ContextReady(
            prepared.tokens,
            edits=prepared.edits,
            injected=injected,
            shrunk=prepared.shrunk,
            funds=self._shared.ledger.funds,
            staged=prepared.staged,
            media=prepared.media,
            model=self._shared.policy.model,
        )

    async def _run_tools(self, effect: RunTools) -> ToolsDone:
        results, stopped = await self._executor.finish(effect.calls, start=effect.start)
        if effect.start and stopped is None:
            self._background.start(self._sum_up(effect.calls, results))
        return ToolsDone(results, stopped)

    async def _compact(self, effect: Compact) -> Compacted:
        ledger = self._shared.ledger
        if not ledger.reserve(effect.reserve):
            return Compacted(failed="the ledger refused the reservation", funds=ledger.funds)
        spent = 0
        try:
            made = await self._deps.summarize(self.state, effect)
            spent = made.cost
        finally:
            ledger.settle(effect.reserve, spent)
        return Compacted(made.edits, made.before, made.after, made.usage, made.cost, ledger.funds, made.failed)

    def _stamped(self, message: User) -> User:
        return message if message.id else replace(message, id=self._deps.new_id(), at=self._deps.now())

    # --- side jobs ---

    def _prefetch(self) -> None:
        """Memory that may be of use is looked for while the model talks (B-30)."""
        if self._memory is None:
            self._memory = self._background.start(self._deps.recall(self.state))

    def _remembered(self) -> tuple[User, ...]:
        if self._memory is None or not self._memory.done():
            return ()
        found, self._memory = settled(self._memory), None
        return found or ()

    async def _sum_up(self, calls: tuple[ToolCall, ...], results: tuple[ToolResult, ...]) -> None:
        """In a few words, while the next reply streams (B-31)."""
        text = await self._deps.sum_up(calls, results)
        if text:
            await self._deps.journal.append(NoteRecord("tool_summary", text, self._deps.now()))
            self._channel.push(ToolSummary(text, tuple([call.id for call in calls])))
