"""What a conversation shows of a run: text as it streams, and one line for each thing that happens."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import assert_never

from mainspring.agent.results import LOCAL, make_outcome
from mainspring.cli.output import TerminalOutput, TextStyle
from mainspring.core.messages import ToolCall
from mainspring.core.models import MODELS, Model, same_model
from mainspring.core.money import NANOS_PER_USD
from mainspring.core.reasons import Failure, Transition
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
    Rendering,
    ReplyDone,
    ReplyStarted,
    RequestStarted,
    Result,
    Retrying,
    Tombstone,
    ToolSummary,
    Update,
)
from mainspring.text import plural, strip_control_characters, truncate

WIDTH = 78  # of a line about a call
PATIENCE = 2.0  # seconds until a call that runs is heard of, and between two such lines
LONGEST_NAME = 30  # columns of what an agent is called by
MOST_CHANGES = 20  # lines of a change that are shown


class PlainScreen:
    def __init__(self, output: TerminalOutput, model: Model, now: Callable[[], float] = time.monotonic) -> None:
        self._output = output
        self._now = now
        self._quiet_until: dict[str, float] = {}  # by call: when it may next say what it is at
        self._line = output.line
        self._model = model
        self._calls: dict[str, ToolCall] = {}
        self._agents: dict[str, str] = {}  # at work: their kinds
        self._failure: Failure | None = None

    def show(self, update: Update) -> None:
        match update:
            case Delta() | BlockStarted() | BlockDone() | Tombstone():
                self._text(update)
            case CallStarted():
                self._calls[update.call.id] = update.call
                self._quiet_until[update.call.id] = self._now() + PATIENCE
                self._line(f"* {describe_call(update.call)}", TextStyle.CYAN)
            case CallDone():
                self._call_done(update)
            case RequestStarted() | Retrying() | Boundary():
                self._going_on(update)
            case Failed():
                self._failure = update.failure
            case Result():
                self._end(update)
            case ReplyStarted() | ReplyDone() | Appended() | Injected() | PrefixBroken() | ToolSummary():
                pass  # nothing that a person need see
            case CallProgress():
                self._progress(update)
            case AgentStarted() | AgentUpdate() | AgentDone():
                self._agent(update)
            case QuestionAsked() | QuestionAnswered() | MaxTurnsReached():
                pass  # nobody asks here; the result says it
            case _:
                assert_never(update)

    def _agent(self, update: AgentStarted | AgentUpdate | AgentDone) -> None:
        """Whose calls these are, and what it calls; what it reports is the outcome of its own call."""
        match update:
            case AgentStarted():
                self._agents[update.agent_id] = truncate(" ".join(update.description.split()), LONGEST_NAME)
            case AgentUpdate(update=CallStarted() as started):
                self._of_agent(update.agent_id, describe_call(started.call), TextStyle.DIM)
            case AgentUpdate(update=CallDone() as done) if done.denied:
                self._of_agent(update.agent_id, strip_control_characters(done.result.text), TextStyle.RED)
            case AgentUpdate():
                pass
            case AgentDone():
                self._agents.pop(update.agent_id, None)
            case _:
                assert_never(update)

    def _of_agent(self, agent_id: str, words: str, style: TextStyle) -> None:
        name = strip_control_characters(self._agents.get(agent_id, "agent"))
        self._line(f"    {name}: {truncate(' '.join(words.split()), WIDTH - len(name) - 6)}", style)

    def _progress(self, update: CallProgress) -> None:
        """The last line of what takes long, now and then: all of it comes with the outcome."""
        last = next((line for line in reversed(update.text.splitlines()) if line.strip()), "")
        if last and self._now() >= self._quiet_until.get(update.call_id, 0.0):
            self._quiet_until[update.call_id] = self._now() + PATIENCE
            self._line(f"    {truncate(strip_control_characters(last.strip()), WIDTH - 4)}", TextStyle.DIM)

    def _text(self, update: Delta | BlockStarted | BlockDone | Tombstone) -> None:
        match update:
            case Delta():
                if update.kind is BlockKind.TEXT:
                    self._output.piece(strip_control_characters(update.text))
            case BlockStarted():
                if update.kind is BlockKind.THINKING:
                    self._line("(thinking)", TextStyle.DIM)
            case BlockDone():
                self._output.end_text()
            case Tombstone():
                self._output.end_text()
                self._line(f"(the text above is withdrawn: {update.why})", TextStyle.YELLOW)
            case _:
                assert_never(update)

    def _going_on(self, update: RequestStarted | Retrying | Boundary) -> None:
        match update:
            case RequestStarted():
                if update.transition not in (None, Transition.NEXT_TURN):
                    self._line(f"({update.transition}, {update.model})", TextStyle.YELLOW)
            case Retrying():
                why = " ".join([str(part) for part in (update.failure.status, update.failure.kind) if part])
                of = f" of {update.most}" if update.most else ""
                wait = f"{update.delay / 1_000:.1f} s"
                self._line(f"({why}: try {update.attempt}{of} failed, again in {wait})", TextStyle.YELLOW)
            case Boundary():
                self._line(f"(context: {update.layer}{describe_freed_room(update)})", TextStyle.DIM)
            case _:
                assert_never(update)

    def waits_for(self, agents: int) -> None:
        if agents:
            self._line(f"({plural(agents, 'agent')} at work in the background; Ctrl-C stops waiting)", TextStyle.DIM)

    def stops_waiting(self) -> None:
        self._line("(its report will come into a later turn)", TextStyle.DIM)

    def broke_off(self, why: str) -> None:
        self._output.end_text()
        self._line(f"The run broke off: {why}", TextStyle.RED)

    def _call_done(self, done: CallDone) -> None:
        result, call = done.result, self._calls.pop(done.result.call_id, None)
        if done.rendering is not None and not result.is_error:
            self._rendered(done.rendering)
            return
        lines = [line for line in strip_control_characters(result.text).splitlines() if line.strip()]
        what = lines[-1 if result.is_error else 0].strip() if lines else "nothing"
        more = f" (and {plural(len(lines) - 1, 'line')})" if len(lines) > 1 else ""
        name = f"{call.name}: " if call else ""
        style = TextStyle.RED if result.is_error else TextStyle.DIM
        self._line(f"  {name}{truncate(what, WIDTH - len(name) - len(more) - 2)}{more}", style)

    def _rendered(self, rendering: Rendering) -> None:
        """One line; of a change, the lines that changed; of a command, how its output begins."""
        body = [line for line in strip_control_characters(rendering.body).splitlines() if line.strip()]
        if rendering.kind == "output" and body:
            more = f" (and {plural(len(body) - 1, 'line')})" if len(body) > 1 else ""
            self._line(f"  {truncate(body[0].strip(), WIDTH - len(more) - 2)}{more}", TextStyle.DIM)
            return
        self._line(f"  {truncate(strip_control_characters(rendering.summary), WIDTH - 2)}", TextStyle.DIM)
        if rendering.kind != "diff":
            return
        lines = [line for line in body if line[:1] in ("+", "-") and not line.startswith(("+++ ", "--- "))]
        for line in lines[:MOST_CHANGES]:
            self._line(f"    {truncate(line, WIDTH - 4)}", TextStyle.GREEN if line.startswith("+") else TextStyle.RED)
        if len(lines) > MOST_CHANGES:
            self._line(f"    ... {plural(len(lines) - MOST_CHANGES, 'more line')}", TextStyle.DIM)

    def _end(self, result: Result) -> None:
        self._output.end_text()
        out = make_outcome(result, self._failure)
        if result.interrupted:
            self._line("(interrupted)", TextStyle.YELLOW)
        elif out.is_error:
            self._line(strip_control_characters(out.words), TextStyle.RED)
        if result.cause in LOCAL and not result.usage.total:
            return  # nothing was done
        turns = [] if result.cause in LOCAL else [plural(result.turns, "turn")]
        parts = [*turns, f"{result.duration / 1_000:.1f} s"]
        roughly = "about " if result.estimated else ""
        parts.append(f"{roughly}{result.usage.prompt:,} + {result.usage.output:,} tokens")
        if any(same_model(self._model.name, listed) for listed in MODELS):  # else nobody knows the price
            parts.append(f"{roughly}${result.cost / NANOS_PER_USD:.4f}")
        self._line(f"[{', '.join(parts)}]", TextStyle.DIM)


def describe_freed_room(boundary: Boundary) -> str:
    if boundary.before:
        return f", from {boundary.before:,} to {boundary.after:,} tokens"
    return f", {boundary.freed:,} tokens less" if boundary.freed else ""


def describe_call(call: ToolCall) -> str:
    """A call in one line."""
    first = next((value for value in call.input.values() if isinstance(value, str)), "")
    return truncate(strip_control_characters(f"{call.name} {' '.join(first.split())}".rstrip()), WIDTH)
