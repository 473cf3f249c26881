"""The view as the layers see it: groups that can only leave as a whole, with their sizes.

A reply and the results of its calls are one group; every user message is its own group. `TurnGroups` follows the state
from turn to turn and processes only what is new; it starts over when the edits are not the ones it knows. Most groups
of a long session are one message. `GroupList` keeps those as that message, which takes eight bytes.

`choose_cache_marks` returns where the cached part of a request may end (settled 24). At most three: the system text has
the fourth.

- At its last message, so that the next request finds it.
- Where the last request ended: the cache looks back over 20 blocks only, and a reply with a dozen calls makes more. If
  the prefix was broken since, this is useless; then the mark is where it was broken.
- Before the first result that is not cleared: there the next clearing will break the prefix, and the part before it is
  found only if it was kept alive until then.

`select_user_quotes` keeps the user's own prompts verbatim: they outlive every summary, within their own budget. Each
prompt is a block of its own in the summary's message, so that the next summary finds it there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import islice, pairwise
from typing import assert_never, overload

from msgspec.structs import replace

from mainspring.context.tokens import TokenMeter, TokenScale, message_bytes, text_bytes
from mainspring.core.context_cost import HeldResult, count_stale_results
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Document, Image, Message, Origin, Text, ToolCall, ToolResult, User
from mainspring.core.money import Price
from mainspring.core.state import State
from mainspring.core.view import Drop, Edit, Fold, Replace, view
from mainspring.processes.output import both_ends

AT_LEAST = 2  # results stay, however large
WORTH_CLEARING = 600  # bytes; a shorter result is hardly longer than its placeholder


class GroupKind(StrEnum):
    PROMPT = "prompt"  # from the user
    SUMMARY = "summary"  # replaces a span
    TURN = "turn"  # a reply and its results
    NOTE = "note"  # any other message to the model


class ViewItem:
    """A message in the view."""

    __slots__ = ("before", "cleared", "message", "path", "size", "tool", "used")

    def __init__(self, message: Message, tool: str = "") -> None:
        self.message = message
        self.size = message_bytes(message)
        self.tool = tool  # whose result it is; empty: not a result, or its call is not in view
        self.path = ""  # the file that the call names
        self.used = 0  # the turn that brought it, or last named its file
        self.before = 0  # bytes of the prompt before it
        self.cleared = False  # its content was removed


class TurnGroup:
    __slots__ = ("first", "items", "kind", "last")

    def __init__(self, kind: GroupKind, item: ViewItem, fold: Fold | None = None) -> None:
        self.kind = kind
        self.items = [item]
        # The first and last message in the history. Dropped messages before it belong to it, and are folded with it.
        self.first = fold.first if fold else item.message.id
        self.last = fold.last if fold else item.message.id

    def add(self, item: ViewItem) -> None:
        self.items.append(item)
        self.last = item.message.id

    @property
    def size(self) -> int:
        return sum([item.size for item in self.items])

    @property
    def messages(self) -> list[Message]:
        return [item.message for item in self.items]

    @property
    def reply(self) -> Assistant | None:
        first = self.items[0].message
        return first if isinstance(first, Assistant) else None

    @property
    def results(self) -> list[ViewItem]:
        return [item for item in self.items if isinstance(item.message, ToolResult)]


class GroupList(Sequence[TurnGroup]):
    """Groups in order. The returned groups are copies: put a changed group back."""

    def __init__(self, groups: Iterable[TurnGroup] = ()) -> None:
        self._kept: list[TurnGroup | User | Assistant] = [compress_group(group) for group in groups]

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[TurnGroup]:
        return map(expand_group, self._kept)

    def __reversed__(self) -> Iterator[TurnGroup]:
        return map(expand_group, reversed(self._kept))

    @overload
    def __getitem__(self, at: int) -> TurnGroup: ...

    @overload
    def __getitem__(self, at: slice) -> list[TurnGroup]: ...

    def __getitem__(self, at: int | slice) -> TurnGroup | list[TurnGroup]:
        if isinstance(at, slice):
            return [one if isinstance(one, TurnGroup) else expand_group(one) for one in self._kept[at]]
        return expand_group(self._kept[at])

    def append(self, group: TurnGroup) -> None:
        self._kept.append(compress_group(group))

    def put(self, start: int, end: int, group: TurnGroup) -> None:
        """Replace these groups by one."""
        self._kept[start:end] = [compress_group(group)]

    # The methods below serve queries about many groups without creating them.

    def kind(self, at: int) -> GroupKind:
        one = self._kept[at]
        return one.kind if isinstance(one, TurnGroup) else kind_of(one)

    def last(self, at: int) -> str:
        one = self._kept[at]
        return one.last if isinstance(one, TurnGroup) else one.id

    def beginning(self, first: str) -> int | None:
        """The group that begins there. Searches from the end: the most common query is for the latest summary."""
        for at in range(len(self._kept) - 1, -1, -1):
            one = self._kept[at]
            if (one.first if isinstance(one, TurnGroup) else one.id) == first:
                return at
        return None

    def ending(self, last: str) -> int | None:
        for at in range(len(self._kept) - 1, -1, -1):
            one = self._kept[at]
            if (one.last if isinstance(one, TurnGroup) else one.id) == last:
                return at
        return None


def compress_group(group: TurnGroup) -> TurnGroup | User | Assistant:
    """The message alone, if the group can be rebuilt from it. A group of a reply with calls still grows."""
    message = group.items[0].message
    if len(group.items) > 1 or isinstance(message, ToolResult) or not group.first == group.last == message.id:
        return group
    return group if isinstance(message, Assistant) and message.calls else message


def expand_group(one: TurnGroup | User | Assistant) -> TurnGroup:
    return one if isinstance(one, TurnGroup) else TurnGroup(kind_of(one), ViewItem(one))


class TurnGroups:
    """Everything in view, in groups."""

    def __init__(self, meter: TokenMeter, keep: int, keep_size: int) -> None:
        self.meter = meter
        self.groups = GroupList()
        self.media = 0  # images and documents in view
        self.replies = 0  # seen, and rent not yet paid
        self.fresh: list[ViewItem] = []  # results that no request has contained yet
        self.newest: deque[ViewItem] = deque()  # the results that are not cleared,
        self.old: deque[ViewItem] = deque()  # and those that could be: oldest first
        self.old_size = 0
        self.border = ""  # the last result before all of those: nothing before it will be cleared any more
        self._passed = ""  # the last result
        self.cuts = 0  # how often something other than the end changed
        self.keep, self.keep_size = keep, keep_size
        self.turn = 0  # replies so far
        self.replied_at = 0  # when the last one came, in milliseconds
        self._newest_size = 0
        self._latest = 0  # results of the last reply: the model has not seen them yet
        self._results: dict[str, ViewItem] = {}
        self._open: dict[str, tuple[TurnGroup, ToolCall]] = {}  # calls without a result
        self._spans: dict[tuple[str, str], tuple[int, int]] = {}  # found since the last cut
        self._length = 0
        self._last: Message | None = None
        self._edits: tuple[Edit, ...] = ()
        self._begun = False

    # --- following the state ---

    def see(self, state: State) -> None:
        if self._follows(state):
            for message in state.history.since(self._length):
                self._take(message)
        else:
            self._make_anew(state)
        self._length = len(state.history)
        self._last = state.history[-1] if self._length else None
        self._edits = state.edits

    def _follows(self, state: State) -> bool:
        """Whether the state is the known one with more at its end. Histories only grow, so one check is enough."""
        if not self._begun or state.edits != self._edits or len(state.history) < self._length:
            return False
        if not self._length:
            return not state.history.begin
        return state.history.begin < self._length and state.history[self._length - 1] is self._last

    def _make_anew(self, state: State) -> None:
        again = self._begun and self._length <= len(state.history)
        folds = {edit.summary.id: edit for edit in state.edits if isinstance(edit, Fold)}
        cleared = {edit.id for edit in state.edits if isinstance(edit, Replace)}
        counted = TokenMeter(self.meter.fixed) if again else self.meter
        meter, self.meter = self.meter, counted
        counted.begin()
        self._cut()
        self._forget_all()
        replies, self.turn = self.replies, 0
        for message in view(state.history, state.edits):
            self._take(message, folds.get(message.id), live=False, cleared=message.id in cleared)
        self._close_gaps(state.history)
        self.recount()
        self.meter, self.replies, self._begun = meter, replies, True
        if again:
            meter.move(counted.size)

    def _close_gaps(self, history: History) -> None:
        ends = {group.last for group in self.groups}
        here: set[str] = set()
        after: dict[str, str] = {}
        first = last = ""
        for message in history:
            first = first or message.id
            if last:
                after[last] = message.id
            last = message.id if message.id in ends else ""
            if last:
                here.add(last)
        for at, (before, group) in enumerate(pairwise(self.groups), 1):
            if group.last in here:  # else it is forgotten itself
                group.first = after.get(before.last, group.first) if before.last in here else first
                self.groups.put(at, at + 1, group)

    def _forget_all(self) -> None:
        self.groups, self.fresh, self.media = GroupList(), [], 0
        self.old_size = self._newest_size = self._latest = 0
        self.border = self._passed = ""
        self.newest.clear()
        self.old.clear()
        self._results.clear()
        self._open.clear()

    def _take(self, message: Message, fold: Fold | None = None, *, live: bool = True, cleared: bool = False) -> None:
        item = ViewItem(message)
        item.cleared = cleared and item.size < WORTH_CLEARING
        self.media += media_in(message)
        match message:
            case Assistant():
                self.settle()
                self.replies += 1
                self.turn += 1
                self.replied_at = message.at
                self._latest = 0
                self.meter.reply(message, item.size, live=live)
                group = TurnGroup(kind_of(message), item)
                self.groups.append(group)
                self._open.update({call.id: (group, call) for call in message.calls})
            case ToolResult():
                self.meter.add(item.size)
                self._take_result(message, item)
            case User():
                self.meter.add(item.size)
                self.groups.append(TurnGroup(kind_of(message), item, fold))
            case _:
                assert_never(message)

    def _take_result(self, result: ToolResult, item: ViewItem) -> None:
        group, call = self._open.pop(result.call_id, (None, None))
        if group is None or call is None:  # its call is not in view: it will be shown as plain text
            self.groups.append(TurnGroup(GroupKind.NOTE, item))
            return
        item.tool = call.name or "unnamed"
        item.path, item.used = path_of(call), self.turn
        if item.path:
            self._touch(item)
        item.before = self.meter.size - item.size
        self._latest += 1
        group.add(item)
        self.fresh.append(item)
        self._results[result.id] = item

    def _touch(self, item: ViewItem) -> None:
        """Another tool, such as Edit, named the file of an earlier result."""
        for held in self.newest:
            if held.path == item.path and held.tool != item.tool:
                held.used = self.turn

    def settle(self) -> None:
        """The fresh results count as sent from here on, and begin to age."""
        for item in self.fresh:
            self._pass(item)
        self.fresh = []
        while self._too_many_are_new():
            self._age()

    def age_stale_results(self, model: str, rates: Price) -> None:
        """Those that are not worth what it costs to keep them."""
        for _ in range(self._count_stale(self.meter.scale(model), rates)):
            self._age()

    def _age(self) -> None:
        item = self.newest.popleft()
        self._newest_size -= item.size
        self.old.append(item)
        self.old_size += item.size

    def _count_stale(self, scale: TokenScale, rates: Price) -> int:
        movable = len(self.newest) - max(AT_LEAST, self._latest)
        if movable <= 0 or not rates.cache_read:
            return 0
        held = [
            HeldResult(scale.high(item.size), self.turn - item.used, bool(item.path))
            for item in islice(self.newest, movable)
        ]
        return count_stale_results(held, scale.high(self.meter.size), rates)

    def _pass(self, item: ViewItem) -> None:
        if not item.cleared and item.size >= WORTH_CLEARING:
            if not self.old and not self.newest:
                self.border = self._passed
            self.newest.append(item)
            self._newest_size += item.size
        self._passed = item.message.id

    def _too_many_are_new(self) -> bool:
        """Never those of the last reply: the model has not seen them yet."""
        number = len(self.newest)
        if number <= max(AT_LEAST, self._latest):
            return False
        return number > self.keep or self._newest_size > self.keep_size

    # --- applying edits at once ---

    def apply(self, edits: tuple[Edit, ...]) -> None:
        """Apply edits as the state will, if it accepts them: otherwise the next `see` notices."""
        for edit in edits:
            match edit:
                case Replace():
                    self._replace(edit)
                case Drop():
                    self._drop(set(edit.ids))
                    self._cut()
                case Fold():
                    self._fold(edit)
                    self._cut()
                case _:
                    assert_never(edit)
        self._edits = (*self._edits, *edits)

    def _cut(self) -> None:
        self.cuts += 1
        self._spans.clear()

    def _replace(self, edit: Replace) -> None:
        item = self._results.get(edit.id)
        if item is None or not isinstance(item.message, ToolResult):
            return
        self.media -= media_in(item.message)
        item.message = replace(item.message, content=edit.content)
        self.media += media_in(item.message)
        before, item.size = item.size, message_bytes(item.message)
        if item in self.fresh:
            self.meter.add(item.size - before)
            for later in self.fresh[self.fresh.index(item) + 1 :]:
                later.before += item.size - before
        else:
            self.meter.move(self.meter.size + item.size - before)
            self.cuts += 1
        item.cleared = item.size < WORTH_CLEARING  # else it was only shortened, and can be cleared later

    def _drop(self, ids: set[str]) -> None:
        left = GroupList()
        begin = ""  # of a gap
        for group in self.groups:
            gone = [item for item in group.items if item.message.id in ids]
            if gone:
                group.items = [item for item in group.items if item not in gone]
                self._take_out(gone)
            if not group.items:
                begin = begin or (group.first if left else "")
                continue
            group.first, begin = begin or group.first, ""
            left.append(group)
        self.groups = left

    def _fold(self, fold: Fold) -> None:
        span = self.span(fold.first, fold.last)
        if span is None:
            return
        start, end = span
        self._take_out([item for group in self.groups[start:end] for item in group.items])
        summary = ViewItem(fold.summary)
        self.groups.put(start, end, TurnGroup(kind_of(fold.summary), summary, fold))
        self.media += media_in(fold.summary)
        self.meter.add(summary.size)

    def _take_out(self, items: Iterable[ViewItem]) -> None:
        for item in items:
            self.media -= media_in(item.message)
            self.meter.remove(item.size)
            item.cleared = True
            self._results.pop(item.message.id, None)

    def recount(self) -> None:
        """After a cut in the middle: recompute positions and which results are old."""
        self.newest.clear()
        self.old.clear()
        self.old_size = self._newest_size = 0
        self.border = self._passed = ""
        self.fresh, fresh = [], self.fresh
        place = self.meter.size - sum([group.size for group in self.groups])
        waiting = set(map(id, fresh))
        for group in self.groups:
            for item in group.items:
                item.before = place
                place += item.size
                if item.tool and id(item) not in waiting:
                    self._pass(item)
        self.settle()
        self.fresh = fresh

    # --- queries ---

    def effect_of(self, edit: Replace) -> tuple[int, int]:
        item = self._results.get(edit.id)
        if item is None or not isinstance(item.message, ToolResult):
            return 0, 0
        return item.size, message_bytes(replace(item.message, content=edit.content))

    def span(self, first: str, last: str) -> tuple[int, int] | None:
        """The groups between two messages of the history. A found position stays valid until a cut."""
        if (known := self._spans.get((first, last))) is not None and self.groups.last(known[1] - 1) == last:
            return known
        found = self._find_span(first, last)
        if found is not None:
            self._spans[first, last] = found
        return found

    def _find_span(self, first: str, last: str) -> tuple[int, int] | None:
        start, end = self.groups.beginning(first), self.groups.ending(last)
        return (start, end + 1) if start is not None and end is not None and start <= end else None

    def tail(self, size: int) -> int:
        """Where the protected end begins: the last reply and everything after it, and as much more as fits (D-33)."""
        at, left, replied = len(self.groups), size, False
        while at:
            group = self.groups[at - 1]
            left -= group.size
            if replied and left < 0:
                break
            replied = replied or group.kind is GroupKind.TURN
            at -= 1
        return at

    def head(self) -> int:
        """Where the front ends: the first prompt, or the summary of everything before."""
        return 1 if self.groups and self.groups.kind(0) in (GroupKind.PROMPT, GroupKind.SUMMARY) else 0

    def messages(self) -> Iterator[Message]:
        for group in self.groups:
            yield from group.messages

    def newest_first(self) -> Iterator[ViewItem]:
        for group in reversed(self.groups):
            yield from reversed(group.items)


def kind_of(message: User | Assistant) -> GroupKind:
    if isinstance(message, Assistant):
        return GroupKind.TURN
    match message.origin:
        case Origin.PROMPT:
            return GroupKind.PROMPT
        case Origin.SUMMARY:
            return GroupKind.SUMMARY
        case _:
            return GroupKind.NOTE


def path_of(call: ToolCall) -> str:
    path = call.input.get("file_path")
    return path if isinstance(path, str) else ""


def media_in(message: Message) -> int:
    if isinstance(message, Assistant):
        return 0
    return sum([isinstance(part, Image | Document) for part in message.content])


def choose_cache_marks(scene: TurnGroups, broken: str = "") -> tuple[str, ...]:
    """`broken`: the message after which this request differs from the last."""
    found: list[str] = []
    replied = False
    for item in scene.newest_first():
        if isinstance(item.message, Assistant):
            replied = True
        elif not found or replied:
            found.append(item.message.id)
            if replied:
                break
    if broken:
        found[1:] = [broken]
    return tuple(dict.fromkeys([*found, scene.border] if scene.border else found))


SAID = "[The user's own words]\n"
LEFT_OUT_MARK = "[Left out: "
LEFT_OUT = LEFT_OUT_MARK + "{count} more messages of the user are not repeated here]"
LONGEST = 3  # one message may use a third of the budget: a pasted log must not push the rest out


def words_in(groups: Iterable[TurnGroup]) -> list[str]:
    """In order, including those that earlier summaries carried."""
    messages = [group.items[0].message for group in groups]
    return [text for message in messages if isinstance(message, User) for text in words_of(message)]


def words_of(message: User) -> list[str]:
    if message.origin is Origin.PROMPT:
        return [message.text] if message.text.strip() else []
    if message.origin is not Origin.SUMMARY:
        return []
    texts = [part.text for part in message.content if isinstance(part, Text)]
    return [text.removeprefix(SAID) for text in texts if text.startswith(SAID)]


def select_user_quotes(words: list[str], budget: int) -> tuple[Text, ...]:
    """The first prompt, which states the goal, then as many of the newest as fit; in their order."""
    most = budget // LONGEST
    short = [text if len(text) <= most else both_ends(text, most) for text in words]
    chosen: set[int] = set()
    for at in (0, *range(len(short) - 1, 0, -1)) if short else ():
        budget -= text_bytes(short[at])
        if chosen and budget < 0:
            break
        chosen.add(at)
    parts = [Text(SAID + short[at]) for at in sorted(chosen)]
    if len(chosen) < len(short):
        parts.insert(1, Text(LEFT_OUT.format(count=len(short) - len(chosen))))
    return tuple(parts)
