"""An image of the clipboard as a file beside the session, which a prompt mentions like any other image."""

from __future__ import annotations

import asyncio
import os
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING

from mainspring import processes, sessions
from mainspring.cli.clipboard import ClipboardImage, read_image
from mainspring.core.errors import UsageError

if TYPE_CHECKING:
    from mainspring.cli.terminal_session import TerminalSession


async def save_clipboard_image(talk: TerminalSession) -> tuple[str, str]:
    """The path, or why there is none."""
    found = await read_image(talk.config.environment, talk.config.cwd)
    if found.why_not:
        return "", found.why_not
    try:
        path = await asyncio.to_thread(write_image, found, talk.world.kit.place.spill)
    except OSError as error:
        return "", f"Cannot store the image: {error.strerror}"
    await allow_reading(path, talk)
    return path, ""


async def allow_reading(path: str, talk: TerminalSession) -> None:
    """For this session: it is outside of the working folders, and to paste it is to consent. Deny rules still hold."""
    rule = {"toolName": "Read", "ruleContent": f"/{path}"}
    update = {"type": "addRules", "rules": [rule], "behavior": "allow", "destination": "session"}
    with suppress(UsageError):
        await talk.session.update_permissions([update])


def write_image(image: ClipboardImage, folder: str) -> str:
    """`folder`: of the session; empty: it is not stored, and the image goes into a new temporary folder."""
    if folder:
        sessions.make_folder(folder)
    else:
        folder = tempfile.mkdtemp(prefix="mainspring-")
    number = 1
    while True:
        path = f"{os.path.realpath(folder)}/pasted-{number}.{image.ending}"
        try:
            processes.write_new_file(path, image.data)
        except FileExistsError:
            number += 1
        else:
            return path
