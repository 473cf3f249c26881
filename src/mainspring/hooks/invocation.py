"""How somebody else's code is waited for: a function or a coroutine, not longer than it may take, and never held up by
one that does not end.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from mainspring.core.value import Bundle

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
