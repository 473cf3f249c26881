"""The view of a run: settled output goes to the scrollback, and the live region below shows what is still running.

Each update is shown once and not kept; only running calls and the last finished calls are kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import assert_never

from rich.console import RenderableType
from rich.text import Text

from mainspring.agent import loop_notices
from mainspring.agent.results import make_outcome
from mainspring.agent.updates import SubagentMoved, TaskChanged
from mainspring.cli.tui import notices
from mainspring.cli.tui import status as tui_status
from mainspring.cli.tui.active_calls import ActiveCalls
from mainspring.cli.tui.call_view import CallResultView, TaskList, render_interrupted_call
from mainspring.cli.tui.held_calls import HeldCalls, render_summary
from mainspring.cli.tui.layout import WidthAware, clean_for_drawing, clip_text, fill_rows, indent_lines, wrap_rows
from mainspring.cli.tui.notices import RecentCalls, reports_in
from mainspring.cli.tui.screen import Scrollback
from mainspring.cli.tui.status import ProgressLine
from mainspring.cli.tui.streamed_reply import StreamedReply
from mainspring.cli.tui.streaming_text import SettledPart, StreamingText
from mainspring.core.messages import Text as TextBlock
from mainspring.core.messages import Thinking, User
from mainspring.core.models import Model
from mainspring.core.reasons import Failure, Terminal
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
from mainspring.text import format_elapsed, plural


class RunView:
    def __init__(
        self,
        paper: Scrollback,
        model: Model,
        now: Callable[[], float] = time.monotonic,
        *,
        root: str = "",
        summarizes: Callable[[], bool] = bool,
    ) -> None:
        """`root`: the folder that paths are relative to. `summarizes`: whether tool calls are summarized."""
        self._summarizes = summarizes
        self.tasks_shown = True
        self._paper, self._model, self._now, self._root = paper, model, now, root
        self._writes = False  # the model is writing a text,
        self._held: list[Callable[[], None]] = []  # and these wait for its end
        self._saying = StreamingText(now)
        self.streamed = StreamedReply()  # for the transcript
        self._under_way = ActiveCalls(now, root)
        self.recent = RecentCalls()
        self._unprinted = HeldCalls()
        self._block: tuple[str, int] | None = None  # the block whose text is streaming
        self._has_said = False  # some text of this reply is in the scrollback
        self._tasks = TaskList()
        self._live: ProgressLine | None = None  # set while something is running
        self._retries = notices.RetryNotice()
        self._failure: Failure | None = None
        self._tried: list[str] = []  # recoveries of this run, in words
        self._tight = False  # the last printed part is one line: the next one-line part needs no blank line

    # --- start and end -----------------------------------------------------------------------------------------------

    def begins(self, model: Model | None = None, doing: str = tui_status.ASKING) -> None:
        """A prompt was submitted: show the progress line from now on."""
        self._model = model or self._model
        self._live = ProgressLine(self._now())
        self._live.does(doing)
        self._failure, self._tight, self._tried = None, False, []
        self._paper.redraw()

    def ends(self) -> None:
        """Nothing is running any more, for whatever reason."""
        self._text_is_over()
        self._saying.has_thought()
        self._no_more_tries()
        for running in self._under_way.end():
            self._put_call(render_interrupted_call(running, self._now()))
        self._print_held_calls()
        self._under_way.is_out_of_sight()
        self._live = None
        self._paper.redraw()

    def forget(self) -> None:
        """The user switched to another session."""
        self.ends()
        self._under_way = ActiveCalls(self._now, self._root)
        self.recent.forget()
        self._tasks.forget()
        self.streamed.forget()

    def waits_for(self, agents: int) -> None:
        if agents:
            self.begins(doing=f"Waiting for {plural(agents, 'subagent')}")

    def stops_waiting(self) -> None:
        self.ends()
        self._note("(the report will arrive in a later turn)", "note")

    def broke_off(self, why: str) -> None:
        self.ends()
        self._note(f"The run failed: {why}", "error")

    @property
    def is_live(self) -> bool:
        """Whether something is running, so that the live region changes with time."""
        return self._live is not None

    # --- updates -----------------------------------------------------------------------------------------------------

    def see(self, update: Update) -> None:
        self.streamed.see(update)
        if isinstance(update, ReplyStarted | RequestStarted | Tombstone | Failed):
            self._no_more_tries()
        match update:
            case ReplyStarted() | BlockStarted() | Delta() | BlockDone() | ReplyDone() | Tombstone():
                self._reply(update)
            case CallStarted() | CallProgress() | QuestionAsked() | QuestionAnswered() | AgentStarted() | AgentUpdate():
                self._under_way.see(update)
            case CallDone():
                self._call_done(update)
            case AgentDone():
                self._agent_done(update)
            case RequestStarted() | Retrying() | Boundary() | PrefixBroken():
                self._going_on(update)
            case Failed():
                self._failure = update.failure
            case Result():
                self._end(update)
            case Injected():
                self._reports(update.message)
            case ToolSummary():
                self._summarize(update)
            case Appended() | MaxTurnsReached():
                pass  # not for users, or the result shows it
            case _:
                assert_never(update)
        self._paper.redraw()

    def _reply(self, update: ReplyStarted | BlockStarted | Delta | BlockDone | ReplyDone | Tombstone) -> None:
        match update:
            case ReplyStarted():
                self._has_said = False
                self._saying.break_up()
            case BlockStarted():
                self._begins_block(update)
            case Delta():
                self._piece(update)
            case BlockDone():
                self._ends_block(update)
            case ReplyDone():
                self._status.reply_is_done(update.usage.output)
                self._status.does(tui_status.ASKING)
            case Tombstone():
                self._saying.drop()
                self._text_is_over()
                self._status.reply_is_lost()
                self._note(notices.describe_withdrawn(update.why, was_seen=self._has_said), "warning")
            case _:
                assert_never(update)

    def _begins_block(self, update: BlockStarted) -> None:
        match update.kind:
            case BlockKind.THINKING:
                self._status.does(tui_status.THINKING)
                self._saying.thinks()
            case BlockKind.TEXT:
                self._status.does(tui_status.WRITING)
            case BlockKind.INPUT:
                self._status.does(
                    f"{tui_status.WRITING} a call to {clean_for_drawing(update.name)}"
                    if update.name
                    else tui_status.WRITING
                )
            case _:
                assert_never(update.kind)

    def _piece(self, update: Delta) -> None:
        self._status.hears(len(update.text))
        match update.kind:
            case BlockKind.THINKING:
                self._saying.thinks(update.text)
            case BlockKind.TEXT:
                self._block = (update.reply_id, update.index)
                self._writes = True
                self._put_text(self._saying.add(update.text))
            case BlockKind.INPUT:
                pass  # the call's own line says more
            case _:
                assert_never(update.kind)

    def _ends_block(self, update: BlockDone) -> None:
        if isinstance(update.block, Thinking):
            took = self._saying.has_thought()
            if took is not None:
                self._note(f"✻ Thought for {format_elapsed(max(1.0, took))}", "thinking")
        elif isinstance(update.block, TextBlock):
            if self._block != (update.reply_id, update.index):  # the text did not stream
                self._put_text(self._saying.add(update.block.text))
            self._text_is_over()

    # --- calls ---

    def _call_done(self, done: CallDone) -> None:
        running = self._under_way.done(done.result.call_id)
        if running is not None and not done.result.is_error and self._tasks.see(running.name, done.data):
            return  # the list shows it
        self._put_call(CallResultView(running, done, self._now(), self._root))

    def _put_call(self, finished: CallResultView) -> None:
        self.recent.add(finished)
        self._between(partial(self._hold_or_print, finished))

    def _hold_or_print(self, finished: CallResultView) -> None:
        if not self._summarizes() or self._unprinted.is_full:
            self._print_call(finished)
        else:
            self._unprinted.add(finished)

    def _print_call(self, finished: CallResultView) -> None:
        self._put(WidthAware(finished.draw), tight=finished.in_short)

    def _print_held_calls(self) -> None:
        for finished in self._unprinted.take():
            self._print_call(finished)

    def _summarize(self, update: ToolSummary) -> None:
        """Print one line for the calls, if they are not printed yet. The reply that streams meanwhile comes after them:
        none of it is printed yet, or they were, too."""
        batch, earlier = self._unprinted.take_batch(update.call_ids)
        done = [finished for finished in batch if not finished.failed]
        later = self._unprinted.take()
        for finished in earlier:
            self._print_call(finished)
        if done:
            self._put(WidthAware(lambda width: [render_summary(update.text, done, width)]), tight=True)
        for finished in batch:
            if finished.failed:
                self._print_call(finished)
        for finished in later:
            self._unprinted.add(finished)

    # --- agents in the background ---

    def _agent_done(self, update: AgentDone) -> None:
        """Its call shows the report of a foreground subagent; that of one in the background follows on a line of its
        own."""
        self._under_way.agent_done(update.agent_id)

    def see_task(self, update: TaskChanged | SubagentMoved) -> None:
        """A command in the background has started or ended, or a subagent was moved there. The call that started it is
        shown anyway."""
        if isinstance(update, SubagentMoved):
            self._under_way.agent_moved(update.agent_id)
        elif update.status != "running":
            self.tell(f"● {update.task.report}", "note")
        self._paper.redraw()

    def _reports(self, message: User) -> None:
        for report in reports_in(message):
            put = partial(self._put, report.by(self._under_way.take_reported(report.agent_id)), tight=True)
            self._between(put)

    # --- the run ---

    def _going_on(self, update: RequestStarted | Retrying | Boundary | PrefixBroken) -> None:
        match update:
            case RequestStarted():
                self._put_tasks()
                self._under_way.end()  # drop calls without a result
                self._status.does(tui_status.ASKING)
                if words := loop_notices.explain_request(update):
                    self._tried.append(words.strip("()"))
                    self._note(words, "warning")
            case Retrying():
                words = self._retries.see(update, self._now())
                self._status.tries_again(self._now() + update.delay / 1_000, words)
            case Boundary():
                self._note(loop_notices.explain_context_edit(update), "note")
            case PrefixBroken():
                if words := loop_notices.explain_prefix_break(update, self._model):
                    self._note(words, "note")
            case _:
                assert_never(update)

    def _no_more_tries(self) -> None:
        if words := self._retries.over(self._now()):
            self._status.does(tui_status.ASKING)
            self._note(words, "warning")

    def _put_tasks(self, *, whole: bool = False) -> None:
        """Print what changed in the task list, once per turn: one line, or at the end of the run the list itself."""
        if not self._tasks.changed and not (whole and self._tasks.printed_short):
            return
        rows = self._tasks.settle(whole=whole)
        if rows is not None:
            self._between(lambda: self._put(WidthAware(rows), tight=not whole))

    def _end(self, result: Result) -> None:
        self.ends()
        self._put_tasks(whole=True)
        out = make_outcome(result, self._failure)
        if result.interrupted:
            self._note("(interrupted)", "warning")
        elif out.is_error:
            self._note(out.words, "error")
            if result.terminal is Terminal.PROMPT_TOO_LONG:
                self._note(notices.explain_full_context(self._tried), "note")
        if words := loop_notices.format_run_figures(result, self._model):
            self._note(words, "note")

    # --- scrollback --------------------------------------------------------------------------------------------------

    @property
    def _status(self) -> ProgressLine:
        if self._live is None:
            self.begins()
        assert self._live is not None
        return self._live

    def _put(self, part: RenderableType, *, tight: bool = False) -> None:
        """Print with a blank line before it, unless this part and the last one are one line each."""
        self._print_held_calls()
        self._paper.put(*(() if tight and self._tight else (Text(),)), part)
        self._tight = tight

    def _put_text(self, settled: list[SettledPart]) -> None:
        if settled:
            self._print_held_calls()
        for piece in settled:
            self._paper.put(*(() if piece.glued else (Text(),)), piece.part)
            self._tight, self._has_said = False, True

    def _between(self, put: Callable[[], None]) -> None:
        """Wait for the end of a streaming text: half a list or fence could not be drawn."""
        if self._writes:
            self._held.append(put)
            return
        self._put_text(self._saying.end())
        put()
        self._saying.break_up()

    def _text_is_over(self) -> None:
        self._put_text(self._saying.end())
        self._writes = False
        held, self._held = self._held, []
        for put in held:
            self._between(put)

    def tell(self, words: str, style: str) -> None:
        """Print a notice that does not belong to the run."""
        self._between(lambda: self._note(words, style))
        self._paper.redraw()

    def _note(self, words: str, style: str) -> None:
        self._put_text(self._saying.end())
        self._put(WidthAware(lambda width: wrap_rows(clean_for_drawing(words).split("\n"), style, width)), tight=True)
        self._saying.break_up()

    # --- live region -------------------------------------------------------------------------------------------------

    def draw(self, width: int, height: int) -> list[Text]:
        """The text that the model writes, the running calls, and the progress line with the task list."""
        if self._live is None or height < 1:
            return []
        status = [self._live.line(self._now(), width, self._under_way.words, asks=self._under_way.asks)]
        tasks = indent_lines(self._tasks.draw(width - 2, (height - 1) // 2), Text("  "), 2) if self.tasks_shown else []
        left = height - 1 - len(tasks)
        calls = self._under_way.draw(width, left)
        held = self._unprinted.draw(width, left - len(calls))
        tail = self._saying.draw(width, left - len(calls) - len(held))
        parts = [part for part in (held, tail, calls, [*status, *[clip_text(line, width) for line in tasks]]) if part]
        return join_with_blank_lines(parts, height)


def join_with_blank_lines(parts: list[list[Text]], height: int) -> list[Text]:
    """Put a blank line above each part while there is room. It contains a space, since an empty line is not drawn."""
    lines: list[Text] = []
    spare = height - sum([len(part) for part in parts])
    for part in parts:
        if spare > 0:
            lines.append(Text(" "))
            spare -= 1
        lines += part
    return lines


MOST_LINES = 30  # of a long paste
MOST_TEXT = 8_000  # characters, if it is one long line


def render_prompt(text: str) -> tuple[RenderableType, ...]:
    """The user's prompt, below a blank line."""
    return Text(), WidthAware(partial(draw_prompt, text))


def draw_prompt(text: str, width: int) -> list[Text]:
    """The user's prompt, on a bar."""
    lines = clean_for_drawing(text[:MOST_TEXT]).splitlines() or [""]
    if len(text) > MOST_TEXT:
        lines.append("…")
    more = len(lines) - MOST_LINES
    rows = [row for line in lines[:MOST_LINES] for row in wrap_rows([line], "prompt", width - 2)]
    rows += [Text(f"… {plural(more, 'more line')}", "prompt")] if more > 0 else []
    marks = [Text("❯ ", "prompt.mark"), *[Text("  ", "prompt")] * (len(rows) - 1)]
    drawn = [Text.assemble(mark, row) for mark, row in zip(marks, rows, strict=True)]
    fill_rows([(row, "prompt") for row in drawn], width)
    return drawn
