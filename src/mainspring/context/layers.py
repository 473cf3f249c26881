"""The context layers that need no model, their limits and goals, and when clearing pays. They share one signature:

    layer(scene, aim) -> edits

A layer reads the groups and returns edits for what should leave. It never calls a model and never waits; it may use
what was written in the background beforehand. Cheap layers run first, and each may make the next unnecessary (D-01,
D-02).

Layer 0, `ResultBudgetLayer`: limits a single result, and the results of one reply together (D-03 to D-05). It acts on
results that no request has contained yet, so it breaks no cached prefix. Its decisions are edits: later requests
replace the same results.

Layer 1, `snip_turns`: drops old turns without content, oldest first (D-06 to D-09, Z-04). Such a turn is a short reply
whose results have all been cleared: old reads, searches and logs. It keeps the first prompt, every user message, the
newest turns and all turns that changed something, since the result of a change is short and never cleared. Notes of our
own, such as an old nudge, leave with the turns. If clearing is off, what it would clear counts as cleared.

Layer 2, `ClearLayer`: removes the content of old tool results; the call, the pair and all thinking stay (D-10 to D-15).
It acts when the prompt must become smaller, or when reading the old results turn after turn has cost as much as writing
the rest of the prompt again without them (`CacheCost`). Then it clears all of them at once: the price is for breaking
the prefix, whatever the number.

`trim_view`: the fallback that needs no model. It drops turns from the middle, keeps the front and the end (D-20, D-21,
Z-01), and leaves a notice: how much is gone, which files it was about, and what the user said there.

`strip_media`: the rung that removes images and documents from the view when the API rejects them (Z-06).

`fold_from_front`: a fold right after earlier summaries includes them verbatim, so there is one summary at the front,
and it grows. Separate folds would not work with histories that have forgotten messages: there, a fold that begins with
the first message in memory also means everything before it (`core/view.py`), and would replace the earlier summaries.

`CacheCost`: what a compaction would save and cost (settled 25). Old results cost rent: reading them from the cache,
every turn. Clearing has a price: everything after them must be written to the cache again instead of being read.
`choose_compaction` in `core/context_cost.py` decides. A model that costs nothing to read has no rent, and nothing is
cleared before it must be.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from mainspring.context.groups import (
    LEFT_OUT_MARK,
    SAID,
    GroupKind,
    TurnGroup,
    TurnGroups,
    ViewItem,
    media_in,
    select_user_quotes,
    words_in,
    words_of,
)
from mainspring.context.tokens import TokenScale
from mainspring.core.context_cost import CompactionOffer
from mainspring.core.messages import Assistant, Content, Document, Image, Message, Origin, Text, ToolResult, User
from mainspring.core.money import Price
from mainspring.core.value import Bundle
from mainspring.core.view import Drop, Edit, Fold, Replace
from mainspring.processes.output import SpillFolder, both_ends

# Chosen by `bench/cost.py`; docs/decisions/0105 has the figures.
KEEP_RESULTS, KEEP_SIZE = 8, 40_000  # newest results, and their bytes, that are kept while they are worth it


class LayerLimits(Bundle):
    """Limits that settings can change. Text sizes are characters, or bytes, which is the same for code."""

    per_result: int = 32_000  # layer 0: a read of 30 KB passes, a log of 100 KB does not,
    shown: int = 12_000  # and this much is shown of one that does not
    per_message: int = 100_000  # all results of one reply
    exempt: tuple[str, ...] = ("Read",)  # D-04: it limits itself, and can be repeated
    keep: int = KEEP_RESULTS
    keep_size: int = KEEP_SIZE
    recent_turns: int = 10  # layer 1 keeps these
    snip: bool = True  # D-09
    clear: bool = True
    elsewhere: bool = False  # the service clears old results itself (D-14): it counts less than we send
    collapse: bool = True  # D-19
    stage: int = 20_000  # bytes of old turns that are worth one prepared collapse
    tail: int = 48_000  # bytes that stay verbatim at the end of any compaction
    words: int = 24_000  # bytes of the user's prompts that a summary carries
    files: int = 60_000  # bytes of recently read files that are attached again


class LayerGoal(Bundle):
    """The goal of a layer."""

    limits: LayerLimits
    model: str = ""
    source: str = ""  # the source of the run (D-16)
    excess: int = 0  # bytes that must go, or the prompt comes too near to the limit
    rent: bool = False  # old results have cost as much as clearing them
    old_rent: bool = False  # and so have the turns that contain nothing else
    staged: int = 0  # groups before this one are covered by staged collapses


FULL_SIZE = 200_000  # tokens of the window that the limits are made for; a smaller one has smaller limits


def limits_for_window(limits: LayerLimits, window: int) -> LayerLimits:
    if window >= FULL_SIZE:
        return limits
    sizes = ("per_result", "shown", "per_message", "keep_size", "stage", "tail", "words", "files")
    return replace(limits, **{name: max(1_000, getattr(limits, name) * window // FULL_SIZE) for name in sizes})


Layer = Callable[[TurnGroups, LayerGoal], tuple[Edit, ...]]


class ResultBudgetLayer:
    """The layer, with its storage directory."""

    def __init__(self, shelf: SpillFolder) -> None:
        self._shelf = shelf

    def __call__(self, scene: TurnGroups, aim: LayerGoal) -> tuple[Edit, ...]:
        limits = aim.limits
        sizes = {item.message.id: item.size for item in scene.fresh}
        total = sum(sizes.values())
        if total <= min(limits.per_result, limits.per_message):
            return ()
        edits: list[Edit] = []
        for item in sorted(scene.fresh, key=lambda item: -item.size):
            alone = item.size > limits.per_result
            together = total > limits.per_message and item.size > limits.shown
            if item.tool in limits.exempt or not (alone or together) or len(item.message.text) <= limits.shown:
                continue  # the size of a short text is in its images
            content = self._cut(item, limits)
            total -= item.size - sum([len(part.text) for part in content if isinstance(part, Text)])
            edits.append(Replace(item.message.id, content))
        return tuple(edits)

    def _cut(self, item: ViewItem, limits: LayerLimits) -> tuple[Content, ...]:
        assert isinstance(item.message, ToolResult)
        text = item.message.text
        path = self._shelf.put(item.message.id, text)
        others = tuple([part for part in item.message.content if not isinstance(part, Text)])
        return (Text(both_ends(text, limits.shown, path)), *others)


FEW_WORDS = 300  # characters
STALE = frozenset({Origin.RECOVERY, Origin.BUDGET, Origin.ADVICE, Origin.HOOK})  # sent for one turn, long past


def snip_turns(scene: TurnGroups, aim: LayerGoal) -> tuple[Edit, ...]:
    if not aim.limits.snip or not (aim.excess or aim.old_rent):
        return ()
    ids: list[str] = []
    left = aim.excess
    old: set[int] = set() if aim.limits.clear else set(map(id, scene.old))
    for group in select_older_groups(scene, aim.limits.recent_turns, aim.staged):
        if aim.excess and not aim.old_rent and left <= 0:
            break
        if is_spent(group, old):
            ids += [message.id for message in group.messages]
            left -= group.size
    return (Drop(tuple(ids)),) if ids else ()


def select_older_groups(scene: TurnGroups, turns: int, start: int = 0) -> list[TurnGroup]:
    """The groups from this one on, after the front, up to the newest turns."""
    for at in range(len(scene.groups) - 1, -1, -1):
        turns -= scene.groups.kind(at) is GroupKind.TURN
        if turns < 0:
            return scene.groups[max(scene.head(), start) : at + 1]
    return []


def is_spent(group: TurnGroup, old: set[int]) -> bool:
    if group.kind is GroupKind.NOTE:
        return is_stale(group.items[0].message)
    if group.kind is not GroupKind.TURN:
        return False
    reply = group.reply
    results = group.results
    return (
        reply is not None
        and bool(results)
        and few_words(reply)
        and all(item.cleared or id(item) in old for item in results)
    )


def is_stale(message: Message) -> bool:
    return isinstance(message, User) and message.origin in STALE


def few_words(reply: Assistant) -> bool:
    return sum([len(block.text) for block in reply.blocks if isinstance(block, Text)]) <= FEW_WORDS


CLEARED = "[Old tool result cleared]"  # D-11


class ClearLayer:
    def __init__(self, shelf: SpillFolder) -> None:
        self._shelf = shelf

    def __call__(self, scene: TurnGroups, aim: LayerGoal) -> tuple[Edit, ...]:
        if not aim.limits.clear or not (aim.excess or aim.rent):
            return ()
        return tuple([self._cleared(item, aim.limits) for item in scene.old])

    def _cleared(self, item: ViewItem, limits: LayerLimits) -> Replace:
        """Give the path of the original, unless the same call would return it (D-13)."""
        assert isinstance(item.message, ToolResult)
        path = "" if item.tool in limits.exempt else self._shelf.put(item.message.id, item.message.text)
        return Replace(item.message.id, (Text(f"{CLEARED} It is in '{path}'." if path else CLEARED),))


def fold_from_front(scene: TurnGroups, folds: list[Fold], words: int) -> Fold:
    """Merge consecutive folds into one, with the summaries before them."""
    span = scene.span(folds[0].first, folds[0].last)
    before = scene.groups[: span[0]] if span else []
    if not all(group.kind is GroupKind.SUMMARY for group in before):
        before = []
    earlier = [message for group in before for message in group.messages if isinstance(message, User)]
    if not earlier and len(folds) == 1:
        return folds[0]
    told = [*earlier, *[fold.summary for fold in folds]]
    first = before[0].first if before else folds[0].first
    summary = replace(folds[-1].summary, content=merge_summaries(told, words), origin=Origin.SUMMARY)
    return Fold(first, folds[-1].last, summary)


def merge_summaries(messages: list[User], words: int) -> tuple[Content, ...]:
    """The summaries, in order, then the user's prompts."""
    parts = [part for message in messages if message.origin is Origin.SUMMARY for part in message.content]
    told = [part for part in parts if not isinstance(part, Text) or not part.text.startswith((SAID, LEFT_OUT_MARK))]
    return (*told, *select_user_quotes([text for message in messages for text in words_of(message)], words))


