"""What stands behind a word with a slash, where somebody gave nothing: it is chosen from a list."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from rich.text import Text

from mainspring.cli.repl import pickers
from mainspring.cli.repl.menus import Choice, Choices, Clock, Picked
from mainspring.cli.repl.page import Page, clean, one_line
from mainspring.cli.repl.sheet import Sheet
from mainspring.cli.repl.stage import Stage
from mainspring.cli.talk import Talk

YES = "yes"


async def chosen(sheet: Sheet[str | None], stage: Stage) -> str | None:
    stage.open(sheet)
    try:
        return await sheet.answer()
    finally:
        sheet.close()
        stage.close(sheet)


async def session(talk: Talk, stage: Stage) -> str | None:
    from mainspring.agent.sessions import new_place
    from mainspring.sessions.listing import list_sessions_in

    place = new_place(talk.config.environment, talk.config.cwd, ())
    if place.home is None:
        return ""
    own = talk.world.about.session_id
    found = [one for one in await asyncio.to_thread(list_sessions_in, place.folder) if one.session_id != own]
    return await chosen(pickers.sessions(found, at=time.time(), now=stage.attended), stage) if found else ""


async def model(talk: Talk, stage: Stage) -> str | None:
    from mainspring.cli.models_command import known_models

    known = known_models(talk.config.settings)
    return await chosen(pickers.models(known, talk.model.name, now=stage.attended), stage)


async def prompt(talk: Talk, stage: Stage) -> str | None:
    """Numbered from the end, as `/rewind` takes them. Empty: the word itself says why there is no way back."""
    from mainspring.cli.words.conversations import said

    texts = [one.text for one in reversed(said(talk))]
    if not texts:
        return ""
    numbers = [str(number) for number in range(1, len(texts) + 1)]
    choices = [Choice(one_line(text) or "(no words)") for text in texts]
    told = "The conversation goes back to before this prompt, as a fork. Files stay as they are."
    return await chosen(pickers.picker("Rewind", told, choices, numbers, now=stage.attended), stage)


async def trusts(held: list[str], folder: str, stage: Stage) -> bool:
    return await chosen(trust(held, folder, now=stage.attended), stage) == YES


def trust(held: list[str], folder: str, *, now: Clock) -> Sheet[str | None]:
    """Without a filter, and with the safe choice selected: to trust needs its number, or its own line and Enter."""
    said = (
        f"{clean(folder)} brings {', '.join(held)}. They may run commands and change what is asked; "
        "they take effect only if you trust the folder."
    )
    choices = Choices([Choice("Continue without them"), Choice("Trust this folder")])

    def meant(picked: Picked | None) -> str | None:
        return None if picked is None else ("", YES)[picked.places[0]]

    page = Page.of(Text(said, "note"))
    return Sheet("Do you trust this folder?", page, choices, meant, now=now, grants=True)


CHOICES: dict[str, Callable[[Talk, Stage], Awaitable[str | None]]] = {
    "resume": session,
    "model": model,
    "rewind": prompt,
}
