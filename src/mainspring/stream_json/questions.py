"""What we ask of the program that drives us (stream-json 5): many at once, answered in any order, or never."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from mainspring.stream_json.incoming import ControlReply
from mainspring.stream_json.outgoing import FrameSink

SHUT = "the program that drives this session listens no more"


class CallbackError(Exception):
    """The program's own code failed. In its words."""


class OutgoingRequests:
    def __init__(self, out: FrameSink, new_id: Callable[[], str]) -> None:
        self._out, self._new_id = out, new_id
        self._open: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._shut = False

    async def ask(self, subtype: str, **fields: Any) -> dict[str, Any]:
        """Raises `CallbackError`; and `ConnectionError` if no answer can come any more. Who is cancelled withdraws the
        question."""
        if self._shut:
            raise ConnectionError(SHUT)
        own_id = self._new_id()
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._open[own_id] = answer
        try:
            await self._out.put(
                {"type": "control_request", "request_id": own_id, "request": {"subtype": subtype, **fields}}
            )
            return await answer
        except asyncio.CancelledError:
            if not self._shut and own_id in self._open:
                await self._out.put({"type": "control_cancel_request", "request_id": own_id})
            raise
        finally:
            self._open.pop(own_id, None)

    def hear(self, reply: ControlReply) -> None:
        """An answer to what nobody asked is passed over."""
        answer = self._open.pop(reply.id, None)
        if answer is None or answer.done():
            return
        if reply.error is None:
            answer.set_result(reply.value)
        else:
            answer.set_exception(CallbackError(reply.error))

    def shut(self) -> None:
        """Standard input has ended: nothing can be answered any more."""
        self._shut = True
        waiting, self._open = self._open, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(ConnectionError(SHUT))
