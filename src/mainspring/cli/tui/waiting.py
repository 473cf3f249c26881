"""What was said and has not been taken up yet: it is drawn over the input, and can be taken back.

Prompts that were submitted wait in the session, and are read there, so nothing is kept twice. The rest waits here:
slash commands, and what stands behind one.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from mainspring.agent.session import AgentSession
from mainspring.text import strip_control_characters, truncate

MARK = "❯ "
MOST_DRAWN = 4
HEAD = 500  # characters of a prompt that may be shown: no terminal has so many columns


class PromptQueue:
    def __init__(self, session: AgentSession) -> None:
        self._session = session
        self._own: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._own or self._session.queued)

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
        for queued in reversed(self._session.queued):
            if (prompt := await self._session.withdraw(queued.id)) is not None:
                return prompt.text
        return ""

    def draw(self, width: int, height: int) -> Sequence[Text]:
        texts = [*[queued.prompt.text for queued in self._session.queued], *self._own]
        if not texts or height < 1:
            return ()
        most = min(MOST_DRAWN, height)
        shown = texts[: most if len(texts) <= most else most - 1]
        lines = [
            Text(MARK + truncate(" ".join(strip_control_characters(text[:HEAD]).split()), width - 3), "note")
            for text in shown
        ]
        if len(texts) > len(shown):
            lines.append(Text(truncate(f"  … {len(texts) - len(shown)} more", width), "note"))
        return lines
