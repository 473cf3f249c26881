"""The spans of a trace, as sent to the page and printed by `--json`; `SpanIndex` holds the spans of one file.

Times are milliseconds since 1970, money is nano-dollars. A field that does not apply, or that the journal does not
record, is absent; `missing` names what a reader would expect and the journal does not record.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from msgspec import Struct

from mainspring.core.messages import ToolCall
from mainspring.core.money import Usage
from mainspring.secrets import held
from mainspring.secrets.redaction import ROWS, redact
from mainspring.text import strip_control_characters

LABEL = 100  # characters: a line of the list, a bar at high zoom
BEHIND = 4 * LABEL  # characters of a text that are searched for its label
CALLS = "calls"  # start of the label of a reply that has calls and no text
WORDS = 300  # characters of a reason or an answer


class SpanKind(StrEnum):
    RUN = "run"
    MODEL = "model"
    TOOL = "tool"
    CONTEXT = "context"
    COMPACTION = "compaction"
    HOOKS = "hooks"  # stop hooks; those of a call are among its steps
    AGENT = "agent"
    # waits
    QUESTION = "question"  # for the user
    TYPED = "typed"  # a queued prompt waits
    RETRY = "retry"  # for the provider
    QUEUE = "queue"  # for budget reserved by other agents
    # moments: zero length
    INTERRUPT = "interrupt"
    PREFIX = "prefix"  # prefix break: the cache ends here
    CHECKPOINT = "checkpoint"  # of files
    REWIND = "rewind"  # of files
    NOTE = "note"


WAITS = frozenset({SpanKind.QUESTION, SpanKind.TYPED, SpanKind.RETRY, SpanKind.QUEUE})


class SpanOutcome(StrEnum):
    """How a span ended."""

    OK = "ok"
    OPEN = "open"  # still running, as far as the file shows
    ERROR = "error"
    DENIED = "denied"
    INTERRUPTED = "interrupted"
    WITHDRAWN = "withdrawn"
    NEVER_RAN = "never ran"
    BROKE_OFF = "broke off"  # the process ended


class Span(Struct, omit_defaults=True, gc=False):
    key: str
    kind: SpanKind
    begin: int
    end: int | None = None
    run: int = 0
    turn: int = 0
    label: str = ""
    how: SpanOutcome = SpanOutcome.OPEN
    why: str = ""
    parent: str = ""  # key of the span that it belongs to
    uuid: str = ""  # its last message: a fork can start there
    n: int = 0  # number of the event that ended it
    rev: int = 0  # revision of its last change: see `SpanIndex.rev`
    missing: tuple[str, ...] = ()
    # of a request
    model: str = ""
    transition: str = ""
    stop: str = ""
    usage: Usage | None = None
    price: int | None = None
    listed: bool = False  # the built-in list price: the session does not record one
    blocks: list[tuple[str, int]] = []  # kind of each block, and when it was complete
    # of a call
    name: str = ""
    call: str = ""  # its id
    offered: int = 0  # when the model had written the call
    early: bool = False  # it started while the reply was streaming
    decisions: list[tuple[str, str, int]] = []  # decision, reason, time
    steps: list[tuple[str, int]] = []  # steps of the tool pipeline, in microseconds
    # of the context
    tokens: int = 0
    freed: list[tuple[str, int]] = []  # layer, tokens
    before: int = 0
    after: int = 0

    @property
    def length(self) -> int:
        return 0 if self.end is None else max(0, self.end - self.begin)


class TraceTotals(Struct, omit_defaults=False, frozen=True):
    """Sums over a session. `wall` is the time of its runs, without the time between them."""

    wall: int = 0
    model: int = 0
    tools: int = 0
    overlap: int = 0  # of the tools' time, while the model was streaming
    person: int = 0  # waiting for the user's answers
    retry: int = 0
    usage: Usage = Usage()
    price: int = 0
    unpriced: int = 0  # replies without a known price
    agents: int = 0  # their part of the price
    runs: int = 0
    turns: int = 0
    calls: int = 0
    errors: int = 0
    breaks: int = 0  # prefix breaks,
    break_price: int = 0  # and their part of the price


# --- labels ---------------------------------------------------------------------------------------------------


def make_label(text: str, most: int = LABEL) -> str:
    """The beginning of a text on one line, redacted and sanitized."""
    line = " ".join(text[: max(BEHIND, most)].split())
    if may_hold_secret(line):
        line = redact(line)
    if not line.isprintable():
        line = strip_control_characters(line)
    return line if len(line) <= most else f"{line[: most - 1]}…"


SUSPICIOUS = tuple([word for row in ROWS for word in row.words])


def may_hold_secret(line: str) -> bool:
    """Whether `redact` may find something: without one of these words it never does. It takes 20 us, and there are two
    labels per turn."""
    small = line.lower()
    for word in SUSPICIOUS:  # `any` takes three times as long
        if word in small:
            return True
    return bool(held.find_secrets_in(line))


# Input fields that describe a call; the first one present is used.
ABOUT = ("description", "command", "file_path", "notebook_path", "path", "pattern", "query", "url", "prompt", "skill")


def label_call(call: ToolCall) -> str:
    given = call.input
    for name in ABOUT:
        if name in given and isinstance(given[name], str):
            return make_label(f"{call.name} {given[name][:BEHIND]}")
    said = next((value for value in given.values() if isinstance(value, str)), None)
    return make_label(call.name if said is None else f"{call.name} {said[:BEHIND]}")


class SpanIndex:
    def __init__(self, place: int) -> None:
        self.spans: list[Span] = []
        self.places: dict[str, tuple[int, ...]] = {}  # span key -> offsets of the lines with its content
        self.rev = 1  # increases with each read of the file; a span has that of its last change
        self.run = 0
        self.turn = 0
        self.last = 0  # the latest time in the file
        self._place = place

    def new(self, kind: SpanKind, at: int, **fields: Any) -> Span:
        key = f"{self._place}.{len(self.spans)}"
        span = Span(key, kind, at, run=self.run, turn=self.turn, rev=self.rev, **fields)
        self.spans.append(span)
        self.seen(at)
        return span

    def moment(self, kind: SpanKind, at: int, words: str, n: int = 0) -> Span:
        span = self.new(kind, at, label=words, how=SpanOutcome.OK, n=n)
        span.end = at
        return span

    def end(self, span: Span, at: int, how: SpanOutcome) -> None:
        span.end, span.how = max(span.begin, at), how
        span.rev = self.rev
        self.last = max(self.last, at)

    def touch(self, span: Span, at: int, offset: int) -> None:
        """Records the offset of a line with content of the span."""
        known = self.places.get(span.key)
        self.places[span.key] = (offset,) if known is None else (*known, offset)
        span.rev = self.rev
        self.last = max(self.last, at)

    def changed(self, span: Span) -> None:
        span.rev = self.rev

    def seen(self, at: int) -> None:
        if at > self.last:  # noqa: PLR1730  # a call of `max` takes three times as long, and there are twenty for each turn
            self.last = at

    def restart(self) -> int:
        """Drops the spans of the session that this one was forked from. Returns their number."""
        gone = len(self.spans)
        self.spans, self.places, self.run, self.turn = [], {}, 0, 0
        return gone
