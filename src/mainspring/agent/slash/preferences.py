"""Slash commands for preferences: `/effort`, `/theme` and `/vim`.

The effort is for this process; themes and keys are kept in the user's settings.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mainspring.agent.config import asked_by
from mainspring.agent.slash.lines import SlashCommandError, TextStyle, clean_line, print_line
from mainspring.core.config import Effort
from mainspring.core.errors import UsageError
from mainspring.settings.edit import ValueChange
from mainspring.settings.keys import THEMES
from mainspring.settings.persist import SettingsWriter
from mainspring.settings.values import SettingsSource
from mainspring.text import suggest_near_name

if TYPE_CHECKING:
    from mainspring.agent.slash.lines import SlashContext

EFFORTS: tuple[tuple[str, str], ...] = (
    ("default", "as configured; without that, the model's own"),
    (Effort.LOW, "fastest and cheapest: small, clear tasks"),
    (Effort.MEDIUM, "less thinking than usual"),
    (Effort.HIGH, "the usual effort of current models"),
    (Effort.XHIGH, "more thinking for hard tasks"),
    (Effort.MAX, "as much as the model can, at any price"),
)


async def effort(talk: SlashContext, level: str) -> None:
    session, most = talk.session, talk.model.most_effort
    if not level:
        now = session.effort or "the model's default"
        print_line(talk, f"Effort: {now}. Type /effort LEVEL: {', '.join(name for name, _ in EFFORTS)}.")
        return
    try:
        given = session.set_effort(None if level.lower() in ("default", "auto") else level.lower())
    except UsageError as error:
        raise SlashCommandError(f"Effort not changed: {clean_line(str(error))}") from None
    less = f" Your settings allow at most '{given}'." if given not in (None, level.lower()) else ""
    if not most:
        less = f" '{clean_line(talk.model.name)}' has no effort levels, so it has no effect on this model."
    print_line(talk, f"Effort: {given or 'default'}, from the next prompt.{less}", TextStyle.DIM)


# --- kept in the settings -----------------------------------------------------------------------------------------


async def theme(talk: SlashContext, name: str) -> None:
    settings = talk.config.settings
    if not name:
        print_line(talk, f"Theme: {settings.theme}. Type /theme NAME: {', '.join(THEMES)}.")
    elif name not in THEMES:
        told = f"No theme '{clean_line(name)}'{suggest_near_name(name, THEMES)}. Themes: {', '.join(THEMES)}."
        raise SlashCommandError(told)
    else:
        talk.session.config = replace(talk.config, settings=replace(settings, theme=name))
        kept = await keep_setting(talk, "theme", name)
        print_line(talk, f"Theme: {name}.{kept}", TextStyle.DIM)


async def vim(talk: SlashContext, _: str) -> None:
    """Switch between the usual keys and those of vi."""
    settings = talk.config.settings
    mode = "normal" if settings.editor_mode == "vim" else "vim"
    talk.session.config = replace(talk.config, settings=replace(settings, editor_mode=mode))
    kept = await keep_setting(talk, "editorMode", mode)
    told = "The input has vi keys: Esc, then i to insert." if mode == "vim" else "The input has the usual keys."
    print_line(talk, f"{told}{kept}", TextStyle.DIM)


async def keep_setting(talk: SlashContext, name: str, value: str) -> str:
    """Return what to add to the answer: the setting may hold for this session only."""
    config = talk.config
    keeper = SettingsWriter(config.cwd, config.environment, asked_by(config.options))
    report = await asyncio.to_thread(keeper.keep, SettingsSource.USER, ValueChange((name,), value))
    return f" But {clean_line('; '.join(report.words))}." if report.words else " Kept in your settings."
