"""Spans of tool calls (`CallSpans`), and of what happens beside the loop (`SideSpans`).

A call is written by the model, decided, maybe approved by the user, run and answered. Beside the loop: retries, queued
prompts, subagents and notes.
"""

from __future__ import annotations

from collections.abc import Iterator

from mainspring.core.messages import ToolCall, ToolResult
from mainspring.sessions.records import (
    AgentRecord,
    AnsweredRecord,
    AskedRecord,
    CommandRecord,
    CommandState,
    DecisionRecord,
    IntentRecord,
    NoteRecord,
    PolicyRecord,
    PrefixRecord,
    Record,
    RetryRecord,
    StepsRecord,
    ToolSummaryRecord,
)
from mainspring.viewer.journal_walk import WalkedBlock
from mainspring.viewer.spans import WORDS, Span, SpanIndex, SpanKind, SpanOutcome, label_call, make_label

BEGAN = "when it started (drawn from the call to its result)"


class CallSpans:
    def __init__(self, sheet: SpanIndex) -> None:
        self._sheet = sheet
        self.by_id: dict[str, Span] = {}  # all calls: a subagent's metadata names the call that started it
        self._open: dict[str, Span] = {}
        self._begun: set[str] = set()  # ids of open calls that were started
        self._reply: Span | None = None  # the reply with the last call
        self._questions: dict[str, Span] = {}

    def offered(self, offset: int, call: ToolCall, spoke: WalkedBlock, reply: Span) -> None:
        self._sheet.turn = reply.turn
        span = self._sheet.new(
            SpanKind.TOOL, spoke.at, label=label_call(call), name=make_label(call.name), call=call.id
        )
        span.offered, span.parent = spoke.at, reply.key
        self._sheet.touch(span, spoke.at, offset)
        if call.defect is not None:
            span.why = f"its input is {call.defect}"
        self.by_id[call.id] = self._open[call.id] = span
        self._reply = reply

    def add_record(self, record: Record) -> None:
        match record:
            case IntentRecord():
                self._begin(record)
            case DecisionRecord():
                self._decided(record)
            case StepsRecord():
                if (span := self._open.get(record.call_id)) is not None:
                    span.steps = [(name, took) for name, took in record.steps]
                    self._sheet.changed(span)
            case AskedRecord():
                self._asked(record)
            case AnsweredRecord():
                if (question := self._questions.pop(record.id, None)) is not None:
                    question.why = make_label(record.answer, WORDS)
                    self._sheet.end(question, record.at, SpanOutcome.OK)
            case _:
                pass

    def _begin(self, record: IntentRecord) -> None:
        span = self._open.get(record.call.id)
        if span is None:  # the line with the call could not be read
            name = make_label(record.call.name)
            span = self._sheet.new(SpanKind.TOOL, record.at, label=name, name=name, call=record.call.id)
            span.missing = ("its input",)
            self.by_id[span.call] = self._open[span.call] = span
        span.begin, span.early = record.at, self._reply is not None and self._reply.how is SpanOutcome.OPEN
        self._begun.add(span.call)
        self._sheet.changed(span)
        self._sheet.seen(record.at)

    def _decided(self, record: DecisionRecord) -> None:
        span = self._open.get(record.call_id)
        if span is not None:
            span.decisions = [*span.decisions, (record.decision, make_label(record.reason, WORDS), record.at)]
            self._sheet.changed(span)

    def _asked(self, record: AskedRecord) -> None:
        call = self._open.get(record.call_id)
        self._sheet.turn = call.turn if call is not None else self._sheet.turn
        span = self._sheet.new(SpanKind.QUESTION, record.at, label=make_label(record.text), call=record.call_id)
        span.parent = call.key if call is not None else ""
        self._questions[record.id] = span

    def result(self, offset: int, result: ToolResult) -> None:
        span = self._open.pop(result.call_id, None)
        if span is None:
            return
        self._sheet.touch(span, result.at, offset)
        self._sheet.end(span, result.at, how_it_ended(span, result))
        span.uuid = result.id
        if span.call not in self._begun and span.how is not SpanOutcome.NEVER_RAN:
            span.missing = (*span.missing, BEGAN)
        self._begun.discard(span.call)
        if span.how is not SpanOutcome.OK:
            span.why = make_label(result.text, WORDS)

    def interrupted(self, at: int) -> None:
        for question in self._questions.values():
            self._sheet.end(question, at, SpanOutcome.INTERRUPTED)
        self._questions = {}

    def under_way(self) -> Iterator[Span]:
        yield from self._open.values()
        yield from self._questions.values()

    def forget(self) -> None:
        self._open, self._questions, self._begun = {}, {}, set()


