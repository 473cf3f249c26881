"""How somebody else's code is waited for: a function or a coroutine, not longer than it may take, and never held up by
one that does not end.

What can be seen of hooks from outside: that one is asked, and what came of it (stream-json 6.7). For whoever shows
it: nothing depends on it, and what the watcher does is no concern of the hook.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import os
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Literal, Protocol, TypeVar, cast

import msgspec

from mainspring.core.value import Bundle, Value
from mainspring.hooks.events import OF_TOOLS, HookPoint, HookResult

PATIENCE = 5.0  # seconds for one that was cancelled: a command has two until it is killed, and then some to be gone

Ask = Callable[[dict[str, Any]], Awaitable[object] | object]
Result = TypeVar("Result")


class HookCallError(Exception):
    """A hook that could not be asked at all."""


class HookTimeoutError(HookCallError):
    """One that took longer than it may."""


class HookOutput(Bundle):
    """An answer as a command gives it: what it printed, and how it ended. `meant` reads it, and raises for what is no
    answer."""

    stdout: str
    stderr: str
    code: int
    meant: Callable[[], object]


class AsyncHookAnswer(Bundle):
    """An answer: nobody need wait for me. `rest` is what is still under way, and how long it may take."""

    rest: asyncio.Future[Any]
    seconds: float
    spoken: Callable[[Any], HookOutput] | None = None  # what has come of it, by its result


async def call_hook(ask: Ask, facts: dict[str, Any]) -> object:
    """A plain function runs in a thread: one that hangs would otherwise hold up everything, its own time limit too."""
    try:
        answer = ask(facts) if is_async(ask) else await call_in_thread(ask, facts)
        return await cast("Awaitable[object]", answer) if inspect.isawaitable(answer) else answer
    except SystemExit as error:  # `sys.exit` in a hook is the end of the hook
        raise RuntimeError(f"it called sys.exit({error.code!r})") from None


def is_async(ask: Ask) -> bool:
    return inspect.iscoroutinefunction(ask) or inspect.iscoroutinefunction(getattr(ask, "__call__", None))  # noqa: B004


async def wait_with_timeout(work: asyncio.Future[Result], seconds: float) -> Result:
    """Its result; or `HookCallError`, and it is over. So it is if we are cancelled."""
    try:
        done, _ = await asyncio.wait({work}, timeout=seconds)
    except asyncio.CancelledError:  # by whoever waits for the opinion: the run is over
        await cancel_and_wait(work)
        raise
    if not done:
        await cancel_and_wait(work)
        raise HookTimeoutError(f"took longer than {seconds:g} seconds")
    if work.cancelled():
        raise RuntimeError("it was cancelled from within")
    return work.result()


async def cancel_and_wait(work: asyncio.Future[Any]) -> None:
    """End it. One that does not end when it is told to is left to itself."""
    work.cancel()
    work.add_done_callback(_look_at)
    await asyncio.wait({work}, timeout=PATIENCE)


def _look_at(work: asyncio.Future[Any]) -> None:
    """Nobody else will."""
    if not work.cancelled():
        work.exception()


async def call_in_thread(ask: Ask, facts: dict[str, Any]) -> object:
    """In one that the end of the process does not wait for, as it would for those of `asyncio.to_thread`."""
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[object] = loop.create_future()
    context = contextvars.copy_context()

    def tell(answer: object, error: BaseException | None) -> None:
        if answered.done():  # nobody waits any more
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
        except StopIteration as error:  # which a future cannot carry
            wrong = RuntimeError(f"it raised {error!r}")
        except BaseException as error:  # noqa: BLE001  # it is raised where the hook is asked
            wrong = error
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(tell, answer, wrong)

    threading.Thread(target=work, name="hook", daemon=True).start()
    return await answered


MOST_SEEN = 100_000  # characters of each text: a program that reads along wants to know, not to have it all
# What a point is about, beside its own name; points of tools are about the tool.
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
    """A hook is being asked."""

    id: str
    name: str  # 'PreToolUse:Bash', 'SessionStart:startup', 'Stop'
    point: HookPoint


class HookCallFinished(Value):
    """It has answered, or never will."""

    id: str
    name: str
    point: HookPoint
    outcome: How
    output: str = ""  # what it has to say: what a command printed, what a function returned, or what went wrong
    stdout: str = ""  # of a command
    stderr: str = ""
    code: int | None = None  # with which a command ended


class HookObserver(Protocol):
    async def starts(self, hook: HookCallStarted) -> None:
        """Before it is asked, which waits for this: so that it can be told of behind all that came before it."""
        ...

    def ended(self, hook: HookCallFinished) -> None: ...


class NoHookObserver:
    """Nobody looks."""

    async def starts(self, hook: HookCallStarted) -> None:
        pass

    def ended(self, hook: HookCallFinished) -> None:
        pass


class HookWatch:
    """One hook, from when it is asked until it has answered: told of once each."""

    def __init__(self, watcher: HookObserver, point: HookPoint, facts: dict[str, Any]) -> None:
        self._watcher = watcher
        self._started = HookCallStarted(os.urandom(8).hex(), name_of(point, facts), point)
        self._answered: HookCallFinished | None = None
        self.goes_on = False  # nobody waits for it any more, and it has not ended yet

    async def starts(self) -> None:
        with contextlib.suppress(Exception):  # of whoever looks on
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
        """What a command printed is still worth more than our words."""
        if self._answered is not None:
            self._answered = msgspec.structs.replace(self._answered, outcome=how)
        else:
            self._answer(how, why, stderr=why)

    def over(self) -> None:
        """It ended in one of these ways, or else somebody ended it."""
        with contextlib.suppress(Exception):
            self._watcher.ended(self._answered or self._made("cancelled"))

    def _answer(self, how: How, output: str, **more: Any) -> None:
        self._answered = self._made(how, output=output[:MOST_SEEN], **more)

    def _made(self, how: How, **more: Any) -> HookCallFinished:
        of = self._started
        return HookCallFinished(of.id, of.name, of.point, how, **more)


def name_of(point: HookPoint, facts: dict[str, Any]) -> str:
    about = facts.get("tool_name" if point in OF_TOOLS else ABOUT.get(point, ""))
    return f"{point}:{about}" if about else str(point)


def answer_to_json(answer: object) -> str:
    """As a program would have written it: of an opinion, what it holds."""
    told = {k: v for k, v in msgspec.structs.asdict(answer).items() if v} if isinstance(answer, HookResult) else answer
    try:
        return msgspec.json.encode(told).decode()
    except (TypeError, ValueError, RecursionError):
        return ""
