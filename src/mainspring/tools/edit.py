"""Edit: replace one text in a file by another, exactly there, and only in a file that the session has read.

The model sees plain line feeds, whatever the file has. So the tool searches in the plain form and replaces in the real
one; line by line, the new text gets the line ends of the old one. A carriage return and line feed in the model's text
is intended: then nothing is translated. Every other character stays as it is.

When the text is not found, `explain_no_match` says why, so that the next attempt succeeds. Each fold makes two texts
equal that differ in one way only; the first fold under which the text is found names the difference. If none does, the
message shows the lines that have most in common with it.
"""

import re
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

from mainspring.core.errors import ToolError
from mainspring.core.updates import Rendering
from mainspring.processes.atomic_write import digest
from mainspring.processes.paths import Resolved
from mainspring.tools import patch
from mainspring.tools.base import Input, Tool, ToolAnswer, ToolContext, make_answer
from mainspring.tools.files import (
    WHOLE,
    FileEncoding,
    decode_text,
    describe_missing_file,
    encode_text,
    file_changed_error,
    get_read_digest,
    mark_half_characters,
    normalize_newlines,
    number_lines,
    read_whole_file,
    refuse_half_characters,
    run_in_thread_to_end,
    snippet_around,
    translate_write_errors,
)


class TextSpan(NamedTuple):
    start: int
    end: int


class Replacement(NamedTuple):
    text: str
    old: list[TextSpan]  # in the plain form of the old text
    new: list[TextSpan]  # in the plain form of the new one


def find_places(text: str, wanted: str, most: int | None = None) -> list[TextSpan]:
    """Find the text from left to right, without overlaps; at most `most` times, if that is given."""
    found: list[TextSpan] = []
    at = text.find(wanted)
    while at >= 0 and len(found) != most:
        found.append(TextSpan(at, at + len(wanted)))
        at = text.find(wanted, at + len(wanted))
    return found


def found_in(text: str, wanted: str, most: int) -> list[TextSpan]:
    """Find the text in the real text."""
    if "\r\n" in wanted or "\r\n" not in text:
        return find_places(text, wanted, most)
    ends = _crlf(text)
    return [
        TextSpan(_real(span.start, ends), _real(span.end, ends))
        for span in find_places(normalize_newlines(text), wanted, most)
    ]


def _crlf(text: str) -> list[int]:
    """The positions in the plain form where a line feed represents two characters."""
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
    """How the line ends in which the span ends; for the last line, how the one before it ends."""
    at = text.find("\n", span.end)
    if at < 0:
        at = text.rfind("\n", 0, span.end)
    return "\r\n" if at > 0 and text[at - 1] == "\r" else "\n"


def _with_ends(was: str, new: str, near: str) -> str:
    """Return the new text with the line ends of the old one: those of unchanged lines first, then one by one."""
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
    """Count the equal lines at the beginning."""
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count


LARGEST = 2_000_000  # characters of a file; searching a larger one for similar text takes seconds
MOST_LINES = 2_000  # of the text that was looked for
MOST_COMPARED = 5_000  # lines, one by one
ALIKE = 0.6

_NUMBER = r"[ \t]*\d+(?:\t|→|: )"
_SAME = str.maketrans(
    {
        "\u2018": "'", "\u2019": "'", "\u201a": "'", "\u201b": "'", "\u201c": '"', "\u201d": '"', "\u201e": '"',
        "\u2013": "-", "\u2014": "-", "\u2212": "-", "\u2026": "...", "\u00a0": " ", "\u202f": " ", "\u200b": "",
    }
)  # fmt: skip


class TextFold(NamedTuple):
    what: str  # the difference
    line: Callable[[str], str]


def _unspaced(line: str) -> str:
    return "".join(line.split())


def _straight(line: str) -> str:
    return line.translate(_SAME).strip()


def _lower(line: str) -> str:
    return line.strip().casefold()


def _unescaped(line: str) -> str:
    return line.replace("\\", "").strip()


def _composed(line: str) -> str:
    from unicodedata import normalize

    return normalize("NFC", line)


