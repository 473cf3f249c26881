"""What the demo says of a run, update by update: at most eighty columns, plain ASCII."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import assert_never

from mainspring.cli.commands.demo_times import LABEL, DemoSpan, TurnTimer, format_timeline
from mainspring.cli.output import WIDTH, TerminalOutput, TextStyle
from mainspring.core.messages import ToolCall, ToolResult
from mainspring.core.reasons import Transition
from mainspring.core.updates import (
    AgentDone,
    AgentStarted,
    AgentUpdate,
    Appended,
    BlockDone,
    BlockKind,
    BlockStarted,
    Boundary,
    CallDone,
    CallProgress,
    CallStarted,
    Delta,
    Failed,
    Injected,
    MaxTurnsReached,
    PrefixBroken,
    QuestionAnswered,
    QuestionAsked,
    ReplyDone,
    ReplyStarted,
    RequestStarted,
    Result,
    Retrying,
    Tombstone,
    ToolSummary,
    Update,
)

SHOWN = 8  # lines of a result: the end of a failing test's traceback, and the verdict
ROOM = WIDTH - len("  | ")


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class DemoScreen:
    def __init__(self, output: TerminalOutput, clock: Callable[[], int] = monotonic_ms) -> None:
        self._output = output
        self._line = output.line
        self._clock = clock
        self._turn = TurnTimer(clock)
        self._tool_time = 0
        self._hidden = 0

    # --- around the run ---

    def opening(self, folder: Path, *, keep: bool) -> None:
        self._line("mainspring demo: the model is a script; the tools, files and tests are real.")
        self._line(f"project: {folder}")
        if not keep:
            self._line("         (removed at the end; 'mainspring demo --keep' keeps it)", TextStyle.DIM)

    def prompt(self, text: str) -> None:
        self._line()
        self._line(f"> {text}", TextStyle.BOLD)

    def check(self, *, before: bool, after: bool) -> None:
        was, is_now = "passed" if before else "failed", "pass" if after else "fail"
        style = TextStyle.GREEN if after and not before else TextStyle.RED
        self._line(f"Checked outside the loop: the tests {was} before, and {is_now} now.", style)
        self._line("What decided each turn: mainspring/core/step.py", TextStyle.DIM)

    def kept(self, folder: Path) -> None:
        self._line(f"kept: {folder}")

    # --- the run ---

    def update(self, update: Update) -> None:
        match update:
            case Delta():
                self._delta(update)
            case ReplyDone():
                self._turn.note_talk()
            case BlockDone():
                self._turn.note_talk()
                self._output.end_text()
            case CallStarted():
                self._call_started(update.call)
            case CallDone():
                self._call_done(update.result)
            case Retrying():
                why = f"{update.failure.status} {update.failure.kind}"
                self._line(f"({why}, attempt {update.attempt}: again in {update.delay} ms)", TextStyle.RED)
            case RequestStarted():
                self._request_started(update)
            case Failed():
                self._output.end_text()
                self._line(f"Nothing helped against: {update.failure.kind}", TextStyle.RED)
            case Result():
                self._end(update)
            case (
                Tombstone()
                | Boundary()
                | MaxTurnsReached()
                | QuestionAsked()
                | QuestionAnswered()
                | Injected()
                | ToolSummary()
                | (AgentStarted() | AgentUpdate() | AgentDone())
            ):
                self._line(f"({type(update).__name__})", TextStyle.DIM)  # not with this script
            case Appended() | ReplyStarted() | BlockStarted() | PrefixBroken() | CallProgress():
                pass  # a result that was shown when its call was done; what this screen has no use for
            case _:
                assert_never(update)

    def _delta(self, delta: Delta) -> None:
        self._turn.note_talk()
        if delta.kind is BlockKind.TEXT:
            self._output.piece(delta.text)

    def _call_started(self, call: ToolCall) -> None:
        about = str(call.input.get("command") or call.input.get("file_path", ""))
        span = self._turn.started(call.id, f"{call.name} {about}")
        self._call_line(span, f"started at {span.begin:>4} ms")

    def _call_done(self, result: ToolResult) -> None:
        span = self._turn.done(result.call_id)
        self._call_line(span, f"done at    {span.end:>4} ms")
        lines = [line for line in result.text.splitlines() if line.strip()]
        left_out = len(lines) - SHOWN
        if left_out > 0:
            lines = [f"... {left_out} lines above", *lines[-SHOWN:]]
        bar = self._output.paint("|", TextStyle.RED if result.is_error else TextStyle.GREEN)
        for line in lines:
            self._line(f"  {bar} {self._output.paint(clip_line(line), TextStyle.DIM)}")

    def _call_line(self, span: DemoSpan, what: str) -> None:
        self._line(f"{self._output.paint(f'{span.label[:LABEL]:<{LABEL}}', TextStyle.CYAN)} {what}")

    # --- turns ---

    def _request_started(self, started: RequestStarted) -> None:
        self._end_turn()
        why = f" | {started.transition}" if started.transition else ""
        recovers = started.transition not in (None, Transition.NEXT_TURN)
        self._rule(f"turn {started.turn}{why}", started.model, TextStyle.YELLOW if recovers else TextStyle.BOLD)

    def _end_turn(self) -> None:
        self._output.end_text()
        if self._turn.calls:
            for line in format_timeline(self._turn.spans):
                self._line(line)
        self._tool_time += self._turn.tool_time
        self._hidden += self._turn.hidden
        self._turn = TurnTimer(self._clock)

    def _end(self, result: Result) -> None:
        self._end_turn()
        self._rule(f"{result.terminal} | {result.cause}", "", TextStyle.BOLD)
        seconds = result.duration / 1000
        self._line(f"{result.turns} turns, {result.model_calls} model calls, {seconds:.1f} s. {result.detail}".rstrip())
        self._line(
            f"Tools ran for {self._tool_time} ms, {self._hidden} ms of it hidden behind the stream.", TextStyle.BOLD
        )

    def _rule(self, left: str, right: str, style: TextStyle) -> None:
        begin, end = f"-- {left} ", f" {right} --" if right else ""
        self._line()
        self._line(begin + "-" * (WIDTH - len(begin) - len(end)) + end, style)


def clip_line(line: str) -> str:
    return line if len(line) <= ROOM else line[: ROOM - 3] + "..."
