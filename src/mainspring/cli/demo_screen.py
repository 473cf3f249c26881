"""What the demo prints: at most eighty columns, plain ASCII, colour only where it is asked for."""

from __future__ import annotations

import textwrap
from enum import StrEnum
from pathlib import Path
from typing import assert_never

from mainspring.core.messages import Assistant, ToolCall, ToolResult
from mainspring.core.reasons import Failure, Transition
from mainspring.core.updates import (
    Appended,
    Boundary,
    Decided,
    Failed,
    MaxTurnsReached,
    RequestStarted,
    Result,
    Tombstone,
)

WIDTH = 80
SHOWN = 8  # lines of a result: the end of a failing test's traceback, and the verdict


ROOM = WIDTH - len("  | ")


class Style(StrEnum):
    """Codes of the terminal's own sixteen colours, so that they fit its theme."""

    PLAIN = ""
    BOLD = "1"
    DIM = "2"
    RED = "31"
    GREEN = "32"
    YELLOW = "33"
    CYAN = "36"


class Screen:
    def __init__(self, *, colour: bool) -> None:
        self.colour = colour

    # --- around the run ---------------------------------------------------------------------------------

    def opening(self, folder: Path, *, keep: bool) -> None:
        self.line("mainspring demo: the model is a script; the tools, files and tests are real.")
        self.line(f"project: {folder}")
        if not keep:
            self.line("         (removed at the end; 'mainspring demo --keep' keeps it)", Style.DIM)

    def prompt(self, text: str) -> None:
        self.line()
        self.line(f"> {text}", Style.BOLD)

    def check(self, *, before: bool, after: bool) -> None:
        was, is_now = "passed" if before else "failed", "pass" if after else "fail"
        style = Style.GREEN if after and not before else Style.RED
        self.line(f"Checked outside the loop: the tests {was} before, and {is_now} now.", style)
        self.line("What decided each turn: mainspring/core/step.py", Style.DIM)

    def kept(self, folder: Path) -> None:
        self.line(f"kept: {folder}")

    # --- what the driver sees itself ----------------------------------------------------------------------

    def reply(self, reply: Assistant) -> None:
        for line in textwrap.wrap(reply.text, WIDTH):
            self.line(line)

    def call(self, call: ToolCall) -> None:
        about = str(call.input.get("command") or call.input.get("file_path", ""))
        self.line(f"{self.paint(call.name, Style.CYAN)} {about}")

    def result(self, result: ToolResult) -> None:
        lines = [line for line in result.text.splitlines() if line.strip()]
        left_out = len(lines) - SHOWN
        if left_out > 0:
            lines = [f"... {left_out} lines above", *lines[-SHOWN:]]
        for line in lines:
            bar = self.paint("|", Style.RED if result.is_error else Style.GREEN)
            self.line(f"  {bar} {self.paint(clip(line), Style.DIM)}")

    def failure(self, failure: Failure) -> None:
        self.line(f"(the script lets this request fail: {failure.status}, {failure.kind})", Style.RED)

    # --- what the loop decided ------------------------------------------------------------------------------

    def update(self, update: Decided) -> None:
        match update:
            case RequestStarted():
                self.request(update)
            case Failed():
                self.line(f"Nothing helped against: {update.failure.kind}", Style.RED)
            case Result():
                self.end(update)
            case Appended() | Boundary() | Tombstone() | MaxTurnsReached():
                self.line(f"({type(update).__name__})", Style.DIM)  # not with this script
            case _:
                assert_never(update)

    def request(self, started: RequestStarted) -> None:
        why = f" | {started.transition}" if started.transition else ""
        recovers = started.transition not in (None, Transition.NEXT_TURN)
        self.rule(f"turn {started.turn}{why}", started.model, Style.YELLOW if recovers else Style.BOLD)

    def end(self, result: Result) -> None:
        self.rule(f"{result.terminal} | {result.cause}", "", Style.BOLD)
        seconds = result.duration / 1000
        self.line(f"{result.turns} turns, {result.model_calls} model calls, {seconds:.1f} s. {result.detail}".rstrip())

    # --- lines ------------------------------------------------------------------------------------------------

    def rule(self, left: str, right: str, style: Style) -> None:
        begin, end = f"-- {left} ", f" {right} --" if right else ""
        self.line()
        self.line(begin + "-" * (WIDTH - len(begin) - len(end)) + end, style)

    def line(self, text: str = "", style: Style = Style.PLAIN) -> None:
        print(self.paint(text, style), flush=True)  # a reader at the other end of a pipe follows along

    def paint(self, text: str, style: Style) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if self.colour and style and text else text


def clip(line: str) -> str:
    return line if len(line) <= ROOM else line[: ROOM - 3] + "..."
