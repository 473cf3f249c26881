"""Hook matchers: regular expressions for tool names.

`compile_matcher` rejects a pattern that is invalid or could run without end, and gives the reason. The caller then
falls back to the strict reading: the hook applies to every tool.
"""

from __future__ import annotations

import re

EVERY_TOOL = ("", "*")
MOST_REPEATS = 4  # unbounded ones in one alternative: each multiplies the time by the length of the name
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[*+]|\{(\d*)(,?)(\d*)\}|[()|]|.", re.DOTALL)
_LONGEST_COUNT = 16


def compile_matcher(matcher: str) -> re.Pattern[str] | None:
    """Compile a matcher. None: it matches every tool. Raises `ValueError` with the reason."""
    if matcher in EVERY_TOOL:
        return None
    try:
        pattern = re.compile(matcher)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"it is not a valid regular expression ({error})") from None
    if _may_take_for_ever(matcher):
        raise ValueError("it repeats a group that contains a repetition or an alternative, which can run without end")
    return pattern


def _may_take_for_ever(matcher: str) -> bool:
    """Strict: may also reject harmless patterns."""
    groups = [0]  # for each open group: how many repetitions and alternatives it contains
    repeats, closed = 0, 0
    for token in _TOKEN.finditer(matcher):
        text = token[0]
        if _has_no_end(token):
            if closed:
                return True
            repeats += 1
            groups[-1] += 1
        if text == "(":
            groups.append(0)
        elif text == "|":
            repeats = 0
            groups[-1] += 1
        closed = _close(groups) if text == ")" else 0
        if repeats > MOST_REPEATS:
            return True
    return False


def _has_no_end(token: re.Match[str]) -> bool:
    """`*`, `+`, `{3,}`, or a very large upper bound."""
    text = token[0]
    if text in ("*", "+"):
        return True
    least, comma, most = token[1], token[2], token[3]
    if comma is None or not (least or most):
        return False
    return (comma == "," and not most) or int(most or least) > _LONGEST_COUNT


def _close(groups: list[int]) -> int:
    """Close a group: its repetitions and alternatives also count for the enclosing group."""
    inner = groups.pop()
    groups[-1] += inner
    return inner
