"""Standard input, line by line, without holding up the event loop.

A thread reads: standard input may be a file, which no event loop can wait for, and to make a pipe non-blocking would
change it for everybody who shares it. The process does not wait for the thread.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator
from contextlib import suppress

from mainspring.stream_json.incoming import BadLineError

CHUNK = 1 << 16
MOST_WAITING = 256  # chunks: whoever writes faster than we read has to wait
LONGEST = 1 << 27  # bytes of a line: more than any window holds, as base64


async def read_stdin_lines(fd: int = 0) -> AsyncGenerator[bytes, None]:
    """Raises `BadLineError` for one that never ends."""
    loop = asyncio.get_running_loop()
    heard: asyncio.Queue[bytes] = asyncio.Queue()
    room = threading.Semaphore(MOST_WAITING)  # for chunks that nobody has looked at yet

    def read() -> None:
        chunk = b"x"
        while chunk:
            room.acquire()
            try:
                chunk = os.read(fd, CHUNK)
            except OSError:  # it is closed: nothing will come
                chunk = b""
            with suppress(RuntimeError):  # the loop is closed: nobody listens
                loop.call_soon_threadsafe(heard.put_nowait, chunk)

    threading.Thread(target=read, name="standard-input", daemon=True).start()
    kept: list[bytes] = []
    size = 0
    while chunk := await heard.get():
        room.release()
        *whole, rest = chunk.split(b"\n")
        for one in whole:
            yield b"".join([*kept, one])
            kept, size = [], 0
        kept.append(rest)
        size += len(rest)
        if size > LONGEST:
            raise BadLineError(f"a line on standard input has more than {LONGEST:,} bytes")
    if size:
        yield b"".join(kept)