FOLDS = (
    TextFold("blanks at the ends of lines", str.rstrip),
    TextFold("indentation: tabs or blanks at the beginning of lines", str.strip),
    TextFold("blanks and tabs within lines", _unspaced),
    TextFold("curly quotes, dashes or other blanks that look alike", _straight),
    TextFold("accents: composed and decomposed characters look alike", _composed),
    TextFold("upper and lower case", _lower),
    TextFold("backslashes: one of the two is escaped", _unescaped),
)


def explain_no_match(text: str, wanted: str, name: str) -> str:
    """Both texts have plain line ends."""
    said = f"The text to replace ('old_string') was not found in '{name}'. Nothing was done. "
    if "\ufffd" in wanted:
        return said + "It contains \ufffd, which replaces bytes that are not text: leave those out of it."
    if len(text) > LARGEST or wanted.count("\n") >= MOST_LINES:
        return said + "Read the lines in question again, and copy them as they are."
    stripped = strip_line_numbers(wanted)
    if stripped != wanted and stripped in text:
        return said + "It contains line numbers as Read shows them: leave out each number and the tab after it."
    lines = text.split("\n")
    for fold in FOLDS:
        found = _folded(lines, wanted, fold)
        if found is not None:
            return (
                f"{said}These lines differ from it only in {fold.what}. Copy them as they are:\n{_shown(lines, found)}"
            )
    near = _nearest(lines, wanted)
    if near is None:
        return said + "No line is like it: read the file again, or look for it with Grep."
    return f"{said}The nearest lines are:\n{snippet_around(lines, *near)}"


def strip_line_numbers(text: str) -> str:
    """Return the text without line numbers, if each line has one."""
    lines = text.split("\n")
    filled = [line for line in lines if line.strip()]
    if not filled or not all(re.match(_NUMBER, line) for line in filled):
        return text
    return "\n".join([re.sub(f"^{_NUMBER}", "", line) for line in lines])


def _folded(lines: list[str], wanted: str, fold: TextFold) -> tuple[int, int] | None:
    """Return the range of lines that hold the text once both are folded."""
    look_for = "\n".join([fold.line(line) for line in wanted.split("\n")]).strip("\n")
    if not look_for.strip():
        return None
    folded = "\n".join([fold.line(line) for line in lines])
    at = folded.find(look_for)
    if at < 0:
        return None
    start = folded.count("\n", 0, at)
    return start, start + look_for.count("\n") + 1


def _shown(lines: list[str], found: tuple[int, int]) -> str:
    start, end = found
    return snippet_around(lines, start, end) if end - start > 40 else number_lines(lines[start:end], start + 1)


def _nearest(lines: list[str], wanted: str) -> tuple[int, int] | None:
    """Return where most lines are equal apart from blanks; if none is, where one is similar."""
    parts = [part for line in wanted.split("\n") if len(part := line.strip()) > 2]
    places: dict[str, int] = {part: at for at, part in reversed(list(enumerate(parts)))}
    votes: dict[int, int] = {}  # for a start of the whole text, one from each line that is equal
    for number, line in enumerate(lines):
        at = places.get(line.strip())
        if at is not None:
            votes[number - at] = votes.get(number - at, 0) + 1
    if votes:
        start = max(votes, key=lambda place: votes[place])
        return max(0, start), min(len(lines), max(0, start) + wanted.count("\n") + 1)
    return _alike(lines, max(parts, key=len)) if parts else None


def _alike(lines: list[str], part: str) -> tuple[int, int] | None:
    from difflib import SequenceMatcher  # only after a failure

    matcher = SequenceMatcher(None, b=part[:200], autojunk=False)
    best, place = ALIKE, None
    for number, line in enumerate(lines[:MOST_COMPARED]):
        matcher.set_seq1(line.strip()[:200])
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and (ratio := matcher.ratio()) > best:
            best, place = ratio, number
    return None if place is None else (place, place + 1)


MOST_ORIGINAL = 100_000  # characters of a file that programs get whole
MOST_DIFF = 400  # lines of a diff on a screen
MOST_PREVIEW = 20_000  # lines of a diff that is approved: all that a person scrolls through
MOST_PLACES = 100_000  # replacements in one edit
MOST_HUNKS = 1_000  # hunks that programs get


class EditInput(Input, frozen=True):
    file_path: Annotated[str, "The file."]
    old_string: Annotated[str, "The text to replace: exactly, without line numbers. Empty: the file is new."]
    new_string: Annotated[str, "The new text."]
    replace_all: Annotated[bool, "Wherever it occurs."] = False


