"""What an agent session tells its front end, beside the updates of a run (`core/updates.py`), and the stream of both.

The updates of a run are taken from it directly: no task stands between, and nothing is queued twice. What happens
between runs waits in a queue. Nothing runs ahead of the reader: `caught_up` returns when it has come back for more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, dataclass_transform

from mainspring.core.errors import UsageError
from mainspring.core.updates import Result, Update

if TYPE_CHECKING:
    from mainspring.agent.prompt_expansion import AttachedMention, Prompt
    from mainspring.core.messages import User
    from mainspring.engine.run import Run

State = Literal["idle", "running", "requires_action"]


@dataclass_transform(frozen_default=True)
class SessionUpdate:
    """The base of them all: `isinstance(update, SessionUpdate)` tells them from those of a run.

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

    __hash__ = None  # type: ignore[assignment]  # they hold what cannot be hashed

    def __repr__(self) -> str:
        fields = ", ".join([f"{name}={getattr(self, name)!r}" for name in self.__class__.__annotations__])
        return f"{self.__class__.__name__}({fields})"


class StateChanged(SessionUpdate):
    state: State


class RunStarted(SessionUpdate):
    """A run begins. Its prompt is not expanded yet, and hooks have not seen it."""

    cause: Literal["prompt", "report", "queue"]  # queue: prompts that were handed to an earlier run
    prompt: Prompt | None = None
    message: User | None = None  # the prompt as a message, with its id


class PromptExpanded(SessionUpdate):
    """What the prompt's mentions brought, and what they did not bring."""

    attached: tuple[AttachedMention, ...] = ()
    missing: tuple[str, ...] = ()  # files that are mentioned and do not exist


class PromptBlocked(SessionUpdate):
    """A hook refused the prompt, or it could not be expanded: the model is not asked. This ends the run."""

    reason: str


class PromptAnswered(SessionUpdate):
    """A slash command that needs no model. This ends the run."""

    text: str


class PromptReturned(SessionUpdate):
    """The run was interrupted before the model saw its prompt. This ends the run."""

    prompt: Prompt | None


class RunBroken(SessionUpdate):
    """The journal failed, or we did: the run ends without a result (law 3)."""

    error: Exception


class SessionReset(SessionUpdate):
    """Another conversation has taken the place of the one before it."""

    before: str  # session ids
    after: str
    why: Literal["clear", "resume", "rewind", "reload"]


class Idle(SessionUpdate):
    """Nothing is to be run now."""

    background: int = 0  # subagents that will report


class TaskChanged(SessionUpdate):
    """A command in the background has started, or is over."""

    task: Any


class Notice(SessionUpdate):
    """For the person."""

    text: str
    level: Literal["info", "warning"] = "info"


class HookStarted(SessionUpdate):
    hook: Any


class HookFinished(SessionUpdate):
    hook: Any


# --- the stream ---


AnyUpdate = Update | SessionUpdate


class UpdateStream:
    def __init__(
        self,
        begin: Callable[[], object],
        observe: Callable[[AnyUpdate], object],
        observed: frozenset[type] = frozenset(),
    ) -> None:
        """`begin` is called with the first read; `observe` sees updates of these classes before the reader does."""
        self._begin, self._observe, self._observed = begin, observe, observed
        self._queue: deque[AnyUpdate] = deque()
        self._run: Run | None = None
        self._run_over: asyncio.Future[None] | None = None
        self._finishing: asyncio.Task[None] | None = None  # the run whose result was taken
        self._reader: asyncio.Future[None] | None = None  # waits for something to be queued
        self._behind: list[asyncio.Future[None]] = []  # who waits for the reader
        self._waits = False  # the reader has taken everything, and waits
        self._reading = self._begun = self._closed = False

    # --- the reader ---

    def __aiter__(self) -> UpdateStream:
        return self

    @property
    def unread(self) -> bool:
        """Something has happened that the reader has not taken yet."""
        return bool(self._queue) or (self._run is not None and self._run.unread)

    async def __anext__(self) -> AnyUpdate:
        if self._reading:
            raise UsageError("somebody else reads this session: one of you reads, and hands the updates on")
        if (run := self._run) is not None and run.unread:
            update: AnyUpdate = run.take()  # the common case, and the quick one
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
            except Exception as error:  # noqa: BLE001  # the session decides what a broken run comes to
                self._end_run(error)
            finally:
                self._waits = False

    async def _finish_run(self, result: Result) -> None:
        """Who has the result finds the session in order: its history is complete, and another run can begin. A reader
        that is cancelled meanwhile gets the result with its next read."""
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
        except Exception as error:  # noqa: BLE001  # told behind the result
            broken = error
        while run.unread:
            self._queue.append(run.take())
        self._end_run(broken)

    async def _something(self) -> None:
        self._reader = asyncio.get_running_loop().create_future()
        await self._reader

    # --- the session ---

    def push(self, update: AnyUpdate) -> None:
        """In its place: behind what has happened in the run under way."""
        if self._closed or (self._run is not None and self._run.show(update)):
            return
        self._queue.append(update)
        self._wake_reader()

    async def follow(self, run: Run) -> None:
        """The reader takes the updates of this run. Returns at its end; raises what broke it."""
        self._run = run
        self._run_over = over = asyncio.get_running_loop().create_future()
        self._wake_reader()
        try:
            await over
        finally:
            self._run = self._run_over = None
            self._wake_reader()

    def leave_run(self) -> None:
        """The run that was to be followed is not wanted any more, and has not begun."""
        self._end_run()

    async def caught_up(self) -> None:
        """Return when the reader has taken every update and has come back for more."""
        came_back = self._waits
        while not self._closed and (not came_back or self.unread):
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._behind.append(waiting)
            await waiting
            came_back = True  # though its read may have been cancelled since

    def close(self) -> None:
        """Nothing more comes: the reader gets what is queued, then the end."""
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
