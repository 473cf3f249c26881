"""The matcher of a hook: a regular expression for the name of a tool. One that is broken, or that could take for ever,
is refused with its reason; whoever asks then takes the strict reading, that the hook is for every tool.
"""

from __future__ import annotations

import re

EVERY_TOOL = ("", "*")
MOST_REPEATS = 4  # without an end, in one alternative: each multiplies the time by the length of the name
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[*+]|\{(\d*)(,?)(\d*)\}|[()|]|.", re.DOTALL)
_LONGEST_COUNT = 16


def compile_matcher(matcher: str) -> re.Pattern[str] | None:
    """None: it stands for every tool. Raises `ValueError` with the reason."""
    if matcher in EVERY_TOOL:
        return None
    try:
        pattern = re.compile(matcher)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"it is not a regular expression ({error})") from None
    if _may_take_for_ever(matcher):
        raise ValueError("it repeats a group that repeats or chooses, which can take for ever")
    return pattern


def _may_take_for_ever(matcher: str) -> bool:
    """Strict: it may take some that are harmless for one that is not."""
    groups = [0]  # of each open group: how often it repeats or chooses
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
    """`*`, `+`, `{3,}`, and one with a great number."""
    text = token[0]
    if text in ("*", "+"):
        return True
    least, comma, most = token[1], token[2], token[3]
    if comma is None or not (least or most):
        return False
    return (comma == "," and not most) or int(most or least) > _LONGEST_COUNT


def _close(groups: list[int]) -> int:
    """What the group that ends here has repeated or chosen, which counts for the group around it, too."""
    inner = groups.pop()
    groups[-1] += inner
    return inner
