"""The output of the demo: one line per update and a timeline per turn, in 80 columns of plain ASCII.

The timeline shows how much of the tools' time passed while the model was still streaming.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple, assert_never

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
from mainspring.text import plural

LABEL, BAR = 26, 36  # with the two times they fill a line of eighty


class DemoSpan(NamedTuple):
    """Milliseconds since the turn began."""

    label: str
    begin: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.begin

    def shared_with(self, other: DemoSpan) -> int:
        return max(0, min(self.end, other.end) - max(self.begin, other.begin))


class TurnTimer:
    """Measures the times of a turn. Updates carry no time, so it is taken when they arrive."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._began = clock()
        self._talk: DemoSpan | None = None
        self._running: dict[str, DemoSpan] = {}
        self.calls: list[DemoSpan] = []  # in the order of their ends

    def now(self) -> int:
        return self._clock() - self._began

    def note_talk(self) -> None:
        """Extends the reply: it ends with the last delta of the model."""
        now = self.now()
        self._talk = DemoSpan("the reply", self._talk.begin if self._talk else now, now)

    def started(self, call_id: str, label: str) -> DemoSpan:
        now = self.now()
        self._running[call_id] = DemoSpan(label, now, now)
        return self._running[call_id]

    def done(self, call_id: str) -> DemoSpan:
        started = self._running.pop(call_id)
        self.calls.append(started._replace(end=self.now()))
        return self.calls[-1]

    @property
    def spans(self) -> list[DemoSpan]:
        return [*([self._talk] if self._talk else []), *sorted(self.calls, key=lambda call: call.begin)]

    @property
    def tool_time(self) -> int:
        return sum(call.length for call in self.calls)

    @property
    def hidden(self) -> int:
        return sum(call.shared_with(self._talk) for call in self.calls) if self._talk else 0


def format_timeline(spans: Iterable[DemoSpan]) -> list[str]:
    """One line for each span, on a common scale."""
    rows = list(spans)
    scale = BAR / max([row.end for row in rows if row.end] or [1])
    return [f"{row.label[:LABEL]:<{LABEL}} {draw_bar(row, scale)} {row.begin:>4} - {row.end:>4} ms" for row in rows]


def draw_bar(span: DemoSpan, scale: float) -> str:
    begin = min(int(span.begin * scale), BAR - 1)
    length = max(1, round(span.end * scale) - begin)  # even the shortest span is visible
    return (" " * begin + "=" * length).ljust(BAR)


SHOWN = 8  # lines of a result: the end of a failing test's traceback, and the summary
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
            self._line("         (removed at the end; run 'mainspring demo --keep' to keep it)", TextStyle.DIM)

    def prompt(self, text: str) -> None:
        self._line()
        self._line(f"> {text}", TextStyle.BOLD)

    def check(self, *, before: bool, after: bool) -> None:
        was, is_now = "passed" if before else "failed", "pass" if after else "fail"
        style = TextStyle.GREEN if after and not before else TextStyle.RED
        self._line(f"Checked outside the loop: the tests {was} before and {is_now} now.", style)
        self._line("The code that decides each turn: mainspring/core/step.py", TextStyle.DIM)

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
                self._line(f"({why}, attempt {update.attempt}: retrying in {update.delay} ms)", TextStyle.RED)
            case RequestStarted():
                self._request_started(update)
            case Failed():
                self._output.end_text()
                self._line(f"All recoveries failed: {update.failure.kind}", TextStyle.RED)
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
                self._line(f"({type(update).__name__})", TextStyle.DIM)  # does not occur with this script
            case Appended() | ReplyStarted() | BlockStarted() | PrefixBroken() | CallProgress():
                pass  # results are shown when their call is done; the rest is not shown here
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
            lines = [f"... {plural(left_out, 'line')} above", *lines[-SHOWN:]]
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
        counts = f"{plural(result.turns, 'turn')}, {plural(result.model_calls, 'model call')}"
        self._line(f"{counts}, {seconds:.1f} s. {result.detail}".rstrip())
        self._line(
            f"Tools ran for {self._tool_time} ms, {self._hidden} ms of it while the model was still streaming.",
            TextStyle.BOLD,
        )

    def _rule(self, left: str, right: str, style: TextStyle) -> None:
        begin, end = f"-- {left} ", f" {right} --" if right else ""
        self._line()
        self._line(begin + "-" * (WIDTH - len(begin) - len(end)) + end, style)


def clip_line(line: str) -> str:
    return line if len(line) <= ROOM else line[: ROOM - 3] + "..."
