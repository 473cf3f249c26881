"""What is pasted: a long text stands in the input as one word, and is put back when the prompt is sent.

    [Pasted text #1, 42 lines]

Behind 'Pasted' is a blank that does not break, which nobody types: so what was typed by hand is never taken for one. It
is known by all of its characters; whoever changes one of them has text of their own, and nothing is put back.
"""

# ruff: noqa: PTH113, PTH118  # names are plain strings here

from __future__ import annotations

import os
import re

from mainspring.cli.tui.completion import format_mention
from mainspring.settings.load import expand_tilde
from mainspring.text import plural, strip_control_characters

MOST_LINES = 10  # a paste of more is long
MOST_CHARACTERS = 2_000
MOST_KEPT = 100  # pastes, besides those that stand in the input: prompts of before may be taken up again
IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp")  # those that models take
LONGEST_PATH = 4_096

_STANDS = re.compile(r"\[Pasted\u00a0text #\d+, [\d,]+ lines?\]")


class PastedTexts:
    """Those of one session."""

    def __init__(self, cwd: str, home: str = "") -> None:
        """For names of images: where they are seen from, and what '~' stands for."""
        self._cwd, self._home = cwd, home
        self._texts: dict[str, str] = {}  # by what stands for them, the oldest first
        self._number = 0

    def put(self, pasted: str, before: str = "", after: str = "") -> str:
        """What to put into the input, whose text before and after the cursor is given."""
        text = clean_paste(pasted)
        if image := self._image(text):
            blank = " " if before and not before[-1].isspace() else ""
            return blank + (image.rstrip(" ") if after[:1].isspace() else image)
        if text.count("\n") + (not text.endswith("\n")) <= MOST_LINES and len(text) <= MOST_CHARACTERS:
            return text
        return self._keep(text, before + after)

    def expand(self, text: str) -> str:
        """With each of them put back; what they hold is left as it is."""
        return _STANDS.sub(lambda found: self._texts.get(found[0], found[0]), text)

    def before(self, text: str, cursor: int) -> int:
        """How many characters one press of backspace takes: one, or what stands for a paste."""
        start, end = self.around(text, cursor - 1)
        return cursor - max(start, 0) if end == cursor else min(1, cursor)

    def after(self, text: str, cursor: int) -> int:
        """The same for the key that deletes what follows."""
        start, end = self.around(text, cursor)
        return min(end, len(text)) - cursor if start == cursor else min(1, len(text) - cursor)

    def around(self, text: str, at: int) -> tuple[int, int]:
        """Where the unit begins and ends that a character belongs to: of most characters, they are one themselves."""
        begin = text.rfind("[", 0, at + 1)
        found = _STANDS.match(text, begin) if begin >= 0 else None
        if found is not None and at < found.end() and found[0] in self._texts:
            return found.span()
        return at, at + 1

    def _keep(self, text: str, there: str) -> str:
        self._number += 1
        lines = plural(text.count("\n") + (not text.endswith("\n")), "line")
        name = f"[Pasted\u00a0text #{self._number}, {lines}]"
        self._texts[name] = text
        for old in list(self._texts)[:-MOST_KEPT]:
            if old not in there:
                del self._texts[old]
        return name

    def _image(self, text: str) -> str:
        """How a prompt names it, if this is the path of an image that is there; else nothing."""
        said = text.strip()
        if len(said) > LONGEST_PATH or "\n" in said or not said.rstrip("'\"").lower().endswith(IMAGES):
            return ""
        for path in dict.fromkeys((said, _bare(said))):
            seen = expand_tilde(path, self._home) if self._home else path
            if os.path.isfile(os.path.join(self._cwd, seen)):
                return format_mention(path)
        return ""


def _bare(said: str) -> str:
    """As terminals drop a file: in quotes, with backslashes, or as an address."""
    if said.startswith("file://"):
        from urllib.parse import unquote

        return unquote(said.removeprefix("file://").removeprefix("localhost"))
    if said[0] in "'\"" and said[-1] == said[0] and len(said) > 1:
        return said[1:-1]
    return re.sub(r"\\(.)", r"\1", said)


def clean_paste(text: str) -> str:
    """With line feeds alone for the ends of lines, and without control characters and what is no character."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return strip_control_characters(lines.encode(errors="ignore").decode())
