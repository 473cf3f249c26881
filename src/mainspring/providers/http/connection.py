"""One socket and one answer at a time: bytes out, and what httptools makes of the bytes that come in.

`HttpResponse` does no I/O. `ClientConnection` is the asyncio protocol that feeds it, keeps the clock, and holds the
server back when nobody reads.
"""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from mainspring.core.errors import ProviderError
from mainspring.core.reasons import Failure, Trouble
from mainspring.core.value import Bundle


class ResponseLimits(Bundle):
    """Bytes. A server that sends more has lost its way, or means us harm."""

    line: int = 16 * 1024  # of one header: what Node takes for all of them
    head: int = 64 * 1024  # of all headers; and of anything else that is not body, in a row
    error: int = 1024 * 1024  # of an error's body that is looked at: words for a person
    message: int = 256 * 1024 * 1024  # of a body; 128,000 tokens, each in an event of 150 bytes, are 20 MB


LIMITS = ResponseLimits()
UNREAD = 1024 * 1024  # bytes that may wait for the reader; beyond, the server must (settled 16 keeps it far below)


def network_error(detail: str) -> ProviderError:
    return ProviderError(Failure(Trouble.NETWORK, detail))


class HttpResponse:
    """Bytes in; status, headers and body out. `wake` is called when there is something new to look at."""

    def __init__(self, place: str, limits: ResponseLimits, wake: Callable[[], None]) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body: list[bytes] = []  # what is here and not yet taken,
        self.unread = 0  # and how much that is
        self.begun = False  # a byte of the status line is here
        self.interims = 0  # answers with a 1xx status, which precede it
        self.headed = False  # status and headers are
        self.ended = False  # all of it is
        self.clean = False  # and the connection can carry another one
        self.failure: Failure | None = None
        self._place = place
        self._limits = limits
        self._wake = wake
        self._parser = HttpResponseParser(self)
        self._head = 0
        self._size = 0
        self._aside = 0  # bytes since the last one of a body: headers, trailers, chunk extensions, 1xx answers

    def feed(self, data: bytes) -> None:
        self._aside += len(data)
        if not self.begun:
            self.begun = True
            self._wake()
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            self.clean = False
            self.fail(Trouble.NETWORK, "sent what is not an answer in HTTP/1.1")
        if self._aside > self._limits.head:
            self._too_much("in headers", self._limits.head)

    def take(self) -> bytes:
        taken = self.body[0] if len(self.body) == 1 else b"".join(self.body)
        self.body.clear()
        self.unread = 0
        return taken

    def end(self) -> None:
        """The server closed. Only an answer that gives no length ends that way; anything else is cut short. (Over TLS
        asyncio does not tell an orderly close from a cut: there it is the stream's own end that counts.)"""
        if self.headed and not self.headers.keys() & {"content-length", "transfer-encoding"}:
            self.ended = True
            self._wake()
        elif self.headed:
            self.fail(Trouble.NETWORK, "closed the connection in the middle of its answer")
        else:
            self.fail(Trouble.NETWORK, "closed the connection without an answer")

    def fail(self, kind: Trouble, what: str) -> None:
        if self.failure is None and not self.ended:
            self.failure = Failure(kind, f"'{self._place}' {what}")
            self._wake()

    def _too_much(self, where: str, limit: int) -> None:
        self.fail(Trouble.SERVER, f"sent more than {limit:,} bytes {where}")

    # --- called by the parser; what they raise stops it

    def on_message_begin(self) -> None:
        if self.ended:
            raise ValueError  # a second answer to one request

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.headed:
            return  # a trailer
        size = len(name) + len(value)
        self._head += size
        if size > self._limits.line:
            self._too_much("in one header", self._limits.line)
        if self._head > self._limits.head:
            self._too_much("in headers", self._limits.head)
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip()
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        if self.status >= 200:
            self.headed = True
            self._wake()

    def on_body(self, data: bytes) -> None:
        self._aside = 0
        self._size += len(data)
        self.unread += len(data)
        self.body.append(data)
        if self._size > self._limits.message:
            self._too_much("in one answer", self._limits.message)
        self._wake()

    def on_message_complete(self) -> None:
        if self.status >= 200:
            self.ended = True
            self.clean = self._parser.should_keep_alive()
        else:  # 1xx: the answer itself is still to come, and has all its time
            self.headers.clear()
            self.begun = False
            self.interims += 1
        self._wake()


