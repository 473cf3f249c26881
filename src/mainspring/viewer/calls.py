"""The calls of a session: written by the model, decided on, asked about, run, answered."""

from __future__ import annotations

from collections.abc import Iterator

from mainspring.core.messages import ToolCall, ToolResult
from mainspring.sessions.records import (
    AnsweredRecord,
    AskedRecord,
    DecisionRecord,
    IntentRecord,
    Record,
    StepsRecord,
)
from mainspring.viewer.sheet import Sheet
from mainspring.viewer.spans import WORDS, How, Kind, Span, label, of_call
from mainspring.viewer.walk import Spoke

BEGAN = "when it began: it is drawn from the call to its result"


class Calls:
    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet
        self.by_id: dict[str, Span] = {}  # all of them: an agent's file names the call that sent it
        self._open: dict[str, Span] = {}
        self._begun: set[str] = set()  # of those: the ones that were started
        self._reply: Span | None = None  # the reply that wrote the last of them
        self._questions: dict[str, Span] = {}

    def offered(self, offset: int, call: ToolCall, spoke: Spoke, reply: Span) -> None:
        self._sheet.turn = reply.turn
        span = self._sheet.new(Kind.TOOL, spoke.at, label=of_call(call), name=label(call.name), call=call.id)
        span.offered, span.parent = spoke.at, reply.key
        self._sheet.touch(span, spoke.at, offset)
        if call.defect is not None:
            span.why = f"its input is {call.defect}"
        self.by_id[call.id] = self._open[call.id] = span
        self._reply = reply

    def noted(self, record: Record) -> None:
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
                    question.why = label(record.answer, WORDS)
                    self._sheet.end(question, record.at, How.OK)
            case _:
                pass

    def _begin(self, record: IntentRecord) -> None:
        span = self._open.get(record.call.id)
        if span is None:  # the line with the call could not be read
            name = label(record.call.name)
            span = self._sheet.new(Kind.TOOL, record.at, label=name, name=name, call=record.call.id)
            span.missing = ("its input",)
            self.by_id[span.call] = self._open[span.call] = span
        span.begin, span.early = record.at, self._reply is not None and self._reply.how is How.OPEN
        self._begun.add(span.call)
        self._sheet.changed(span)
        self._sheet.seen(record.at)

    def _decided(self, record: DecisionRecord) -> None:
        span = self._open.get(record.call_id)
        if span is not None:
            span.decisions = [*span.decisions, (record.decision, label(record.reason, WORDS), record.at)]
            self._sheet.changed(span)

    def _asked(self, record: AskedRecord) -> None:
        call = self._open.get(record.call_id)
        self._sheet.turn = call.turn if call is not None else self._sheet.turn
        span = self._sheet.new(Kind.QUESTION, record.at, label=label(record.text), call=record.call_id)
        span.parent = call.key if call is not None else ""
        self._questions[record.id] = span

    def result(self, offset: int, result: ToolResult) -> None:
        span = self._open.pop(result.call_id, None)
        if span is None:
            return
        self._sheet.touch(span, result.at, offset)
        self._sheet.end(span, result.at, how_it_ended(span, result))
        span.uuid = result.id
        if span.call not in self._begun and span.how is not How.NEVER_RAN:
            span.missing = (*span.missing, BEGAN)
        self._begun.discard(span.call)
        if span.how is not How.OK:
            span.why = label(result.text, WORDS)

    def interrupted(self, at: int) -> None:
        for question in self._questions.values():
            self._sheet.end(question, at, How.INTERRUPTED)
        self._questions = {}

    def under_way(self) -> Iterator[Span]:
        yield from self._open.values()
        yield from self._questions.values()

    def forget(self) -> None:
        self._open, self._questions, self._begun = {}, {}, set()


def how_it_ended(span: Span, result: ToolResult) -> How:
    if result.synthetic:
        return How.NEVER_RAN
    if span.decisions and span.decisions[-1][0] == "deny":
        return How.DENIED
    return How.ERROR if result.is_error else How.OK
