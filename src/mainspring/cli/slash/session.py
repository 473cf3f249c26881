"""Slash commands for conversations: `/clear`, `/resume`, `/rename`, `/rewind` and `/export`.

`/export` writes the conversation as Markdown for people: prompts, answers, and one line per tool call.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mainspring import agent, cli, sessions, settings
from mainspring.agent.options import StartError
from mainspring.cli.output import TextStyle
from mainspring.cli.slash.table import (
    clean_line,
    file_of,
    print_to_terminal,
    print_usage,
    shorten_about,
    tell_all,
    title_of,
)
from mainspring.core.errors import UsageError
from mainspring.core.messages import Assistant, Message, Origin, Text, ToolCall, User
from mainspring.core.view import view
from mainspring.messages_api import Unreadable
from mainspring.secrets.redaction import redact
from mainspring.text import plural, strip_control_characters, truncate

if TYPE_CHECKING:
    from collections.abc import Callable

    from mainspring.agent.resume import SessionLocation
    from mainspring.cli.terminal_session import TerminalSession
    from mainspring.core.messages import Block
    from mainspring.sessions.line_parser import JournalLine
    from mainspring.sessions.listing import SessionEntry

    Payload = Callable[[str], bytes | None]  # loads content that is too large for a line, by its name


MOST_SESSIONS = MOST_PROMPTS = 20
LONGEST_TITLE = 200  # characters, as lists show them
SHOWN = 400  # columns shown of a prompt that can be edited and sent again


async def clear(talk: TerminalSession, _: str) -> None:
    before, spoken = talk.world.about.session_id, bool(talk.world.session.state.history)
    stored = bool(file_of(talk))
    try:
        await talk.change(talk.session.clear())
    except StartError as error:  # such as settings that have become invalid
        print_to_terminal(talk, f"Cannot start a new conversation: {error}", TextStyle.YELLOW)
        return
    back = f" Type /resume {before[:8]} to go back to the previous one." if spoken and stored else ""
    print_to_terminal(talk, f"Started a new conversation.{back}", TextStyle.DIM)


async def resume(talk: TerminalSession, name: str) -> None:
    place = agent.new_place(talk.config.environment, talk.config.cwd, ())
    if not name:
        await list_sessions(talk, place)
        return
    try:
        file = await asyncio.to_thread(agent.find_session_by_name, name, place) if place.home is not None else None
        if file is None:
            raise StartError(agent.format_no_session(name))
        if sessions.id_of(file) == talk.world.about.session_id:
            raise StartError("this session is already open")
        await talk.change(talk.session.resume(sessions.id_of(file)))
    except StartError as error:
        print_to_terminal(talk, f"Cannot resume: {error}", TextStyle.YELLOW)
        return
    cli.tell_of_last(talk.output, talk.world)


async def list_sessions(talk: TerminalSession, place: SessionLocation) -> None:
    def others() -> list[SessionEntry]:
        return [
            one
            for one in agent.list_sessions_of(place.cwd, place, MOST_SESSIONS + 1)
            if one.session_id != talk.world.about.session_id
        ]

    found = await asyncio.to_thread(others)
    tell_all(talk, cli.format_session_rows(found[:MOST_SESSIONS]))
    how = "Type /resume ID to resume one." if found else "No other sessions in this folder."
    print_to_terminal(talk, how, TextStyle.DIM)


# --- title --------------------------------------------------------------------------------------------------------


async def rename(talk: TerminalSession, title: str) -> None:
    """Appends a title line to the file, as every client that names a session does; the last one wins."""
    name = clean_line(title)[:LONGEST_TITLE]
    if not name:
        known = title_of(talk)
        print_usage(talk, (f"Title: '{clean_line(known)}'. " if known else "") + "Usage: /rename TITLE")
    else:
        try:
            await talk.session.rename(name)
        except UsageError as error:
            print_to_terminal(talk, f"Cannot rename: {error}.", TextStyle.YELLOW)
            return
        print_to_terminal(talk, f"Renamed this session to '{name}'. Resume it with /resume {name}.", TextStyle.DIM)


def why_not(talk: TerminalSession) -> str:
    journal = talk.opened.journal
    stored = journal is not None and journal.stored
    return "Nothing to rewind yet." if stored else "Cannot rewind: this session is not stored."


# --- rewind -------------------------------------------------------------------------------------------------------


async def rewind(talk: TerminalSession, number: str) -> None:
    prompts = list_user_prompts(talk)
    if not prompts or not file_of(talk):
        print_to_terminal(talk, why_not(talk), TextStyle.DIM)
    elif not number:
        list_prompts(talk, prompts)
    elif not number.isdecimal() or not 0 < int(number) <= len(prompts):
        print_to_terminal(
            talk, f"No prompt '{number}'. Type /rewind to list them; 1 is the last one.", TextStyle.YELLOW
        )
    else:
        await go_back(talk, prompts[-int(number)])


def list_user_prompts(talk: TerminalSession) -> list[User]:
    """The user's prompts in the history."""
    history = talk.world.session.state.history
    return [one for one in history if isinstance(one, User) and one.origin is Origin.PROMPT]


def list_prompts(talk: TerminalSession, prompts: list[User]) -> None:
    state, shown = talk.world.session.state, prompts[-MOST_PROMPTS:]
    if any(isinstance(one, User) and one.origin is Origin.SUMMARY for one in view(state.history, state.edits)):
        print_to_terminal(talk, "Prompts before the summary are not listed.", TextStyle.DIM)
    if len(prompts) > len(shown):
        print_to_terminal(talk, f"{plural(len(prompts) - len(shown), 'earlier prompt')} not shown", TextStyle.DIM)
    for number, prompt in zip(range(len(shown), 0, -1), shown, strict=True):
        print_to_terminal(talk, f"{number:>4}  {shorten_about(prompt.shown_text) or '(no text)'}")
    print_to_terminal(
        talk,
        "Type /rewind N to go back to before that prompt and edit it. Files are not changed.",
        TextStyle.DIM,
    )


