"""Changes of files as diffs: those that were made, and those that a call would make.

A diff line has a number, a sign and its text. It reads as a diff without colours, too: added lines are bold, unchanged
lines dim. Changed rows are padded to the widest one, so that a background of the theme covers a block (`fill_rows`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from rich.text import Text

from mainspring.cli.tui.layout import (
    MOST_OF_LINE,
    NARROWEST,
    ClippedRows,
    clean_for_drawing,
    fill_rows,
    left_out,
    wrap_text,
)
from mainspring.tools import patch

MOST_LINES = 20  # of a change, until it is expanded
MOST_ROWS = 3  # per line, on average
MOST_PROPOSED = 20_000  # lines: more than a user scrolls through; the rest is counted
MOST_COLOURED = 400  # lines with syntax colours: a few screens
LONGEST_COLOURED = 400  # characters of such a line

HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
STYLES = {"+": "added", "-": "removed", " ": "kept", "…": "hunk", "\\": "detail"}
# Names of pygments' tokens, most specific first, and our styles for them.
TOKENS = (
    ("Token.Comment", "code.comment"),
    ("Token.Keyword", "code.keyword"),
    ("Token.Operator.Word", "code.keyword"),
    ("Token.Name.Tag", "code.keyword"),
    ("Token.Name.Function", "code.name"),
    ("Token.Name.Class", "code.name"),
    ("Token.Name.Builtin", "code.number"),
    ("Token.Name.Decorator", "code.number"),
    ("Token.Name.Attribute", "code.number"),
    ("Token.Literal.String", "code.string"),
    ("Token.Literal.Number", "code.number"),
)


class DiffLine(NamedTuple):
    sign: str  # '+', '-', ' '; '…' between two hunks; '\\' a remark
    text: str
    number: int = 0  # 0: none


def parse_unified_diff(diff: str) -> Iterator[DiffLine]:
    """Parse a unified diff. Removed lines have their old number, all others the new one."""
    old = new = 0
    begun = False
    for line in diff.split("\n"):
        if found := HUNK.match(line):
            if begun:
                yield DiffLine("…", "")
            old, new, begun = int(found[1]), int(found[2]), True
        elif not begun:
            continue  # file names: the title has them
        elif line.startswith("-"):
            yield DiffLine("-", line[1:], old)
            old += 1
        elif line.startswith(("+", " ")):
            yield DiffLine(line[0], line[1:], new)
            new, old = new + 1, old + (line[0] == " ")
        elif line:
            yield DiffLine("\\", line.removeprefix("\\ "))


def render_change(diff: str, width: int, most: int = MOST_LINES, path: str = "") -> ClippedRows:
    """A change that was made. `path` tells the language."""
    changes = list(parse_unified_diff(diff))
    return clip_rows(render_diff_lines(changes[:most], width, path), len(changes), most)


def render_new_file(content: str, width: int, most: int, path: str = "") -> ClippedRows:
    """The beginning of a new file."""
    lines = split_lines(content)
    digits = len(str(len(lines[:most])))
    rows = (
        render_code_row(Text(f"{number:>{digits}}  ", "detail"), line, "", width, path)
        for number, line in enumerate(lines[:most], 1)
    )
    return clip_rows(rows, len(lines), most)


def render_diff_lines(changes: list[DiffLine], width: int, path: str) -> list[list[Text]]:
    """The rows of each line."""
    lines: list[list[Text]] = []
    digits = len(str(max([change.number for change in changes], default=0)))
    numbered = any(change.number for change in changes)
    for at, change in enumerate(changes):
        style = STYLES[change.sign]
        sign = " " if change.sign == "\\" else change.sign
        number = f"{change.number or '':>{digits}} " if numbered else ""
        head = Text.assemble((number, style if sign in "+-" else "detail"), (f"{sign} ", style))
        language = path if at < MOST_COLOURED and sign in "+- " else ""
        lines.append(render_code_row(head, change.text, style, width, language))
    changed = [(rows, STYLES[change.sign]) for change, rows in zip(changes, lines, strict=True) if change.sign in "+-"]
    fill_rows([(row, style) for rows, style in changed for row in rows], width)
    return lines


def render_code_row(head: Text, text: str, style: str, width: int, path: str) -> list[Text]:
    text = clean_for_drawing(text[: MOST_OF_LINE + 1])
    cut = f"{text[:MOST_OF_LINE]}…" if len(text) > MOST_OF_LINE else text
    line = colour_code(cut, path).copy() if path else Text(cut)
    line.stylize_before(style)
    rows = wrap_text(line, max(NARROWEST, width - head.cell_len))
    below = Text(" " * head.cell_len, style if style in ("added", "removed") else "")
    return [Text.assemble(below if place else head, row) for place, row in enumerate(rows or [Text()])]


def clip_rows(lines: Iterable[list[Text]], there_are: int, most: int) -> ClippedRows:
    """A line may take a few rows, but one long generated line must not fill the screen."""
    rows: list[Text] = []
    for at, line in enumerate(lines):
        rows += line
        if len(rows) > most * MOST_ROWS:
            return ClippedRows([*rows[: most * MOST_ROWS], left_out(there_are - at)], cut=True)
    return ClippedRows([*rows, left_out(there_are - most)], cut=True) if there_are > most else ClippedRows(rows)


# --- syntax colours -------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1_024)  # a few screens, each drawn for one or two widths
def colour_code(line: str, path: str) -> Text:
    """One line alone: constructs of several lines have no colours."""
    lexer = find_lexer(path.rpartition("/")[2]) if len(line) <= LONGEST_COLOURED else None
    made = Text()
    if lexer is not None:
        for token, text in lexer.get_tokens(line):
            made.append(text, find_token_style(str(token)))
    return made if made.plain == line else Text(line)


@lru_cache(maxsize=32)  # finding the lexer of a language takes a millisecond
def find_lexer(name: str) -> Any:
    from pygments.lexers import get_lexer_for_filename  # type: ignore[import-untyped]  # it brings no types
    from pygments.util import ClassNotFound  # type: ignore[import-untyped]

    try:
        return get_lexer_for_filename(name, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


@lru_cache(maxsize=256)
def find_token_style(token: str) -> str:
    return next((style for name, style in TOKENS if token.startswith(name)), "")


# --- proposed changes -----------------------------------------------------------------------------------------------


def render_proposed_change(tool: str, input: dict[str, Any], width: int, *, preview: str = "") -> list[Text]:
    """What a call would change; empty if the tool does not change files. `preview`: the change as a unified diff, if
    the file could be compared. Without it, edits have no line numbers."""
    changes = list(parse_unified_diff(preview)) if preview else diff_proposed_input(tool, input)
    path = get_input_text(input, "notebook_path") or get_input_text(input, "file_path")
    shown = [row for rows in render_diff_lines(changes[:MOST_PROPOSED], width, path) for row in rows]
    return [*shown, left_out(len(changes) - MOST_PROPOSED, unfolds=False)] if len(changes) > MOST_PROPOSED else shown


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
    """The model wrote the input: the value may have any type."""
    found = input.get(key)
    return found if isinstance(found, str) else ""


def split_lines(text: str) -> list[str]:
    return [line.removesuffix("\n") for line in patch.lines_of(text)]


def diff_texts(old: str, new: str) -> list[DiffLine]:
    """Diff the texts of the edit, including the context lines that the model gave."""
    before, after = patch.lines_of(old), patch.lines_of(new)
    changes: list[DiffLine] = []
    for hunk in patch.make_hunks(before, after, patch.ranges_between(before, after)):
        if changes:
            changes.append(DiffLine("…", ""))
        changes += [DiffLine(line[:1], line[1:]) for line in hunk["lines"] if line != patch.NO_NEWLINE]
    return changes
