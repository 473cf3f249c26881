"""Which tool calls may start now, and which ones a failure cancels. Pure: the executor in `engine/` applies it."""

from __future__ import annotations

from enum import StrEnum

from mainspring.core.config import Siblings
from mainspring.core.value import Value

MOST_AT_ONCE = 10  # F-06


class CallStatus(StrEnum):
    QUEUED = "queued"
    WAITING = "waiting"  # for the user's answer; keeps its position
    EXECUTING = "executing"
    COMPLETED = "completed"
    YIELDED = "yielded"  # shown to the consumer


RUNNING = frozenset({CallStatus.WAITING, CallStatus.EXECUTING})
DONE = frozenset({CallStatus.COMPLETED, CallStatus.YIELDED})


class Slot(Value):
    """One call of a reply, in its order."""

    id: str
    safe: bool  # may run beside others
    status: CallStatus = CallStatus.QUEUED
    shell: bool = False
    failed: bool = False  # an exit code that means "no match" or "differs" is not a failure (Z-29)


def startable(
    slots: tuple[Slot, ...],
    *,
    reply_complete: bool,
    early_safe: bool = True,
    early_unsafe: bool = False,
    most: int = MOST_AT_ONCE,
) -> tuple[str, ...]:
    """First in, first out, with one rule: no call overtakes an unsafe call, and an unsafe call runs alone.

    By default an unsafe call waits for the complete reply: a reply can still be withdrawn, a write cannot (Z-23).
    """
    running = sum(slot.status in RUNNING for slot in slots)
    start: list[str] = []
    for slot in slots:
        if slot.status in DONE:
            continue
        if not slot.safe:
            alone = running + len(start) == 0
            may_start = slot.status is CallStatus.QUEUED and alone and (reply_complete or early_unsafe)
            return (slot.id,) if may_start else tuple(start)
        in_time = reply_complete or early_safe
        if slot.status is CallStatus.QUEUED and in_time and running + len(start) < most:
            start.append(slot.id)
    return tuple(start)


def taken_along(slots: tuple[Slot, ...], failed_id: str, policy: Siblings) -> tuple[str, ...]:
    """A failed shell command cancels the shell commands queued after it, and nothing else (F-15, F-16)."""
    places = {slot.id: place for place, slot in enumerate(slots)}
    place = places[failed_id]
    cause = slots[place]
    if policy is Siblings.ISOLATE or not (cause.shell and cause.failed):
        return ()
    return tuple([slot.id for slot in slots[place + 1 :] if slot.shell and slot.status is CallStatus.QUEUED])
