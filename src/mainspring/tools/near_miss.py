"""Why a text was not found in a file, told so that the next try succeeds.

Each fold makes two texts equal that differ in one way only. The first one under which the text is found names the
difference. If none does, the lines that have most in common with it are shown.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from mainspring.tools.snippet import number_lines, snippet_around

LARGEST = 2_000_000  # characters of a file; looking for what is near in a larger one takes seconds
MOST_LINES = 2_000  # of the text that was looked for
MOST_COMPARED = 5_000  # lines, one by one
ALIKE = 0.6

_NUMBER = r"[ \t]*\d+(?:\t|→|: )"
_SAME = str.maketrans(
    {
        "\u2018": "'", "\u2019": "'", "\u201a": "'", "\u201b": "'", "\u201c": '"', "\u201d": '"', "\u201e": '"',
        "\u2013": "-", "\u2014": "-", "\u2212": "-", "\u2026": "...", "\u00a0": " ", "\u202f": " ", "\u200b": "",
    }
)  # fmt: skip


class TextFold(NamedTuple):
    what: str  # that differs
    line: Callable[[str], str]


def _unspaced(line: str) -> str:
    return "".join(line.split())


def _straight(line: str) -> str:
    return line.translate(_SAME).strip()


def _lower(line: str) -> str:
    return line.strip().casefold()


def _unescaped(line: str) -> str:
    return line.replace("\\", "").strip()


def _composed(line: str) -> str:
    from unicodedata import normalize

    return normalize("NFC", line)


FOLDS = (
    TextFold("blanks at the ends of lines", str.rstrip),
    TextFold("indentation: tabs or blanks at the beginning of lines", str.strip),
    TextFold("blanks and tabs within lines", _unspaced),
    TextFold("curly quotes, dashes or other blanks that look alike", _straight),
    TextFold("accents: composed and decomposed characters look alike", _composed),
    TextFold("upper and lower case", _lower),
    TextFold("backslashes: one of the two is escaped", _unescaped),
)


def explain_no_match(text: str, wanted: str, name: str) -> str:
    """Both with plain line ends."""
    said = f"'old_string' was not found in '{name}'. Nothing was done. "
    if "\ufffd" in wanted:
        return said + "It holds \ufffd, which stands for bytes that are no text: leave those out of it."
    if len(text) > LARGEST or wanted.count("\n") >= MOST_LINES:
        return said + "Read the lines in question again, and copy them as they are."
    stripped = strip_line_numbers(wanted)
    if stripped != wanted and stripped in text:
        return said + "It holds line numbers as Read shows them: leave out each number and the tab behind it."
    lines = text.split("\n")
    for fold in FOLDS:
        found = _folded(lines, wanted, fold)
        if found is not None:
            return (
                f"{said}These lines differ from it only in {fold.what}. Copy them as they are:\n{_shown(lines, found)}"
            )
    near = _nearest(lines, wanted)
    if near is None:
        return said + "No line is like it: read the file again, or look for it with Grep."
    return f"{said}The nearest lines are:\n{snippet_around(lines, *near)}"


def strip_line_numbers(text: str) -> str:
    """Without line numbers, if each line has one."""
    lines = text.split("\n")
    filled = [line for line in lines if line.strip()]
    if not filled or not all(re.match(_NUMBER, line) for line in filled):
        return text
    return "\n".join([re.sub(f"^{_NUMBER}", "", line) for line in lines])


def _folded(lines: list[str], wanted: str, fold: TextFold) -> tuple[int, int] | None:
    """The lines, as a range, where the text is once both are folded."""
    look_for = "\n".join([fold.line(line) for line in wanted.split("\n")]).strip("\n")
    if not look_for.strip():
        return None
    folded = "\n".join([fold.line(line) for line in lines])
    at = folded.find(look_for)
    if at < 0:
        return None
    start = folded.count("\n", 0, at)
    return start, start + look_for.count("\n") + 1


def _shown(lines: list[str], found: tuple[int, int]) -> str:
    start, end = found
    return snippet_around(lines, start, end) if end - start > 40 else number_lines(lines[start:end], start + 1)


def _nearest(lines: list[str], wanted: str) -> tuple[int, int] | None:
    """Where most lines are the same, blanks aside; if none is, where one is alike."""
    parts = [part for line in wanted.split("\n") if len(part := line.strip()) > 2]
    places: dict[str, int] = {part: at for at, part in reversed(list(enumerate(parts)))}
    votes: dict[int, int] = {}  # for a beginning of the whole text, by each line that is the same
    for number, line in enumerate(lines):
        at = places.get(line.strip())
        if at is not None:
            votes[number - at] = votes.get(number - at, 0) + 1
    if votes:
        start = max(votes, key=lambda place: votes[place])
        return max(0, start), min(len(lines), max(0, start) + wanted.count("\n") + 1)
    return _alike(lines, max(parts, key=len)) if parts else None


def _alike(lines: list[str], part: str) -> tuple[int, int] | None:
    from difflib import SequenceMatcher  # only after a failure

    matcher = SequenceMatcher(None, b=part[:200], autojunk=False)
    best, place = ALIKE, None
    for number, line in enumerate(lines[:MOST_COMPARED]):
        matcher.set_seq1(line.strip()[:200])
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and (ratio := matcher.ratio()) > best:
            best, place = ratio, number
    return None if place is None else (place, place + 1)
