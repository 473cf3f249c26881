"""Law 1 as a number: the most model calls that a run with this configuration can lead to."""

from mainspring.core.config import Config
from mainspring.core.ladder import FALL_BACK, LADDER, RungScope
from mainspring.core.limits import most_continuations


def most_model_calls(config: Config) -> int:
    """Each call but the first follows from a turn, a budget continuation, a stop hook's objection or a rung.

    Turns, continuations and objections are limited for the run. Rungs are limited for the run too, or between
    two pieces of progress, which are turns and continuations. The chain of fallbacks is walked once, and each step in
    it makes those rungs whole again that count for one model.
    """
    continuations = most_continuations(config.token_budget) if config.token_budget else 0
    pieces = config.max_turns + continuations
    rungs = [rung for row in LADDER.values() for rung in row if rung is not FALL_BACK]
    calls = {scope: sum(rung.most(config) * rung.calls for rung in rungs if rung.scope is scope) for scope in RungScope}
    per_piece = 1 + calls[RungScope.PROGRESS] + calls[RungScope.MODEL]
    per_fallback = 1 + calls[RungScope.MODEL]
    return pieces * per_piece + calls[RungScope.RUN] + len(config.fallbacks) * per_fallback + config.max_stop_blocks
