"""Read, Edit and Bash as the demo needs them: real, and a few lines each. No permissions: the script is our own."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from contextlib import suppress
from functools import partial
from pathlib import Path

from mainspring.core.errors import ToolError
from mainspring.core.messages import ToolCall
from mainspring.engine.plain import Tool

TIMEOUT = 60  # seconds; the tests take a tenth of one, on a busy machine a few


def tools(folder: Path, harmless: str) -> tuple[Tool, ...]:
    """A command that is known to be harmless need not wait for the end of the reply."""

    def is_harmless(call: ToolCall) -> bool:
        return call.input.get("command") == harmless

    return (
        Tool("Read", partial(read, folder), concurrent=True),
        Tool("Edit", partial(edit, folder)),
        Tool("Bash", partial(bash, folder), concurrent=is_harmless),
    )


async def read(folder: Path, file_path: str) -> str:
    lines = (await content(folder, file_path)).splitlines()
    return "\n".join(f"{number:>3}  {line}" for number, line in enumerate(lines, start=1))


async def edit(folder: Path, file_path: str, old_string: str, new_string: str) -> str:
    text = await content(folder, file_path)
    found = text.count(old_string)
    if found != 1:
        raise ToolError(f"'{old_string}' occurs {found} times in '{file_path}'; give a text that occurs once")
    await asyncio.to_thread((folder / file_path).write_text, text.replace(old_string, new_string), encoding="utf-8")
    return f"- {old_string}\n+ {new_string}"


async def content(folder: Path, file_path: str) -> str:
    try:
        return await asyncio.to_thread((folder / file_path).read_text, encoding="utf-8")
    except OSError as error:
        raise ToolError(f"'{file_path}' cannot be read: {error.strerror}") from error


async def bash(folder: Path, command: str) -> str:
    process = await start(folder, command)
    try:
        async with asyncio.timeout(TIMEOUT):
            output, _ = await process.communicate()
    except TimeoutError:
        await end(process)
        raise ToolError(f"no end after {TIMEOUT} seconds") from None
    except asyncio.CancelledError:  # by the engine, or by Ctrl-C
        await end(process)
        raise
    text = output.decode(errors="replace")
    if process.returncode:
        raise ToolError(f"{text.rstrip()}\nexit code {process.returncode}")
    return text


async def start(folder: Path, command: str) -> Process:
    """In a session of its own, so that whatever the command starts can be ended with it.

    Cancelled halfway, asyncio would kill the shell alone: so the start is completed first, and then undone.
    """
    environment = {
        "PATH": os.defpath,
        "PYTHON": sys.executable,
        "PYTHONDONTWRITEBYTECODE": "1",  # stale bytecode could hide an edit made within the second
    }
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *("/bin/sh", "-c", command),
            cwd=folder,
            env=environment,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=STDOUT,
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await end(await starting)
        raise


async def end(process: Process) -> None:
    """Kill all of it, and read to the end, so that nothing is left open."""
    with suppress(ProcessLookupError, PermissionError):  # it ended by itself just now; the second is macOS for that
        os.killpg(process.pid, signal.SIGKILL)
    await process.communicate()
