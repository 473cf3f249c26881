"""Between a session and the program that it lives in: objects instead of lines of JSON, in the same order.

Both sides may ask at any time. What the session asks is answered by functions of the program, each in a task of its
own; messages wait until the program reads them, and the session waits with them (A-03).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import msgspec

from mainspring.driven.incoming import Incoming, Reply, Request
from mainspring.engine.channel import Channel
from mainspring.engine.endings import end_all
from mainspring.engine.plain import new_id
from mainspring.sdk.complaints import is_cancelled
from mainspring.sdk.errors import ClaudeSDKError, CLIConnectionError
from mainspring.sdk.mirror import Mirror

Frame = dict[str, Any]
Answer = Callable[[Frame], Awaitable[Frame]]

OVER = "the session is over: connect again"


class Line:
    def __init__(self, answer: Answer, mirror: Mirror | None) -> None:
        """`answer` is asked what the session asks; `mirror` gets lines for a store."""
        self.messages: Channel[Frame] = Channel()
        self._answer, self._mirror = answer, mirror
        self.reply: Callable[[Reply], object] = self.say  # to the session: also when nothing more will be said
        self._said: asyncio.Queue[Incoming | None] = asyncio.Queue()
        self._asked: dict[str, asyncio.Future[Frame]] = {}  # of the session
        self._answering: dict[str, asyncio.Task[None]] = {}  # what it asked
        self.over = False

    # --- the session's side ---

    async def heard(self) -> AsyncGenerator[Incoming, None]:
        while (one := await self._said.get()) is not None:
            yield one

    async def put(self, *frames: Frame) -> None:
        for frame in frames:  # built of plain values only, and the program's own: it may change them
            if self._mirror is not None and frame["type"] == "result":
                await self._mirror.flush()
            self._take(msgspec.to_builtins(frame, enc_hook=str))

    async def raw(self, lines: list[bytes]) -> None:
        for line in lines:
            self._take(msgspec.json.decode(line))

    async def room(self) -> None:
        await self.messages.room()

    def _take(self, frame: Frame) -> None:
        match frame["type"]:
            case "control_request":
                task = asyncio.ensure_future(self._answered(frame["request_id"], frame["request"]))
                self._answering[frame["request_id"]] = task
            case "control_cancel_request":
                if (asking := self._answering.get(frame["request_id"])) is not None:
                    asking.cancel()
            case "control_response":
                self._hear(frame["response"])
            case "transcript_mirror" if self._mirror is not None:
                self._mirror.take(frame)
            case _:
                self.messages.push(frame)

    async def _answered(self, id: str, request: Frame) -> None:
        try:
            self.reply(Reply(id, await self._answer(request)))
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            self.reply(Reply(id, {}, error="CancelledError: it was cancelled, or what it waited for"))
        except Exception as error:  # noqa: BLE001  # whatever a function of the program raises is its answer
            self.reply(Reply(id, {}, error=f"{type(error).__name__}: {error}"))
        finally:
            self._answering.pop(id, None)

    # --- the program's side ---

    def say(self, one: Incoming) -> None:
        self._said.put_nowait(one)

    def hang_up(self) -> None:
        """Nothing more will be said."""
        self._said.put_nowait(None)

    async def ask(self, subtype: str, **fields: Any) -> Frame:
        """Raises `ClaudeSDKError` if the session says no, or is over."""
        if self.over:
            raise CLIConnectionError(OVER)
        own_id = new_id()
        answer: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self._asked[own_id] = answer
        self.say(Request(own_id, subtype, {"subtype": subtype, **fields}))
        try:
            said = await answer
        finally:
            self._asked.pop(own_id, None)
        if said.get("subtype") == "error":
            raise ClaudeSDKError(said["error"])
        return said.get("response") or {}

    def _hear(self, response: Frame) -> None:
        answer = self._asked.get(response["request_id"])
        if answer is not None and not answer.done():
            answer.set_result(response)

    async def close(self) -> None:
        """The session is over: nobody waits for it, or works for it, any more."""
        self.over = True
        self.messages.close()
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(CLIConnectionError(OVER))
        await end_all(self._answering.values())
