"""The rewind panel: choose a prompt, see what changes back, and choose what to restore.

`choose_rewind` shows the list of prompts and earlier rewinds, then the files that the rewind would change, and returns
the arguments of `/rewind` for the user's choice (`agent/slash/rewind.py`). Files that the user changed since are kept
unless they are selected.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from mainspring.agent.change_lines import (
    describe_change,
    describe_point,
    describe_point_changes,
    describe_totals,
    format_head_move,
    format_left_out,
    shorten_change_path,
)
from mainspring.agent.options import StartError
from mainspring.agent.session_rows import format_age
from mainspring.agent.slash.lines import TextStyle
from mainspring.agent.slash.rewind import list_rewind_points, preview_rewind
from mainspring.cli.tui.dialog import PageDialog, make_picker
from mainspring.cli.tui.layout import ScrollPage, clean_for_drawing, one_line
from mainspring.cli.tui.menu import BOXES, Clock, Keys, Menu, MenuItem, MenuSelection
from mainspring.cli.tui.pickers import ask_dialog
from mainspring.core.errors import UsageError
from mainspring.text import plural

if TYPE_CHECKING:
    from mainspring.checkpoints.entries import FileChange, FileCheckpoint, RewindReport
    from mainspring.cli.terminal_session import TerminalSession
    from mainspring.cli.tui.screen import Screen

TITLE = "Rewind"
PICK = "Restore the code and the conversation to the point before a prompt."
MOST_OF_PROMPT = 3  # lines
MOST_FILES = 500  # rows; the rest is counted
BACK: Keys = (("esc", "back"),)


class RewindMenu(Menu):
    """Numbered answers, below files that Space adds to the answer. The first answer is marked, so Enter alone adds no
    file. In a selection, the first place is the answer, and the others are files."""

    def __init__(self, files: Sequence[MenuItem], answers: Sequence[MenuItem]) -> None:
        super().__init__([*files, *answers], at=len(files))
        self._files = len(files)

    def hears(self, key: str, text: str) -> bool:
        if key == "space" or text == " ":
            return self._is_file(self._place)
        return super().hears(key, text)

    @property
    def keys(self) -> Keys:
        toggle = (("space", "restore it, too"),) if self._files else ()
        return (*toggle, ("↑↓", "move"), ("enter", "choose"))

    def _is_file(self, place: int | None) -> bool:
        return place is not None and place < self._files

    def _numbered(self, text: str) -> int | None:
        place = self._files + int(text) - 1 if len(text) == 1 and text in "123456789" else -1
        return place if 0 <= place < len(self._choices) else None

    def _letter(self, text: str) -> MenuSelection | None:
        if text == " ":
            self._toggle()
            return None
        place = self._numbered(text)
        return None if place is None else self._answer(place)

    def _enter(self) -> MenuSelection | None:
        if self._is_file(self._place):
            self._toggle()
            return None
        return None if self._place is None else self._answer(self._place)

    def _toggle(self) -> None:
        if self._place is not None and self._is_file(self._place):
            self._checked ^= {self._place}

    def _answer(self, place: int) -> MenuSelection:
        return MenuSelection((place - self._files, *sorted(self._checked)))

    def _sign(self, place: int) -> str:
        return BOXES[place in self._checked] if self._is_file(place) else f"{place - self._files + 1}. "


BOTH, CONVERSATION, FILES = "", "--conversation", "--files"  # as arguments of `/rewind`
NEVER = "never"


# --- the two dialogs ------------------------------------------------------------------------------------------------


def make_rewind_picker(
    points: Sequence[FileCheckpoint], *, at: float, now: Clock, start: int = 0
) -> PageDialog[str | None]:
    """`points`: the newest first. `at`: seconds since 1970, to compute ages. Answers with the id of one."""
    choices = [
        MenuItem(
            one_line(describe_point(point)),
            f"{format_age(at - point.at / 1_000)} · {describe_point_changes(point)}",
        )
        for point in points
    ]
    return make_picker(TITLE, PICK, choices, [point.id for point in points], now=now, start=start)


def make_rewind_dialog(report: RewindReport, root: str, *, at: float, now: Clock) -> PageDialog[str | None]:
    """Answers with the arguments of `/rewind` after the point; "never" for "Never mind", None for Escape."""
    kept = [MenuItem(shorten_change_path(one.path, root), describe_change(one)) for one in report.kept]
    answers = list_answers(report)

    def meant(picked: MenuSelection | None) -> str | None:
        if picked is None:
            return None
        answer, *included = picked.places
        words = answers[answer][1]
        if words in (NEVER, CONVERSATION):
            return words
        return " ".join([words, *[f"--include {shlex.quote(report.kept[place].path)}" for place in included]]).strip()

    page = ScrollPage.of(*describe_rewind(report, root, at))
    menu = RewindMenu(kept, [item for item, _ in answers])
    what = "it" if len(kept) == 1 else "them"
    asks = f"You changed {plural(len(kept), 'file')} since. Kept, unless you select {what}:"
    return PageDialog(TITLE, page, menu, meant, now=now, asks=asks if kept else "", ways_out=BACK, grants=True)


def list_answers(report: RewindReport) -> list[tuple[MenuItem, str]]:
    """With the arguments that each stands for. What does not exist is not offered."""
    files, conversation = bool(report.files or report.kept), report.conversation
    answers: list[tuple[MenuItem, str]] = []
    if files and conversation:
        answers.append((MenuItem("Restore code and conversation"), BOTH))
    if conversation:
        answers.append((MenuItem("Restore conversation only" if files else "Restore conversation"), CONVERSATION))
    if files:
        answers.append((MenuItem("Restore code only" if conversation else "Restore code"), FILES))
    return [*answers, (MenuItem("Never mind"), NEVER)]


def describe_rewind(report: RewindReport, root: str, at: float) -> Iterator[Text]:
    point = report.to
    is_prompt = point.cause == "prompt"
    yield Text("To the point before this prompt:" if is_prompt else "To the point before that rewind:", "note")
    for line in clean_for_drawing(point.text).split("\n")[:MOST_OF_PROMPT] if is_prompt else [describe_point(point)]:
        yield Text.assemble(("│ ", "frame"), line)
    yield Text.assemble(("│ ", "frame"), (format_age(at - point.at / 1_000), "detail"))
    yield Text()
    if report.conversation:
        full = "The conversation is forked; the full one stays under its own id."
        yield Text(full if is_prompt else "The conversation before that rewind is resumed.", "note")
    if report.files:
        yield Text(f"The code changes back in {describe_totals(report.files)}:")
        yield from list_changes(report.files, root)
    elif not report.kept:
        yield Text("The code has not changed since.", "note")
    for one in report.failed:
        yield Text(f"{shorten_change_path(one.path, root)} cannot be restored: {one_line(one.why)}", "warning")
    yield from [Text(format_head_move(move).text, "warning") for move in report.heads]
    yield from [Text(one.text, "note") for one in format_left_out(report.left_out, root)]


def list_changes(changes: Sequence[FileChange], root: str) -> Iterator[Text]:
    shown = [(shorten_change_path(one.path, root), one) for one in changes[:MOST_FILES]]
    widest = max([cell_len(path) for path, _ in shown], default=0)
    for path, change in shown:
        gap = " " * (widest - cell_len(path) + 2)
        yield Text.assemble("  ", path, gap, *style_counts(describe_change(change)))
    if len(changes) > MOST_FILES:
        yield Text(f"  … {len(changes) - MOST_FILES:,} more files", "note")


def style_counts(words: str) -> Iterator[tuple[str, str]]:
    """Added lines and removed lines in their colours, without the backgrounds that lines of a diff have."""
    for place, word in enumerate(words.split(" ")):
        style = "call.done" if word.startswith("+") else "call.failed" if word.startswith("-") else "detail"
        yield (" " * (place > 0), "")
        yield (word, style)


# --- on the screen --------------------------------------------------------------------------------------------------


async def choose_rewind(talk: TerminalSession, stage: Screen) -> str | None:
    """Empty: `/rewind` itself says why there is nothing to rewind."""
    try:
        points = await list_rewind_points(talk)
        return await choose_point(points, talk, stage) if points else ""
    except (StartError, UsageError) as error:
        talk.output.line(f"Cannot rewind: {one_line(str(error))}", TextStyle.YELLOW)
        return None


async def choose_point(points: Sequence[FileCheckpoint], talk: TerminalSession, stage: Screen) -> str | None:
    start = 0
    while True:
        picker = make_rewind_picker(points, at=time.time(), now=stage.attended, start=start)
        if (picked := await ask_dialog(picker, stage)) is None:
            return None
        start = [point.id for point in points].index(picked)
        report = await preview_rewind(talk, points[start])
        dialog = make_rewind_dialog(report, talk.config.cwd, at=time.time(), now=stage.attended)
        words = await ask_dialog(dialog, stage)
        if words == NEVER:
            return None
        if words is not None:  # else back to the list
            talk.output.line()  # between the conversation and what `/rewind` reports
            return f"{picked} {words}".strip()
