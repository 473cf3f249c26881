"""What the layers have in common: their limits, what is asked of them, and their one signature.

    layer(scene, aim) -> edits

A layer looks at the scene and says what should leave. It never calls a model and never waits; what was written in the
background beforehand it may use. Cheap ones come first, and each may make the next unnecessary (D-01, D-02).
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from mainspring.context.groups import TurnGroups
from mainspring.core.value import Bundle
from mainspring.core.view import Edit

# Chosen by `bench/cost.py`; docs/decisions/0015 has the figures.
KEEP_RESULTS, KEEP_SIZE = 8, 60_000  # newest results, and bytes of them, that are never cleared


class LayerLimits(Bundle):
    """What may be changed by settings. Sizes of text are characters, or bytes, which for code is the same."""

    per_result: int = 32_000  # layer 0: a read of 30 KB passes, a log of 100 KB does not,
    shown: int = 12_000  # and this is what is shown of one that does not
    per_message: int = 100_000  # all results of one reply
    exempt: tuple[str, ...] = ("Read",)  # D-04: it limits itself, and what it shows can be had again
    keep: int = KEEP_RESULTS
    keep_size: int = KEEP_SIZE
    recent_turns: int = 10  # layer 1 leaves these alone
    snip: bool = True  # D-09
    clear: bool = True
    elsewhere: bool = False  # the service clears old results itself (D-14): what it counts is less than what we send
    collapse: bool = True  # D-19
    stage: int = 20_000  # bytes of old turns that are worth one prepared collapse
    tail: int = 48_000  # bytes that stay word for word at the end of any compaction
    words: int = 24_000  # bytes of the user's own words that are carried through a summary
    files: int = 60_000  # bytes of recently read files that are attached again


class LayerGoal(Bundle):
    """What is asked of a layer."""

    limits: LayerLimits
    model: str = ""
    source: str = ""  # who asks (D-16)
    excess: int = 0  # bytes that must go, or the prompt comes too near to the limit
    rent: bool = False  # old results have cost as much as it costs to be rid of them
    old_rent: bool = False  # and so have the turns that hold nothing else
    staged: int = 0  # groups before this one are spoken for by collapses that are ready


FULL_SIZE = 200_000  # tokens of a window for which the limits are meant; a smaller one has smaller limits


def limits_for_window(limits: LayerLimits, window: int) -> LayerLimits:
    if window >= FULL_SIZE:
        return limits
    sizes = ("per_result", "shown", "per_message", "keep_size", "stage", "tail", "words", "files")
    return replace(limits, **{name: max(1_000, getattr(limits, name) * window // FULL_SIZE) for name in sizes})


Layer = Callable[[TurnGroups, LayerGoal], tuple[Edit, ...]]
