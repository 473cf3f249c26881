"""`/export` and `/share`: the conversation as one file for people, with secrets removed. Nothing is uploaded."""

from __future__ import annotations

import asyncio
import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from mainspring import settings
from mainspring.agent.slash.lines import (
    SlashCommandError,
    TextStyle,
    clean_line,
    file_of,
    print_line,
    title_of,
)
from mainspring.sessions.export import (
    FORMATS,
    ExportHeading,
    ExportSection,
    list_message_sections,
    read_export_sections,
)
from mainspring.text import plural, shorten_folder

if TYPE_CHECKING:
    from mainspring.agent.slash.lines import SlashContext

LONGEST_NAME = 60  # characters; a file system takes 255 bytes
MOST_NAMES = 100  # 'title-2.html', 'title-3.html' and so on
_ODD = re.compile(r"[^\w.-]+")


async def export(talk: SlashContext, named: str) -> None:
    """The format is that of the file's ending; without one, Markdown."""
    if not talk.world.session.state.history:
        raise SlashCommandError("Nothing to export yet.")
    try:
        path, prompts = await asyncio.to_thread(export_session, talk, named)
    except FileExistsError as error:
        raise SlashCommandError(f"'{error.filename}' already exists. Choose another name with /export FILE.") from None
    except OSError as error:
        raise SlashCommandError(f"Cannot write '{error.filename}': {error.strerror}.") from None
    print_line(talk, f"Exported {plural(prompts, 'prompt')} and the replies to '{path}'.", TextStyle.DIM)


async def share(talk: SlashContext, _: str) -> None:
    if not talk.world.session.state.history:
        raise SlashCommandError("Nothing to share yet.")
    try:
        path = await asyncio.to_thread(write_shared_page, talk)
    except OSError as error:
        raise SlashCommandError(f"Cannot write '{error.filename}': {error.strerror}.") from None
    print_line(talk, f"Wrote '{path}', one page that opens in any browser. Nothing was uploaded.")
    told = "Secrets that mainspring recognizes are removed. Read the page before you send it."
    print_line(talk, told, TextStyle.DIM)


def export_session(talk: SlashContext, named: str) -> tuple[str, int]:
    """Returns the path and the number of prompts."""
    heading, sections = make_heading(talk), sections_of(talk)
    path = path_for(talk, named, heading.title)
    ending = path.rpartition(".")[2].lower()
    write_new(path, FORMATS.get(ending, FORMATS["md"])(heading, sections))
    return path, len([section for section in sections if section.kind == "prompt"])


def write_shared_page(talk: SlashContext) -> str:
    heading = make_heading(talk)
    page = FORMATS["html"](heading, sections_of(talk))
    path = first = path_for(talk, "", heading.title, "html")
    for number in range(2, MOST_NAMES):
        with suppress(FileExistsError):
            write_new(path, page)
            return path
        path = f"{first.removesuffix('.html')}-{number}.html"
    write_new(path, page)
    return path


def make_heading(talk: SlashContext) -> ExportHeading:
    about, place = talk.world.about, talk.world.kit.place
    return ExportHeading(
        clean_line(title_of(talk)) or about.session_id,
        about.session_id,
        shorten_folder(talk.config.cwd, place.home),
        talk.model.name,
        time.strftime("%Y-%m-%d %H:%M"),
    )


def sections_of(talk: SlashContext) -> list[ExportSection]:
    """From the file, which also has what left the model's view; without a file, from memory."""
    if file := file_of(talk):
        return read_export_sections(Path(file))
    history = talk.world.session.state.history
    return [section for message in history for section in list_message_sections(message)]


def write_new(path: str, text: str) -> None:
    """Writes all of it or leaves no file. Raises `OSError` with the path."""
    file = open(path, "x", encoding="utf-8", errors="replace")  # noqa: PTH123, SIM115  # what was there is not ours
    try:
        with file:
            file.write(text)
    except OSError as error:
        with suppress(OSError):
            os.unlink(path)  # noqa: PTH108
        raise OSError(error.errno, error.strerror, path) from None


def path_for(talk: SlashContext, named: str, title: str, ending: str = "md") -> str:
    """The path that the user gave; in a folder, a file named after the title."""
    place = talk.world.kit.place
    path = os.path.normpath(os.path.join(place.root, settings.expand_tilde(named, place.home)))  # noqa: PTH118
    if named and not os.path.isdir(path):  # noqa: PTH112
        return path
    name = _ODD.sub("-", title)[:LONGEST_NAME].strip("-.") or talk.world.about.session_id
    return f"{path.rstrip('/')}/{name}.{ending}"
