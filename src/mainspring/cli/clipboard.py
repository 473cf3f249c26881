"""The clipboard of the user: copy text to it, and read an image from it.

Text goes to the programs of the desktop and, by an escape sequence (OSC 52), to the terminal, which may be on another
machine. The programs get no keys: their environment is that of any child.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import NamedTuple

from mainspring.processes.child import UserProgram, input_of
from mainspring.processes.environment import child_environment, find_program
from mainspring.text import strip_control_characters
from mainspring.tools.media import image_in

PATIENCE = 5.0  # seconds
LONGEST_SEQUENCE = 100_000  # bytes of OSC 52; terminals ignore longer ones
MOST_IMAGE = 20 << 20  # bytes that are read

TO_CLIPBOARD = (  # the program, its arguments, and the variable without which it cannot work
    ("wl-copy", (), "WAYLAND_DISPLAY"),
    ("xclip", ("-selection", "clipboard"), "DISPLAY"),
    ("xsel", ("--clipboard", "--input"), "DISPLAY"),
    ("pbcopy", (), ""),
)
# AppleScript: writes the clipboard's picture to the file.
_SCRIPT = (
    'set f to open for access POSIX file "/dev/stdout" with write permission',
    "write (the clipboard as «class PNGf») to f",
    "close access f",
)
FROM_CLIPBOARD = (
    ("wl-paste", ("--no-newline", "--type", "image/png"), "WAYLAND_DISPLAY"),
    ("xclip", ("-selection", "clipboard", "-t", "image/png", "-o"), "DISPLAY"),
    ("pngpaste", ("-",), ""),
    ("osascript", tuple(word for line in _SCRIPT for word in ("-e", line)), ""),
)

Write = Callable[[str], object]  # an escape sequence to the terminal


class ClipboardProgram(NamedTuple):
    path: str
    arguments: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


def find_clipboard_programs(
    table: tuple[tuple[str, tuple[str, ...], str], ...], environ: Mapping[str, str], cwd: str
) -> list[ClipboardProgram]:
    """Those that are installed, outside of the project's folder."""
    found: list[ClipboardProgram] = []
    for name, arguments, needs in table:
        if needs and not environ.get(needs):
            continue
        path = find_program(name, path=environ.get("PATH", ""), outside=(cwd,))
        if path is not None:
            found.append(ClipboardProgram(path, arguments))
    return found


async def copy_text(text: str, environ: Mapping[str, str], cwd: str, write: Write | None) -> str:
    """Return where the text went; empty: nowhere."""
    ways: list[str] = []
    for program in find_clipboard_programs(TO_CLIPBOARD, environ, cwd):
        if await run_clipboard_program(program, environ, text.encode(errors="replace")) is not None:
            ways.append(program.name)
            break
    sequence = make_clipboard_sequence(text)
    if write is not None and sequence:
        write(sequence)
        ways.append("the terminal")
    return " and ".join(ways)


def make_clipboard_sequence(text: str) -> str:
    """OSC 52; empty if the text is too long for it."""
    coded = b64encode(text.encode(errors="replace")).decode("ascii")
    return f"\x1b]52;c;{coded}\x07" if len(coded) <= LONGEST_SEQUENCE else ""


class ClipboardImage(NamedTuple):
    data: bytes = b""
    ending: str = ""  # of a file name
    why_not: str = ""


async def read_image(environ: Mapping[str, str], cwd: str) -> ClipboardImage:
    programs = find_clipboard_programs(FROM_CLIPBOARD, environ, cwd)
    if not programs:
        wanted = "pngpaste" if sys.platform == "darwin" else "wl-clipboard (Wayland) or xclip (X.Org)"
        return ClipboardImage(why_not=f"Cannot read the clipboard here. Install {wanted}, or mention a file with '@'.")
    for program in programs:
        data = await run_clipboard_program(program, environ, b"")
        found = image_in(data) if data else None
        if data and found is not None:
            return ClipboardImage(data, found.media_type.partition("/")[2])
    return ClipboardImage(why_not="There is no image in the clipboard.")


async def run_clipboard_program(program: ClipboardProgram, environ: Mapping[str, str], data: bytes) -> bytes | None:
    """Its output; None: it failed. A program that keeps running serves the clipboard: its output is not awaited."""
    output = bytearray()

    def take(more: bytes) -> None:
        output.extend(more[: MOST_IMAGE + 1 - len(output)])

    given = input_of(data)
    try:
        child = UserProgram(
            (program.path, *program.arguments),
            stdin=given,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            on_output=None if data else take,
            env=child_environment(environ),
            cwd="/",
        )
    except OSError:
        return None
    finally:
        os.close(given)
    try:
        async with asyncio.timeout(PATIENCE):
            code = await child.wait_or_end()
            await child.wait_for_output()
    except TimeoutError:
        return None
    finally:
        child.close_output()
    return bytes(output) if code == 0 and len(output) <= MOST_IMAGE else None


def count_words(text: str) -> str:
    """Describe the copied text."""
    lines = text.count("\n") + (not text.endswith("\n"))
    return f"{lines:,} {'line' if lines == 1 else 'lines'}, {len(strip_control_characters(text)):,} characters"
