"""What the model sees of a history: a pure function of the history and its edits.

Context layers never change a message. They add edits, which name messages by id; the full history stays for the
journal, for forks and for the user (settled 1).
"""

from __future__ import annotations

from typing import assert_never

from msgspec.structs import replace

from mainspring.core.history import History
from mainspring.core.messages import Content, Message, ToolResult, User
from mainspring.core.value import Bundle, Value


class Drop(Value):
    """Remove these messages from the view."""

    ids: tuple[str, ...]


class Replace(Value):
    """Show this tool result with other content, in its position and with its pair."""

    id: str
    content: tuple[Content, ...]


class Fold(Value):
    """Show the span from `first` to `last` as one summary. A later fold replaces the earlier ones it covers."""

    first: str
    last: str
    summary: User


Edit = Drop | Replace | Fold


def view(history: History, edits: tuple[Edit, ...]) -> tuple[Message, ...]:
    """Total function: an edit that names messages missing from this history does what it still can."""
    if not edits:
        return tuple(history)
    spans = _spans(history, edits)
    dropped = {gone for edit in edits if isinstance(edit, Drop) for gone in edit.ids}
    replaced = {edit.id: edit.content for edit in edits if isinstance(edit, Replace)}
    starting: dict[int, list[_Span]] = {}
    for span in spans:
        starting.setdefault(span.start, []).append(span)
    seen: list[Message] = []
    covered_until = 0
    for position in range(history.begin, len(history) + 1):
        for span in starting.get(position, ()):
            covered_until = max(covered_until, span.end)
            if span.fold.summary.id not in dropped:
                seen.append(span.fold.summary)
        if position < covered_until or position == len(history):
            continue
        message = history[position]
        if message.id not in dropped:
            seen.append(with_content(message, replaced))
    return tuple(seen)


def replaced_since(before: tuple[Edit, ...], now: tuple[Edit, ...]) -> tuple[Replace, ...] | None:
    """The added edits, if they only replace the content of results, so that no message left the view. None: more has
    changed."""
    if now is before:
        return ()
    if now[: len(before)] != before:
        return None
    added = [edit for edit in now[len(before) :] if isinstance(edit, Replace)]
    return tuple(added) if len(before) + len(added) == len(now) else None


def with_content(message: Message, replaced: dict[str, tuple[Content, ...]]) -> Message:
    if isinstance(message, ToolResult) and message.id in replaced:
        return replace(message, content=replaced[message.id])
    return message


def prune(history: History, edits: tuple[Edit, ...]) -> tuple[Edit, ...]:
    """Reduce the edits without changing the view: forget those about messages inside a fold, and those that a later one
    undid.

    The folds come in the order of their positions, which a history that has forgotten them cannot tell. This keeps the
    edits, and with them a checkpoint, as small as the window, whatever the session's length.
    """
    spans = _spans(history, edits)
    live = {id(span.fold) for span in spans}  # by identity: of two equal folds, one may be covered
    covered = {history[position].id for span in spans for position in range(span.start, span.end)}
    settled = covered | {gone for edit in edits if isinstance(edit, Drop) for gone in edit.ids}
    kept: list[Edit] = []
    for edit in reversed(edits):
        match edit:
            case Fold():
                matters = id(edit) in live
                live.discard(id(edit))
            case Replace():
                matters = edit.id not in settled
                settled.add(edit.id)  # the last one counts
            case Drop():
                matters = not covered.issuperset(edit.ids)
                covered.update(edit.ids)
            case _:
                assert_never(edit)
        if matters:
            kept.append(edit)
    in_place = iter([span.fold for span in spans])
    return tuple([next(in_place) if isinstance(edit, Fold) else edit for edit in reversed(kept)])


def out_of_view(history: History, edits: tuple[Edit, ...]) -> int:
    """How many messages at the front no view will show again, because a summary replaces them. Never includes the last
    message: checkpoints and readers identify the end of a history by it."""
    covered = history.begin
    for span in _spans(history, edits):
        if span.start > covered:
            break
        covered = max(covered, span.end)
    return max(history.begin, min(covered, len(history) - 1))


def from_the_front(history: History, edits: tuple[Edit, ...], new: tuple[Edit, ...]) -> tuple[Edit, ...]:
    """Adapt new edits to the whole history: a fold from the first message in memory also covers the forgotten ones
    before it, so it begins where their summary begins."""
    here = next((message.id for message in history), None)
    if not any(isinstance(edit, Fold) and edit.first == here for edit in new):
        return new
    front = next((span.fold.first for span in _spans(history, edits) if span.start == history.begin), here)
    return tuple([replace(e, first=front) if isinstance(e, Fold) and e.first == here else e for e in new])


class _Span(Bundle):
    start: int
    end: int  # exclusive
    fold: Fold


def _spans(history: History, edits: tuple[Edit, ...]) -> list[_Span]:
    """The positions of the folds that still count, in order."""
    folds = [edit for edit in edits if isinstance(edit, Fold)]
    ends = {end for fold in folds for end in (fold.first, fold.last)}
    numbered = enumerate(history, history.begin) if ends else ()
    places = {message.id: place for place, message in numbered if message.id in ends}
    spans: list[_Span] = []
    begin = history.begin
    for fold in folds:
        # A history that was loaded from a checkpoint, or has forgotten messages, may begin after the span, or in the
        # middle of it: then the summary comes first and covers what is left of its span.
        new = _Span(places.get(fold.first, begin), places.get(fold.last, begin - 1) + 1, fold)
        if new.end >= new.start:  # else its end is missing: better too much in view than a gap
            spans = [*(_uncovered(spans, new, places) if new.end > begin else spans), new]
    return sorted(spans, key=lambda span: (span.start, span.fold.first in places))


def _uncovered(spans: list[_Span], new: _Span, places: dict[str, int]) -> list[_Span]:
    """The spans that the new one does not cover.

    The positions of messages that are not in memory are unknown. But folds that begin with one are in the order of
    their positions (`prune`), so the new one begins before those that follow one with the same beginning
    (`from_the_front`), and before no other: two folds side by side, the last message of the second one still in memory,
    are two.
    """
    kept: list[_Span] = []
    begun = False
    for span in spans:
        here = span.fold.first in places
        begun = begun or (not here and span.fold.first == new.fold.first)
        if span.end > new.end or not (new.start <= span.start if here else begun):
            kept.append(span)
    return kept
