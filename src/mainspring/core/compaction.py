"""What keeps compaction honest: did it bring room, does it keep failing, does the window keep filling up again?"""

from __future__ import annotations

from msgspec.structs import replace

from mainspring.core.effects import Compact, CompactionKind
from mainspring.core.events import Compacted
from mainspring.core.value import Value

MAX_FAILURES = 3  # D-30: sessions stuck above the limit once burned 250,000 calls a day
REFILL_STREAK = 3  # Z-13: this many compactions in quick succession,
REFILL_TURNS = 3  # each less than this many turns after the one before, and the next one ends the run

# Percent of the view that must be gone, or it was no compaction, whatever it says. A tenth is what makes a summary
# worth its price; a prepared collapse is free. Media may weigh little and still be what the model choked on.
LEAST_FREED: dict[CompactionKind, int] = {
    CompactionKind.COLLAPSE: 1,
    CompactionKind.STRIP_MEDIA: 0,
    CompactionKind.SUMMARY: 10,
    CompactionKind.TRIM: 10,
}

REWRITES = frozenset(
    {CompactionKind.SUMMARY, CompactionKind.TRIM}
)  # the ones that take most of the conversation out of sight


class Compaction(Value):
    """What is remembered of compactions. Failures belong to the session; the rest is of the run, and its times count
    turns and budget continuations."""

    failures: int = 0  # automatic summaries that failed in a row,
    model: str = ""  # with this model: another one may do better
    streak: int = 0  # rewrites that came soon after one another
    last: int = 0  # the time of the last rewrite


MANUAL = "manual"  # `Compacted.trigger` of a summary that the user asked for


def took_effect(how: CompactionKind, event: Compacted, *, asked: bool) -> bool:
    """A summary that the user asked for counts whatever it saved: they may want a clean start, not room."""
    if event.failed or asked:
        return not event.failed
    freed = event.before - event.after
    return 100 * freed >= LEAST_FREED[how] * event.before and (freed > 0 or how is CompactionKind.STRIP_MEDIA)


def for_next_run(past: Compaction) -> Compaction:
    """What outlives a run: a breaker that each prompt closed again would be none."""
    return Compaction(past.failures, past.model)


def after_failure(past: Compaction, asked: Compact, model: str) -> Compaction:
    """A failure that the user asked for was their own to see, so it does not count against automatic summaries."""
    if asked.how is not CompactionKind.SUMMARY or asked.asked is not None:
        return past
    return replace(past, failures=failures_with(past, model) + 1, model=model)


def failures_with(past: Compaction, model: str) -> int:
    return past.failures if past.model == model else 0


def after_success(past: Compaction, how: CompactionKind, now: int) -> Compaction:
    """A second rewrite at the same time is part of the first. Only a summary shows that summaries work."""
    if how not in REWRITES:
        return past
    soon = now - past.last < REFILL_TURNS
    streak = past.streak + (now != past.last) if soon else 1
    failures = 0 if how is CompactionKind.SUMMARY else past.failures
    return Compaction(failures, past.model, streak, now)


def breaker_is_open(past: Compaction, model: str) -> bool:
    """No more automatic summaries in this session, until one that the user asks for works, or the model changes."""
    return failures_with(past, model) >= MAX_FAILURES


def refills(past: Compaction, how: CompactionKind, now: int) -> bool:
    return how in REWRITES and past.streak >= REFILL_STREAK and now - past.last < REFILL_TURNS
