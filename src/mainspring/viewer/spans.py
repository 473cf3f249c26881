"""What a trace is made of: spans on a time axis. Plain values, as they are sent to the page and printed by `--json`.

Times are milliseconds since 1970, money is nano-dollars. A field that does not apply, or that the journal does not
hold, is absent; what one would expect and the journal does not hold is named in `missing`.

The sheet that the spans of one file stand on: their keys, when they changed, and where their content is.
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
BEHIND = 4 * LABEL  # characters of a text that are looked at for its label: most begin with words
CALLS = "calls"  # how the label of a reply begins that says nothing and calls something
WORDS = 300  # characters of a reason or an answer


class SpanKind(StrEnum):
    RUN = "run"
    MODEL = "model"
    TOOL = "tool"
    CONTEXT = "context"
    COMPACTION = "compaction"
    HOOKS = "hooks"  # that judge an answer; those of a call are among its steps
    AGENT = "agent"
    # waits
    QUESTION = "question"  # for a person
    TYPED = "typed"  # something typed waits to be taken up
    RETRY = "retry"  # for the provider
    QUEUE = "queue"  # for money that others hold
    # moments: they begin and end at once
    INTERRUPT = "interrupt"
    PREFIX = "prefix"  # the cache was of no use from here on
    NOTE = "note"


WAITS = frozenset({SpanKind.QUESTION, SpanKind.TYPED, SpanKind.RETRY, SpanKind.QUEUE})


class SpanOutcome(StrEnum):
    """What became of it."""

    OK = "ok"
    OPEN = "open"  # under way, as far as the file says
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
    parent: str = ""  # the key of the span that it belongs to
    uuid: str = ""  # the last message of it: a fork may begin there
    n: int = 0  # the event that ended it
    rev: int = 0  # when it changed last: see `Tracer.rev`
    missing: tuple[str, ...] = ()
    # of a request
    model: str = ""
    transition: str = ""
    stop: str = ""
    usage: Usage | None = None
    price: int | None = None
    listed: bool = False  # the price is that of our list: the session does not say what it was
    blocks: list[tuple[str, int]] = []  # what was written, and when it was finished
    # of a call
    name: str = ""
    call: str = ""  # its id
    offered: int = 0  # when the model had written it
    early: bool = False  # it began while the reply still came in
    decisions: list[tuple[str, str, int]] = []  # what was decided, why, and when
    steps: list[tuple[str, int]] = []  # what it met on its way, in microseconds
    # of the context
    tokens: int = 0
    freed: list[tuple[str, int]] = []  # by which layer, in tokens
    before: int = 0
    after: int = 0

    @property
    def length(self) -> int:
        return 0 if self.end is None else max(0, self.end - self.begin)


class TraceTotals(Struct, omit_defaults=False, frozen=True):
    """Sums over a session. `wall` is the time of its runs: between them nobody waited."""

    wall: int = 0
    model: int = 0
    tools: int = 0
    overlap: int = 0  # of the tools' time, while the model still wrote
    person: int = 0  # waited for answers
    retry: int = 0
    usage: Usage = Usage()
    price: int = 0
    unpriced: int = 0  # replies whose price nobody knows
    agents: int = 0  # of the price
    runs: int = 0
    turns: int = 0
    calls: int = 0
    errors: int = 0


# --- words ----------------------------------------------------------------------------------------------------


def make_label(text: str, most: int = LABEL) -> str:
    """The beginning of a text on one line, fit to be shown."""
    line = " ".join(text[: max(BEHIND, most)].split())
    if may_hold_secret(line):
        line = redact(line)
    if not line.isprintable():
        line = strip_control_characters(line)
    return line if len(line) <= most else f"{line[: most - 1]}…"


SUSPICIOUS = tuple([word for row in ROWS for word in row.words])


def may_hold_secret(line: str) -> bool:
    """Whether `redact` may find something: without one of these words it never does. There are two labels a turn, and
    it takes 20 us."""
    small = line.lower()
    for word in SUSPICIOUS:  # `any` takes three times as long
        if word in small:
            return True
    return bool(held.find_secrets_in(line))


# What a call is about, by the usual names of inputs: the first that is there.
ABOUT = ("description", "command", "file_path", "notebook_path", "path", "pattern", "query", "url", "prompt", "skill")


def label_call(call: ToolCall) -> str:
    said = [call.input[name] for name in ABOUT if isinstance(call.input.get(name), str)]
    said = said or [value for value in call.input.values() if isinstance(value, str)]
    return make_label(f"{call.name} {said[0][:BEHIND]}" if said else call.name)


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
