"""Turn the lines of one journal file into spans, in one pass. Keeps the offsets of content, not the content itself.

`calls.py` handles tool calls, waits and notes. A request, a compaction and the like start when the core requests them
and end with the event that answers. Their times are those of the stamps, not of their order in the file.
"""

from __future__ import annotations

from typing import Any, assert_never

from mainspring.core.effects import CallModel, Compact, Effect, Finish, PrepareContext, RunStopHooks
from mainspring.core.events import (
    Aborted,
    CallFailed,
    Compacted,
    ContextReady,
    HooksDone,
    Replied,
    Submitted,
    ToolsDone,
)
from mainspring.core.messages import Assistant, Origin, Text, ToolCall, ToolResult, User
from mainspring.core.models import MODELS, Model, model_named, same_model
from mainspring.core.money import Usage, cost
from mainspring.core.state import State, Step
from mainspring.sessions.records import ConfigRecord, Record, RetryRecord, WithdrawnRecord
from mainspring.text import plural
from mainspring.viewer.calls import CallSpans, SideSpans
from mainspring.viewer.journal_walk import (
    Told,
    WalkedBlock,
    WalkedCheckpoint,
    WalkedEvent,
    WalkedMessage,
    WalkedNote,
    WalkedReset,
)
from mainspring.viewer.spans import CALLS, WORDS, Span, SpanIndex, SpanKind, SpanOutcome, make_label

FIRST_TOKEN = "when the first token arrived"
ASKED = "when the request was sent"
ENDED = "when it ended"
LEAST_QUEUE = 10  # milliseconds: a shorter wait precedes every request, even without other agents
WHY_ASKED = "why the request was sent (cannot replay the file here)"


