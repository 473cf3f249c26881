"""Calls one hook, and reports it to an observer.

A hook is a function or a coroutine of another author: it gets a time limit, and one that does not end never blocks us.

An observer sees that a hook starts and how it ended (stream-json 6.7). It is for display only: nothing depends on it,
and its errors do not affect the hook.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import logging
import os
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Literal, Protocol, TypeVar, cast

import msgspec

from mainspring.core.value import Bundle, Value
from mainspring.hooks.events import OF_TOOLS, HookPoint, HookResult
from mainspring.text import plural

_LOG = logging.getLogger("mainspring.hooks")

PATIENCE = 5.0  # seconds for a cancelled hook: a command has two until it is killed, and then some to end

Ask = Callable[[dict[str, Any]], Awaitable[object] | object]
Result = TypeVar("Result")


class HookCallError(Exception):
    """A hook that could not run."""


class HookTimeoutError(HookCallError):
    """A hook that exceeded its time limit."""


class HookOutput(Bundle):
    """The answer of a command: its output and its exit code. `meant` parses it, and raises for an invalid answer."""

    stdout: str
    stderr: str
    code: int
    meant: Callable[[], object]


class AsyncHookAnswer(Bundle):
    """An answer that lets the hook go on in the background. `rest` is the pending part and its time limit."""

    rest: asyncio.Future[Any]
    seconds: float
    spoken: Callable[[Any], HookOutput] | None = None  # the outcome of the rest, from its result


async def call_hook(ask: Ask, facts: dict[str, Any]) -> object:
    """Runs a plain function in a thread: one that hangs would otherwise block everything, even its own time limit."""
    try:
        answer = ask(facts) if is_async(ask) else await call_in_thread(ask, facts)
        return await cast("Awaitable[object]", answer) if inspect.isawaitable(answer) else answer
    except SystemExit as error:  # `sys.exit` in a hook ends only the hook
        raise RuntimeError(f"it called sys.exit({error.code!r})") from None


def is_async(ask: Ask) -> bool:
    return inspect.iscoroutinefunction(ask) or inspect.iscoroutinefunction(getattr(ask, "__call__", None))  # noqa: B004


async def wait_with_timeout(work: asyncio.Future[Result], seconds: float) -> Result:
    """Returns the result, or raises `HookCallError` and ends the hook. A cancellation of the caller ends it, too."""
    try:
        done, _ = await asyncio.wait({work}, timeout=seconds)
    except asyncio.CancelledError:  # by the caller: the run is over
        await cancel_and_wait(work)
        raise
    if not done:
        await cancel_and_wait(work)
        raise HookTimeoutError(f"took longer than {plural(seconds, 'second')}")
    if work.cancelled():
        raise RuntimeError("it was cancelled from within")
    return work.result()


async def cancel_and_wait(work: asyncio.Future[Any]) -> None:
    """Cancels the hook. One that does not end is abandoned."""
    work.cancel()
    work.add_done_callback(_look_at)
    await asyncio.wait({work}, timeout=PATIENCE)


def _look_at(work: asyncio.Future[Any]) -> None:
    """Retrieves the exception, so that asyncio does not warn."""
    if not work.cancelled():
        work.exception()


async def call_in_thread(ask: Ask, facts: dict[str, Any]) -> object:
    """In a daemon thread: the end of the process would wait for those of `asyncio.to_thread`."""
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[object] = loop.create_future()
    context = contextvars.copy_context()

    def tell(answer: object, error: BaseException | None) -> None:
        if answered.done():  # the caller no longer waits
            return
        if error is None:
            answered.set_result(answer)
        else:
            answered.set_exception(error)

    def work() -> None:
        answer: object = None
        wrong: BaseException | None = None
        try:
            answer = context.run(ask, facts)
        except StopIteration as error:  # a future cannot carry it
            wrong = RuntimeError(f"it raised {error!r}")
        except BaseException as error:  # noqa: BLE001  # it is raised where the hook is asked
            wrong = error
        with contextlib.suppress(RuntimeError):  # the loop is closed: no caller waits any more
            loop.call_soon_threadsafe(tell, answer, wrong)

    threading.Thread(target=work, name="hook", daemon=True).start()
    return await answered


MOST_SEEN = 100_000  # characters of each text: enough for an observer
# The subject of an event, for its name; at events of tools it is the tool.
ABOUT = {
    HookPoint.SUBAGENT_START: "agent_type",
    HookPoint.SUBAGENT_STOP: "agent_type",
    HookPoint.PRE_COMPACT: "trigger",
    HookPoint.POST_COMPACT: "trigger",
    HookPoint.SESSION_START: "source",
    HookPoint.SESSION_END: "reason",
    HookPoint.NOTIFICATION: "notification_type",
}

How = Literal["success", "error", "cancelled"]


class HookCallStarted(Value):
    """A hook starts."""

    id: str
    name: str  # 'PreToolUse:Bash', 'SessionStart:startup', 'Stop'
    point: HookPoint


class HookCallFinished(Value):
    """A hook has answered, or never will."""

    id: str
    name: str
    point: HookPoint
    outcome: How
    output: str = ""  # the answer: what a command printed, what a function returned, or the error
    stdout: str = ""  # of a command
    stderr: str = ""
    code: int | None = None  # the exit code of a command


class HookObserver(Protocol):
    async def starts(self, hook: HookCallStarted) -> None:
        """Called before the hook, which waits for it, so that the report follows everything that came before."""
        ...

    def ended(self, hook: HookCallFinished) -> None: ...


class NoHookObserver:
    """Ignores everything."""

    async def starts(self, hook: HookCallStarted) -> None:
        pass

    def ended(self, hook: HookCallFinished) -> None:
        pass


class HookWatch:
    """One call of a hook, from its start to its answer: reports each once."""

    def __init__(self, watcher: HookObserver, point: HookPoint, facts: dict[str, Any]) -> None:
        self._watcher = watcher
        self._started = HookCallStarted(os.urandom(8).hex(), name_of(point, facts), point)
        self._answered: HookCallFinished | None = None
        self.goes_on = False  # it runs in the background, and has not ended yet

    async def starts(self) -> None:
        _LOG.debug("hook started name=%s id=%s", self._started.name, self._started.id)
        with contextlib.suppress(Exception):  # of the observer
            await self._watcher.starts(self._started)

    def spoke(self, spoken: HookOutput) -> None:
        """A command has ended."""
        stdout, stderr = spoken.stdout[:MOST_SEEN], spoken.stderr[:MOST_SEEN]
        how: How = "success" if spoken.code == 0 else "error"
        self._answer(how, stdout + stderr, stdout=stdout, stderr=stderr, code=spoken.code)

    def said(self, answer: object) -> None:
        """A function has returned."""
        if self._answered is None:
            self._answer("success", "" if answer is None else answer_to_json(answer))

    def failed(self, why: str, how: How = "error") -> None:
        """The output of a command is more useful than our message."""
        if self._answered is not None:
            self._answered = msgspec.structs.replace(self._answered, outcome=how)
        else:
            self._answer(how, why, stderr=why)

    def over(self) -> None:
        """It ended in one of these ways, or was cancelled."""
        ended = self._answered or self._made("cancelled")
        code = "" if ended.code is None else f" exit_code={ended.code}"
        _LOG.debug("hook finished name=%s id=%s outcome=%s%s", ended.name, ended.id, ended.outcome, code)
        with contextlib.suppress(Exception):
            self._watcher.ended(ended)

    def _answer(self, how: How, output: str, **more: Any) -> None:
        self._answered = self._made(how, output=output[:MOST_SEEN], **more)

    def _made(self, how: How, **more: Any) -> HookCallFinished:
        of = self._started
        return HookCallFinished(of.id, of.name, of.point, how, **more)


def name_of(point: HookPoint, facts: dict[str, Any]) -> str:
    about = facts.get("tool_name" if point in OF_TOOLS else ABOUT.get(point, ""))
    return f"{point}:{about}" if about else str(point)


def answer_to_json(answer: object) -> str:
    """As a program would have written it: the fields that a `HookResult` sets."""
    told = {k: v for k, v in msgspec.structs.asdict(answer).items() if v} if isinstance(answer, HookResult) else answer
    try:
        return msgspec.json.encode(told).decode()
    except (TypeError, ValueError, RecursionError):
        return ""
