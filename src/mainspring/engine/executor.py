"""The streaming executor: runs the calls of a reply, the first of them while the model still talks.

It spans two effects, `CallModel` and `RunTools` (settled 10). When a call may start is the core's rule, in
`core/schedule.py`; how it runs is the business of `Deps.run_tool`. Calls never raise: a failure is a result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from mainspring.core.config import Config
from mainspring.core.messages import ToolCall, ToolResult, result
from mainspring.core.schedule import Slot, Status, startable, taken_along
from mainspring.core.updates import Answered, Asked, CallDone, CallStarted, Update
from mainspring.engine.deps import Deps, Outcome, Question
from mainspring.sessions.records import IntentRecord, NoteRecord, OutcomeRecord

CANCELLED = "Not run: an earlier command of the same reply failed."
INTERRUPTED = "The call was interrupted while it ran. What it did until then is not known."
ABANDONED = "The call was interrupted and did not end. It may still be running."
CRASHED = "The tool itself failed: {error}"

SHELL_TOOLS = ("Bash",)
GRACE = 2.0  # seconds that a cancelled call has to end


class Running:
    """One call in progress: the handle by which a tool may ask a person."""

    def __init__(self, executor: Executor, call: ToolCall) -> None:
        self._executor = executor
        self._call = call

    async def ask(self, text: str) -> str:
        return await self._executor.ask(self._call, text)


class Executor:
    def __init__(self, deps: Deps, config: Config, show: Callable[[Update], None]) -> None:
        self._deps = deps
        self._config = config
        self._show = show
        self._calls: dict[str, ToolCall] = {}
        self._slots: dict[str, Slot] = {}  # in the order of the reply
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._completing: set[str] = set()  # the tool is done, its outcome is being recorded: too late to cancel
        self._results: dict[str, ToolResult] = {}
        self._reply_complete = False
        self._stopped: str | None = None  # nothing new starts once this is set
        self._changed: asyncio.Future[None] | None = None
        self._crash: BaseException | None = None

    # --- while the model talks ---

    def offer(self, call: ToolCall) -> None:
        """A call's block is finished: it may start, if the rule lets it."""
        self._calls[call.id] = call
        shell = call.name in SHELL_TOOLS
        self._slots[call.id] = Slot(call.id, safe=self._deps.is_concurrent(call), shell=shell)
        self._start_what_may_start()

    # --- when the reply is complete ---

    async def finish(self, calls: tuple[ToolCall, ...], *, start: bool) -> tuple[tuple[ToolResult, ...], str | None]:
        """Run what is left, or only wait for what runs; the results in the order of the calls, and why it stopped."""
        self._reply_complete = True
        if start:
            for call in calls:
                if call.id not in self._slots:
                    self.offer(call)
            self._start_what_may_start()
        else:
            self._stopped = self._stopped or "ending"
        while self._tasks:
            await self._change()
        self._raise_crash()
        results = tuple([self._results[call.id] for call in calls if call.id in self._results])
        stopped = self._stopped if start else None
        self._clear()
        return results, stopped

    async def stop(self) -> tuple[ToolResult, ...]:
        """End everything now. Returns what finished, and for what was running that it was interrupted."""
        self._stopped = self._stopped or "interrupted"
        for call_id, task in self._tasks.items():
            if call_id not in self._completing:
                task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=GRACE)
            await asyncio.sleep(0)  # what a task's end leads to comes one round after it
        for call_id in tuple(self._tasks):
            await self._abandon(call_id)
        self._raise_crash()
        results = tuple(self._results.values())
        self._clear()
        return results

    async def _abandon(self, call_id: str) -> None:
        """A tool that does not end when it is told to: the run must."""
        del self._tasks[call_id]
        await self._complete(self._calls[call_id], Outcome(result(call_id, ABANDONED, is_error=True)))

    def _clear(self) -> None:
        self._calls, self._slots, self._results, self._completing = {}, {}, {}, set()
        self._reply_complete, self._stopped = False, None

    def _raise_crash(self) -> None:
        if self._crash is not None:
            crash, self._crash = self._crash, None
            raise crash

    async def _change(self) -> None:
        self._changed = asyncio.get_running_loop().create_future()
        await self._changed

    # --- one call ---

    def _start_what_may_start(self) -> None:
        if self._stopped is not None:
            return
        may_start = startable(
            tuple(self._slots.values()),
            reply_complete=self._reply_complete,
            early_safe=self._config.early_safe,
            early_unsafe=self._config.early_unsafe,
        )
        for call_id in may_start:
            self._set(call_id, Status.EXECUTING)
            task = asyncio.get_running_loop().create_task(self._run(self._calls[call_id]))
            self._tasks[call_id] = task
            task.add_done_callback(partial(self._ended, call_id))

    async def _run(self, call: ToolCall) -> None:
        await self._deps.journal.append(IntentRecord(call, self._deps.now()))
        self._show(CallStarted(call))
        try:
            outcome = await self._deps.run_tool(call, Running(self, call))
        except asyncio.CancelledError:  # by `stop`: nobody else holds these tasks
            outcome = Outcome(result(call.id, INTERRUPTED, is_error=True))
        except Exception as error:  # noqa: BLE001  # whatever a tool does wrong, the model must hear of it
            words = CRASHED.format(error=f"{type(error).__name__}: {error}")
            outcome = Outcome(result(call.id, words, is_error=True), failed=True)
        self._completing.add(call.id)
        await self._complete(call, outcome)

    async def _complete(self, call: ToolCall, outcome: Outcome) -> None:
        stamped = replace(outcome.result, call_id=call.id, id=self._deps.new_id(), at=self._deps.now())
        await self._deps.journal.append(OutcomeRecord(stamped))
        self._results[call.id] = stamped
        self._set(call.id, Status.COMPLETED, failed=outcome.failed)
        self._show(CallDone(stamped))
        self._set(call.id, Status.YIELDED)
        self._stopped = self._stopped or outcome.stop
        if outcome.failed:
            await self._cancel_siblings(call.id)

    async def _cancel_siblings(self, failed_id: str) -> None:
        for call_id in taken_along(tuple(self._slots.values()), failed_id, self._config.siblings):
            cancelled = result(call_id, CANCELLED, is_error=True, synthetic=True)
            await self._complete(self._calls[call_id], Outcome(cancelled))

    def _ended(self, call_id: str, task: asyncio.Task[None]) -> None:
        """A call is over. Only the journal can have raised, and then nothing may go on (law 3)."""
        if self._tasks.get(call_id) is not task:
            return  # it was abandoned
        del self._tasks[call_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._crash = self._crash or error
            self._stopped = self._stopped or "crashed"
        self._start_what_may_start()
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    def _set(self, call_id: str, status: Status, *, failed: bool | None = None) -> None:
        slot = self._slots[call_id]
        self._slots[call_id] = replace(slot, status=status, failed=slot.failed if failed is None else failed)

    # --- a call that waits for a person ---

    async def ask(self, call: ToolCall, text: str) -> str:
        question = Question(self._deps.new_id(), call.id, text)
        await self._deps.journal.append(NoteRecord("asked", text, self._deps.now()))
        self._set(call.id, Status.WAITING)
        self._show(Asked(question.id, call.id, text))
        answer = await self._deps.ask(question)
        await self._deps.journal.append(NoteRecord("answered", answer, self._deps.now()))
        self._set(call.id, Status.EXECUTING)
        self._show(Answered(question.id, answer))
        return answer
