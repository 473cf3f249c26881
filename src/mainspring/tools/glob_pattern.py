"""Patterns for file names, as in ripgrep and git: `*`, `?`, `[a-z]`, `{a,b}`, `**` for any directories.

A pattern becomes a regular expression that never backtracks further than one star, so no pattern can run without limit.
(After a star, the first position where the next part matches is as good as any later one, so it is never given up:
`(?>...)`.)
"""

import re
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from mainspring.core.errors import ToolError

LONGEST = 1_000  # characters
MOST_ALTERNATIVES = 200  # that braces may expand to

_MAGIC = re.compile(r"[*?\[{\\]")


class SplitPattern(NamedTuple):
    folder: str  # where to begin; empty: the directory itself
    pattern: str


def compile_glob(pattern: str, *, whole: bool = False) -> re.Pattern[str]:
    """Compile a pattern for paths below a directory. A pattern without a slash matches the last name, at any depth,
    unless `whole`."""
    if len(pattern) > LONGEST:
        raise ToolError(f"The pattern has {len(pattern):,} characters; {LONGEST:,} is the limit.")
    return _any_of([_path(one, whole=whole) for one in expand_braces(pattern)])


def make_chooser(pattern: str, *, whole: bool) -> Callable[[list[str]], list[str]]:
    """Return a function that selects matching names. Most patterns only test the end of a name, which needs no
    expression."""
    matches = compile_glob(pattern, whole=whole).match
    starts = "**/*" if whole else "*"
    ends = tuple([one.removeprefix(starts) for one in expand_braces(pattern) if one.startswith(starts)])
    if len(ends) == len(expand_braces(pattern)) and not any("/" in end or _MAGIC.search(end) for end in ends):
        return lambda names: [name for name in names if name.endswith(ends)]
    return lambda names: [name for name in names if matches(name)]


def without_braces(pattern: str, *, whole: bool) -> re.Pattern[str]:
    """As in ignore files, where braces have no special meaning."""
    return _any_of([_path(pattern, whole=whole)])


def _any_of(alternatives: list[str]) -> re.Pattern[str]:
    return re.compile(rf"(?:{'|'.join(alternatives)})\Z", re.DOTALL)


def split_pattern(pattern: str) -> SplitPattern:
    """Split off the directories before the first special character."""
    parts = pattern.split("/")
    count = 0
    while count < len(parts) - 1 and not _MAGIC.search(parts[count]):
        count += 1
    return SplitPattern("/".join(parts[:count]), "/".join(parts[count:]))


def expand_braces(pattern: str) -> list[str]:
    """Expand the braces."""
    done: list[str] = []
    todo = [pattern]
    while todo:
        one = todo.pop()
        braces = _braces(one)
        if braces is None:
            done.append(one)
        else:
            start, end, cuts = braces
            edges = [start, *cuts, end]
            inner = [one[a + 1 : b] for a, b in pairwise(edges)]
            todo += [one[:start] + part + one[end + 1 :] for part in reversed(inner)]
        if len(done) + len(todo) > MOST_ALTERNATIVES:
            raise ToolError(f"The braces in '{pattern}' expand to more than {MOST_ALTERNATIVES} patterns: use fewer.")
    return done


def _braces(text: str) -> tuple[int, int, list[int]] | None:
    """The first pair of braces, and the commas directly in it."""
    start, depth, cuts = -1, 0, list[int]()
    at = 0
    while at < len(text):
        sign = text[at]
        if sign == "\\":
            at += 1
        elif sign == "{":
            start = at if depth == 0 else start
            depth += 1
        elif sign == "}" and depth:
            depth -= 1
            if depth == 0:
                return start, at, cuts
        elif sign == "," and depth == 1:
            cuts.append(at)
        at += 1
    return None


def _path(pattern: str, *, whole: bool) -> str:
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if len(parts) <= 1 and not whole:
        parts = ["**", *parts]
    if not parts or parts[-1] == "**":
        parts = [*parts, "*"]
    groups: list[list[str]] = [[]]  # between the double stars
    for part in parts:
        if part == "**":
            groups.append([])
        else:
            groups[-1].append(_name(part))
    first, *rest = ["/".join(group) for group in groups]
    made = first + "/" if first and rest else first
    for number, group in enumerate(rest, 1):
        if number == len(rest):
            made += f"(?:[^/]+/)*{group}"
        elif group:
            made += f"(?>(?:[^/]+/)*?{group}/)"
    return made


def _name(pattern: str) -> str:
    """Translate one path component."""
    chunks = [""]
    at = 0
    while at < len(pattern):
        if pattern[at] == "*":
            chunks += [""] if pattern[at - 1 : at] != "*" or at == 0 else []
            at += 1
        else:
            made, at = _one(pattern, at)
            chunks[-1] += made
    if len(chunks) == 1:
        return chunks[0]
    first, *middle, last = chunks
    if not any(chunks):
        return "[^/]+"
    return first + "".join([f"(?>[^/]*?{chunk})" for chunk in middle if chunk]) + f"[^/]*{last}(?![^/])"


def _one(pattern: str, at: int) -> tuple[str, int]:
    """The expression for one character, and the position of the next one."""
    sign = pattern[at]
    if sign == "?":
        return "[^/]", at + 1
    if sign == "\\" and at + 1 < len(pattern):
        return re.escape(pattern[at + 1]), at + 2
    if sign == "[" and (end := _end_of_class(pattern, at)) > 0:
        return _class(pattern[at + 1 : end]), end + 1
    return re.escape(sign), at + 1


def _end_of_class(pattern: str, at: int) -> int:
    """A bracket right after the opening one is a member of the class."""
    start = at + 2 if pattern[at + 1 : at + 2] in ("!", "^") else at + 1
    return pattern.find("]", start + 1)


def _class(inner: str) -> str:
    negated = inner[:1] in ("!", "^")
    inner = inner[1:] if negated else inner
    made: list[str] = []
    at = 0
    while at < len(inner):
        if inner[at + 1 : at + 2] == "-" and at + 2 < len(inner):
            low, high = inner[at], inner[at + 2]
            made += [f"{re.escape(low)}-{re.escape(high)}"] if low <= high else []
            at += 3
        else:
            made.append(re.escape(inner[at]))
            at += 1
    if not made:
        return "[^/]" if negated else "(?!)"
    return f"(?!/)[{'^' if negated else ''}{''.join(made)}]"
