"""What OpenRouter tells of a model's thoughts, beside their text: who signed them, and what is encrypted.

It comes in pieces, a list of objects with each; those with the same type and index are one. It goes back as it came, in
the same field of the message, to the model that thought it: some of those behind OpenRouter go on thinking only then,
and some refuse a call without it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mainspring.core.messages import Block, Thinking
from mainspring.providers.openai.quirks import only_objects

FIELD = "reasoning_details"
SIGNED = f"{FIELD} "  # before the list, in a signature of ours
WRITTEN = ("text", "summary", "data")  # what comes in pieces


class ReasoningDetails:
    def __init__(self) -> None:
        self._parts: dict[tuple[str, str], dict[str, Any]] = {}

    def add(self, given: list[Any]) -> str:
        """The text in it, for servers that send it only here. What is no object is nothing."""
        return "".join([self._add(piece) for piece in only_objects(given)])

    def _add(self, piece: dict[str, Any]) -> str:
        place = str(piece.get("type")), str(piece.get("index"))
        part = self._parts.setdefault(place, {})
        for name, value in piece.items():
            if name in WRITTEN and isinstance(value, str) and isinstance(part.get(name), str):
                part[name] += value
            elif value is not None or name not in part:
                part[name] = value
        said = piece.get("text") or piece.get("summary")
        return said if isinstance(said, str) else ""

    @property
    def signature(self) -> str:
        """All of it, for the block of the thoughts; empty if there is nothing."""
        return SIGNED + msgspec.json.encode(list(self._parts.values())).decode() if self._parts else ""


def has_details(block: Block) -> bool:
    return isinstance(block, Thinking) and block.signature.startswith(SIGNED)


def encode_details(block: Thinking) -> bytes:
    """The list, without its brackets."""
    return block.signature.removeprefix(SIGNED).encode()[1:-1]
