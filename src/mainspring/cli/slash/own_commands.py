"""`!COMMAND` at the prompt of a conversation: the user runs it, in the terminal, as in a shell.

No rule and no sandbox is asked: these are for what a model wants. The model is not told of it either.
"""

from __future__ import annotations

import asyncio
import os
import signal

from mainspring.cli.output import TextStyle
from mainspring.cli.terminal_session import LineWriter
from mainspring.text import strip_control_characters


async def run_own(command: str, output: LineWriter) -> None:
    """Ctrl-C is for the command alone, as long as it runs; a handler, unlike an ignored signal, is not handed down."""
    if not command.strip():
        output.line("'!' runs what stands behind it, such as '!git status'.", TextStyle.DIM)
        return
    before = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        child = await asyncio.create_subprocess_exec(os.environ.get("SHELL") or "/bin/sh", "-c", command)
        try:
            code = await child.wait()
        except asyncio.CancelledError:  # we are to end, and it with us
            child.send_signal(signal.SIGHUP)
            raise
    except OSError as error:
        output.line(f"The shell cannot be started: {strip_control_characters(str(error))}", TextStyle.RED)
        return
    finally:
        signal.signal(signal.SIGINT, before)
    if code > 0:
        output.line(f"(exit code {code})", TextStyle.YELLOW)
    elif code < 0:
        output.line()  # behind the `^C` of the terminal
        output.line(f"(ended by signal {-code})", TextStyle.YELLOW)
