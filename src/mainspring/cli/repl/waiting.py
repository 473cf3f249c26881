"""What was said and has not been taken up yet: it is drawn over the input, and can be taken back."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from mainspring.assembly.harmless import harmless
from mainspring.assembly.words import clip
from mainspring.core.value import Bundle
from mainspring.engine.shared import Command

MARK = "❯ "
MOST_DRAWN = 4


class Said(Bundle):
    text: str
    command: Command | None = None  # it was handed to the run that is under way


class Waiting:
    def __init__(self) -> None:
        self._all: list[Said] = []

    def __bool__(self) -> bool:
        return bool(self._all)

    def add(self, said: Said) -> None:
        self._all.append(said)

    @property
    def all(self) -> tuple[Said, ...]:
        return tuple(self._all)

    @property
    def is_handed_on(self) -> bool:
        """All of it: so one more may be, and overtakes nothing."""
        return all(said.command is not None for said in self._all)

    def next(self) -> str | None:
        """What nobody has been handed yet, if it is the first."""
        if not self._all or self._all[0].command is not None:
            return None
        return self._all.pop(0).text

    def taken_up(self, command_id: str) -> bool:
        """A run has it."""
        found = [said for said in self._all if said.command is not None and said.command.id == command_id]
        self._all = [said for said in self._all if said not in found]
        return bool(found)

    def remove(self, said: Said) -> None:
        self._all.remove(said)

    def draw(self, width: int, height: int) -> Sequence[Text]:
        if not self._all or height < 1:
            return ()
        most = min(MOST_DRAWN, height)
        shown = self._all[: most if len(self._all) <= most else most - 1]
        lines = [Text(MARK + clip(" ".join(harmless(said.text).split()), width - 3), "note") for said in shown]
        if len(self._all) > len(shown):
            lines.append(Text(clip(f"  … {len(self._all) - len(shown)} more", width), "note"))
        return lines
