"""Lists that the user asks for: sessions to go on with, models to talk to. What is typed narrows them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from mainspring.agent.words import plural
from mainspring.cli.models_command import dollars
from mainspring.cli.repl.menus import Choice, Choices, Clock, Picked
from mainspring.cli.repl.page import Page, clean, one_line
from mainspring.cli.repl.sheet import Sheet
from mainspring.cli.sessions_command import age
from mainspring.core.models import AS_OF, Model, same_model
from mainspring.sessions.listing import MOST_LISTED, SessionEntry

UNITS = (("MB", 1_000_000), ("kB", 1_000))


def sessions(entries: Sequence[SessionEntry], *, at: float, now: Clock) -> Sheet[str | None]:
    """As `listed` has them, the newest first. `at`: seconds since 1970, for their ages."""
    choices = [
        Choice(
            one_line(entry.title) or entry.session_id,
            " · ".join([age(at - entry.changed / 1_000), plural(entry.turns, "turn"), size(entry.size)]),
            also=entry.session_id,
        )
        for entry in entries
    ]
    told = "There is none in this folder." if not entries else ""
    if len(entries) >= MOST_LISTED:
        told = f"The newest {len(entries)}. Any other one: '/resume ID'."
    return picker("Resume a session", told, choices, [entry.session_id for entry in entries], now=now)


def models(known: Sequence[Model], current: str, *, now: Clock) -> Sheet[str | None]:
    """The one that is in use comes first under the cursor."""
    places = [place for place, model in enumerate(known) if same_model(model.name, current)]
    choices = [
        Choice(
            clean(model.name) + (" (in use)" if place in places[:1] else ""),
            f"{tokens(model.window)} · ${dollars(model.price.input)} in, ${dollars(model.price.output)} out",
        )
        for place, model in enumerate(known)
    ]
    told = f"In use: {clean(current)}. Prices are for a million tokens, as of {AS_OF}."
    return picker("Model", told, choices, [model.name for model in known], now=now, start=(*places, 0)[0])


def picker(  # noqa: PLR0913  # what is listed, and what it stands for
    title: str, told: str, choices: Sequence[Choice], names: Sequence[str], *, now: Clock, start: int = 0
) -> Sheet[str | None]:
    def meant(picked: Picked | None) -> str | None:
        return None if picked is None else names[picked.places[0]]

    page = Page.of(*([Text(told, "note")] if told else []))
    return Sheet(title, page, Choices(choices, narrowed=True, at=start), meant, now=now)


def size(number: int) -> str:
    for unit, least in UNITS:
        if number >= least:
            return f"{number / least:.0f} {unit}"
    return f"{number} bytes"


def tokens(number: int) -> str:
    return f"{number / 1_000_000:g}M tokens" if number >= 1_000_000 else f"{number // 1_000}k tokens"