async def run_edit(given: EditInput, calling: ToolContext) -> ToolAnswer:
    _refuse_invalid(given)
    path = calling.resolve(given.file_path)
    return await run_in_thread_to_end(lambda: _edit(given, path, calling))  # it waits for the disk


async def preview_edit(given: EditInput, calling: ToolContext) -> str:
    """The edit as a diff. A file that was not read yet is read here, and counts as read if the edit fits it."""
    _refuse_invalid(given)
    path = calling.resolve(given.file_path)
    return await run_in_thread_to_end(lambda: _preview(given, path, calling))


def _refuse_invalid(given: EditInput) -> None:
    refuse_half_characters(old_string=given.old_string, new_string=given.new_string)
    if given.old_string == given.new_string:
        raise ToolError("'old_string' and 'new_string' are the same. Nothing was done.")


def _preview(given: EditInput, path: Resolved, calling: ToolContext) -> str:
    if path.kind == "missing":
        _refuse_missing(given, path, calling)
        return ""
    data = read_whole_file(path, calling)
    before = calling.place.read.of(path)
    text, _, made = _replaced(given, path, data, before if before is not None else digest(data))
    calling.place.read.remember(path, data)
    hunks = _compared(text, made).hunks
    return patch.format_patch(hunks, path.asked, MOST_PREVIEW)


def _edit(given: EditInput, path: Resolved, calling: ToolContext) -> ToolAnswer:
    if path.kind == "missing":
        _refuse_missing(given, path, calling)
        return _create(given, path, calling)
    data = read_whole_file(path, calling)
    before = get_read_digest(path, calling)
    text, coding, made = _replaced(given, path, data, before)
    _write(path, encode_text(made.text, coding), before, calling)
    return _answered(given, path, text, made)


def _refuse_missing(given: EditInput, path: Resolved, calling: ToolContext) -> None:
    if given.old_string:
        raise ToolError(describe_missing_file(path, calling))


def _replaced(given: EditInput, path: Resolved, data: bytes, before: str) -> tuple[str, FileEncoding, Replacement]:
    """The text, its encoding, and the text after the edit. `before`: the digest of the content that was read."""
    if digest(data) != before:
        raise file_changed_error(path)
    text, coding = decode_text(data, path.asked)
    if not given.old_string and text:
        raise ToolError(f"'{path.asked}' is not empty: say in 'old_string' what to replace. Nothing was done.")
    spans = _spans(given, text, path) if given.old_string else [TextSpan(0, 0)]
    _refuse_if_large(path, len(text) + len(spans) * (len(given.new_string) - len(given.old_string)))
    return text, coding, replace_text(text, given.old_string, spans, given.new_string)


def _create(given: EditInput, path: Resolved, calling: ToolContext) -> ToolAnswer:
    _write(path, given.new_string.encode(), None, calling)
    return _answered(
        given,
        path,
        "",
        Replacement(given.new_string, [TextSpan(0, 0)], [TextSpan(0, len(normalize_newlines(given.new_string)))]),
    )


def _refuse_if_large(path: Resolved, size: int) -> None:
    if size > WHOLE:
        raise ToolError(f"'{path.asked}' would have {size:,} bytes; {WHOLE:,} is the limit. Nothing was done.")


def _write(path: Resolved, data: bytes, before: str | None, calling: ToolContext) -> None:
    _refuse_if_large(path, len(data))
    with translate_write_errors(path):
        calling.place.put(path, data, before=before)


def _spans(given: EditInput, text: str, path: Resolved) -> list[TextSpan]:
    spans = found_in(text, given.old_string, MOST_PLACES + 1)
    if not spans:
        raise ToolError(
            explain_no_match(
                mark_half_characters(normalize_newlines(text)), normalize_newlines(given.old_string), path.asked
            )
        )
    if len(spans) > MOST_PLACES:
        raise ToolError(
            f"'old_string' is in '{path.asked}' more than {MOST_PLACES:,} times. Nothing was done: use sed, in Bash."
        )
    if len(spans) > 1 and not given.replace_all:
        lines = [text.count("\n", 0, span.start) + 1 for span in spans[:10]]
        raise ToolError(
            f"'old_string' is in '{path.asked}' {len(spans)} times: in lines {', '.join(map(str, lines))}"
            f"{' and others' if len(spans) > len(lines) else ''}. Nothing was done: add lines around it until it is "
            "unique, or set 'replace_all'."
        )
    return spans