GONE = "[{count} messages were removed here to make room; there is no summary of them.]"
ABOUT = "\nFiles that they were about: {files}"
MOST_FILES = 50
SHORT = 2_000  # characters that are left of a result if dropping turns was not enough


def trim_view(scene: TurnGroups, size: int, limits: LayerLimits, new_id: Callable[[], str]) -> tuple[Edit, ...]:
    """Edits that reduce the view to so many bytes, or as near as possible."""
    edits: list[Edit] = []
    excess = scene.meter.size - size
    start = scene.head()
    end = start
    last = scene.tail(0)
    while end < last and excess > 0:
        excess -= scene.groups[end].size
        end += 1
    if end > start:
        groups = scene.groups[start:end]
        fold = Fold(groups[0].first, groups[-1].last, make_trim_notice(groups, limits, new_id()))
        edits.append(fold_from_front(scene, [fold], limits.words))
    for group in scene.groups[end:]:
        for item in group.results:
            message = item.message
            assert isinstance(message, ToolResult)
            if excess > 0 and len(message.text) > 2 * SHORT:
                short = replace(message, content=(Text(both_ends(message.text, SHORT)),))
                edits.append(Replace(message.id, short.content))
                excess -= len(message.text) - len(short.text)
    return tuple(edits)


def make_trim_notice(groups: list[TurnGroup], limits: LayerLimits, id: str) -> User:
    text = GONE.format(count=sum([len(group.items) for group in groups]))
    if files := paths_in(groups):
        text += ABOUT.format(files=", ".join(files))
    return User((Text(text), *select_user_quotes(words_in(groups), limits.words)), Origin.SUMMARY, id=id)


