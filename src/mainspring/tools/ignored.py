"""What `.gitignore` and its like keep out of a search, for the walk in Python.

Read are `.git/info/exclude`, `.gitignore`, `.ignore` and `.rgignore`, of a folder and of all above it. Not the user's
own file, which only git's settings can name.
"""

import os
import re
from contextlib import suppress
from typing import NamedTuple

from mainspring.processes.paths import PathRefused
from mainspring.processes.safe_open import open_below
from mainspring.tools.glob_pattern import without_braces

FILES = (".git/info/exclude", ".gitignore", ".ignore", ".rgignore")  # the later ones count for more
LARGEST = 1_000_000  # bytes of such a file
LONGEST = 1_000  # characters of a rule


class IgnoreRule(NamedTuple):
    matches: re.Pattern[str]
    ignore: bool
    folders_only: bool


class IgnoreRules(NamedTuple):
    """Of one folder."""

    prefix: str  # from there to where the walk begins; empty, or with a slash at its end
    below: str  # from where the walk begins to there, in the same way
    rules: list[IgnoreRule]

    def decide(self, path: str, *, folder: bool) -> bool | None:
        """Whether it is ignored; None: nothing is said. `path` begins where the walk does."""
        here = self.prefix + path.removeprefix(self.below)
        for rule in reversed(self.rules):
            if (folder or not rule.folders_only) and rule.matches.match(here):
                return rule.ignore
        return None


def is_ignored(path: str, stack: list[IgnoreRules], *, folder: bool) -> bool:
    for rules in reversed(stack):
        said = rules.decide(path, folder=folder)
        if said is not None:
            return said
    return False


def read_rules_above(start: str) -> list[IgnoreRules]:
    """Of the folders above, the outermost first."""
    stack: list[IgnoreRules] = []
    parts = start.strip("/").split("/") if start != "/" else []
    for count in range(len(parts)):
        folder = "/" + "/".join(parts[:count])
        stack += read_rules_in_folder(folder, "/".join(parts[count:]) + "/")
    return stack


def read_rules_in_folder(folder: str, prefix: str) -> list[IgnoreRules]:
    rules = [rule for name in FILES for rule in _rules(f"{folder}/{name}")]
    return [IgnoreRules(prefix, "", rules)] if rules else []


def read_folder_rules(folder: int, below: str) -> list[IgnoreRules]:
    """Of a folder in the walk. No link is followed."""
    rules: list[IgnoreRule] = []
    for name in FILES:
        with suppress(OSError, PathRefused):
            rules += _parsed(open_below(folder, name))
    return [IgnoreRules("", below, rules)] if rules else []


def _rules(file: str) -> list[IgnoreRule]:
    try:
        return _parsed(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError:  # none, or a folder of that name
        return []


def _parsed(fd: int) -> list[IgnoreRule]:
    """Closes the descriptor."""
    try:
        text = os.read(fd, LARGEST).decode("utf-8", "surrogateescape")
    finally:
        os.close(fd)
    return [rule for line in text.split("\n") if (rule := _rule(line)) is not None]


def _rule(line: str) -> IgnoreRule | None:
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
        return IgnoreRule(without_braces(line, whole="/" in line), not kept, folders_only)
    except re.error:  # such as an odd range
        return None
