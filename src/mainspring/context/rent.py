"""When it pays to clear: old results cost rent, being rid of them costs a price (settled 25).

Rent is what reading them from the cache costs, every turn. The price is for what stands behind them: it must be written
to the cache anew instead of being read. Whoever moves out when the rent paid so far reaches the price never pays more
than twice what the best choice in hindsight would have cost; and where sessions go on evenly, it is the best choice
(docs/decisions/0015). A model that costs nothing to read has no rent, and nothing is cleared before it must be.
"""

from __future__ import annotations

from mainspring.context.groups import TurnGroups
from mainspring.context.tokens import TokenScale
from mainspring.core.money import Price


class CacheCost:
    """In nano-dollars."""

    def __init__(self) -> None:
        self.results = 0  # paid so far for results that could be cleared,
        self.turns = 0  # and for turns that hold nothing else

    def pay(self, scene: TurnGroups, price: Price, scale: TokenScale) -> None:
        """For each reply since the last look."""
        per_token = price.cache_read * scene.replies
        self.results += scale.low(scene.old_size) * per_token
        self.turns += scale.low(count_behind_front(scene)) * per_token
        scene.replies = 0

    def is_due(self, scene: TurnGroups, price: Price, scale: TokenScale) -> bool:
        return bool(self.results) and self.results >= scale.high(count_rewritten_bytes(scene)) * cache_write_surcharge(
            price
        )

    def turns_are_due(self, scene: TurnGroups, price: Price, scale: TokenScale) -> bool:
        """Asked only when the prefix is broken anyway: then the price is for what stands before that place."""
        return bool(self.turns) and self.turns >= scale.high(count_behind_front(scene)) * cache_write_surcharge(price)


def cache_write_surcharge(price: Price) -> int:
    return max(0, price.cache_write - price.cache_read)


def count_rewritten_bytes(scene: TurnGroups) -> int:
    """Bytes behind the first result that would be cleared, without those that would be, and without what is new: that
    must be written in any case."""
    return max(0, scene.meter.sent - scene.old[0].before - scene.old_size) if scene.old else 0


def find_clear_border(scene: TurnGroups) -> int:
    """Bytes before the first result that is not cleared."""
    waiting = scene.old or scene.newest
    return waiting[0].before if waiting else scene.meter.size


def count_behind_front(scene: TurnGroups) -> int:
    front = scene.groups[0].size if scene.head() else 0
    return max(0, find_clear_border(scene) - scene.meter.fixed - front)
