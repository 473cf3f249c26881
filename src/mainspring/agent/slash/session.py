"""Slash commands for conversations: `/clear`, `/resume` and `/rename`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from mainspring import agent, sessions
from mainspring.agent.options import StartError
from mainspring.agent.session_rows import format_session_rows
from mainspring.agent.slash.lines import (
    SlashCommandError,
    TextStyle,
    clean_line,
    file_of,
    print_line,
    tell_all,
    title_of,
)
from mainspring.core.errors import UsageError
from mainspring.core.messages import Assistant, Message
from mainspring.text import strip_control_characters, truncate

if TYPE_CHECKING:
    from mainspring.agent.resume import SessionLocation
    from mainspring.agent.session_parts import SessionParts
    from mainspring.agent.slash.lines import SlashContext
    from mainspring.sessions.listing import SessionEntry


MOST_SESSIONS = 20
LONGEST_TITLE = 200  # characters, as lists show them
LONGEST_LAST = 200  # columns shown of the last reply of a resumed session


async def clear(talk: SlashContext, _: str) -> None:
    before, spoken = talk.world.about.session_id, bool(talk.world.session.state.history)
    stored = bool(file_of(talk))
    try:
        await talk.change(talk.session.clear())
    except StartError as error:  # such as settings that have become invalid
        raise SlashCommandError(f"Cannot start a new conversation: {error}") from None
    back = f" Type /resume {before[:8]} to go back to the previous one." if spoken and stored else ""
    print_line(talk, f"Started a new conversation.{back}", TextStyle.DIM)


async def resume(talk: SlashContext, name: str) -> None:
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
        raise SlashCommandError(f"Cannot resume: {error}") from None
    if words := describe_last_reply(talk.world):
        print_line(talk, words, TextStyle.DIM)


def describe_last_reply(world: SessionParts) -> str:
    """Where a resumed session stopped. Empty: it has no reply yet."""
    last = next((one.text for one in world.session.state.history.newest_first() if is_said(one)), "")
    words = truncate(" ".join(strip_control_characters(last).split()), LONGEST_LAST)
    return f"Resumed session '{world.about.session_id[:8]}'. Last reply: {words}" if last else ""


def is_said(message: Message) -> bool:
    """Whether it is a reply with text."""
    return isinstance(message, Assistant) and bool(message.text.strip())


async def list_sessions(talk: SlashContext, place: SessionLocation) -> None:
    def others() -> list[SessionEntry]:
        return [
            one
            for one in agent.list_sessions_of(place.cwd, place, MOST_SESSIONS + 1, trials=False)
            if one.session_id != talk.world.about.session_id
        ]

    found = await asyncio.to_thread(others)
    tell_all(talk, format_session_rows(found[:MOST_SESSIONS]))
    how = "Type /resume ID to resume one." if found else "No other sessions in this folder."
    print_line(talk, how, TextStyle.DIM)


# --- title --------------------------------------------------------------------------------------------------------


async def rename(talk: SlashContext, title: str) -> None:
    """Appends a title line to the file, as every client that names a session does; the last one wins."""
    name = clean_line(title)[:LONGEST_TITLE]
    if not name:
        known = title_of(talk)
        raise SlashCommandError((f"Title: '{clean_line(known)}'. " if known else "") + "Usage: /rename TITLE")
    try:
        await talk.session.rename(name)
    except UsageError as error:
        raise SlashCommandError(f"Cannot rename: {error}.") from None
    print_line(talk, f"Renamed this session to '{name}'. Resume it with /resume {name}.", TextStyle.DIM)
