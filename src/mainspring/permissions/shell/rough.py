"""A search in text that could not be read: too long, too deep, broken. It finds denied commands in plain sight.

Without it a limit of the reader would turn a deny into a question (security S10). It takes linear time, whatever the
text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from mainspring.permissions.rules import glob_matches
from mainspring.permissions.shell.tables import names

_QUOTES = str.maketrans("", "", "'\"\\")
_ENDS = re.compile(r"[;&|(){}`\n]+")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
# Words before a command: they run what follows, or the shell knows them.
_BEFORE = names(
    "! $ do then else elif if while until exec sudo doas env nohup command builtin xargs time eval coproc nice setsid"
)
_REMOVAL = re.compile(r"(?<![\w.-])(?:rm|rmdir)(?![\w.-])")

Commands = dict[str, list[str]]  # by the base name of the command; each from its name on, words joined by one blank


def strip_quotes(text: str) -> str:
    return text.replace("\\\n", "").translate(_QUOTES)


def may_remove(text: str) -> bool:
    return _REMOVAL.search(strip_quotes(text)) is not None


def find_rough_commands(text: str) -> Commands:
    """What looks like a command."""
    found: Commands = {}
    before = set(_BEFORE)
    for piece in set(_ENDS.split(strip_quotes(text))):
        words = piece.split()
        start = 0
        while start < len(words) - 1 and (words[start] in before or _ASSIGNMENT.match(words[start])):
            before.add(words[start])  # a line may repeat it a great many times
            start += 1
        if words:
            name = words[start].rpartition("/")[2]
            found.setdefault(name, []).append(" ".join([name, *words[start + 1 :]]))
    return found


def holds_command(found: Commands, parts: tuple[str, ...], *, prefix: bool) -> bool:
    """Whether one of the commands is the parts, with anything between them; words are joined by one blank."""
    first = parts[0].partition(" ")[0]
    for line in _named(found, first, whole=" " in parts[0] or len(parts) == 1):
        if glob_matches(parts, line) or (prefix and line.startswith(parts[0] + " ")):
            return True
    return False


def _named(found: Commands, name: str, *, whole: bool) -> Iterator[str]:
    if whole:
        yield from found.get(name.rpartition("/")[2], ())
        return
    for other, lines in found.items():
        if other.startswith(name):
            yield from lines
