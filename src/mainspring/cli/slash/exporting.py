"""`/export`: the conversation as Markdown, for people: prompts, answers, and a line for each call."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mainspring.cli.output import TextStyle
from mainspring.cli.slash.stored import file_of, title_of
from mainspring.cli.slash.telling import clean_line, print_to_terminal, shorten_about
from mainspring.core.messages import Assistant, Message, Origin, Text, ToolCall, User
from mainspring.secrets.redaction import redact
from mainspring.text import plural, strip_control_characters

if TYPE_CHECKING:
    from collections.abc import Callable

    from mainspring.cli.terminal_session import TerminalSession
    from mainspring.core.messages import Block
    from mainspring.sessions.line_parser import JournalLine

    Payload = Callable[[str], bytes | None]  # content that is too large for a line, by its name

LONGEST_NAME = 60  # characters; a file system takes 255 bytes
_ODD = re.compile(r"[^\w.-]+")


class ExportSection(NamedTuple):
    who: str  # user, assistant
    text: str
    tool: str = ""  # whose call it is
    reply: str = ""  # whose block it is


async def export(talk: TerminalSession, named: str) -> None:
    if not talk.world.session.state.history:
        print_to_terminal(talk, "There is nothing to export: nothing was said yet.", TextStyle.DIM)
        return
    try:
        path, prompts = await asyncio.to_thread(export_session, talk, named)
    except FileExistsError as error:
        print_to_terminal(
            talk,
            f"'{error.filename}' is there already, and stays: '/export FILE' takes another name.",
            TextStyle.YELLOW,
        )
    except OSError as error:
        print_to_terminal(talk, f"'{error.filename}' cannot be written: {error.strerror}.", TextStyle.YELLOW)
    else:
        print_to_terminal(talk, f"{plural(prompts, 'prompt')} and what came of them: '{path}'.", TextStyle.DIM)


def export_session(talk: TerminalSession, named: str) -> tuple[str, int]:
    """Where it is, and how many prompts it has."""
    title = clean_line(title_of(talk)) or talk.world.about.session_id
    path = path_for(talk, named, title)
    pieces = list(pieces_of(talk))
    write_new(path, "\n".join(sections_to_markdown(title, make_export_heading(talk), pieces)))
    return path, len([piece for piece in pieces if piece.who == "user"])


def write_new(path: str, text: str) -> None:
    """There as a whole or not at all. Raises `OSError` that names the path."""
    file = open(path, "x", encoding="utf-8", errors="replace")  # noqa: PTH123, SIM115  # what was there is not ours
    try:
        with file:
            file.write(text)
    except OSError as error:
        with suppress(OSError):
            os.unlink(path)  # noqa: PTH108
        raise OSError(error.errno, error.strerror, path) from None


def path_for(talk: TerminalSession, named: str, title: str) -> str:
    """What somebody names is theirs to name; a folder takes a file of our name."""
    from mainspring.settings.load import expand_tilde

    place = talk.world.kit.place
    path = os.path.normpath(os.path.join(place.root, expand_tilde(named, place.home)))  # noqa: PTH118
    if named and not os.path.isdir(path):  # noqa: PTH112
        return path
    name = _ODD.sub("-", title)[:LONGEST_NAME].strip("-.") or talk.world.about.session_id
    return f"{path.rstrip('/')}/{name}.md"


# --- what was said ------------------------------------------------------------------------------------------------


def pieces_of(talk: TerminalSession) -> list[ExportSection]:
    """Of the file, which also has what is out of the model's view by now; else of what is in memory."""
    file = file_of(talk)
    if not file:
        return [piece for message in talk.world.session.state.history for piece in export_message(message)]
    from mainspring.messages_api import Unreadable
    from mainspring.sessions.line_parser import record_of
    from mainspring.sessions.reader import JournalReader
    from mainspring.sessions.records import WithdrawnRecord

    found: list[ExportSection] = []
    with JournalReader(Path(file)) as reader:
        for _, line in reader.lines():
            with suppress(*Unreadable):
                record = record_of(line) if line.record else None
                if isinstance(record, WithdrawnRecord):
                    found = [piece for piece in found if piece.reply != record.reply_id]
                elif record is None:
                    found += export_line(line, reader.payload)
    return found


def export_line(line: JournalLine, payload: Payload) -> Iterator[ExportSection]:
    from mainspring.sessions.line_format import PLAIN
    from mainspring.sessions.line_parser import reply_blocks, spoke_of, user_messages

    if line.isSidechain or line.isMeta or not line.message:
        return
    spoke, kept = spoke_of(line), payload((line.mainspring or PLAIN).payload)
    if line.type == "assistant":
        for block in reply_blocks(line, spoke, kept):
            yield from export_block(block, spoke.id or line.uuid)
    elif line.type == "user":
        for message in user_messages(line, spoke, kept):
            yield from export_message(message)


def export_message(message: Message) -> Iterator[ExportSection]:
    if isinstance(message, Assistant):
        for block in message.blocks:
            yield from export_block(block, message.id)
    elif isinstance(message, User) and message.origin is Origin.PROMPT:
        yield ExportSection("user", message.text)


def export_block(block: Block, reply: str) -> Iterator[ExportSection]:
    if isinstance(block, Text):
        yield ExportSection("assistant", block.text, reply=reply)
    elif isinstance(block, ToolCall):
        said = next((value for value in block.input.values() if isinstance(value, str) and value), "")
        yield ExportSection("assistant", said, block.name, reply)


# --- as Markdown --------------------------------------------------------------------------------------------------


def make_export_heading(talk: TerminalSession) -> str:
    day = time.strftime("%Y-%m-%d %H:%M")
    return f"Session {talk.world.about.session_id} in {clean_line(talk.config.cwd)}, with {talk.model.name}. {day}."


def sections_to_markdown(title: str, head: str, pieces: list[ExportSection]) -> Iterator[str]:
    yield f"# {title}"
    yield ""
    yield head
    before = ExportSection("", "")
    for piece in pieces:
        if not (piece.tool and before.tool):  # calls stand below each other
            yield ""
        if piece.who == "user":
            yield from [f"> {row}".rstrip() for row in redact_for_export(piece.text).split("\n")]
        elif piece.tool:
            yield f"- {clean_line(piece.tool)}{format_about(piece.text)}"
        else:
            yield redact_for_export(piece.text)
        before = piece
    yield ""


def format_about(text: str) -> str:
    return ": `{}`".format(shorten_about(text).replace("`", "'")) if text else ""


def redact_for_export(text: str) -> str:
    return strip_control_characters(redact(text)).strip("\n")
