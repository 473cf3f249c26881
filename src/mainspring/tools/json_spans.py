"""Where the parts of a JSON text stand, so that one can be replaced and all else stays byte for byte."""

import re
from json import JSONDecoder
from typing import NamedTuple

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
    assert found is not None  # it matches nothing as well
    return found.end()


def find_members(text: str, at: int) -> dict[str, JsonMember]:
    """Of the object that begins here. The text is JSON: it was decoded before."""
    found: dict[str, JsonMember] = {}
    at = skip_blanks(text, at + 1)
    while text[at] != "}":
        key, key_end = _DECODER.raw_decode(text, at)
        start = skip_blanks(text, skip_blanks(text, key_end) + 1)  # behind the colon
        _, end = _DECODER.raw_decode(text, start)
        found[key] = JsonMember(JsonSpan(at, key_end), JsonSpan(start, end))
        at = _next(text, end)
    return found


def find_items(text: str, at: int) -> list[JsonSpan]:
    """Of the array that begins here."""
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
    """The blanks before what begins here, if it begins its line."""
    start = text.rfind("\n", 0, at) + 1
    before = text[start:at]
    return before if not before.strip(" \t") else ""


def replace_spans(text: str, changes: list[tuple[JsonSpan, str]]) -> str:
    """With other texts in place of some spans, which do not overlap."""
    for span, new in sorted(changes, reverse=True):
        text = text[: span.start] + new + text[span.end :]
    return text
