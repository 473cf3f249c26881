"""What `.gitignore` and its like keep out of a search, for the walk in Python.

Read are `.git/info/exclude`, `.gitignore`, `.ignore` and `.rgignore`, of a folder and of all above it. Not the user's
own file, which only git's settings can name.
"""

import os
import re
from contextlib import suppress
from typing import NamedTuple

from mainspring.processes.opening import open_below
from mainspring.processes.paths import PathRefused
from mainspring.tools.glob_pattern import without_braces

FILES = (".git/info/exclude", ".gitignore", ".ignore", ".rgignore")  # the later ones count for more
LARGEST = 1_000_000  # bytes of such a file
LONGEST = 1_000  # characters of a rule


class Rule(NamedTuple):
    matches: re.Pattern[str]
    ignore: bool
    folders_only: bool


class Rules(NamedTuple):
    """Of one folder."""

    prefix: str  # from there to where the walk begins; empty, or with a slash at its end
    below: str  # from where the walk begins to there, in the same way
    rules: list[Rule]

    def decide(self, path: str, *, folder: bool) -> bool | None:
        """Whether it is ignored; None: nothing is said. `path` begins where the walk does."""
        here = self.prefix + path.removeprefix(self.below)
        for rule in reversed(self.rules):
            if (folder or not rule.folders_only) and rule.matches.match(here):
                return rule.ignore
        return None


def ignored(path: str, stack: list[Rules], *, folder: bool) -> bool:
    for rules in reversed(stack):
        said = rules.decide(path, folder=folder)
        if said is not None:
            return said
    return False


def above(start: str) -> list[Rules]:
    """Of the folders above, the outermost first."""
    stack: list[Rules] = []
    parts = start.strip("/").split("/") if start != "/" else []
    for count in range(len(parts)):
        folder = "/" + "/".join(parts[:count])
        stack += of_folder(folder, "/".join(parts[count:]) + "/")
    return stack


def of_folder(folder: str, prefix: str) -> list[Rules]:
    rules = [rule for name in FILES for rule in _rules(f"{folder}/{name}")]
    return [Rules(prefix, "", rules)] if rules else []


def of_opened(folder: int, below: str) -> list[Rules]:
    """Of a folder in the walk. No link is followed."""
    rules: list[Rule] = []
    for name in FILES:
        with suppress(OSError, PathRefused):
            rules += _parsed(open_below(folder, name))
    return [Rules("", below, rules)] if rules else []


def _rules(file: str) -> list[Rule]:
    try:
        return _parsed(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError:  # none, or a folder of that name
        return []


def _parsed(fd: int) -> list[Rule]:
    """Closes the descriptor."""
    try:
        text = os.read(fd, LARGEST).decode("utf-8", "surrogateescape")
    finally:
        os.close(fd)
    return [rule for line in text.split("\n") if (rule := _rule(line)) is not None]


def _rule(line: str) -> Rule | None:
    line = line.removesuffix("\r").removeprefix("\ufeff")
    while line.endswith(" ") and not line.endswith("\\ "):
        line = line[:-1]
    if not line or line.startswith("#") or len(line) > LONGEST:
        return None
    kept = line.startswith("!")
    line = line[1:] if kept else line
    folders_only = line.endswith("/")
    line = line.rstrip("/") if folders_only else line
    if not line:
        return None
    try:
        return Rule(without_braces(line, whole="/" in line), not kept, folders_only)
    except re.error:  # such as an odd range
        return None
