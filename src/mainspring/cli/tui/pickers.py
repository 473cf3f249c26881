"""Lists that the user asks for: sessions to go on with, models to talk to. What is typed narrows them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from mainspring.cli.commands.models import format_dollars
from mainspring.cli.commands.sessions import format_age
from mainspring.cli.tui.dialog import PageDialog
from mainspring.cli.tui.layout import ScrollPage, clean_for_drawing, one_line
from mainspring.cli.tui.menu import Clock, Menu, MenuItem, MenuSelection
from mainspring.core.models import AS_OF, Model, same_model
from mainspring.sessions.listing import MOST_LISTED, SessionEntry
from mainspring.text import plural

UNITS = (("MB", 1_000_000), ("kB", 1_000))


def make_session_picker(entries: Sequence[SessionEntry], *, at: float, now: Clock) -> PageDialog[str | None]:
    """As `listed` has them, the newest first. `at`: seconds since 1970, for their ages."""
    choices = [
        MenuItem(
            one_line(entry.title) or entry.session_id,
            " · ".join([format_age(at - entry.changed / 1_000), plural(entry.turns, "turn"), format_size(entry.size)]),
            also=entry.session_id,
        )
        for entry in entries
    ]
    told = "There is none in this folder." if not entries else ""
    if len(entries) >= MOST_LISTED:
        told = f"The newest {len(entries)}. Any other one: '/resume ID'."
    return make_picker("Resume a session", told, choices, [entry.session_id for entry in entries], now=now)


def make_model_picker(known: Sequence[Model], current: str, *, now: Clock) -> PageDialog[str | None]:
    """The one that is in use comes first under the cursor."""
    places = [place for place, model in enumerate(known) if same_model(model.name, current)]
    choices = [
        MenuItem(
            clean_for_drawing(model.name) + (" (in use)" if place in places[:1] else ""),
            f"{format_window(model.window)} · ${format_dollars(model.price.input)} in, "
            f"${format_dollars(model.price.output)} out",
        )
        for place, model in enumerate(known)
    ]
    told = f"In use: {clean_for_drawing(current)}. Prices are for a million tokens, as of {AS_OF}."
    return make_picker("Model", told, choices, [model.name for model in known], now=now, start=(*places, 0)[0])


def make_picker(  # noqa: PLR0913  # what is listed, and what it stands for
    title: str, told: str, choices: Sequence[MenuItem], names: Sequence[str], *, now: Clock, start: int = 0
) -> PageDialog[str | None]:
    def meant(picked: MenuSelection | None) -> str | None:
        return None if picked is None else names[picked.places[0]]

    page = ScrollPage.of(*([Text(told, "note")] if told else []))
    return PageDialog(title, page, Menu(choices, narrowed=True, at=start), meant, now=now)


def format_size(number: int) -> str:
    for unit, least in UNITS:
        if number >= least:
            return f"{number / least:.0f} {unit}"
    return f"{number} bytes"


def format_window(number: int) -> str:
    return f"{number / 1_000_000:g}M tokens" if number >= 1_000_000 else f"{number // 1_000}k tokens"
