"""One socket and one response at a time: it sends bytes, and httptools parses the bytes that come in.

`HttpResponse` does no I/O. `ClientConnection` is the asyncio protocol that feeds it, applies the time limits, and
pauses the server when the reader is slow.
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
from mainspring.text import plural


class ResponseLimits(Bundle):
    """Limits in bytes. A server that sends more is broken or malicious."""

    line: int = 16 * 1024  # of one header: Node's limit for all of them
    head: int = 64 * 1024  # of all headers; and of anything else that is not body, in a row
    error: int = 1024 * 1024  # of an error's body that is read
    message: int = 256 * 1024 * 1024  # of a body; 128,000 tokens, each in an event of 150 bytes, are 20 MB


LIMITS = ResponseLimits()
UNREAD = 1024 * 1024  # bytes that may wait for the reader; then the server is paused (settled 16 keeps it far below)


def network_error(detail: str) -> ProviderError:
    return ProviderError(Failure(Trouble.NETWORK, detail))


class HttpResponse:
    """Bytes in; status, headers and body out. `wake` is called when there is something new."""

    def __init__(self, place: str, limits: ResponseLimits, wake: Callable[[], None]) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body: list[bytes] = []  # received and not read yet,
        self.unread = 0  # and its size in bytes
        self.begun = False  # the first byte of the status line has arrived
        self.interims = 0  # responses with a 1xx status, which precede it
        self.headed = False  # status and headers have arrived
        self.ended = False  # the whole response has arrived
        self.clean = False  # and the connection can be used again
        self.failure: Failure | None = None
        self._place = place
        self._limits = limits
        self._wake = wake
        self._parser: HttpResponseParser | None = HttpResponseParser(self)
        self._head = 0
        self._size = 0
        self._aside = 0  # bytes since the last body byte: headers, trailers, chunk extensions, 1xx responses

    def feed(self, data: bytes) -> None:
        parser = self._parser
        if parser is None:
            return
        self._aside += len(data)
        if not self.begun:
            self.begun = True
            self._wake()
        try:
            parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            self.clean = False
            self.fail(Trouble.NETWORK, "sent an invalid HTTP/1.1 response")
        if self._aside > self._limits.head:
            self._too_much("in headers", self._limits.head)

    def release(self) -> None:
        """No more data comes. The parser refers to us, so a cycle would be left for the garbage collector."""
        self._parser = None

    def take(self) -> bytes:
        taken = self.body[0] if len(self.body) == 1 else b"".join(self.body)
        self.body.clear()
        self.unread = 0
        return taken

    def end(self) -> None:
        """The server closed the connection. Only a response without a length ends that way; any other is cut short.
        (Over TLS asyncio does not tell an orderly close from a cut: there the stream's own end counts.)
        """
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

    # --- called by the parser; an exception stops it

    def on_message_begin(self) -> None:
        if self.ended:
            raise ValueError  # a second response to one request

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
        self.status = self._parser.get_status_code() if self._parser is not None else 0
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
            self.clean = self._parser is not None and self._parser.should_keep_alive()
        else:  # 1xx: the response itself follows, with its full time limit
            self.headers.clear()
            self.begun = False
            self.interims += 1
        self._wake()


# Bytes that are copied for one write: as few as make asyncio wait for the kernel, if we write the rest past it;
# otherwise enough to be efficient. Joining a whole request would need its memory twice, and the heap would keep it.
FEW, BATCH = 16 * 1024, 256 * 1024
MOST_PIECES = 1024  # buffers per system call (IOV_MAX)
CAN_GATHER = hasattr(os, "writev")


class UnsentRequest:
    """The part of a request that is not sent yet."""

    def __init__(self, pieces: Sequence[bytes] = (), size: int = 0) -> None:
        self.left = size  # bytes
        self._pieces: Sequence[bytes] = pieces
        self._at = 0  # the first piece that is not completely sent,
        self._gone = 0  # and how many of its bytes are

    def write(self, fd: int) -> None:
        """Write as much as the kernel accepts, without copying."""
        while self.left:
            some: Sequence[bytes | memoryview] = self._pieces[self._at : self._at + MOST_PIECES]
            if self._gone:
                some = (memoryview(some[0])[self._gone :], *some[1:])
            end = self._at + len(some)
            self._sent(os.writev(fd, some))
            if self._at < end:
                return  # it is full: another try would only raise

    def batch(self, most: int) -> bytes:
        """The next bytes, joined."""
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
            self._pieces = ()  # releases the request
            return
        size += self._gone
        while size >= (length := len(self._pieces[self._at])):
            size -= length
            self._at += 1
        self._gone = size


class ClientConnection(asyncio.Protocol):
    """A socket. `answer` is the awaited response; without it, anything the server sends is unexpected."""

    raw: asyncio.Transport  # the socket's own; closing it closes everything above it
    transport: asyncio.Transport  # where to write: the same, or TLS above it

    def __init__(self, place: str, limits: ResponseLimits) -> None:
        self.place = place
        self.answer: HttpResponse | None = None
        self.lost = False  # the other side closed it
        self.sent_at = 0.0
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._rests_until = 0.0  # it is idle until then; 0: it is in use
        self._poll: select.poll | None = None
        self._patience = 0.0
        self._asked_at = 0.0  # when the wait for headers began
        self._request = UnsentRequest()  # not yet passed to the kernel or asyncio
        self._full = False  # asyncio's buffer is full
        self._unsent = 0  # bytes of the request that the kernel did not have at the last check
        self._paused = False

    # --- for the reader

    def send(self, request: Sequence[bytes], size: int) -> None:
        """`size`: bytes of all pieces. Bytes that the kernel does not accept at once are sent while waiting for the
        response.
        """
        self.answer = HttpResponse(self.place, self._limits, self._wake)
        self._request = UnsentRequest(request, size)
        self._send_on()
        self.sent_at = self._asked_at = self._loop.time()
        self._unsent = self._left()

    def _send_on(self) -> None:
        """Write directly to the kernel, if there is no TLS: so the request is not copied. The rest goes through
        asyncio, a little at a time: it says when there is room again.
        """
        request, raw = self._request, self.raw
        direct = CAN_GATHER and self.transport is raw
        while request.left and not self._full and not raw.is_closing():
            if direct and not raw.get_write_buffer_size():
                with suppress(OSError):  # mostly it is full; asyncio's own write reports any other error
                    request.write(raw.get_extra_info("socket").fileno())
                if not request.left:
                    return
                raw.set_write_buffer_limits(0)  # there is room again when asyncio's buffer is empty
            self.transport.write(request.batch(FEW if direct else BATCH))

    def _left(self) -> int:
        return self._request.left + self.raw.get_write_buffer_size()

    async def head(self, seconds: float) -> HttpResponse:
        """The response, once its status and headers have arrived: all of them within this time, however slowly they
        come.
        """
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
        """Done when something happened; the response fails if that takes longer. The clock starts here, so time without
        a waiting reader does not count, unless it is `waited`. One timer serves many waits.
        """
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
        """Whether the connection can wait for another request; if so, it waits up to this limit."""
        answer, self.answer = self.answer, None
        if answer is not None:
            answer.release()
        if answer is None or answer.body or not answer.clean:
            return False
        if self.raw.is_closing() or self._left():  # closed since; or answered before the request was completely sent
            return False
        self._rests_until = self._loop.time() + seconds
        if self._timer is None or self._timer.when() > self._rests_until:
            self._stop_timer()
            self._timer = self._loop.call_at(self._rests_until, self._look)
        return True

    def rouse(self) -> bool:
        """Whether the server is still connected, as far as can be known: a close, or an unexpected byte, makes the
        socket readable, even if the loop has not seen it yet.
        """
        self._rests_until = 0.0
        if self.raw.is_closing():
            return False
        if self._poll is None:
            self._poll = select.poll()
            self._poll.register(self.raw.get_extra_info("socket").fileno(), select.POLLIN)
        return not self._poll.poll(0)

    # --- time

    def _look_again(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = self._loop.call_later(min(seconds, self._patience / 10) if self._unsent else seconds, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._rests_until:
            self._end_rest()
            return
        if self._waiter is None or self._waiter.done() or self.answer is None:
            return  # no reader waits; the next one sets the timer again
        now, unsent = self._loop.time(), self._left()
        if unsent < self._unsent:
            # A long request on a slow line: the server's time starts when it is sent.
            self._due, self._asked_at = now + self._patience, now
        self._unsent = unsent
        if self._due > now:
            self._look_again(self._due - now)
        elif unsent:
            self.answer.fail(
                Trouble.NETWORK, f"timed out: took nothing of the request for {plural(self._patience, 'second')}"
            )
        elif self.answer.headed:
            self.answer.fail(
                Trouble.NETWORK, f"timed out: silent for {plural(self._patience, 'second')} within its answer"
            )
        else:
            self.answer.fail(Trouble.NETWORK, f"timed out: no answer within {plural(self._patience, 'second')}")

    def _end_rest(self) -> None:
        """The timer is not stopped between a rest and a request: most requests come long before its time."""
        if self._rests_until <= self._loop.time():
            self.abort()
        else:
            self._timer = self._loop.call_at(self._rests_until, self._look)

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
            self.answer.release()
        if not self.gone.done():
            self.gone.set_result(None)
