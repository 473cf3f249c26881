"""Compare two sessions: the first difference of what was said and decided, and what each cost and led to.

    found = compare_sessions(file_a, file_b)
    found.same, found.first, found.a.cost, found.b.outcome

Ids, times, tokens, the names of models and reminders about the surroundings (the date) are not compared: they say
nothing about what happened. If one session is a
fork of the other, or both are forks of a third, the copied part is left out on both sides, so that figures are those of
what came after it.
"""

from __future__ import annotations

from msgspec import Struct

from mainspring.context.attachments import MARKER, AttachmentKind
from mainspring.core.messages import Origin
from mainspring.core.money import Usage
from mainspring.secrets.redaction import redact
from mainspring.sessions.paths import Place
from mainspring.viewer.spans import make_label
from mainspring.viewer.transcript import ItemKind, Transcript, TranscriptItem, read_transcript

SURROUNDINGS = f'<{MARKER} kind="{AttachmentKind.ENVIRONMENT}"'
SHOWN = 160  # characters of each side of a difference
BEFORE = 30  # characters shown before the first one that differs
ANSWER = 400  # characters of the last answer
UNFINISHED = "unfinished"  # the outcome of a session whose last run has no recorded end


class SessionFigures(Struct):
    """One side of a comparison, without the part that both have in common because one is a fork of the other."""

    id: str
    file: str
    turns: int
    runs: int
    calls: int  # tool calls
    tokens_in: int  # with those from the cache
    tokens_out: int
    cost: int  # nano-dollars
    unpriced: int  # replies without a known price
    models: list[str]
    outcome: str  # terminal reason and cause of the last run; empty: nothing happened after the common part
    answer: str  # the last text of the model, shortened
    notes: list[str]  # what could not be read


class SessionDifference(Struct):
    """What one session has at the first place where they differ, and what the other has; empty: nothing more."""

    turn_a: int  # over the whole session
    turn_b: int
    kind_a: str
    kind_b: str
    a: str
    b: str


class SessionComparison(Struct):
    a: SessionFigures
    b: SessionFigures
    first: SessionDifference | None  # None: they are the same
    shared_turns: int = 0  # turns that one has copied from the other

    @property
    def same(self) -> bool:
        return self.first is None


def compare_sessions(a: Place, b: Place) -> SessionComparison:
    """Raises OSError if a file cannot be read, UsageError if it contains no session."""
    return compare_transcripts(read_transcript(a), read_transcript(b))


def compare_transcripts(a: Transcript, b: Transcript) -> SessionComparison:
    begin_a, begin_b = find_fork_point(a.items, b.items)
    rest_a, rest_b = a.items[begin_a:], b.items[begin_b:]
    shared = a.items[begin_a - 1].turn if begin_a else 0
    return SessionComparison(
        sum_up(a, begin_a), sum_up(b, begin_b), find_first_difference(rest_a, rest_b), shared_turns=shared
    )


def find_fork_point(a: list[TranscriptItem], b: list[TranscriptItem]) -> tuple[int, int]:
    """Where each goes on after the part that one has copied. Scripted sessions may use the same ids for other messages,
    so some content must be the same, too; not all of it, because a fork has the view of its source."""
    if not any(item.copied for item in (*a[:1], *b[:1])):
        return 0, 0
    places = {item.id: place for place, item in enumerate(a) if item.id}
    shared = [
        (places[item.id], place)
        for place, item in enumerate(b)
        if item.id in places and (item.copied or a[places[item.id]].copied)
    ]
    if not any(a[place].words == b[other].words for place, other in shared):
        return 0, 0
    begin_a, begin_b = shared[-1][0] + 1, shared[-1][1] + 1
    return skip_decisions(a, begin_a, b), skip_decisions(b, begin_b, a)


def skip_decisions(items: list[TranscriptItem], begin: int, others: list[TranscriptItem]) -> int:
    """A fork has copied messages without the decisions between them: the end of a run, or a compaction whose summary it
    has copied, too, is no difference."""
    copied = {"", *[item.id for item in others if item.copied]}
    while begin < len(items) and len(copied) > 1 and is_copied_decision(items[begin], copied):
        begin += 1
    return begin


def is_copied_decision(item: TranscriptItem, copied: set[str]) -> bool:
    return item.kind is ItemKind.END or (item.kind is ItemKind.COMPACTION and item.id in copied)


def find_first_difference(a: list[TranscriptItem], b: list[TranscriptItem]) -> SessionDifference | None:
    a, b = [item for item in a if not is_surroundings(item)], [item for item in b if not is_surroundings(item)]
    for one, other in zip(a, b, strict=False):
        if (one.kind, one.about, one.words) != (other.kind, other.about, other.words):
            return describe_difference(one, other)
    if len(a) == len(b):
        return None
    place = min(len(a), len(b))
    return describe_difference(a[place] if place < len(a) else None, b[place] if place < len(b) else None)


def is_surroundings(item: TranscriptItem) -> bool:
    """The date and the like: they differ from one session to the next."""
    return item.kind is ItemKind.MESSAGE and item.about == Origin.ATTACHMENT and item.words.startswith(SURROUNDINGS)


def describe_difference(a: TranscriptItem | None, b: TranscriptItem | None) -> SessionDifference:
    words_a, words_b = format_item(a), format_item(b)
    alike = a is not None and b is not None and a.kind is b.kind
    begin = max(0, find_common_length(words_a, words_b) - BEFORE) if alike else 0
    return SessionDifference(
        a.turn if a is not None else 0,
        b.turn if b is not None else 0,
        a.kind if a is not None else "",
        b.kind if b is not None else "",
        shorten_from(words_a, begin),
        shorten_from(words_b, begin),
    )


def format_item(item: TranscriptItem | None) -> str:
    """Redacted as a whole, so that no half of a secret is left when it is cut."""
    if item is None:
        return ""
    shows_about = item.kind in (ItemKind.RESULT, ItemKind.MESSAGE) and item.about
    return redact(f"{item.about}: {item.words}" if shows_about else item.words)


def find_common_length(a: str, b: str) -> int:
    return next(
        (place for place, (one, other) in enumerate(zip(a, b, strict=False)) if one != other), min(len(a), len(b))
    )


def shorten_from(text: str, begin: int) -> str:
    return f"…{make_label(text[begin:], SHOWN)}" if begin else make_label(text, SHOWN)


def sum_up(transcript: Transcript, begin: int) -> SessionFigures:
    items = transcript.items[begin:]
    replies = [item for item in items if item.kind is ItemKind.REPLY]
    usage = sum([item.usage for item in replies], Usage())
    spent_before = transcript.items[begin - 1].spent if begin else 0
    ends = [item for item in items if item.kind is ItemKind.END]
    turns = transcript.items[begin - 1].turn if begin else 0
    return SessionFigures(
        id=transcript.id,
        file=str(transcript.file),
        turns=len(replies),
        runs=sum(start >= turns for start in transcript.run_starts) or int(bool(replies)),
        calls=sum(len(item.calls) for item in replies),
        tokens_in=usage.total - usage.output,
        tokens_out=usage.output,
        cost=transcript.spent - spent_before,
        unpriced=transcript.unpriced,
        models=list(dict.fromkeys([item.model for item in replies if item.model])),
        outcome=ends[-1].words if ends and items[-1].kind is ItemKind.END else UNFINISHED * bool(items),
        answer=make_label(next((item.words for item in reversed(replies)), ""), ANSWER),
        notes=transcript.notes,
    )
