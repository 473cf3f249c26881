"""Updates of an agent session beside those of a run (`core/updates.py`), and `UpdateStream`, which carries both.

The stream reads the updates of a run directly from it: there is no task between, and nothing is queued twice. Updates
between runs are queued. Nothing runs ahead of the reader: `caught_up` returns when the reader waits for more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, dataclass_transform, final

from mainspring.core.errors import UsageError
from mainspring.core.updates import Result, Update

if TYPE_CHECKING:
    from mainspring.agent.prompt_expansion import AttachedMention, Prompt
    from mainspring.core.messages import User
    from mainspring.engine.run import Run

State = Literal["idle", "running", "requires_action"]


@dataclass_transform(frozen_default=True)
class SessionUpdate:
    """The base class: `isinstance(update, SessionUpdate)` distinguishes these from the updates of a run.

    The classes are final, so that type checkers then narrow to the union `AnySessionUpdate`, and `match` exhausts it.

    Plain classes, with their fields as annotations: fifteen structs would take half a millisecond of every start.
    """

    def __init__(self, *values: Any, **named: Any) -> None:
        names = self.__class__.__annotations__
        self.__dict__.update(zip(names, values, strict=False))
        self.__dict__.update(named)
        missing = [name for name in names if not hasattr(self, name)]
        if missing or len(self.__dict__.keys() - names.keys()) or len(values) > len(names):
            raise TypeError(f"{self.__class__.__name__} takes {', '.join(names)}")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    __hash__ = None  # type: ignore[assignment]  # their values may not be hashable

    def __repr__(self) -> str:
        fields = ", ".join([f"{name}={getattr(self, name)!r}" for name in self.__class__.__annotations__])
        return f"{self.__class__.__name__}({fields})"


@final
class StateChanged(SessionUpdate):
    state: State


@final
class RunStarted(SessionUpdate):
    """A run begins. Its prompt is not expanded yet, and hooks have not seen it."""

    cause: Literal["prompt", "report", "queue"]  # queue: steering prompts that an earlier run did not take
    prompt: Prompt | None = None
    message: User | None = None  # the prompt as a message, with its id


@final
class PromptQueued(SessionUpdate):
    """A prompt that was submitted to steer is queued, and journaled if it joins the current run."""

    id: str
    delivery: Literal["next_run", "steer"]  # next_run: it could not join, and gets a run of its own


@final
class PromptExpanded(SessionUpdate):
    """Which of the prompt's mentions were attached, and which were not."""

    attached: tuple[AttachedMention, ...] = ()
    missing: tuple[str, ...] = ()  # files that are mentioned and do not exist


@final
class PromptBlocked(SessionUpdate):
    """A hook blocked the prompt, or it could not be expanded: the model is not called. This ends the run."""

    reason: str


@final
class PromptAnswered(SessionUpdate):
    """The answer of a slash command that needs no model. This ends the run."""

    text: str
    failed: bool = False


@final
class PromptReturned(SessionUpdate):
    """The run was interrupted before the model saw its prompt. This ends the run."""

    prompt: Prompt | None


@final
class RunBroken(SessionUpdate):
    """The journal or our code failed: the run ends without a result (law 3)."""

    error: Exception


@final
class SessionReset(SessionUpdate):
    """Another conversation has replaced this one."""

    before: str  # session ids
    after: str
    why: Literal["clear", "resume", "rewind", "reload"]


@final
class Idle(SessionUpdate):
    """Nothing to run now."""

    background: int = 0  # subagents that will report


@final
class TaskChanged(SessionUpdate):
    """A command in the background has started or ended."""

    task: Any
    status: str  # then: it may have changed again when this is read


@final
class SubagentMoved(SessionUpdate):
    """The user moved a subagent to the background: its call returns, and it continues."""

    agent_id: str


@final
class PromptSuggested(SessionUpdate):
    """What the user may want to say next. After the result of a run, and only if no other run has begun since."""

    text: str


@final
class Notice(SessionUpdate):
    """A message for the user."""

    text: str
    level: Literal["info", "warning"] = "info"


@final
class HookStarted(SessionUpdate):
    hook: Any


@final
class HookFinished(SessionUpdate):
    hook: Any


AnySessionUpdate = (
    StateChanged
    | RunStarted
    | PromptQueued
    | PromptExpanded
    | PromptBlocked
    | PromptAnswered
    | PromptReturned
    | RunBroken
    | SessionReset
    | Idle
    | TaskChanged
    | SubagentMoved
    | PromptSuggested
    | Notice
    | HookStarted
    | HookFinished
)
AnyUpdate = Update | AnySessionUpdate


# --- the stream ---


