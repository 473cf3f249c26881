"""Markdown as plain text, while it streams: for screen readers, which would spell out every mark.

Text without marks passes at once. From a mark on, the rest of the line waits until the line is complete.
"""

from __future__ import annotations

import re

STRUCTURE = "#>|`~-*_"  # a line that begins with one of these waits
INLINE = "*_`[!~"
_FENCE = re.compile(r"\s*(```+|~~~+)\s*([\w+-]*)")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+(.*?)\s*#*\s*$")
RULE = re.compile(r" {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$")
DELIMITERS = re.compile(r" {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")  # of a table
_QUOTE = re.compile(r"\s{0,3}>\s?(.*)$")
_CODE = re.compile(r"(`+)(.+?)\1")
_IMAGE = re.compile(r"!\[([^\]]*)\]\([^)]*\)")
_LINK = re.compile(r"\[([^\]]+)\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
_STRONG = re.compile(r"(\*\*|__|~~)(?=\S)(.+?)(?<=\S)\1")
_EMPHASIS = re.compile(r"(?<![\w*])([*_])(?=[^\s*_])([^*_]*?)(?<=\S)\1(?![\w*])")


class PlainMarkdown:
    """The output does not depend on how the text was split into deltas."""

    def __init__(self) -> None:
        self._line = ""  # the part of the line that waits
        self._begun = False  # a part of the line was passed on
        self._fence = ""  # the marks that end the block of code

    def add(self, piece: str) -> str:
        """The text that can be shown now."""
        return "".join([self._take(char) for char in piece])

    def end(self) -> str:
        """The rest."""
        rest = self._render(self._line, begun=self._begun)
        self._line, self._begun, self._fence = "", False, ""
        return "" if rest == DROPPED else rest

    def _take(self, char: str) -> str:
        if char == "\n":
            line, begun = self._line, self._begun
            self._line, self._begun = "", False
            shown = self._render(line, begun=begun)
            return "" if shown == DROPPED else f"{shown}\n"
        if self._line or not self._passes(char):
            self._line += char
            return ""
        self._begun = True
        return char

    def _passes(self, char: str) -> bool:
        if self._begun:
            return bool(self._fence) or char not in INLINE
        return not char.isspace() and char not in STRUCTURE and char not in INLINE

    def _render(self, line: str, *, begun: bool = False) -> str:
        """A line, or the rest of one that has `begun`."""
        if begun:
            return line if self._fence else render_inline(line)
        fence = _FENCE.match(line)
        if self._fence:
            if fence is None or not fence[1].startswith(self._fence):
                return line
            self._fence = ""
            return "End of code."
        if fence is not None and "`" not in line[fence.end() :]:
            self._fence = fence[1]
            return f"Code ({fence[2]}):" if fence[2] else "Code:"
        return render_line(line)


DROPPED = "\0"  # the line has only marks


def render_line(line: str) -> str:
    if (found := _HEADING.match(line)) is not None:
        return f"Heading: {render_inline(found[1])}"
    if RULE.match(line) or ("|" in line and DELIMITERS.match(line)):
        return DROPPED
    if line.lstrip().startswith("|"):
        cells = [render_inline(cell.strip()) for cell in line.strip().strip("|").split("|")]
        return f"Row: {'; '.join(cells)}"
    if (found := _QUOTE.match(line)) is not None:
        return f"Quote: {render_inline(found[1])}"
    return render_inline(line)


def render_inline(text: str) -> str:
    """Without marks; code between backticks keeps its characters."""
    parts: list[str] = []
    at = 0
    for code in _CODE.finditer(text):
        parts += [strip_marks(text[at : code.start()]), code[2].strip() or code[2]]
        at = code.end()
    return "".join([*parts, strip_marks(text[at:])])


def strip_marks(text: str) -> str:
    text = _IMAGE.sub(lambda found: f"Image: {found[1]}" if found[1] else "Image", text)
    text = _LINK.sub(lambda found: found[1] if found[1] == found[2] else f"{found[1]} ({found[2]})", text)
    return _EMPHASIS.sub(r"\2", _STRONG.sub(r"\2", text))
