"""Changes to files: those that were made, as Edit and Write tell of them, and those that somebody is asked about.

A line has its number, a sign and its text. Which colours they have, the terminal says; there is no background. Without
colours it reads as a change, too: what comes is bold, what stays is dim.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from rich.text import Text

from mainspring.cli.tui.laid import MOST_OF_LINE, ClippedRows, left_out, wrap_rows
from mainspring.cli.tui.layout import clean_for_drawing, indent_lines
from mainspring.tools import patch

MOST_LINES = 20  # of a change, until it is unfolded
MOST_ROWS = 3  # to a line, on average
MOST_PROPOSED = 20_000  # lines: more than anybody scrolls through, and the rest is counted

HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
STYLES = {"+": "added", "-": "removed", " ": "kept", "…": "hunk", "\\": "detail"}


class DiffLine(NamedTuple):
    sign: str  # '+', '-', ' '; '…' between two places; '\\' a remark
    text: str
    number: int = 0  # 0: it has none


def parse_unified_diff(diff: str) -> Iterator[DiffLine]:
    """The lines of a unified diff. What is removed has its old number, all else the new one."""
    old = new = 0
    begun = False
    for line in diff.split("\n"):
        if found := HUNK.match(line):
            if begun:
                yield DiffLine("…", "")
            old, new, begun = int(found[1]), int(found[2]), True
        elif not begun:
            continue  # the names, which stand above
        elif line.startswith("-"):
            yield DiffLine("-", line[1:], old)
            old += 1
        elif line.startswith(("+", " ")):
            yield DiffLine(line[0], line[1:], new)
            new, old = new + 1, old + (line[0] == " ")
        elif line:
            yield DiffLine("\\", line.removeprefix("\\ "))


def render_change(diff: str, width: int, most: int = MOST_LINES) -> ClippedRows:
    """A change that was made."""
    changes = list(parse_unified_diff(diff))
    digits = len(str(max([change.number for change in changes[:most]], default=0)))

    def head(change: DiffLine) -> Text:
        number = str(change.number) if change.number else ""
        sign = " " if change.sign == "\\" else change.sign
        return Text.assemble((f"{number:>{digits}} ", "detail"), (f"{sign} ", STYLES[change.sign]))

    rows = (row_of(head(change), change.text, STYLES[change.sign], width) for change in changes[:most])
    return clip_rows(rows, len(changes), most)


def render_new_file(content: str, width: int, most: int) -> ClippedRows:
    """A file that is new: how it begins."""
    lines = split_lines(content)
    digits = len(str(len(lines[:most])))
    rows = (
        row_of(Text(f"{number:>{digits}}  ", "detail"), line, "", width) for number, line in enumerate(lines[:most], 1)
    )
    return clip_rows(rows, len(lines), most)


def row_of(head: Text, text: str, style: str, width: int) -> list[Text]:
    rows = wrap_rows([clean_for_drawing(text[: MOST_OF_LINE + 1])], style, width - head.cell_len)
    return indent_lines(rows or [Text()], head, head.cell_len)


def clip_rows(lines: Iterable[list[Text]], there_are: int, most: int) -> ClippedRows:
    """A line may take a few rows, but what a machine has written in one line is not to fill the screen."""
    rows: list[Text] = []
    for at, line in enumerate(lines):
        rows += line
        if len(rows) > most * MOST_ROWS:
            return ClippedRows([*rows[: most * MOST_ROWS], left_out(there_are - at)], cut=True)
    return ClippedRows([*rows, left_out(there_are - most)], cut=True) if there_are > most else ClippedRows(rows)


# --- before it is made ----------------------------------------------------------------------------------------------


def render_proposed_change(tool: str, input: dict[str, Any]) -> list[Text]:
    """What a call would change, one `Text` for each line, of any width; empty if it is no call that changes a file.

    The file is not looked at: of an edit there are no numbers.
    """
    changes = diff_proposed_input(tool, input)
    told = changes[:MOST_PROPOSED]
    digits = len(str(max([change.number for change in told], default=0)))
    lines = [
        Text.assemble(
            (f"{change.number:>{digits}} " if change.number else "", "detail"),
            (f"{change.sign} {clean_for_drawing(change.text)}", STYLES[change.sign]),
        )
        for change in told
    ]
    return [*lines, left_out(len(changes) - MOST_PROPOSED, unfolds=False)] if len(changes) > MOST_PROPOSED else lines


def diff_proposed_input(tool: str, input: dict[str, Any]) -> list[DiffLine]:
    match tool:
        case "Edit":
            return diff_texts(get_input_text(input, "old_string"), get_input_text(input, "new_string"))
        case "Write":
            return [
                DiffLine("+", line, number)
                for number, line in enumerate(split_lines(get_input_text(input, "content")), 1)
            ]
        case "NotebookEdit" if get_input_text(input, "edit_mode") == "delete":
            return [DiffLine("-", f"cell '{get_input_text(input, 'cell_id')}'")]
        case "NotebookEdit":
            return [DiffLine("+", line) for line in split_lines(get_input_text(input, "new_source"))]
        case _:
            return []


def get_input_text(input: dict[str, Any], key: str) -> str:
    """A model wrote it: it may be anything."""
    found = input.get(key)
    return found if isinstance(found, str) else ""


def split_lines(text: str) -> list[str]:
    return [line.removesuffix("\n") for line in patch.lines_of(text)]


def diff_texts(old: str, new: str) -> list[DiffLine]:
    """With the lines around what changes, as the model has given them."""
    before, after = patch.lines_of(old), patch.lines_of(new)
    changes: list[DiffLine] = []
    for hunk in patch.make_hunks(before, after, patch.ranges_between(before, after)):
        if changes:
            changes.append(DiffLine("…", ""))
        changes += [DiffLine(line[:1], line[1:]) for line in hunk["lines"] if line != patch.NO_NEWLINE]
    return changes
