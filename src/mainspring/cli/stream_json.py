"""JSON output of print mode, and `mainspring --input-format stream-json`: a host drives the session in JSON lines.

`--output-format stream-json` prints all frames, `json` only the result.

A thread reads standard input, line by line: it may be a file, which an event loop cannot wait for, and making a pipe
non-blocking would change it for every process that shares it. The process does not wait for the thread.
"""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress

from mainspring.agent.config import ResolvedConfig, resolve_config
from mainspring.agent.options import SessionOptions, StartError, sanitize_words
from mainspring.agent.session import AgentSession
from mainspring.agent.updates import AnyUpdate
from mainspring.cli.flags import Arguments
from mainspring.cli.main import freeze_garbage_collector
from mainspring.cli.print_mode import StdoutWriter
from mainspring.cli.signals import INTERRUPT, Signals
from mainspring.cli.stdio import safe_bytes
from mainspring.core.errors import UsageError
from mainspring.engine.session_deps import new_id
from mainspring.messages_api import Object
from mainspring.settings.load import with_compatible_home
from mainspring.stream_json.incoming import BadLineError, Incoming, parse_incoming
from mainspring.stream_json.outgoing import PipeFrameSink, encode_line
from mainspring.stream_json.render import Renderer
from mainspring.stream_json.server import ServerProcess, StreamJsonServer
from mainspring.stream_json.task_frames import never_begun

Write = Callable[[bytes], Awaitable[None]]


def make_json_output(session: AgentSession, output_format: str, write: Write) -> StreamJsonOutput | JsonOutput:
    if output_format != "stream-json":
        return JsonOutput(session, write)
    if session.config.options.include_hook_events:
        session.watch_hooks()
    return StreamJsonOutput(session, write)


MOST_JOINED = 64  # lines of one write


class StreamJsonOutput:
    """Prints all frames as they arrive: those of updates that arrived together, such as the deltas of a read, with one
    write."""

    def __init__(self, session: AgentSession, write: Write) -> None:
        self._renderer, self._write = Renderer(session), write
        self._updates = session.updates()
        self._lines: list[bytes] = []  # not written yet
        self.failed = False

    async def show(self, update: AnyUpdate) -> None:
        for one in await self._renderer.read_on(update):
            for frame in self._renderer.render(one):
                self.failed = bool(frame.get("is_error"))
                await self._take(frame)
        if self._lines and (not self._updates.unread or len(self._lines) >= MOST_JOINED):
            await self._write_lines()

    async def finish(self) -> None:
        if self._lines:
            await self._write_lines()

    async def _write_lines(self) -> None:
        lines, self._lines = self._lines, []
        await self._write(b"".join(lines))

    async def _take(self, frame: Object) -> None:
        self._lines.append(encode_line(frame))


class JsonOutput(StreamJsonOutput):
    """Prints one result. If background subagents report, one prompt leads to several runs: the result is that of the
    last run, with the figures of all."""

    def __init__(self, session: AgentSession, write: Write) -> None:
        super().__init__(session, write)
        self._session, self._now = session, session.world.session.deps.now
        self._began = self._now()
        self._results: list[Object] = []  # not printed yet

    async def finish(self) -> None:
        """Prints the pending result: it was waiting for another run, and none followed."""
        if self._results:
            results, self._results = self._results, []
            await self._write(encode_line(combine_run_results(results, self._now() - self._began)))

    async def _take(self, frame: Object) -> None:
        if frame["type"] == "result":
            self._results.append(frame)
            if self.failed or not self._session.has_more:
                await self.finish()


def combine_run_results(results: list[Object], took: int) -> Object:
    """The result of several runs. Cost, usage by model and API time are already totals of the process."""
    last = results[-1]
    if len(results) == 1:
        return last
    return last | {
        "duration_ms": took,
        "num_turns": sum([one["num_turns"] for one in results]),
        "usage": add_usage([one["usage"] for one in results]),
        "permission_denials": [denial for one in results for denial in one["permission_denials"]],
        **({"estimated": True} if any("estimated" in one for one in results) else {}),
    }


def add_usage(parts: list[Object]) -> Object:
    """Adds numbers by name, also in nested objects; a boolean is copied."""
    sums: Object = {}
    for part in parts:
        for name, value in part.items():
            if isinstance(value, dict):
                sums[name] = add_usage([sums.get(name, {}), value])
            else:
                sums[name] = value if isinstance(value, bool) else sums.get(name, 0) + value
    return sums


CHUNK = 1 << 16
MOST_WAITING = 256  # chunks; a faster writer has to wait
LONGEST = 1 << 27  # bytes of a line: more than any context window holds, as base64


async def read_stdin_lines(fd: int = 0) -> AsyncGenerator[bytes, None]:
    """Raises `BadLineError` for a line that is too long."""
    loop = asyncio.get_running_loop()
    heard: asyncio.Queue[bytes] = asyncio.Queue()
    room = threading.Semaphore(MOST_WAITING)  # for chunks that are not processed yet

    def read() -> None:
        chunk = b"x"
        while chunk:
            room.acquire()
            try:
                chunk = os.read(fd, CHUNK)
            except OSError:  # it is closed: no more input
                chunk = b""
            with suppress(RuntimeError):  # the loop is closed: there is no reader
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


def serve(arguments: Arguments) -> int:
    with Signals() as signals:
        door = made_or_told(arguments)
        signals.check()
        signals.kill = door.kill
        code = asyncio.run(serve_stdio(door, signals))
    if signals.code == INTERRUPT:
        return 0  # as clients expect it: the turn was interrupted and the session closed in order
    return signals.code or code


def made_or_told(arguments: Arguments) -> StreamJsonServer:
    """Creates the server. If that fails (no key, a missing folder), the host also gets a result frame: it would
    otherwise see an exit code without a reason."""
    try:
        return StreamJsonServer(
            arguments.session,
            ServerProcess(
                resolve_pipe_config,
                read_stdin_messages,
                PipeFrameSink(StdoutWriter().write),
                freeze_garbage_collector,
                left=gc.collect,
            ),
        )
    except (StartError, UsageError) as error:
        session_id = arguments.values.get("session_id") or arguments.values.get("resume") or new_id()
        os.write(1, safe_bytes(1, encode_line(never_begun(sanitize_words(str(error)), session_id))))
        raise


async def serve_stdio(door: StreamJsonServer, signals: Signals) -> int:
    signals.during(signals.ending(asyncio.get_running_loop(), door.stop))
    return await door.serve()


def resolve_pipe_config(options: SessionOptions) -> ResolvedConfig:
    return resolve_config(options, with_compatible_home(os.environ))


async def read_stdin_messages() -> AsyncGenerator[Incoming, None]:
    """Raises `BadLineError`."""
    async for line in read_stdin_lines():
        if (one := parse_incoming(line)) is not None:
            yield one