class Tracer:
    def __init__(self, place: int = 0) -> None:
        """`place`: index among the files of a trace; the keys of spans begin with it."""
        self.sheet = SpanIndex(place)
        self.calls = CallSpans(self.sheet)
        self.asides = SideSpans(self.sheet)
        self.config: Model | None = None  # the configured model, if known
        self.run: Span | None = None
        self.ours = False  # the file has lines written by mainspring
        self._turn = 0
        self._since = 0  # start of the current effect
        self._open: Span | None = None  # the current span, except calls
        self._heard: list[tuple[int, User]] = []  # messages since the last event
        self._reply = ""  # id of the last reply,
        self._reply_span: Span | None = None  # and its span

    def take(self, offset: int, told: Told) -> None:
        match told:
            case WalkedBlock():
                self._spoke(offset, told)
            case WalkedMessage():
                self._said(offset, told.message)
            case WalkedEvent():
                self.ours = True
                self._happened(told)
            case WalkedNote():
                self.ours = True
                self._noted(told.record)
            case WalkedCheckpoint():
                self.ours = True
                self._saved(told)
            case WalkedReset():
                if not self.ours:
                    self.sheet.moment(SpanKind.NOTE, told.at, "conversation compacted")
            case _:
                assert_never(told)

    # --- the conversation ---

    def _spoke(self, offset: int, spoke: WalkedBlock) -> None:
        span = self._of_reply(spoke)
        self.sheet.touch(span, spoke.at, offset)
        self.asides.end_retry(spoke.at)
        block = spoke.block
        kind = "call" if isinstance(block, ToolCall) else type(block).__name__.lower()
        span.blocks = [*span.blocks, (kind, spoke.at)]
        span.uuid = spoke.uuid
        if isinstance(block, Text) and not span.label:
            span.label = make_label(block.text)
        if isinstance(block, ToolCall):
            self.calls.offered(offset, block, spoke, span)
        if not self.ours:
            self._foreign(span, spoke)

    def _of_reply(self, spoke: WalkedBlock) -> Span:
        if self._reply == spoke.reply and self._reply_span is not None:
            return self._reply_span
        span = self._open if self._open is not None and self._open.kind is SpanKind.MODEL else None
        if span is None:
            self._turn += not self.ours
            span = self._new(SpanKind.MODEL, spoke.at, missing=(ASKED, FIRST_TOKEN))
        span.model = span.model or spoke.model
        self._reply, self._reply_span = spoke.reply, span
        return span

    def _foreign(self, span: Span, spoke: WalkedBlock) -> None:
        """No event follows for this reply: the line has all there is."""
        self.sheet.end(span, spoke.at, SpanOutcome.OK)
        span.stop = spoke.stop
        self._price(span, spoke.usage, None)

    def _said(self, offset: int, message: User | ToolResult) -> None:
        if isinstance(message, ToolResult):
            self.calls.result(offset, message)
            return
        self._heard.append((offset, message))
        if not self.ours and message.origin is Origin.PROMPT:
            self._begin_run(message.at, None)
        if self.run is not None:
            self.sheet.seen(message.at)

    # --- events ---

    def _happened(self, happened: WalkedEvent) -> None:
        event, at, step = happened.event, happened.event.stamp.at, happened.step
        self.sheet.seen(at)
        before = happened.before
        match event:
            case Submitted():
                self._begin_run(at, before)
            case ContextReady():
                self._context_ready(event, happened)
            case Replied():
                self._replied(event.reply, happened)
            case CallFailed():
                self._call_failed(event, happened)
            case Compacted():
                self._compacted(event, happened)
            case HooksDone():
                self._hooks_done(event, happened)
            case Aborted():
                self._aborted(event, happened)
            case ToolsDone():
                pass
            case _:
                assert_never(event)
        self._heard = []
        self._since = at
        if self.run is not None:
            self.run.price = step.state.totals.cost if step is not None else None
        if step is not None:
            self._begin(step.effect, step, at)

    def _begin(self, effect: Effect, step: Step, at: int) -> None:
        """Starts the span of the next effect."""
        self._turn = step.state.turn
        match effect:
            case CallModel():
                span = self._open = self._new(SpanKind.MODEL, at, model=effect.request.model, missing=(FIRST_TOKEN,))
                span.transition = step.state.transition or ""
            case PrepareContext():
                self._open = self._new(SpanKind.CONTEXT, at, label="context")
            case Compact():
                self._open = self._new(SpanKind.COMPACTION, at, label=f"{effect.how}, for {effect.trouble}")
            case RunStopHooks():
                self._open = self._new(SpanKind.HOOKS, at, label="stop hooks")
            case Finish():
                self._end_run(at, effect)
            case _:
                pass

    def _ended(self, kind: SpanKind, happened: WalkedEvent, how: SpanOutcome = SpanOutcome.OK) -> Span:
        """The span that this event ends; if its start was not recorded, it started with the last event."""
        span, self._open = self._open, None
        if span is None or span.kind is not kind:
            missing = (WHY_ASKED, FIRST_TOKEN) if kind is SpanKind.MODEL else ()
            if kind is SpanKind.MODEL and self._reply_span is not None and self._reply_span.how is SpanOutcome.OPEN:
                span = self._reply_span
                span.begin, span.missing = self._since or span.begin, missing
            else:
                span = self._new(kind, self._since or happened.event.stamp.at, missing=missing)
        self.sheet.end(span, happened.event.stamp.at, how)
        span.n = happened.n
        return span

    def _context_ready(self, event: ContextReady, happened: WalkedEvent) -> None:
        span = self._ended(SpanKind.CONTEXT, happened)
        span.tokens = event.tokens
        span.freed = [(part.layer, part.freed) for part in event.shrunk]
        span.price = event.cost or None
        span.label = (
            ", ".join([f"{layer} freed {freed:,}" for layer, freed in span.freed]) or f"{event.tokens:,} tokens"
        )
        self.config = event.model or self.config
        for offset, message in self._heard:
            self.sheet.touch(span, message.at, offset)

    def _replied(self, reply: Assistant, happened: WalkedEvent) -> None:
        span = self._ended(SpanKind.MODEL, happened)
        self._asked(span, reply.at)
        span.model, span.stop = reply.model or span.model, reply.stop
        self._price(span, reply.usage, happened.before)
        span.label = span.label or describe_wordless_reply(reply, span)
        self._reply, self._reply_span = reply.id, span
        self._turn += happened.step is None

    def _asked(self, span: Span, at: int) -> None:
        """A request may wait for budget that other agents have reserved: that is not the model's time."""
        self.asides.end_retry(span.end or at)
        if not span.begin < at <= (span.end or at):
            return
        if at - span.begin >= LEAST_QUEUE:
            wait = self._new(
                SpanKind.QUEUE, span.begin, label="waits for budget reserved by other agents", parent=span.key
            )
            self.sheet.end(wait, at, SpanOutcome.OK)
        span.begin = at

    def _call_failed(self, event: CallFailed, happened: WalkedEvent) -> None:
        span = self._ended(SpanKind.MODEL, happened, SpanOutcome.ERROR)
        if event.kept is not None:
            self._asked(span, event.kept.at)
        span.why = make_label(f"{event.failure.kind}: {event.failure.detail}", WORDS)
        self._price(span, event.usage, happened.before)
        self.asides.end_retry(happened.event.stamp.at)

    def _compacted(self, event: Compacted, happened: WalkedEvent) -> None:
        span = self._ended(SpanKind.COMPACTION, happened, SpanOutcome.ERROR if event.failed else SpanOutcome.OK)
        span.before, span.after, span.why = event.before, event.after, make_label(event.failed, WORDS)
        span.usage, span.price = event.usage if event.usage.total else None, event.cost
        for offset, message in self._heard:
            self.sheet.touch(span, message.at, offset)

    def _hooks_done(self, event: HooksDone, happened: WalkedEvent) -> None:
        verdict = event.verdict
        span = self._ended(
            SpanKind.HOOKS, happened, SpanOutcome.DENIED if verdict.blocks or verdict.prevent else SpanOutcome.OK
        )
        span.why = make_label(verdict.prevent or "; ".join(verdict.blocks), WORDS)

    def _aborted(self, event: Aborted, happened: WalkedEvent) -> None:
        at = event.stamp.at
        if self._open is not None:
            span = self._ended(self._open.kind, happened, SpanOutcome.INTERRUPTED)
            span.why = event.reason
            if span.kind is SpanKind.MODEL:
                self._asked(span, event.partial.at if event.partial else span.begin)
                self._price(span, event.usage, happened.before)
        self.calls.interrupted(at)
        self.sheet.moment(SpanKind.INTERRUPT, at, f"interrupted: {event.reason}", n=happened.n)

    # --- runs ---

    def _begin_run(self, at: int, before: State | None) -> None:
        self._break_off()
        prompts = [(offset, message) for offset, message in self._heard if message.origin is Origin.PROMPT]
        words = [message.shown_text for _, message in prompts]
        reports = any(message.origin is Origin.REPORT for _, message in self._heard)
        usual = "(report of a background task)" if reports else "(continued without a prompt)"
        self.sheet.run += 1
        self._turn = 1 if self.ours else self._turn
        self.sheet.turn = self._turn
        self.run = self._new(SpanKind.RUN, at, label=make_label(words[-1] if words else usual))
        self.run.missing = () if before is not None or self.ours else ("how it ended",)
        for offset, message in prompts:
            self.sheet.touch(self.run, at, offset)
            self.run.uuid = message.id

    def _end_run(self, at: int, finish: Finish) -> None:
        if self.run is None:
            return
        usual = finish.terminal == "completed" and finish.cause in ("end_turn", "compacted", "token_budget")
        interrupted = finish.terminal.startswith("aborted")
        self.sheet.end(
            self.run, at, SpanOutcome.OK if usual else SpanOutcome.INTERRUPTED if interrupted else SpanOutcome.ERROR
        )
        self.run.stop = f"{finish.terminal}, {finish.cause}"
        self.run.why = make_label(finish.detail, WORDS)

    def _break_off(self) -> None:
        """A run without an end ended with its process, some time after its last record."""
        self.asides.end_retry(self.sheet.last)
        how = SpanOutcome.BROKE_OFF if self.ours else SpanOutcome.OK
        for span in (self._open, self.run, *self.calls.under_way()):
            if span is not None and span.how is SpanOutcome.OPEN:
                self.sheet.end(span, self.sheet.last, how)
                span.missing = (*span.missing, ENDED) if self.ours else span.missing
        self.calls.forget()
        self._open = self.run = None

    def _saved(self, saved: WalkedCheckpoint) -> None:
        if saved.resumed == "fork":
            taken = self.sheet.restart()
            self.calls.forget()
            self.run = self._open = None
            self.sheet.moment(
                SpanKind.NOTE, self.sheet.last, f"fork: {plural(taken, 'span')} of the other session left out"
            )
        elif saved.resumed:
            self._break_off()
        elif saved.lost and self.run is not None and self.run.how is SpanOutcome.OPEN:
            known = saved.decode()
            if known is not None and isinstance(known.state.waiting_for, Finish):  # it says how the run ended
                self.run.price = known.state.totals.cost
                self._end_run(known.state.now.at, known.state.waiting_for)

    # --- records ---

    def _noted(self, record: Record) -> None:
        match record:
            case ConfigRecord():
                self.config = record.config.model
            case WithdrawnRecord():
                if self._reply == record.reply_id and self._reply_span is not None:
                    self._reply_span.how = SpanOutcome.WITHDRAWN
                    self._reply_span.why = self._reply_span.why or record.why
                    self.sheet.changed(self._reply_span)
            case RetryRecord():
                self.asides.retrying(record, self._open.key if self._open is not None else "")
            case _:
                self.calls.add_record(record)
                self.asides.add_record(record)

    # --- spans ---

    def _new(self, kind: SpanKind, at: int, **fields: Any) -> Span:
        self.sheet.turn = self._turn
        return self.sheet.new(kind, at, **fields)

    def _price(self, span: Span, usage: Usage, before: State | None) -> None:
        span.usage = usage
        model = before.model if before is not None else self.config
        span.price, listed = price_usage(usage, span.model, model)
        span.listed = span.listed or listed


def price_usage(usage: Usage, name: str, model: Model | None) -> tuple[int | None, bool]:
    """At the price of the current model; if it is unknown, at the built-in list price, if there is one. Also returns
    whether it is the list price."""
    listed = model is None and any(same_model(name, known) for known in MODELS)
    model = model_named(name) if listed else model
    return cost(usage, model.price) if model is not None else None, listed


def describe_wordless_reply(reply: Assistant, span: Span) -> str:
    """The label of a reply without text."""
    names = list(dict.fromkeys([call.name for call in reply.calls]))
    return make_label(
        f"{CALLS} {', '.join(names)}" if names else ", ".join([kind for kind, _ in span.blocks]) or "nothing"
    )
