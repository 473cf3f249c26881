"""A conversation under a budget, whatever it holds: for the model that is to sum it up.

First results lose their middle, then their content, oldest first; then whole turns leave; then what people said is cut.
Nothing of this reaches the conversation itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from mainspring.context.groups import GroupKind, TurnGroup
from mainspring.context.media import without_media
from mainspring.context.tokens import message_bytes
from mainspring.core.messages import Message, Text, ToolResult, User
from mainspring.processes.output import both_ends

SHORT = 2_000  # characters of a result that has lost its middle
GONE = "[left out]"
LEAST = 200  # characters that remain of anything that a person said


def cut_to_budget(groups: Sequence[TurnGroup], budget: int) -> tuple[Message, ...]:
    rows = [[without_media(message) for message in group.messages] for group in groups]
    size = sum(map(message_bytes, [message for row in rows for message in row]))
    for most in (SHORT, 0):
        for row in rows:
            if size <= budget:
                return tuple([message for each in rows for message in each])
            size -= shorten_results(row, most)
    turns = [at for at, group in enumerate(groups) if group.kind is GroupKind.TURN]
    for at in turns:
        if size > budget:
            size -= sum(map(message_bytes, rows[at]))
            rows[at] = []
    left = [message for row in rows for message in row]
    return tuple(left if size <= budget else [shorten_message(message, budget // len(left)) for message in left])


def shorten_results(row: list[Message], most: int) -> int:
    """Bytes freed."""
    freed = 0
    for at, message in enumerate(row):
        if isinstance(message, ToolResult) and len(message.text) > most + len(GONE):
            text = both_ends(message.text, most) if most else GONE
            row[at] = replace(message, content=(Text(text),))
            freed += message_bytes(message) - message_bytes(row[at])
    return freed


def shorten_message(message: Message, most: int) -> Message:
    """A quarter of the bytes as characters: no character takes more than four."""
    most = max(LEAST, most // 4)
    if not isinstance(message, User) or len(message.text) <= most:
        return message
    return replace(message, content=(Text(both_ends(message.text, most)),))