async def go_back(talk: TerminalSession, prompt: User) -> None:
    before = talk.world.about.session_id
    first = first_of(prompt, talk.world.session.state.history.newest_first())
    try:
        last = await asyncio.to_thread(line_before, file_of(talk), first)
        await talk.change(talk.session.rewind_to(last) if last else talk.session.clear())
    except StartError as error:
        print_to_terminal(talk, f"Cannot rewind: {error}", TextStyle.YELLOW)
        return
    talk.draft = strip_control_characters(prompt.shown_text)
    print_to_terminal(
        talk,
        f"Rewound to before that prompt. Type /resume {before[:8]} to go back to the full conversation.",
        TextStyle.DIM,
    )
    print_to_terminal(talk, "Files are not changed.", TextStyle.DIM)
    print_to_terminal(talk, f"Your prompt was: {truncate(clean_line(prompt.shown_text), SHOWN)}")


def first_of(prompt: User, newest_first: Iterator[Message]) -> str:
    """The id of the first message sent with the prompt: attachments before it are dropped too, and sent again."""
    found = ""
    for message in newest_first:
        if found and not (isinstance(message, User) and message.origin is Origin.ATTACHMENT):
            break
        if found or message.id == prompt.id:
            found = message.id
    return found


def line_before(file: str, message_id: str) -> str:
    """The uuid of the line before the message; empty: it was the first. Raises `StartError`."""
    found: str | None = None
    try:
        with sessions.JournalReader(Path(file)) as reader:
            for _, line in reader.lines():
                if line.uuid == message_id:  # of two lines with one id, the later wins
                    found = line.parentUuid or line.logicalParentUuid or ""
    except OSError as error:
        raise StartError(f"cannot read '{file}': {error.strerror}") from None
    if found is None:
        raise StartError("the session file does not contain that prompt")
    return found


LONGEST_NAME = 60  # characters; a file system takes 255 bytes
_ODD = re.compile(r"[^\w.-]+")


class ExportSection(NamedTuple):
    who: str  # user, assistant
    text: str
    tool: str = ""  # its name, for a tool call
    reply: str = ""  # id of the reply, for a block


async def export(talk: TerminalSession, named: str) -> None:
    if not talk.world.session.state.history:
        print_to_terminal(talk, "Nothing to export yet.", TextStyle.DIM)
        return
    try:
        path, prompts = await asyncio.to_thread(export_session, talk, named)
    except FileExistsError as error:
        print_to_terminal(
            talk,
            f"'{error.filename}' already exists. Choose another name with /export FILE.",
            TextStyle.YELLOW,
        )
    except OSError as error:
        print_to_terminal(talk, f"Cannot write '{error.filename}': {error.strerror}.", TextStyle.YELLOW)
    else:
        print_to_terminal(talk, f"Exported {plural(prompts, 'prompt')} and the replies to '{path}'.", TextStyle.DIM)


def export_session(talk: TerminalSession, named: str) -> tuple[str, int]:
    """Returns the path and the number of prompts."""
    title = clean_line(title_of(talk)) or talk.world.about.session_id
    path = path_for(talk, named, title)
    pieces = list(pieces_of(talk))
    write_new(path, "\n".join(sections_to_markdown(title, make_export_heading(talk), pieces)))
    return path, len([piece for piece in pieces if piece.who == "user"])


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


def path_for(talk: TerminalSession, named: str, title: str) -> str:
    """The path that the user gave; in a folder, a file named after the title."""
    place = talk.world.kit.place
    path = os.path.normpath(os.path.join(place.root, settings.expand_tilde(named, place.home)))  # noqa: PTH118
    if named and not os.path.isdir(path):  # noqa: PTH112
        return path
    name = _ODD.sub("-", title)[:LONGEST_NAME].strip("-.") or talk.world.about.session_id
    return f"{path.rstrip('/')}/{name}.md"


# --- reading the session ------------------------------------------------------------------------------------------


def pieces_of(talk: TerminalSession) -> list[ExportSection]:
    """From the file, which also has what left the model's view; without a file, from memory."""
    file = file_of(talk)
    if not file:
        return [piece for message in talk.world.session.state.history for piece in export_message(message)]
    found: list[ExportSection] = []
    with sessions.JournalReader(Path(file)) as reader:
        for _, line in reader.lines():
            with suppress(*Unreadable):
                record = sessions.record_of(line) if line.record else None
                if isinstance(record, sessions.WithdrawnRecord):
                    found = [piece for piece in found if piece.reply != record.reply_id]
                elif record is None:
                    found += export_line(line, reader.payload)
    return found


def export_line(line: JournalLine, payload: Payload) -> Iterator[ExportSection]:
    if line.isSidechain or line.isMeta or not line.message:
        return
    spoke, kept = sessions.spoke_of(line), payload((line.mainspring or sessions.PLAIN).payload)
    if line.type == "assistant":
        for block in sessions.reply_blocks(line, spoke, kept):
            yield from export_block(block, spoke.id or line.uuid)
    elif line.type == "user":
        for message in sessions.user_messages(line, spoke, kept):
            yield from export_message(message)


def export_message(message: Message) -> Iterator[ExportSection]:
    if isinstance(message, Assistant):
        for block in message.blocks:
            yield from export_block(block, message.id)
    elif isinstance(message, User) and message.origin is Origin.PROMPT:
        yield ExportSection("user", message.shown_text)


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
        if not (piece.tool and before.tool):  # consecutive calls form one list
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