class UpdateStream:
    def __init__(
        self,
        begin: Callable[[], object],
        observe: Callable[[AnyUpdate], object],
        observed: frozenset[type] = frozenset(),
    ) -> None:
        """`begin` is called on the first read; `observe` receives updates of the `observed` classes before the reader
        does."""
        self._begin, self._observe, self._observed = begin, observe, observed
        self._queue: deque[AnyUpdate] = deque()
        self._run: Run | None = None
        self._run_over: asyncio.Future[None] | None = None
        self._finishing: asyncio.Task[None] | None = None  # ends the run whose result was read
        self._reader: asyncio.Future[None] | None = None  # waits for something to be queued
        self._behind: list[asyncio.Future[None]] = []  # `caught_up` calls that wait for the reader
        self._waits = False  # the reader has read everything, and waits
        self._reading = self._begun = self._closed = False

    # --- the reader ---

    def __aiter__(self) -> UpdateStream:
        return self

    @property
    def unread(self) -> bool:
        """There are updates that the reader has not read yet."""
        return bool(self._queue) or (self._run is not None and self._run.unread)

    async def __anext__(self) -> AnyUpdate:
        if self._reading:
            raise UsageError("another task is already reading this session's updates: read them in one task only")
        if (run := self._run) is not None and run.unread:
            update: AnyUpdate = run.take()  # the common case, without awaiting
        else:
            self._reading = True
            try:
                update = await self._next()
            finally:
                self._reading = False
        if type(update) in self._observed:
            if isinstance(update, Result):
                await self._finish_run(update)
            self._observe(update)
        return update

    async def _next(self) -> AnyUpdate:
        if not self._begun:
            self._begun = True
            self._begin()
        while True:
            run = self._run
            if run is not None and run.unread:
                return run.take()
            if self._queue:
                return self._queue.popleft()
            if self._closed:
                raise StopAsyncIteration
            self._waits = True
            self._wake_behind()
            try:
                if run is None:
                    await self._something()
                else:
                    return await run.__anext__()
            except StopAsyncIteration:
                self._end_run()
            except Exception as error:  # noqa: BLE001  # the session decides how to handle a broken run
                self._end_run(error)
            finally:
                self._waits = False

    async def _finish_run(self, result: Result) -> None:
        """When the reader gets the result, the session is consistent: its history is complete, and another run can
        begin. A reader that is cancelled meanwhile gets the result with its next read."""
        if self._run is not None and self._finishing is None:
            self._finishing = asyncio.get_running_loop().create_task(self._finished(self._run))
        if self._finishing is not None:
            try:
                await asyncio.shield(self._finishing)
            except asyncio.CancelledError:
                self._queue.appendleft(result)
                raise
            self._finishing = None

    async def _finished(self, run: Run) -> None:
        broken: Exception | None = None
        try:
            await run.finish()
        except Exception as error:  # noqa: BLE001  # reported after the result
            broken = error
        while run.unread:
            self._queue.append(run.take())
        self._end_run(broken)

    async def _something(self) -> None:
        self._reader = asyncio.get_running_loop().create_future()
        await self._reader

    # --- the session ---

    def push(self, update: AnyUpdate) -> None:
        """Adds an update, in order: after those of the current run so far."""
        if self._closed or (self._run is not None and self._run.show(update)):
            return
        self._queue.append(update)
        self._wake_reader()

    async def follow(self, run: Run) -> None:
        """Lets the reader read the updates of this run. Returns at its end; raises the error that broke it."""
        self._run = run
        self._run_over = over = asyncio.get_running_loop().create_future()
        self._wake_reader()
        try:
            await over
        finally:
            self._run = self._run_over = None
            self._wake_reader()

    def leave_run(self) -> None:
        """Ends `follow` for a run that was cancelled before it began."""
        self._end_run()

    async def caught_up(self) -> None:
        """Returns when the reader has read every update and waits for more."""
        came_back = self._waits
        while not self._closed and (not came_back or self.unread):
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._behind.append(waiting)
            await waiting
            came_back = True  # though its read may have been cancelled since

    def close(self) -> None:
        """No more updates: the reader gets what is queued, then the end."""
        self._closed = True
        self._wake_behind()
        self._wake_reader()

    def _end_run(self, error: Exception | None = None) -> None:
        over, self._run = self._run_over, None
        if over is not None and not over.done():
            if error is None:
                over.set_result(None)
            else:
                over.set_exception(error)

    def _wake_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None and not reader.done():
            reader.set_result(None)

    def _wake_behind(self) -> None:
        waiting, self._behind = self._behind, []
        for one in waiting:
            if not one.done():
                one.set_result(None)