# Bytes that are copied for one write: as few as start asyncio waiting for the kernel, where we write the rest past it;
# else enough to be worth the way. Joined as a whole, a request would stand in memory twice, and the heap keep the room.
FEW, BATCH = 16 * 1024, 256 * 1024
MOST_PIECES = 1024  # that the kernel takes at once (IOV_MAX)
CAN_GATHER = hasattr(os, "writev")


class UnsentRequest:
    """What is still to be sent of a request."""

    def __init__(self, pieces: Sequence[bytes] = (), size: int = 0) -> None:
        self.left = size  # bytes
        self._pieces: Sequence[bytes] = pieces
        self._at = 0  # the first piece that is not wholly sent,
        self._gone = 0  # and how many bytes of it are

    def write(self, fd: int) -> None:
        """What the kernel takes, from where it lies: nothing is copied."""
        while self.left:
            some: Sequence[bytes | memoryview] = self._pieces[self._at : self._at + MOST_PIECES]
            if self._gone:
                some = (memoryview(some[0])[self._gone :], *some[1:])
            end = self._at + len(some)
            self._sent(os.writev(fd, some))
            if self._at < end:
                return  # it is full: to try once more would only raise

    def batch(self, most: int) -> bytes:
        """The next bytes, in one piece."""
        some: list[memoryview] = []
        size, at, begin = 0, self._at, self._gone
        while size < min(most, self.left):
            some.append(memoryview(self._pieces[at])[begin : begin + most - size])
            size += len(some[-1])
            at, begin = at + 1, 0
        self._sent(size)
        return b"".join(some)

    def _sent(self, size: int) -> None:
        self.left -= size
        if not self.left:
            self._pieces = ()  # lets go of the request
            return
        size += self._gone
        while size >= (length := len(self._pieces[self._at])):
            size -= length
            self._at += 1
        self._gone = size


