"""What happens beside the loop: waits for the provider, what is typed meanwhile, agents, and remarks of all kinds."""

from __future__ import annotations

from mainspring.sessions.records import (
    AgentRecord,
    CommandRecord,
    CommandState,
    NoteRecord,
    PolicyRecord,
    PrefixRecord,
    Record,
    RetryRecord,
    ToolSummaryRecord,
)
from mainspring.viewer.sheet import SpanIndex
from mainspring.viewer.spans import WORDS, Span, SpanKind, SpanOutcome, make_label


class SideSpans:
    def __init__(self, sheet: SpanIndex) -> None:
        self._sheet = sheet
        self._retry: tuple[int, Span] | None = None  # the attempt that is waited for
        self._typed: dict[str, Span] = {}
        self._agents: dict[str, Span] = {}

    def add_record(self, record: Record) -> None:
        match record:
            case CommandRecord():
                self._command(record)
            case AgentRecord():
                self._agent(record)
            case PrefixRecord():
                words = f"the cache ends at block {record.block} ({record.what}): {record.why}"
                span = self._sheet.moment(SpanKind.PREFIX, record.at, make_label(words))
                span.tokens, span.price = record.tokens, record.price
            case PolicyRecord():
                model = f", {record.model.name}" if record.model else ""
                self._sheet.moment(SpanKind.NOTE, record.at, make_label(f"mode {record.mode}{model}"))
            case ToolSummaryRecord():
                self._sheet.moment(SpanKind.NOTE, record.at, make_label(f"summary: {record.text}"))
            case NoteRecord():
                named = record.text.startswith(f"{record.kind}:")  # some say themselves what they are about
                self._sheet.moment(
                    SpanKind.NOTE, record.at, make_label(record.text if named else f"{record.kind}: {record.text}")
                )
            case _:
                pass

    def retrying(self, record: RetryRecord, parent: str) -> None:
        """The same attempt again is a sign of life during a long wait."""
        if self._retry is not None and self._retry[0] == record.attempt:
            self._sheet.seen(record.at)
            return
        self.end_retry(record.at)
        words = make_label(f"attempt {record.attempt}, {record.failure.kind}: {record.failure.detail}", WORDS)
        span = self._sheet.new(SpanKind.RETRY, record.at, label=words, parent=parent)
        span.end = record.at + record.delay  # as announced; what comes next may cut it short
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
