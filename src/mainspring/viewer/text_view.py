"""The turns of a trace as text: one line each, with a bar on a common scale. For terminals, mails and issues."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from mainspring.core.money import NANOS_PER_USD
from mainspring.core.reasons import Transition
from mainspring.text import plural, truncate
from mainspring.viewer.spans import CALLS, Span, SpanKind, SpanOutcome, TraceTotals
from mainspring.viewer.trace import Trace

LEAST = 40  # columns
TIMES = 36  # columns beside the bar, without the label

# What a column of a bar shows; later ones are drawn over earlier ones.
SIGNS: tuple[tuple[SpanKind, str], ...] = (
    (SpanKind.CONTEXT, "-"),
    (SpanKind.COMPACTION, "-"),
    (SpanKind.HOOKS, "-"),
    (SpanKind.MODEL, "="),
    (SpanKind.TOOL, "#"),
    (SpanKind.QUEUE, "."),
    (SpanKind.RETRY, "."),
    (SpanKind.QUESTION, "?"),
)
FILE_MARKS = (SpanKind.CHECKPOINT, SpanKind.REWIND)
LEGEND = "= model   # tool   - context, hooks   . retry, queue   ? waiting for you"


class TurnRow(Struct):
    run: int
    turn: int
    spans: list[Span]

    def ends(self, last: int) -> tuple[int, int]:
        begin = min(span.begin for span in self.spans)
        return begin, max((last if span.end is None else span.end) for span in self.spans)


def render_axis(trace: Trace, width: int) -> Iterator[str]:
    """No line is wider than `width`, which is at least 40."""
    width = max(width, LEAST)
    head = trace.head()
    sheet = trace.files[0].tracer.sheet
    turns = turns_of(sheet.spans)
    runs = {span.run: span for span in sheet.spans if span.kind is SpanKind.RUN}
    breaks: dict[tuple[int, int], list[Span]] = {}
    for span in sheet.spans:
        if span.kind is SpanKind.PREFIX:
            breaks.setdefault((span.run, span.turn), []).append(span)
    marks = [span for span in sheet.spans if span.kind in FILE_MARKS]
    longest = max([end - begin for begin, end in [turn.ends(sheet.last) for turn in turns]], default=0)
    bar = max(8, min(60, (width - TIMES) // 2))
    for line in format_totals(head.totals):
        yield truncate(line, width)
    yield truncate(LEGEND, width)
    run = -1
    for turn in turns:
        if turn.run != run and turn.run in runs:
            run = turn.run
            yield ""
            yield truncate(f"❯ {runs[run].label}", width)
        yield truncate(render_turn_row(turn, head.begin, sheet.last, longest, bar), width)
        for line in explain_turn(turn, breaks.get((turn.run, turn.turn), [])):
            yield truncate(f"     {line}", width)
        if is_last(turn, turns) and turn.run in runs:
            yield truncate(describe_run_ending(runs[turn.run]), width)
            yield from [truncate(f"     {span.label}", width) for span in marks if span.run == turn.run]
    for note in head.notes:
        yield truncate(f"! {note}", width)


def turns_of(spans: list[Span]) -> list[TurnRow]:
    found: dict[tuple[int, int], TurnRow] = {}
    shown = {kind for kind, _ in SIGNS}
    for span in spans:
        if span.kind in shown:
            found.setdefault((span.run, span.turn), TurnRow(span.run, span.turn, [])).spans.append(span)
    return [found[name] for name in sorted(found)]


def is_last(turn: TurnRow, turns: list[TurnRow]) -> bool:
    return turn is turns[-1] or turns[turns.index(turn) + 1].run != turn.run


def render_turn_row(turn: TurnRow, since: int, last: int, longest: int, bar: int) -> str:
    begin, end = turn.ends(last)
    price = sum(span.price or 0 for span in turn.spans if span.kind is SpanKind.MODEL)
    failed = (
        "!"
        if any(span.how in (SpanOutcome.ERROR, SpanOutcome.DENIED, SpanOutcome.INTERRUPTED) for span in turn.spans)
        else " "
    )
    times = f"{turn.turn:>4} {format_seconds(begin - since):>9} {format_seconds(end - begin):>8}"
    return (
        f"{times} {draw_turn(turn, begin, last, longest, bar)} {format_price(price)} {failed} {list_turn_names(turn)}"
    )


def explain_turn(turn: TurnRow, breaks: list[Span]) -> Iterator[str]:
    """Why the loop called the model again, unless for an ordinary turn; and the prefix breaks that the request paid
    for."""
    for span in turn.spans:
        if span.kind is SpanKind.MODEL and span.transition not in ("", Transition.NEXT_TURN):
            yield f"continue reason: {span.transition}"
    for span in breaks:
        yield f"{span.label}; {span.tokens:,} tokens, {format_price(span.price or 0)}"


def draw_turn(turn: TurnRow, begin: int, last: int, longest: int, bar: int) -> str:
    """All turns use one scale and start at the left: a longer turn has a longer bar."""
    columns = [" "] * bar
    scale = bar / max(longest, 1)
    for kind, sign in SIGNS:
        for span in turn.spans:
            if span.kind is kind and span.how is not SpanOutcome.NEVER_RAN:
                left = min(int((span.begin - begin) * scale), bar - 1)
                right = min(max(round(((last if span.end is None else span.end) - begin) * scale), left + 1), bar)
                columns[left:right] = [sign] * (right - left)
    return "".join(columns)


def list_turn_names(turn: TurnRow) -> str:
    tools = [span.name for span in turn.spans if span.kind is SpanKind.TOOL]
    said = [f"{name} x{tools.count(name)}" if tools.count(name) > 1 else name for name in dict.fromkeys(tools)]
    words = next((span.label for span in turn.spans if span.kind is SpanKind.MODEL and span.label), "")
    if said and words.startswith(f"{CALLS} "):
        return ", ".join(said)
    return f"{', '.join(said)}: {words}" if said else words


def describe_run_ending(run: Span) -> str:
    price = f", {format_price(run.price)}" if run.price is not None else ""
    why = f": {run.why}" if run.why else ""
    return f"     {run.stop or run.how} after {format_seconds(run.length)}{price}{why}"


def format_totals(totals: TraceTotals) -> list[str]:
    usage = totals.usage
    overlap = f", {100 * totals.overlap / totals.tools:.0f}% while the model was streaming" if totals.tools else ""
    cached = f"{100 * usage.cache_read / usage.prompt:.0f}" if usage.prompt else "0"
    waits = [f", person {format_seconds(totals.person)}"] * bool(totals.person)
    broken = [f"{plural(totals.breaks, 'prefix break')}, {format_price(totals.break_price)} of the price"]
    broken = broken if totals.breaks else []
    waits += [f", retries {format_seconds(totals.retry)}"] * bool(totals.retry)
    return [
        (
            f"{plural(totals.runs, 'run')}, {plural(totals.turns, 'turn')}, {format_seconds(totals.wall)}, "
            f"{format_price(totals.price)}"
        ),
        f"model {format_seconds(totals.model)}, tools {format_seconds(totals.tools)}{overlap}{''.join(waits)}",
        f"{usage.prompt:,} tokens in ({cached}% from the cache), {usage.output:,} out",
        *broken,
    ]


def format_seconds(milliseconds: int) -> str:
    if milliseconds < 60_000:
        return f"{milliseconds / 1_000:.2f}s"
    minutes, rest = divmod(milliseconds // 1_000, 60)
    return f"{minutes}m{rest:02}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02}m"


def format_price(nanos: int) -> str:
    return f"${nanos / NANOS_PER_USD:.4f}"
