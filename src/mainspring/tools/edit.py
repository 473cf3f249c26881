"""Edit: a text in a file becomes another. Exactly there, exactly that, and only in a file that was read."""

from typing import Annotated, Any

from mainspring.core.errors import ToolError
from mainspring.core.updates import Rendering
from mainspring.processes.atomic_write import digest
from mainspring.processes.paths import Resolved
from mainspring.tools import near_miss, patch
from mainspring.tools.aside import run_in_thread_to_end
from mainspring.tools.base import Input, Tool, ToolAnswer, ToolContext, make_answer
from mainspring.tools.coding import (
    decode_text,
    encode_text,
    mark_half_characters,
    normalize_newlines,
    refuse_half_characters,
)
from mainspring.tools.files import (
    WHOLE,
    describe_missing_file,
    file_changed_error,
    get_read_digest,
    read_whole_file,
    translate_write_errors,
)
from mainspring.tools.replacing import Replacement, TextSpan, found_in, replace_text
from mainspring.tools.snippet import snippet_around

MOST_ORIGINAL = 100_000  # characters of a file that programs are handed whole
MOST_DIFF = 400  # lines of a diff on a screen
MOST_PLACES = 100_000  # that one edit changes
MOST_HUNKS = 1_000  # that programs are handed


class EditInput(Input, frozen=True):
    file_path: Annotated[str, "The file."]
    old_string: Annotated[str, "What is there: exactly, without line numbers. Empty: the file is new."]
    new_string: Annotated[str, "What is to be there."]
    replace_all: Annotated[bool, "Wherever it occurs."] = False


async def run_edit(given: EditInput, calling: ToolContext) -> ToolAnswer:
    refuse_half_characters(old_string=given.old_string, new_string=given.new_string)
    if given.old_string == given.new_string:
        raise ToolError("'old_string' and 'new_string' are the same. Nothing was done.")
    path = calling.resolve(given.file_path)
    return await run_in_thread_to_end(lambda: _edit(given, path, calling))  # it waits for the disk


def _edit(given: EditInput, path: Resolved, calling: ToolContext) -> ToolAnswer:
    if path.kind == "missing" and given.old_string:
        raise ToolError(describe_missing_file(path, calling))
    if path.kind == "missing":
        return _create(given, path, calling)
    data = read_whole_file(path, calling)
    before = get_read_digest(path, calling)
    if digest(data) != before:
        raise file_changed_error(path)
    text, coding = decode_text(data, path.asked)
    if not given.old_string and text:
        raise ToolError(f"'{path.asked}' is not empty: say in 'old_string' what to replace. Nothing was done.")
    spans = _spans(given, text, path) if given.old_string else [TextSpan(0, 0)]
    _refuse_if_large(path, len(text) + len(spans) * (len(given.new_string) - len(given.old_string)))
    made = replace_text(text, given.old_string, spans, given.new_string)
    _write(path, encode_text(made.text, coding), before, calling)
    return _answered(given, path, text, made)


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
        raise ToolError(f"'{path.asked}' would have {size:,} bytes; {WHOLE:,} is the most. Nothing was done.")


def _write(path: Resolved, data: bytes, before: str | None, calling: ToolContext) -> None:
    _refuse_if_large(path, len(data))
    with translate_write_errors(path):
        calling.place.put(path, data, before=before)


def _spans(given: EditInput, text: str, path: Resolved) -> list[TextSpan]:
    spans = found_in(text, given.old_string, MOST_PLACES + 1)
    if not spans:
        raise ToolError(
            near_miss.explain_no_match(
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


# --- what it came to --------------------------------------------------------------------------------


def _answered(given: EditInput, path: Resolved, text: str, made: Replacement) -> ToolAnswer:
    before, after = mark_half_characters(normalize_newlines(text)), mark_half_characters(normalize_newlines(made.text))
    old, new = patch.lines_of(before), patch.lines_of(after)
    ranges = _ranges(before, after, made, old, new)
    hunks = patch.make_hunks(old, new, ranges[:MOST_HUNKS])
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


def _words(path: Resolved, made: Replacement, new: list[str], ranges: list[patch.ChangedRange]) -> str:
    times = f" in {len(made.new)} places" if len(made.new) > 1 else ""
    words = f"'{path.asked}' was changed{times}."
    if not ranges or not new:
        return words
    where = "The first one is now" if len(ranges) > 1 else "It is now"
    return f"{words} {where}:\n{snippet_around(new, ranges[0].new, ranges[0].new_end)}"


def _ranges(before: str, after: str, made: Replacement, old: list[str], new: list[str]) -> list[patch.ChangedRange]:
    """The lines that changed. Two changes in one line are one."""
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
    """Whether the spans tell all. They do not where a change came between a carriage return and its line feed."""
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
)
