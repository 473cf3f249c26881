"""The JSON text of a notebook, and the same text with one cell changed.

Edits change the text, not the decoded value: the order of keys, numbers, escapes and indentation of everything else
stay as they are, and so do keys that we do not know. The span functions find the parts of a JSON text, so that one can
be replaced and the rest stays byte for byte.
"""

import json
import re
from json import JSONDecoder
from typing import Any, NamedTuple

from mainspring.core.errors import ToolError

_BLANK = re.compile(r"[ \t\r\n]*")
_DECODER = JSONDecoder()


class JsonSpan(NamedTuple):
    start: int
    end: int


class JsonMember(NamedTuple):
    key: JsonSpan
    value: JsonSpan


def skip_blanks(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    assert found is not None  # it also matches the empty string
    return found.end()


def find_members(text: str, at: int) -> dict[str, JsonMember]:
    """The members of the object that begins here. The text is valid JSON: it was decoded before."""
    found: dict[str, JsonMember] = {}
    at = skip_blanks(text, at + 1)
    while text[at] != "}":
        key, key_end = _DECODER.raw_decode(text, at)
        start = skip_blanks(text, skip_blanks(text, key_end) + 1)  # after the colon
        _, end = _DECODER.raw_decode(text, start)
        found[key] = JsonMember(JsonSpan(at, key_end), JsonSpan(start, end))
        at = _next(text, end)
    return found


def find_items(text: str, at: int) -> list[JsonSpan]:
    """The items of the array that begins here."""
    found: list[JsonSpan] = []
    at = skip_blanks(text, at + 1)
    while text[at] != "]":
        _, end = _DECODER.raw_decode(text, at)
        found.append(JsonSpan(at, end))
        at = _next(text, end)
    return found


def _next(text: str, end: int) -> int:
    at = skip_blanks(text, end)
    return skip_blanks(text, at + 1) if text[at] == "," else at


def find_indentation(text: str, at: int) -> str:
    """The blanks before this position, if it begins its line."""
    start = text.rfind("\n", 0, at) + 1
    before = text[start:at]
    return before if not before.strip(" \t") else ""


def replace_spans(text: str, changes: list[tuple[JsonSpan, str]]) -> str:
    """Replace some spans, which must not overlap, by other texts."""
    for span, new in sorted(changes, reverse=True):
        text = text[: span.start] + new + text[span.end :]
    return text


_CODE_ONLY: dict[str, Any] = {"execution_count": None, "outputs": []}


class Notebook:
    """A text that was checked to be a notebook."""

    def __init__(self, text: str) -> None:
        self.text = text
        top = find_members(text, skip_blanks(text, 0))
        self.list = top["cells"].value
        self.spans = find_items(text, self.list.start)
        self.cells: list[dict[str, Any]] = [json.loads(text[span.start : span.end]) for span in self.spans]
        self.unit = self._unit()
        self.end = "\r\n" if "\r\n" in text else "\n"
        self.has_ids = _version(text, top) >= (4, 5)

    def find(self, id: str) -> int:
        names = [str(cell.get("id") or f"cell-{at}") for at, cell in enumerate(self.cells)]
        if id in names:
            return names.index(id)
        number = id.removeprefix("cell-")
        if number.isascii() and number.isdigit() and int(number[:9]) < len(names):
            return int(number)
        known = ", ".join([f"'{name}'" for name in names[:20]]) or "none"
        raise ToolError(f"There is no cell '{id[:100]}'. Nothing was done. The cells are: {known}.")

    def replace_cell(self, at: int, source: str, kind: str | None) -> str:
        cell, span = self.cells[at], self.spans[at]
        if kind is not None and kind != cell["cell_type"]:
            return replace_spans(self.text, [(span, self._dumped(_turned(cell, kind, source), span.start))])
        parts = find_members(self.text, span.start)
        new: dict[str, Any] = {"source": _like(cell.get("source"), source)}
        if cell["cell_type"] == "code":
            new |= _CODE_ONLY
        changes = [(parts[key].value, self._dumped(new[key], parts[key].key.start)) for key in new if key in parts]
        if "source" not in parts:
            return replace_spans(self.text, [(span, self._dumped({**cell, **new}, span.start))])
        return replace_spans(self.text, changes)

    def delete_cell(self, at: int) -> str:
        """Delete a cell with the comma before it, or the one after it if it is the first."""
        if len(self.spans) == 1:
            return replace_spans(self.text, [(self.list, "[]")])
        here = self.spans[at]
        gone = JsonSpan(self.spans[at - 1].end, here.end) if at else JsonSpan(here.start, self.spans[1].start)
        return replace_spans(self.text, [(gone, "")])

    def insert_cell(self, at: int, id: str, kind: str, source: str) -> str:
        cell: dict[str, Any] = {"cell_type": kind}
        if kind == "code":
            cell["execution_count"] = None
        if self.has_ids:
            cell["id"] = id
        cell["metadata"] = {}
        if kind == "code":
            cell["outputs"] = []
        cell["source"] = _as_lines(source)
        if not self.spans:
            return replace_spans(self.text, [(self.list, self._dumped([cell], self.list.start))])
        if at == 0:
            first = self.spans[0].start
            made = (
                self._dumped(cell, first) + "," + (self.end + find_indentation(self.text, first) if self.unit else " ")
            )
            return replace_spans(self.text, [(JsonSpan(first, first), made)])
        before = self.spans[at - 1]
        gap = self.end + find_indentation(self.text, before.start) if self.unit else " "
        return replace_spans(
            self.text, [(JsonSpan(before.end, before.end), f",{gap}{self._dumped(cell, before.start)}")]
        )

    def _unit(self) -> str:
        """One step of indentation; empty: the text is a single line."""
        if self.spans and (deep := find_indentation(self.text, self.spans[0].start)):
            return deep[: max(1, len(deep) // 2)]
        return " " if "\n" in self.text.strip() else ""

    def _dumped(self, value: Any, at: int) -> str:
        """The value as JSON, in the style of the surrounding text."""
        as_ascii = self.text.isascii() and "\\u" in self.text
        made = json.dumps(value, ensure_ascii=as_ascii, indent=self.unit or None)
        base = self._indentation_of_line(at)
        return made.replace("\n", self.end + base)

    def _indentation_of_line(self, at: int) -> str:
        start = self.text.rfind("\n", 0, at) + 1
        return self.text[start : skip_blanks(self.text, start)] if self.unit else ""


def _version(text: str, top: dict[str, Any]) -> tuple[int, int]:
    found = [
        json.loads(text[top[key].value.start : top[key].value.end])
        for key in ("nbformat", "nbformat_minor")
        if key in top
    ]
    return (found[0], found[1]) if len(found) == 2 and all(isinstance(one, int) for one in found) else (4, 0)


def _as_lines(source: str) -> list[str]:
    lines = source.split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _like(old: Any, source: str) -> str | list[str]:
    return source if isinstance(old, str) else _as_lines(source)


def _turned(cell: dict[str, Any], kind: str, source: str) -> dict[str, Any]:
    """Convert a cell to the other type, which has other keys."""
    made = {key: value for key, value in cell.items() if key not in _CODE_ONLY and key != "attachments"}
    made |= {"cell_type": kind, "source": _like(cell.get("source"), source)}
    return {**made, **_CODE_ONLY} if kind == "code" else made
