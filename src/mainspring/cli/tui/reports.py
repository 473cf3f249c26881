"""What agents that worked in the background report: its first line, as it comes into the conversation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from rich.cells import cell_len
from rich.text import Text

from mainspring.cli.tui.calls import BULLET, CallTitle
from mainspring.cli.tui.laid import WidthAware, indent_with_branch, one_line
from mainspring.cli.tui.layout import clip_text
from mainspring.core.messages import Origin, User

# `engine/subagents.py` writes them: what the model must know of it, a blank line, and the agent's own words.
REPORT = re.compile(r'<task-notification agent="([^"]*)" status="([^"]*)">.*?\n\n(.*?)</task-notification>', re.DOTALL)
LONGEST = 200  # columns of it


class SubagentReport(NamedTuple):
    agent_id: str
    failed: bool
    words: str

    def by(self, title: CallTitle) -> WidthAware:
        """In one line, if there is room for it."""
        did, mark = ("failed:", "call.failed") if self.failed else ("reported:", "call.done")

        def draw(width: int) -> list[Text]:
            if cell_len(f"{BULLET}{title.name}({title.words}) {did} {self.words}") <= width:
                return [title.draw(mark, width, f" {did} {self.words}")]
            said = [clip_text(row, width) for row in indent_with_branch([Text(self.words, "detail")])]
            return [title.draw(mark, width, f" {did}"), *said]

        return WidthAware(draw)


def reports_in(message: User) -> Iterator[SubagentReport]:
    if message.origin is Origin.REPORT:
        for found in REPORT.finditer(message.text):
            first = found[3].strip().partition("\n")[0]
            yield SubagentReport(found[1], found[2] != "completed", one_line(first, LONGEST) or "nothing")
