"""The bytes of a request's parts, in order. Those that are settled are joined: a request with thousands of parts is put
together from few pieces, and they take hardly more memory than they have bytes.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import islice

PACK = 64  # chunks that are joined
LARGE = 64 * 1024  # bytes of them from which on they stay as they are: joining would copy a lot for little


class ByteChunks:
    def __init__(self) -> None:
        self.packs: list[bytes] = []
        self.packed = 0  # chunks that are in packs,
        self._begins: list[int] = []  # the first one of each pack,
        self._ends = array("I")  # and where each ends in its pack
        self._rest: list[bytes] = []

    def __len__(self) -> int:
        return self.packed + len(self._rest)

    def __getitem__(self, at: int) -> bytes:
        if at >= self.packed:
            return self._rest[at - self.packed]
        pack = self.pack_of(at)
        begin = 0 if at == self._begins[pack] else self._ends[at - 1]
        return self.packs[pack][begin : self._ends[at]]

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.since(0))

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, ByteChunks) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # it changes

    def append(self, chunk: bytes) -> None:
        self._rest.append(chunk)

    def cut(self, length: int) -> None:
        """So many stay. None that is packed can be cut off."""
        del self._rest[length - self.packed :]

    def pack(self, settled: int) -> None:
        """Nothing before this one will change any more."""
        while settled - self.packed >= PACK:
            some = self._rest[:PACK]
            del self._rest[:PACK]
            if sum(map(len, some)) < LARGE:
                self._add(some)
            else:
                for chunk in some:
                    self._add([chunk])

    def _add(self, some: list[bytes]) -> None:
        self.packs.append(b"".join(some))
        self._begins.append(self.packed)
        end = 0
        for chunk in some:
            end += len(chunk)
            self._ends.append(end)
        self.packed += len(some)

    def pack_of(self, at: int) -> int:
        """A chunk that is packed. By halves; `bisect` is not worth loading for it at every start."""
        low, high = 0, len(self._begins)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._begins[middle] <= at else (low, middle)
        return low

    def within(self, pack: int) -> range:
        """The chunks of a pack."""
        end = self._begins[pack + 1] if pack + 1 < len(self._begins) else self.packed
        return range(self._begins[pack], end)

    def since(self, begin: int, end: int | None = None) -> list[bytes]:
        """From this one on, and up to another."""
        end = len(self) if end is None else end
        unpacked = [self[at] for at in range(begin, min(end, self.packed))]
        first = max(0, begin - self.packed)
        return [*unpacked, *islice(self._rest, first, max(first, end - self.packed))]
