"""Detect prefix breaks: each request extends the last, block by block, or we report what broke it and the cost (law 4).

The prompt cache needs a stable prefix. A break is sometimes intended, as for a summary; it is never silent.

`ByteChunks` keeps the bytes of a request's parts, in order. Settled chunks are joined: so a request with thousands of
parts consists of few pieces, which take hardly more memory than their bytes.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import islice, takewhile

from mainspring.core.models import model_named
from mainspring.core.reasons import BreakReason
from mainspring.core.value import Bundle
from mainspring.providers.base import Conversation, PrefixBreak

PACK = 64  # chunks that are joined
LARGE = 64 * 1024  # bytes from which on they are not joined: it would copy much for little


class ByteChunks:
    def __init__(self) -> None:
        self.packs: list[bytes] = []
        self.packed = 0  # chunks that are in packs,
        self._begins: list[int] = []  # the first chunk of each pack,
        self._ends = array("I")  # and the end of each in its pack
        self._rest: list[bytes] = []

    def __len__(self) -> int:
        return self.packed + len(self._rest)

    def __getitem__(self, at: int) -> bytes:
        if at >= self.packed:
            return self._rest[at - self.packed]
        pack = self.pack_of(at)
        begin = 0 if at == self._begins[pack] else self._ends[at - 1]
        return self.packs[pack][begin : self._ends[at]]

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.since(0))

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, ByteChunks) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # it changes

    def append(self, chunk: bytes) -> None:
        self._rest.append(chunk)

    def cut(self, length: int) -> None:
        """Keep this many chunks. Packed ones cannot be removed."""
        del self._rest[length - self.packed :]

    def pack(self, settled: int) -> None:
        """Chunks before this one will not change any more."""
        while settled - self.packed >= PACK:
            some = self._rest[:PACK]
            del self._rest[:PACK]
            if sum(map(len, some)) < LARGE:
                self._add(some)
            else:
                for chunk in some:
                    self._add([chunk])

    def _add(self, some: list[bytes]) -> None:
        self.packs.append(b"".join(some))
        self._begins.append(self.packed)
        end = 0
        for chunk in some:
            end += len(chunk)
            self._ends.append(end)
        self.packed += len(some)

    def pack_of(self, at: int) -> int:
        """The pack of a chunk, by binary search; importing `bisect` would cost more at every start."""
        low, high = 0, len(self._begins)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._begins[middle] <= at else (low, middle)
        return low

    def within(self, pack: int) -> range:
        """The chunks of a pack."""
        end = self._begins[pack + 1] if pack + 1 < len(self._begins) else self.packed
        return range(self._begins[pack], end)

    def since(self, begin: int, end: int | None = None) -> list[bytes]:
        """From this chunk up to another."""
        end = len(self) if end is None else end
        if begin >= self.packed:
            return self._rest[begin - self.packed : end - self.packed]
        unpacked = [self[at] for at in range(begin, min(end, self.packed))]
        first = max(0, begin - self.packed)
        return [*unpacked, *islice(self._rest, first, max(first, end - self.packed))]


CHARS_PER_TOKEN = 4  # of JSON; only used for an estimate


class RequestParts(Bundle):
    """The parts of a request's messages. A request shares its chunks with the next one, which changes nothing before
    `settled`: so only the chunks after that must be kept and compared.
    """

    row: ByteChunks
    settled: int
    tail: list[bytes]

    @property
    def all(self) -> list[bytes]:
        return [*self.row.since(0, self.settled), *self.tail]


def make_request_parts(row: ByteChunks, settled: int) -> RequestParts:
    return RequestParts(row, settled, row.since(settled))


class SentPrefix(Bundle):
    """A request as the cache sees it: without breakpoints, and without settings that do not matter to it."""

    model: str
    thinking: bytes  # the setting: changing it invalidates the cached messages
    tools: list[bytes]
    system: list[bytes]
    parts: RequestParts
    conversation: Conversation
    unfinished: bool  # a text was added at its end
    gone: int = 0  # images and documents that were removed,
    cured: int = 0  # and how often a part was changed after a refusal
    automatic: bool = False  # the server caches whole prompts, without breakpoints

    @property
    def fixed(self) -> int:
        return len(self.tools) + len(self.system)


def find_prefix_break(last: SentPrefix | None, now: SentPrefix) -> PrefixBreak | None:
    """None if `now` extends `last`."""
    if last is None:
        return None
    block = first_difference(last, now)
    if block is None:
        return None
    tokens = min(measure_from_block(last, block), measure_from_block(now, block)) // CHARS_PER_TOKEN
    rates = model_named(now.model).price.at(tokens)
    price = tokens * max(0, rates.cache_write - rates.cache_read)
    reason = find_break_reason(last, now)
    words = describe_break_reason(reason, last, now)
    return PrefixBreak(block, describe_break_place(last, now, block), words, tokens, price, reason, now.automatic)


def first_difference(last: SentPrefix, now: SentPrefix) -> int | None:
    if last.model != now.model:
        return 0  # a cache belongs to one model
    for before, after, offset in (
        (last.tools, now.tools, 0),
        (last.system, now.system, len(last.tools)),
    ):
        if before != after:
            return offset + count_same_blocks(before, after)
    if last.thinking != now.thinking:
        return last.fixed
    old, new = last.parts, now.parts
    end = old.settled + len(old.tail)
    if new.row is old.row and new.row.since(old.settled, end) == old.tail:
        return None
    found = count_same_blocks(old.all, new.all)
    return last.fixed + found if found < end else None


def count_same_blocks(before: list[bytes], after: list[bytes]) -> int:
    """The number of equal blocks at the beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))


def measure_from_block(sent: SentPrefix, block: int) -> int:
    return sum(map(len, (*sent.tools, *sent.system, *sent.parts.all)[block:]))


def describe_break_place(last: SentPrefix, now: SentPrefix, block: int) -> str:
    if last.model != now.model:
        return "the whole request"
    if block < len(now.tools):
        return f"tool {block}"
    if block < now.fixed:
        return f"system block {block - len(now.tools)}"
    return f"block {block - now.fixed} of the messages"


def find_break_reason(last: SentPrefix, now: SentPrefix) -> BreakReason:
    """The event that caused the break; `unknown` if there was none, which would be a bug."""
    reasons: tuple[tuple[bool, BreakReason], ...] = (
        (last.model != now.model, "model_changed"),
        (last.tools != now.tools, "tools_changed"),
        (last.system != now.system, "system_changed"),
        (last.thinking != now.thinking, "thinking_changed"),
        (last.conversation.edits != now.conversation.edits, "context_edited"),
        (not now.conversation.history.extends(last.conversation.history), "history_replaced"),
        (last.cured != now.cured, "request_repaired"),
        (last.gone != now.gone, "media_dropped"),
        (last.unfinished, "turn_completed"),
    )
    for is_so, reason in reasons:
        if is_so:
            return reason
    return "unknown"


def describe_break_reason(reason: BreakReason, last: SentPrefix, now: SentPrefix) -> str:
    if reason == "model_changed":
        return f"the model changed from '{last.model}' to '{now.model}'"
    return BREAK_REASONS[reason]


BREAK_REASONS: dict[BreakReason, str] = {
    "tools_changed": "the set of tools changed",
    "system_changed": "the system text changed",
    "thinking_changed": "thinking was switched",
    "context_edited": "the context was edited",
    "history_replaced": "the conversation was resumed elsewhere",
    "request_repaired": "the server refused a part of it, which was changed",
    "media_dropped": "old images or documents were left out to make room for new ones",
    "turn_completed": "an unfinished turn was completed",
    "unknown": "",
}
