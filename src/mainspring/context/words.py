"""The user's own words, verbatim: they outlive every summary, until their own budget is spent.

Each prompt is a part of its own in the summary's message, so that the next summary finds them again there.
"""

from __future__ import annotations

from collections.abc import Iterable

from mainspring.context.groups import TurnGroup
from mainspring.context.tokens import text_bytes
from mainspring.core.messages import Origin, Text, User
from mainspring.processes.output import both_ends

SAID = "[The user's own words]\n"
LEFT_OUT_MARK = "[Left out: "
LEFT_OUT = LEFT_OUT_MARK + "{count} more messages of the user are not repeated here]"
LONGEST = 3  # one message may have a third of the budget: a pasted log must not push the rest out


def words_in(groups: Iterable[TurnGroup]) -> list[str]:
    """In order, those that earlier summaries carried among them."""
    messages = [group.items[0].message for group in groups]
    return [text for message in messages if isinstance(message, User) for text in words_of(message)]


def words_of(message: User) -> list[str]:
    if message.origin is Origin.PROMPT:
        return [message.text] if message.text.strip() else []
    if message.origin is not Origin.SUMMARY:
        return []
    texts = [part.text for part in message.content if isinstance(part, Text)]
    return [text.removeprefix(SAID) for text in texts if text.startswith(SAID)]


def select_user_quotes(words: list[str], budget: int) -> tuple[Text, ...]:
    """The first of them, which says what it is all about, then as many of the newest as fit; in their order."""
    most = budget // LONGEST
    short = [text if len(text) <= most else both_ends(text, most) for text in words]
    chosen: set[int] = set()
    for at in (0, *range(len(short) - 1, 0, -1)) if short else ():
        budget -= text_bytes(short[at])
        if chosen and budget < 0:
            break
        chosen.add(at)
    parts = [Text(SAID + short[at]) for at in sorted(chosen)]
    if len(chosen) < len(short):
        parts.insert(1, Text(LEFT_OUT.format(count=len(short) - len(chosen))))
    return tuple(parts)