def paths_in(groups: list[TurnGroup]) -> list[str]:
    """From the inputs of the calls, the newest last."""
    found: dict[str, None] = {}
    for group in groups:
        for call in group.reply.calls if group.reply is not None else ():
            path = call.input.get("file_path")
            if isinstance(path, str):
                found.pop(path, None)
                found[path] = None
    return list(found)[-MOST_FILES:]


STRIPPED = Text("[An image or document stood here. It was removed because the model's service would not take it.]")


def strip_media(scene: TurnGroups, limits: LayerLimits, new_id: Callable[[], str]) -> tuple[Edit, ...]:
    """Replaces results. A user message cannot be replaced: drop it and add another one with all of its text."""
    edits: list[Edit] = []
    for group in scene.groups:
        for message in group.messages:
            if not media_in(message):
                continue
            if isinstance(message, ToolResult):
                edits.append(Replace(message.id, strip_media_content(message.content)))
            elif isinstance(message, User):
                words = replace(message, content=strip_media_content(message.content), id=new_id())
                edits.append(fold_from_front(scene, [Fold(group.first, group.last, words)], limits.words))
    return tuple(edits)


def strip_media_content(content: tuple[Content, ...]) -> tuple[Content, ...]:
    return tuple([STRIPPED if isinstance(part, Image | Document) else part for part in content])