class ClientConnection(asyncio.Protocol):
    """A socket. `answer` is the one that is awaited; without it, whatever the server sends is unasked for."""

    raw: asyncio.Transport  # the socket's own; it closes everything that is built upon it
    transport: asyncio.Transport  # where to write: the same, or TLS above it

    def __init__(self, place: str, limits: ResponseLimits) -> None:
        self.place = place
        self.answer: HttpResponse | None = None
        self.lost = False  # the other side ended it
        self.sent_at = 0.0
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._patience = 0.0
        self._asked_at = 0.0  # since when the server owes us headers
        self._request = UnsentRequest()  # what neither the kernel nor asyncio has been given yet
        self._full = False  # asyncio wants no more for now
        self._unsent = 0  # bytes of the request that were not yet with the kernel when we last looked
        self._paused = False

    # --- for the reader

    def send(self, request: Sequence[bytes], size: int) -> None:
        """`size`: bytes of all pieces. What the kernel does not take at once follows while the answer is awaited."""
        self.answer = HttpResponse(self.place, self._limits, self._wake)
        self._request = UnsentRequest(request, size)
        self._send_on()
        self.sent_at = self._asked_at = self._loop.time()
        self._unsent = self._left()

    def _send_on(self) -> None:
        """To the kernel itself, if nothing stands between: so the request is copied nowhere. What it does not take is
        asyncio's, a little at a time: it says when there is room again."""
        request, raw = self._request, self.raw
        direct = CAN_GATHER and self.transport is raw
        while request.left and not self._full and not raw.is_closing():
            if direct and not raw.get_write_buffer_size():
                with suppress(OSError):  # mostly, it is full; what else it may be, asyncio will meet at its own write
                    request.write(raw.get_extra_info("socket").fileno())
                if not request.left:
                    return
                raw.set_write_buffer_limits(0)  # there is room again when asyncio's own buffer is empty
            self.transport.write(request.batch(FEW if direct else BATCH))

    def _left(self) -> int:
        return self._request.left + self.raw.get_write_buffer_size()

    async def head(self, seconds: float) -> HttpResponse:
        """The answer, once its status and headers are here: all of them within this time, however they drip in."""
        answer = self.answer
        assert answer is not None
        interims = 0
        while not answer.headed:
            if answer.failure is not None:
                raise ProviderError(answer.failure)
            if answer.interims > interims:
                interims, self._asked_at = answer.interims, self._loop.time()
            await self.news(seconds, self._loop.time() - self._asked_at)
        return answer

    def news(self, seconds: float, waited: float = 0.0) -> asyncio.Future[None]:
        """Done when something happened; the answer fails if that takes longer. The clock runs from here, so time in
        which nobody asks does not count, unless it is `waited`. One timer serves many waits."""
        self._waiter = waiter = self._loop.create_future()
        self._patience = seconds
        left = max(0.0, seconds - waited)
        self._due = self._loop.time() + left
        if self._timer is None or self._timer.when() > self._due:
            self._look_again(left)
        return waiter

    def take(self) -> bytes:
        assert self.answer is not None
        if self._paused:
            self._paused = False
            self.transport.resume_reading()
        return self.answer.take()

    def abort(self) -> None:
        self._stop_timer()
        self.raw.abort()

    # --- for the pool

    def rest(self, seconds: float) -> bool:
        """Whether the connection can wait for another request; it will, but not longer than this."""
        answer, self.answer = self.answer, None
        self._stop_timer()
        if answer is None or answer.body or not answer.clean:
            return False
        if self.raw.is_closing() or self._left():  # closed since; answered before it was all sent
            return False
        self._timer = self._loop.call_later(seconds, self.abort)
        return True

    def rouse(self) -> bool:
        """Whether the server still listens, as far as one can know: a close, or a byte nobody asked for, makes the
        socket readable, also if the loop has not seen it yet."""
        self._stop_timer()
        if self.raw.is_closing():
            return False
        poll = select.poll()
        poll.register(self.raw.get_extra_info("socket").fileno(), select.POLLIN)
        return not poll.poll(0)

    # --- time

    def _look_again(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = self._loop.call_later(min(seconds, self._patience / 10) if self._unsent else seconds, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._waiter is None or self._waiter.done() or self.answer is None:
            return  # nobody waits; the next who does sets the timer again
        now, unsent = self._loop.time(), self._left()
        if unsent < self._unsent:
            # A long request on a thin line: the server's time begins when it is sent.
            self._due, self._asked_at = now + self._patience, now
        self._unsent = unsent
        if self._due > now:
            self._look_again(self._due - now)
        elif unsent:
            self.answer.fail(Trouble.NETWORK, f"timed out: took nothing of the request for {self._patience:g} seconds")
        elif self.answer.headed:
            self.answer.fail(Trouble.NETWORK, f"timed out: silent for {self._patience:g} seconds within its answer")
        else:
            self.answer.fail(Trouble.NETWORK, f"timed out: no answer within {self._patience:g} seconds")

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # --- called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.raw = self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        answer = self.answer
        if answer is None:
            self.abort()
            return
        answer.feed(data)
        if answer.failure is not None:
            self.abort()
        elif answer.unread > UNREAD and not self._paused:
            self._paused = True
            self.transport.pause_reading()

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self._send_on()

    def eof_received(self) -> None:
        self.lost = True
        if self.answer is not None:
            self.answer.end()
        self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self._stop_timer()
        if self.answer is not None:
            self.answer.fail(Trouble.NETWORK, "reset the connection" if exc else "closed the connection")
        if not self.gone.done():
            self.gone.set_result(None)
