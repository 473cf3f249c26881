"""What the context asks of a model, and what comes back. Whoever drives the session makes the call and pays for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from mainspring.core.messages import Message, Stop
from mainspring.core.money import Usage
from mainspring.core.value import Bundle


class SideCall(Bundle):
    messages: tuple[Message, ...]  # the last one is the question itself
    max_output: int
    small: bool = False  # for the small model, without tools and system text; else as the conversation itself is asked
    marks: tuple[str, ...] = ()  # where the prompt was cached when the conversation was last asked


class SideCallReply(Bundle):
    text: str
    usage: Usage = Usage()
    cost: int = 0  # nano-dollars
    stop: Stop = Stop.END_TURN
    failed: str = ""  # why there is no answer; what was spent all the same is above


Ask = Callable[[SideCall], Awaitable[SideCallReply]]


def wrong_with(answer: SideCallReply, most: int) -> str:
    """Why this cannot stand for what was said; empty if it can."""
    if answer.failed:
        return answer.failed
    if answer.stop is Stop.REFUSAL:
        return "the model refused to sum up"
    if not answer.text.strip():
        return "the summary is empty"
    if answer.stop is Stop.MAX_TOKENS or len(answer.text) > most:
        return f"the summary is too long: more than {most:,} characters"
    return ""
