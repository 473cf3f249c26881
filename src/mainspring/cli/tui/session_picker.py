"""The list of sessions for `/resume` and `--resume`: of this folder or of all, with ages and a preview."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mainspring import agent
from mainspring.agent.find_session import MOST_EVERYWHERE, list_all_sessions
from mainspring.agent.session_rows import format_age
from mainspring.cli.tui.list_dialog import ListDialog, ListRow, ListScope
from mainspring.cli.tui.menu import Clock
from mainspring.cli.tui.pickers import ask_dialog
from mainspring.sessions.listing import SessionEntry, preview_session
from mainspring.text import plural, shorten_folder

if TYPE_CHECKING:
    from mainspring.agent.resume import SessionLocation
    from mainspring.cli.terminal_session import TerminalSession
    from mainspring.cli.tui.screen import Screen


async def choose_session(talk: TerminalSession, stage: Screen) -> str | None:
    """For `/resume`. None: cancelled. Empty: there is no other session."""
    place = agent.new_place(talk.config.environment, talk.config.cwd, ())
    return await pick_session(place, stage, without=talk.world.about.session_id)


async def choose_first_session(environ: Mapping[str, str], stage: Screen) -> str | None:
    """For `--resume` without a value, before there is a session."""
    place = agent.new_place(environ, os.getcwd(), ())  # noqa: PTH109  # pathlib takes 8 ms to load
    return await pick_session(place, stage)


async def pick_session(place: SessionLocation, stage: Screen, *, without: str = "") -> str | None:
    if place.home is None:
        return ""
    here = await asyncio.to_thread(agent.list_sessions_of, place.cwd, place, MOST_EVERYWHERE, trials=False)
    everywhere = await asyncio.to_thread(list_all_sessions, place)
    here, everywhere = ([one for one in found if one.session_id != without] for found in (here, everywhere))
    if not here and not everywhere:
        return ""
    return await ask_dialog(make_session_picker(here, everywhere, at=time.time(), now=stage.attended), stage)


def make_session_picker(
    here: Sequence[SessionEntry],
    everywhere: Sequence[SessionEntry],
    *,
    at: float,
    now: Clock,
    preview: Callable[[Path], list[str]] = preview_session,
) -> ListDialog:
    """The newest first. `at`: seconds since 1970, to compute ages. The answer is an id."""
    home = os.path.expanduser("~")  # noqa: PTH111
    files = {one.session_id: one.file for one in (*everywhere, *here)}

    def row(entry: SessionEntry, *facts: str) -> ListRow:
        about = (format_age(at - entry.changed / 1_000), plural(entry.turns, "turn"), *facts)
        title = entry.title or entry.session_id
        shown = " · ".join([fact for fact in about if fact])
        return ListRow(entry.session_id, title, shown, f"{entry.branch} {entry.cwd}")

    def rows_here() -> list[ListRow]:
        return [row(one, one.branch, format_size(one.size)) for one in here]

    def rows_everywhere() -> list[ListRow]:
        return [row(one, one.branch, shorten_folder(one.cwd, home)) for one in everywhere]

    scopes = (
        ListScope("this folder", rows_here, "No other sessions in this folder."),
        ListScope("all folders", rows_everywhere, "No other sessions."),
    )
    return ListDialog("Resume a session", scopes, lambda row: preview(files[row.name]), now=now)


UNITS = (("MB", 1_000_000), ("kB", 1_000))


def format_size(number: int) -> str:
    for unit, least in UNITS:
        if number >= least:
            return f"{number / least:.0f} {unit}"
    return plural(number, "byte")
