"""`mainspring --input-format stream-json`: a program drives us over standard input and output, in lines of JSON."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncGenerator

from mainspring.agent.config import ResolvedConfig, resolve_config
from mainspring.agent.options import SessionOptions, StartError, sanitize_words
from mainspring.cli.collector import freeze_garbage_collector
from mainspring.cli.flags import Arguments
from mainspring.cli.hearing import read_stdin_lines
from mainspring.cli.signals import INTERRUPT, Signals
from mainspring.cli.stdio import safe_bytes
from mainspring.cli.stdout import StdoutWriter
from mainspring.core.errors import UsageError
from mainspring.engine.session_deps import new_id
from mainspring.settings.load import with_compatible_home
from mainspring.stream_json.incoming import Incoming, parse_incoming
from mainspring.stream_json.outgoing import PipeFrameSink
from mainspring.stream_json.outgoing import encode_line as line_of
from mainspring.stream_json.server import ServerProcess, StreamJsonServer
from mainspring.stream_json.task_frames import never_begun


def serve(arguments: Arguments) -> int:
    with Signals() as signals:
        door = made_or_told(arguments)
        signals.check()
        signals.kill = door.kill
        code = asyncio.run(serve_stdio(door, signals))
    if signals.code == INTERRUPT:
        return 0  # as its clients know it: the turn was interrupted, and the session left in order
    return signals.code or code


def made_or_told(arguments: Arguments) -> StreamJsonServer:
    """What is wrong with the surroundings (no key, a folder that is not there) the program hears as a result, too: its
    client would else know of an exit code, and no reason."""
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
        os.write(1, safe_bytes(1, line_of(never_begun(sanitize_words(str(error)), session_id))))
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
