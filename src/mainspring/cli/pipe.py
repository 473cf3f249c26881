"""`mainspring --input-format stream-json`: a program drives us over standard input and output, in lines of JSON."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncGenerator

from mainspring.assembly.options import Options
from mainspring.assembly.parts import Parts, prepare
from mainspring.cli.collector import begun
from mainspring.cli.hearing import lines
from mainspring.cli.signals import INTERRUPT, Signals
from mainspring.cli.stdout import Pipe
from mainspring.driven.door import Door, Host, compatible
from mainspring.driven.incoming import Incoming, incoming
from mainspring.driven.outgoing import Outgoing


def serve(options: Options) -> int:
    with Signals() as signals:
        door = Door(options, Host(prepared, heard, Outgoing(Pipe().write), begun, gc.collect))
        signals.check()
        signals.kill = door.kill
        code = asyncio.run(served(door, signals))
    if signals.code == INTERRUPT:
        return 0  # as its clients know it: the turn was interrupted, and the session left in order
    return signals.code or code


async def served(door: Door, signals: Signals) -> int:
    signals.during(signals.ending(asyncio.get_running_loop(), door.stop))
    return await door.serve()


def prepared(options: Options) -> Parts:
    return prepare(options, compatible(dict(os.environ)))


async def heard() -> AsyncGenerator[Incoming, None]:
    """Raises `BadLineError`."""
    async for line in lines():
        if (one := incoming(line)) is not None:
            yield one
