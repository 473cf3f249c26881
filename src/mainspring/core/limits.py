"""Limits: the requested token budget and the progress guard. Numbers in, decisions out."""

from __future__ import annotations

from zlib import crc32

from mainspring.core.messages import Text, ToolCall, ToolResult
from mainspring.core.state import Budget, Repeat
from mainspring.core.value import Bundle, as_json

# --- "+500k": continue until that much is written (H-01 to H-07) ----------------------------------------

COMPLETE_AT = (9, 10)  # H-04, Z-19: nine tenths of the budget count as all of it
DIMINISHING_AFTER = 3  # H-05: from this many continuations on,
LITTLE_OUTPUT = 500  # two in a row that wrote fewer tokens than this are enough


def budget_goes_on(budget: Budget, written: int, total: int) -> bool:
    part, whole = COMPLETE_AT
    little = written - budget.at < LITTLE_OUTPUT and budget.delta < LITTLE_OUTPUT
    diminishing = budget.continuations >= DIMINISHING_AFTER and little
    return written * whole < total * part and not diminishing


def continue_budget(budget: Budget, written: int) -> Budget:
    return Budget(budget.continuations + 1, at=written, delta=written - budget.at)


def nudge(written: int, total: int) -> str:
    return (
        f"You have written {written:,} of the {total:,} tokens asked for ({100 * written // total} %). "
        "Keep working; do not summarize yet."
    )


def most_continuations(total: int) -> int:
    """Of any two consecutive continuations, one must write `LITTLE_OUTPUT`, so the budget itself bounds them."""
    part, whole = COMPLETE_AT
    return DIMINISHING_AFTER + 2 * (total * part // whole // LITTLE_OUTPUT + 1)


# --- the progress guard (settled 18) ------------------------------------------------------------------

ADVICE = (
    "You have made the same tool call with the same input and got the same result {times} times in a row. "
    "It will not change. Try something else, or tell the user what is in the way."
)


class Progress(Bundle):
    repeat: Repeat
    times: tuple[int, ...]  # for each call, how many times in a row it has occurred


def watch(
    repeat: Repeat, calls: tuple[ToolCall, ...], results: dict[str, ToolResult], patient: tuple[str, ...]
) -> Progress:
    """A call counts once per reply, however often the reply makes it: only a model that has seen the result can repeat
    itself.
    A call of a patient tool, such as Sleep, counts as a different call in between.
    """
    times: list[int] = []
    counted = False  # in this reply
    for call in calls:
        if call.name in patient:
            repeat, counted = Repeat(), False
            continue
        seen = fingerprint(call, results[call.id])
        if seen != repeat.fingerprint:
            repeat = Repeat(seen, 1)
        elif not counted:
            repeat = Repeat(seen, repeat.times + 1)
        counted = True
        times.append(repeat.times)
    return Progress(repeat, tuple(times))


def fingerprint(call: ToolCall, result: ToolResult) -> int:
    """32 bits are plenty: a false end would need nineteen collisions in a row."""
    seen = crc32(as_json((call.name, call.input, result.is_error)))
    for part in result.content:
        seen = crc32((part.text if isinstance(part, Text) else part.data).encode(errors="replace"), seen)
    return seen
