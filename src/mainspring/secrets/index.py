"""Many secrets, looked for in one pass: what a text costs hardly depends on how many they are.

Almost every secret has fifteen characters in a row of which keys are made. Of such a part every eight in a row are
written into a table; of a text, only rows of at least fifteen such characters are looked at, and of those every eighth
place: wherever a secret stands, one of these places is within its part. What the table then says is compared with the
values themselves. Secrets that have no such part, as short passwords, are looked for one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

STEP = 8  # characters: what is looked up, and how far apart
PART = 2 * STEP - 1
_ROW = re.compile(rb"[A-Za-z0-9_-]{%d,}" % PART)


class SecretSpot(NamedTuple):
    """Where, around a piece that is in the table, a secret would be."""

    before: int  # bytes of it that stand before the piece
    size: int


class SecretIndex:
    """May be read while another thread changes it: each look is one step of a dict."""

    def __init__(self, values: Iterable[str]) -> None:
        self._whole: set[bytes] = set()
        self._spots: dict[bytes, dict[SecretSpot, int]] = {}  # by their pieces; and how many values have each
        self._odd: dict[bytes, None] = {}  # that have no such part
        self._by_letters: list[bytes] | None = None
        self._changes = 0
        for value in values:
            self.add(value)

    def add(self, value: str) -> None:
        written = value.encode(errors="surrogatepass")
        pieces = _pieces(written)
        if pieces:
            self._whole.add(written)
        else:
            self._odd[written] = None
        self._changed()
        for piece, spot in pieces:
            spots = self._spots.setdefault(piece, {})
            spots[spot] = spots.get(spot, 0) + 1

    def drop(self, value: str) -> None:
        written = value.encode(errors="surrogatepass")
        self._odd.pop(written, None)
        self._whole.discard(written)
        self._changed()
        for piece, spot in _pieces(written):
            spots = self._spots[piece]
            spots[spot] -= 1
            if not spots[spot]:
                del spots[spot]
            if not spots:
                del self._spots[piece]

    def _changed(self) -> None:
        self._changes += 1
        self._by_letters = None

    def by_letters(self) -> list[bytes]:
        found, changes = self._by_letters, self._changes
        if found is None:
            found = sorted([*self._whole, *self._odd])
            if changes == self._changes:  # else another thread has added one meanwhile, and this is not kept
                self._by_letters = found
        return found

    def within(self, data: bytes) -> set[bytes]:
        found = {value for value in tuple(self._odd) if value in data}
        spots_of = self._spots.get
        for row in _ROW.finditer(data):
            for at in range(row.start(), row.end() - STEP + 1, STEP):
                if spots := spots_of(data[at : at + STEP]):
                    around = [(at - before, size) for before, size in tuple(spots)]
                    values = [data[start : start + size] for start, size in around if start >= 0]
                    found.update([value for value in values if value in self._whole])
        return found


def _pieces(written: bytes) -> list[tuple[bytes, SecretSpot]]:
    """Of the end of the longest row: keys of one kind begin alike."""
    row = max(_ROW.finditer(written), key=lambda found: found.end() - found.start(), default=None)
    if row is None:
        return []
    starts = range(row.end() - PART, row.end() - STEP + 1)
    return [(written[at : at + STEP], SecretSpot(at, len(written))) for at in starts]
