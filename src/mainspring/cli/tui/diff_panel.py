"""The panel of `/diff`: choose a prompt, and read what the session changed then.

`choose_diff` returns the arguments of `/diff` that print the same to the scrollback, if the user wants that.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from mainspring.agent.change_lines import describe_change, describe_point, describe_totals, shorten_change_path
from mainspring.agent.session_rows import format_age
from mainspring.agent.slash.diff import number_changes
from mainspring.agent.slash.lines import TextStyle
from mainspring.cli.tui.dialog import PageDialog, make_picker
from mainspring.cli.tui.diff_view import parse_unified_diff, render_diff_lines
from mainspring.cli.tui.layout import ScrollPage, one_line
from mainspring.cli.tui.menu import Clock, Keys, Menu, MenuItem, MenuSelection
from mainspring.cli.tui.pickers import ask_dialog
from mainspring.core.errors import UsageError

if TYPE_CHECKING:
    from mainspring.checkpoints.entries import FileDiff, PromptChanges
    from mainspring.cli.terminal_session import TerminalSession
    from mainspring.cli.tui.screen import Screen

TITLE = "Changes of this session"
BACK: Keys = (("esc", "back"),)
PRINT = "print"


def make_diff_picker(
    found: Sequence[tuple[int, PromptChanges]], *, at: float, now: Clock, start: int = 0
) -> PageDialog[str | None]:
    """`found`: the newest first. Answers with the number of a prompt."""
    choices = [
        MenuItem(
            one_line(describe_point(one.checkpoint)),
            f"{format_age(at - one.checkpoint.at / 1_000)} · {describe_totals([each.change for each in one.files])}",
        )
        for _, one in found
    ]
    return make_picker(TITLE, "", choices, [str(number) for number, _ in found], now=now, start=start)


def make_diff_page(one: PromptChanges, root: str, *, now: Clock) -> PageDialog[str | None]:
    def meant(picked: MenuSelection | None) -> str | None:
        return PRINT if picked is not None and picked.places[0] else None

    page = ScrollPage(lambda width: [line for each in one.files for line in render_file_diff(each, root, width)])
    menu = Menu([MenuItem("Back to the list"), MenuItem("Print it to the scrollback")])
    return PageDialog(one_line(describe_point(one.checkpoint)), page, menu, meant, now=now, ways_out=BACK)


def render_file_diff(diff: FileDiff, root: str, width: int) -> Iterator[Text]:
    path = shorten_change_path(diff.change.path, root)
    yield Text.assemble((path, "asks"), "  ", (describe_change(diff.change), "detail"))
    for rows in render_diff_lines(list(parse_unified_diff(diff.text)), width, path):
        yield from rows
    yield Text()


async def choose_diff(talk: TerminalSession, stage: Screen) -> str | None:
    """Empty: `/diff` itself says that nothing was changed."""
    try:
        found = number_changes(await talk.session.changed_files(), await talk.session.checkpoints())
    except UsageError as error:
        talk.output.line(f"Cannot show changes: {one_line(str(error))}", TextStyle.YELLOW)
        return None
    shown = [(number, one) for number, one in reversed(found) if one.files]
    start = 0
    while shown:
        picked = await ask_dialog(make_diff_picker(shown, at=time.time(), now=stage.attended, start=start), stage)
        if picked is None:
            return None
        start = [str(number) for number, _ in shown].index(picked)
        page = make_diff_page(shown[start][1], talk.config.cwd, now=stage.attended)
        if await ask_dialog(page, stage) == PRINT:
            return picked
    return ""
