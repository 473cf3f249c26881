"""What was said and has not been taken up yet: it is drawn over the input, and can be taken back.

Words for the model that a run can take wait in the session's own inbox, and are read there, so nothing is kept twice.
The rest waits here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.text import Text

from mainspring.assembly.harmless import harmless
from mainspring.assembly.words import clip
from mainspring.core.messages import Origin
from mainspring.engine.session import Session
from mainspring.engine.shared import Command

MARK = "❯ "
MOST_DRAWN = 4
HEAD = 500  # characters of a prompt that may be shown: no terminal has so many columns


class Waiting:
    def __init__(self, session: Callable[[], Session]) -> None:
        """`session`: the one that is spoken to now."""
        self._session = session
        self._own: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._own or self.handed_on)

    @property
    def handed_on(self) -> tuple[Command, ...]:
        """To the session, which takes them with its next request."""
        return tuple([one for one in self._session().shared.inbox.waiting() if one.origin is Origin.PROMPT])

    @property
    def has_own(self) -> bool:
        return bool(self._own)

    def add(self, text: str) -> None:
        self._own.append(text)

    def next(self) -> str | None:
        return self._own.pop(0) if self._own else None

    async def take_back(self) -> str:
        """What was said last, unless it is on its way to the model."""
        if self._own:
            return self._own.pop()
        for command in reversed(self.handed_on):
            if await self._session().withdraw(command):
                return command.text
        return ""

    def draw(self, width: int, height: int) -> Sequence[Text]:
        texts = [*[command.text for command in self.handed_on], *self._own]
        if not texts or height < 1:
            return ()
        most = min(MOST_DRAWN, height)
        shown = texts[: most if len(texts) <= most else most - 1]
        lines = [Text(MARK + clip(" ".join(harmless(text[:HEAD]).split()), width - 3), "note") for text in shown]
        if len(texts) > len(shown):
            lines.append(Text(clip(f"  … {len(texts) - len(shown)} more", width), "note"))
        return lines
