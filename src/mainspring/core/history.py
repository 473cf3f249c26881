"""History: every message of a session, in order. It only grows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mainspring.core.messages import Message


class History:
    """An immutable sequence that appends in constant time and can be forked.

    Histories that grew out of each other share one list; each knows how much of it is its own. The first
    to append extends the list in place. One that appends behind the list's end, a fork, copies its part.
    """

    __slots__ = ("_length", "_shared")

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._shared: list[Message] = list(messages)
        self._length = len(self._shared)

    def append(self, *messages: Message) -> History:
        if not messages:
            return self
        grown = History.__new__(History)
        grown._take(self._shared, self._length, messages)  # noqa: SLF001  # our own class
        return grown

    def _take(self, shared: list[Message], length: int, added: tuple[Message, ...]) -> None:
        self._shared = shared if length == len(shared) else shared[:length]
        self._shared.extend(added)
        self._length = length + len(added)

    def extends(self, other: History) -> bool:
        """Whether this one grew out of `other`, as far as can be told without comparing messages."""
        return self._shared is other._shared and self._length >= other._length

    def since(self, length: int) -> list[Message]:
        """The messages after the first `length`."""
        return self._shared[length : self._length]

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Message]:
        for position in range(self._length):
            yield self._shared[position]

    def newest_first(self) -> Iterator[Message]:
        for position in range(self._length - 1, -1, -1):
            yield self._shared[position]

    def __getitem__(self, position: int) -> Message:
        if not -self._length <= position < self._length:
            raise IndexError(f"message {position} of a history of {self._length}")
        return self._shared[position % self._length]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, History):
            return NotImplemented
        if self._length != other._length:
            return False
        if self._shared is other._shared:
            return True
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # two equal histories may live in different lists

    def __repr__(self) -> str:
        return f"History({self._length} messages)"
