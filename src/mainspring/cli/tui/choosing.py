"""What stands behind a word with a slash, where somebody gave nothing: it is chosen from a list."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from rich.text import Text

from mainspring.cli.terminal_session import TerminalSession
from mainspring.cli.tui import pickers
from mainspring.cli.tui.dialog import PageDialog
from mainspring.cli.tui.layout import ScrollPage, clean_for_drawing, one_line
from mainspring.cli.tui.menu import Clock, Menu, MenuItem, MenuSelection
from mainspring.cli.tui.screen import Screen

YES = "yes"


async def ask_dialog(sheet: PageDialog[str | None], stage: Screen) -> str | None:
    stage.open(sheet)
    try:
        return await sheet.answer()
    finally:
        sheet.close()
        stage.close(sheet)


async def choose_session(talk: TerminalSession, stage: Screen) -> str | None:
    from mainspring.agent.resume import new_place
    from mainspring.sessions.listing import list_sessions_in

    place = new_place(talk.config.environment, talk.config.cwd, ())
    if place.home is None:
        return ""
    own = talk.world.about.session_id
    found = [one for one in await asyncio.to_thread(list_sessions_in, place.folder) if one.session_id != own]
    return (
        await ask_dialog(pickers.make_session_picker(found, at=time.time(), now=stage.attended), stage) if found else ""
    )


async def choose_model(talk: TerminalSession, stage: Screen) -> str | None:
    from mainspring.cli.commands.models import known_models

    known = known_models(talk.config.settings)
    return await ask_dialog(pickers.make_model_picker(known, talk.model.name, now=stage.attended), stage)


async def choose_prompt(talk: TerminalSession, stage: Screen) -> str | None:
    """Numbered from the end, as `/rewind` takes them. Empty: the word itself says why there is no way back."""
    from mainspring.cli.slash.session import list_user_prompts

    texts = [one.text for one in reversed(list_user_prompts(talk))]
    if not texts:
        return ""
    numbers = [str(number) for number in range(1, len(texts) + 1)]
    choices = [MenuItem(one_line(text) or "(no words)") for text in texts]
    told = "The conversation goes back to before this prompt, as a fork. Files stay as they are."
    return await ask_dialog(pickers.make_picker("Rewind", told, choices, numbers, now=stage.attended), stage)


async def ask_for_trust(held: list[str], folder: str, stage: Screen) -> bool:
    return await ask_dialog(make_trust_dialog(held, folder, now=stage.attended), stage) == YES


def make_trust_dialog(held: list[str], folder: str, *, now: Clock) -> PageDialog[str | None]:
    """Without a filter, and with the safe choice selected: to trust needs its number, or its own line and Enter."""
    said = (
        f"{clean_for_drawing(folder)} brings {', '.join(held)}. They may run commands and change what is asked; "
        "they take effect only if you trust the folder."
    )
    choices = Menu([MenuItem("Continue without them"), MenuItem("Trust this folder")])

    def meant(picked: MenuSelection | None) -> str | None:
        return None if picked is None else ("", YES)[picked.places[0]]

    page = ScrollPage.of(Text(said, "note"))
    return PageDialog("Do you trust this folder?", page, choices, meant, now=now, grants=True)


CHOICES: dict[str, Callable[[TerminalSession, Screen], Awaitable[str | None]]] = {
    "resume": choose_session,
    "model": choose_model,
    "rewind": choose_prompt,
}
