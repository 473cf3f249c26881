"""The driver: performs effects, reports events. No policy: every `if` here is about I/O.

Law 3 sets the order: journal what happened, then decide; journal the decision, then show it; then perform the next
effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, assert_never

from msgspec.structs import replace

from mainspring.core.config import Config
from mainspring.core.effects import (
    CallModel,
    Compact,
    CompactionKind,
    Effect,
    Finish,
    PrepareContext,
    RunStopHooks,
    RunTools,
)
from mainspring.core.errors import MainspringError
from mainspring.core.events import (
    Aborted,
    CallFailed,
    Compacted,
    ContextReady,
    Event,
    HooksDone,
    Replied,
    Submitted,
    ToolsDone,
)
from mainspring.core.messages import Assistant, ToolCall, ToolResult, User
from mainspring.core.money import Usage, least
from mainspring.core.reasons import AbortReason
from mainspring.core.state import MANUAL, State, checkpoint
from mainspring.core.step import step
from mainspring.core.updates import (
    Appended,
    Boundary,
    Decided,
    Injected,
    ReplyDone,
    Result,
    Tombstone,
    ToolSummary,
    Update,
)
from mainspring.core.value import Stamp
from mainspring.core.view import from_the_front, out_of_view
from mainspring.engine.deps import Deps
from mainspring.engine.executor import Executor
from mainspring.engine.sampler import Sampler, SideCallInterrupted
from mainspring.engine.shared_state import InboxPrompt, SharedState
from mainspring.engine.tasks import (
    GRACE,
    NO_SIDE_JOBS,
    BackgroundJobs,
    Channel,
    SideJobs,
    end_all,
    result_if_done,
    retrieve_exception,
    run_to_completion,
)
from mainspring.sessions.records import (
    CheckpointRecord,
    CommandState,
    ConfigRecord,
    EventRecord,
    NoJournal,
    NoteRecord,
    SaidRecord,
    ToolSummaryRecord,
    WithdrawnRecord,
)

if TYPE_CHECKING:
    from mainspring.engine.executor import Describe
    from mainspring.engine.tasks import SummarizeTools
    from mainspring.telemetry.run_observer import RunObserver

CHECKPOINT_TURNS = 50  # settled 6


class Driver:
    """One run: from a submission to its result."""

    def __init__(  # noqa: PLR0913  # what a run is made of
        self,
        state: State,
        config: Config,
        deps: Deps,
        shared: SharedState,
        channel: Channel[Update],
        *,
        side_jobs: SideJobs = NO_SIDE_JOBS,
        describe: Describe | None = None,
        deltas: bool = True,
        observer: RunObserver | None = None,
    ) -> None:
        """`observer`: sees what is decided and shown; None: nothing listens."""
        self.state = state
        self.observer = observer
        self.result: Result | None = None  # once it was shown
        self.salvaged: tuple[Assistant | None, tuple[ToolResult, ...]] = (None, ())  # what a crash left unreported
        self.commands: list[InboxPrompt] = []  # the queued prompts that this run took,
        self.completed = False  # and whether it ended by itself
        self._config = config
        self._deps = deps
        self._journal = None if isinstance(deps.journal, NoJournal) else deps.journal  # no record for one without
        self._shared = shared
        self._channel = channel
        self._push = push = channel.push if observer is None else observer.watch(channel.push)
        self._side_jobs = side_jobs
        self._background = BackgroundJobs()
        self._executor = Executor(deps, config, shared, push, self._crashed, channel.room, describe)
        self._sampler = Sampler(deps, shared, self._executor, push, deltas=deltas, expect_tool=side_jobs.expect_tool)
        self._memory: asyncio.Task[tuple[User, ...]] | None = None
        self._unsummarized: tuple[tuple[ToolCall, ...], tuple[ToolResult, ...]] | None = None  # the last batch
        self._taken: tuple[InboxPrompt, ...] = ()  # prompts taken into the context that is being prepared
        self._abort: AbortReason | None = None
        self._crash: BaseException | None = None
        self._player: asyncio.Task[None] | None = None  # plays the run,
        self._working = False  # is performing an effect,
        self._over: asyncio.Future[None] | None = None  # and is done, or abandoned
        self._ended = False  # by the owner of this run
        self._patience: asyncio.TimerHandle | None = None
        self._undecided: Event | None = None  # happened, but is not in the state yet
        self._lost_summary = (Usage(), 0)  # usage and nano-dollars of a summary that was interrupted

    async def run(self, submitted: Submitted) -> None:
        """One task performs all effects: one for each would cost more than most effects do. If its work ignores an
        interrupt, it is abandoned, and a second task ends the run."""
        self._shared.follow(self._push)
        try:
            if not await self._finishes(self._play(submitted)):
                await self._finishes(self._play_end())
        finally:
            await run_to_completion(self._end())

    async def _finishes(self, play: Coroutine[Any, Any, None]) -> bool:
        """Whether it came to its end; False: it was abandoned."""
        loop = asyncio.get_running_loop()
        self._over = loop.create_future()
        context = self.observer.context if self.observer is not None else None
        player = self._player = loop.create_task(play, context=context)
        player.add_done_callback(self._give_up)
        try:
            await self._over
        except asyncio.CancelledError:  # the owner of this run ends it
            self._ended = True
            await end_all((player,))
            raise
        if player.done():
            player.result()
            return True
        player.add_done_callback(retrieve_exception)
        return False

    async def _play(self, event: Event) -> None:
        effect = await self._decide(event)
        while not isinstance(effect, Finish):
            effect = await self._decide(await self._perform(effect))
        self._shared.follow(None)  # at once: nothing comes after the result

    async def _play_end(self) -> None:
        await self._play(await self._stopped())

    async def _end(self) -> None:
        """Nothing that this run started outlives it, however the run ends."""
        self._shared.follow(None)
        self._shared.ledger.unclaim()
        try:
            partial, results = find_unsaid(self._undecided)
            partial = self._sampler.salvage() or partial
            self.salvaged = (partial, (*results, *self._executor.results))  # in case the cleanup fails
            self.salvaged = (partial, (*results, *await self._executor.stop()))
        finally:
            try:
                await self._background.end()
            finally:
                self._channel.close()

    def interrupt(self, reason: AbortReason) -> None:
        """Takes effect at once, at any point of the run; the first reason counts."""
        if self._abort is None:
            self._abort = reason
            self._stop_work()

    def _crashed(self, error: BaseException) -> None:
        """A call could not be journaled: the run must stop."""
        self._crash = self._crash or error
        self._stop_work()

    def _stop_work(self) -> None:
        player = self._player
        if self._working and player is not None:
            player.cancel()
            self._patience = self._patience or asyncio.get_running_loop().call_later(GRACE, self._give_up, player)

    def _give_up(self, player: asyncio.Task[None]) -> None:
        if player is self._player and self._over is not None and not self._over.done():
            self._player = None
            self._over.set_result(None)

    # --- what happened, and what to do about it ---

    async def _decide(self, event: Event) -> Effect:
        """`step` runs first because it is pure: an event that it rejects must not be in the journal."""
        event = self._undecided = replace(event, stamp=Stamp(self._deps.new_id(), self._deps.now()))
        state, effect, updates = step(self.state, event, self._config)
        if self._journal is not None:
            if isinstance(event, Submitted):
                await self._journal.append(ConfigRecord(self._config))
            await self._journal.append(EventRecord(event))
        turn, self.state, self._undecided = self.state.turn, state, None
        if self.observer is not None:
            self.observer.decide(event, effect, state)
        if isinstance(event, ContextReady):
            await self._show_injected(event)
        if isinstance(event, Replied):
            self._push(ReplyDone(event.reply.id, event.reply.stop, event.reply.usage))
        if self.state.turn != turn and self.state.turn % CHECKPOINT_TURNS == 0:
            await self._checkpoint()
        for update in updates:
            await self._show(update)
        return effect

    async def _checkpoint(self) -> None:
        """Messages that no view will show again, and that are on disk, need not stay in memory: a session may take
        days."""
        state = self.state
        await self._deps.journal.append(CheckpointRecord(checkpoint(state), state.history))
        if self._deps.journal.stored:
            self.state = replace(state, history=state.history.forget(out_of_view(state.history, state.edits)))

    async def _show_injected(self, ready: ContextReady) -> None:
        """Takes queued prompts from the inbox only now, so an abort before this loses none."""
        taken, self._taken = self._taken, ()
        if not (taken or ready.injected):
            return
        self._shared.inbox.take(taken)
        self.commands.extend(taken)
        for message in ready.injected:
            await self._deps.journal.append(SaidRecord(message))
            self._push(Injected(message))
        await self._note_commands(taken, CommandState.STARTED)

    async def _note_commands(self, commands: Iterable[InboxPrompt], state: CommandState) -> None:
        for command in commands:
            await self._deps.journal.append(command.record(state, self._deps.now()))

    async def _show(self, update: Decided) -> None:
        if isinstance(update, Boundary):
            self._shared.prefix.edited(update.layer)
        if isinstance(update, Appended) and self._journal is not None:
            await self._deps.journal.append(SaidRecord(update.message))
        if isinstance(update, Tombstone):
            await self._deps.journal.append(WithdrawnRecord(update.id, update.why))
        if isinstance(update, Result):
            await self._background.end()  # nothing comes after the result
            self.completed = not update.interrupted
            if self.completed:
                await self._note_commands(self.commands, CommandState.COMPLETED)
            await self._checkpoint()
            await self._deps.journal.sync()  # L-03: nothing is outstanding when the caller sees the result
            self.result = update
        self._push(update)

    # --- performing and interrupting ---

    async def _perform(self, effect: Effect) -> Event:
        if self._abort is not None or self._crash is not None:
            return await self._stopped()
        player, error = self._player, None
        self._working = True
        try:
            event = await self._do(effect)
            if player is self._player:
                self._undecided = event
        except asyncio.CancelledError:
            event = None
        except Exception as raised:
            if self._abort is None:
                raise
            event, error = None, raised
        if player is not self._player or self._ended:
            raise asyncio.CancelledError  # abandoned: another task ends the run; or its owner does
        await self._end_work()
        if error is not None:  # it failed because it was interrupted: worth a note, but not a crash
            await self._deps.journal.append(NoteRecord("failed when interrupted", repr(error), self._deps.now()))
        if event is not None:
            return event
        if self._abort is None and self._crash is None:
            raise MainspringError(f"'{type(effect).__name__}' was cancelled from within")
        return await self._stopped()

    async def _end_work(self) -> None:
        """An interrupt may have come from the work itself just before its end. Then the cancellation is still to
        come, and would hit what is done next."""
        self._working = False
        if self._patience is None or self._player is None:
            return
        self._patience.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        if self._ended:
            raise asyncio.CancelledError
        while self._player.cancelling():
            self._player.uncancel()

    async def _stopped(self) -> Aborted:
        if self._crash is not None or self._abort is None:
            raise self._crash or MainspringError("the run was stopped without a reason")
        return await self._aborted(self._abort)

    async def _aborted(self, reason: AbortReason) -> Aborted:
        results = await self._executor.stop()
        partial, usage = await self._sampler.interrupted(self.state)
        (used, spent), agents = self._lost_summary, self._shared.take_agents_cost()
        event = self._undecided = Aborted(reason, partial, results, usage + used, spent or None, agents)
        if self._crash is not None:
            raise self._crash
        return event

    async def _do(self, effect: Effect) -> Event:
        if self._channel.is_full:
            await self._channel.room()
        if not isinstance(effect, CallModel):
            self._shared.ledger.unclaim()  # the claim is not needed now
        match effect:
            case PrepareContext():
                return await self._prepare(effect)
            case CallModel():
                self._prefetch()
                self._start_summary()
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
        commands = self._shared.inbox.hold(effect.take)
        queued = (*self._remembered(), *[command.message(self._deps.now()) for command in commands])
        prepared = await self._deps.shrink(self.state, queued)
        funds = await self._share(prepared.tokens)
        self._taken = commands
        return ContextReady(
            prepared.tokens,
            edits=from_the_front(self.state.history, self.state.edits, prepared.edits),
            injected=tuple([self._stamped(message) for message in (*prepared.attachments, *queued)]),
            shrunk=prepared.shrunk,
            funds=funds,
            staged=prepared.staged,
            media=prepared.media,
            usage=prepared.usage,
            cost=prepared.cost,
            agents=self._shared.take_agents_cost(),
            model=self._shared.policy.model or self._config.model,
        )

    async def _share(self, tokens: int) -> int | None:
        ledger = self._shared.ledger
        if ledger.funds is None:
            return None
        model = self.state.model
        longest = self.state.max_output or self._config.output_cap(model)
        return await ledger.share(least(tokens, min(longest, model.max_output), model.price))

    async def _run_tools(self, effect: RunTools) -> ToolsDone:
        if effect.start and self._side_jobs.stage is not None:
            self._background.start(self._side_jobs.stage(self.state))
        results, why = await self._executor.finish(effect.calls, start=effect.start)
        self._unsummarized = (effect.calls, results) if effect.start and why is None else None
        return ToolsDone(results, why, self._shared.take_agents_cost())

    async def _compact(self, effect: Compact) -> Compacted:
        ledger = self._shared.ledger
        if not ledger.reserve(effect.reserve):
            return Compacted(failed="the ledger refused the reservation", funds=ledger.funds)
        spent = effect.reserve  # the estimate, if it fails without reporting its cost
        self._lost_summary = (Usage(), spent)
        try:
            made = await self._deps.summarize(self.state, effect)
            spent, self._lost_summary = made.cost, (Usage(), 0)
        except SideCallInterrupted as cut:
            spent, self._lost_summary = cut.cost, (cut.usage, cut.cost)
            raise
        finally:
            ledger.settle(effect.reserve, spent)
        edits = from_the_front(self.state.history, self.state.edits, made.edits)
        trigger = "" if effect.how is not CompactionKind.SUMMARY else "auto" if effect.asked is None else MANUAL
        return Compacted(edits, made.before, made.after, made.usage, made.cost, ledger.funds, made.failed, trigger)

    def _stamped(self, message: User) -> User:
        return message if message.id else replace(message, id=self._deps.new_id(), at=self._deps.now())

    # --- side jobs ---

    def _prefetch(self) -> None:
        """Look for relevant memory while the reply streams (B-30)."""
        if self._memory is None and self._side_jobs.recall is not None:
            self._memory = self._background.start(self._side_jobs.recall(self.state))

    def _remembered(self) -> tuple[User, ...]:
        if self._memory is None or not self._memory.done():
            return ()
        found, self._memory = result_if_done(self._memory), None
        return found or ()

    def _start_summary(self) -> None:
        """Summarize the last batch of calls while the reply streams (B-31)."""
        batch, self._unsummarized = self._unsummarized, None
        if batch is not None and (summarize := self._side_jobs.summarize_tools) is not None:
            self._background.start(self._show_summary(summarize, *batch))

    async def _show_summary(
        self, summarize: SummarizeTools, calls: tuple[ToolCall, ...], results: tuple[ToolResult, ...]
    ) -> None:
        try:
            text = await summarize(calls, results)
        except Exception as error:  # noqa: BLE001  # the run does not need it
            await self._deps.journal.append(NoteRecord("no summary of tool calls", str(error), self._deps.now()))
            return
        if text:
            ids = tuple([call.id for call in calls])
            await self._deps.journal.append(ToolSummaryRecord(text, ids, self._deps.now()))
            self._push(ToolSummary(text, ids))


def find_unsaid(event: Event | None) -> tuple[Assistant | None, tuple[ToolResult, ...]]:
    """The parts of an event that were shown and would be lost with it."""
    match event:
        case Replied():
            return event.reply, ()
        case CallFailed():
            return event.kept, ()
        case ToolsDone():
            return None, event.results
        case Submitted() | Aborted():
            return event.partial, event.results
        case _:
            return None, ()
