"""The run loop of an agent session: the prompt queue, interrupts, and reports of subagents in the background.

It is one task, and never runs ahead of the reader: it continues once the reader has read every update so far.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from mainspring import agent, context
from mainspring.agent.prompt_expansion import (
    BlockedPrompt,
    ExpandedPrompt,
    Prompt,
    QueuedPrompt,
    append_piped_data,
    needs_expansion,
    parse_compact_command,
    text_prompt,
)
from mainspring.agent.updates import (
    AnyUpdate,
    Idle,
    PromptAnswered,
    PromptBlocked,
    PromptExpanded,
    PromptQueued,
    PromptReturned,
    PromptSuggested,
    RunBroken,
    RunStarted,
    State,
    StateChanged,
    UpdateStream,
)
from mainspring.core.errors import MainspringError, UsageError
from mainspring.core.messages import Origin, Text, User
from mainspring.core.reasons import AbortReason
from mainspring.core.value import Bundle
from mainspring.engine.run import Run
from mainspring.engine.tasks import end_all
from mainspring.hooks.events import HookPoint

if TYPE_CHECKING:
    from mainspring.agent.session_parts import SessionParts
    from mainspring.agent.shell_output import ShellOutputs
    from mainspring.engine.shared_state import InboxPrompt

T = TypeVar("T")


class LocalAnswer(Bundle):
    text: str
    failed: bool = False
    prompt: str = ""  # for the model, in place of the answer


class LocalCommand(Bundle):
    """A slash command that needs no model."""

    answer: Callable[[], Coroutine[Any, Any, LocalAnswer]]
    starts_anew: bool = False  # it replaces this conversation with another


class InterruptResult(Bundle):
    met: bool  # it stopped a run, or one that was about to begin
    queued: tuple[str, ...] = ()  # ids of prompts that are still queued


class RunLoop:
    def __init__(
        self,
        world: Callable[[], SessionParts],
        updates: UpdateStream,
        find_command: Callable[[str], LocalCommand | None],
        *,
        deltas: bool,
    ) -> None:
        """`world` returns the current session parts. `find_command` returns the slash command that a prompt is,
        unless the model gets it."""
        self._current, self._updates, self._find_command, self._deltas = world, updates, find_command, deltas
        self._queue: deque[QueuedPrompt] = deque()
        self._unprompted = False  # a run without a new prompt was requested
        self._sent: set[str] = set()  # ids of steering prompts that may start a run themselves
        self._steered: dict[str, Prompt] = {}  # by id: those that wait, as the client submitted them
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._run: Run | None = None
        self._run_left: asyncio.Future[None] | None = None  # `leave_run` waits for its end
        self._stoppable: asyncio.Future[Any] | None = None  # what an interrupt ends before there is a run
        self._number = 0  # of the current run, or of the last one
        self._unwanted = 0  # the number of a run that must end as soon as it begins
        self.under_way = False  # from its start until its result
        self.switching = False  # a slash command may replace the conversation: its run has not begun
        self._hold_reports = self._finishing = self._paused = self._suspended = False
        self._told_idle = -1  # the number of subagents in the last `Idle`; -1: something has happened since
        self._in_use = 0  # open `in_use` blocks, which `finish` waits for
        self._open_questions = 0
        self._reporting: set[asyncio.Task[None]] = set()  # reports that are being journaled
        self._suggestion = ""  # for the next prompt; shown after the result
        self.shell_outputs: ShellOutputs | None = None  # of the user's own commands, for the next prompt
        self.state: State = "idle"

    @property
    def _world(self) -> SessionParts:
        return self._current()

    # --- the queue ---

    async def submit(self, prompt: Prompt) -> QueuedPrompt:
        if self._finishing:
            raise UsageError("this session takes no more prompts: it is finished or closed")
        self.release()
        if prompt.delivery != "steer":
            return self.enqueue(prompt)
        joins = self._can_steer(prompt)
        queued = await self._steer(prompt) if joins else self.enqueue(prompt)
        self._updates.push(PromptQueued(queued.id, "steer" if joins else "next_run"))
        return queued

    async def _steer(self, prompt: Prompt) -> QueuedPrompt:
        command = await self._world.session.submit(prompt.text, id=prompt.id)
        self._world.own_words.add(command.id, prompt.text)
        waiting = {one.id for one in self._steering()}
        self._steered = {own_id: one for own_id, one in self._steered.items() if own_id in waiting}
        self._steered[command.id] = prompt
        self._sent.add(command.id)
        self._news.set()
        return QueuedPrompt(command.id, prompt)

    def enqueue(self, prompt: Prompt) -> QueuedPrompt:
        self.release()
        queued = QueuedPrompt(prompt.id or self._world.session.deps.new_id(), prompt)
        self._queue.append(queued)
        self._world.session.shared.telemetry.remember_parent(queued.id)
        self._news.set()
        return queued

    def continue_run(self) -> None:
        """Starts a run without a new prompt, on the conversation as it is."""
        self._unprompted = True
        self.release()

    def _can_steer(self, prompt: Prompt) -> bool:
        """It is text alone and needs no expansion, no hook must see it, and no other prompt is queued before it."""
        if self._queue or self.shell_outputs or (self._run is None and not self._steering()):
            return False
        if prompt.data or any(not isinstance(part, Text) for part in prompt.content):
            return False  # the inbox and its records hold one text
        if self._world.hands.hooks.any_at(HookPoint.USER_PROMPT_SUBMIT):
            return False
        return prompt.literal or not needs_expansion(prompt.text)

    def _steering(self) -> list[InboxPrompt]:
        return [one for one in self._world.session.shared.inbox.waiting() if one.origin is Origin.PROMPT]

    @property
    def queued(self) -> tuple[QueuedPrompt, ...]:
        steering = [
            QueuedPrompt(one.id, self._steered.get(one.id) or text_prompt(one.text), one.id not in self._sent)
            for one in self._steering()
        ]
        return (*steering, *self._queue)

    async def withdraw(self, id: str) -> Prompt | None:
        """None: it was already sent to the model, or the id is unknown."""
        for one in self._queue:
            if one.id == id:
                self._queue.remove(one)
                return one.prompt
        for command in self._steering():
            if command.id == id and await self._world.session.withdraw(command):
                self._world.own_words.remove(id)
                return self._steered.pop(id, None) or text_prompt(command.text)
        return None

    def release(self) -> None:
        """Sends restored prompts, and lets reports of subagents start runs again."""
        self._sent |= {one.id for one in self._steering()}
        self._hold_reports = False
        self._news.set()

    def finish(self) -> None:
        """No more prompts: the updates end when the queue, the reports and the open calls are done."""
        self._finishing = True
        self._news.set()

    def abandon(self) -> None:
        """No more prompts: drops the queue and interrupts the current run, whose result is the last."""
        self._queue.clear()
        self._sent.clear()
        self._finishing = True
        self.interrupt(hold_reports=True)

    @contextmanager
    def in_use(self) -> Generator[None]:
        """`finish` waits for the end of this block."""
        self._in_use += 1
        try:
            yield
        finally:
            self._in_use -= 1
            self._news.set()

    def interrupt_target(self) -> int | None:
        """The run that an interrupt would stop now: the current one, or the one about to begin."""
        if self.under_way:
            return self._number
        return self._number + 1 if self._queue else None

    def interrupt(self, target: int | None = None, *, hold_reports: bool = False) -> InterruptResult:
        """Stops the current run at any point, or the next queued one. Never waits itself."""
        target = self.interrupt_target() if target is None else target
        self._hold_reports = self._hold_reports or hold_reports
        runs = target == self._number and self.under_way
        begins = target is not None and target > self._number
        if runs or begins:
            self._unwanted = target or 0
        if runs:
            self._stop_run()
        elif self._stoppable is not None and not self.under_way:
            self._stoppable.cancel()  # the last suggestion
        self._news.set()
        return InterruptResult(runs or begins, tuple([one.id for one in self._queue]))

    def suspend(self) -> None:
        """No more prompts: stops the current run without a notice in the conversation, which another process
        continues."""
        self._suspended = True
        self.abandon()

    def _stop_run(self) -> None:
        if self._run is not None:
            if self._run.begun:
                self._run.interrupt(AbortReason.SUBMIT if self._suspended else AbortReason.HARD)
            else:
                self._updates.leave_run()
        elif self._stoppable is not None:
            self._stoppable.cancel()

    # --- the work ---

    def begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._work())
        self._task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._updates.push(RunBroken(error if isinstance(error, Exception) else RuntimeError(repr(error))))
        self._updates.close()

    async def close(self) -> None:
        """Ends the current run and everything it started."""
        self._finishing = True
        await end_all([*self._reporting, *([self._task] if self._task is not None else [])])

    def report(self, text: str) -> None:
        """Something in the background has ended. The model gets this text with its next request, or in a run that this
        starts."""
        reporting = asyncio.get_running_loop().create_task(self._report(text))
        self._reporting.add(reporting)
        reporting.add_done_callback(self._reporting.discard)

    async def _report(self, text: str) -> None:
        with self.in_use(), suppress(MainspringError, OSError):  # without a journal no run goes on, either (law 3)
            await self._world.session.submit(text, origin=Origin.REPORT)

    @contextmanager
    def paused(self) -> Generator[None]:
        """No run begins within this block."""
        self._paused = True
        try:
            yield
        finally:
            self._paused = False
            self._news.set()

    async def leave_run(self) -> None:
        """Returns when the run whose result was read is over."""
        while self._run is not None:
            self._run_left = asyncio.get_running_loop().create_future()
            await self._run_left

    async def _work(self) -> None:
        """Runs until no more prompts or reports can come."""
        while True:
            self._news.clear()
            await self._updates.caught_up()
            if self._paused:
                await self._news.wait()
            elif self._queue:
                await self._turn(self._prompted(self._queue.popleft()))
            elif self._goes_on():
                await self._turn(self._continued())
            elif self._waits_for_reports():
                self._rest(self._world.agents.away)
                await self._something()
            else:
                self._enter("idle")
                if self._finishing and not self._in_use:
                    await self._await_suggestion()
                    return
                self._rest(0)
                await self._something()

    def _rest(self, background: int) -> None:
        """Pushes `Idle` once, as long as nothing else happens."""
        if self._told_idle != background:
            self._told_idle = background
            self._updates.push(Idle(background))

    def _goes_on(self) -> bool:
        """Whether a run starts without a queued prompt: on request, because a run did not take a steering prompt, or
        because a subagent has reported."""
        if self._unprompted:
            return True
        waiting = self._world.session.shared.inbox.waiting()
        if any(one.origin is Origin.PROMPT for one in waiting):
            return any(one.id in self._sent for one in waiting)
        return bool(waiting) and not self._hold_reports and self._world.agents.turns_left > 0

    @property
    def has_more(self) -> bool:
        """Subagents in the background still run, or have reported: another run will follow by itself."""
        return not self._hold_reports and self._world.has_more

    def _waits_for_reports(self) -> bool:
        agents = self._world.agents
        return agents.away > 0 and agents.turns_left > 0 and not self._hold_reports

    async def _something(self) -> None:
        """Waits for a prompt, a call, or an event of a subagent in the background."""
        hopes: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._news.wait())]
        if self._world.agents.away and not self._hold_reports:
            hopes.append(asyncio.ensure_future(self._world.wait_for_more()))
        try:
            await asyncio.wait(hopes, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for hope in hopes:
                hope.cancel()

    async def _turn(self, work: Coroutine[Any, Any, None]) -> None:
        self._number, self.under_way, self._told_idle = self._number + 1, True, -1
        self._suggestion = ""
        self._world.mind.drop_suggestion()
        self._enter("requires_action" if self._open_questions else "running")
        try:
            await work
        finally:
            self.under_way = False
            self._world.end_run()

    @property
    def _is_unwanted(self) -> bool:
        return self._unwanted == self._number

    async def _prompted(self, queued: QueuedPrompt) -> None:
        prompt, deps = queued.prompt, self._world.session.deps
        is_command = prompt.text.lstrip().startswith("/") and not (prompt.literal or prompt.typed)
        local = self._find_command(prompt.text.strip()) if is_command else None
        content = append_piped_data(prompt.content, prompt.data)
        message = User(content, typed=prompt.typed, id=queued.id, at=deps.now())
        if local is not None and local.starts_anew:
            await self._answered_anew(local, prompt, message)
            return
        await self._open(RunStarted("prompt", prompt, message))
        if self._is_unwanted:
            self._end(PromptReturned(prompt))
        elif local is not None:
            await self._answered(await self._unless_interrupted(local.answer()), prompt, message)
        else:
            await self._expanded(prompt, message)

    async def _answered(self, answer: LocalAnswer | None, prompt: Prompt, message: User) -> None:
        if answer is None:
            self._end(PromptReturned(prompt))
        elif answer.prompt:
            await self._expanded(prompt, message, answer.prompt)
        else:
            self._end(PromptAnswered(answer.text, answer.failed))

    async def _answered_anew(self, local: LocalCommand, prompt: Prompt, message: User) -> None:
        """`/clear`: its run continues in the new conversation, if there is one."""
        before, self.switching = self._world, True
        try:
            answer = await local.answer()
        finally:
            self.switching = False
        started = RunStarted("prompt", prompt, message) if self._world is before else RunStarted("prompt")
        await self._open(started)
        await self._answered(answer, prompt, message)

    async def _expanded(self, prompt: Prompt, message: User, body: str | None = None) -> None:
        """`body`: what a slash command has made of the prompt."""
        meant, read, wish = self._meaning(prompt, message, body)
        if self._world.rewinding is not None and self._world.hands.hooks.any_at(HookPoint.USER_PROMPT_SUBMIT):
            await self._world.rewinding.before_hooks(meant)
        heard = await self._unless_interrupted(self._world.prompts.said(meant, read))
        if heard is None or self._is_unwanted:
            self._end(PromptReturned(prompt))
        elif isinstance(heard, BlockedPrompt):
            self._end(PromptBlocked(heard.reason))
        else:
            self._tell_of_mentions(read, heard)
            if self.shell_outputs and parse_compact_command(wish) is None:
                heard = ExpandedPrompt((*heard, *self.shell_outputs.take(self._world.around.nonce)))
            self._world.own_words.add(message.id, prompt.shown_text)
            await self._follow(self._world.run(wish, heard, deltas=self._deltas), prompt)

    def _meaning(self, prompt: Prompt, message: User, body: str | None) -> tuple[User, str, str]:
        """The message for the model; the part that is searched for mentions; and the part that is searched for
        `/compact` and `+500k`. A skill or a custom command expands to its text; an unknown slash command is text."""
        if prompt.literal:
            return message, "", ""
        if body is None:
            body = agent.expand_slash_command(prompt.text, self._world)
        if body is None:
            return message, prompt.text, prompt.text
        rest = tuple([part for part in prompt.content if not isinstance(part, Text)])
        content = append_piped_data((Text(body), *rest), prompt.data)
        return replace(message, content=content, typed=prompt.shown_text), body, ""

    def _tell_of_mentions(self, text: str, heard: tuple[User, ...]) -> None:
        attached = heard.attached if isinstance(heard, ExpandedPrompt) else ()
        missing: tuple[str, ...] = ()
        if "@" in text:
            missing = context.find_absent_mentions(text, self._world.about.cwd)
        if attached or missing:
            self._updates.push(PromptExpanded(attached, missing))

    async def _continued(self) -> None:
        wanted, self._unprompted = self._unprompted or bool(self._steering()), False
        await self._open(RunStarted("queue" if wanted else "report"))
        if self._is_unwanted:
            self._end(PromptReturned(None))
        else:
            await self._follow(self._world.go_on(deltas=self._deltas, anew=wanted), None)

    async def _open(self, started: RunStarted) -> None:
        await self._unless_interrupted(self._world.settle())  # adds tools of MCP servers that connected meanwhile
        self._updates.push(started)
        await self._updates.caught_up()

    async def _unless_interrupted(self, work: Coroutine[Any, Any, T]) -> T | None:
        self._stoppable = task = asyncio.ensure_future(work)
        if self._is_unwanted:
            task.cancel()
        try:
            await asyncio.wait({task})
            return None if task.cancelled() else task.result()
        finally:
            task.cancel()
            self._stoppable = None

    async def _follow(self, run: Run, prompt: Prompt | None) -> None:
        self._run = run
        try:
            async with run:
                await self._updates.follow(run)
            if not run.begun:
                self._end(PromptReturned(prompt))
        except (MainspringError, OSError) as error:  # the journal or our code failed: stop (law 3)
            self._sent.clear()
            self._hold_reports = True
            self._end(RunBroken(error))
        finally:
            self._run = None
            if self._run_left is not None and not self._run_left.done():
                self._run_left.set_result(None)

    def _end(self, update: AnyUpdate) -> None:
        self.under_way = False
        self._updates.push(update)

    # --- suggestions ---

    def suggest(self, text: str) -> None:
        """Shows a suggestion for the next prompt, but not before the result of its run."""
        self._suggestion = text
        if not self.under_way:
            self._show_suggestion()

    def _show_suggestion(self) -> None:
        text, self._suggestion = self._suggestion, ""
        if text and not self._queue:  # else there is a next prompt already
            self._updates.push(PromptSuggested(text))

    async def _await_suggestion(self) -> None:
        """After the last prompt: a host that asked for suggestions gets this one, too."""
        if self._world.config.options.prompt_suggestions:
            await self._unless_interrupted(self._world.mind.await_suggestion())

    # --- the state ---

    def ended(self, turns: int) -> None:
        """The reader has read the run's result."""
        self.under_way = False
        self._world.agents.took(turns)
        self._show_suggestion()

    def asks(self, more: int) -> None:
        """A question was sent to the host (1), or answered (-1)."""
        self._open_questions += more
        if self._open_questions and more > 0:
            self._enter("requires_action")
        elif not self._open_questions and self.state == "requires_action":
            self._enter("running")
        self._news.set()

    def _enter(self, state: State) -> None:
        if state != self.state:
            self.state = state
            self._updates.push(StateChanged(state))
