"""`/clear`, `/resume`, `/rename`, `/rewind`: this conversation, another one, and the way back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mainspring.agent.options import StartError
from mainspring.cli.output import TextStyle
from mainspring.cli.slash.stored import file_of, title_of
from mainspring.cli.slash.telling import clean_line, print_to_terminal, print_usage, shorten_about, tell_all
from mainspring.core.errors import UsageError
from mainspring.core.messages import Message, Origin, User
from mainspring.core.view import view
from mainspring.text import strip_control_characters, truncate

if TYPE_CHECKING:
    from mainspring.cli.terminal_session import TerminalSession
    from mainspring.sessions.listing import SessionEntry

MOST_SESSIONS = MOST_PROMPTS = 20
LONGEST_TITLE = 200  # characters, as lists show them
SHOWN = 400  # columns of a prompt that can be said again


async def clear(talk: TerminalSession, _: str) -> None:
    before, spoken = talk.world.about.session_id, bool(talk.world.session.state.history)
    stored = bool(file_of(talk))
    try:
        await talk.change(talk.session.clear())
    except StartError as error:  # settings that were broken meanwhile
        print_to_terminal(talk, f"The conversation goes on: {error}", TextStyle.YELLOW)
        return
    back = f" '/resume {before[:8]}' goes back to the one before." if spoken and stored else ""
    print_to_terminal(talk, f"A new conversation.{back}", TextStyle.DIM)


async def resume(talk: TerminalSession, name: str) -> None:
    from mainspring.agent.resume import find_session_by_name, format_no_session, new_place
    from mainspring.sessions.paths import id_of

    place = new_place(talk.config.environment, talk.config.cwd, ())
    if not name:
        await list_sessions(talk, place.folder)
        return
    try:
        file = await asyncio.to_thread(find_session_by_name, name, place) if place.home is not None else None
        if file is None:
            raise StartError(format_no_session(name))
        if id_of(file) == talk.world.about.session_id:
            raise StartError("it is the one that you are in")
        await talk.change(talk.session.resume(id_of(file)))
    except StartError as error:
        print_to_terminal(talk, f"The conversation stays: {error}", TextStyle.YELLOW)
        return
    from mainspring.cli.plain import tell_of_last

    tell_of_last(talk.output, talk.world)


async def list_sessions(talk: TerminalSession, folder: str) -> None:
    from mainspring.cli.commands.sessions import format_session_rows
    from mainspring.sessions.listing import list_sessions_in

    def others() -> list[SessionEntry]:
        return [
            one for one in list_sessions_in(folder, MOST_SESSIONS + 1) if one.session_id != talk.world.about.session_id
        ]

    found = await asyncio.to_thread(others)
    tell_all(talk, format_session_rows(found[:MOST_SESSIONS]))
    how = "'/resume ID' goes on with one." if found else "There is no other session of this folder."
    print_to_terminal(talk, how, TextStyle.DIM)


# --- its name -----------------------------------------------------------------------------------------------------


async def rename(talk: TerminalSession, title: str) -> None:
    """One more line in its file, as every client that names a session writes it; the last one counts."""
    name = clean_line(title)[:LONGEST_TITLE]
    if not name:
        known = title_of(talk)
        print_usage(
            talk, (f"It is called '{clean_line(known)}'. " if known else "") + "'/rename TITLE' calls it otherwise."
        )
    else:
        try:
            await talk.session.rename(name)
        except UsageError as error:
            print_to_terminal(talk, f"There is no name yet: {error}.", TextStyle.YELLOW)
            return
        print_to_terminal(talk, f"This session is called '{name}' now: '/resume {name}' finds it.", TextStyle.DIM)


def why_not(talk: TerminalSession) -> str:
    journal = talk.opened.journal
    stored = journal is not None and journal.stored
    return "nothing was said yet" if stored else "nothing of this session is stored"


# --- the way back -------------------------------------------------------------------------------------------------


async def rewind(talk: TerminalSession, number: str) -> None:
    prompts = list_user_prompts(talk)
    if not prompts or not file_of(talk):
        print_to_terminal(talk, f"There is no way back: {why_not(talk)}.", TextStyle.DIM)
    elif not number:
        list_prompts(talk, prompts)
    elif not number.isdecimal() or not 0 < int(number) <= len(prompts):
        print_to_terminal(
            talk, f"There is no prompt '{number}': '/rewind' lists them, the last one is 1.", TextStyle.YELLOW
        )
    else:
        await go_back(talk, prompts[-int(number)])


def list_user_prompts(talk: TerminalSession) -> list[User]:
    """By the person, as far back as the model's own view goes."""
    history = talk.world.session.state.history
    return [one for one in history if isinstance(one, User) and one.origin is Origin.PROMPT]


def list_prompts(talk: TerminalSession, prompts: list[User]) -> None:
    state, shown = talk.world.session.state, prompts[-MOST_PROMPTS:]
    if any(isinstance(one, User) and one.origin is Origin.SUMMARY for one in view(state.history, state.edits)):
        print_to_terminal(talk, "What was said before the summary is not listed.", TextStyle.DIM)
    if len(prompts) > len(shown):
        print_to_terminal(talk, f"{len(prompts) - len(shown):,} more before these", TextStyle.DIM)
    for number, prompt in zip(range(len(shown), 0, -1), shown, strict=True):
        print_to_terminal(talk, f"{number:>4}  {shorten_about(prompt.text) or '(no words)'}")
    print_to_terminal(
        talk,
        "'/rewind N' goes back to before that prompt, and lets you say it again. Files stay as they are.",
        TextStyle.DIM,
    )


async def go_back(talk: TerminalSession, prompt: User) -> None:
    before = talk.world.about.session_id
    first = first_of(prompt, talk.world.session.state.history.newest_first())
    try:
        last = await asyncio.to_thread(line_before, file_of(talk), first)
        await talk.change(talk.session.rewind_to(last) if last else talk.session.clear())
    except StartError as error:
        print_to_terminal(talk, f"The conversation goes on: {error}", TextStyle.YELLOW)
        return
    talk.draft = strip_control_characters(prompt.text)
    print_to_terminal(
        talk,
        f"Back to before that prompt. '/resume {before[:8]}' goes on with the conversation as it was.",
        TextStyle.DIM,
    )
    print_to_terminal(talk, "Files are as they are now: nothing in them was undone.", TextStyle.DIM)
    print_to_terminal(talk, f"You had said: {truncate(clean_line(prompt.text), SHOWN)}")


def first_of(prompt: User, newest_first: Iterator[Message]) -> str:
    """The id of the first message that came with it: what we put before it goes, too, and comes again."""
    found = ""
    for message in newest_first:
        if found and not (isinstance(message, User) and message.origin is Origin.ATTACHMENT):
            break
        if found or message.id == prompt.id:
            found = message.id
    return found


def line_before(file: str, message_id: str) -> str:
    """Of the conversation; empty: it was the first. Raises `StartError`."""
    from mainspring.sessions.reader import JournalReader

    found: str | None = None
    try:
        with JournalReader(Path(file)) as reader:
            for _, line in reader.lines():
                if line.uuid == message_id:  # of two with one id the later counts
                    found = line.parentUuid or line.logicalParentUuid or ""
    except OSError as error:
        raise StartError(f"'{file}' cannot be read: {error.strerror}") from None
    if found is None:
        raise StartError("its file does not hold that prompt")
    return found
