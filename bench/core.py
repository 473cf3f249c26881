"""What the core costs, compared with its targets. Run it with `make bench-parts`; it fails when a target is missed.

Times are minima over repeats: other work on the machine can only add to a time. A target that must hold on any machine
is a ratio of two figures of the same run, measured alternately. `bench/README.md` explains the table.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tracemalloc
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from time import perf_counter_ns

from mainspring.core.config import Config
from mainspring.core.events import Compacted, ContextReady, Event, HooksDone, Replied, Submitted, ToolsDone
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Message, Stop, Text, ToolCall, ToolResult, User
from mainspring.core.money import Usage
from mainspring.core.state import State, checkpoint, encode_checkpoint
from mainspring.core.step import step
from mainspring.core.value import Stamp
from mainspring.core.view import Fold

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, only this directory's files would be found
from bench.figures import REPEATS, Figure, best_time, best_times, import_figures, scaled, show, yardstick

SHORT, LONG = 10, 10_000  # messages; the ratios compare these two
SIZES = (SHORT, 100, 1_000, LONG)
CONFIG = Config()

# --- a typical session --------------------------------------------------------------------------------------

RESULT = Text("x" * 2_000)  # a screen of a file; the progress guard takes a fingerprint of it
USAGE = Usage(input=400, cache_read=40_000, output=300)


def call(turn: int, number: int) -> ToolCall:
    return ToolCall(f"call-{turn}-{number}", "Read", {"path": f"src/file_{turn}_{number}.py", "limit": 2_000})


def reply(turn: int) -> Assistant:
    blocks = (Text("Let me look at both files."), call(turn, 0), call(turn, 1))
    return Assistant(blocks, stop=Stop.TOOL_USE, usage=USAGE, id=f"reply-{turn}")


def results(turn: int) -> tuple[ToolResult, ...]:
    return tuple([ToolResult(call(turn, n).id, (RESULT,), id=f"result-{turn}-{n}") for n in (0, 1)])


def stamp(turn: int) -> Stamp:
    return Stamp(f"{turn:032x}", turn)


def prompt() -> Submitted:
    return Submitted((User((Text("Please fix the tests."),), id="prompt"),), stamp=stamp(1))


def turn_with_calls(turn: int) -> tuple[Event, ...]:
    at = stamp(turn)
    return ContextReady(40_000, stamp=at), Replied(reply(turn), stamp=at), ToolsDone(results(turn), stamp=at)


def last_turn() -> tuple[Event, ...]:
    said = Assistant((Text("Done."),), usage=USAGE, id="last")
    return ContextReady(40_000), Replied(said), HooksDone()


def turns(count: int) -> list[Event]:
    return [event for turn in range(1, count + 1) for event in turn_with_calls(turn)]


def past(length: int) -> list[Message]:
    """A prompt and then turns of three messages, so that 10, 100, 1,000 and so on come out even."""
    messages: list[Message] = [User((Text("Hello."),), id="first")]
    for turn in range((length - 1) // 3):
        messages += [reply(-turn), *results(-turn)]
    assert len(messages) == length
    return messages


def begun(messages: Iterable[Message]) -> State:
    return step(State(History(messages)), prompt(), CONFIG).state


def played(state: State, events: Iterable[Event]) -> State:
    for event in events:
        state = step(state, event, CONFIG).state
    return state


# --- steps: how long they take -----------------------------------------------------------------------------

Times = dict[str, float]  # microseconds, by the kind of event

TURN = ("ContextReady", "Replied", "ToolsDone")  # the steps of an ordinary turn
SHORT_RUN = (prompt(), *turns(4), *last_turn())
KINDS = ("Submitted", *TURN * 4, "ContextReady", "Replied, no calls", "HooksDone")


def time_steps(messages: list[Message], best: Times) -> None:
    """One short run on top of these messages. Times each step separately, and keeps the best time of its kind."""
    state = State(History(messages))
    for kind, event in zip(KINDS, SHORT_RUN, strict=True):
        start = perf_counter_ns()
        after = step(state, event, CONFIG)
        best[kind] = min(best.get(kind, float("inf")), (perf_counter_ns() - start) / 1_000)
        state = after.state


def mean_of_turn(best: Times) -> float:
    return sum(best[kind] for kind in TURN) / len(TURN)


STEP_AIM = 15.0  # microseconds, where the yardstick takes `REFERENCE`


def step_figures() -> Iterator[Figure]:
    """The sizes alternate within each repeat, so that a slow moment of the machine does not affect only one of them."""
    sessions = {length: past(length) for length in SIZES}
    best: dict[int, Times] = {length: {} for length in SIZES}
    speed = float("inf")
    for _ in range(REPEATS):
        speed = min(speed, best_time(yardstick, repeats=1))
        for length, messages in sessions.items():
            time_steps(messages, best[length])
    yield Figure("yardstick: a thousand additions", speed, "us")
    aim = scaled(STEP_AIM, speed)
    for kind in dict.fromkeys(KINDS):
        yield Figure(f"step: {kind}", best[1_000][kind], "us", aim)
    yield Figure("step: mean of a turn's three", mean_of_turn(best[1_000]), "us", aim)
    for length in SIZES:
        yield Figure(f"step: mean at {length:,} messages", mean_of_turn(best[length]), "us")
    yield ratio("step: flatness", mean_of_turn(best[LONG]), mean_of_turn(best[SHORT]), aim=1.3)
    yield Figure(f"step: mean in a session of {LONG:,}", mean_of_session(), "us")


def mean_of_session() -> float:
    """A session from its first message to its last, which also shows the list's rare growth.

    It is timed in pieces of a millisecond, with the best time of each piece: the list always grows at the same
    positions, while other work on the machine comes at any time.
    """
    events = [prompt(), *turns(LONG // 3)]
    pieces = [events[start : start + 100] for start in range(0, len(events), 100)]
    best = [float("inf")] * len(pieces)
    for _ in range(REPEATS // 100):
        state = State(History())
        for place, piece in enumerate(pieces):
            start = perf_counter_ns()
            state = played(state, piece)
            best[place] = min(best[place], (perf_counter_ns() - start) / 1_000)
    return sum(best) / len(events)


def ratio(name: str, long: float, short: float, aim: float) -> Figure:
    return Figure(f"{name}, {LONG:,} / {SHORT:,}", long / short, "x", aim)


def compaction_figures() -> Iterator[Figure]:
    """The one step that may walk the whole history: it prunes the edits that a summary covers."""
    for length in (SHORT, LONG):
        state, done = full_of(length)
        time = best_time(partial(step, state, done, CONFIG), REPEATS // 5)
        yield Figure(f"step: Compacted at {length:,} messages", time, "us")


def full_of(length: int) -> tuple[State, Compacted]:
    """A state that waits for a compaction, and one that folds half of its messages."""
    messages = past(length)
    tokens = CONFIG.compact_at(CONFIG.model)
    fold = Fold(messages[0].id, messages[length // 2].id, User((Text("They worked."),), id="summary"))
    return played(begun(messages), [ContextReady(tokens)]), Compacted((fold,), before=tokens, after=tokens // 2)


# --- memory -------------------------------------------------------------------------------------------------

MEMORY_TURNS = 400  # the list of 10,000 grows once meanwhile, by an eighth; over 1,200 steps that is 8 bytes each


def bytes_per_step(length: int) -> float:
    """What a step adds to the memory of a driver that keeps every state.

    The driver must keep them all: if a step copied the history, the copy would be freed with its state, and only a
    driver that keeps the states would notice. All messages are created before the first reading, so they do not count;
    tracing begins before them, so that a list that is moved counts only for its growth.
    """
    tracemalloc.start()
    try:
        state, events = begun(past(length)), turns(MEMORY_TURNS)
        kept = [state] * len(events)
        before, _ = tracemalloc.get_traced_memory()
        for place, event in enumerate(events):
            kept[place] = state = step(state, event, CONFIG).state
        after, _ = tracemalloc.get_traced_memory()
        return (after - before) / len(events)
    finally:
        tracemalloc.stop()


def memory_figures() -> Iterator[Figure]:
    short, long = bytes_per_step(SHORT), bytes_per_step(LONG)
    yield Figure(f"memory of a step at {SHORT:,} messages", short, "bytes", aim=2_048)
    yield Figure(f"memory of a step at {LONG:,} messages", long, "bytes", aim=2_048)
    yield ratio("memory of a step", long, short, aim=1.5)


# --- checkpoints and histories ----------------------------------------------------------------------------------


def saved(state: State) -> bytes:
    return encode_checkpoint(checkpoint(state))


def checkpoint_figures() -> Iterator[Figure]:
    states = {length: played(begun(past(length)), turns(2)) for length in (SHORT, LONG)}
    sizes = {length: len(saved(state)) for length, state in states.items()}
    times = best_times({length: partial(saved, state) for length, state in states.items()}, 20 * REPEATS)
    for length in states:
        yield Figure(f"checkpoint at {length:,} messages", times[length], "us")
    yield ratio("checkpoint, time", times[LONG], times[SHORT], aim=1.3)
    for length in states:
        yield Figure(f"checkpoint at {length:,} messages", sizes[length], "bytes")
    yield ratio("checkpoint, size", sizes[LONG], sizes[SHORT], aim=1.05)


APPENDS = 100  # in one measurement: a single one takes little longer than reading the clock


class Growing:
    """A history that grows for as long as it is measured. It soon has spare capacity, so its growth is left out."""

    def __init__(self, length: int) -> None:
        self.messages = past(length)
        self.message = reply(0)

    def restart(self) -> None:
        self.history = History(self.messages).append(self.message)

    def append_all(self) -> None:
        for _ in range(APPENDS):
            self.history = self.history.append(self.message)


def history_figures() -> Iterator[Figure]:
    histories = {length: Growing(length) for length in (SHORT, LONG)}
    times = dict.fromkeys(histories, float("inf"))
    for _ in range(3 * REPEATS):
        for length, growing in histories.items():
            growing.restart()
            times[length] = min(times[length], best_time(growing.append_all, repeats=1) / APPENDS)
    for length in histories:
        yield Figure(f"History.append at {length:,}", times[length], "us")
    yield ratio("History.append", times[LONG], times[SHORT], aim=1.3)
    trunk = History(past(LONG))
    trunk.append(reply(0))  # from here on, an append to the trunk makes a fork
    yield Figure(f"fork of {LONG:,}", best_time(partial(trunk.append, reply(0))), "us")


# --- instructions, on demand ---------------------------------------------------------------------------------------

FEW, MANY = 200, 1_200  # steps; valgrind makes them fifty times slower


def play_for_callgrind(steps: int) -> None:
    """Creates all events in either case, so that the two runs differ only by the steps."""
    events = turns(MANY // 3)
    played(begun(past(1_000)), events[:steps])


def instructions(steps: int) -> int:
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={os.devnull}"]
    own = [sys.executable, str(Path(__file__)), "--play", str(steps)]
    settings = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run([*command, *own], check=True, capture_output=True, text=True, env=settings)
    found = re.search(r"Collected\s*:\s*(\d+)", done.stderr)
    if found is None:
        raise RuntimeError(f"no count in valgrind's output: {done.stderr}")
    return int(found[1])


def callgrind_figures() -> Iterator[Figure]:
    if shutil.which("valgrind") is None:
        print("valgrind is not installed, so no instructions are counted")
        return
    yield Figure("instructions of a step", (instructions(MANY) - instructions(FEW)) / (MANY - FEW), "")


# --- the table ------------------------------------------------------------------------------------------------------


def all_figures(*, count_instructions: bool) -> Iterator[Figure]:
    yield from step_figures()
    yield from compaction_figures()
    yield from memory_figures()
    yield from checkpoint_figures()
    yield from history_figures()
    yield from import_figures("msgspec", "mainspring.core")
    if count_instructions:
        yield from callgrind_figures()


def main() -> None:
    parser = argparse.ArgumentParser(description="measure what the core costs")
    parser.add_argument("--callgrind", action="store_true", help="also count instructions, with valgrind")
    parser.add_argument("--play", type=int, metavar="STEPS", help="only play that many steps; --callgrind uses it")
    options = parser.parse_args()
    if options.play is not None:
        play_for_callgrind(options.play)
        return
    sys.exit(0 if show(all_figures(count_instructions=options.callgrind)) else 1)


if __name__ == "__main__":
    main()
