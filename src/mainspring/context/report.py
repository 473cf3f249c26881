"""What fills the window of a session, block by block, and what the layers removed. For the user; pure.

The journal does not store tokens per block, so this computes them: bytes, at a ratio from the API's own counts in the
session. The first count gives the size of system text and tools, the last one the overall bytes per token. Everything
after the last count is an estimate at that ratio.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import assert_never

from mainspring.context.attachments import MARKER
from mainspring.context.attachments import AttachmentKind as Attached
from mainspring.context.tokens import LEAST, MOST, OF_A_BLOCK, TokenScale, message_bytes, strip_model_date, weight_of
from mainspring.core.config import Config
from mainspring.core.effects import CompactionKind
from mainspring.core.events import Compacted, ContextReady, Event, Replied
from mainspring.core.messages import (
    Assistant,
    Block,
    Content,
    Document,
    Image,
    Message,
    Origin,
    RedactedThinking,
    ServerBlock,
    Stop,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
)
from mainspring.core.models import Model, model_named
from mainspring.core.state import MANUAL, State, took_effect
from mainspring.core.value import Bundle
from mainspring.core.view import Replace, view

MOST_LARGE = 10
ABOUT = 60  # characters of a block's excerpt

SYSTEM, TOOLS, BOTH = "system text", "tools", "system text and tools"
SUMMARIES, WORDS, REPLIES, THINKING, CALLS = "summaries", "the user's words", "replies", "thinking", "calls"
IMAGES, REMINDERS = "images", "reminders"
NAMED = "named files"
ATTACHED = {  # else by their name
    Attached.CHANGED: "changed files",
    Attached.FILE: NAMED,
    Attached.FOLDER: NAMED,
    Attached.MEDIA: NAMED,
    Attached.QUEUED: WORDS,
    Attached.HOOK: REMINDERS,
}
RESULTS = "results: {tool}"
UNNAMED = "a call out of view"

# In the order in which they run, then the three that only a compaction runs.
LAYERS = (
    "tool_results",
    "snip",
    "microcompact",
    CompactionKind.COLLAPSE,
    CompactionKind.SUMMARY,
    CompactionKind.TRIM,
    CompactionKind.STRIP_MEDIA,
)
UNKNOWN_LAYER = "compaction"  # of an incomplete journal


class ReportEvent(Bundle):
    """An event of the journal."""

    event: Event
    how: CompactionKind | None = None  # for a compaction: its kind, if known


class FixedBytes(Bundle):
    """Bytes that every request begins with, as for a session that begins now. 0: unknown."""

    system: int = 0
    tools: int = 0


class ReportShare(Bundle):
    """The share of one kind of block. Prices are nano-dollars per request."""

    part: str
    blocks: int
    tokens: int
    cached: int  # read from the cache
    fresh: int  # sent again, and written to the cache


class LargeItem(Bundle):
    part: str
    tokens: int
    turn: int  # 0: it replaces many
    tool: str
    about: str


class LayerTotals(Bundle):
    """The effect of a layer in the whole session."""

    layer: str
    times: int
    freed: int  # tokens
    failed: int = 0  # times without effect
    cost: int = 0  # nano-dollars, for the model that was called


class ContextReport(Bundle):
    model: str
    window: int
    tokens: int
    counted: bool  # by the API, except for what came since; else only estimated
    bytes_per_token: float
    compact_at: int | None  # None: automatic compaction is off
    blocked_at: int
    parts: tuple[ReportShare, ...]
    largest: tuple[LargeItem, ...]
    removed: tuple[LayerTotals, ...]

    @property
    def cached(self) -> int:
        return sum([part.cached for part in self.parts])

    @property
    def fresh(self) -> int:
        return sum([part.fresh for part in self.parts])


def build_context_report(
    state: State,
    told: Iterable[ReportEvent],
    config: Config,
    fixed: FixedBytes = FixedBytes(),  # noqa: B008  # frozen
    model: Model | None = None,
) -> ContextReport:
    """`told` is the whole journal, oldest first; its events need no content. `model`: the model of the next call; None:
    that of the last call."""
    told = tuple(told)
    seen, past = view(state.history, state.edits), ReplyIndex(told)
    model = model or (state.model if told else _model_of(seen, config))
    gauge = _gauge(seen, state, past, model, fixed)
    pieces = tuple(_pieces(seen, past))
    sizes = _by_part(pieces, gauge.ratio)
    counts = {**_fixed_parts(gauge.fixed, fixed), **sizes}
    tokens = sum([count for _, count in counts.values()])
    price = model.price.at(tokens)
    return ContextReport(
        model=model.name,
        window=model.window,
        tokens=tokens,
        counted=gauge.counted,
        bytes_per_token=gauge.ratio,
        compact_at=config.compact_at(model) if config.auto_compact else None,
        blocked_at=config.blocked_at(model),
        parts=tuple(
            [
                ReportShare(part, blocks, count, count * price.cache_read, count * price.cache_write)
                for part, (blocks, count) in counts.items()
            ]
        ),
        largest=_largest(pieces, gauge.ratio),
        removed=_removed(told),
    )


def _model_of(seen: tuple[Message, ...], config: Config) -> Model:
    """Of a conversation that another program wrote."""
    names = [message.model for message in seen if isinstance(message, Assistant) and message.model]
    return model_named(names[-1]) if names else config.model


# --- the journal --------------------------------------------------------------------------------------


class ReplyIndex:
    """Which replies came in which turn, and to which prompts."""

    def __init__(self, told: tuple[ReportEvent, ...]) -> None:
        self.turns: dict[str, int] = {}  # by the id of the reply
        self.cut: set[str] = set()  # replies to a prompt that did not extend the previous one
        self.cut_since = False  # the view has changed since the last reply
        self.known = bool(told)
        for one in told:
            match one.event:
                case ContextReady() | Compacted():
                    self.cut_since |= bool(one.event.edits)
                case Replied():
                    self._reply(one.event.reply.id)
                case _:
                    pass

    def _reply(self, id: str) -> None:
        self.turns[id] = len(self.turns) + 1
        if self.cut_since:
            self.cut.add(id)
        self.cut_since = False

    def follows(self, one: Assistant, next_: Assistant) -> bool:
        """Whether the second prompt was the first with more at its end."""
        turns, cut = self.turns, next_.id in self.cut
        return one.id in turns and not cut and turns.get(next_.id) == turns[one.id] + 1


# --- bytes and tokens ---------------------------------------------------------------------------------


class TokenGauge(Bundle):
    ratio: float  # bytes per token
    fixed: int  # tokens of system text and tools
    counted: bool


class CountedPrompt(Bundle):
    """A prompt whose tokens the API has counted."""

    reply: Assistant
    at: int  # its position in the view
    size: int  # bytes of the messages before it


def _gauge(seen: tuple[Message, ...], state: State, past: ReplyIndex, model: Model, fixed: FixedBytes) -> TokenGauge:
    replaced = {edit.id for edit in state.edits if isinstance(edit, Replace)}
    counted = list(_counted(seen, model))
    scale = TokenScale()
    for one, next_ in pairwise(counted):
        as_sent = not any(message.id in replaced for message in seen[one.at : next_.at])
        if as_sent and past.follows(one.reply, next_.reply):
            scale.learn(next_.size - one.size, next_.reply.usage.prompt - one.reply.usage.prompt)
    first = next((one for one in counted if past.turns.get(one.reply.id) == 1), None)
    if first is not None and any(map(_is_summary, seen[: first.at])):
        first = None  # its prompt is no longer in view
    last = counted[-1] if counted and not past.cut_since else None
    if last is not None and past.known and last.reply.id not in past.turns:
        last = None  # it was counted in another session, from which this one was forked
    of_fixed = _fixed_at(first, scale.ratio)
    if of_fixed is None:
        of_fixed = round((fixed.system + fixed.tools) / scale.ratio) or _fixed_at(last, scale.ratio) or 0
    return _balanced(last, of_fixed, scale.ratio)


def _balanced(last: CountedPrompt | None, fixed: int, ratio: float) -> TokenGauge:
    """Make the total equal the API's count: by the ratio if that is plausible, else by the fixed part."""
    if last is None:
        return TokenGauge(ratio, fixed, counted=False)
    exact = last.size / max(1, last.reply.usage.prompt - fixed)
    if LEAST <= exact <= MOST:
        return TokenGauge(exact, fixed, counted=True)
    return TokenGauge(ratio, _fixed_at(last, ratio) or 0, counted=True)


