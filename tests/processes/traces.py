"""Looking for processes by a word that only they have in their command line, and waiting for states of them."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE = 20.0  # seconds until a state that never comes is a failure


def new_nap() -> str:
    """An argument for `sleep` that names its process: about a hundred seconds."""
    return f"100.{int.from_bytes(os.urandom(6), 'big'):015d}"


def with_word(word: str, *, exactly: bool = False) -> list[int]:
    """Living processes, without ourselves."""
    found: list[int] = []
    for name in os.listdir("/proc"):  # noqa: PTH208  # asked again and again: it takes a third of the time
        if name.isdigit() and int(name) != os.getpid():
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:  # noqa: PTH123
                    line = file.read()
            except OSError:
                continue
            if line == word.encode() if exactly else word.encode() in line:
                found.append(int(name))
    return found


def asleep(nap: str) -> list[int]:
    """Processes that are `sleep` by now: before that, a shell or `env` may be about to become one."""
    return with_word(f"sleep\0{nap}\0", exactly=True)


def zombies() -> list[int]:
    """Dead children of ours that nobody has reaped."""
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                state, parent = (folder / "stat").read_text().rpartition(") ")[2].split()[:2]
            except (OSError, ValueError):
                continue
            if state == "Z" and int(parent) == os.getpid():
                found.append(int(folder.name))
    return found


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "it never came to be"
        await asyncio.sleep(0.005)
