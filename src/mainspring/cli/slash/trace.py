"""`/trace`: the session on a time axis in the browser, live, at the current turn.

The server runs in this process, for this machine only, until the conversation ends. Without a browser the address is
printed; it contains a token.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mainspring.agent.slash.lines import SlashCommandError, TextStyle, file_of
from mainspring.processes.child import UserProgram
from mainspring.processes.environment import find_program

if TYPE_CHECKING:
    from mainspring.cli.terminal_session import TerminalSession

PATIENCE = 5  # seconds for a browser to start
LAST = "#last"  # the page shows the last turn, and follows


async def trace(talk: TerminalSession, _: str) -> None:
    file = file_of(talk)
    if not file:
        raise SlashCommandError("Nothing to show yet: this session is not stored, or has no prompt.")
    try:
        address = await talk.serve_trace(file) + LAST
    except OSError as error:
        raise SlashCommandError(f"Cannot start the viewer: {error.strerror}.") from None
    opened = await open_browser(address, os.environ, talk.config.cwd)
    talk.output.line(f"{'Opened' if opened else 'Open this address in a browser:'} {address}")
    talk.output.line("It follows this session until it ends. Anyone with the address can read it.", TextStyle.DIM)


async def open_browser(address: str, environ: Mapping[str, str], folder: str) -> bool:
    """Only with a desktop: elsewhere a browser would take over this terminal."""
    name = "open" if sys.platform == "darwin" else "xdg-open"
    if name != "open" and not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")):
        return False
    program = find_program(name, path=environ.get("PATH", ""), outside=(folder,))
    if program is None:
        return False
    nothing = subprocess.DEVNULL
    try:
        child = UserProgram((program, address), stdin=nothing, stdout=nothing, stderr=nothing, own_session=True)
        return await asyncio.wait_for(child.wait(), PATIENCE) == 0
    except TimeoutError:  # it waits for its browser
        return True
    except OSError:
        return False
