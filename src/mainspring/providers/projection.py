"""Project a history and its edits onto the parts of a request, with the bytes of each (laws 2 and 4, settled 23 and
24).

A request costs no more than its new parts: the bytes of every part are kept, and the parts of the last request are
extended if possible. If not (an edit, another model, a late result), all parts are placed again, with the bytes that
are known. Both ways give the same parts; a test checks that.

Images and documents are kept within the API's limits; a text replaces those that do not fit. As documented on
2026-11-15: images of four types, 5 MB each; 100 images and documents a request; 32 MB in all.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from mainspring.core.history import History
from mainspring.core.messages import (
    Assistant,
    Content,
    Document,
    Image,
    Message,
    RedactedThinking,
    ServerBlock,
    Stop,
    Text,
    Thinking,
)
from mainspring.core.value import Bundle
from mainspring.core.view import Edit, replaced_since, view, with_content
from mainspring.providers.message_order import (
    EARLIER,
    GO_ON,
    MessageOrder,
    Part,
    PlacedPart,
    PlacedToolResult,
    ProjectionTarget,
    ReplyRun,
    Role,
    split_reply_runs,
)
from mainspring.providers.prefix import ByteChunks

IMAGES: tuple[str, ...] = ("image/jpeg", "image/png", "image/gif", "image/webp")
DOCUMENTS: tuple[str, ...] = ("application/pdf",)
LARGEST_IMAGE = 5 * 1024 * 1024  # of base64, as the server counts
LARGEST_DOCUMENT = 20 * 1024 * 1024
MOST, MOST_BYTES = 100, 24 * 1024 * 1024  # the rest of the 32 MB is for the text

# If there is too much, more is removed than necessary: otherwise each new image would push one more out, and break the
# cached prefix with every request.
FEWER, FEWER_BYTES = MOST // 2, MOST_BYTES // 2

REMOVED = Text("[An image or document stood here. It was removed to make room for newer ones.]")


def replace_oversized_media(part: Content) -> Content:
    """The part itself, or a text in its place."""
    if isinstance(part, Text):
        return part
    image = isinstance(part, Image)
    kind, types = ("image", IMAGES) if image else ("document", DOCUMENTS)
    largest = LARGEST_IMAGE if image else LARGEST_DOCUMENT
    if part.media_type not in types:
        return Text(f"[This {kind} cannot be shown: its type is '{part.media_type[:60]}', not {', '.join(types)}.]")
    if len(part.data) > largest:
        return Text(f"[This {kind} cannot be shown: it is larger than {largest // 1024 // 1024} MB.]")
    if not part.data or not is_base64(part.data):
        return Text(f"[This {kind} cannot be shown: its data is damaged.]")
    return part


def is_base64(data: str) -> bool:
    try:
        binascii.a2b_base64(data, strict_mode=True)
    except ValueError:  # also for non-ASCII data
        return False
    return True


def too_many(sizes: Iterable[int]) -> int:
    """How many of the oldest must be removed. Adding to the end never restores one."""
    kept: list[int] = []
    gone = total = 0
    for size in sizes:
        kept.append(size)
        total += size
        if len(kept) > MOST or total > MOST_BYTES:
            while kept and (len(kept) > FEWER or total > FEWER_BYTES):
                total -= kept.pop(0)
                gone += 1
    return gone


def media_in(parts: Iterable[object]) -> list[int]:
    """The sizes of those that would be shown."""
    return [len(part.data) for part in parts if isinstance(part, Image | Document) and media_fits(part)]


def media_fits(part: Image | Document) -> bool:
    largest = LARGEST_IMAGE if isinstance(part, Image) else LARGEST_DOCUMENT
    return len(part.data) <= largest


def without_oldest(parts: tuple[Content, ...], gone: int) -> tuple[Content, ...]:
    """The parts with the first `gone` images and documents replaced."""
    kept: list[Content] = []
    for part in parts:
        if gone and isinstance(part, Image | Document) and media_fits(part):
            gone -= 1
            kept.append(REMOVED)
        else:
            kept.append(part)
    return tuple(kept)


# A part, and the form of the one before it; None: it is the first. The protocol defines the forms: parts of one form
# are encoded alike, and so are the bytes between two parts of given forms.
Encode = Callable[[PlacedPart, str | None], bytes]
Form = Callable[[PlacedPart], str]

# The bytes of each part by the id of its content, with their source. Made for one use: a row keeps the objects alive
# that the ids belong to.
KnownParts = dict[int, tuple[PlacedPart, str | None, bytes]]


def role_of(placed: PlacedPart) -> str:
    return placed.role


class ProjectedParts(Bundle):
    chunks: ByteChunks  # one per part, to be joined; the projection keeps using this object
    owners: list[str]  # the id of each part's message
    thinking: bool  # whether thinking may be requested
    unfinished: bool  # a text was added at the end, which the next request may not repeat
    form: str | None  # of the last part
    media: int  # bytes of the chunks that are images and documents
    size: int  # bytes of all chunks
    settled: int  # chunks before this one stay unchanged in this object, whatever is projected next
    gone: int  # images and documents that were removed for newer ones
    found: dict[str, int]  # cache of positions where an owner's settled chunks end; -1: nowhere


class _Saved(Bundle):
    length: int
    size: int
    media: int
    role: Role | None
    form: str | None
    thinks: bool | None


class PartList:
    """Parts in order, and their bytes."""

    def __init__(self, encode: Encode, form_of: Form, gone: int) -> None:
        self.chunks = ByteChunks()
        self.size = 0  # bytes of all of them
        self.owners: list[str] = []
        self._parts: list[Part] = []  # these two are the sources of the chunks: with tuples of them, or a dict, a
        self._replied = bytearray()  # long session would need more memory for its bookkeeping than for its messages
        self.media: list[int] = []  # sizes of the images and documents
        self.gone = gone  # how many of the oldest of these are removed
        self.role: Role | None = None
        self.form: str | None = None
        self.thinks: bool | None = None  # the first reply since a user message begins with thinking; None: no reply yet
        self.known: KnownParts = {}  # for the parts that are placed now
        self._encode = encode
        self._form_of = form_of

    def add(self, placed: PlacedPart) -> None:
        if self.role is None and placed.role == "assistant":
            self.add(PlacedPart("user", "", EARLIER))
        placed = self._with_room_for_media(placed)
        if placed.role != self.role:
            self._change_role(placed.part)
        chunk = self._bytes(placed)
        self.chunks.append(chunk)
        self.size += len(chunk)
        self.owners.append(placed.owner)
        self._parts.append(placed.part)
        self._replied.append(placed.role == "assistant")
        self.role, self.form = placed.role, self._form_of(placed)

    def _change_role(self, part: Part) -> None:
        """A tool loop continues while user messages contain only results; its first reply decides whether the loop
        thinks.
        """
        if self.role == "user":
            if self.thinks is None:
                self.thinks = isinstance(part, Thinking | RedactedThinking)
        elif not isinstance(part, PlacedToolResult):
            self.thinks = None

    def _bytes(self, placed: PlacedPart) -> bytes:
        known = self.known.get(key_of(placed.part))
        if known is not None and known[0] == placed and known[1] == self.form:
            return known[2]
        return self._encode(placed, self.form)

    def known_from(self, begin: int) -> KnownParts:
        """The chunks from this one on."""
        known: KnownParts = {}
        form = self._form_of(self._placed(begin - 1)) if begin else None
        for at, chunk in enumerate(self.chunks.since(begin), begin):
            placed = self._placed(at)
            known[key_of(placed.part)] = (placed, form, chunk)
            form = self._form_of(placed)
        return known

    def _placed(self, at: int) -> PlacedPart:
        return PlacedPart("assistant" if self._replied[at] else "user", self.owners[at], self._parts[at])

    def _with_room_for_media(self, placed: PlacedPart) -> PlacedPart:
        part = placed.part
        if isinstance(part, PlacedToolResult):
            if found := media_in(part.content):
                gone = self.gone - len(self.media)
                self.media += found
                if gone > 0:
                    return replace(placed, part=replace(part, content=without_oldest(part.content, gone)))
        elif isinstance(part, Image | Document) and (found := media_in((part,))):
            self.media += found
            if len(self.media) <= self.gone:
                return replace(placed, part=REMOVED)
        return placed

    def save(self) -> _Saved:
        return _Saved(len(self.chunks), self.size, len(self.media), self.role, self.form, self.thinks)

    def rewind(self, saved: _Saved) -> None:
        self.chunks.cut(saved.length)
        del self.owners[saved.length :], self.media[saved.media :]
        del self._parts[saved.length :], self._replied[saved.length :]
        self.size, self.role, self.form, self.thinks = saved.size, saved.role, saved.form, saved.thinks


def key_of(part: Part) -> int:
    return id(part.content if isinstance(part, PlacedToolResult) else part)


class _Last(Bundle):
    """The sources of the row."""

    history: History
    edits: tuple[Edit, ...]
    target: ProjectionTarget


class GrowingPartList:
    """A conversation as one target sees it: extended if possible, otherwise placed again."""

    def __init__(self, encode: Encode, form_of: Form) -> None:
        self._encode = encode
        self._form_of = form_of
        self._last: _Last | None = None
        self._begin_anew(0)

    def _begin_anew(self, gone: int) -> None:
        self._row = PartList(self._encode, self._form_of, gone)
        self._settled = self._row.save()  # no changes before this position
        self._changed = 0  # no changes before this position since the last request
        self._found: dict[str, int] = {}
        self._tail: list[Message] = []  # the messages after that, in the current view,
        self._tail_ids: set[str] = set()  # what they add to these two:
        self._tail_loose: set[str] = set()
        self._complete = False  # and nothing that follows them changes their parts, if a reply follows
        self._ids: set[str] = set()  # of the calls before that,
        self._loose: set[str] = set()  # and results without a call, or changed ones
        self._unfinished = False

    @property
    def thinks(self) -> bool | None:
        return self._row.thinks

    def known_parts(self, *, new: bool = False) -> KnownParts:
        """`new`: without those before the last request."""
        return self._row.known_from(self._changed if new else 0)

    def follow(
        self, history: History, edits: tuple[Edit, ...], target: ProjectionTarget, other: GrowingPartList | None = None
    ) -> None:
        """`other`: a list that has just followed the same conversation for another target, so most parts have the same
        bytes.
        """
        if not self._extend(history, edits, target, other):
            self._rebuild(history, edits, target, other)
        self._row.known = {}
        self._last = _Last(history, edits, target)

    def project_parts(self, *, thinking: bool) -> ProjectedParts:
        row = self._row
        media = sum(row.media[row.gone :])
        settled = self._settled.length
        return ProjectedParts(
            row.chunks,
            row.owners,
            thinking,
            self._unfinished,
            row.form,
            media,
            row.size,
            settled,
            row.gone,
            self._found,
        )

    def _extend(
        self, history: History, edits: tuple[Edit, ...], target: ProjectionTarget, other: GrowingPartList | None
    ) -> bool:
        last = self._last
        if last is None or target != last.target or not history.extends(last.history):
            return False
        replaced = replaced_since(last.edits, edits)
        if replaced is None:
            return False
        new = list(history.since(len(last.history)))
        contents = {edit.id: edit.content for edit in replaced}
        if self._append(new, contents, target, other):
            return too_many(self._row.media) == self._row.gone
        messages = with_contents([*self._tail, *new], contents)
        if messages is None:
            return False
        placing = MessageOrder(messages, target, self._ids, self._loose)
        if not placing.is_self_contained:
            return False
        self._changed = self._settled.length
        known = self._row.known_from(self._changed)
        self._row.known = known | other.known_parts(new=True) if other is not None else known
        self._row.rewind(self._settled)
        self._place(messages, placing)
        return too_many(self._row.media) == self._row.gone

    def _append(
        self,
        new: list[Message],
        contents: dict[str, tuple[Content, ...]],
        target: ProjectionTarget,
        other: GrowingPartList | None,
    ) -> bool:
        """The usual case: the next reply and its results, behind parts that stay as they are."""
        if not (self._complete and new and isinstance(new[0], Assistant)):
            return False
        messages = with_contents(new, contents)
        if messages is None:
            return False
        placing = MessageOrder(messages, target, self._ids, self._loose)
        if not (placing.is_self_contained and placing.is_apart_from(self._tail_ids, self._tail_loose)):
            return False
        self._ids |= self._tail_ids
        self._loose |= self._tail_loose
        self._changed = len(self._row.chunks)
        self._row.known = other.known_parts(new=True) if other is not None else {}
        self._place(messages, placing)
        return True

    def _rebuild(
        self, history: History, edits: tuple[Edit, ...], target: ProjectionTarget, other: GrowingPartList | None
    ) -> None:
        messages, before = list(view(history, edits)), self._row  # which keeps the objects behind `known` alive
        known = before.known_from(0) | (other.known_parts() if other is not None else {})
        self._begin_anew(0)
        self._row.known = known
        self._place(messages, MessageOrder(messages, target, self._ids, self._loose))
        if gone := too_many(self._row.media):
            self._begin_anew(gone)
            self._row.known = known
            self._place(messages, MessageOrder(messages, target, self._ids, self._loose))

    def _place(self, messages: list[Message], placing: MessageOrder) -> None:
        """Place the messages after the settled ones. All but the last run of them become settled."""
        row, split = self._row, split_reply_runs(messages)
        for run in split[:-1]:
            for placed in placing.place(run, ends=False):
                row.add(placed)
        self._settled = row.save()
        row.chunks.pack(self._settled.length)
        settled_ids, settled_loose = set(placing.placed_ids), set(placing.loose_ids)
        placing.unanswered = False
        self._tail, paused = [], False
        for run in split[-1:]:
            self._tail = [*run.replies, *run.others]
            last: PlacedPart | None = None
            for last in placing.place(run, ends=True):
                row.add(last)
            paused = is_paused(run, last)
        self._ids |= settled_ids
        self._loose |= settled_loose
        self._tail_ids, self._tail_loose = placing.placed_ids, placing.loose_ids
        made_up = row.role != "user" and not paused
        if made_up:
            row.add(PlacedPart("user", "", GO_ON))
        self._unfinished = made_up or placing.unanswered
        self._complete = not self._unfinished and bool(split) and bool(split[-1].others)


def with_contents(messages: list[Message], contents: dict[str, tuple[Content, ...]]) -> list[Message] | None:
    """The messages with these contents: most likely results that were too large to show. None if one of them belongs
    to another message."""
    if not contents:
        return messages
    if not contents.keys() <= {message.id for message in messages}:
        return None
    return [with_content(message, contents) for message in messages]


class RequestProjection:
    """One conversation's requests, as they grow.

    With budgeted thinking, a tool loop that began without thinking continues without it. Then the request shows none at
    all, and comes from a separate row. The first row is still extended each time: it knows when the next loop begins,
    which may think again. So neither is ever rebuilt because of the other.
    """

    def __init__(self, encode: Encode, form_of: Form = role_of) -> None:
        self._encode = encode
        self._form_of = form_of
        self._row = GrowingPartList(encode, form_of)
        self._without_thinking: GrowingPartList | None = None

    def project(self, history: History, edits: tuple[Edit, ...], target: ProjectionTarget) -> ProjectedParts:
        row, thinking = self._row, target.thinking
        row.follow(history, edits, target)
        if target.leads and thinking and row.thinks is False:
            thinking = False
            if self._without_thinking is None:
                self._without_thinking = GrowingPartList(self._encode, self._form_of)
            asked, row = row, self._without_thinking
            row.follow(history, edits, replace(target, thinking=False), asked)
        return row.project_parts(thinking=thinking)


def is_paused(run: ReplyRun, last: PlacedPart | None) -> bool:
    """The turn ends with server-side work: it is sent back unchanged, and the model continues it."""
    paused = bool(run.replies) and run.replies[-1].stop is Stop.PAUSE_TURN and not run.others
    return paused and last is not None and isinstance(last.part, ServerBlock)
