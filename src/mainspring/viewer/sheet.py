"""The sheet that the spans of one file stand on: their keys, when they changed, and where their content is."""

from __future__ import annotations

from typing import Any

from mainspring.viewer.spans import Span, SpanKind, SpanOutcome


class SpanIndex:
    def __init__(self, place: int) -> None:
        self.spans: list[Span] = []
        self.places: dict[str, tuple[int, ...]] = {}  # by the key of a span: where the lines with its content begin
        self.rev = 1  # goes up with each look at the file; a span has that of its last change
        self.run = 0
        self.turn = 0
        self.last = 0  # the last time that the file tells of
        self._place = place

    def new(self, kind: SpanKind, at: int, **fields: Any) -> Span:
        key = f"{self._place}.{len(self.spans)}"
        span = Span(key, kind, at, run=self.run, turn=self.turn, rev=self.rev, **fields)
        self.spans.append(span)
        self.last = max(self.last, at)
        return span

    def moment(self, kind: SpanKind, at: int, words: str, n: int = 0) -> Span:
        span = self.new(kind, at, label=words, how=SpanOutcome.OK, n=n)
        span.end = at
        return span

    def end(self, span: Span, at: int, how: SpanOutcome) -> None:
        span.end, span.how = max(at, span.begin), how
        span.rev = self.rev
        self.seen(at)

    def touch(self, span: Span, at: int, offset: int) -> None:
        """Some of its content stands here."""
        self.places[span.key] = (*self.places.get(span.key, ()), offset)
        span.rev = self.rev
        self.seen(at)

    def changed(self, span: Span) -> None:
        span.rev = self.rev

    def seen(self, at: int) -> None:
        self.last = max(self.last, at)

    def restart(self) -> int:
        """Forgets what was taken over from elsewhere. Returns how many spans those were."""
        gone = len(self.spans)
        self.spans, self.places, self.run, self.turn = [], {}, 0, 0
        return gone
