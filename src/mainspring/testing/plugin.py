"""A pytest plugin: a model server on loopback, for testing any program that talks to one. It need not use mainspring.

    pytest_plugins = ["mainspring.testing.plugin"]          # in conftest.py

    def test_my_agent(model_server):
        model_server.answers("Let me look.", call("Read", file_path="a.py"))
        model_server.answers("Done.")
        model_server.fails("overloaded", times=2)
        my_agent(base_url=model_server.url)
        assert len(model_server.requests) == 4

The server runs in a thread with its own event loop, so the code under test may be synchronous or asynchronous. At the
end of the test, requests that the real API would have refused fail it, unless it calls `model_server.forgives()`.

PYTEST_DONT_REWRITE: this module has no assert, and importing `call` from it early would cause a warning.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from mainspring.core.money import NANOS_PER_USD, Usage
from mainspring.simulator.faults import FaultPlan, PlannedFault
from mainspring.simulator.forms import Violation
from mainspring.simulator.replies import Json, ReceivedConversation, ReceivedRequest, Refuse, Reply, Say
from mainspring.simulator.scripts import NO_MORE, Choose, InOrder, PromptScript, choose_by_prompt, default_reply
from mainspring.simulator.server import ModelServer, ServedRequest

T = TypeVar("T")

__all__ = ["LiveServer", "call", "model_server", "thinking"]

PATIENCE = 10.0  # seconds to start or to stop: both take milliseconds


class LiveServer:
    """A running model server, as a test sees it."""

    def __init__(self, server: ModelServer, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._loop = loop
        self._replies: deque[Reply] = deque()
        self._in_order = InOrder(self._coming())
        self._scripts: list[PromptScript] = []
        self._planned: list[PlannedFault] = []
        self._forgiven = False

    @property
    def url(self) -> str:
        return self._server.url

    # --- replies ---

    def answers(self, *parts: str | Json, stop_reason: str = "", usage: Usage | None = None) -> None:
        """Add a reply of texts and blocks. Replies come in the order of these calls."""
        self.replies(Say.of(*parts, stop_reason=stop_reason, usage=usage))

    def refuses(self, status: int, kind: str, message: str = "", **headers: str) -> None:
        """Add an error as a reply. Underscores in the names of headers become dashes."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        self.replies(Refuse(status, kind, message, given))

    def replies(self, *replies: Reply) -> None:
        self._replies.extend(replies)
        self._server.choose = self._in_order

    def _coming(self) -> Iterator[Reply]:
        while True:
            yield self._replies.popleft() if self._replies else NO_MORE

    def script(self, prompt: str, *replies: Reply) -> None:
        """Add replies to this prompt, for any session and in any order: for sessions that run side by side."""
        self._scripts.append(PromptScript(prompt, replies))
        self._server.choose = choose_by_prompt(self._scripts)

    def rule(self, choose: Choose) -> None:
        """Get replies from your function. It runs in the server's thread."""
        self._server.choose = choose

    def fails(  # noqa: PLR0913  # keywords, all of them
        self, name: str, *, times: int | None = 1, model: str = "", after: int = 0, prompt: str = "", argument: str = ""
    ) -> None:
        """Spoil replies: see `mainspring.simulator.faults.FAULTS` for the names."""
        self._planned.append(PlannedFault(name, times, model, after, prompt, argument))
        self._server.faults = FaultPlan(*self._planned)

    def fails_at_random(self, seed: int, **rates: float) -> None:
        self._server.faults = FaultPlan(*self._planned, seed=seed, rates=rates)

    def forgives(self) -> None:
        """Do not fail this test for requests that break rules."""
        self._forgiven = True

    # --- requests ---

    @property
    def requests(self) -> list[ReceivedRequest]:
        return list(self._server.requests)

    @property
    def talks(self) -> list[ReceivedConversation]:
        """The conversations of the requests."""
        return [request.talk for request in self.requests if request.body is not None]

    @property
    def answered(self) -> list[ServedRequest]:
        return list(self._server.answers)

    @property
    def violations(self) -> list[Violation]:
        return self._server.violations

    @property
    def aborted(self) -> int:
        """Answers that the client did not wait for."""
        return self._server.aborted

    @property
    def usage(self) -> Usage:
        return self._server.usage

    @property
    def cost_usd(self) -> float:
        return self._server.cost / NANOS_PER_USD

    @property
    def left(self) -> int:
        """Replies that no request used."""
        return len(self._replies)

    def until(self, condition: Callable[[], bool], *, seconds: float = 10) -> None:
        """Wait for a condition of the server."""
        self._call(self._server.until(condition, seconds=seconds))

    # --- for the fixture ---

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE * 6)

    def stop(self) -> None:
        self._call(self._server.__aexit__(None, None, None))

    def check(self) -> None:
        if not self._forgiven and self.violations:
            said = "\n".join([f"  {violation.rule}: {violation.said}" for violation in self.violations])
            raise AssertionError(f"the API would have refused these requests:\n{said}")


def live() -> Iterator[LiveServer]:
    """A server in a thread, for the duration of the block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="model server", daemon=True)
    thread.start()
    try:
        server = ModelServer(choose=default_reply, metered=True, alternate=False)
        asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(PATIENCE)
        running = LiveServer(server, loop)
        try:
            yield running
        finally:
            running.stop()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        loop.close()
    running.check()


@pytest.fixture
def model_server() -> Iterator[LiveServer]:
    """A model server for one test."""
    yield from live()


# --- blocks -------------------------------------------------------------------------------------------------


def call(name: str, id: str = "toolu_1", **input: Any) -> Json:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def thinking(words: str) -> Json:
    """Thinking; the server signs it."""
    return {"type": "thinking", "thinking": words}