def _counted(seen: tuple[Message, ...], model: Model) -> Iterator[CountedPrompt]:
    size = 0
    for at, message in enumerate(seen):
        if isinstance(message, Assistant):
            whole = message.usage.prompt and message.stop is not Stop.UNFINISHED  # else it is our own estimate
            if whole and strip_model_date(message.model) == strip_model_date(model.name):
                yield CountedPrompt(message, at, size)
        size += message_bytes(message)


def _is_summary(message: Message) -> bool:
    return isinstance(message, User) and message.origin is Origin.SUMMARY


def _fixed_at(one: CountedPrompt | None, ratio: float) -> int | None:
    return max(0, one.reply.usage.prompt - round(one.size / ratio)) if one is not None else None


# --- the view -----------------------------------------------------------------------------------------


class ReportItem(Bundle):
    part: str
    size: int  # bytes
    turn: int
    tool: str = ""
    about: str = ""


def _pieces(seen: tuple[Message, ...], past: ReplyIndex) -> Iterator[ReportItem]:
    calls = {call.id: call for message in seen if isinstance(message, Assistant) for call in message.calls}
    turn = 0
    for message in seen:
        match message:
            case Assistant():
                turn = past.turns.get(message.id, turn + 1)
                made = [_block(block, turn) for block in message.blocks]
            case ToolResult():
                made = [_result(part, calls.get(message.call_id), turn) for part in message.content]
            case User():
                folded = message.origin is Origin.SUMMARY
                made = [_said(part, message, 0 if folded else turn + 1) for part in message.content]
            case _:
                assert_never(message)
        for number, piece in enumerate(made):
            yield (
                piece
                if number
                else ReportItem(piece.part, piece.size + OF_A_BLOCK, piece.turn, piece.tool, piece.about)
            )


