"""Changed files in lines for people: what a rewind did or would do, and what a session changed.

`/rewind`, `/diff`, `mainspring rewind` and `mainspring diff` print these lines; the terminal's panel uses the words.
Paths are relative to the working directory. Lines have no control characters; a style says what a line is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from mainspring.agent.slash.lines import TextStyle, clean_line, shorten_about
from mainspring.text import plural, strip_control_characters
from mainspring.tools.search_walk import NEVER

if TYPE_CHECKING:
    from mainspring.checkpoints.entries import (
        FileChange,
        FileCheckpoint,
        FileDiff,
        GitHead,
        HeadMove,
        LeftOut,
        PromptChanges,
        RewindReport,
    )

MOST_FILES = 50  # of a list; the rest is counted
MOST_LEFT_OUT = 5  # names for each reason
SHORT_COMMIT = 8
KINDS = {"created": "created", "deleted": "deleted", "changed": "", "mode": "permissions", "type": "another type"}
SIGNS = {"+": TextStyle.GREEN, "-": TextStyle.RED, "@": TextStyle.CYAN}


class StyledLine(NamedTuple):
    text: str
    style: TextStyle = TextStyle.PLAIN


# --- words ----------------------------------------------------------------------------------------------------


def shorten_change_path(path: str, root: str) -> str:
    """Relative to the working directory, if it is in there."""
    return clean_line(path.removeprefix(f"{root.rstrip('/')}/"))


def describe_change(change: FileChange) -> str:
    """Its kind and its counts: "created, +3 -0"."""
    if change.folder:
        return f"folder {KINDS[change.kind]}".rstrip()
    counts = "binary" if change.binary else f"+{change.plus} -{change.minus}" if change.plus or change.minus else ""
    mode = KINDS["mode"] if change.mode else ""
    return ", ".join([words for words in (KINDS[change.kind], counts, mode) if words]) or "changed"


def describe_kept(change: FileChange) -> str:
    """What a rewind would do to a file that it keeps."""
    words = describe_change(change)
    return f"would be {words}" if change.kind in ("created", "deleted") and not change.folder else words


def describe_totals(changes: Sequence[FileChange]) -> str:
    """ "2 files, +3 -1"; without changes "no files"."""
    if not changes:
        return "no files"
    plus, minus = sum([one.plus for one in changes]), sum([one.minus for one in changes])
    return plural(len(changes), "file") + (f", +{plus} -{minus}" if plus or minus else "")


def describe_point(point: FileCheckpoint) -> str:
    """What a rewind goes back to, on one line: the prompt, or an earlier rewind, which it undoes."""
    if point.cause == "prompt":
        return shorten_about(point.text) or "(no text)"
    return f"before the rewind at {format_clock(point.at)}"


def describe_point_changes(point: FileCheckpoint) -> str:
    if point.cause != "prompt":
        return "undoes that rewind"
    if point.id == point.prompt_id:
        return "no file checkpoint"
    return f"{plural(point.changed, 'file')} changed" if point.changed else "no files changed"


def format_clock(at: int) -> str:
    """The time of day; with the day, if that is not today."""
    then, now = time.localtime(at / 1_000), time.localtime()
    return time.strftime("%H:%M" if then[:3] == now[:3] else "%Y-%m-%d %H:%M", then)


# --- a rewind -------------------------------------------------------------------------------------------------


def format_rewind(report: RewindReport, root: str) -> Iterator[StyledLine]:
    """What a rewind did to files, or would do."""
    if report.files:
        yield StyledLine(f"{'Would restore' if report.dry_run else 'Restored'} {describe_totals(report.files)}:")
        yield from format_changes(report.files, root)
    elif not report.kept and not report.failed:
        yield StyledLine("No files to restore: none has changed since.", TextStyle.DIM)
    if report.kept:
        verb = "would be" if report.dry_run else "was" if len(report.kept) == 1 else "were"
        what = "it" if len(report.kept) == 1 else "them"
        yield StyledLine(f"{plural(len(report.kept), 'file')} {verb} kept, because you changed {what} since:")
        yield from format_changes(report.kept, root, describe_kept)
    if report.failed:
        verb = "cannot" if report.dry_run else "could not"
        yield StyledLine(f"{plural(len(report.failed), 'file')} {verb} be restored:", TextStyle.YELLOW)
        for one in report.failed[:MOST_FILES]:
            yield StyledLine(f"  {shorten_change_path(one.path, root)}: {clean_line(one.why)}", TextStyle.YELLOW)
    yield from map(format_head_move, report.heads)
    yield from format_left_out(report.left_out, root)


def format_changes(
    changes: Sequence[FileChange],
    root: str,
    describe: Callable[[FileChange], str] = describe_change,
    most: int = MOST_FILES,
) -> Iterator[StyledLine]:
    shown = [(shorten_change_path(one.path, root), describe(one)) for one in changes[:most]]
    widest = max([len(path) for path, _ in shown], default=0)
    for path, words in shown:
        yield StyledLine(f"  {path:<{widest}}  {words}")
    if len(changes) > most:
        yield StyledLine(f"  and {len(changes) - most:,} more", TextStyle.DIM)


def format_head_move(move: HeadMove) -> StyledLine:
    before, after = describe_head(move.before), describe_head(move.after)
    return StyledLine(
        f"HEAD of the git repository moved since, from {before} to {after}. A rewind does not touch .git.",
        TextStyle.YELLOW,
    )


def describe_head(head: GitHead) -> str:
    commit = head.commit[:SHORT_COMMIT] or "no commit"
    return clean_line(f"{head.branch} ({commit})" if head.branch else commit)


def format_left_out(left_out: Sequence[LeftOut], root: str) -> Iterator[StyledLine]:
    """A line for each reason. The folders of version control are left out always, so they are not worth a line."""
    reasons: dict[str, list[str]] = {}
    for one in left_out:
        if one.path.rpartition("/")[2] in NEVER:
            continue
        reasons.setdefault(one.why, []).append(shorten_change_path(one.path, root))
    for why, names in reasons.items():
        more = f" and {len(names) - MOST_LEFT_OUT:,} more" if len(names) > MOST_LEFT_OUT else ""
        yield StyledLine(f"Left out ({clean_line(why)}): {', '.join(names[:MOST_LEFT_OUT])}{more}", TextStyle.DIM)


# --- what a session changed -----------------------------------------------------------------------------------


def format_prompt_changes(found: PromptChanges, number: int) -> str:
    """The heading of what one prompt changed. `number`: 1 is the last prompt."""
    totals = describe_totals([one.change for one in found.files])
    return f"Prompt {number}: {describe_point(found.checkpoint)} ({totals})"


def format_diff(diff: FileDiff, root: str) -> Iterator[StyledLine]:
    """One file as a unified diff."""
    path, kind = shorten_change_path(diff.change.path, root), diff.change.kind
    if not diff.text:
        yield StyledLine(f"{path}: {describe_change(diff.change)}", TextStyle.BOLD)
        return
    yield StyledLine("--- /dev/null" if kind == "created" else f"--- a/{path}", TextStyle.BOLD)
    yield StyledLine("+++ /dev/null" if kind == "deleted" else f"+++ b/{path}", TextStyle.BOLD)
    for line in strip_control_characters(diff.text).split("\n")[2:]:  # without the names
        if line:
            yield StyledLine(line, SIGNS.get(line[:1], TextStyle.PLAIN))
