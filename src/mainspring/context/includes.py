"""`@path` in a memory file or a prompt: which files it asks for. Nothing is read here.

Not in code: what stands in backticks or in a fenced block is an example of how to write something, not a wish.
"""

from __future__ import annotations

import os

MOST = 100  # in one file; a list of a thousand people's names should not cost a thousand looks at the disk

_TICKS = r"(`+)"
_QUOTED = r'"([^"\n]+)"(#L[\dL-]+)?'
_MENTION = (
    rf"@(?<![^\s(]@)(?:{_QUOTED}|((?:\\ |[^\s`\\])+))"  # it begins with what is rare: that is searched for quickly
)
_AFTER = ".,;:!?)]}'\"*"  # ends a sentence rather than a name
_PLAIN = r"[\w./~ +-]+"  # no call, no pattern, no line number
# 'notes.md', and neither 'app.route', 'pytest.mark.skip' nor 'types/node'
_SUFFIX = r".*\w\.([A-Za-z][A-Za-z0-9]{0,2}|conf|docx|html|ipynb|java|jpeg|json|lock|scss|text|toml|xlsx|yaml)"


def find_mentions(text: str) -> tuple[str, ...]:
    """The paths that a text asks for, in order, each once."""
    if "@" not in text:  # as with most
        return ()
    import re

    found: dict[str, None] = {}
    for quoted, lines, name in dict.fromkeys(re.findall(_MENTION, _without_code(text))):
        if len(found) == MOST:
            break
        if plain := quoted + lines if quoted else name.replace("\\ ", " ").rstrip(_AFTER):
            found[plain] = None
    return tuple(found)


def find_absent_mentions(text: str, folder: str) -> tuple[str, ...]:
    """What plainly means a file, and there is none; seen from a folder. People and packages are no files."""
    import re

    return tuple([name for name in find_mentions(text) if re.fullmatch(_PLAIN, name) and _is_absent(name, folder)])


def _is_absent(name: str, folder: str) -> bool:
    import re

    path = os.path.join(folder, os.path.expanduser(name))  # noqa: PTH111, PTH118  # pathlib takes 8 ms to load
    if os.path.lexists(path):
        return False
    first, slash, _ = name.partition("/")
    is_in_a_folder = bool(slash) and os.path.isdir(os.path.join(folder, first or "/"))  # noqa: PTH112, PTH118
    return is_in_a_folder or name.startswith("~/") or re.fullmatch(_SUFFIX, name) is not None


def _without_code(text: str) -> str:
    lines = _outside_code(text) if "```" in text or "~~~" in text else text.split("\n")
    if "`" in text:
        lines = [_without_spans(line) if "`" in line and "@" in line else line for line in lines]
    return "\n".join(lines)


def _outside_code(text: str) -> list[str]:
    """The lines that are in no fenced block. One that is not closed goes on to the end."""
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        mark = _fence(line)
        if fence:
            if mark.startswith(fence) and not line.strip(" `~\r\t"):
                fence = ""
        elif mark:
            fence = mark
        else:
            lines.append(line)
    return lines


def _fence(line: str) -> str:
    """Three backticks or tildes, or more, at the beginning of a line."""
    bare = line.lstrip(" ")
    if not bare.startswith(("```", "~~~")) or len(line) - len(bare) > 3:
        return ""
    return bare[: len(bare) - len(bare.lstrip(bare[0]))]


def _without_spans(line: str) -> str:
    """Without what stands between two equal runs of backticks. Linear: an expression for this is not."""
    import re

    parts = re.split(_TICKS, line)  # text, ticks, text, ticks, ..., text
    last = {ticks: place for place, ticks in enumerate(parts) if place % 2}
    kept: list[str] = []
    opened = ""
    for place, part in enumerate(parts):
        if opened:
            opened = "" if part == opened and place % 2 else opened
        elif place % 2 and last[part] > place:
            opened = part
            kept.append(" ")
        else:
            kept.append(part)
    return "".join(kept)
