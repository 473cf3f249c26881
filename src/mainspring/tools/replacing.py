"""Replacing a text within another, so that every character that is not asked for stays as it is.

The model sees plain line feeds, whatever the file has. So a text is looked for in the plain form and replaced in the
real one, and line by line what it is replaced by takes over the ends of the lines that were there. A carriage return
and line feed that the model writes is meant: then nothing is translated.
"""

from typing import NamedTuple

from mainspring.tools.coding import normalize_newlines


class TextSpan(NamedTuple):
    start: int
    end: int


class Replacement(NamedTuple):
    text: str
    old: list[TextSpan]  # in the plain form of the old text
    new: list[TextSpan]  # in the plain form of the new one


def find_places(text: str, wanted: str, most: int | None = None) -> list[TextSpan]:
    """Where it is, from left to right, without overlaps. Not more than `most`, if that is given."""
    found: list[TextSpan] = []
    at = text.find(wanted)
    while at >= 0 and len(found) != most:
        found.append(TextSpan(at, at + len(wanted)))
        at = text.find(wanted, at + len(wanted))
    return found


def found_in(text: str, wanted: str, most: int) -> list[TextSpan]:
    """In the real text."""
    if "\r\n" in wanted or "\r\n" not in text:
        return find_places(text, wanted, most)
    ends = _crlf(text)
    return [
        TextSpan(_real(span.start, ends), _real(span.end, ends))
        for span in find_places(normalize_newlines(text), wanted, most)
    ]


def _crlf(text: str) -> list[int]:
    """Where, in the plain form, a line feed stands for two characters."""
    found: list[int] = []
    at = text.find("\r\n")
    while at >= 0:
        found.append(at - len(found))
        at = text.find("\r\n", at + 2)
    return found


def _real(at: int, ends: list[int]) -> int:
    from bisect import bisect_left

    return at + bisect_left(ends, at)


def replace_text(text: str, wanted: str, spans: list[TextSpan], new: str) -> Replacement:
    literal = "\r\n" in wanted or "\r\n" in new or "\n" not in new
    pieces: list[str] = []
    old_spans: list[TextSpan] = []
    new_spans: list[TextSpan] = []
    at = old_plain = new_plain = 0
    for span in spans:
        between, was = text[at : span.start], text[span.start : span.end]
        becomes = new if literal else _with_ends(was, new, _end_near(text, span))
        pieces += [between, becomes]
        same = len(normalize_newlines(between))
        old_spans.append(TextSpan(old_plain + same, old_plain + same + len(normalize_newlines(was))))
        new_spans.append(TextSpan(new_plain + same, new_plain + same + len(normalize_newlines(becomes))))
        old_plain, new_plain, at = old_spans[-1].end, new_spans[-1].end, span.end
    return Replacement("".join([*pieces, text[at:]]), old_spans, new_spans)


def _end_near(text: str, span: TextSpan) -> str:
    """How the line ends in which the span ends; in the last line: how the one before it does."""
    at = text.find("\n", span.end)
    if at < 0:
        at = text.rfind("\n", 0, span.end)
    return "\r\n" if at > 0 and text[at - 1] == "\r" else "\n"


def _with_ends(was: str, new: str, near: str) -> str:
    """The new text with the line ends of the old one: those of lines that stay first, then one by one."""
    if "\r\n" not in was and ("\n" in was or near == "\n"):
        return new
    lines, old_lines = new.split("\n"), normalize_newlines(was).split("\n")
    ends = ["\r\n" if line.endswith("\r") else "\n" for line in was.split("\n")[:-1]]
    head = _same(old_lines[:-1], lines[:-1])
    tail = min(_same(old_lines[::-1], lines[::-1]), len(ends) - head, len(lines) - 1 - head)
    changed = ends[head : len(ends) - tail]
    wanted = len(lines) - 1 - head - tail
    fill = (changed or ends[:head] or [near])[-1]
    middle = [*changed, *[fill] * wanted][:wanted]
    after = [*ends[:head], *middle, *ends[len(ends) - tail :], ""]
    return "".join([line + end for line, end in zip(lines, after, strict=True)])


def _same(left: list[str], right: list[str]) -> int:
    """How many are the same from the beginning."""
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count
