"""The streaming executor: runs the calls of a reply, the first of them while the reply still streams.

It spans two effects, `CallModel` and `RunTools` (settled 10). `core/schedule.py` decides when a call may start;
`Deps.run_tool` decides how it runs. Calls never raise: a failure is a result.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mainspring.core.config import Config
from mainspring.core.messages import ToolCall, ToolResult, result
from mainspring.core.schedule import CallStatus, Slot, startable, taken_along
from mainspring.core.updates import CallDone, CallProgress, CallStarted, QuestionAnswered, QuestionAsked, Update
from mainspring.engine.deps import CallQuestion, Deps, ToolOutcome
from mainspring.engine.shared_state import EnginePolicy, Ledger, SharedState
from mainspring.engine.tasks import GRACE, retrieve_exception
from mainspring.sessions.records import (
    AgentRecord,
    AnsweredRecord,
    AskedRecord,
    DecisionRecord,
    IntentRecord,
    Journal,
    NoJournal,
    NoteRecord,
    OutcomeRecord,
    StepsRecord,
)
from mainspring.tools.base import CRASHED, INTERRUPTED

if TYPE_CHECKING:
    from mainspring.core.money import Usage

    AgentUsage = tuple[tuple[str, Usage], ...]  # by model
    Describe = Callable[[ToolCall], str]  # one line about a call, for the user

_PERMISSIONS = logging.getLogger("mainspring.permissions")

CANCELLED = "Not run: an earlier command of the same reply failed."
ABANDONED = "The call was interrupted and did not end. It may still be running."


class RunningCall:
    """A call in progress: its status, and the handle by which its tool may ask the user."""

    def __init__(self, executor: Executor, call: ToolCall, slot: Slot) -> None:
        self._executor = executor
        self.call = call
        self.slot = slot
        self.task: asyncio.Task[None] | None = None
        self.cancelled = False  # by us: the tool did not end by itself
        self.recording = False  # the tool is done and its outcome is being journaled: too late to cancel
        self.abandoned = False  # we no longer wait for it
        self.questions = 0  # that wait for the user; a subagent may have several
        self.result: ToolResult | None = None

    @property
    def policy(self) -> EnginePolicy:
        return self._executor.shared.policy

    @property
    def failures(self) -> dict[str, int]:
        return self._executor.failures

    @property
    def ledger(self) -> Ledger:
        return self._executor.shared.ledger

    @property
    def is_stored(self) -> bool:
        """Whether the session of this call has a journal that outlives it."""
        return not isinstance(self._executor.journal, NoJournal)

    async def note_agent(self, agent_id: str, ledger: Ledger, *, ended: bool, used: AgentUsage = ()) -> None:
        """Journal that an agent of this call began or ended. At its end, the session is charged what it spent."""
        await self._executor.note_agent(agent_id, ledger.account.spent, ended=ended, used=used)

    async def ask(self, text: str, about: Any = None) -> str:
        return await self._executor.ask(self, text, about)

    async def note_decision(self, decision: str, reason: str, classifier: tuple[str, str] | None = None) -> None:
        _PERMISSIONS.debug("decision %s tool=%s call=%s reason=%r", decision, self.call.name, self.call.id, reason)
        await self._executor.note(self, decision, reason, classifier)

    def progress(self, text: str) -> None:
        self._executor.progress(self, text)

    def show(self, update: Update) -> None:
        self._executor.pass_on(self, update)

    async def room(self) -> None:
        await self._executor.room()

    def set(self, status: CallStatus, *, failed: bool = False) -> None:
        self.slot = replace(self.slot, status=status, failed=failed)

    def cancel(self) -> None:
        if self.task is not None and not self.recording:
            self.cancelled = True
            self.task.cancel()


class Executor:
    def __init__(  # noqa: PLR0913, PLR0917  # what it is made of
        self,
        deps: Deps,
        config: Config,
        shared: SharedState,
        show: Callable[[Update], None],
        on_crash: Callable[[BaseException], None],
        room: Callable[[], Awaitable[None]],
        describe: Describe | None = None,
    ) -> None:
        self.room = room  # waits until the consumer has caught up
        self.failures: dict[str, int] = {}  # calls in a row that failed, by tool
        self._describe = describe
        self._deps = deps
        self._config = config
        self._journals = not isinstance(deps.journal, NoJournal)  # else no records are made
        self.shared = shared
        self._show = show
        self._on_crash = on_crash
        self._jobs: dict[str, RunningCall] = {}  # in the order of the reply
        self._reply_complete = False
        self._halted = False  # nothing new starts
        self._why: str | None = None  # the reason of the hook or denial that ended the run
        self._changed: asyncio.Future[None] | None = None

    # --- while the reply streams ---

    def offer(self, call: ToolCall) -> None:
        """A call's block is finished: start it if the schedule allows."""
        slot = Slot(call.id, safe=self._is_safe(call), shell=call.name in self._config.shell_tools)
        self._jobs[call.id] = RunningCall(self, call, slot)
        self._start_what_may_start()

    def _is_safe(self, call: ToolCall) -> bool:
        """A call whose input cannot be checked is not safe; its tool will report what is wrong."""
        try:
            return self._deps.is_concurrent(call)
        except Exception:  # noqa: BLE001  # the model wrote this input
            return False

    # --- when the reply is complete ---

    async def finish(self, calls: tuple[ToolCall, ...], *, start: bool) -> tuple[tuple[ToolResult, ...], str | None]:
        """Run the remaining calls, or only wait for running ones. Returns the results in the order of the calls, and
        why it stopped."""
        self._reply_complete = True
        if not start:
            self._halt()
        self._start_what_may_start()
        while self._running():
            await self._change()
        results = tuple([job.result for call in calls if (job := self._jobs.get(call.id)) and job.result])
        why = self._why
        self._clear()
        return results, why

    async def stop(self) -> tuple[ToolResult, ...]:
        """End everything now. Returns the result of every started call."""
        self._halt()
        for job in self._running():
            job.cancel()
        grace = asyncio.get_running_loop().call_later(GRACE / (1 + self._config.depth), self._abandon)
        try:
            while self._running():
                await self._change()
        finally:
            grace.cancel()
        for job in [job for job in self._jobs.values() if job.abandoned and job.result is None]:
            await self._record(job, ToolOutcome(result(job.call.id, ABANDONED, is_error=True)))
        results, self._jobs = self.results, {}  # still halted: abandoned work may yet offer calls
        self._on_crash = ignore_crash  # that of the driver would form a cycle
        return results

    @property
    def results(self) -> tuple[ToolResult, ...]:
        return tuple([job.result for job in self._jobs.values() if job.result is not None])

    def _clear(self) -> None:
        self._jobs = {}
        self._reply_complete, self._halted, self._why = False, False, None

    def _running(self) -> list[RunningCall]:
        return [job for job in self._jobs.values() if job.task is not None and not job.abandoned]

    async def _change(self) -> None:
        self._changed = asyncio.get_running_loop().create_future()
        await self._changed

    def _wake(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    def _halt(self) -> None:
        """Start no new call and withdraw the questions: their answers are no longer needed (settled 11)."""
        self._halted = True
        for job in self._running():
            if job.slot.status is CallStatus.WAITING:
                job.cancel()

    def _abandon(self) -> None:
        """Abandon tools that ignore their cancellation, so that the run can end. Waits for an outcome that is being
        journaled."""
        for job in self._running():
            job.abandoned = not job.recording
        self._wake()

    # --- one call ---

    def _start_what_may_start(self) -> None:
        if self._halted:
            return
        may_start = startable(
            tuple([job.slot for job in self._jobs.values()]),
            reply_complete=self._reply_complete,
            early_safe=self._config.early_safe,
            early_unsafe=self._config.early_unsafe,
        )
        for call_id in may_start:
            job = self._jobs[call_id]
            job.set(CallStatus.EXECUTING)
            job.task = asyncio.get_running_loop().create_task(self._run(job))
            job.task.add_done_callback(partial(self._ended, job))

    async def _run(self, job: RunningCall) -> None:
        if self._journals:
            await self._deps.journal.append(IntentRecord(job.call, self._deps.now()))
        if job.cancelled:
            return  # the start is not in the journal, so the call never ran
        self._show(CallStarted(job.call, self._line(job.call)))
        try:
            outcome = stamp_outcome(await self._deps.run_tool(job.call, job), job.call, self._deps)
        except asyncio.CancelledError as error:
            words = INTERRUPTED if job.cancelled else CRASHED.format(error=repr(error))
            outcome = ToolOutcome(result(job.call.id, words, is_error=True))
        except Exception as error:  # noqa: BLE001  # whatever a tool does wrong, the model must hear of it
            words = CRASHED.format(error=f"{type(error).__name__}: {error}")
            outcome = ToolOutcome(result(job.call.id, words, is_error=True))
        if job.abandoned:
            text = f"'{job.call.id}' ended after it was given up: {outcome.result.text}"
            await self._deps.journal.append(NoteRecord("late", text, self._deps.now()))
            return
        await self._record(job, outcome)
        await self._take_along(job, outcome)
        self._release(job)  # here and not in `_ended`, which the loop calls a round later

    def _line(self, call: ToolCall) -> str:
        try:
            return call.name if self._describe is None else self._describe(call)
        except Exception:  # noqa: BLE001  # the model wrote this input; its tool will say what is wrong with it
            return call.name

    async def _record(self, job: RunningCall, outcome: ToolOutcome) -> None:
        job.recording = True
        made = stamp_outcome(outcome, job.call, self._deps).result
        if outcome.steps and self._journals:
            await self._deps.journal.append(StepsRecord(job.call.id, outcome.steps, made.at))
        kept = replace(made, content=(*made.content, *outcome.added)) if outcome.added else made
        if self._journals:
            await self._deps.journal.append(OutcomeRecord(kept))
        job.result = kept
        job.set(CallStatus.COMPLETED, failed=outcome.failed)
        self._show(CallDone(made, outcome.data, outcome.rendering, outcome.denied))
        job.set(CallStatus.YIELDED, failed=outcome.failed)

    async def _take_along(self, job: RunningCall, outcome: ToolOutcome) -> None:
        """Apply a call's outcome to the other calls."""
        if outcome.stop is not None:
            self._why = outcome.stop if self._why is None else self._why
            self._halt()
        slots = tuple([other.slot for other in self._jobs.values()])
        cancelled = [self._jobs[call_id] for call_id in taken_along(slots, job.call.id, self._config.siblings)]
        for other in cancelled:
            other.set(CallStatus.COMPLETED)  # at once: while the first one is being journaled, none of them may start
        for other in cancelled:
            made = result(other.call.id, CANCELLED, is_error=True, synthetic=True)
            await self._record(other, ToolOutcome(made))

    def _ended(self, job: RunningCall, task: asyncio.Task[None]) -> None:
        """A call is over. Only the journal can have raised, and then the run must stop (law 3)."""
        retrieve_exception(task)
        if job.abandoned or job.task is None:
            return
        if not task.cancelled() and (error := task.exception()) is not None:
            self._halted = True
            for other in self._running():
                other.cancel()
            self._on_crash(error)
        self._release(job)

    def _release(self, job: RunningCall) -> None:
        """It is over: others may start, and `finish` and `stop` look again."""
        if not job.abandoned:
            job.task = None
            self._start_what_may_start()
            self._wake()

    # --- a call that runs an agent ---

    @property
    def journal(self) -> Journal:
        return self._deps.journal

    async def note_agent(self, agent_id: str, cost: int, *, ended: bool, used: AgentUsage) -> None:
        await self.journal.append(AgentRecord(agent_id, False, self._deps.now(), ended=ended, cost=cost, used=used))
        if ended:
            self.shared.agent_spent(cost)

    # --- a call that waits for the user ---

    async def ask(self, job: RunningCall, text: str, about: Any = None) -> str:
        question = CallQuestion(self._deps.new_id(), job.call.id, text, about, job.call)
        await self._deps.journal.append(AskedRecord(question.id, job.call.id, text, self._deps.now()))
        job.questions += 1
        job.set(CallStatus.WAITING)
        try:
            if self._halted:
                job.cancel()  # too late to ask
            self._show(QuestionAsked(question.id, job.call.id, text, about))
            answer = await self._deps.ask(question)
            await self._deps.journal.append(AnsweredRecord(question.id, answer, self._deps.now()))
        finally:
            job.questions -= 1
            if not job.questions:
                job.set(CallStatus.EXECUTING)
        self._show(QuestionAnswered(question.id, answer))
        return answer

    # --- progress of a running call ---

    async def note(
        self, job: RunningCall, decision: str, reason: str, classifier: tuple[str, str] | None = None
    ) -> None:
        if self._journals:
            await self._deps.journal.append(DecisionRecord(job.call.id, decision, reason, self._deps.now(), classifier))

    def progress(self, job: RunningCall, text: str) -> None:
        if job.task is not None and not job.abandoned and not job.recording:
            self._show(CallProgress(job.call.id, text))

    def pass_on(self, job: RunningCall, update: Update) -> None:
        if job.task is not None and not job.abandoned:
            self._show(update)


def ignore_crash(_: BaseException) -> None:
    """The run is over."""


def stamp_outcome(outcome: ToolOutcome, call: ToolCall, deps: Deps) -> ToolOutcome:
    """Stamp an outcome with an id and a time. Raises for an invalid outcome: that is the tool's failure."""
    made = outcome.result
    if made.call_id != call.id:
        raise ValueError(f"a result for '{made.call_id}' in answer to '{call.id}'")
    if made.id:
        return outcome
    return replace(outcome, result=replace(made, id=deps.new_id(), at=deps.now()))
