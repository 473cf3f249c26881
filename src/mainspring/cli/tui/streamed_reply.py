"""What streams at the moment, for the transcript: the history has a reply only when it is complete."""

from __future__ import annotations

from mainspring.core.messages import ToolCall
from mainspring.core.updates import (
    BlockDone,
    BlockKind,
    CallDone,
    CallProgress,
    Delta,
    ReplyDone,
    ReplyStarted,
    Result,
    Tombstone,
    Update,
)


class StreamedReply:
    """What of the current reply, and of the running calls, is not in the history yet."""

    def __init__(self) -> None:
        self._pieces: list[tuple[BlockKind, str]] = []
        self._outputs: dict[str, str] = {}
        self.version = 0

    def see(self, update: Update) -> None:
        match update:
            case Delta() if update.kind is not BlockKind.INPUT:
                self._pieces.append((update.kind, update.text))
            case BlockDone() if not isinstance(update.block, ToolCall):
                self._pieces.append((BlockKind.INPUT, ""))  # the next block begins on a line of its own
            case ReplyStarted() | ReplyDone() | Tombstone() | Result():
                self._pieces.clear()
            case CallProgress():
                self._outputs[update.call_id] = update.text
            case CallDone():
                self._outputs.pop(update.result.call_id, None)
            case _:
                return
        self.version += 1

    def forget(self) -> None:
        self._pieces.clear()
        self._outputs.clear()
        self.version += 1

    def output(self, call_id: str) -> str:
        return self._outputs.get(call_id, "")

    @property
    def parts(self) -> list[tuple[BlockKind, str]]:
        """Text and thinking, in order."""
        found: list[tuple[BlockKind, list[str]]] = []
        for kind, text in self._pieces:
            if found and found[-1][0] is kind:
                found[-1][1].append(text)
            else:
                found.append((kind, [text]))
        return [(kind, words) for kind, texts in found if (words := "".join(texts)).strip()]