def without_media(message: Message) -> Message:
    if isinstance(message, Assistant) or not media_in(message):
        return message
    return replace(message, content=strip_media_content(message.content))


class CacheCost:
    """In nano-dollars."""

    def __init__(self) -> None:
        self.results = 0  # paid so far for results that could be cleared,
        self.turns = 0  # and for turns that contain nothing else

    def pay(self, scene: TurnGroups, price: Price, scale: TokenScale) -> None:
        """For each reply since the last check."""
        per_token = price.cache_read * scene.replies
        self.results += scale.low(scene.old_size) * per_token
        self.turns += scale.low(count_behind_front(scene)) * per_token
        scene.replies = 0

    def offer_clearing(self, scene: TurnGroups, scale: TokenScale) -> CompactionOffer:
        return CompactionOffer(scale.low(scene.old_size), scale.high(count_rewritten_bytes(scene)), self.results)

    def offer_collapse(self, scene: TurnGroups, scale: TokenScale) -> CompactionOffer:
        """Used only when the prefix breaks anyway: then the price is for the part before that position."""
        size = count_behind_front(scene)
        return CompactionOffer(scale.low(size), scale.high(size), self.turns)

    def offer_summary(self, size: int, scale: TokenScale, small: Price) -> CompactionOffer:
        """Of a span of old turns of this size, by the small model. Staging it rewrites nothing."""
        tokens = scale.high(size)
        call = tokens * small.dearest_input(marked=False) + SUMMARY_TOKENS * small.output
        return CompactionOffer(max(0, scale.low(size) - SUMMARY_TOKENS), 0, self.turns, call)


SUMMARY_TOKENS = 500  # of a collapse: 300 words were asked for, and the user's own are added


def count_rewritten_bytes(scene: TurnGroups) -> int:
    """Bytes after the first result that would be cleared, without those that would be, and without what is new: that
    must be written in any case."""
    return max(0, scene.meter.sent - scene.old[0].before - scene.old_size) if scene.old else 0


def find_clear_border(scene: TurnGroups) -> int:
    """Bytes before the first result that is not cleared."""
    waiting = scene.old or scene.newest
    return waiting[0].before if waiting else scene.meter.size


def count_behind_front(scene: TurnGroups) -> int:
    front = scene.groups[0].size if scene.head() else 0
    return max(0, find_clear_border(scene) - scene.meter.fixed - front)
