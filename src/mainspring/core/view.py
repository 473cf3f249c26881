"""What the model sees of a history: a pure function of the history and the edits made to it.

Context layers never touch a message. They leave edits, which name messages by id; the full history stays
for the journal, for a fork and for people (settled 1).
"""

from __future__ import annotations

from typing import assert_never

from msgspec.structs import replace

from mainspring.core.history import History
from mainspring.core.messages import Content, Message, ToolResult, User
from mainspring.core.value import Bundle, Value


class Drop(Value):
    """These messages leave the view."""

    ids: tuple[str, ...]


class Replace(Value):
    """This tool result stands with other content, in its place and with its pair."""

    id: str
    content: tuple[Content, ...]


class Fold(Value):
    """The span from `first` to `last` stands as one summary. A later fold swallows the earlier ones it covers."""

    first: str
    last: str
    summary: User


Edit = Drop | Replace | Fold


def view(history: History, edits: tuple[Edit, ...]) -> tuple[Message, ...]:
    """Total: an edit that names messages which this history does not hold does what it still can."""
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
    """The edits that were added, if they only replace the content of results: nothing left the view by them. None: more
    than that has changed."""
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
    """Fewer edits, same view: forgets those about messages that a fold has swallowed, and those that a later one undid.

    The folds come in the order of their places, which a history that has forgotten them cannot tell. It
    keeps the edits, and with them a checkpoint, as small as the window, whatever the session's length.
    """
    spans = _spans(history, edits)
    live = {id(span.fold) for span in spans}  # not by value: of two alike one was swallowed
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
    """How many messages at the front no view will show again: they stand behind a summary, whatever is added. The last
    message is never among them: checkpoints and readers know the end of a history by it."""
    covered = history.begin
    for span in _spans(history, edits):
        if span.start > covered:
            break
        covered = max(covered, span.end)
    return max(history.begin, min(covered, len(history) - 1))


def from_the_front(history: History, edits: tuple[Edit, ...], new: tuple[Edit, ...]) -> tuple[Edit, ...]:
    """New edits as a whole history would have them: a fold from the first message that is still here also covers what
    was forgotten before it, so it begins where the summary of that begins."""
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
    """Where the folds that still count stand, in order."""
    folds = [edit for edit in edits if isinstance(edit, Fold)]
    ends = {end for fold in folds for end in (fold.first, fold.last)}
    numbered = enumerate(history, history.begin) if ends else ()
    places = {message.id: place for place, message in numbered if message.id in ends}
    spans: list[_Span] = []
    begin = history.begin
    for fold in folds:
        # A history that was loaded from a checkpoint, or has forgotten, may begin after the span, or in the middle of
        # it: then the summary stands at the front, for whatever of its span is there.
        new = _Span(places.get(fold.first, begin), places.get(fold.last, begin - 1) + 1, fold)
        if new.end >= new.start:  # else its end is not here: better too much in view than a hole
            spans = [*(_uncovered(spans, new, places) if new.end > begin else spans), new]
    return sorted(spans, key=lambda span: (span.start, span.fold.first in places))


def _uncovered(spans: list[_Span], new: _Span, places: dict[str, int]) -> list[_Span]:
    """Those that the new one does not swallow.

    Where messages stood that are not here is not known. But folds that begin with one are in the order of their places
    (`prune`), so the new one begins before those that follow one with the same beginning (`from_the_front`), and
    before no other: two folds side by side, the last message of the second one still here, are two.
    """
    kept: list[_Span] = []
    begun = False
    for span in spans:
        here = span.fold.first in places
        begun = begun or (not here and span.fold.first == new.fold.first)
        if span.end > new.end or not (new.start <= span.start if here else begun):
            kept.append(span)
    return kept
