"""A bounded way from a run, and the agents below it, to one consumer; closable from both ends."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")

CAPACITY = 16  # about one terminal frame of updates; more would only delay the moment the loop feels a slow reader


class Channel(Generic[T]):
    """The producer pushes without waiting and asks for room between its effects (settled 16).

    So a socket is always read at its own speed, one reply deep at most, while a slow consumer still slows the loop.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._items: deque[T] = deque()
        self._capacity = capacity
        self._closed = False  # by the producer: nothing more will come
        self._left = False  # by the consumer: nobody listens
        self._reader: asyncio.Future[None] | None = None
        self._writers: list[asyncio.Future[None]] = []  # the loop itself, and agents whose updates come this way

    # --- the producer's end ---

    def push(self, item: T) -> None:
        if not self._left:
            self._items.append(item)
            if self._reader is not None:
                _wake(self._reader)
                self._reader = None

    async def room(self) -> None:
        """Wait until the consumer has caught up, or has left."""
        while len(self._items) >= self._capacity and not self._left:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._writers.append(waiting)
            await waiting

    def close(self) -> None:
        self._closed = True
        _wake(self._reader)

    @property
    def over(self) -> bool:
        """Closed from either end."""
        return self._closed or self._left

    # --- the consumer's end ---

    def leave(self) -> None:
        self._left = True
        self._items.clear()
        self._wake_writers()
        _wake(self._reader)

    def __aiter__(self) -> Channel[T]:
        return self

    async def __anext__(self) -> T:
        while not self._items:
            if self._closed or self._left:
                raise StopAsyncIteration
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        return self.pop()

    @property
    def ready(self) -> bool:
        """There is something to `pop` without waiting."""
        return bool(self._items)

    def pop(self) -> T:
        item = self._items.popleft()
        if self._writers and len(self._items) <= self._capacity // 2:
            self._wake_writers()
        return item

    def _wake_writers(self) -> None:
        writers, self._writers = self._writers, []
        for writer in writers:
            _wake(writer)


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
