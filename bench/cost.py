"""What a session costs, by context strategy: the summary only, each layer alone, ours; and what the layers themselves
cost per turn. `docs/decisions/0015-context-layers.md` and `0105-context-by-price.md` explain the
conclusions.

Run it with `.venv/bin/python bench/cost.py`; an argument chooses one of the tables. A unit is the price of one input
token: writing to the cache costs 1.25, reading from it 0.1, output 5.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Iterator
from pathlib import Path
from time import perf_counter_ns

from msgspec.structs import replace

from mainspring.context.attachments import PreparedContext
from mainspring.context.compactor import Compactor
from mainspring.context.layers import LayerLimits
from mainspring.core.config import Config
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Message, Stop, Text, ToolCall, ToolResult, User
from mainspring.core.models import Model
from mainspring.core.money import Price, Usage
from mainspring.core.state import State
from mainspring.core.value import Bundle

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, only this directory's files would be found
from bench.cost_session import MODEL, Outcome, Session, Setting
from bench.figures import Figure, show

HUGE = 10**9
NONE = replace(LayerLimits(), per_result=HUGE, per_message=HUGE, snip=False, clear=False, collapse=False)
OURS = LayerLimits()

SETTINGS = (
    Setting("summary only, one mark", NONE, 1),
    Setting("summary only", NONE),
    Setting("result budget alone", replace(NONE, per_result=OURS.per_result, per_message=OURS.per_message)),
    Setting("snip alone", replace(NONE, snip=True)),
    Setting("clearing alone", replace(NONE, clear=True)),
    Setting("collapse alone", replace(NONE, collapse=True)),
    Setting("ours", OURS),
)


class Kind(Bundle):
    name: str
    turns: int
    calls: int
    aim: float  # ours, as a fraction of the first setting


KINDS = (
    Kind("100 turns", 100, 1, 0.5),
    Kind("500 turns", 500, 1, 0.55),
    Kind("60 turns of 12 calls", 60, 12, 0.4),
)


def row(outcome: Outcome, whole: float) -> str:
    usage = outcome.usage
    return (
        f"{outcome.name:<24}{outcome.cost / 1e3:>9,.0f}k{outcome.cost / whole:>7.2f}"
        f"{usage.cache_read / 1e6:>8.2f}M{usage.cache_write / 1e6:>7.2f}M{usage.output / 1e3:>7.0f}k"
        f"{outcome.replies:>8}{outcome.again:>7}{outcome.summaries:>5}{outcome.largest / 1e3:>8.0f}k"
        f"{outcome.at_once:>6}/{outcome.asked}{outcome.lost:>6}{outcome.invalid:>8}{outcome.layers:>8.2f}"
    )


HEAD = (
    f"{'':<24}{'units':>10}{'ratio':>7}{'read':>9}{'written':>8}{'output':>8}{'replies':>8}{'again':>7}"
    f"{'sums':>5}{'largest':>9}{'at once':>9}{'lost':>6}{'invalid':>8}{'ms/turn':>8}"
)


# --- what the layers cost -------------------------------------------------------------------------------------

SHORT, LONG = 100, 10_000  # messages
TURNS, REPEATS = 200, 4
ROOMY = replace(MODEL, window=10**8)  # so that everything stays in view
FREE = replace(ROOMY, price=Price())  # and nothing is ever cleared


def turn_of(number: int) -> tuple[Message, ...]:
    call = ToolCall(f"call-{number}", "Read", {"file_path": f"src/file_{number}.py"})
    usage = Usage(cache_read=900 * number, output=60)
    reply = Assistant((Text("Let me look."), call), MODEL.name, Stop.TOOL_USE, usage, id=f"reply-{number}")
    return reply, ToolResult(call.id, (Text("some code here\n" * 200),), id=f"result-{number}")


def times(model: Model, length: int) -> list[float]:
    """The times of the next turns, in milliseconds; a new context has seen so many messages before."""
    context = Compactor(Config(model=model), new_id=lambda: "new")
    past = [message for number in range(length // 2) for message in turn_of(number)]
    state = State(History([User((Text("go"),), id="prompt"), *past]), model=model)
    first = at_once(context.shrink(state, ()))
    state = replace(state, edits=first.edits)
    took: list[float] = []
    for number in range(length // 2, length // 2 + TURNS):
        state = replace(state, history=state.history.append(*turn_of(number)))
        begun = perf_counter_ns()
        ready = at_once(context.shrink(state, ()))
        took.append((perf_counter_ns() - begun) / 1e6)
        state = replace(state, edits=(*state.edits, *ready.edits))
    return took


def at_once(work: Coroutine[object, None, PreparedContext]) -> PreparedContext:
    """Nothing waits in there, so no loop need be started, nor timed."""
    try:
        work.send(None)
    except StopIteration as done:
        made: PreparedContext = done.value
        return made
    raise AssertionError("the layers waited for something")


def layer_figures() -> Iterator[Figure]:
    took: dict[int, list[float]] = {SHORT: [], LONG: []}
    for _ in range(REPEATS):  # alternately, so that a slow moment of the machine does not affect only one of them
        for length in took:
            took[length] += times(FREE, length)
    for length, found in took.items():
        yield Figure(f"layers: a turn at {length:,} messages, nothing to do", min(found), "ms")
        yield Figure("layers: the same, mean", sum(found) / len(found), "ms", 2)
    yield Figure(f"layers: growth, {LONG:,} / {SHORT}", min(took[LONG]) / min(took[SHORT]), "x", 1.5)
    busy = times(ROOMY, LONG)
    yield Figure(f"layers: at {LONG:,}, clearing when it pays, mean", sum(busy) / len(busy), "ms", 2)
    yield Figure("layers: the slowest of those turns", max(busy), "ms")


def main() -> int:
    chosen = sys.argv[1:]
    met = True
    if not chosen or "layers" in chosen:
        met = show(layer_figures())
    for kind in KINDS:
        if chosen and kind.name not in chosen:
            continue
        print(f"\n{kind.name}\n{HEAD}")
        whole = 0.0
        for setting in SETTINGS:
            outcome = asyncio.run(Session(setting, kind.turns, kind.calls).run())
            whole = whole or outcome.cost
            print(row(outcome, whole), flush=True)
            met = met and not outcome.lost and not outcome.invalid
        ratio = outcome.cost / whole
        print(f"ours / {SETTINGS[0].name}: {ratio:.2f}, at most {kind.aim} {'' if ratio <= kind.aim else 'MISSED'}")
        met = met and ratio <= kind.aim
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