# --- the result -------------------------------------------------------------------------------------


def _answered(given: EditInput, path: Resolved, text: str, made: Replacement) -> ToolAnswer:
    before, new, ranges, hunks = _compared(text, made)
    facts: dict[str, Any] = {
        "filePath": path.real,
        "oldString": given.old_string,
        "newString": given.new_string,
        "originalFile": before if len(before) <= MOST_ORIGINAL else None,
        "structuredPatch": hunks,
        "userModified": False,
        "replaceAll": given.replace_all,
    }
    words = _words(path, made, new, ranges)
    plus, minus = patch.count_changes(hunks)
    shown = Rendering(
        f"Edited {path.asked} (+{plus} -{minus})", patch.format_patch(hunks, path.asked, MOST_DIFF), "diff"
    )
    return make_answer(words, facts, shown)


class ComparedTexts(NamedTuple):
    before: str  # the old text, as the model sees it
    new: list[str]  # lines
    ranges: list[patch.ChangedRange]
    hunks: list[dict[str, Any]]


def _compared(text: str, made: Replacement) -> ComparedTexts:
    before, after = mark_half_characters(normalize_newlines(text)), mark_half_characters(normalize_newlines(made.text))
    old, new = patch.lines_of(before), patch.lines_of(after)
    ranges = _ranges(before, after, made, old, new)
    return ComparedTexts(before, new, ranges, patch.make_hunks(old, new, ranges[:MOST_HUNKS]))


def _words(path: Resolved, made: Replacement, new: list[str], ranges: list[patch.ChangedRange]) -> str:
    times = f" in {len(made.new)} places" if len(made.new) > 1 else ""
    words = f"'{path.asked}' was changed{times}."
    if not ranges or not new:
        return words
    where = "The first one is now" if len(ranges) > 1 else "It is now"
    return f"{words} {where}:\n{snippet_around(new, ranges[0].new, ranges[0].new_end)}"


def _ranges(before: str, after: str, made: Replacement, old: list[str], new: list[str]) -> list[patch.ChangedRange]:
    """The lines that changed. Two changes in one line count as one."""
    if not _told(before, after, made):
        return patch.ranges_between(old, new)
    found: list[patch.ChangedRange] = []
    a = b = a_at = b_at = 0  # lines and characters so far
    for was, now in zip(made.old, made.new, strict=True):
        a, b = a + before.count("\n", a_at, was.start), b + after.count("\n", b_at, now.start)
        start = (a, b)
        a, b = a + before.count("\n", was.start, was.end), b + after.count("\n", now.start, now.end)
        a_at, b_at = was.end, now.end
        one = patch.ChangedRange(start[0], min(a + 1, len(old)), start[1], min(b + 1, len(new)))
        if found and one.old < found[-1].old_end:
            one = patch.ChangedRange(found[-1].old, one.old_end, found[-1].new, one.new_end)
            found.pop()
        found.append(one)
    return [kept for one in found if (kept := patch.trim_range(old, new, one))]


def _told(before: str, after: str, made: Replacement) -> bool:
    """Whether the spans describe the whole change. They do not where a change falls between a carriage return and its
    line feed."""
    old_ends, new_ends = [0, *[span.end for span in made.old]], [0, *[span.end for span in made.new]]
    old_starts = [*[span.start for span in made.old], len(before)]
    new_starts = [*[span.start for span in made.new], len(after)]
    ends, starts = zip(old_ends, new_ends, strict=True), zip(old_starts, new_starts, strict=True)
    return all(before[a:c] == after[b:d] for (a, b), (c, d) in zip(ends, starts, strict=True))


def _summary(given: EditInput) -> str:
    return f"Edit {given.file_path}"


EDIT = Tool(
    name="Edit",
    about=(
        "Replace a text in a file by another. Read the file first; an edit fails if it changed since. 'old_string' "
        "must match exactly, with its indentation and without the line numbers that Read shows, and occur once: add "
        "lines around it until it does, or set 'replace_all'. Line ends and encoding are kept."
    ),
    input=EditInput,
    run=run_edit,
    paths=("file_path",),
    summary=_summary,
    preview=preview_edit,
)
