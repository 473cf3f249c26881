"""The name that was probably meant, for messages about one that nobody knows. Loaded only after a mistake."""

from __future__ import annotations

from collections.abc import Iterable

LEAST = 3  # characters: of less than these, everything is near
MOST = 3  # slips, however long a name is


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """To be put behind what was said about the name; empty if none is near."""
    found = closest_name(name, names)
    return f". Did you mean '{found}'?" if found else ""


def closest_name(name: str, names: Iterable[str]) -> str:
    """The nearest; of several, the first. One slip is forgiven for every three characters; so is a name that was not
    written to its end, and whether letters are large or small. Empty if none is near enough."""
    said = name.lower()
    if len(said) < LEAST:
        return next((one for one in names if one.lower() == said), "")
    limit = min(MOST, len(said) // 3)
    near = [(slips_of(said, one.lower(), limit), one) for one in names]
    return min([pair for pair in near if pair[0] <= limit], key=lambda pair: pair[0], default=(0, ""))[1]


def slips_of(said: str, name: str, limit: int) -> int:
    """How many; one, if only the end is missing. Above the limit it may be any number above it."""
    if name.startswith(said):
        return 0 if said == name else 1
    return distance(said, name) if abs(len(said) - len(name)) <= limit else limit + 1


def distance(one: str, other: str) -> int:
    """Letters too many, too few, wrong, or two of them in the wrong order."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        last, before = before, row
        row = [i]
        for j, wanted in enumerate(other, 1):
            best = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                best = min(best, last[j - 2] + 1)
            row.append(best)
    return row[-1]