def how_it_ended(span: Span, result: ToolResult) -> SpanOutcome:
    if result.synthetic:
        return SpanOutcome.NEVER_RAN
    if span.decisions and span.decisions[-1][0] == "deny":
        return SpanOutcome.DENIED
    return SpanOutcome.ERROR if result.is_error else SpanOutcome.OK


class SideSpans:
    def __init__(self, sheet: SpanIndex) -> None:
        self._sheet = sheet
        self._retry: tuple[int, Span] | None = None  # the attempt that we wait for, and its span
        self._typed: dict[str, Span] = {}
        self._agents: dict[str, Span] = {}

    def add_record(self, record: Record) -> None:
        match record:
            case CommandRecord():
                self._command(record)
            case AgentRecord():
                self._agent(record)
            case PrefixRecord():
                layers = f" ({', '.join(record.layers)})" if record.layers else ""
                words = f"prefix break at block {record.block} ({record.what}): {record.why}{layers}"
                span = self._sheet.moment(SpanKind.PREFIX, record.at, make_label(words))
                span.tokens, span.price, span.why = record.tokens, record.price, record.reason
            case PolicyRecord():
                model = f", {record.model.name}" if record.model else ""
                self._sheet.moment(SpanKind.NOTE, record.at, make_label(f"mode {record.mode}{model}"))
            case ToolSummaryRecord():
                self._sheet.moment(SpanKind.NOTE, record.at, make_label(f"summary: {record.text}"))
            case NoteRecord():
                named = record.text.startswith(f"{record.kind}:")  # some texts already begin with their kind
                self._sheet.moment(
                    SpanKind.NOTE, record.at, make_label(record.text if named else f"{record.kind}: {record.text}")
                )
            case _:
                pass

    def retrying(self, record: RetryRecord, parent: str) -> None:
        """A repeated record of the same attempt is a heartbeat during a long wait."""
        if self._retry is not None and self._retry[0] == record.attempt:
            self._sheet.seen(record.at)
            return
        self.end_retry(record.at)
        words = make_label(f"attempt {record.attempt}, {record.failure.kind}: {record.failure.detail}", WORDS)
        span = self._sheet.new(SpanKind.RETRY, record.at, label=words, parent=parent)
        span.end = record.at + record.delay  # as announced; the next record may shorten it
        self._retry = record.attempt, span

    def end_retry(self, at: int) -> None:
        if self._retry is not None:
            span, self._retry = self._retry[1], None
            self._sheet.end(span, min(span.end or at, at), SpanOutcome.OK)

    def _command(self, record: CommandRecord) -> None:
        if record.state is CommandState.QUEUED:
            span = self._sheet.new(SpanKind.TYPED, record.at, label=make_label(record.text), why=record.priority)
            self._typed[record.id] = span
        elif (waiting := self._typed.pop(record.id, None)) is not None:
            self._sheet.end(
                waiting, record.at, SpanOutcome.WITHDRAWN if record.state is CommandState.WITHDRAWN else SpanOutcome.OK
            )

    def _agent(self, record: AgentRecord) -> None:
        if not record.ended:
            span = self._sheet.new(
                SpanKind.AGENT, record.at, label=f"agent {make_label(record.agent_id)}", name=record.agent_id
            )
            span.why = "in the background" if record.background else ""
            self._agents[record.agent_id] = span
        elif (begun := self._agents.pop(record.agent_id, None)) is not None:
            self._sheet.end(begun, record.at, SpanOutcome.OK)
            begun.price = record.cost