def _block(block: Block, turn: int) -> ReportItem:
    match block:
        case Text():
            return ReportItem(REPLIES, weight_of(block), turn, about=_words(block.text))
        case Thinking() | RedactedThinking():
            return ReportItem(THINKING, weight_of(block), turn)
        case ToolCall():
            return ReportItem(CALLS, weight_of(block), turn, block.name, _input(block))
        case ServerBlock():
            return ReportItem(CALLS, weight_of(block), turn, block.kind)
        case _:
            assert_never(block)


def _result(part: Content, call: ToolCall | None, turn: int) -> ReportItem:
    tool = call.name if call is not None else UNNAMED
    kind = IMAGES if isinstance(part, Image | Document) else RESULTS.format(tool=tool)
    return ReportItem(kind, weight_of(part), turn, tool, _input(call) if call is not None else "")


def _said(part: Content, message: User, turn: int) -> ReportItem:
    if isinstance(part, Image | Document):
        return ReportItem(IMAGES, weight_of(part), turn, about=part.media_type)
    kind, name = _origin(message.origin, part.text)
    return ReportItem(kind, weight_of(part), turn, about=name or _words(part.text))


def _origin(origin: Origin, text: str) -> tuple[str, str]:
    """The kind of message, and its name."""
    match origin:
        case Origin.PROMPT:
            return WORDS, ""
        case Origin.SUMMARY:
            return SUMMARIES, ""
        case Origin.ATTACHMENT:
            return _attachment(text)
        case _:
            return REMINDERS, ""


