"""Paper that can be read, a clock that stands still, and updates in a few words."""

from __future__ import annotations

import re
from typing import Any

from rich.cells import cell_len
from rich.console import RenderableType

from mainspring.cli.tui.layout import Painter
from mainspring.cli.tui.run_view import RunView
from mainspring.cli.tui.theme import ColourDepth
from mainspring.core.messages import Text, ToolCall, ToolResult, result
from mainspring.core.models import DEFAULT_MODEL
from mainspring.core.money import Usage
from mainspring.core.updates import (
    BlockDone,
    BlockKind,
    BlockStarted,
    CallDone,
    CallStarted,
    Delta,
    Rendering,
    ReplyStarted,
    RequestStarted,
    Update,
)
from mainspring.tools.base import ToolAnswer

WIDTH = 60
ROOT = "/home/me/work"
ATTRIBUTES = re.compile("\x1b\\[(?:[012349];?)*m")  # bold, dim, italic, underlined, struck: no colours


class ReadPaper:
    """As a terminal would get it, without colours; the sizes of what is printed are checked."""

    def __init__(self, width: int = WIDTH) -> None:
        self._painter = Painter(depth=ColourDepth.NONE)
        self.width = width
        self.raw = ""

    def put(self, *parts: RenderableType) -> None:
        self.raw += self._painter.printed(parts, self.width)

    def redraw(self) -> None:
        pass

    @property
    def lines(self) -> list[str]:
        self.raw = ATTRIBUTES.sub("", self.raw)
        lines = self.raw.split("\r\n")
        assert "\x1b" not in self.raw
        assert max([cell_len(line) for line in lines]) <= self.width
        return [line.rstrip() for line in lines]

    @property
    def said(self) -> list[str]:
        return [line for line in self.lines if line]


class Watching:
    def __init__(self, width: int = WIDTH, root: str = ROOT) -> None:
        self.paper = ReadPaper(width)
        self.time = 0.0
        self.shown = RunView(self.paper, DEFAULT_MODEL, lambda: self.time, root=root)

    def see(self, *updates: Update) -> Watching:
        for update in updates:
            self.shown.see(update)
        return self

    def whole(self, call_id: str) -> list[str]:
        """A finished call as the transcript draws it."""
        found = self.shown.recent.find(call_id)
        return [line.plain for line in found.whole(self.paper.width)] if found is not None else []

    def drawn(self, height: int = 20) -> list[str]:
        lines = self.shown.draw(self.paper.width, height)
        assert len(lines) <= height
        assert all(line.cell_len <= self.paper.width for line in lines)
        assert not any("\n" in line.plain or "\x1b" in line.plain for line in lines)
        return [line.plain.rstrip() for line in lines if line.plain.strip()]

    # --- what happens, in short ---

    def reply(self) -> Watching:
        return self.see(RequestStarted(1, "m"), ReplyStarted("r", "m", Usage()))

    def says(self, text: str, index: int = 0) -> Watching:
        """Letter by letter, the way it streams; the block does not end."""
        self.see(BlockStarted("r", index, BlockKind.TEXT))
        return self.see(*[Delta("r", index, BlockKind.TEXT, letter) for letter in text])

    def said(self, text: str, index: int = 0) -> Watching:
        return self.says(text, index).see(BlockDone("r", index, Text(text)))

    def calls(self, name: str, line: str = "", id: str = "c", **given: Any) -> Watching:
        return self.see(CallStarted(ToolCall(id, name, given), line))

    def done(
        self,
        text: str,
        shown: Rendering | None = None,
        id: str = "c",
        data: Any = None,
        *,
        wrong: bool = False,
        denied: bool = False,
    ) -> Watching:
        return self.see(CallDone(result(id, text, is_error=wrong), data, shown, denied))

    def tells(self, answer: ToolAnswer, id: str = "c") -> Watching:
        """What a tool has made of a call."""
        return self.see(
            CallDone(ToolResult(id, answer.content, answer.is_error), answer.data, answer.shown, denied=False)
        )
