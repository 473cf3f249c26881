"""Changes to files: those that were made, as Edit and Write tell of them, and those that somebody is asked about.

A line has its number, a sign and its text. Which colours they have, the terminal says; there is no background.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from rich.text import Text

from mainspring.cli.repl.laid import in_rows, left_out
from mainspring.cli.repl.page import clean, indented
from mainspring.tools import patch

MOST_LINES = 20  # of a change, until it is unfolded
MOST_PROPOSED = 20_000  # lines: more than anybody scrolls through, and the rest is counted

HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
STYLES = {"+": "added", "-": "removed", " ": "", "…": "hunk", "\\": "detail"}


class Changed(NamedTuple):
    sign: str  # '+', '-', ' '; '…' between two places; '\\' a remark
    text: str
    number: int = 0  # 0: it has none


def read(diff: str) -> Iterator[Changed]:
    """The lines of a unified diff. What is removed has its old number, all else the new one."""
    old = new = 0
    begun = False
    for line in diff.split("\n"):
        if found := HUNK.match(line):
            if begun:
                yield Changed("…", "")
            old, new, begun = int(found[1]), int(found[2]), True
        elif not begun:
            continue  # the names, which stand above
        elif line.startswith("-"):
            yield Changed("-", line[1:], old)
            old += 1
        elif line.startswith(("+", " ")):
            yield Changed(line[0], line[1:], new)
            new, old = new + 1, old + (line[0] == " ")
        elif line:
            yield Changed("\\", line.removeprefix("\\ "))


def drawn(changes: list[Changed], width: int) -> list[Text]:
    digits = len(str(max([change.number for change in changes], default=0)))
    rows: list[Text] = []
    for change in changes:
        style = STYLES[change.sign]
        number = str(change.number) if change.number else ""
        sign = " " if change.sign == "\\" else change.sign
        head = Text.assemble((f"{number:>{digits}} ", "detail"), (f"{sign} ", style))
        text = in_rows([clean(change.text)], style, width - head.cell_len)
        rows += indented(text or [Text()], head, head.cell_len)
    return rows


def made(diff: str, most: int = MOST_LINES) -> Callable[[int], list[Text]]:
    """A change that was made: how it is drawn for a width."""
    changes = list(read(diff))
    more = len(changes) - most

    def draw(width: int) -> list[Text]:
        rows = drawn(changes[:most], width)
        return [*rows, left_out(more)] if more > 0 else rows

    return draw


# --- before it is made ----------------------------------------------------------------------------------------------


def proposed(tool: str, input: dict[str, Any]) -> list[Text]:
    """What a call would change, one `Text` for each line, of any width; empty if it is no call that changes a file.

    The file is not looked at: of an edit there are no numbers.
    """
    changes = wished(tool, input)
    told = changes[:MOST_PROPOSED]
    digits = len(str(max([change.number for change in told], default=0)))
    lines = [
        Text.assemble(
            (f"{change.number:>{digits}} " if change.number else "", "detail"),
            (f"{change.sign} {clean(change.text)}", STYLES[change.sign]),
        )
        for change in told
    ]
    return [*lines, left_out(len(changes) - MOST_PROPOSED, unfolds=False)] if len(changes) > MOST_PROPOSED else lines


def wished(tool: str, input: dict[str, Any]) -> list[Changed]:
    match tool:
        case "Edit":
            return between(words(input, "old_string"), words(input, "new_string"))
        case "Write":
            return [Changed("+", line, number) for number, line in enumerate(split(words(input, "content")), 1)]
        case "NotebookEdit" if words(input, "edit_mode") == "delete":
            return [Changed("-", f"cell '{words(input, 'cell_id')}'")]
        case "NotebookEdit":
            return [Changed("+", line) for line in split(words(input, "new_source"))]
        case _:
            return []


def words(input: dict[str, Any], key: str) -> str:
    """A model wrote it: it may be anything."""
    found = input.get(key)
    return found if isinstance(found, str) else ""


def split(text: str) -> list[str]:
    return [line.removesuffix("\n") for line in patch.lines_of(text)]


def between(old: str, new: str) -> list[Changed]:
    """With the lines around what changes, as the model has given them."""
    before, after = patch.lines_of(old), patch.lines_of(new)
    changes: list[Changed] = []
    for hunk in patch.hunks(before, after, patch.ranges_between(before, after)):
        if changes:
            changes.append(Changed("…", ""))
        changes += [Changed(line[:1], line[1:]) for line in hunk["lines"] if line != patch.NO_NEWLINE]
    return changes
