"""History: every message of a session, in order. It only grows; its first part may exist only on disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mainspring.core.messages import Message


class History:
    """An immutable sequence that appends in constant time and can be forked.

    Histories that grew out of each other share one list; each knows its own length. The first one to append extends the
    list in place. A history that appends before the end of the list, a fork, copies its part.

    Positions and the length include forgotten messages, so nothing that depends on them changes.
    """

    __slots__ = ("_begin", "_length", "_shared")

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._shared: list[Message] = list(messages)
        self._length = len(self._shared)
        self._begin = 0  # how many were forgotten

    def append(self, *messages: Message) -> History:
        if not messages:
            return self
        grown = History.__new__(History)
        grown._take(self, messages)  # noqa: SLF001  # our own class
        return grown

    def _take(self, other: History, added: tuple[Message, ...]) -> None:
        held = other._length - other._begin
        self._shared = other._shared if held == len(other._shared) else other._shared[:held]
        self._shared.extend(added)
        self._length = other._length + len(added)
        self._begin = other._begin

    def forget(self, until: int) -> History:
        """Return this history without the messages before this position. Older histories keep them."""
        if until <= self._begin:
            return self
        shorter = History(self.since(until))
        shorter._begin, shorter._length = min(until, self._length), self._length
        return shorter

    @property
    def begin(self) -> int:
        """The position of the first message that is still in memory."""
        return self._begin

    def extends(self, other: History) -> bool:
        """Whether this history grew out of `other`, as far as that is visible without comparing messages."""
        return self._shared is other._shared and self._length >= other._length

    def since(self, length: int) -> list[Message]:
        """The messages after the first `length`, as far as they are in memory."""
        return self._shared[max(0, length - self._begin) : self._length - self._begin]

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Message]:
        """Iterate the messages in memory."""
        for index in range(self._length - self._begin):
            yield self._shared[index]

    def newest_first(self) -> Iterator[Message]:
        for index in range(self._length - self._begin - 1, -1, -1):
            yield self._shared[index]

    def __getitem__(self, position: int) -> Message:
        place = position + self._length if position < 0 else position
        if not self._begin <= place < self._length:
            forgotten = f", {self._begin} of them forgotten" if self._begin else ""
            raise IndexError(f"message {position} of a history of {self._length}{forgotten}")
        return self._shared[place - self._begin]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, History):
            return NotImplemented
        if self._length != other._length:
            return False
        if self._shared is other._shared:
            return True
        begin = max(self._begin, other._begin)  # forgotten messages cannot be compared
        return self.since(begin) == other.since(begin)

    __hash__ = None  # type: ignore[assignment]  # two equal histories may live in different lists

    def __repr__(self) -> str:
        return f"History({self._length} messages)"
