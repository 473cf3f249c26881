"""Shell commands: each in a session of its own, so that whatever it starts ends with it.

The tools package will replace this: there is no sandbox here.
"""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from contextlib import suppress

from mainspring.core.errors import ToolError

SHOWN = 30_000  # bytes of output that are kept at its beginning, and as many at its end
LINGER = 1.0  # seconds for the output to end when the command has: something may have fled into a session of its own


class Shell:
    def __init__(self, folder: str, environment: dict[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self._alive: set[int] = set()

    async def run(self, command: str, seconds: float) -> str:
        """What it printed. Raises `ToolError` if it failed."""
        child = await self._start(command)
        timed_out = False
        try:
            async with asyncio.timeout(seconds):
                await child.exited.wait()
        except TimeoutError:
            timed_out = True
        finally:  # also if we were cancelled, by the engine or by Ctrl-C
            await self._end(child)
        output = child.output
        if timed_out:
            raise ToolError(f"{output.rstrip()}\nno end after {seconds:g} seconds".lstrip())
        if child.code:
            raise ToolError(f"{output.rstrip()}\nexit code {child.code}")
        return output

    def kill(self) -> None:
        """End everything now, from anywhere: also from a signal handler."""
        for group in self._alive:
            kill(group)

    async def _start(self, command: str) -> Child:
        """Cancelled halfway, asyncio would kill the shell alone: so the start is completed first, and then undone."""
        loop = asyncio.get_running_loop()
        starting = loop.create_task(
            loop.subprocess_exec(
                Child,
                *("/bin/sh", "-c", command),
                cwd=self._folder,
                env=self._environment,
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=STDOUT,
                start_new_session=True,
            )
        )
        try:
            transport, child = await asyncio.shield(starting)
        except asyncio.CancelledError:
            _, child = await starting
            await self._end(child)
            raise
        self._alive.add(transport.get_pid())
        return child

    async def _end(self, child: Child) -> None:
        """Kill what is left of it, and read to the end, so that nothing is left open."""
        kill(child.pid)
        await child.exited.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER):
                await child.closed.wait()
        child.close()
        self._alive.discard(child.pid)


class Child(asyncio.SubprocessProtocol):
    """A command that runs. Its output is always read, so that it is never held up; but only so much is kept.

    Not `asyncio.subprocess`: there, waiting for the end also waits for everybody who holds the output.
    """

    def __init__(self) -> None:
        self.exited = asyncio.Event()
        self.closed = asyncio.Event()
        self.pid = 0
        self._head, self._tail, self._left_out = b"", b"", 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport = transport
        self.pid = transport.get_pid()

    def pipe_data_received(self, fd: int, data: bytes) -> None:  # noqa: ARG002  # both are one
        room = SHOWN - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        self._left_out += max(0, len(self._tail) - SHOWN)
        self._tail = self._tail[-SHOWN:]

    def process_exited(self) -> None:
        self.exited.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # what is lost is lost
        self.closed.set()

    @property
    def code(self) -> int | None:
        return self._transport.get_returncode()

    @property
    def output(self) -> str:
        note = f"\n... {self._left_out:,} bytes left out ...\n".encode() if self._left_out else b""
        return (self._head + note + self._tail).decode(errors="replace")

    def close(self) -> None:
        self._transport.close()


def kill(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # it ended by itself just now; the second is macOS for that
        os.killpg(group, signal.SIGKILL)