def _attachment(text: str) -> tuple[str, str]:
    opening = f'<{MARKER} kind="'
    if not text.startswith(opening):
        return REMINDERS, ""
    head = text[len(opening) : text.find(">")]
    kind, _, rest = head.partition('"')
    name = rest.partition(' nonce="')[0].removeprefix(' name="').rstrip('"')
    if kind not in frozenset(Attached):
        return REMINDERS, name
    return ATTACHED.get(Attached(kind), kind), name


def _input(call: ToolCall) -> str:
    """The subject: a path, a pattern, a command."""
    return next((_words(value) for value in call.input.values() if isinstance(value, str) and value), "")


def _words(text: str) -> str:
    return " ".join(text[: 4 * ABOUT].split())[:ABOUT]


# --- totals -------------------------------------------------------------------------------------------


ORDER = (
    *(Attached.MEMORY, Attached.NOTES, Attached.SKILLS, Attached.ENVIRONMENT, ATTACHED[Attached.CHANGED], NAMED),
    *(SUMMARIES, WORDS, REMINDERS, REPLIES, THINKING, CALLS),
)


def _fixed_parts(tokens: int, fixed: FixedBytes) -> dict[str, tuple[int, int]]:
    """Only the sum of the two is known; it is divided as for a session that begins now."""
    whole = fixed.system + fixed.tools
    if not whole:
        return {BOTH: (1, tokens)} if tokens else {}
    of_tools = tokens * fixed.tools // whole
    return {SYSTEM: (1, tokens - of_tools), TOOLS: (1, of_tools)}


def _by_part(pieces: tuple[ReportItem, ...], ratio: float) -> dict[str, tuple[int, int]]:
    """Number of blocks, and tokens. Results come last, the largest kind first."""
    sizes: dict[str, tuple[int, int]] = {}
    for piece in pieces:
        blocks, size = sizes.get(piece.part, (0, 0))
        sizes[piece.part] = blocks + 1, size + piece.size
    results = sorted([part for part in sizes if part not in (*ORDER, IMAGES)], key=lambda part: -sizes[part][1])
    ordered = [part for part in (*ORDER, *results, IMAGES) if part in sizes]
    return {str(part): (sizes[part][0], round(sizes[part][1] / ratio)) for part in ordered}


def _largest(pieces: tuple[ReportItem, ...], ratio: float) -> tuple[LargeItem, ...]:
    largest = sorted(pieces, key=lambda piece: -piece.size)[:MOST_LARGE]
    return tuple([LargeItem(str(p.part), round(p.size / ratio), p.turn, p.tool, p.about) for p in largest])


def _removed(told: tuple[ReportEvent, ...]) -> tuple[LayerTotals, ...]:
    sums: dict[str, LayerTotals] = {}
    for one in told:
        for each in _of(one):
            had = sums.get(each.layer, LayerTotals(each.layer, 0, 0))
            sums[each.layer] = LayerTotals(
                each.layer,
                had.times + each.times,
                had.freed + each.freed,
                had.failed + each.failed,
                had.cost + each.cost,
            )
    known = [layer for layer in LAYERS if layer in sums]
    return tuple([sums[layer] for layer in (*known, *[layer for layer in sums if layer not in LAYERS])])


def _of(told: ReportEvent) -> Iterator[LayerTotals]:
    event = told.event
    if isinstance(event, ContextReady):
        for shrunk in event.shrunk:
            yield LayerTotals(shrunk.layer, 1, shrunk.freed)
        if event.cost:  # the small model is called for nothing else
            yield LayerTotals(str(CompactionKind.COLLAPSE), 0, 0, 0, event.cost)
    elif isinstance(event, Compacted):
        layer = str(told.how or UNKNOWN_LAYER)
        asked = event.trigger == MANUAL
        worked = took_effect(told.how, event, asked=asked) if told.how is not None else not event.failed
        freed = event.before - event.after if worked else 0
        yield LayerTotals(layer, int(worked), freed, int(not worked), event.cost)
