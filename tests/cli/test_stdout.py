"""Standard output that may be slow, or gone: every byte arrives, and the event loop goes on meanwhile."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainspring.cli.print_mode import StdoutWriter

DATA = bytes(range(256)) * 4_000  # a megabyte: more than any pipe holds


@pytest.fixture(params=["pipe", "non-blocking pipe", "socket"])
def ends(request: pytest.FixtureRequest) -> Iterator[tuple[int, int]]:
    """Where to read and where to write."""
    if request.param == "socket":
        ours, theirs = socket.socketpair()
        with ours, theirs:
            yield ours.fileno(), theirs.fileno()
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, request.param == "pipe")
    yield reading, writing
    os.close(reading)
    os.close(writing)


def test_a_slow_reader_gets_all_of_it_and_holds_up_nobody(ends: tuple[int, int]) -> None:
    reading, writing = ends

    async def main() -> tuple[bytes, int]:
        task = asyncio.create_task(StdoutWriter(writing).write(DATA))
        rounds, got = 0, b""
        while not task.done() or len(got) < len(DATA):
            await asyncio.sleep(0)
            rounds += 1
            if rounds % 10 == 0 and len(got) < len(DATA):
                got += os.read(reading, 10_000)
        await task
        return got, rounds

    got, rounds = asyncio.run(main())
    assert got == DATA
    assert rounds > 100


def test_nobody_reads() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with pytest.raises(BrokenPipeError):
        asyncio.run(StdoutWriter(writing).write(b"x"))
    os.close(writing)


def test_a_reader_that_leaves_while_we_wait() -> None:
    reading, writing = os.pipe()

    async def main() -> None:
        task = asyncio.create_task(StdoutWriter(writing).write(DATA))
        await asyncio.sleep(0)
        os.close(reading)
        await task

    with pytest.raises(BrokenPipeError):
        asyncio.run(main())
    os.close(writing)


def test_a_file_is_always_ready(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        asyncio.run(StdoutWriter(file.fileno()).write(DATA))
    assert (tmp_path / "out").read_bytes() == DATA
